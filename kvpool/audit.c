/* SPDX-License-Identifier: MIT */
/* audit - counts references afresh from the tables and compares them with the records:
 *   I1  every block is free or used, and the counts add up
 *   I2  a block's ref is the number of table entries that name it
 *   I6  a table names no block twice, and none that is free
 * Cost is one pass over blocks and table entries; no memory of its own. */
#include "kvpool/audit.h"

#include <string.h>

#include "kvpool/internal.h"

void kvpool_audit_begin(struct kvpool *p)
{
    memset(p->audit_refs, 0, (size_t)p->block_count * sizeof *p->audit_refs);
    for (uint32_t i = 0; i < p->block_count; i++)
        p->blocks[i].audit_table = 0;
    p->audit_tables = 0;
}

bool kvpool_audit_table(struct kvpool *p, const struct block_table *t, struct fault *fault)
{
    if (t->count > t->capacity) {
        fault_set(fault, RC_CORRUPT, "I6: table of %u entries, capacity %u", t->count, t->capacity);
        return false;
    }
    p->audit_tables++;
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t index = t->blocks[i];
        if (index >= p->fresh || p->blocks[index].state != BLOCK_USED) {
            fault_set(fault, RC_CORRUPT, "I6: table entry %u names block %u, which is free", i,
                      index);
            return false;
        }
        if (p->blocks[index].audit_table == p->audit_tables) {
            fault_set(fault, RC_CORRUPT, "I6: a table names block %u twice", index);
            return false;
        }
        p->blocks[index].audit_table = p->audit_tables;
        p->audit_refs[index]++;
    }
    return true;
}

bool kvpool_audit_end(struct kvpool *p, struct fault *fault)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < p->block_count; i++) {
        const struct block *b = &p->blocks[i];
        if (b->ref != p->audit_refs[i]) {
            fault_set(fault, RC_CORRUPT, "I2: block %u has ref %u, %u tables name it", i, b->ref,
                      p->audit_refs[i]);
            return false;
        }
        if ((b->state == BLOCK_USED) != (b->ref > 0)) {
            fault_set(fault, RC_CORRUPT, "I1: block %u has state %u, ref %u", i, b->state, b->ref);
            return false;
        }
        used += b->state == BLOCK_USED;
    }
    for (uint32_t i = 0; i < p->free_stacked; i++) {
        uint32_t index = p->free_stack[i];
        if (p->blocks[index].state != BLOCK_FREE || p->audit_refs[index]++ != 0) {
            fault_set(fault, RC_CORRUPT, "I1: block %u is on the free stack twice or in use",
                      index);
            return false;
        }
    }
    if (used + kvpool_free_count(p) != p->block_count) {
        fault_set(fault, RC_CORRUPT, "I1: %u used + %u free of %u blocks", used,
                  kvpool_free_count(p), p->block_count);
        return false;
    }
    return true;
}
