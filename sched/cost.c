/* SPDX-License-Identifier: MIT */
/* cost - a machine changes under us: it throttles, somebody else takes a core, the context
 * grows. So the three weights follow the last hundred steps or so, each step correcting them in
 * proportion to how little is known in its direction. Terms are scaled to about one, a step far
 * off the forecast (a page fault, another process) counts as four times the forecast at most,
 * and whatever comes out is clamped to what makes sense before it is used. */
#include "sched/cost.h"

#include <math.h>

#define ROWS_SCALE 64.0
#define PAIRS_SCALE 65536.0
#define FORGET 0.98
#define SPREAD_FIRST 1e6
#define SPREAD_MAX 1e8
#define TRUSTED 6u /* steps */
#define ROWS_FREE_MAX 100000u
#define CHUNK_COMMON 128u

void cost_open(struct cost *c)
{
    *c = (struct cost){ 0 };
    for (int i = 0; i < COST_TERMS; i++)
        c->spread[i][i] = SPREAD_FIRST;
}

static void terms_of(double out[COST_TERMS], uint64_t rows, uint64_t pairs)
{
    out[0] = 1.0;
    out[1] = (double)rows / ROWS_SCALE;
    out[2] = (double)pairs / PAIRS_SCALE;
}

static double forecast(const struct cost *c, const double term[COST_TERMS])
{
    double us = 0.0;
    for (int i = 0; i < COST_TERMS; i++)
        us += fmax(c->weight[i], 0.0) * term[i];
    return us;
}

void cost_observe(struct cost *c, uint64_t rows, uint64_t pairs, uint64_t us)
{
    double term[COST_TERMS], gain[COST_TERMS], sum = FORGET, error = (double)us;
    terms_of(term, rows, pairs);
    double expected = forecast(c, term);
    if (c->seen >= TRUSTED)
        error = fmin(error, 4.0 * expected);
    for (int i = 0; i < COST_TERMS; i++) {
        error -= c->weight[i] * term[i];
        gain[i] = 0.0;
        for (int k = 0; k < COST_TERMS; k++)
            gain[i] += c->spread[i][k] * term[k];
        sum += gain[i] * term[i];
    }
    double trace = 0.0;
    for (int i = 0; i < COST_TERMS; i++) {
        c->weight[i] += gain[i] / sum * error;
        trace += c->spread[i][i];
    }
    /* Forgetting without news would let the spread grow for ever. */
    double forget = trace < SPREAD_MAX ? FORGET : 1.0;
    for (int i = 0; i < COST_TERMS; i++)
        for (int k = i; k < COST_TERMS; k++)
            c->spread[i][k] = c->spread[k][i] =
                (c->spread[i][k] - gain[i] * gain[k] / sum) / forget;
    for (int i = 0; i < COST_TERMS; i++)
        if (!isfinite(c->weight[i]) || !isfinite(c->spread[i][i]) || c->spread[i][i] < 0.0) {
            cost_open(c);
            return;
        }
    c->seen += c->seen < TRUSTED;
}

uint64_t cost_us(const struct cost *c, uint64_t rows, uint64_t pairs)
{
    double term[COST_TERMS];
    if (c->seen < TRUSTED)
        return 0;
    terms_of(term, rows, pairs);
    return (uint64_t)fmin(forecast(c, term), 1e15);
}

uint32_t cost_free_rows(const struct cost *c)
{
    double row = c->weight[1] / ROWS_SCALE, fixed = c->weight[0];
    if (c->seen < TRUSTED || fixed <= 0.0)
        return 0;
    if (row <= fixed * 1e-6)
        return ROWS_FREE_MAX; /* rows cost nothing that could be measured */
    return (uint32_t)fmin(fixed / row / 8.0, ROWS_FREE_MAX);
}

uint32_t cost_token_us(const struct cost *c)
{
    return (uint32_t)fmin((double)cost_us(c, CHUNK_COMMON, 0) / CHUNK_COMMON, 1e9);
}

uint32_t cost_rows_within(const struct cost *c, uint64_t rows, uint64_t pairs, uint32_t context,
                          uint32_t max, uint64_t us)
{
    uint32_t low = 0, high = max; /* low fits; the forecast grows with the rows */
    if (c->seen < TRUSTED)
        return 0;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (cost_us(c, rows + middle, pairs + cost_pairs(context, middle)) <= us)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
