/* SPDX-License-Identifier: MIT */
/* matmul_dotprod - tiles with the dot product of bytes (Cortex-A55, A76, Neoverse N1, Apple): four
 * activations are picked from a register by the instruction, nothing is broadcast. */
#include "kernels/arm/fill_neon.h"
#include "kernels/arm/ops_lanes_neon.h"

/* Vectors 4 i .. 4 i + 3 of codes: 16 weights. */
ATTR_INLINE vint dot16(vint s, const vint (*q)[TILE_VECTORS], const int v, const int8x16_t y)
{
    s = vdotq_laneq_s32(s, vreinterpretq_s8_s32(q[0][v]), y, 0);
    s = vdotq_laneq_s32(s, vreinterpretq_s8_s32(q[1][v]), y, 1);
    s = vdotq_laneq_s32(s, vreinterpretq_s8_s32(q[2][v]), y, 2);
    return vdotq_laneq_s32(s, vreinterpretq_s8_s32(q[3][v]), y, 3);
}

ATTR_INLINE void v_dots(vint s[][TILE_VECTORS], const vint (*q)[TILE_VECTORS], const int8_t *y,
                        size_t y_stride, const int depth, const int n, const bool wide)
{
    (void)wide;
    ATTR_UNROLL
    for (int i = 0; i < depth; i += 4) {
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            int8x16_t four = vld1q_s8(y + (size_t)c * y_stride + 4 * i);
            ATTR_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                s[c][v] = dot16(s[c][v], q + i, v, four);
        }
    }
}

#include "kernels/tile/run.h"

void matmul_fill_dotprod(struct matmul_kernels *k)
{
    tile_fill(k);
}
