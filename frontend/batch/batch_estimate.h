/* SPDX-License-Identifier: MIT */
/* batch_estimate - how fast this machine would answer a job, measured for a second or two with
 * prompts of its own.
 *   thread   main; nothing else runs in the engine
 *   errors   those of sched_submit */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_ESTIMATE_H
#define QUIRE_FRONTEND_BATCH_BATCH_ESTIMATE_H

#include "frontend/engine.h"

struct batch_speed {
    double prompt_tps, output_tps; /* tokens a second of all rows together */
    uint32_t rows;
    bool measured; /* else said by --tokens-per-second, both alike */
};

/* batch_estimate_measure - rows: requests that the job would run at once. */
enum rc batch_estimate_measure(struct batch_speed *out, struct engine *e, uint32_t rows,
                               struct fault *fault) ATTR_MUST_USE;

#endif
