/* SPDX-License-Identifier: MIT */
/* cross_serve - serves the sessions of a run by one rung, and notes what their users see.
 *   rungs    A to C: kernels/single, requests served in the order of their arrival. D to G: the
 *            scheduler over the engine's pool and executor
 *   texts    prompts are drawn from seed, workload and session; answers are greedy and of fixed
 *            length. So every rung gives the same texts (P1), and their hash says whether it did
 *   clock    a token is there when the step that chose it has returned; a request begins when its
 *            user sends it, so waiting in a queue counts
 *   thread   one: the engine's opener, who steps the scheduler and is every user too */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_SERVE_H
#define QUIRE_FRONTEND_BENCH_CROSS_SERVE_H

#include "core/hash.h"
#include "frontend/bench/cross_plan.h"
#include "frontend/bench/quantiles.h"
#include "frontend/engine.h"
#include "kernels/single.h"

enum { LOOPS = 3 }; /* A, B, C */

struct cross_rig {
    struct engine *engine;
    struct single loops[LOOPS];
    struct block_id *held; /* [held_count] the pool's blocks that B and C have for themselves */
    uint32_t *tables;      /* [held_count] of B, then of C */
    uint32_t held_count;
    uint64_t seed, salt;
};

struct cross_result {
    double seconds;
    uint32_t requests;
    uint64_t prompt_tokens, output_tokens, cached_tokens, steps;
    uint64_t kv_peak_bytes;               /* most that conversations held at once */
    uint64_t kv_read_bytes, weight_bytes; /* read by all steps */
    struct quantiles ttft_ms, itl_ms, latency_ms;
    struct hash texts;
};

/* cross_rig_open - the engine has room for rig->held blocks beside its users' (see
 * cross_rig_tokens), no thread of its own, and is idle. All KV memory is touched. */
enum rc cross_rig_open(struct cross_rig *rig, struct engine *e, uint64_t seed,
                       struct fault *fault) ATTR_MUST_USE;
void cross_rig_close(struct cross_rig *rig);

/* cross_rig_tokens - KV tokens that the engine's pool needs for users conversations of tokens
 * each and the rig. */
uint32_t cross_rig_tokens(uint32_t users, uint32_t tokens);

/* cross_serve - sessions_s: arrivals a second of an open load. RC_CANCELLED after a signal; the
 * result is to be closed either way. */
enum rc cross_serve(struct cross_rig *rig, const struct workload *w, const struct cross_run *run,
                    double sessions_s, struct cross_result *out, struct fault *fault) ATTR_MUST_USE;
void cross_result_close(struct cross_result *r);

/* cross_open_sched - a scheduler as this rung has it, over the engine's pool and executor, in a
 * namespace (rig->salt) of its own. */
enum rc cross_open_sched(struct sched **out, struct cross_rig *rig, enum rung rung,
                         uint32_t requests, struct fault *fault) ATTR_MUST_USE;

#endif
