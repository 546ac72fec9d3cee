/* SPDX-License-Identifier: MIT */
/* workers - a fixed team of threads that runs one function at a time, with a barrier inside.
 *   owner    the opener's thread is worker 0: it calls workers_run and workers_close
 *   waiting  a short spin (none when there are more workers than usable CPUs), then a futex, so
 *            that an idle team costs no CPU and a descheduled member costs its own share and no
 *            more
 *   numerics every worker, worker 0 too, runs in the same floating-point mode: round to nearest,
 *            denormals kept, no exceptions
 *   signals  none are delivered to the team's threads but the ones a thread causes itself
 *   limits   WORKERS_MAX */
#ifndef QUIRE_CORE_WORKERS_H
#define QUIRE_CORE_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct workers;

/* The function a team runs; worker is 0 .. count-1. */
typedef void workers_fn(void *ctx, uint32_t worker, uint32_t worker_count);

/* workers_open - starts count-1 threads. pin: CPU ids, count of them, or NULL for no pinning (the
 * opener's own affinity comes back at workers_close). spin: whether waiting may spin at all.
 * A CPU that may not be pinned to is RC_USAGE, a thread that cannot be started RC_NO_MEMORY. */
enum rc workers_open(struct workers **out, uint32_t count, const uint32_t *pin, bool spin,
                     struct fault *fault) ATTR_MUST_USE;
void workers_close(struct workers *w);

uint32_t workers_count(const struct workers *w);

/* workers_run - runs fn on every worker, on the caller as worker 0; returns when all are done. */
void workers_run(struct workers *w, workers_fn *fn, void *ctx);

/* workers_barrier - inside fn: returns when every worker has called it. What was written before is
 * visible after. */
void workers_barrier(struct workers *w, uint32_t worker);

/* workers_range - the fixed share of items [*begin, *end) of this worker, in whole units of grain
 * items (the last may be shorter). Depends on its arguments alone. */
void workers_range(uint64_t items, uint32_t grain, uint32_t worker, uint32_t worker_count,
                   uint64_t *begin, uint64_t *end);

#endif
