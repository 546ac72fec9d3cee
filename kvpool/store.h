/* SPDX-License-Identifier: MIT */
/* store - a second home for blocks: what a preempted sequence has computed is written to a file
 * before its memory goes to somebody else, and read back when it is wanted again.
 * Content-addressed: a slot is found by all tokens from the first one on. A file that outlives the
 * process has its slots found by the next one.
 *   owner    the scheduler thread, between steps
 *   errors   never an error: a block that cannot be written or read is computed again
 *   limits   slots of the file; bytes written in a day (flash wears out) */
#ifndef QUIRE_KVPOOL_STORE_H
#define QUIRE_KVPOOL_STORE_H

#include "core/clock.h"
#include "kvpool/blockio.h"
#include "kvpool/pool.h"

struct store_config {
    struct blockio io;
    struct clock clock;
    uint32_t slot_count;
    uint64_t write_bytes_day; /* 0 = no limit */
    uint64_t block_bytes;     /* what a block counts as, when the pool has no memory */
    uint32_t chaos_io;        /* --chaos io=N: every Nth transfer fails; 0 = off */
    bool keep; /* whole blocks are written even when nobody will miss them: for the next start */
};

struct store_stats {
    uint64_t writes, reads, failures;
    uint32_t slots_used, slots_total;
    uint32_t recalled; /* slots that were filled by an earlier process */
    uint32_t write_us, read_us; /* of a block, a running mean */
};

/* kvpool_open_store - once, before the first block is taken. The pool closes it. */
enum rc kvpool_open_store(struct kvpool *p, const struct store_config *config,
                          struct fault *fault) ATTR_MUST_USE;

/* store_poll - books transfers that have ended and starts what waits; with wait it sleeps until one
 * ends. True: some transfer is still under way or waits for its turn. */
bool store_poll(struct kvpool *p, bool wait);

/* store_busy - a transfer is under way or waits. */
bool store_busy(const struct kvpool *p);

/* store_save - starts writing cached blocks that preempted sequences would miss, oldest first,
 * until want of them are under way. How many are. */
uint32_t store_save(struct kvpool *p, uint32_t want);

/* store_tidy - with keep: starts writing whole blocks that no slot has, each once in its life in
 * memory, until want are under way. How many are. */
uint32_t store_tidy(struct kvpool *p, uint32_t want);

/* store_flush - the same until all are written that may be, at the end. */
void store_flush(struct kvpool *p);

/* store_give_up - lets the oldest of such blocks be evicted unwritten; false: there is none. */
bool store_give_up(struct kvpool *p);

/* store_set_token_us - what computing a token costs now: blocks are written only while that is
 * dearer than moving them out and in. */
void store_set_token_us(struct kvpool *p, uint32_t token_us);

struct store_stats store_stats_get(const struct kvpool *p);

#endif
