/* SPDX-License-Identifier: MIT */
/* blockfile - blocks in a file: through io_uring, past the page cache where the file system allows
 * it; with plain calls where io_uring is refused.
 *   owner    the scheduler thread
 *   errors   at open: RC_IO or RC_NO_FIT (the disk has not that much room), with the path; of a
 *            named file also RC_CORRUPT and RC_AGAIN (blockindex.h)
 *   memory   of the file on disk. A nameless file is gone with the process, whatever ends it; a
 *            named one holds what it held */
#ifndef QUIRE_KVPOOL_BLOCKFILE_H
#define QUIRE_KVPOOL_BLOCKFILE_H

#include <stddef.h>

#include "core/clock.h"
#include "core/hash.h"
#include "kvpool/blockindex.h"
#include "kvpool/pool.h"

struct blockfile;

struct blockfile_config {
    /* A directory: a nameless file there; else the file itself. Outlives the block file. */
    const char *path;
    uint32_t slot_count;
    bool exact;        /* slot_count is a wish of the user: else a named file keeps its own */
    bool plain;        /* plain calls only */
    struct clock wall; /* of a named file's day; {0} = clock_wall() */
    /* Told once, in words, when the first transfer has failed; may be NULL. */
    void (*on_failure)(const char *text);
    struct hash key; /* what the bytes of a block depend on besides tokens, of a named file */
};

/* blockfile_open - room for slot_count blocks of the pool. */
enum rc blockfile_open(struct blockfile **out, const struct blockfile_config *config,
                       const struct kvpool *pool, struct fault *fault) ATTR_MUST_USE;

/* blockfile_close - after the pool that uses it. */
void blockfile_close(struct blockfile *f);

struct blockio blockfile_io(struct blockfile *f);

uint32_t blockfile_slot_count(const struct blockfile *f);

/* blockfile_index - of a named file, else NULL: what was found in it. */
const struct blockindex *blockfile_index(const struct blockfile *f);

bool blockfile_uring(const struct blockfile *f);

/* blockfile_mode - what is really in use: "io_uring, direct", "plain calls", ... */
const char *blockfile_mode(const struct blockfile *f);

#endif
