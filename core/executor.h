/* SPDX-License-Identifier: MIT */
/* executor - the seam between sched and whatever computes a step: kernels/exec_cpu or a test.
 *   thread   run is called by the scheduler thread, one step at a time
 *   errors   run returns RC_OK, or a code that ends every request of the step with an error each */
#ifndef QUIRE_CORE_EXECUTOR_H
#define QUIRE_CORE_EXECUTOR_H

#include "core/batch.h"
#include "core/err.h"

struct executor_limits {
    uint32_t rows_max;    /* rows of a step */
    uint32_t outputs_max; /* outputs of a step */
    uint32_t vocab_count; /* token ids are below this */
    uint32_t ctx_max;     /* positions are below this */
};

/* What a step waited for, where weights are read from disk while it computes. */
struct executor_pace {
    uint64_t read_us; /* that reading them takes, whatever the rows: the least a step takes */
    uint64_t wait_us; /* of the last step: it had nothing to compute with */
};

struct executor {
    void *ctx;
    struct executor_limits limits;
    /* results has room for batch->output_count. */
    enum rc (*run)(void *ctx, const struct batch *batch, struct batch_result *results);
    /* After a run; NULL where weights are in memory. */
    struct executor_pace (*pace)(void *ctx);
    /* After a run: the hidden state of row batch.hidden[index], after the last norm, valid until
     * the next run. NULL where there is none to be had. */
    const float *(*hidden)(void *ctx, uint32_t index);
};

#endif
