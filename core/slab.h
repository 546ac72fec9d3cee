/* SPDX-License-Identifier: MIT */
/* slab - a fixed number of records of one size, named by handles that go stale when the record is
 * given back: an old handle finds nothing, never somebody else's record.
 *   owner    one thread; no locks
 *   memory   everything is allocated by slab_open; records are 64-byte aligned
 *   errors   NULL when all records are taken, or for a stale handle: both are answers */
#ifndef QUIRE_CORE_SLAB_H
#define QUIRE_CORE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct slab;

/* A name for one use of one record. All zeros names nothing. */
struct slab_handle {
    uint32_t index;
    uint32_t generation; /* odd while the record is taken */
};

/* slab_open - count records (1 .. 2^31) of at least record_bytes each. */
enum rc slab_open(struct slab **out, uint32_t count, size_t record_bytes) ATTR_MUST_USE;
void slab_close(struct slab *s);

/* slab_take - a zeroed record and its handle; NULL when none is free. Ones given back last come
 * first. */
void *slab_take(struct slab *s, struct slab_handle *out) ATTR_MUST_USE;

/* slab_find - the record of a handle; NULL when it was given back since, or never was. */
void *slab_find(const struct slab *s, struct slab_handle handle);

/* slab_give - the record back; must() on a stale handle. */
void slab_give(struct slab *s, struct slab_handle handle);

/* slab_handle_of - the handle of a taken record. */
struct slab_handle slab_handle_of(const struct slab *s, const void *record);

/* slab_next - the taken records in index order: start with *cursor 0, until NULL. */
void *slab_next(const struct slab *s, uint32_t *cursor);

uint32_t slab_taken_count(const struct slab *s);

#endif
