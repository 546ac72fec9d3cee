/* SPDX-License-Identifier: MIT */
/* arena - bump allocation with mark and reset, for memory that dies together (a start-up, a step).
 *   owner    one thread; the memory belongs to the arena and goes with arena_close
 *   errors   arena_take gives NULL when the arena is full: a fixed size, never grown
 *   limits   64-byte alignment; a red zone behind the used part is checked at every reset */
#ifndef QUIRE_CORE_ARENA_H
#define QUIRE_CORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/err.h"

struct arena {
    char *base;
    size_t bytes;     /* capacity */
    size_t used;      /* always a multiple of 64 */
    size_t used_max;  /* high-water mark, for statistics */
};

enum rc arena_open(struct arena *a, size_t bytes) ATTR_MUST_USE;
void arena_close(struct arena *a);

/* arena_take - count x size bytes, 64-byte aligned, to be written first; NULL when they do not
 * fit. */
void *arena_take(struct arena *a, size_t count, size_t size) ATTR_MUST_USE;

/* arena_mark / arena_reset - everything taken after the mark is given back at once. */
size_t arena_mark(const struct arena *a);
void arena_reset(struct arena *a, size_t mark);

#endif
