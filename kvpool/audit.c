/* SPDX-License-Identifier: MIT */
/* audit - counts and walks everything afresh and compares it with the records:
 *   I1  every block is free, used or cached, on the one list that goes with it, and the counts add
 *       up
 *   I2  a block's ref is the number of table entries that name it
 *   I3  only a block that is alone in one table, or found by all its tokens, is still being filled
 *   I4  a table's blocks hold the tokens of its owner (their contents: the symbolic executor)
 *   I5  a block's parent is there, is used when it is, is whole when it has begun, and leaves later
 *   I7  a block on its way from or to the store is kept, its slot is linked and counted
 *   I6  a table names no block twice, none that is not used, each after its parent
 * Cost is a few passes over blocks and table entries; no memory of its own. */
#include "kvpool/audit.h"

#include <string.h>

#include "kvpool/internal.h"

#define INDEX_TURNS 32u /* an audit looks up each 32nd block by its tokens, the next one others */

void kvpool_audit_begin(struct kvpool *p)
{
    memset(p->audit_refs, 0, (size_t)p->block_count * sizeof *p->audit_refs);
    for (uint32_t i = 0; i < p->block_count; i++)
        p->blocks[i].audit_table = 0;
    p->audit_tables = 0;
    p->audits++;
}

static bool wrong(struct fault *fault, const char *rule, uint32_t block, uint32_t value)
{
    fault_set(fault, RC_CORRUPT, "%s: block %u (%u)", rule, block, value);
    return false;
}

static bool audit_entry(struct kvpool *p, const struct block_table *t, uint32_t i,
                        const int32_t *tokens, uint32_t computed, struct fault *fault)
{
    uint32_t index = t->blocks[i];
    if (index >= p->fresh || p->blocks[index].state != BLOCK_USED)
        return wrong(fault, "I6: a table names a block that is not used", index, i);
    struct block *b = &p->blocks[index];
    if (b->audit_table == p->audit_tables)
        return wrong(fault, "I6: a table names a block twice", index, i);
    b->audit_table = p->audit_tables;
    p->audit_refs[index]++;
    if (!b->linked || b->parent != (i > 0 ? t->blocks[i - 1] : BLOCK_NONE) || b->salt != t->salt)
        return wrong(fault, "I6: a block is not the child of the one before it", index, b->parent);
    uint32_t begin = i * KV_BLOCK_TOKENS;
    uint32_t mine = computed <= begin ? 0 : computed - begin;
    mine = mine < KV_BLOCK_TOKENS ? mine : KV_BLOCK_TOKENS;
    if (b->valid < mine)
        return wrong(fault, "I4: fewer tokens are valid than computed", index, b->valid);
    if (memcmp(p->tokens[index], &tokens[begin], mine * sizeof *tokens) != 0)
        return wrong(fault, "I4: a block holds other tokens than its owner", index, i);
    if (!b->indexed && b->valid < KV_BLOCK_TOKENS && (b->ref != 1 || b->valid != mine))
        return wrong(fault, "I3: an open block has two owners", index, b->ref);
    return true;
}

bool kvpool_audit_table(struct kvpool *p, const struct block_table *t, const int32_t *tokens,
                        uint32_t computed, struct fault *fault)
{
    if (t->count > t->capacity)
        return wrong(fault, "I6: a table is longer than it can be", t->count, t->capacity);
    p->audit_tables++;
    for (uint32_t i = 0; i < t->count; i++)
        if (!audit_entry(p, t, i, tokens, computed, fault))
            return false;
    return true;
}

static bool audit_links(const struct kvpool *p, uint32_t i, struct fault *fault)
{
    const struct block *b = &p->blocks[i];
    if (b->child != BLOCK_NONE && p->blocks[b->child].parent != i)
        return wrong(fault, "I5: a first child has another parent", i, b->child);
    if (b->indexed && (i + p->audits) % INDEX_TURNS == 0 &&
        trie_find(p, b->parent, b->salt, p->tokens[i],
                  trie_chain(p, b->parent, b->salt, p->tokens[i])) != i)
        return wrong(fault, "I4: the index does not find a block by its tokens", i, b->parent);
    if (b->parent == BLOCK_NONE)
        return true;
    const struct block *parent = &p->blocks[b->parent];
    if (parent->state == BLOCK_FREE || parent->salt != b->salt)
        return wrong(fault, "I5: the parent is gone", i, b->parent);
    if (b->ref > b->pins && parent->ref == 0)
        return wrong(fault, "I5: used without its parent", i, b->parent);
    if (b->valid > 0 && parent->valid < KV_BLOCK_TOKENS)
        return wrong(fault, "I5: begun before its parent was whole", i, b->parent);
    return true;
}

