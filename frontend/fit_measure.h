/* SPDX-License-Identifier: MIT */
/* fit_measure - what this machine gives in a second: disk, memory, products.
 *   thread   the caller's, which becomes worker 0 of the team
 *   time     about a second in all */
#ifndef QUIRE_FRONTEND_FIT_MEASURE_H
#define QUIRE_FRONTEND_FIT_MEASURE_H

#include "core/gguf.h"
#include "core/workers.h"
#include "frontend/fit.h"

/* fit_measure_disk - bytes a second of the model's first file, read past the page cache in a row;
 * 0 when it cannot be read that way. */
double fit_measure_disk(const struct gguf *g);

/* fit_measure_cores - memory_bytes_s and macs_s of the team; type: of the weights. */
enum rc fit_measure_cores(struct fit_machine *out, struct workers *w,
                          enum dtype type) ATTR_MUST_USE;

#endif
