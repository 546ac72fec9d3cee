/* SPDX-License-Identifier: MIT */
/* jinja_heap - memory of one compilation or one render: taken piece by piece under a budget, given
 * back all at once.
 *   owner    one thread; the opener closes it
 *   errors   NULL when the budget or the system's memory is spent: heap->starved says which
 *   limits   16-byte alignment; pieces are not zeroed */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_HEAP_H
#define QUIRE_FRONTEND_JINJA_JINJA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"

struct jinja_chunk;

struct jinja_heap {
    struct jinja_chunk *last;
    char *at;    /* free bytes of the last chunk */
    size_t left; /* how many */
    size_t used; /* bytes of all chunks */
    size_t used_max;
    bool starved; /* the system refused, not the budget */
};

void jinja_heap_open(struct jinja_heap *h, size_t used_max);
void jinja_heap_close(struct jinja_heap *h);

/* jinja_heap_take - bytes may be 0: a valid piece. */
void *jinja_heap_take(struct jinja_heap *h, size_t bytes) ATTR_MUST_USE;

/* jinja_heap_grow - a piece of new_bytes that begins with the old_bytes of p; in place where p is
 * the newest piece. p may be NULL when old_bytes is 0. */
void *jinja_heap_grow(struct jinja_heap *h, void *p, size_t old_bytes,
                      size_t new_bytes) ATTR_MUST_USE;

#endif
