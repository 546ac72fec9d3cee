/* SPDX-License-Identifier: MIT */
/* workers - a fixed team of threads that runs one function at a time, with a barrier inside.
 *   owner    the opener's thread is worker 0 and the only caller of workers_run
 *   waiting  a short spin (none when there are more workers than usable CPUs), then a futex, so that an
 *            idle team costs no CPU and a descheduled member costs its own share and no more
 *   numerics every worker starts with the same floating-point mode: round to nearest, denormals kept
 *   limits   WORKERS_MAX */
#ifndef QUIRE_CORE_WORKERS_H
#define QUIRE_CORE_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct workers;

/* The function a team runs; worker is 0 .. count-1. */
typedef void workers_fn(void *ctx, uint32_t worker, uint32_t worker_count);

/* workers_open - starts count-1 threads. pin: CPU ids, count of them, or NULL for no pinning.
 * spin: whether waiting may spin at all. */
enum rc workers_open(struct workers **out, uint32_t count, const uint32_t *pin, bool spin,
                     struct fault *fault) ATTR_MUST_USE;
void workers_close(struct workers *w);

uint32_t workers_count(const struct workers *w);

/* workers_run - runs fn on every worker, on the caller as worker 0; returns when all have returned. */
void workers_run(struct workers *w, workers_fn *fn, void *ctx);

/* workers_barrier - inside fn: returns when every worker has called it. What was written before is visible after. */
void workers_barrier(struct workers *w, uint32_t worker);

/* workers_range - the fixed share of items [*begin, *end) of this worker, in whole units of grain items
 * (the last may be shorter). Depends on its arguments alone. */
void workers_range(uint64_t items, uint32_t grain, uint32_t worker, uint32_t worker_count, uint64_t *begin,
                   uint64_t *end);

#endif
