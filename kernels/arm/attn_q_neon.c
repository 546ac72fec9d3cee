/* SPDX-License-Identifier: MIT */
/* attn_q_neon - tiles of int8 and 4-bit keys and values with NEON; bit for bit
 * kernels/ref/attn_ref.c. Needs no more than ARMv8-A.
 *   scores  a register of codes is four dimensions of four keys (q4_0: and their partners 16
 *           above, in the upper nibbles). Products are widened to 16 bits, where two of int8 (2 *
 *           128 * 127 < 2^15) or all eight of a group's 4-bit codes are added, then to 32 bits
 *   values  lanes are dimensions, widened to floats on their way; the weights of a group's 32 keys
 *           are multiplied by its scales first */
#include <arm_neon.h>

#include "core/attr.h"
#include "kernels/act.h"
#include "kernels/arm/attn_neon.h"

#define BLOCK KV_BLOCK_TOKENS
#define SPLIT KV_SPLIT_TOKENS
#define ROW (4 * BLOCK) /* bytes of four codes of each key */

ATTR_INLINE float32x4_t half4(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Codes 0 .. 15 of 16 bytes, less 8: the lower nibbles or the upper ones. */
ATTR_INLINE int8x16_t nibbles(uint8x16_t bytes, bool upper)
{
    uint8x16_t codes = upper ? vshrq_n_u8(bytes, 4) : vandq_u8(bytes, vdupq_n_u8(15));
    return vsubq_s8(vreinterpretq_s8_u8(codes), vdupq_n_s8(8));
}

/* 16-bit sums of products of four keys, four dimensions each. */
struct products {
    int16x8_t low, high;
};

/* The four quants at q, times the codes. */
ATTR_INLINE void multiply(struct products *p, int8x16_t codes, const int8_t *q)
{
    int8x16_t four = vreinterpretq_s8_u32(vld1q_dup_u32((const uint32_t *)(const void *)q));
    p->low = vmlal_s8(p->low, vget_low_s8(codes), vget_low_s8(four));
    p->high = vmlal_high_s8(p->high, codes, four);
}

ATTR_INLINE int32x4_t add_products(int32x4_t dot, const struct products *p)
{
    return vaddq_s32(dot, vpaddq_s32(vpaddlq_s16(p->low), vpaddlq_s16(p->high)));
}

/* One group of four keys by one column; codes[8] in the order of the dimensions. */
ATTR_INLINE int32x4_t dot_group(const int8x16_t codes[8], const int8_t *q, const int together)
{
    int32x4_t dot = vdupq_n_s32(0);
    ATTR_UNROLL
    for (int i = 0; i < 8; i += together) {
        struct products p = { vdupq_n_s16(0), vdupq_n_s16(0) };
        ATTR_UNROLL
        for (int k = i; k < i + together; k++)
            multiply(&p, codes[k], q + 4 * k);
        dot = add_products(dot, &p);
    }
    return dot;
}

ATTR_INLINE void load_codes(int8x16_t codes[8], const uint8_t *k, const enum kv_type type)
{
    ATTR_UNROLL
    for (int i = 0; i < 8; i++) {
        if (type == KV_Q8_0)
            codes[i] = vreinterpretq_s8_u8(vld1q_u8(k + i * (size_t)ROW));
        else
            codes[i] = nibbles(vld1q_u8(k + i % 4 * (size_t)ROW), i >= 4);
    }
}

ATTR_INLINE void scores_tile(const enum kv_type type, const uint8_t *tile, const float *q,
                             size_t stride, uint32_t head_dim, float *p, const uint32_t h_count)
{
    const uint8_t *scales = tile + kv_codes_bytes(type, head_dim);
    for (uint32_t x = 0; x < BLOCK; x += 4) {
        float32x4_t sum[4];
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++)
            sum[h] = vdupq_n_f32(0);
        for (uint32_t g = 0; g < head_dim / KV_GROUP; g++) {
            int8x16_t codes[8];
            load_codes(codes, tile + 4 * x + g * (kv_codes_bytes(type, KV_GROUP)), type);
            float32x4_t d = half4(scales + 2 * (size_t)(g * BLOCK + x));
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++) {
                const struct act_q8_32 *group =
                    (const struct act_q8_32 *)(const void *)(q + h * stride) + g;
                int32x4_t dot = dot_group(codes, group->q, type == KV_Q8_0 ? 2 : 8);
                sum[h] = vfmaq_f32(sum[h], vmulq_n_f32(d, group->d), vcvtq_f32_s32(dot));
            }
        }
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++)
            vst1q_f32(p + (size_t)h * SPLIT + x, sum[h]);
    }
}

