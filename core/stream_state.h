/* SPDX-License-Identifier: MIT */
/* stream_state - the inside of a stream, for stream.c (memory, passes, consumers) and
 * stream_reader.c (the thread that reads) and for no other.
 *   owner    fields belong to the reader unless their line says otherwise */
#ifndef QUIRE_CORE_STREAM_STATE_H
#define QUIRE_CORE_STREAM_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/stream.h"

#define STREAM_PAGE 4096u

enum { EXTENT_AWAY, EXTENT_HERE }; /* struct extent.state */

/* One stretch of rows. What it is stands from open on; HERE publishes memory, rc and os_errno. */
struct extent {
    uint32_t matrix;
    uint32_t row_begin, row_end;
    uint64_t offset;             /* in the file, of a page */
    uint32_t read_bytes, wanted; /* whole pages; up to the last byte that is needed */
    uint32_t skip;               /* from the page to the first row */
    bool pinned, flying;
    uint32_t slot;
    char *memory; /* its place when pinned, else of its slot */
    enum rc rc;
    int os_errno;
    _Atomic uint32_t state;
    _Atomic uint32_t left; /* consumers that still need it */
    atomic_uint taken;     /* units of rows that consumers have taken of it */
};

/* A read on its way. */
struct flight {
    uint32_t extent;
    uint32_t slot; /* STREAM_NONE when pinned */
    bool stale;    /* nobody wants it any more */
};

struct stream {
    struct stream_config config;
    struct stream_matrix *matrices; /* [matrix_count] */
    uint32_t *by_data;              /* [matrix_count] sorted by address */
    uint32_t *extent_begin;         /* [matrix_count + 1] */
    struct extent *extents;
    uint32_t extent_count;
    uint64_t streamed_bytes; /* of all extents that are not kept */
    char *arena;             /* what is kept */
    size_t arena_bytes;
    char *slots;
    size_t slot_bytes, slots_bytes;
    bool direct;
    uint32_t fallbacks;  /* ways of reading that were refused at open */
    struct reads *reads; /* NULL: mmap */

    /* The reader. */
    pthread_t thread;
    bool thread_runs;
    uint32_t pass, cursor; /* the next extent to look at */
    struct flight flights[READS_DEPTH_MAX];
    uint64_t tags_free; /* a bit each */
    uint32_t depth, flying;
    uint64_t busy_since;

    /* Between them. */
    _Atomic uint32_t bell; /* rung when there may be something to read */
    _Atomic uint32_t reader_sleeps, consumers_sleep;
    _Atomic uint64_t slots_free; /* a bit each */
    _Atomic uint32_t pass_begun; /* passes, by the opener */
    _Atomic uint32_t pass_ended;
    _Atomic uint32_t pass_choices; /* choices made in the pass that runs */
    atomic_bool pass_outputs;
    uint32_t *wanted_in;     /* [matrix_count] pass in which an expert was last chosen */
    _Atomic uint32_t rewind; /* 1: the opener asks for a fresh start; 0: done */
    atomic_bool stop;
    _Atomic uint32_t failed; /* extent + 1 that a consumer found broken in this pass */
    _Atomic uint32_t warm;   /* 1: what is kept has been read */
    _Atomic uint64_t read_bytes, ring_reads, dropped_reads, busy_us;
    _Atomic uint64_t wait_us; /* of consumer 0 */
    bool said;                /* the opener: the failure that goes on was told */
};

/* stream_reader_main - the thread. */
void *stream_reader_main(void *arg);

/* stream_ring_bell - any thread: there may be something to read. */
void stream_ring_bell(struct stream *s);

#endif
