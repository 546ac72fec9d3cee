/* SPDX-License-Identifier: MIT */
/* bench_layers - where the time of a row's steps went, by layer and stage (kernels/laps.h): means
 * in microseconds a step.
 *   thread   the main thread
 *   errors   NULL when memory is out */
#ifndef QUIRE_FRONTEND_BENCH_BENCH_LAYERS_H
#define QUIRE_FRONTEND_BENCH_BENCH_LAYERS_H

#include <jansson.h>

#include "core/model.h"
#include "frontend/bench/bench_run.h"

json_t *bench_layers_json(const struct bench_row *row, const struct model *m);

/* bench_layers_print - tables on stdout, one for the prompts and one for the outputs. */
void bench_layers_print(const struct bench_row *row, const struct model *m);

#endif
