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

/* A block on its way from or to the store keeps its memory. */
enum block_io {
    IO_NONE,
    IO_WAITS, /* for its turn to be read; pinned */
    IO_READS, /* pinned */
    IO_WRITES,
};

enum segment {
    SEGMENT_PROBATION, /* used by one sequence so far */
    SEGMENT_PROTECTED, /* taken over at least once */
    SEGMENTS
};

/* All tokens up to the end of a block, and its salt, in 128 bits. */
struct chain {
    uint64_t a, b;
};

/* A node of the trie: the block's tokens, after those of its ancestors. Links are block indices.
 * What every step looks at stands together: half a cache line. */
struct block {
    uint32_t ref; /* block tables that hold it, and copies of this step that read it */
    /* of ref: copies of this step that read it, transfers, children that hold it */
    uint16_t pins;
    uint8_t valid;       /* tokens whose keys and values are computed */
    uint8_t claim_valid; /* the same after that step */
    uint64_t claim_step; /* the step whose plan writes it */
    uint32_t parent;
    uint8_t state;
    uint8_t io; /* enum block_io */
    uint8_t segment;
    bool indexed;      /* found by its tokens: all 32 are known, though maybe not yet computed */
    bool linked;       /* in the trie: a block of a table, not one taken by itself */
    bool holds_parent; /* was read from the store: a pin on its parent, as long as it is used */
    bool owed;         /* a preempted sequence would miss it */
    bool tidied;       /* store_tidy need not look at it again */
    bool given_back;   /* free, and its memory is the system's */

    uint32_t child; /* the latest one */
    uint32_t sib_next, sib_prev;
    uint32_t lru_next, lru_prev; /* towards older, towards newer; when cached */
    uint32_t hash_next;
    uint64_t salt;        /* namespace: blocks of different salts never meet */
    struct chain chain;   /* when indexed or whole */
    uint32_t slot;        /* of the store, where the same tokens are; or SLOT_NONE */
    uint32_t gen;         /* times it was taken: tells a reused block from the old one */
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
    struct store *store; /* or NULL */
    uint32_t dirty;      /* cached blocks that are owed and not in the store */

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
struct chain trie_chain(const struct kvpool *p, uint32_t parent, uint64_t salt,
                        const int32_t *tokens);
struct chain trie_extend_chain(struct chain c, const int32_t *tokens);
void trie_index(struct kvpool *p, uint32_t index, struct chain chain);
void trie_unindex(struct kvpool *p, uint32_t index);
uint32_t trie_find(const struct kvpool *p, uint32_t parent, uint64_t salt, const int32_t *tokens,
                   struct chain chain);
uint32_t trie_first_child(const struct kvpool *p, uint32_t parent, uint64_t salt);

/* evict.c */
void evict_keep(struct kvpool *p, uint32_t index);   /* its last table has dropped it */
void evict_revive(struct kvpool *p, uint32_t index); /* a table takes it over */
/* evicts until so many are free; false: cannot */
bool evict_ensure(struct kvpool *p, uint32_t free);
void evict_owe(struct kvpool *p, uint32_t index, bool owed, uint32_t slot); /* changes both */
void pool_unpin(struct kvpool *p, uint32_t index);                          /* pool.c */
void pool_free_block(struct kvpool *p, uint32_t index); /* pool.c: onto the free stack */

/* store.c */
#define SLOT_NONE UINT32_MAX
void store_close(struct store *s, struct kvpool *p);
uint32_t store_find(const struct kvpool *p, struct chain chain, const int32_t *tokens);
/* Queues the reading of a fresh block. */
void store_load(struct kvpool *p, uint32_t index, uint32_t slot);
void store_owe(struct kvpool *p, uint32_t index);    /* a whole block is going to be missed */
void store_forget(struct kvpool *p, uint32_t index); /* the block is going to be free */
uint32_t store_audit(const struct kvpool *p); /* first slot with something wrong, or SLOT_NONE */

/* Whether evicting it would lose what a preempted sequence wants. */
static inline bool block_dirty(const struct block *b)
{
    return b->owed && b->slot == SLOT_NONE;
}

#endif
