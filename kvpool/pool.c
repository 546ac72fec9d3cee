/* SPDX-License-Identifier: MIT */
/* pool - one mapping, cut into blocks:
 *
 *   [guard page][slack up to 2 MiB][block 0][block 1] ... [block n-1][guard page]
 *
 * The blocks start at a huge page and are handed out upward, and a block that was given back is
 * taken again before a new one is touched: physical memory grows with the highest number of
 * blocks ever in use, and stays dense. The mapping is made readable and writable at open, so
 * that a system which counts promised memory refuses then, with numbers, and never in the middle
 * of a step. Refused: growing by remapping (copies, moves addresses under the executor); the
 * general allocator (it cannot promise that a block is whole pages). */
#include "kvpool/internal.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define BLOCK_JUNK 0xff /* NaN in every float format: a stale read shows in the logits */

/* Reserves the mapping of p->block_count blocks. */
static enum rc map_blocks(struct kvpool *p, size_t block_bytes, struct fault *fault)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes;
    if (block_bytes > SIZE_MAX - page)
        return fault_set(fault, RC_NO_FIT, "KV block of %zu bytes is too large", block_bytes);
    p->block_bytes = (block_bytes + page - 1) / page * page;
    if (__builtin_mul_overflow(p->block_bytes, (size_t)p->block_count, &bytes) ||
        bytes > SIZE_MAX / 2 - HUGE_PAGE_BYTES - 2 * page)
        return fault_set(fault, RC_NO_FIT, "KV pool of %u blocks of %zu bytes is too large",
                         p->block_count, p->block_bytes);
    p->map_bytes = bytes + HUGE_PAGE_BYTES + 2 * page;
    p->map = mmap(NULL, p->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->map == MAP_FAILED) {
        p->map = NULL;
        return fault_set_errno(fault, RC_NO_FIT, "KV pool: cannot reserve %zu MiB", bytes >> 20);
    }
    uintptr_t first = (uintptr_t)p->map + page;
    p->base = (char *)p->map + page + (HUGE_PAGE_BYTES - first % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    if (mprotect(p->base, bytes, PROT_READ | PROT_WRITE) != 0)
        return fault_set_errno(fault, RC_NO_FIT, "KV pool: cannot have %zu MiB", bytes >> 20);
    /* Advice only: without huge pages the same bits come, with more TLB misses. */
    (void)madvise(p->base, bytes, MADV_HUGEPAGE);
    return RC_OK;
}

/* Records after the mapping: a size that the machine cannot have is refused before it costs
 * anything. */
static bool take_records(struct kvpool *p)
{
    p->blocks = mem_alloc_array(p->block_count, sizeof *p->blocks);
    p->free_stack = mem_alloc_array(p->block_count, sizeof *p->free_stack);
    p->audit_refs = mem_alloc_array(p->block_count, sizeof *p->audit_refs);
    p->tokens = mem_alloc_raw((size_t)p->block_count * sizeof *p->tokens);
    uint32_t buckets = 64;
    while (buckets < 2 * p->block_count)
        buckets *= 2;
    p->buckets = mem_alloc_raw(buckets * sizeof *p->buckets);
    if (!p->blocks || !p->free_stack || !p->audit_refs || !p->tokens || !p->buckets)
        return false;
    p->bucket_mask = buckets - 1;
    for (uint32_t i = 0; i < buckets; i++)
        p->buckets[i] = BLOCK_NONE;
    for (uint32_t i = 0; i < ROOTS; i++)
        p->roots[i] = BLOCK_NONE;
    for (uint32_t i = 0; i < SEGMENTS; i++)
        p->lru[i] = (struct lru){ BLOCK_NONE, BLOCK_NONE, 0 };
    return true;
}

/* A seed that nobody outside can know; a system without one still has addresses laid out at
 * random. */
static uint64_t secret_seed(const struct kvpool *p)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint64_t)(uintptr_t)p;
    return seed | 1;
}

enum rc kvpool_open(struct kvpool **out, uint32_t block_count, size_t block_bytes,
                    struct fault *fault)
{
    *out = NULL;
    if (block_count == 0 || block_count > KVPOOL_BLOCKS_MAX)
        return fault_set(fault, RC_NO_FIT, "KV pool of %u blocks: 1..%u are possible", block_count,
                         KVPOOL_BLOCKS_MAX);
    struct kvpool *p = mem_alloc(sizeof *p);
    if (p == NULL)
        return fault_set(fault, RC_NO_MEMORY, "KV pool: out of memory");
    p->magic = KVPOOL_MAGIC;
    p->block_count = block_count;
    p->keep = true;
    p->hash_seed = secret_seed(p);
    enum rc rc = block_bytes > 0 ? map_blocks(p, block_bytes, fault) : RC_OK;
    if (rc == RC_OK && !take_records(p))
        rc = fault_set(fault, RC_NO_MEMORY, "KV pool: out of memory for %u block records",
                       block_count);
    if (rc != RC_OK) {
        kvpool_close(p);
        return rc;
    }
    *out = p;
    return RC_OK;
}

uint64_t kvpool_seed(const struct kvpool *p)
{
    return p->hash_seed;
}

void kvpool_set_seed(struct kvpool *p, uint64_t seed)
{
    must(p->fresh == 0);
    p->hash_seed = seed;
}

