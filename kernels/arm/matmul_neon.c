/* SPDX-License-Identifier: MIT */
/* matmul_neon - tiles with plain NEON (ARMv8-A without dotprod: Cortex-A53, A72). Products are
 * widened to 16 bits and added there as deep as codes allow: eight of at most 31 * 127, two of at
 * most 128 * 127. */
#include "kernels/arm/fill_neon.h"
#include "kernels/arm/ops_lanes_neon.h"

/* Sums of four neighbours: the row's. */
ATTR_INLINE vint add_fours(vint sum, int16x8_t low, int16x8_t high)
{
    return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

/* One column, one vector of rows. */
ATTR_INLINE vint dots_of(vint sum, const vint (*q)[TILE_VECTORS], const int v, const int8_t *y,
                         const int depth, const int together)
{
    ATTR_UNROLL
    for (int i = 0; i < depth; i += together) {
        int16x8_t low = vdupq_n_s16(0), high = low;
        ATTR_UNROLL
        for (int k = i; k < i + together; k++) {
            int8x16_t codes = vreinterpretq_s8_s32(q[k][v]);
            int8x16_t four = vreinterpretq_s8_s32(v_splat32(y + 4 * k));
            low = vmlal_s8(low, vget_low_s8(codes), vget_low_s8(four));
            high = vmlal_high_s8(high, codes, four);
        }
        sum = add_fours(sum, low, high);
    }
    return sum;
}

ATTR_INLINE void v_dots(vint s[][TILE_VECTORS], const vint (*q)[TILE_VECTORS], const int8_t *y,
                        size_t y_stride, const int depth, const int n, const bool wide)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        ATTR_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            s[c][v] = dots_of(s[c][v], q, v, y + (size_t)c * y_stride, depth, wide ? 2 : depth);
    }
}

#include "kernels/tile/run.h"

void matmul_fill_neon(struct matmul_kernels *k)
{
    tile_fill(k);
    matmul_fill_float_neon(k);
    act_fill_neon(k);
}
