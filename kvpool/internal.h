/* SPDX-License-Identifier: MIT */
/* internal - the pool's record as the files of this folder see it; nobody else includes this.
 *   owner    the scheduler thread */
#ifndef QUIRE_KVPOOL_INTERNAL_H
#define QUIRE_KVPOOL_INTERNAL_H

#include "kvpool/pool.h"

#define KVPOOL_MAGIC 0x6b767031u

enum block_state {
    BLOCK_FREE, /* nobody's: on the free stack or never taken */
    BLOCK_USED, /* in block tables, as many as ref says */
};

struct block {
    uint32_t ref;         /* block tables that hold it */
    uint32_t gen;         /* times it was taken: tells a reused block from the old one */
    uint32_t audit_table; /* scratch of the audit: last table seen with it */
    uint8_t state;
};

struct kvpool {
    uint32_t magic;
    uint32_t block_count;
    size_t block_bytes; /* distance of two blocks, whole pages; 0 = metadata only */
    char *base;
    void *map; /* guard page, up to a huge page of slack, blocks, guard page */
    size_t map_bytes;
    struct block *blocks;
    uint32_t *free_stack; /* blocks given back, the latest on top */
    uint32_t free_stacked;
    uint32_t fresh;        /* blocks [fresh, block_count) were never taken */
    uint32_t *audit_refs;  /* scratch of the audit: references counted afresh */
    uint32_t audit_tables; /* and tables seen so far */
};

#endif