ATTR_INLINE void scores(const enum kv_type type, const uint8_t *tile, const float *q, size_t stride,
                        uint32_t head_dim, float *p, uint32_t h_count)
{
    if (h_count == 4)
        scores_tile(type, tile, q, stride, head_dim, p, 4);
    else if (h_count == 2)
        scores_tile(type, tile, q, stride, head_dim, p, 2);
    else
        scores_tile(type, tile, q, stride, head_dim, p, 1);
}

void attn_scores_q8_neon(const uint8_t *tile, const float *q, size_t stride, uint32_t head_dim,
                         float *p, uint32_t h_count)
{
    scores(KV_Q8_0, tile, q, stride, head_dim, p, h_count);
}

void attn_scores_q4_neon(const uint8_t *tile, const float *q, size_t stride, uint32_t head_dim,
                         float *p, uint32_t h_count)
{
    scores(KV_Q4_0, tile, q, stride, head_dim, p, h_count);
}

/* 16 codes as floats. */
ATTR_INLINE void to_floats(float32x4_t out[4], int8x16_t codes)
{
    int16x8_t low = vmovl_s8(vget_low_s8(codes)), high = vmovl_high_s8(codes);
    out[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    out[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    out[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    out[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}

/* The first half of a group's dimensions, or with upper the second one, of n keys onto H columns.
 * weights [h][32]. */
ATTR_INLINE void values_strip(const enum kv_type type, const uint8_t *v, size_t row_bytes,
                              const bool upper, uint32_t n, uint32_t head_dim, const float *weights,
                              float *o, const uint32_t h_count)
{
    float32x4_t sum[16];
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4 * h_count; i++)
        sum[i] = vld1q_f32(o + (size_t)(i / 4) * head_dim + 4 * (i % 4));
    for (uint32_t k = 0; k < n; k++, v += row_bytes) {
        float32x4_t values[4];
        if (type == KV_Q8_0)
            to_floats(values, vreinterpretq_s8_u8(vld1q_u8(v + (upper ? KV_GROUP / 2 : 0))));
        else
            to_floats(values, nibbles(vld1q_u8(v), upper));
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4 * h_count; i++)
            sum[i] = vfmaq_n_f32(sum[i], values[i % 4], weights[i / 4 * BLOCK + k]);
    }
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4 * h_count; i++)
        vst1q_f32(o + (size_t)(i / 4) * head_dim + 4 * (i % 4), sum[i]);
}

ATTR_INLINE void values_tile(const enum kv_type type, const uint8_t *v, uint32_t n,
                             uint32_t head_dim, const float *p, float *o, const uint32_t h_count)
{
    const uint8_t *scales = v + kv_codes_bytes(type, head_dim);
    const size_t row_bytes = kv_codes_bytes(type, head_dim) / BLOCK;
    const size_t group_bytes = row_bytes * KV_GROUP / head_dim;
    for (uint32_t g = 0; g < head_dim / KV_GROUP; g++, v += group_bytes, scales += 2 * BLOCK) {
        float weights[4 * BLOCK];
        for (uint32_t x = 0; x < BLOCK; x += 4) {
            float32x4_t d = half4(scales + 2 * (size_t)x);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++)
                vst1q_f32(weights + h * BLOCK + x, vmulq_f32(vld1q_f32(p + h * SPLIT + x), d));
        }
        float *at = o + (size_t)g * KV_GROUP;
        values_strip(type, v, row_bytes, false, n, head_dim, weights, at, h_count);
        values_strip(type, v, row_bytes, true, n, head_dim, weights, at + KV_GROUP / 2, h_count);
    }
}

ATTR_INLINE void values(const enum kv_type type, const uint8_t *tile, uint32_t n, uint32_t head_dim,
                        const float *p, float *o, uint32_t h_count)
{
    if (h_count == 4)
        values_tile(type, tile, n, head_dim, p, o, 4);
    else if (h_count == 2)
        values_tile(type, tile, n, head_dim, p, o, 2);
    else
        values_tile(type, tile, n, head_dim, p, o, 1);
}

void attn_values_q8_neon(const uint8_t *tile, uint32_t n, uint32_t head_dim, const float *p,
                         float *o, uint32_t h_count)
{
    values(KV_Q8_0, tile, n, head_dim, p, o, h_count);
}

void attn_values_q4_neon(const uint8_t *tile, uint32_t n, uint32_t head_dim, const float *p,
                         float *o, uint32_t h_count)
{
    values(KV_Q4_0, tile, n, head_dim, p, o, h_count);
}
