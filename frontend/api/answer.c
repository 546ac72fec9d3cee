/* SPDX-License-Identifier: MIT */
/* answer - pushes are gathered in `in`; steps read from its front what is decided.
 *
 *   START -> THOUGHT -> AFTER -> FRESH -> TEXT <-> calls (answer_call.c)
 *
 * A step decides from the bytes alone, and waits while more bytes could change its mind; so where
 * the text was cut does not matter. Withheld are: the beginning of what may be a mark, blanks that
 * a mark or the end would swallow, and a call until its name and the place of its arguments are
 * known. Each byte is searched a bounded number of times: what is withheld is short, but for the
 * members of a call, which are read byte by byte. */
#include "frontend/api/answer.h"

#include <string.h>

#include "core/mem.h"
#include "frontend/api/answer_impl.h"

/* --- styles --- */

static bool has(const char *source, const char *word)
{
    return strstr(source, word) != NULL;
}

struct answer_style answer_style_of(const char *source)
{
    struct answer_style s = { .calls = ANSWER_TAGS };
    if (has(source, MARK_MISTRAL))
        s.calls = ANSWER_MISTRAL;
    else if (has(source, MARK_TAG) || has(source, MARK_FUNCTION))
        s.calls = ANSWER_TAGS;
    else if (has(source, MARK_PYTHON) ||
             (has(source, "<|start_header_id|>") && has(source, "\"parameters\"")))
        s.calls = ANSWER_LLAMA;
    if (has(source, "[THINK]")) {
        s.think_open = "[THINK]";
        s.think_close = "[/THINK]";
    } else if (has(source, "</think>")) {
        s.think_open = "<think>";
        s.think_close = "</think>";
    }
    return s;
}

const char *answer_style_name(const struct answer_style *style)
{
    static const char *const names[] = { "tags", "llama", "mistral" };
    return names[style->calls];
}

uint32_t answer_style_ids(const struct answer_style *style, const struct tokenizer *t,
                          int32_t ids[ANSWER_MARKS_MAX])
{
    static const char *const marks[3][7] = {
        { MARK_TAG, MARK_TAG_END, MARK_FUNCTION, "</function>", "<parameter=", "</parameter>" },
        { MARK_PYTHON },
        { MARK_MISTRAL, "[ARGS]", "[CALL_ID]" },
    };
    const char *const thoughts[2] = { style->think_open, style->think_close };
    uint32_t count = 0;
    for (int i = 0; i < 9; i++) {
        const char *mark = i < 2 ? thoughts[i] : marks[style->calls][i - 2];
        int32_t id = mark != NULL ? tokenizer_find(t, mark, strlen(mark)) : -1;
        if (id >= 0 && tokenizer_is_control(t, id))
            ids[count++] = id;
    }
    return count;
}

/* --- searching the pending text --- */

size_t answer_blanks(const struct answer *a)
{
    size_t n = 0;
    while (n < answer_left(a) && answer_is_blank(answer_pending(a)[n]))
        n++;
    return n;
}

enum answer_match answer_begins(const struct answer *a, size_t from, const char *mark)
{
    size_t len = strlen(mark), left = answer_left(a) - from;
    if (memcmp(answer_pending(a) + from, mark, left < len ? left : len) != 0)
        return MATCH_NONE;
    return left >= len ? MATCH_WHOLE : a->ended ? MATCH_NONE : MATCH_PART;
}

size_t answer_find(const struct answer *a, const char *mark)
{
    const char *at = memmem(answer_pending(a), answer_left(a), mark, strlen(mark));
    return at != NULL ? (size_t)(at - answer_pending(a)) : SIZE_MAX;
}

size_t answer_tail(const struct answer *a, const char *mark)
{
    size_t left = answer_left(a), longest = strlen(mark) - 1;
    for (size_t n = left < longest ? left : longest; n > 0; n--)
        if (memcmp(answer_pending(a) + left - n, mark, n) == 0)
            return n;
    return 0;
}

/* --- text --- */

/* Length of the first `len` pending bytes without blanks at their end. */
static size_t trimmed(const struct answer *a, size_t len)
{
    while (len > 0 && answer_is_blank(answer_pending(a)[len - 1]))
        len--;
    return len;
}

/* What may be shown of the pending text, when `tail` bytes at its end may begin a mark: not the
 * blanks before them either. At the end everything is shown, but for half a mark that a limit cut
 * off. */
static size_t showable(const struct answer *a, size_t tail, bool drop_blanks)
{
    size_t len = answer_left(a);
    if (!a->ended || a->cut)
        len -= tail;
    bool half_mark = a->cut && tail > 0;
    return !a->ended || half_mark || drop_blanks ? trimmed(a, len) : len;
}

static enum rc show(struct answer *a, struct text *out, size_t len, bool skip_blanks)
{
    size_t skip = skip_blanks && out->len == 0 ? answer_blanks(a) : 0;
    if (skip > len)
        skip = len;
    enum rc rc = len > skip ? text_append(out, answer_pending(a) + skip, len - skip) : RC_OK;
    a->at += len;
    return rc;
}

static enum rc wait_or_finish(struct answer *a)
{
    if (a->ended)
        a->at = a->in.len;
    return RC_AGAIN;
}

static enum rc step_start(struct answer *a)
{
    size_t blanks = answer_blanks(a);
    enum answer_match m = MATCH_NONE;
    if (a->config.thinks) {
        if (blanks == answer_left(a) && !a->ended)
            return RC_AGAIN;
        m = answer_begins(a, blanks, a->config.style.think_open);
    }
    if (m == MATCH_PART)
        return RC_AGAIN;
    if (m == MATCH_WHOLE)
        a->at += blanks + strlen(a->config.style.think_open);
    a->state = m == MATCH_WHOLE || a->config.in_thought ? ANSWER_THOUGHT : ANSWER_FRESH;
    return RC_OK;
}

