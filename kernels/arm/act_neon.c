/* SPDX-License-Identifier: MIT */
/* act_neon - the quantizer of kernels/act.c with NEON, 16 values at a time, to the same bytes. The
 * largest magnitude is found on the bits as integers, as there. */
#include <arm_neon.h>

#include <stdbool.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/act.h"
#include "kernels/arm/fill_neon.h"
#include "kernels/f16.h"

/* The largest magnitude bits of count values, a multiple of 8. */
ATTR_INLINE uint32_t top_bits(const float *x, uint32_t count)
{
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
    uint32x4_t a = vdupq_n_u32(0), b = a;
    for (uint32_t i = 0; i < count; i += 8) {
        a = vmaxq_u32(a, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), magnitude));
        b = vmaxq_u32(b, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i + 4)), magnitude));
    }
    return vmaxvq_u32(vmaxq_u32(a, b));
}

/* Scale of a group by its magnitude bits, and the factor of its values; false: all zero. */
static bool group_scale(uint32_t top, float *d, float *factor)
{
    bool broken = top >= ACT_INF_BITS;
    if (broken || top < ACT_TINY_BITS) {
        *d = f32_from_bits(broken ? NAN_BITS : 0);
        *factor = 0;
        return false;
    }
    *d = f32_from_bits(top) / 127.0f;
    *factor = 127.0f / f32_from_bits(top);
    return true;
}

/* 16 quants, rounded half to even. */
ATTR_INLINE int8x16_t quants16(const float *x, float factor)
{
    int16x4_t v[4];
    ATTR_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), factor)));
    return vcombine_s8(vmovn_s16(vcombine_s16(v[0], v[1])), vmovn_s16(vcombine_s16(v[2], v[3])));
}

/* Sums of 16 quants: [0] where k mod 4 is 0 or 1, [1] where it is 2 or 3. */
ATTR_INLINE int16x4_t pair_sums(int8x16_t q)
{
    int16x8_t two = vpaddlq_s8(q); /* of neighbours */
    int16x4_t four = vadd_s16(vget_low_s16(two), vget_high_s16(two));
    return vadd_s16(four, vreinterpret_s16_s32(vrev64_s32(vreinterpret_s32_s16(four))));
}

static void quantize_q8_32(uint8_t *dst, const float *x, uint32_t cols)
{
    for (uint32_t at = 0; at < cols; at += 32, x += 32, dst += sizeof(struct act_q8_32)) {
        struct act_q8_32 *g = (struct act_q8_32 *)(void *)dst;
        float factor;
        int8x16_t a = vdupq_n_s8(0), b = a;
        if (group_scale(top_bits(x, 32), &g->d, &factor)) {
            a = quants16(x, factor);
            b = quants16(x + 16, factor);
        }
        vst1q_s8(g->q, a);
        vst1q_s8(g->q + 16, b);
        int16x4_t sums = vadd_s16(pair_sums(a), pair_sums(b));
        int16_t first = vget_lane_s16(sums, 0), second = vget_lane_s16(sums, 1);
        g->sum = (float)(first + second);
        g->centre8[0] = (int16_t)(-8 * first);
        g->centre8[1] = (int16_t)(-8 * second);
    }
}

static void quantize_q8_256(uint8_t *dst, const float *x, uint32_t cols)
{
    for (uint32_t at = 0; at < cols; at += 256, x += 256, dst += sizeof(struct act_q8_256)) {
        struct act_q8_256 *g = (struct act_q8_256 *)(void *)dst;
        float factor;
        bool some = group_scale(top_bits(x, 256), &g->d, &factor);
        memset(g->reserved, 0, sizeof g->reserved);
        for (uint32_t j = 0; j < 16; j++) {
            int8x16_t q = some ? quants16(x + 16 * j, factor) : vdupq_n_s8(0);
            vst1q_s8(g->q + 16 * j, q);
            int16x4_t sums = pair_sums(q);
            int16_t first = vget_lane_s16(sums, 0), second = vget_lane_s16(sums, 1);
            g->sum16[j] = (int16_t)(first + second);
            g->centre32[j][0] = (int16_t)(-32 * first);
            g->centre32[j][1] = (int16_t)(-32 * second);
        }
        for (uint32_t j = 0; j < 8; j++)
            g->sum32[j] = (int16_t)(g->sum16[2 * j] + g->sum16[2 * j + 1]);
    }
}

void act_fill_neon(struct matmul_kernels *k)
{
    k->quantize[ACT_Q8_32] = quantize_q8_32;
    k->quantize[ACT_Q8_256] = quantize_q8_256;
}
