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
 * with less than a fork would copy. */
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
}

static void lru_remove(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    struct lru *l = &p->lru[b->segment];
    must(l->count > 0);
    *(b->lru_prev != BLOCK_NONE ? &p->blocks[b->lru_prev].lru_next : &l->newest) = b->lru_next;
    *(b->lru_next != BLOCK_NONE ? &p->blocks[b->lru_next].lru_prev : &l->oldest) = b->lru_prev;
    l->count--;
}

static void forget(struct kvpool *p, uint32_t index)
{
    must(p->blocks[index].child == BLOCK_NONE);
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
    demote(p);
}

void evict_revive(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    must(b->ref == 0 && b->state == BLOCK_CACHED);
    lru_remove(p, index);
    b->state = BLOCK_USED;
}

bool evict_one(struct kvpool *p)
{
    for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
        uint32_t index = p->lru[segment].oldest;
        while (index != BLOCK_NONE && p->blocks[index].child != BLOCK_NONE)
            index = p->blocks[index].lru_prev;
        if (index == BLOCK_NONE)
            continue;
        lru_remove(p, index);
        forget(p, index);
        p->stats.evictions++;
        return true;
    }
    return false;
}
