/* SPDX-License-Identifier: MIT */
/* bench_limits - what this machine gives at most, at this moment, to a team of workers together:
 * bytes read from memory and products of bytes. Short enough to be taken before each row of a
 * table.
 *   owner    the opener: limits_open .. limits_close; the team is the caller's
 *   thread   the caller's, which becomes worker 0
 *   clock    about 50 ms: the best of some rounds, in which every worker reads its part of a block
 *            larger than the caches (as one stream and as eight side by side), and multiplies in
 *            registers
 *   errors   RC_NO_MEMORY */
#ifndef QUIRE_FRONTEND_BENCH_BENCH_LIMITS_H
#define QUIRE_FRONTEND_BENCH_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "core/dtype.h"
#include "core/err.h"
#include "core/workers.h"

struct limits {
    double read_bytes_s;
    double int8_macs_s;
};

struct limits_probe {
    struct workers *workers;
    struct clock clock;
    void *block;
    uint8_t *memory; /* in it, at a large page */
    size_t bytes;         /* 0: nothing is read */
    bool loop;            /* instructions whose rate stands for the products */
    double kernel_macs_s; /* > 0: stands for int8_macs_s, where no loop of instructions is known */
};

/* limits_open - isa, type: what the products will be made with, and of. spare: there is memory for
 * the block; where weights are read from disk there is none, and read_bytes_s stays 0. */
enum rc limits_open(struct limits_probe *p, struct workers *w, enum isa isa, enum dtype type,
                    bool spare) ATTR_MUST_USE;
void limits_close(struct limits_probe *p);

void limits_measure(struct limits *out, struct limits_probe *p);

/* limits_by_kernel - the rate of products is what the kernels reach out of the nearest cache,
 * measured once, and not what the instructions allow. */
bool limits_by_kernel(const struct limits_probe *p);

/* limits_moved - how far apart two measurements are, as a share of the larger; the worse of both
 * rates. limits_best - the larger of each: what the machine can do when nobody takes part of it. */
double limits_moved(const struct limits *a, const struct limits *b);
struct limits limits_best(const struct limits *a, const struct limits *b);

#endif
