/* SPDX-License-Identifier: MIT */
/* fill_neon - what the files of the NEON level fill in. */
#ifndef QUIRE_KERNELS_ARM_FILL_NEON_H
#define QUIRE_KERNELS_ARM_FILL_NEON_H

#include "kernels/matmul.h"

void matmul_fill_float_neon(struct matmul_kernels *k);
void act_fill_neon(struct matmul_kernels *k);

#endif
