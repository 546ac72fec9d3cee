/* SPDX-License-Identifier: MIT */
/* matmul_avx2 - the slots that AVX2 (with FMA and F16C) has. */
#include "kernels/x86/tile_avx2.h"

void matmul_fill_avx2(struct matmul_kernels *k)
{
    matmul_fill_k_avx2(k);
    matmul_fill_q_avx2(k);
    matmul_fill_float_avx2(k);
    act_fill_avx2(k);
}
