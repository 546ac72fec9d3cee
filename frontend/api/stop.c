/* SPDX-License-Identifier: MIT */
/* stop - one Knuth-Morris-Pratt automaton per pattern, fed byte by byte.
 *
 *   stream    ... l e t   t h r o u g h | s i x   s e          matched = 6 of "six seven"
 *                                         '---------' withheld: equal to the pattern's beginning
 *
 * What is withheld always equals the first `matched` bytes of the pattern that matches most, so it
 * is never stored: it is read back from that pattern. */
#include "frontend/api/stop.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"

static uint32_t step(const struct stop_pattern *p, uint32_t matched, char c)
{
    while (matched > 0 && (matched == p->len || p->text[matched] != c))
        matched = p->fallback[matched - 1];
    return p->text[matched] == c ? matched + 1 : 0;
}

enum rc stop_add(struct stop *s, const char *text, size_t len, struct fault *fault)
{
    if (len == 0)
        return fault_set(fault, RC_INVALID, "stop: a stop text may not be empty");
    if (len > STOP_TEXT_BYTES_MAX)
        return fault_set(fault, RC_INVALID, "stop: a stop text may have %u bytes, not %zu",
                         STOP_TEXT_BYTES_MAX, len);
    if (s->count == STOP_TEXTS_MAX)
        return fault_set(fault, RC_INVALID, "stop: at most %u stop texts", STOP_TEXTS_MAX);
    struct stop_pattern *p = &s->patterns[s->count];
    p->text = mem_copy_text(text, len);
    p->fallback = mem_alloc_array(len, sizeof *p->fallback);
    if (p->text == NULL || p->fallback == NULL) {
        mem_free(p->text);
        mem_free(p->fallback);
        *p = (struct stop_pattern){ 0 };
        return fault_set(fault, RC_NO_MEMORY, "stop: out of memory");
    }
    p->len = (uint32_t)len;
    for (uint32_t i = 1; i < p->len; i++)
        p->fallback[i] = step(p, p->fallback[i - 1], text[i]);
    s->count++;
    return RC_OK;
}

size_t stop_held_bytes(const struct stop *s)
{
    return s->count == 0 || s->hit ? 0 : s->patterns[s->longest].matched;
}

/* Feeds one byte; s->hit when a pattern is complete, the longest one of them. */
static void feed(struct stop *s, char c)
{
    s->longest = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct stop_pattern *p = &s->patterns[i];
        p->matched = step(p, p->matched, c);
        if (p->matched == p->len && s->deaf)
            p->matched = p->fallback[p->len - 1];
        if (p->matched == p->len && p->len > s->hit_len) {
            s->hit = true;
            s->hit_text = p->text;
            s->hit_len = p->len;
        }
        if (p->matched > s->patterns[s->longest].matched)
            s->longest = i;
    }
}

/* Appends the first `count` bytes of (what was withheld before, then text). */
static enum rc release(const struct stop_pattern *held, size_t held_bytes, const char *text,
                       size_t count, struct text *out)
{
    size_t old = count < held_bytes ? count : held_bytes;
    if (old > 0) {
        enum rc rc = text_append(out, held->text, old);
        if (rc != RC_OK)
            return rc;
    }
    return count > old ? text_append(out, text, count - old) : RC_OK;
}

enum rc stop_push(struct stop *s, const char *text, size_t len, struct text *out)
{
    if (s->hit || len == 0)
        return RC_OK;
    if (s->count == 0)
        return text_append(out, text, len);
    const struct stop_pattern *held = &s->patterns[s->longest];
    size_t held_bytes = held->matched;
    for (size_t i = 0; i < len; i++) {
        feed(s, text[i]);
        if (!s->hit)
            continue;
        must(held_bytes + i + 1 >= s->hit_len);
        return release(held, held_bytes, text, held_bytes + i + 1 - s->hit_len, out);
    }
    return release(held, held_bytes, text, held_bytes + len - stop_held_bytes(s), out);
}

enum rc stop_flush(struct stop *s, struct text *out)
{
    size_t held = stop_held_bytes(s);
    enum rc rc = held > 0 ? text_append(out, s->patterns[s->longest].text, held) : RC_OK;
    for (uint32_t i = 0; i < s->count; i++)
        s->patterns[i].matched = 0;
    return rc;
}

void stop_close(struct stop *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        mem_free(s->patterns[i].text);
        mem_free(s->patterns[i].fallback);
    }
    *s = (struct stop){ 0 };
}