void kvpool_close(struct kvpool *p)
{
    if (p == NULL)
        return;
    must(p->magic == KVPOOL_MAGIC);
    store_close(p->store, p);
    p->magic = 0;
    if (p->map != NULL) {
        int failed = munmap(p->map, p->map_bytes);
        must(failed == 0);
    }
    mem_free(p->buckets);
    mem_free(p->tokens);
    mem_free(p->audit_refs);
    mem_free(p->free_stack);
    mem_free(p->blocks);
    mem_free(p);
}

void *kvpool_base(const struct kvpool *p)
{
    return p->base;
}

size_t kvpool_block_bytes(const struct kvpool *p)
{
    return p->block_bytes;
}

uint32_t kvpool_block_count(const struct kvpool *p)
{
    return p->block_count;
}

uint32_t kvpool_free_count(const struct kvpool *p)
{
    return p->free_stacked + (p->block_count - p->fresh);
}

uint32_t kvpool_cached_count(const struct kvpool *p)
{
    return p->lru[SEGMENT_PROBATION].count + p->lru[SEGMENT_PROTECTED].count;
}

uint32_t kvpool_available_count(const struct kvpool *p)
{
    return kvpool_free_count(p) + kvpool_cached_count(p) - p->dirty;
}

void kvpool_keep_cached(struct kvpool *p, bool keep)
{
    p->keep = keep;
    if (!keep) {
        bool emptied = evict_ensure(p, kvpool_available_count(p));
        must(emptied);
    }
}

struct kvpool_stats kvpool_stats_get(const struct kvpool *p)
{
    return p->stats;
}

enum rc kvpool_take_block(struct block_id *out, struct kvpool *p)
{
    must(p->magic == KVPOOL_MAGIC);
    uint32_t index;
    if (!evict_ensure(p, 1))
        return RC_FULL; /* the scheduler waits or preempts */
    if (p->free_stacked > 0)
        index = p->free_stack[--p->free_stacked];
    else
        index = p->fresh++;
    struct block *b = &p->blocks[index];
    must(b->state == BLOCK_FREE && b->ref == 0); /* pair of the check in pool_free_block */
    *b = (struct block){
        .ref = 1,
        .gen = b->gen + 1,
        .parent = BLOCK_NONE,
        .child = BLOCK_NONE,
        .sib_next = BLOCK_NONE,
        .sib_prev = BLOCK_NONE,
        .slot = SLOT_NONE,
        .state = BLOCK_USED,
    };
    *out = (struct block_id){ index };
    return RC_OK;
}

void kvpool_ref_block(struct kvpool *p, struct block_id id)
{
    must(id.index < p->block_count);
    struct block *b = &p->blocks[id.index];
    must(b->state == BLOCK_USED && b->ref > 0 && b->ref < UINT32_MAX);
    b->ref++;
}

void kvpool_drop_block(struct kvpool *p, struct block_id id)
{
    must(p->magic == KVPOOL_MAGIC);
    must(id.index < p->fresh);
    struct block *b = &p->blocks[id.index];
    must(b->state == BLOCK_USED && b->ref > 0);
    b->ref--;
    for (uint32_t index = id.index; index != BLOCK_NONE && p->blocks[index].ref == 0;) {
        b = &p->blocks[index];
        uint32_t parent = b->holds_parent ? b->parent : BLOCK_NONE;
        b->holds_parent = false;
        evict_keep(p, index);
        if (parent != BLOCK_NONE) {
            p->blocks[parent].pins--;
            p->blocks[parent].ref--;
        }
        index = parent;
    }
}

void pool_unpin(struct kvpool *p, uint32_t index)
{
    must(p->blocks[index].pins > 0);
    p->blocks[index].pins--;
    kvpool_drop_block(p, (struct block_id){ index });
}

void pool_free_block(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    must(b->state != BLOCK_FREE && b->ref == 0 && !b->indexed && b->child == BLOCK_NONE);
    must(b->io == IO_NONE); /* I7: nothing under way may touch its memory */
    b->state = BLOCK_FREE;
#if QUIRE_SLOW_CHECKS
    if (p->base != NULL)
        memset(p->base + (size_t)index * p->block_bytes, BLOCK_JUNK, p->block_bytes);
#endif
    must(p->free_stacked < p->block_count);
    p->free_stack[p->free_stacked++] = index;
}

uint32_t kvpool_relieve(struct kvpool *p)
{
    must(p->magic == KVPOOL_MAGIC);
    uint32_t free = kvpool_free_count(p), may_go = kvpool_available_count(p) - free;
    (void)evict_ensure(p, free + (may_go + 1) / 2); /* as many as possible */
    for (uint32_t i = 0; i < p->free_stacked && p->base != NULL; i++) {
        struct block *b = &p->blocks[p->free_stack[i]];
        if (!b->given_back)
            (void)madvise(p->base + (size_t)p->free_stack[i] * p->block_bytes, p->block_bytes,
                          MADV_DONTNEED);
        b->given_back = true;
    }
    return kvpool_free_count(p) - free;
}

uint32_t kvpool_ref_count(const struct kvpool *p, struct block_id id)
{
    must(id.index < p->block_count);
    return p->blocks[id.index].ref;
}
