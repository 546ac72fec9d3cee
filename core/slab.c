/* SPDX-License-Identifier: MIT */
/* slab - three arrays: records, their generations, and a stack of free indices.
 *
 *   free  [ . . . 7 2 5 ]        top at free_count; the last one given is taken next (warm in
 *         cache)
 *   generations[i]  odd = taken  goes up by one at each take and each give, so a handle fits one
 *                   use
 *
 * A generation comes round after 2^31 uses of one record: at a million a second, in 35 minutes of
 * doing nothing else, with a handle kept all that time; requests live for seconds. Refused:
 * pointers with a magic word inside the record, which a later owner of the same memory would make
 * valid again. */
#include "core/slab.h"

#include <stdbool.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"

#define SLAB_MAGIC 0x736c6162u
#define RECORD_ALIGN 64u
#define RECORD_JUNK 0xd5

struct slab {
    uint32_t magic;
    uint32_t count;
    uint32_t free_count;
    size_t record_bytes; /* rounded up to RECORD_ALIGN */
    char *records;
    uint32_t *generations;
    uint32_t *free;
};

enum rc slab_open(struct slab **out, uint32_t count, size_t record_bytes)
{
    must(count >= 1 && count <= 1u << 31);
    must(record_bytes >= 1);
    *out = NULL;
    if (record_bytes > SIZE_MAX - RECORD_ALIGN)
        return RC_NO_MEMORY;
    struct slab *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return RC_NO_MEMORY;
    s->magic = SLAB_MAGIC;
    s->count = count;
    s->free_count = count;
    s->record_bytes = (record_bytes + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
    if ((s->records = mem_alloc_array(count, s->record_bytes)) == NULL ||
        (s->generations = mem_alloc_array(count, sizeof *s->generations)) == NULL ||
        (s->free = mem_alloc_array(count, sizeof *s->free)) == NULL) {
        slab_close(s);
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++)
        s->free[i] = count - 1 - i;
    *out = s;
    return RC_OK;
}

void slab_close(struct slab *s)
{
    if (s == NULL)
        return;
    must(s->magic == SLAB_MAGIC);
    s->magic = 0;
    mem_free(s->records);
    mem_free(s->generations);
    mem_free(s->free);
    mem_free(s);
}

static void *record_at(const struct slab *s, uint32_t index)
{
    return s->records + (size_t)index * s->record_bytes;
}

static bool is_taken(const struct slab *s, uint32_t index)
{
    return (s->generations[index] & 1) != 0;
}

void *slab_take(struct slab *s, struct slab_handle *out)
{
    must(s->magic == SLAB_MAGIC);
    if (s->free_count == 0)
        return NULL;
    uint32_t index = s->free[--s->free_count];
    must(!is_taken(s, index));
    *out = (struct slab_handle){ index, ++s->generations[index] };
    void *record = record_at(s, index);
    memset(record, 0, s->record_bytes);
    return record;
}

void *slab_find(const struct slab *s, struct slab_handle handle)
{
    must(s->magic == SLAB_MAGIC);
    if (handle.index >= s->count || (handle.generation & 1) == 0 ||
        s->generations[handle.index] != handle.generation)
        return NULL;
    return record_at(s, handle.index);
}

void slab_give(struct slab *s, struct slab_handle handle)
{
    void *record = slab_find(s, handle);
    must(record != NULL);
    must(s->free_count < s->count);
    s->generations[handle.index]++;
    s->free[s->free_count++] = handle.index;
#if QUIRE_SLOW_CHECKS
    memset(record, RECORD_JUNK, s->record_bytes); /* a stale read shows */
#endif
}

struct slab_handle slab_handle_of(const struct slab *s, const void *record)
{
    must(s->magic == SLAB_MAGIC);
    size_t offset = (size_t)((const char *)record - s->records);
    must(offset % s->record_bytes == 0 && offset / s->record_bytes < s->count);
    uint32_t index = (uint32_t)(offset / s->record_bytes);
    must(is_taken(s, index));
    return (struct slab_handle){ index, s->generations[index] };
}

void *slab_next(const struct slab *s, uint32_t *cursor)
{
    must(s->magic == SLAB_MAGIC);
    while (*cursor < s->count) {
        uint32_t index = (*cursor)++;
        if (is_taken(s, index))
            return record_at(s, index);
    }
    return NULL;
}

uint32_t slab_taken_count(const struct slab *s)
{
    return s->count - s->free_count;
}
