/* SPDX-License-Identifier: MIT */
/* matmul_avx512vnni - the integer formats with AVX-512 VNNI; float weights and activations stay
 * with AVX2. */
#include "kernels/x86/ops_avx512vnni.h"

#include "kernels/tile/run.h"

void matmul_fill_avx512vnni(struct matmul_kernels *k)
{
    tile_fill(k);
}
