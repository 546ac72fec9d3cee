/* SPDX-License-Identifier: MIT */
/* exp_neon - the exponential of kernels/expf.h in four lanes, and sums of lanes. Always inlined. */
#ifndef QUIRE_KERNELS_ARM_EXP_NEON_H
#define QUIRE_KERNELS_ARM_EXP_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#include "core/attr.h"
#include "kernels/expf.h"

ATTR_INLINE float32x4_t exp_neon(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f), round = vdupq_n_f32(EXP_ROUND);
    float32x4_t t = vfmaq_f32(round, x, vdupq_n_f32(EXP_LOG2E));
    float32x4_t n = vsubq_f32(t, round);
    float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-EXP_LN2_HI));
    r = vfmaq_f32(r, n, vdupq_n_f32(-EXP_LN2_LO));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(EXP_C5), vdupq_n_f32(EXP_C6), r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C2), p, r);
    p = vfmaq_f32(one, vfmaq_f32(one, p, r), r);
    uint32x4_t scale = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    scale = vaddq_u32(scale, vdupq_n_u32(EXP_ONE_BITS));
    p = vmulq_f32(p, vreinterpretq_f32_u32(scale));
    uint32x4_t low = vcltq_f32(x, vdupq_n_f32(EXP_MIN));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), low));
}

/* The larger of m and x, m when x is NaN. */
ATTR_INLINE float32x4_t larger_neon(float32x4_t m, float32x4_t x)
{
    return vbslq_f32(vcgtq_f32(x, m), x, m);
}

/* The sum of four lanes by the tree of kernels/ref/vec_ref.c: 2, 1. */
ATTR_INLINE float sum_neon(float32x4_t v)
{
    float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* The same of 16. */
ATTR_INLINE float sum16_neon(const float32x4_t v[4])
{
    return sum_neon(vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3])));
}

#endif
