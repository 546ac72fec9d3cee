/* SPDX-License-Identifier: MIT */
/* table - the block table of one sequence: entry i holds positions 32 i .. 32 i + 31.
 *   owner    the scheduler thread; the array is the sequence's, sized for its longest possible
 *            length
 *   errors   RC_FULL: nothing was changed, the caller waits or preempts */
#ifndef QUIRE_KVPOOL_TABLE_H
#define QUIRE_KVPOOL_TABLE_H

#include "kvpool/pool.h"

struct block_table {
    uint32_t *blocks; /* [capacity] */
    uint32_t count;
    uint32_t capacity;
    /* entries that were taken for it: to be had again when it ends, if nobody shares them */
    uint32_t own;
    uint64_t salt; /* namespace of its prefix, see prefix.h */
};

/* kv_blocks_for - blocks that hold token_count tokens. */
static inline uint32_t kv_blocks_for(uint32_t token_count)
{
    return token_count / KV_BLOCK_TOKENS + (token_count % KV_BLOCK_TOKENS != 0);
}

/* table_extend - makes room for token_count tokens in all: every block it lacks, or RC_FULL and
 * none. */
enum rc table_extend(struct block_table *t, struct kvpool *p, uint32_t token_count) ATTR_MUST_USE;

/* table_truncate - drops entries from the tail until block_count are left. */
void table_truncate(struct block_table *t, struct kvpool *p, uint32_t block_count);

/* table_sole - its blocks that no other table holds: to be had when it goes. In *lost the computed
 * tokens in them that no slot of the store has. */
uint32_t table_sole(const struct block_table *t, const struct kvpool *p, uint32_t *lost);

/* table_park - drops all entries of a sequence that will want them again: with a store, its whole
 * blocks are written before they are evicted. */
void table_park(struct block_table *t, struct kvpool *p);

#endif
