/* SPDX-License-Identifier: MIT */
/* journal - everything that a scheduler is given, in the order in which it was: requests, cancels,
 * times, ends of transfers, results of steps. The scheduler is a function of that, so the same
 * journal gives the same plans (replay.h). Made by wrapping what it reads; in a replay the same
 * wrappers give back what was written.
 *   owner    the scheduler thread, from the opening of the pool to that of the next one
 *   errors   writing never disturbs the scheduler: journal_failed says that the file is cut
 *            short. In a replay the first thing that is not as written is kept: journal_difference
 *   format   "quire events 2\n", then entries: a letter and its values, base-128 integers; the
 *            three heads are lines of text "letter name=value name=value ...\n"
 *   privacy  holds the tokens of prompts and answers */
#ifndef QUIRE_SCHED_JOURNAL_H
#define QUIRE_SCHED_JOURNAL_H

#include <stddef.h>

#include "core/clock.h"
#include "core/executor.h"
#include "kvpool/store.h"
#include "sched/sched.h"

struct journal;

enum journal_kind {
    JOURNAL_END = 0,
    JOURNAL_POOL = 'p',
    JOURNAL_STORE = 's',
    JOURNAL_SCHED = 'c',
    JOURNAL_REQUEST = 'R',
    JOURNAL_CANCEL = 'C',
    JOURNAL_RELIEF = 'G', /* memory was short */
    JOURNAL_TIME = 'T',
    JOURNAL_STORE_TIME = 't',
    JOURNAL_STEP = 'S',
    JOURNAL_RESULT = 'P',
    JOURNAL_START = 'O', /* of a transfer */
    JOURNAL_ENDS = 'E',
    JOURNAL_RECALL = 'M', /* what a slot of the file held at the start */
};

/* journal_create - a new file to write; journal_open - one to replay. */
enum rc journal_create(struct journal **out, const char *path, struct fault *fault) ATTR_MUST_USE;
enum rc journal_open(struct journal **out, const char *path, struct fault *fault) ATTR_MUST_USE;
void journal_close(struct journal *j);
bool journal_failed(const struct journal *j);

/* What is fixed at the opening of pool, store and scheduler. */
struct journal_pool {
    uint32_t block_count;
    uint64_t block_bytes, hash_seed;
};

struct journal_sched {
    struct sched_config config;
    struct executor_limits limits;
};

void journal_put_pool(struct journal *j, const struct journal_pool *head);
void journal_put_sched(struct journal *j, const struct journal_sched *head);
bool journal_take_pool(struct journal *j, struct journal_pool *head);
bool journal_take_store(struct journal *j, struct store_config *config);
bool journal_take_sched(struct journal *j, struct journal_sched *head);

/* Wrappers. Each is made once; inner ones are not used in a replay. journal_store also writes the
 * head; in a replay it was taken before. */
struct clock journal_clock(struct journal *j, struct clock inner);
struct executor journal_executor(struct journal *j, struct executor inner);
void journal_store(struct journal *j, struct store_config *config);

/* What the scheduler says as it takes its inbox, and when that is done. Nothing in a replay. */
void journal_note_request(struct journal *j, const struct request_params *p, uint64_t arrival_us,
                          uint64_t salt, bool cancelled);
void journal_note_cancel(struct journal *j, uint64_t order);
void journal_note_relief(struct journal *j);
void journal_note_step(struct journal *j);

/* For the replay: what comes next, and its parts. A journal that ends in the middle of an entry
 * ends before it. */
enum journal_kind journal_next(struct journal *j);
struct journal_request {
    struct request_params params; /* prompt is the caller's array */
    uint64_t arrival_us;
    bool cancelled, scores, logits, hidden;
};
/* RC_CORRUPT when a value makes no sense; tokens has room for prompt_max. */
enum rc journal_take_request(struct journal *j, struct journal_request *r, int32_t *tokens,
                             uint32_t prompt_max, struct fault *fault) ATTR_MUST_USE;
uint64_t journal_take_value(struct journal *j);
void journal_hold_time(struct journal *j); /* the time that comes next is read by the next step */

/* journal_difference - the first thing that was not as written, or NULL. */
const char *journal_difference(const struct journal *j);
void journal_set_difference(struct journal *j, const char *fmt, ...) ATTR_PRINTF(2, 3);

#endif
