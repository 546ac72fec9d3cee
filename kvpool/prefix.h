/* SPDX-License-Identifier: MIT */
/* prefix - blocks shared between sequences that begin with the same tokens. What one sequence has
 * computed, or is computing, another takes over: whole blocks by reference, part of a block by a
 * copy. A plan says who writes what (claims), a commit says that it is done.
 *   owner    the scheduler thread
 *   errors   RC_FULL: the table is as it was
 *   bits     a taken-over token has the bits it would have if it were computed again (I12) */
#ifndef QUIRE_KVPOOL_PREFIX_H
#define QUIRE_KVPOOL_PREFIX_H

#include "kvpool/table.h"

/* A sequence as the pool sees it. */
struct prefix_view {
    uint64_t salt;         /* namespace; equal texts of different salts are different */
    const int32_t *tokens; /* [known] */
    uint32_t known;
    uint32_t reuse_max; /* tokens that may be taken over: below known, so that logits come */
    bool publish;       /* others may take blocks of mine before I have filled them */
};

/* table_need - how many of the available blocks table_acquire would use now: the same count. The
 * table is empty; its entries are scratch. */
uint64_t table_need(struct block_table *t, const struct kvpool *p, const struct prefix_view *view);

/* table_acquire - gives the empty table every block of its known tokens: the ones that are there
 * already by reference, the ones in the store by reading them. RC_FULL: they are not to be had. */
enum rc table_acquire(struct block_table *t, struct kvpool *p,
                      const struct prefix_view *view) ATTR_MUST_USE;

/* prefix_advance - how far computed reaches now that others may have filled shared blocks; at
 * most reuse_max. */
uint32_t prefix_advance(const struct block_table *t, const struct kvpool *p,
                        const struct prefix_view *view, uint32_t computed);

/* What a sequence may do at its next token in this step. */
struct prefix_turn {
    bool wait;          /* somebody else computes these very tokens in this step, or */
    bool reads;         /* they are being read from the store */
    uint32_t copy_from; /* block to copy from when copy_tokens > 0: held until prefix_copied */
    uint32_t copy_tokens;
};

/* prefix_turn_of - looks for the longest run of its next tokens that another block holds
 * already. */
struct prefix_turn prefix_turn_of(const struct block_table *t, struct kvpool *p,
                                  const struct prefix_view *view, uint32_t computed, uint64_t step);

/* prefix_writable - how many of count positions from begin on may be written in this step: up to
 * a block that is being read. */
uint32_t prefix_writable(const struct block_table *t, const struct kvpool *p, uint32_t begin,
                         uint32_t count);

/* prefix_claim - positions [begin, end) are written in this step's plan, by this sequence alone.
 * step > 0. */
void prefix_claim(const struct block_table *t, struct kvpool *p, const int32_t *tokens,
                  uint32_t begin, uint32_t end, uint64_t step);

/* prefix_copied - the step is over: the source of a copy is let go. */
void prefix_copied(struct kvpool *p, uint32_t block);

/* prefix_commit - positions up to computed are there now. Blocks that became full are merged
 * with an equal one or offered to others. */
void prefix_commit(struct block_table *t, struct kvpool *p, uint32_t begin, uint32_t computed);

#endif
