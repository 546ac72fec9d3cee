/* SPDX-License-Identifier: MIT */
/* blockio - the seam between the block store and what moves the bytes: a file through io_uring or
 * plain calls (blockfile.h), or a test's own.
 *   owner    the scheduler thread starts and collects transfers; bytes of a block may be touched
 *            from start until its end is collected
 *   errors   an end carries RC_OK or RC_IO; start says RC_FULL when depth transfers are under
 *            way */
#ifndef QUIRE_KVPOOL_BLOCKIO_H
#define QUIRE_KVPOOL_BLOCKIO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/limits.h"

/* What is in a slot, as a file that outlives the process keeps it. */
struct block_record {
    uint64_t chain_a, chain_b; /* all tokens up to the end of the block, and its salt */
    uint64_t sum;              /* of its bytes */
    int32_t tokens[KV_BLOCK_TOKENS];
};

struct blockio_end {
    uint32_t tag;
    enum rc rc;
};

struct blockio {
    void *ctx;
    uint32_t depth; /* transfers that may be under way at once */
    /* Moves a whole block of the pool to its slot, or from there. */
    enum rc (*start)(void *ctx, bool write, uint32_t slot, uint32_t block, uint32_t tag);
    /* Ends of transfers, in any order, at most max; with wait it sleeps until there is one. */
    uint32_t (*collect)(void *ctx, struct blockio_end *out, uint32_t max, bool wait);
    /* Of a file that outlives the process, else NULL and 0: what a slot holds from an earlier one
     * (false: nothing), what it holds now (NULL: nothing), and the seed of the chains. */
    bool (*recall)(void *ctx, uint32_t slot, struct block_record *out);
    void (*note)(void *ctx, uint32_t slot, const struct block_record *record);
    uint64_t seed;
    /* And what was written to it in the day that began so long ago, by whichever process; spent is
     * told it anew as it grows. */
    uint64_t day_bytes, day_age_us;
    void (*spent)(void *ctx, uint64_t day_bytes, uint64_t day_age_us);
};

#endif
