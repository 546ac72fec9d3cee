/* SPDX-License-Identifier: MIT */
/* quantiles - see quantiles.h. */
#include "frontend/bench/quantiles.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

enum rc quantiles_add(struct quantiles *q, double value)
{
    if (q->count == q->capacity) {
        size_t capacity = q->capacity * 2 + 64;
        double *grown = mem_grow(q->values, q->count * sizeof *grown, capacity * sizeof *grown);
        if (grown == NULL)
            return RC_NO_MEMORY;
        q->values = grown;
        q->capacity = capacity;
    }
    q->values[q->count++] = value;
    q->sorted = false;
    return RC_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantiles_at(struct quantiles *q, double share)
{
    if (q->count == 0)
        return 0;
    if (!q->sorted)
        qsort(q->values, q->count, sizeof *q->values, by_value);
    q->sorted = true;
    double rank = ceil(share * (double)q->count);
    return q->values[rank < 1 ? 0 : (size_t)rank - 1];
}

double quantiles_median(struct quantiles *q)
{
    double low = quantiles_at(q, 0.5);
    return q->count > 0 && q->count % 2 == 0 ? (low + q->values[q->count / 2]) / 2 : low;
}

double quantiles_mean(const struct quantiles *q)
{
    double sum = 0;
    for (size_t i = 0; i < q->count; i++)
        sum += q->values[i];
    return q->count > 0 ? sum / (double)q->count : 0;
}

void quantiles_close(struct quantiles *q)
{
    mem_free(q->values);
    *q = (struct quantiles){ 0 };
}
