/* SPDX-License-Identifier: MIT */
/* cross_stats - see cross_stats.h. */
#include "frontend/bench/cross_stats.h"

#include <math.h>
#include <stdlib.h>

#include "core/rng.h"

enum { DRAWS = 2000 };

/* Geometric mean of the values that picks names. */
static double mean_of(const double *values, const uint32_t *picks, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += log(values[picks[i]]);
    return exp(sum / count);
}

static void draw(struct rng *rng, uint32_t *picks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        picks[i] = (uint32_t)rng_below(rng, count);
}

static void each_once(uint32_t *picks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        picks[i] = i;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct cross_interval cross_interval_of(const double *values, uint32_t count)
{
    uint32_t picks[CROSS_ROUNDS_MAX * CROSS_POINTS_MAX];
    double means[DRAWS];
    struct rng rng = rng_seeded(1);
    if (count == 0)
        return (struct cross_interval){ 0, 0, 0 };
    if (count > sizeof picks / sizeof *picks)
        count = sizeof picks / sizeof *picks;
    for (uint32_t i = 0; i < DRAWS; i++) {
        draw(&rng, picks, count);
        means[i] = mean_of(values, picks, count);
    }
    qsort(means, DRAWS, sizeof *means, by_value);
    each_once(picks, count);
    return (struct cross_interval){ mean_of(values, picks, count), means[DRAWS / 40],
                                    means[DRAWS - 1 - DRAWS / 40] };
}

bool cross_wins(const struct cross_point *p)
{
    uint32_t picks[CROSS_ROUNDS_MAX];
    each_once(picks, p->rounds);
    return p->rounds > 0 && cross_interval_of(p->speed, p->rounds).low > 1 &&
           mean_of(p->wait, picks, p->rounds) <= 1;
}

/* The first point that wins in these rounds. */
static uint32_t star_in(const struct cross_point *points, uint32_t count, const uint32_t *picks,
                        uint32_t rounds)
{
    for (uint32_t i = 0; i < count; i++)
        if (mean_of(points[i].speed, picks, rounds) > 1 &&
            mean_of(points[i].wait, picks, rounds) <= 1)
            return points[i].users;
    return CROSS_NEVER;
}

static int by_users(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

struct cross_star cross_star_of(const struct cross_point *points, uint32_t count)
{
    struct cross_star star = { CROSS_NEVER, CROSS_NEVER, CROSS_NEVER };
    uint32_t stars[DRAWS], picks[CROSS_ROUNDS_MAX], rounds = CROSS_ROUNDS_MAX;
    struct rng rng = rng_seeded(2);
    for (uint32_t i = 0; i < count; i++)
        rounds = points[i].rounds < rounds ? points[i].rounds : rounds;
    if (count == 0 || rounds == 0)
        return star;
    for (uint32_t i = count; i-- > 0;)
        star.users = cross_wins(&points[i]) ? points[i].users : star.users;
    for (uint32_t i = 0; i < DRAWS; i++) {
        draw(&rng, picks, rounds);
        stars[i] = star_in(points, count, picks, rounds);
    }
    qsort(stars, DRAWS, sizeof *stars, by_users);
    star.low = stars[DRAWS / 40] < star.users ? stars[DRAWS / 40] : star.users;
    star.high = stars[DRAWS - 1 - DRAWS / 40];
    star.high = star.high > star.users ? star.high : star.users;
    return star;
}
