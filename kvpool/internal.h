/* SPDX-License-Identifier: MIT */
/* internal - the pool's record as the files of this folder see it; nobody else includes this.
 *   owner    the scheduler thread */
#ifndef QUIRE_KVPOOL_INTERNAL_H
#define QUIRE_KVPOOL_INTERNAL_H

#include <stdbool.h>

#include "kvpool/table.h"

#define KVPOOL_MAGIC 0x6b767031u
#define BLOCK_NONE UINT32_MAX
#define ROOTS 64u      /* lists of first blocks, by salt: power of two */
#define FORK_TOKENS 4u /* fewer common tokens are not worth a copy */

enum block_state {
    BLOCK_FREE,   /* nobody's: on the free stack or never taken */
    BLOCK_USED,   /* in block tables, as many as ref says */
    BLOCK_CACHED, /* in no table, kept for whoever begins with the same tokens; on an LRU list */
};

enum segment {
    SEGMENT_PROBATION, /* used by one sequence so far */
    SEGMENT_PROTECTED, /* taken over at least once */
    SEGMENTS
};

/* A node of the trie: the block's tokens, after those of its ancestors. Links are block indices. */
struct block {
    uint32_t ref; /* block tables that hold it, and copies of this step that read it */
    uint32_t gen; /* times it was taken: tells a reused block from the old one */
    uint32_t parent;
    uint32_t child; /* the latest one */
    uint32_t sib_next, sib_prev;
    uint32_t lru_next, lru_prev; /* towards older, towards newer; when cached */
    uint32_t hash_next;
    uint32_t bucket;     /* of the index, when indexed */
    uint64_t salt;       /* namespace: blocks of different salts never meet */
    uint64_t claim_step; /* the step whose plan writes it */
    uint8_t valid;       /* tokens whose keys and values are computed */
    uint8_t claim_valid; /* the same after that step */
    uint16_t pins;       /* of ref: copies of this step that read it */
    uint8_t state;
    uint8_t segment;
    bool linked;          /* in the trie: a block of a table, not one taken by itself */
    bool indexed;         /* found by its tokens: all 32 are known, though maybe not yet computed */
    uint32_t audit_table; /* scratch of the audit: last table seen with it */
};

struct lru {
    uint32_t newest, oldest;
    uint32_t count;
};

struct kvpool {
    uint32_t magic;
    uint32_t block_count;
    size_t block_bytes; /* distance of two blocks, whole pages; 0 = metadata only */
    char *base;
    void *map; /* guard page, up to a huge page of slack, blocks, guard page */
    size_t map_bytes;
    struct block *blocks;
    int32_t (*tokens)[KV_BLOCK_TOKENS]; /* of each block, valid or claimed ones; all when indexed */
    uint32_t *free_stack;               /* blocks given back, the latest on top */
    uint32_t free_stacked;
    uint32_t fresh; /* blocks [fresh, block_count) were never taken */

    bool keep; /* blocks stay cached when their last table drops them */
    uint64_t hash_seed;
    uint32_t *buckets; /* [bucket_mask + 1] */
    uint32_t bucket_mask;
    uint32_t roots[ROOTS]; /* latest first block of each list */
    struct lru lru[SEGMENTS];
    struct kvpool_stats stats;

    uint32_t *audit_refs;  /* scratch of the audit: references counted afresh */
    uint32_t audit_tables; /* and tables seen so far */
    uint32_t audits;
};

/* table.c: a fresh block at the end, linked to the one before it; there is one to be had. */
uint32_t table_append(struct block_table *t, struct kvpool *p);

/* trie.c */
void trie_link(struct kvpool *p, uint32_t index, uint32_t parent, uint64_t salt);
void trie_unlink(struct kvpool *p, uint32_t index);
void trie_adopt_children(struct kvpool *p, uint32_t to, uint32_t from);
void trie_index(struct kvpool *p, uint32_t index);
void trie_unindex(struct kvpool *p, uint32_t index);
uint32_t trie_find(const struct kvpool *p, uint32_t parent, uint64_t salt, const int32_t *tokens);
uint32_t trie_first_child(const struct kvpool *p, uint32_t parent, uint64_t salt);

/* evict.c */
void evict_keep(struct kvpool *p, uint32_t index);      /* its last table has dropped it */
void evict_revive(struct kvpool *p, uint32_t index);    /* a table takes it over */
bool evict_one(struct kvpool *p);                       /* frees the least wanted; false: none */
void pool_free_block(struct kvpool *p, uint32_t index); /* pool.c: onto the free stack */

#endif
