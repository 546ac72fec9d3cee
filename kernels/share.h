/* SPDX-License-Identifier: MIT */
/* share - hands out units of work to workers of unequal speed: large pieces first, small ones at
 * the end, so that a worker whose core is slow, or is taken by another process, leaves the rest to
 * the others. Which worker takes what decides nothing but time.
 *   thread   any; one atomic word a stage, 0 before the stage begins */
#ifndef QUIRE_KERNELS_SHARE_H
#define QUIRE_KERNELS_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* share_take - the next piece [*begin, *end) of units; false when all are taken. A piece is half of
 * an even share of what is left, and at least smallest; where that leaves fewer than two pieces a
 * worker, even shares. So a core at a third of its speed or more ends with the others. */
bool share_take(atomic_uint *taken, uint32_t units, uint32_t smallest, uint32_t workers,
                uint32_t *begin, uint32_t *end);

#endif
