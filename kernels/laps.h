/* SPDX-License-Identifier: MIT */
/* laps - where the time of a step goes: what worker 0 saw pass between the ends of its stages,
 * summed by layer over all steps since the opener zeroed it.
 *   owner    the opener, who hands it to exec_cpu_time and brings the memory of us
 *   thread   worker 0 of the step writes; the opener reads between steps
 *   cost     none that can be measured when no laps are wanted: one test of a pointer a stage. No
 *            result depends on it
 * A stage ends at a barrier, so its time is that of the slowest worker; the preparation of a single
 * row, which has no barrier, is worker 0's own. */
#ifndef QUIRE_KERNELS_LAPS_H
#define QUIRE_KERNELS_LAPS_H

#include <stdint.h>

#include "core/clock.h"

enum lap {
    LAP_PREPARE,   /* norms, and activations quantized: before every product */
    LAP_QKV,       /* products of q k v, rotation, append to the cache */
    LAP_ATTENTION, /* scores, exponentials, values */
    LAP_O,         /* product of o, residual */
    LAP_ROUTE,     /* mixtures: the router's product, the choice of experts */
    LAP_GATE_UP,   /* products of gate and up, silu */
    LAP_DOWN,      /* product of down, residual */
    LAP_EMBED,     /* block copies, embeddings, angles */
    LAP_OUTPUT,    /* product of the output matrix */
    LAP_SAMPLE,    /* peaks of the logits, tokens chosen */
    LAP_COUNT
};

struct laps {
    struct clock clock;
    uint32_t layer;             /* that runs; the number of layers: none of them */
    uint64_t begun_us, last_us; /* of the step; end of its last stage */
    uint64_t steps, steps_us;   /* all of them, whole */
    uint64_t (*us)[LAP_COUNT];  /* [layers + 1]: last, what belongs to no layer */
};

/* laps_name - "q k v". */
const char *laps_name(enum lap stage);

/* laps_begin - a step begins, in no layer; laps_take - a stage is over; laps_end - the step is. */
void laps_begin(struct laps *l, uint32_t layer_count);
void laps_take(struct laps *l, enum lap stage);
void laps_end(struct laps *l);

#endif
