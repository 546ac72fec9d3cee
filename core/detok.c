/* SPDX-License-Identifier: MIT */
/* detok - see detok.h. Bytes go one by one into `held` until they are a character, or until it is
 * sure that they never will be; so at most three bytes wait. What is wrong becomes one U+FFFD for
 * each longest beginning of a character (the practice of the Unicode standard, which browsers and
 * Python follow), the same whatever the split into tokens. */
#include "core/detok.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"

#define REPLACEMENT "\xef\xbf\xbd"
#define PIECE_INLINE 256u

void text_close(struct text *t)
{
    mem_free(t->data);
    *t = (struct text){ 0 };
}

enum rc text_append(struct text *t, const char *data, size_t len)
{
    if (len > SIZE_MAX / 4 || t->len > SIZE_MAX / 4)
        return RC_NO_MEMORY;
    if (t->capacity < t->len + len + 1) {
        size_t capacity = t->capacity * 2 + len + 64;
        char *grown = mem_grow(t->data, t->len, capacity);
        if (grown == NULL)
            return RC_NO_MEMORY;
        t->data = grown;
        t->capacity = capacity;
    }
    memcpy(t->data + t->len, data, len);
    t->len += len;
    t->data[t->len] = '\0';
    return RC_OK;
}

void detok_open(struct detok *d, const struct tokenizer *t, bool continues, bool special)
{
    *d = (struct detok){ .tokenizer = t,
                         .special = special,
                         .at_start = !continues && tokenizer_adds_blank(t) };
}

void detok_show(struct detok *d, const int32_t *ids, uint32_t count)
{
    d->shown = ids;
    d->shown_count = count;
}

static bool is_shown(const struct detok *d, int32_t id)
{
    for (uint32_t i = 0; i < d->shown_count; i++)
        if (d->shown[i] == id)
            return true;
    return d->special;
}

/* Writes out what is held as far as it is decided. */
static enum rc settle(struct detok *d, bool at_end, struct text *out)
{
    while (d->held_count > 0) {
        struct utf8_step step = utf8_decode(d->held, d->held_count);
        if (step.state == UTF8_SHORT && !at_end)
            return RC_OK;
        enum rc rc = step.state == UTF8_OK ? text_append(out, d->held, step.len)
                                           : text_append(out, REPLACEMENT, strlen(REPLACEMENT));
        if (rc != RC_OK)
            return rc;
        memmove(d->held, d->held + step.len, d->held_count - step.len);
        d->held_count = (uint8_t)(d->held_count - step.len);
    }
    return RC_OK;
}

static enum rc push_bytes(struct detok *d, const char *data, size_t len, struct text *out)
{
    for (size_t i = 0; i < len;) {
        size_t plain = i;
        while (d->held_count == 0 && plain < len && (unsigned char)data[plain] < 0x80)
            plain++;
        enum rc rc = RC_OK;
        if (plain > i) {
            rc = text_append(out, data + i, plain - i);
            i = plain;
        } else {
            must(d->held_count < sizeof d->held);
            d->held[d->held_count++] = data[i++];
            rc = settle(d, false, out);
        }
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc detok_push(struct detok *d, int32_t id, struct text *out)
{
    char piece[PIECE_INLINE];
    char *data = piece;
    bool special = is_shown(d, id);
    size_t len = tokenizer_piece(d->tokenizer, id, special, piece, sizeof piece);
    if (len > sizeof piece) {
        data = mem_alloc_raw(len);
        if (data == NULL)
            return RC_NO_MEMORY;
        (void)tokenizer_piece(d->tokenizer, id, special, data, len);
    }
    size_t skip = 0;
    if (d->at_start && !tokenizer_is_control(d->tokenizer, id)) {
        skip = len > 0 && data[0] == ' ';
        d->at_start = false;
    }
    enum rc rc = push_bytes(d, data + skip, len - skip, out);
    if (data != piece)
        mem_free(data);
    return rc;
}

enum rc detok_flush(struct detok *d, struct text *out)
{
    return settle(d, true, out);
}
