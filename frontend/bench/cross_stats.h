/* SPDX-License-Identifier: MIT */
/* cross_stats - what measured rounds say: a ratio with its interval, and the crossover.
 *   method   values of one round were measured within a minute of each other, so ratios are taken
 *            within a round; their geometric mean is given with the middle 95 % of the means of
 *            2,000 draws of as many rounds, with replacement (percentile bootstrap). Few rounds
 *            give a coarse interval: of three it is about their range
 *   numbers  the draws are seeded: the same rows give the same report
 *   thread   any; pure */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_STATS_H
#define QUIRE_FRONTEND_BENCH_CROSS_STATS_H

#include <stdbool.h>
#include <stdint.h>

enum { CROSS_ROUNDS_MAX = 64, CROSS_POINTS_MAX = 16 };

struct cross_interval {
    double mid, low, high;
};

/* cross_interval_of - of positive values; count 0 gives zeroes. */
struct cross_interval cross_interval_of(const double *values, uint32_t count);

/* Rounds at one number of users, as ratios to the loop that serves one after another. */
struct cross_point {
    uint32_t users, rounds;
    double speed[CROSS_ROUNDS_MAX]; /* tokens/s, more is better */
    double wait[CROSS_ROUNDS_MAX];  /* 95th percentile of the time to an answer, less is better */
};

#define CROSS_NEVER UINT32_MAX

/* The least number of users at which batching wins: the interval of speed is above 1 and the wait
 * is not longer. low, high: the middle 95 % of what draws of rounds give, where winning is a mean
 * speed above 1 and a mean wait of at most 1; users is between them. CROSS_NEVER: not up to the
 * last point. */
struct cross_star {
    uint32_t users, low, high;
};

struct cross_star cross_star_of(const struct cross_point *points, uint32_t count);

/* cross_wins - whether the interval rule holds at this point. */
bool cross_wins(const struct cross_point *p);

#endif
