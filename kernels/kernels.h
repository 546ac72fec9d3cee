/* SPDX-License-Identifier: MIT */
/* kernels - the table of compute functions, filled with the scalar reference first and then
 * overridden slot by slot by each instruction set this machine has.
 *   numerics  every entry equals kernels/ref by memcmp, whatever the level (kernels/README.md)
 *   owner     one table per opened level, constant after kernels_open; any thread */
#ifndef QUIRE_KERNELS_KERNELS_H
#define QUIRE_KERNELS_KERNELS_H

/* Names the bits that a step computes: raised by any change of them, so that keys and values that
 * another version has left in a file are not taken for one's own. */
#define KERNELS_NUMERICS 1u

#include "core/cpu.h"
#include "kernels/attn.h"
#include "kernels/matmul.h"
#include "kernels/vec.h"

struct kernels {
    enum isa isa; /* highest level that filled a slot */
    struct matmul_kernels matmul;
    struct vec_kernels vec;
    struct attn_kernels attn;
};

/* kernels_open - fills k for the given level or the highest usable one below it. */
void kernels_open(struct kernels *k, enum isa isa);

#endif
