/* SPDX-License-Identifier: MIT */
/* audit - the pool's invariants, recomputed from scratch over every block and table.
 *   owner    the scheduler thread, between steps
 *   errors   false with one line naming the rule and the block; the pool is not changed */
#ifndef QUIRE_KVPOOL_AUDIT_H
#define QUIRE_KVPOOL_AUDIT_H

#include <stdbool.h>

#include "kvpool/table.h"

/* kvpool_audit_begin, then kvpool_audit_table for every table that holds blocks, with its owner's
 * tokens and how many of them are computed, then kvpool_audit_end. */
void kvpool_audit_begin(struct kvpool *p);
bool kvpool_audit_table(struct kvpool *p, const struct block_table *t, const int32_t *tokens,
                        uint32_t computed, struct fault *fault);
bool kvpool_audit_end(struct kvpool *p, struct fault *fault);

#endif
