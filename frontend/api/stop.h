/* SPDX-License-Identifier: MIT */
/* stop - stop texts over a stream: lets text through until one of them is complete.
 * Text is withheld only while its end may be the beginning of a stop text, and comes out when it
 * turns out not to be, or at the end. The match that ends first wins, of those that end together
 * the one that began first. The stop text itself is not part of the output. What comes out does not
 * depend on how the stream was cut.
 *   owner    one stream; the patterns belong to the matcher, their bytes are copied
 *   thread   the stream's
 *   errors   RC_NO_MEMORY; RC_INVALID for an empty pattern, too many or too long ones
 *   limits   STOP_TEXTS_MAX, STOP_TEXT_BYTES_MAX */
#ifndef QUIRE_FRONTEND_API_STOP_H
#define QUIRE_FRONTEND_API_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/detok.h"
#include "core/err.h"
#include "core/limits.h"

struct stop_pattern {
    char *text;         /* [len] */
    uint32_t *fallback; /* [len] length of the longest border of the first i + 1 bytes */
    uint32_t len;
    uint32_t matched; /* bytes of the pattern that the stream's end equals */
};

/* Zero it before the first use; stop_close frees what it holds. */
struct stop {
    struct stop_pattern patterns[STOP_TEXTS_MAX];
    uint32_t count;
    uint32_t longest;     /* pattern whose beginning is withheld */
    bool deaf;            /* what is complete now does not count */
    bool hit;             /* a stop text was complete: */
    const char *hit_text; /* this one */
    uint32_t hit_len;
};

/* stop_add - before the first push. */
enum rc stop_add(struct stop *s, const char *text, size_t len, struct fault *fault) ATTR_MUST_USE;

/* stop_push - appends to out what may be shown by now. After a match s->hit is set and further
 * bytes are dropped. */
enum rc stop_push(struct stop *s, const char *text, size_t len, struct text *out) ATTR_MUST_USE;

/* stop_flush - at the end: appends what is withheld, unless there was a match. */
enum rc stop_flush(struct stop *s, struct text *out) ATTR_MUST_USE;

/* stop_held_bytes - bytes that are withheld. */
size_t stop_held_bytes(const struct stop *s);

void stop_close(struct stop *s);

#endif
