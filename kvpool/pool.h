/* SPDX-License-Identifier: MIT */
/* pool - KV blocks: one reserved mapping, block ids, reference counts and a free list. A block
 * holds the keys and values of KV_BLOCK_TOKENS tokens of all layers; the pool knows its size in
 * bytes and nothing of what is inside.
 *   owner    the scheduler thread: no locks. Executors get the base address and plain ids
 *   errors   RC_FULL when no block is to be had: an input for the scheduler, not an error
 *   rules    docs: kvpool/README.md, invariants I1..I13 */
#ifndef QUIRE_KVPOOL_POOL_H
#define QUIRE_KVPOOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/limits.h"

#define KVPOOL_BLOCKS_MAX (1u << 24) /* 2^29 tokens: block records stay under a gigabyte */

struct kvpool;

struct block_id {
    uint32_t index;
};

/* kvpool_open - reserves block_count blocks of block_bytes each (rounded up to whole pages by
 * the caller's layout or by the pool: see kvpool_block_bytes). block_bytes 0: metadata only, for
 * symbolic executors. RC_NO_FIT when the system will not give that much address space or memory. */
enum rc kvpool_open(struct kvpool **out, uint32_t block_count, size_t block_bytes,
                    struct fault *fault) ATTR_MUST_USE;
void kvpool_close(struct kvpool *p);

void *kvpool_base(const struct kvpool *p);         /* address of block 0 */
size_t kvpool_block_bytes(const struct kvpool *p); /* distance of two blocks */
uint32_t kvpool_block_count(const struct kvpool *p);
uint32_t kvpool_free_count(const struct kvpool *p);
uint32_t kvpool_cached_count(const struct kvpool *p);    /* in no table, kept for their tokens */
uint32_t kvpool_available_count(const struct kvpool *p); /* free, or cached and not owed */

/* kvpool_keep_cached - whether blocks stay cached when their last table drops them; true at
 * first. */
void kvpool_keep_cached(struct kvpool *p, bool keep);

/* kvpool_relieve - memory is short: half of the cached blocks that may go are evicted, and the
 * memory of all free ones goes back to the system until they are taken again. Returns how many
 * were evicted. */
uint32_t kvpool_relieve(struct kvpool *p);

/* kvpool_seed / kvpool_set_seed - of the hashes, drawn at open so that nobody can prepare texts
 * that meet; set only to do again what another pool did, before the first block is taken. */
uint64_t kvpool_seed(const struct kvpool *p);
void kvpool_set_seed(struct kvpool *p, uint64_t seed);

struct kvpool_stats {
    uint64_t hit_blocks;    /* taken over whole */
    uint64_t fork_tokens;   /* taken over by copies of part of a block */
    uint64_t merged_blocks; /* computed twice, kept once */
    uint64_t evictions;
};
struct kvpool_stats kvpool_stats_get(const struct kvpool *p);

/* kvpool_take_block - one that is free, else the least wanted of the cached ones. */
enum rc kvpool_take_block(struct block_id *out, struct kvpool *p) ATTR_MUST_USE;
void kvpool_ref_block(struct kvpool *p, struct block_id id);
void kvpool_drop_block(struct kvpool *p, struct block_id id);
uint32_t kvpool_ref_count(const struct kvpool *p, struct block_id id);

#endif
