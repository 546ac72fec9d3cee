/* SPDX-License-Identifier: MIT */
/* matmul_i8mm - tiles with the byte matrix product (Neoverse N2, V1, V2, Cortex-A510 and later):
 * two rows times two columns over eight weights in one instruction. A vector of codes holds eight
 * weights of two rows; a pair of columns is interleaved by eight activations as it is loaded. The
 * four sums of a product are row-major, and become lanes of rows at the end. */
#include "kernels/arm/fill_neon.h"
#include "kernels/arm/ops_neon.h"

/* w[2 e + h]: bytes 8 e .. 8 e + 7 of rows 2 h and 2 h + 1. */
ATTR_INLINE void v_codes16(vint w[4], const uint8_t *p, size_t stride)
{
    ATTR_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        int64x2_t a = vreinterpretq_s64_u8(vld1q_u8(p + 2 * h * stride));
        int64x2_t b = vreinterpretq_s64_u8(vld1q_u8(p + (2 * h + 1) * stride));
        w[h] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
        w[2 + h] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
    }
}

/* Vector 2 e + h: byte e of the words of rows 2 h and 2 h + 1. */
ATTR_INLINE vint v_high_bits(vint bits, const int i)
{
    const uint8_t from = (uint8_t)(i % 2 * 8 + i / 2);
    const uint8x16_t lane = { 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4 };
    const uint8x16_t one_each = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    uint8x16_t copies = vqtbl1q_u8(v_as_u8(bits), vaddq_u8(lane, vdupq_n_u8(from)));
    return v_of_u8(vandq_u8(vtstq_u8(copies, one_each), vdupq_n_u8(16)));
}

/* 16 activations of two columns: y[0] has the first eight of both, y[1] the others. */
ATTR_INLINE void pair_columns(int8x16_t y[2], const int8_t *a, const int8_t *b)
{
    int64x2_t first = vreinterpretq_s64_s8(vld1q_s8(a)), second = vreinterpretq_s64_s8(vld1q_s8(b));
    y[0] = vreinterpretq_s8_s64(vzip1q_s64(first, second));
    y[1] = vreinterpretq_s8_s64(vzip2q_s64(first, second));
}

/* Two columns; sums of both are added to a and b. */
ATTR_INLINE void dots_of_two(vint a[TILE_VECTORS], vint b[TILE_VECTORS],
                             const vint (*q)[TILE_VECTORS], const int8_t *y0, const int8_t *y1,
                             const int depth)
{
    vint sum[TILE_VECTORS][2];
    ATTR_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        sum[v][0] = sum[v][1] = v_zero();
    ATTR_UNROLL
    for (int i = 0; i < depth; i += 4) {
        int8x16_t y[2];
        pair_columns(y, y0 + 4 * i, y1 + 4 * i);
        ATTR_UNROLL
        for (int k = 0; k < 4; k++) {
            ATTR_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                sum[v][k % 2] =
                    vmmlaq_s32(sum[v][k % 2], vreinterpretq_s8_s32(q[i + k][v]), y[k / 2]);
        }
    }
    ATTR_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        a[v] = vaddq_s32(a[v], vuzp1q_s32(sum[v][0], sum[v][1]));
        b[v] = vaddq_s32(b[v], vuzp2q_s32(sum[v][0], sum[v][1]));
    }
}

ATTR_INLINE void v_dots(vint s[][TILE_VECTORS], const vint (*q)[TILE_VECTORS], const int8_t *y,
                        size_t y_stride, const int depth, const int n, const bool wide)
{
    (void)wide;
    ATTR_UNROLL
    for (int c = 0; c + 1 < n; c += 2)
        dots_of_two(s[c], s[c + 1], q, y + (size_t)c * y_stride, y + ((size_t)c + 1) * y_stride,
                    depth);
    if (n % 2 != 0) {
        vint same[TILE_VECTORS] = { v_zero(), v_zero(), v_zero(), v_zero() };
        const int8_t *last = y + (size_t)(n - 1) * y_stride;
        dots_of_two(s[n - 1], same, q, last, last, depth);
    }
}

#include "kernels/tile/run.h"

void matmul_fill_i8mm(struct matmul_kernels *k)
{
    tile_fill(k);
}
