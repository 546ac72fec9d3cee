/* SPDX-License-Identifier: MIT */
/* blockfile - blocks in a nameless file: through io_uring, past the page cache where the file
 * system allows it; with plain calls where io_uring is refused.
 *   owner    the scheduler thread
 *   errors   at open: RC_IO or RC_NO_FIT (the disk has not that much room), with the directory
 *   memory   of the file on disk; it is gone with the process, whatever ends it */
#ifndef QUIRE_KVPOOL_BLOCKFILE_H
#define QUIRE_KVPOOL_BLOCKFILE_H

#include <stddef.h>

#include "kvpool/blockio.h"
#include "kvpool/pool.h"

struct blockfile;

/* blockfile_open - room for slot_count blocks of the pool in a file in directory. uring false:
 * plain calls only. */
enum rc blockfile_open(struct blockfile **out, const char *directory, const struct kvpool *pool,
                       uint32_t slot_count, bool uring, struct fault *fault) ATTR_MUST_USE;

/* blockfile_close - after the pool that uses it. */
void blockfile_close(struct blockfile *f);

struct blockio blockfile_io(struct blockfile *f);

bool blockfile_uring(const struct blockfile *f);

/* blockfile_mode - what is really in use: "io_uring, direct", "plain calls", ... */
const char *blockfile_mode(const struct blockfile *f);

#endif
