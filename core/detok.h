/* SPDX-License-Identifier: MIT */
/* detok - streaming detokenizer: token ids in, whole UTF-8 characters out. Bytes of an unfinished
 * character are held back until it is whole; what can never become valid UTF-8 comes out as
 * U+FFFD, and so does an unfinished character at the end.
 *   owner, thread   one stream, its caller; no memory of its own */
#ifndef QUIRE_CORE_DETOK_H
#define QUIRE_CORE_DETOK_H

#include "core/tokenizer.h"

struct detok {
    const struct tokenizer *tokenizer;
    bool special;         /* control tokens are written out */
    const int32_t *shown; /* these control tokens are written out in any case */
    uint32_t shown_count;
    bool at_start;      /* SentencePiece: the dummy prefix blank is dropped once */
    uint8_t held_count; /* bytes of an unfinished character */
    char held[4];
};

/* A growing text. Zero it before the first use; text_close frees it. Always zero-terminated when
 * data is set. */
struct text {
    char *data;
    size_t len;
    size_t capacity;
};
void text_close(struct text *t);
enum rc text_append(struct text *t, const char *data, size_t len) ATTR_MUST_USE;

/* detok_open - a stream that continues after a prompt (continues = true: no dummy blank to drop)
 * or starts afresh. */
void detok_open(struct detok *d, const struct tokenizer *t, bool continues, bool special);

/* detok_show - writes out these control tokens too; the ids must live as long as the stream. */
void detok_show(struct detok *d, const int32_t *ids, uint32_t count);

/* detok_push - appends the text that id completes. detok_flush - appends what is held, at the end.
 */
enum rc detok_push(struct detok *d, int32_t id, struct text *out) ATTR_MUST_USE;
enum rc detok_flush(struct detok *d, struct text *out) ATTR_MUST_USE;

#endif