static enum rc step_thought(struct answer *a)
{
    const char *close = a->config.style.think_close;
    size_t at = answer_find(a, close);
    if (at == SIZE_MAX) {
        enum rc rc = show(a, &a->reasoning, showable(a, answer_tail(a, close), true), true);
        return rc == RC_OK ? wait_or_finish(a) : rc;
    }
    size_t len = trimmed(a, at);
    enum rc rc = show(a, &a->reasoning, len, true);
    a->at += at - len + strlen(close);
    a->state = ANSWER_AFTER;
    return rc;
}

static enum rc step_after(struct answer *a)
{
    a->at += answer_blanks(a);
    if (answer_left(a) == 0)
        return RC_AGAIN;
    a->state = ANSWER_FRESH;
    return RC_OK;
}

static enum rc step_fresh(struct answer *a)
{
    size_t blanks = answer_blanks(a);
    if (a->config.tools != NULL && a->config.style.calls == ANSWER_LLAMA) {
        if (blanks == answer_left(a) && !a->ended)
            return RC_AGAIN;
        if (blanks < answer_left(a) && answer_pending(a)[blanks] == '{')
            return answer_call_begin(a, blanks, ANSWER_ITEM, true);
    }
    a->state = ANSWER_TEXT;
    return RC_OK;
}

/* The marks that begin a call, and what follows each. */
struct mark {
    const char *text;
    enum answer_state state;
};
static const struct mark marks[3][2] = {
    { { MARK_TAG, ANSWER_TAG }, { MARK_FUNCTION, ANSWER_FUNCTION } },
    { { MARK_PYTHON, ANSWER_ITEM }, { NULL, ANSWER_TEXT } },
    { { MARK_MISTRAL, ANSWER_NAME }, { NULL, ANSWER_TEXT } },
};

static enum rc step_text(struct answer *a)
{
    const struct mark *mark = NULL, *list = marks[a->config.style.calls];
    size_t at = SIZE_MAX, tail = 0;
    if (a->config.tools == NULL) {
        enum rc rc = show(a, &a->content, answer_left(a), false);
        return rc == RC_OK ? RC_AGAIN : rc;
    }
    for (int i = 0; i < 2 && list[i].text != NULL; i++) {
        size_t found = answer_find(a, list[i].text), part = answer_tail(a, list[i].text);
        if (found < at) {
            at = found;
            mark = &list[i];
        }
        tail = part > tail ? part : tail;
    }
    bool behind_call = a->call_count > 0;
    if (mark == NULL) {
        enum rc rc = show(a, &a->content, showable(a, tail, behind_call), behind_call);
        return rc == RC_OK ? wait_or_finish(a) : rc;
    }
    size_t len = trimmed(a, at);
    enum rc rc = show(a, &a->content, len, behind_call);
    if (rc != RC_OK)
        return rc;
    return answer_call_begin(a, at - len + strlen(mark->text), mark->state, false);
}

static enum rc step(struct answer *a)
{
    switch (a->state) {
    case ANSWER_START:
        return step_start(a);
    case ANSWER_THOUGHT:
        return step_thought(a);
    case ANSWER_AFTER:
        return step_after(a);
    case ANSWER_FRESH:
        return step_fresh(a);
    case ANSWER_TEXT:
        return step_text(a);
    default:
        return answer_call_step(a);
    }
}

/* Reads all that can be read; what is left moves to the front. */
static enum rc read_pending(struct answer *a)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && !a->done)
        rc = step(a);
    if (a->done)
        a->at = a->in.len;
    memmove(a->in.data, a->in.data + a->at, answer_left(a));
    a->in.len -= a->at;
    a->at = 0;
    return rc == RC_AGAIN ? RC_OK : rc;
}

/* --- the whole --- */

void answer_open(struct answer *a, const struct answer_config *config)
{
    *a = (struct answer){ .config = *config };
    if (!json_is_array(config->tools) || json_array_size(config->tools) == 0)
        a->config.tools = NULL;
    a->config.thinks = config->thinks && config->style.think_open != NULL;
    a->config.in_thought = a->config.thinks && config->in_thought;
}

enum rc answer_push(struct answer *a, const char *text, size_t len)
{
    if (len == 0 || a->done)
        return RC_OK;
    enum rc rc = text_append(&a->in, text, len);
    return rc == RC_OK ? read_pending(a) : rc;
}

enum rc answer_end(struct answer *a, bool cut)
{
    enum rc rc = text_append(&a->in, "", 0);
    if (a->ended || a->done || rc != RC_OK)
        return rc;
    a->ended = true;
    a->cut = cut;
    rc = read_pending(a);
    if (rc == RC_OK && a->state > ANSWER_CALL_STATES)
        rc = answer_call_end(a);
    return rc == RC_OK ? read_pending(a) : rc;
}

void answer_close(struct answer *a)
{
    for (uint32_t i = 0; i < a->call_count; i++) {
        text_close(&a->calls[i].name);
        text_close(&a->calls[i].arguments);
    }
    mem_free(a->calls);
    struct text *const texts[] = { &a->reasoning, &a->content, &a->in,      &a->raw,
                                   &a->key,       &a->value,   &a->function };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        text_close(texts[i]);
    *a = (struct answer){ .call_count = 0 };
}