static bool audit_block(const struct kvpool *p, uint32_t i, struct fault *fault)
{
    const struct block *b = &p->blocks[i];
    bool read = b->io == IO_WAITS || b->io == IO_READS;
    if (b->ref != p->audit_refs[i] + b->pins || b->pins < read)
        return wrong(fault, "I2: ref is not the number of tables that name it", i, b->ref);
    bool used = b->ref > 0;
    if (used != (b->state == BLOCK_USED) || (b->state == BLOCK_FREE && (b->linked || b->indexed)))
        return wrong(fault, "I1: state and references do not agree", i, b->state);
    if (read && (b->valid > 0 || !b->indexed))
        return wrong(fault, "I7: read into a block that is in use", i, b->valid);
    if (b->io == IO_WRITES && b->valid < KV_BLOCK_TOKENS)
        return wrong(fault, "I7: written before it is whole", i, b->valid);
    if (b->state == BLOCK_CACHED && (b->valid < FORK_TOKENS || !b->linked || !p->keep))
        return wrong(fault, "I1: cached without worth", i, b->valid);
    if (b->state == BLOCK_FREE || !b->linked)
        return true;
    return audit_links(p, i, fault);
}

/* Walks a list from its oldest; marks each block's turn in audit_refs, which are 0 for cached
 * ones. */
static bool audit_list(struct kvpool *p, uint32_t segment, uint32_t *turn, struct fault *fault)
{
    const struct lru *l = &p->lru[segment];
    uint32_t count = 0, newer = BLOCK_NONE;
    for (uint32_t i = l->oldest; i != BLOCK_NONE; newer = i, i = p->blocks[i].lru_prev) {
        const struct block *b = &p->blocks[i];
        if (b->state != BLOCK_CACHED || b->segment != segment || b->lru_next != newer ||
            ++count > l->count)
            return wrong(fault, "I1: an LRU list is torn", i, segment);
        p->audit_refs[i] = ++*turn;
    }
    if (count != l->count || newer != l->newest)
        return wrong(fault, "I1: an LRU list is miscounted", count, l->count);
    return true;
}

static bool audit_lists(struct kvpool *p, struct fault *fault)
{
    uint32_t turn = 0;
    for (uint32_t segment = 0; segment < SEGMENTS; segment++)
        if (!audit_list(p, segment, &turn, fault))
            return false;
    for (uint32_t i = 0; i < p->fresh; i++) {
        const struct block *b = &p->blocks[i];
        if (b->state == BLOCK_CACHED && b->parent != BLOCK_NONE &&
            p->blocks[b->parent].state == BLOCK_CACHED &&
            p->audit_refs[b->parent] < p->audit_refs[i])
            return wrong(fault, "I5: a parent would go before its child", i, b->parent);
    }
    return true;
}

bool kvpool_audit_end(struct kvpool *p, struct fault *fault)
{
    uint32_t count[3] = { 0 }, dirty = 0, pins = 0;
    for (uint32_t i = 0; i < p->block_count; i++) {
        if (!audit_block(p, i, fault))
            return false;
        const struct block *b = &p->blocks[i];
        bool read = b->io == IO_WAITS || b->io == IO_READS;
        pins += b->pins - (read + (b->holds_parent ? 1u : 0u)); /* 0 in the end */
        count[b->state]++;
        dirty += b->state == BLOCK_CACHED && block_dirty(b);
    }
    for (uint32_t i = 0; i < p->free_stacked; i++) {
        uint32_t index = p->free_stack[i];
        if (p->blocks[index].state != BLOCK_FREE || p->audit_refs[index]++ != 0)
            return wrong(fault, "I1: on the free stack twice, or in use", index, i);
    }
    if (count[BLOCK_CACHED] != kvpool_cached_count(p) || count[BLOCK_FREE] != kvpool_free_count(p))
        return wrong(fault, "I1: free and cached do not add up", count[BLOCK_CACHED],
                     count[BLOCK_FREE]);
    if (pins != 0)
        return wrong(fault, "I2: pins do not add up", pins, 0);
    if (dirty != p->dirty)
        return wrong(fault, "I1: blocks owed do not add up", dirty, p->dirty);
    uint32_t at = store_audit(p);
    if (at != SLOT_NONE)
        return wrong(fault, "I7: a slot does not fit its block, or is lost", at, 0);
    return audit_lists(p, fault);
}
