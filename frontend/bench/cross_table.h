/* SPDX-License-Identifier: MIT */
/* cross_table - the runs of a configuration as numbers, for the report: by workload, load, rung and
 * round.
 *   owner    the opener
 *   errors   RC_CORRUPT for rows that are not what their kind has */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_TABLE_H
#define QUIRE_FRONTEND_BENCH_CROSS_TABLE_H

#include "frontend/bench/cross_file.h"
#include "frontend/bench/cross_stats.h"

/* What is told of a run. */
enum measure {
    M_TOKENS_S,
    M_TTFT_P50,
    M_TTFT_P95,
    M_TTFT_P99,
    M_ITL_P50,
    M_ITL_P95,
    M_ITL_P99,
    M_ITL_MAX,
    M_LATENCY_P50,
    M_LATENCY_P95,
    M_KV_PEAK,
    M_KV_READ,
    M_WEIGHTS_READ,
    M_OUTPUT,
    M_CACHED,
    M_PROMPT,
    M_STEPS,
    MEASURES
};

struct cross_row {
    struct cross_run run;
    double value[MEASURES];
};

struct cross_table {
    const struct cross_plan *plan;
    struct cross_row *rows;
    uint32_t count;
    /* Of cross_tax: rung B, C, D against the one before (D against B: both go by order), in each
     * part of each round. */
    double tax[3][CROSS_ROUNDS_MAX * CROSS_POINTS_MAX];
    double prompt_tax[3][CROSS_ROUNDS_MAX];
    uint32_t tax_count, tax_rounds;
};

enum rc cross_table_open(struct cross_table *t, const struct cross_plan *plan,
                         const struct cross_file *file, struct fault *fault) ATTR_MUST_USE;
void cross_table_close(struct cross_table *t);

/* One line of a comparison: a workload at a load. */
struct cross_place {
    uint32_t workload, load;
    bool open;
};

/* cross_table_find - the run of that rung and round, or NULL. again: the second A. */
const struct cross_row *cross_table_find(const struct cross_table *t, struct cross_place at,
                                         uint32_t rung, bool again, uint32_t round);

/* cross_table_median - over the rounds that are there; 0 of none. */
double cross_table_median(const struct cross_table *t, struct cross_place at, uint32_t rung,
                          enum measure m);

/* cross_table_ratios - of rung to base within each round that has both; returns their number. */
uint32_t cross_table_ratios(const struct cross_table *t, struct cross_place at, uint32_t rung,
                            uint32_t base, enum measure m, double out[CROSS_ROUNDS_MAX]);

/* cross_table_same - what the second A of every round is to the first one, in tokens/s, all
 * workloads. */
uint32_t cross_table_same(const struct cross_table *t,
                          double out[CROSS_ROUNDS_MAX * CROSS_POINTS_MAX]);

/* cross_table_star - where rung begins to win over A. */
struct cross_star cross_table_star(const struct cross_table *t, uint32_t workload, uint32_t rung);

#endif
