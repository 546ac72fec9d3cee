/* SPDX-License-Identifier: MIT */
/* quantiles - a growing list of measured values, and its percentiles.
 *   owner    zero it before the first use; quantiles_close frees it
 *   thread   one */
#ifndef QUIRE_FRONTEND_BENCH_QUANTILES_H
#define QUIRE_FRONTEND_BENCH_QUANTILES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/attr.h"
#include "core/err.h"

struct quantiles {
    double *values;
    size_t count, capacity;
    bool sorted;
};

enum rc quantiles_add(struct quantiles *q, double value) ATTR_MUST_USE;

/* quantiles_at - the value that this share of all values, 0..1, does not exceed (nearest rank); 0
 * of none. */
double quantiles_at(struct quantiles *q, double share);

/* quantiles_median - of an even number: between the two in the middle. */
double quantiles_median(struct quantiles *q);
double quantiles_mean(const struct quantiles *q);
void quantiles_close(struct quantiles *q);

#endif
