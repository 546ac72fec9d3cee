/* SPDX-License-Identifier: MIT */
/* trie - blocks linked to the blocks they follow, and an index from (parent, salt, 32 tokens) to
 * block:
 *
 *   root of a salt
 *    |- [you are a helpful ...]            indexed, 32 tokens, computed: shared by whoever begins
 *    so
 *    |    |- [assistant. Answer ...]       indexed, 9 of 32 computed: being filled
 *    |    |- [assistant. The capital]      not indexed: 8 tokens known, more may follow
 *    |- [def main(argv): ...]
 *
 * Every block of a table is in the trie, as the child of the table's entry before it. One that
 * can be found whole is also in the index; at most one block there has a given parent, salt and
 * tokens. The hash only finds the place to look: a hit compares parent, salt and all tokens, so
 * no two texts can ever be taken for one another. It is seeded from the system, so nobody can
 * prepare texts that meet in one bucket. */
#include <string.h>

#include "core/must.h"
#include "kvpool/internal.h"

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9fb21c651e98df25u;
    return h ^ (h >> 28);
}

static uint64_t mix_other(uint64_t h, uint64_t x)
{
    h = (h + x) * 0xa0761d6478bd642fu;
    return h ^ (h >> 32);
}

struct chain trie_extend_chain(struct chain c, const int32_t *tokens)
{
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i += 2) {
        uint64_t two;
        memcpy(&two, &tokens[i], sizeof two);
        c.a = mix(c.a, two);
        c.b = mix_other(c.b, two);
    }
    return c;
}

struct chain trie_chain(const struct kvpool *p, uint32_t parent, uint64_t salt,
                        const int32_t *tokens)
{
    struct chain c = { mix(p->hash_seed, salt), mix_other(p->hash_seed, salt) };
    if (parent != BLOCK_NONE)
        c = p->blocks[parent].chain;
    return trie_extend_chain(c, tokens);
}

/* Where the list of children of parent (BLOCK_NONE: of the salt's root) begins. */
static uint32_t *children_of(struct kvpool *p, uint32_t parent, uint64_t salt)
{
    if (parent != BLOCK_NONE)
        return &p->blocks[parent].child;
    return &p->roots[mix(p->hash_seed, salt) % ROOTS];
}

uint32_t trie_first_child(const struct kvpool *p, uint32_t parent, uint64_t salt)
{
    if (parent != BLOCK_NONE)
        return p->blocks[parent].child;
    return p->roots[mix(p->hash_seed, salt) % ROOTS];
}

void trie_link(struct kvpool *p, uint32_t index, uint32_t parent, uint64_t salt)
{
    struct block *b = &p->blocks[index];
    uint32_t *first = children_of(p, parent, salt);
    must(parent != index);
    must(!b->linked);
    b->linked = true;
    b->parent = parent;
    b->salt = salt;
    b->sib_prev = BLOCK_NONE;
    b->sib_next = *first;
    if (*first != BLOCK_NONE)
        p->blocks[*first].sib_prev = index;
    *first = index;
}

void trie_unlink(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    if (!b->linked)
        return;
    b->linked = false;
    if (b->sib_prev != BLOCK_NONE)
        p->blocks[b->sib_prev].sib_next = b->sib_next;
    else
        *children_of(p, b->parent, b->salt) = b->sib_next;
    if (b->sib_next != BLOCK_NONE)
        p->blocks[b->sib_next].sib_prev = b->sib_prev;
    b->parent = b->sib_next = b->sib_prev = BLOCK_NONE;
}

void trie_adopt_children(struct kvpool *p, uint32_t to, uint32_t from)
{
    uint32_t child;
    while ((child = p->blocks[from].child) != BLOCK_NONE) {
        bool indexed = p->blocks[child].indexed;
        must(!indexed); /* the index knows a child by its parent */
        trie_unlink(p, child);
        trie_link(p, child, to, p->blocks[to].salt);
    }
}

void trie_index(struct kvpool *p, uint32_t index, struct chain chain)
{
    struct block *b = &p->blocks[index];
    must(!b->indexed);
    uint32_t *bucket = &p->buckets[(uint32_t)chain.a & p->bucket_mask];
    b->chain = chain;
    b->hash_next = *bucket;
    *bucket = index;
    b->indexed = true;
}

void trie_unindex(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    if (!b->indexed)
        return;
    uint32_t *link = &p->buckets[(uint32_t)b->chain.a & p->bucket_mask];
    while (*link != index)
        link = &p->blocks[*link].hash_next;
    *link = b->hash_next;
    b->indexed = false;
}

uint32_t trie_find(const struct kvpool *p, uint32_t parent, uint64_t salt, const int32_t *tokens,
                   struct chain chain)
{
    uint32_t index = p->buckets[(uint32_t)chain.a & p->bucket_mask];
    for (; index != BLOCK_NONE; index = p->blocks[index].hash_next) {
        const struct block *b = &p->blocks[index];
        if (b->parent == parent && b->salt == salt &&
            memcmp(p->tokens[index], tokens, sizeof p->tokens[index]) == 0)
            return index;
    }
    return BLOCK_NONE;
}
