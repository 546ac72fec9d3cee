/* SPDX-License-Identifier: MIT */
/* matmul_avxvnni - the integer formats with AVX-VNNI; float weights and activations stay with
 * AVX2. */
#include "kernels/x86/ops_avxvnni.h"

#include "kernels/tile/run.h"

void matmul_fill_avxvnni(struct matmul_kernels *k)
{
    tile_fill(k);
}
