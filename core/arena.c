/* SPDX-License-Identifier: MIT */
/* arena - [used | red zone 64 bytes | free]. The red zone moves with `used`; arena_reset checks it,
 * so a writer that ran over its piece is found at the end of the step that did it. */
#include "core/arena.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"

#define ARENA_ALIGN 64u
#define RED_BYTE 0x5e

static void paint_red_zone(struct arena *a)
{
    memset(a->base + a->used, RED_BYTE, ARENA_ALIGN);
}

static bool red_zone_whole(const struct arena *a)
{
    const char *p = a->base + a->used;
    return p[0] == RED_BYTE && memcmp(p, p + 1, ARENA_ALIGN - 1) == 0;
}

enum rc arena_open(struct arena *a, size_t bytes)
{
    *a = (struct arena){ 0 };
    if (bytes > SIZE_MAX - 2 * ARENA_ALIGN)
        return RC_NO_MEMORY;
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    a->base = mem_alloc_raw(bytes + ARENA_ALIGN);
    if (a->base == NULL)
        return RC_NO_MEMORY;
    a->bytes = bytes;
    paint_red_zone(a);
    return RC_OK;
}

void arena_close(struct arena *a)
{
    if (a->base != NULL)
        must(red_zone_whole(a));
    mem_free(a->base);
    *a = (struct arena){ 0 };
}

void *arena_take(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > a->bytes - a->used)
        return NULL;
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    char *p = a->base + a->used;
    must(red_zone_whole(a));
    if (QUIRE_SLOW_CHECKS)
        memset(p, RED_BYTE, bytes); /* what is read without having been written shows */
    a->used += bytes;
    if (a->used > a->used_max)
        a->used_max = a->used;
    paint_red_zone(a);
    return p;
}

size_t arena_mark(const struct arena *a)
{
    return a->used;
}

void arena_reset(struct arena *a, size_t mark)
{
    must(mark <= a->used);
    must(red_zone_whole(a));
    a->used = mark;
    paint_red_zone(a);
}
