/* SPDX-License-Identifier: MIT */
/* levels - the levels that a machine can test: those it has, and those whose instructions there is
 * a model of in C. No state. */
#ifndef QUIRE_TESTS_KERNELS_LEVELS_H
#define QUIRE_TESTS_KERNELS_LEVELS_H

#include <stdbool.h>

#include "kernels/kernels.h"

/* level_open - fills k for exactly this level; false when neither processor nor model has it. */
bool level_open(struct kernels *k, enum isa isa);

/* level_is_model - level_open gives this level over a model. */
bool level_is_model(enum isa isa);

/* The entries over models; x86 only. */
void matmul_fill_avxvnni_model(struct matmul_kernels *k);
void matmul_fill_avx512vnni_model(struct matmul_kernels *k);

#endif
