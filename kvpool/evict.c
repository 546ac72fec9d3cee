/* SPDX-License-Identifier: MIT */
/* evict - what stays cached, and what goes when a block is needed.
 *
 *   PROTECTED   newest ... oldest  --too many-->  PROBATION   newest ... oldest  --> free
 *
 * A block that one sequence has used waits in PROBATION; one that was taken over by another has
 * proven itself and waits in PROTECTED, which may hold three quarters of what is cached: one
 * long document that nobody asks for again cannot flush the chats. Tables are dropped from the
 * tail and taken over from the head, so in either list a block is younger than its children, and
 * what goes first is always a leaf (I5). Not worth keeping: a block with nothing computed, or
 * with less than a fork would copy. A block that a preempted sequence would miss (owed) and that
 * is not in the store is passed over: it is written first, or given up (store.h). */
#include "core/must.h"
#include "kvpool/internal.h"

static void lru_insert(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    struct lru *l = &p->lru[b->segment];
    b->lru_prev = BLOCK_NONE;
    b->lru_next = l->newest;
    *(l->newest != BLOCK_NONE ? &p->blocks[l->newest].lru_prev : &l->oldest) = index;
    l->newest = index;
    l->count++;
    p->dirty += block_dirty(b);
}

static void lru_remove(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    struct lru *l = &p->lru[b->segment];
    must(l->count > 0);
    *(b->lru_prev != BLOCK_NONE ? &p->blocks[b->lru_prev].lru_next : &l->newest) = b->lru_next;
    *(b->lru_next != BLOCK_NONE ? &p->blocks[b->lru_next].lru_prev : &l->oldest) = b->lru_prev;
    l->count--;
    p->dirty -= block_dirty(b);
}

static void forget(struct kvpool *p, uint32_t index)
{
    must(p->blocks[index].child == BLOCK_NONE);
    store_forget(p, index);
    trie_unindex(p, index);
    trie_unlink(p, index);
    pool_free_block(p, index);
}

/* PROTECTED gives its oldest back to PROBATION until it holds its share. */
static void demote(struct kvpool *p)
{
    struct lru *l = &p->lru[SEGMENT_PROTECTED];
    while ((uint64_t)l->count * 4 > (uint64_t)kvpool_cached_count(p) * 3 + 3) {
        uint32_t index = l->oldest;
        lru_remove(p, index);
        p->blocks[index].segment = SEGMENT_PROBATION;
        lru_insert(p, index);
    }
}

/* A block that only the store held has outlasted the tables of its ancestors: they stay at least
 * as long. */
static void touch_ancestors(struct kvpool *p, uint32_t index)
{
    uint32_t at = p->blocks[index].parent;
    for (; at != BLOCK_NONE && p->blocks[at].state == BLOCK_CACHED; at = p->blocks[at].parent) {
        lru_remove(p, at);
        if (p->blocks[index].segment == SEGMENT_PROTECTED)
            p->blocks[at].segment = SEGMENT_PROTECTED;
        lru_insert(p, at);
    }
}

void evict_keep(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    must(b->ref == 0 && b->state == BLOCK_USED);
    if (!p->keep || b->valid < FORK_TOKENS) {
        forget(p, index);
        return;
    }
    b->state = BLOCK_CACHED;
    lru_insert(p, index);
    touch_ancestors(p, index);
    demote(p);
}

void evict_revive(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    must(b->ref == 0 && b->state == BLOCK_CACHED);
    lru_remove(p, index);
    b->state = BLOCK_USED;
}

void evict_owe(struct kvpool *p, uint32_t index, bool owed, uint32_t slot)
{
    struct block *b = &p->blocks[index];
    bool cached = b->state == BLOCK_CACHED;
    p->dirty -= cached && block_dirty(b);
    b->owed = owed;
    b->slot = slot;
    p->dirty += cached && block_dirty(b);
}

/* The oldest leaf that may go, PROBATION first. */
static uint32_t least_wanted(const struct kvpool *p)
{
    for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
        uint32_t index = p->lru[segment].oldest;
        for (; index != BLOCK_NONE; index = p->blocks[index].lru_prev) {
            const struct block *b = &p->blocks[index];
            if (b->child == BLOCK_NONE && !block_dirty(b) && b->io == IO_NONE)
                return index;
        }
    }
    return BLOCK_NONE;
}

bool evict_ensure(struct kvpool *p, uint32_t free)
{
    if (free > kvpool_available_count(p))
        return false;
    while (kvpool_free_count(p) < free) {
        uint32_t index = least_wanted(p);
        if (index == BLOCK_NONE)
            return false; /* what is left is above a block that may not go yet */
        lru_remove(p, index);
        forget(p, index);
        p->stats.evictions++;
    }
    return true;
}
