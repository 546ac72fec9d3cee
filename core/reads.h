/* SPDX-License-Identifier: MIT */
/* reads - pieces of files read into memory while the caller does something else: through io_uring,
 * or by a few threads with plain calls where that is refused. Short reads are continued,
 * interrupted and put-off ones repeated; what comes out is the same either way.
 *   owner    one thread starts and collects; a piece's memory is not its owner's until its end is
 *            collected
 *   errors   a piece ends with RC_OK, RC_CORRUPT (the file ends before it) or RC_IO
 *   limits   READS_DEPTH_MAX pieces on their way, READS_THREADS threads */
#ifndef QUIRE_CORE_READS_H
#define QUIRE_CORE_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define READS_DEPTH_MAX 64u
#define READS_THREADS 4u

enum reads_mode {
    READS_URING,   /* io_uring, into registered memory */
    READS_PLAIN,   /* io_uring, registering was refused */
    READS_THREADED /* pread in threads */
};

/* For direct reads memory, offset and bytes are multiples of the page size. */
struct reads_piece {
    int fd;
    char *memory;
    uint64_t offset;
    uint32_t bytes; /* at most; a file may end after wanted of them */
    uint32_t wanted;
};

struct reads_end {
    uint32_t tag;
    enum rc rc;
    int os_errno; /* of RC_IO */
};

struct reads_config {
    uint32_t depth;
    void *base; /* memory that most pieces go to: registered with the kernel */
    size_t bytes;
    bool threads; /* no io_uring, even where it works */
    /* One line each time something is refused and another way taken; may be NULL. */
    void (*warn)(void *ctx, const char *text);
    void *warn_ctx;
    /* Test hook: what a call is said to have moved, or -errno; NULL = the truth. */
    int32_t (*bend)(void *ctx, const struct reads_piece *piece, int32_t moved);
    void *bend_ctx;
};

struct reads;

enum rc reads_open(struct reads **out, const struct reads_config *config,
                   struct fault *fault) ATTR_MUST_USE;

/* reads_close - waits for what is on its way. */
void reads_close(struct reads *r);

enum reads_mode reads_mode(const struct reads *r);

/* reads_start - tag < depth and not on its way. */
void reads_start(struct reads *r, const struct reads_piece *piece, uint32_t tag);

/* reads_collect - the end of one piece; false when none has ended. wait: until one has, or
 * reads_wake is called. */
bool reads_collect(struct reads *r, bool wait, struct reads_end *out);

/* reads_wake - any thread: ends the wait that is going on, or else the next one. */
void reads_wake(struct reads *r);

#endif
