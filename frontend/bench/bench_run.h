/* SPDX-License-Identifier: MIT */
/* bench_run - drives an executor through prompts and steps of a known number of rows, and takes the
 * time of each repetition.
 *   owner    the opener; the engine is the caller's and runs nothing else meanwhile
 *   thread   the engine's, which is the caller's
 *   clock    plans handed to the executor and its return: forward pass, cache through block tables,
 *            greedy sampling. Prompts: from the first chunk to the last one's logits. Outside:
 *            tokenizing, scheduling, the making of plans, all far below 1 %; and the context that a
 *            depth asks for
 *   errors   RC_CANCELLED after a signal, what the executor says otherwise */
#ifndef QUIRE_FRONTEND_BENCH_BENCH_RUN_H
#define QUIRE_FRONTEND_BENCH_BENCH_RUN_H

#include "frontend/bench/bench_limits.h"
#include "frontend/engine.h"
#include "kernels/laps.h"

enum { BENCH_REPEAT_MAX = 1000 };

/* parallel sequences of depth tokens each get prompt tokens, in steps of at most chunk rows, and
 * then output steps of parallel rows. */
struct bench_case {
    uint32_t prompt, output; /* either may be 0 */
    uint32_t parallel, depth, chunk;
};

struct bench_counts {
    uint64_t steps;
    uint64_t weight_bytes, kv_bytes, macs; /* read; multiplied */
    uint64_t file_bytes;                   /* of weights that are streamed */
};

/* The prompts, or the outputs, of all repetitions of a case. */
struct bench_phase {
    uint64_t us[BENCH_REPEAT_MAX];
    struct bench_counts counts; /* of all repetitions that are done */
    struct laps laps;
};

struct bench_row {
    struct bench_case what;
    uint32_t done; /* repetitions */
    struct bench_phase prompt, output;
    struct limits before, after;
};

/* The same steps against themselves: ratios of neighbouring measurements of equal things. */
struct bench_noise {
    double low, median, high;
    uint32_t pairs;
};

/* The largest of all cases that will be run. */
struct bench_sizes {
    uint32_t positions; /* of a sequence */
    uint32_t parallel, chunk;
};

struct bench;

/* bench_open - timed: laps of every row are wanted. */
enum rc bench_open(struct bench **out, struct engine *e, const struct bench_sizes *sizes,
                   int64_t seed, bool timed, struct fault *fault) ATTR_MUST_USE;
void bench_close(struct bench *b);

/* bench_warm_up - touches every weight. */
enum rc bench_warm_up(struct bench *b, struct fault *fault) ATTR_MUST_USE;

enum rc bench_take_noise(struct bench *b, struct bench_noise *out,
                         struct fault *fault) ATTR_MUST_USE;

/* bench_run_case - row is filled as far as it came: with RC_CANCELLED some repetitions may be done.
 * Its laps' memory is the bench's, until the next case. */
enum rc bench_run_case(struct bench *b, const struct bench_case *what, uint32_t repeat,
                       struct bench_row *row, struct fault *fault) ATTR_MUST_USE;

/* bench_probe - by what the machine's limits were measured. */
const struct limits_probe *bench_probe(const struct bench *b);

#endif
