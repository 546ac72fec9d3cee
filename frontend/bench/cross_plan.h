/* SPDX-License-Identifier: MIT */
/* cross_plan - what `quire bench crossover` measures: rungs, workloads, loads, and how long it will
 * take.
 *   rung      one way to serve; each adds one thing to the one before
 *   session   a conversation: a beginning that may be everybody's, then turns of new text and an
 *             answer. Who asks once has sessions of one turn
 *   load      closed: so many users, each begins its next session when the last one has ended.
 *             open: sessions arrive by a Poisson process whatever the server does
 *   run       one rung, workload, load and round: a fixed list of sessions, the same for all rungs
 *   owner     the caller; plain values */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_PLAN_H
#define QUIRE_FRONTEND_BENCH_CROSS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rng.h"

enum rung { RUNG_A, RUNG_B, RUNG_C, RUNG_D, RUNG_E, RUNG_F, RUNG_G, RUNGS };

struct rung_text {
    const char *letter, *title, *adds;
};
extern const struct rung_text rung_texts[RUNGS];

enum {
    WORKLOADS = 4,
    CROSS_USERS_MAX = 16,
    OPEN_LOADS = 3,
    CROSS_RUNS_MAX = 4096,
    CROSS_PLAN_ROUNDS_MAX = 20
};

/* Sizes in tokens. Every fifth session is the long one, where long_text is not 0. */
struct workload {
    const char *name, *title;
    uint32_t head; /* the same in all sessions */
    uint32_t turns, text, answer;
    uint32_t long_text, long_answer;
    uint32_t sessions_min;
};

/* What a step of this model takes on this machine, roughly. */
struct cross_speeds {
    double prompt_s, one_s, many_s; /* tokens/s: prompts, one row a step, 16 rows */
};

/* What a plan is made from. */
struct cross_shape {
    bool quick;
    uint32_t rounds;
    double scale;                                /* of all sizes in tokens */
    uint32_t users[CROSS_USERS_MAX], user_count; /* 0 = the usual ones, quick or not */
};

struct cross_plan {
    struct cross_shape shape;
    uint32_t users[CROSS_USERS_MAX], user_count; /* ascending */
    struct workload workloads[WORKLOADS];
    uint32_t workload_count;
    uint32_t open_rounds;
    double seconds; /* it will take, as far as the speeds tell */
};

struct cross_run {
    uint32_t workload, rung, round;
    bool open;
    uint32_t load; /* users, or percent of the capacity */
    uint32_t sessions;
    bool again; /* the second A of a round: what two equal things differ by */
};

extern const uint32_t open_loads[OPEN_LOADS];

void cross_plan_open(struct cross_plan *p, const struct cross_shape *shape);

/* cross_plan_fit - lowers scale, then rounds, until it takes at most that long; a scale of 1/4 and
 * three rounds are the least. */
void cross_plan_fit(struct cross_plan *p, const struct cross_speeds *speeds, double seconds);

/* cross_plan_runs - every run, in the order in which they are made: round by round, rungs in turn.
 * Open loads come last, since they are shares of what the closed ones show. */
uint32_t cross_plan_runs(const struct cross_plan *p, struct cross_run runs[CROSS_RUNS_MAX]);

/* cross_arrivals - due_us[0..count): a Poisson process of so many sessions a second, from 0. Twice
 * the rate is the same sequence in half the time, so that loads differ by nothing else. */
void cross_arrivals(uint64_t seed, uint32_t round, double sessions_s, uint32_t count,
                    uint64_t *due_us);

/* cross_run_seconds - how long a run will take. */
double cross_run_seconds(const struct cross_plan *p, const struct cross_run *run,
                         const struct cross_speeds *speeds);

/* A session's part of a workload. */
bool session_is_long(const struct workload *w, uint32_t index);
uint32_t session_text(const struct workload *w, uint32_t index);   /* of a turn */
uint32_t session_answer(const struct workload *w, uint32_t index); /* likewise */
uint32_t session_tokens(const struct workload *w, uint32_t index); /* head, texts, answers */
uint32_t workload_tokens(const struct workload *w);                /* of its longest session */

/* workload_shared - how much of all prompts some earlier prompt or answer has: 0..1. */
double workload_shared(const struct workload *w);

#endif
