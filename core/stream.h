/* SPDX-License-Identifier: MIT */
/* stream - weights of a model that is larger than its share of memory. Part of them is kept
 * (pinned), the rest is read again in every pass, ahead of whoever computes with it:
 *
 *   pass      the matrices in the order in which a step uses them; the reader goes round and round
 *   extent    rows of one matrix that are read at once, kept or given up at once
 *   slot      memory of one extent that is not kept; there are a few, so reading is a few extents
 *             ahead of computing
 *
 *   owner    the opener begins and ends passes; a thread of the stream reads
 *   thread   stream_find, stream_wait, stream_done: the consumers, every one of which visits all
 *            wanted extents of a pass in order; stream_choose: one of them
 *   errors   a piece that cannot be read ends the pass with RC_IO or RC_CORRUPT and a text; its
 *            data is then anything. The next pass reads it again. At open RC_NO_MEMORY, and
 *            RC_UNSUPPORTED for matrices that begin at the same byte
 *   limits   STREAM_SLOTS_MAX; memory as configured, taken at open
 *   numerics none: bytes are the file's, whichever way they come */
#ifndef QUIRE_CORE_STREAM_H
#define QUIRE_CORE_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/reads.h"

#define STREAM_EXTENT_BYTES (1u << 20)
#define STREAM_SLOTS_MAX 48u /* one word of free slots, with room to spare */
#define STREAM_NONE UINT32_MAX

enum stream_use {
    STREAM_ALWAYS, /* in every pass */
    STREAM_OUTPUT, /* in passes with outputs; last of all */
    STREAM_CHOSEN, /* an expert: in passes whose rows chose it */
};

struct stream_matrix {
    const uint8_t *data; /* in the mapping of the file; its name in stream_find */
    uint32_t rows;
    size_t row_bytes;
    int fd;
    uint64_t offset; /* of data in the file */
    enum stream_use use;
    uint32_t choice; /* STREAM_CHOSEN: number of the choice, ascending through a pass */
};

enum stream_way {
    STREAM_AUTO,    /* io_uring; threads where it is refused */
    STREAM_URING,   /* the same: what a user says to be sure of the default */
    STREAM_THREADS, /* plain calls in threads */
    STREAM_MMAP,    /* the mapping, with advice to the kernel */
};

struct stream_config {
    const struct stream_matrix *matrices; /* in the order of use; copied */
    uint32_t matrix_count;
    uint32_t row_grain; /* extents are whole multiples of so many rows */
    uint32_t consumers;
    uint64_t pin_bytes;  /* may be kept */
    uint32_t slot_count; /* 2 .. STREAM_SLOTS_MAX */
    enum stream_way way;
    bool lock; /* what is kept may not be swapped out; a line says when that is refused */
    bool warm; /* stream_open returns when all that is kept is there */
    struct clock clock;
    /* One line for each thing that is refused, or that fails. Any thread of the stream's. */
    void (*warn)(void *ctx, const char *text);
    void *warn_ctx;
    int32_t (*bend)(void *ctx, const struct reads_piece *piece, int32_t moved); /* test hook */
    void *bend_ctx;
};

struct stream_stats {
    const char *mode;        /* what is really in use: "io_uring, direct", "mmap", ... */
    uint64_t pinned_bytes;   /* kept */
    uint64_t streamed_bytes; /* read in a pass that uses everything */
    uint64_t read_bytes;     /* since open */
    uint64_t ring_reads;     /* pieces that came through io_uring */
    uint64_t dropped_reads;  /* pieces that came when nobody wanted them any more */
    uint64_t busy_us;        /* time with a read on its way, since open */
    uint64_t wait_us;        /* consumer 0 waited for bytes, in the last pass */
    uint32_t fallbacks;      /* better ways of reading that were refused at open */
};

struct stream;

enum rc stream_open(struct stream **out, const struct stream_config *config,
                    struct fault *fault) ATTR_MUST_USE;
void stream_close(struct stream *s);

/* stream_slot_bytes - memory that one slot takes for these matrices. */
size_t stream_slot_bytes(const struct stream_config *config);

/* stream_begin - a pass; outputs: whether it uses the matrices of STREAM_OUTPUT. */
void stream_begin(struct stream *s, bool outputs);

/* stream_end - every consumer is done with every extent that the pass wanted. What failed is said
 * through warn, once until a pass succeeds again. */
enum rc stream_end(struct stream *s) ATTR_MUST_USE;

/* stream_choose - the matrices of the next choice of this pass; called once for each, in order. */
void stream_choose(struct stream *s, const uint32_t *matrices, uint32_t count);

/* stream_find - the matrix whose data this is, STREAM_NONE when it is not the stream's. */
uint32_t stream_find(const struct stream *s, const uint8_t *data);

/* stream_extents - extents [*begin, *end) of a matrix; stream_rows - rows of an extent. */
void stream_extents(const struct stream *s, uint32_t matrix, uint32_t *begin, uint32_t *end);
void stream_rows(const struct stream *s, uint32_t extent, uint32_t *begin, uint32_t *end);

/* stream_wait - the first row of the extent, as soon as it is in memory. stream_done - this
 * consumer needs it no more, and will not take more of it. */
const uint8_t *stream_wait(struct stream *s, uint32_t extent, uint32_t consumer);
void stream_done(struct stream *s, uint32_t extent);

/* stream_taken - counter with which the consumers share out the rows of an extent among themselves;
 * 0 again when all of them are done with it. */
atomic_uint *stream_taken(struct stream *s, uint32_t extent);

struct stream_stats stream_stats(const struct stream *s);

#endif
