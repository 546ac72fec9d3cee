/* SPDX-License-Identifier: MIT */
/* matmul_avx512vnni_model - kernels/x86/matmul_avx512vnni.c over the instructions in C. */
#include "tests/kernels/x86/model_avx512.h"

#include "tests/kernels/levels.h"

#define matmul_fill_avx512vnni matmul_fill_avx512vnni_model
#include "kernels/x86/matmul_avx512vnni.c"
