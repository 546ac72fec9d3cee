/* SPDX-License-Identifier: MIT */
/* vec_neon - the row-wise kernels with NEON; bit for bit kernels/ref/vec_ref.c. Lanes are the
 * reference's lanes: 32 sums of squares are eight registers, 16 sums of exponentials four. What is
 * left behind the last whole vector goes through the reference's own lines. */
#include <math.h>

#include "kernels/arm/exp_neon.h"
#include "kernels/f16.h"
#include "kernels/vec.h"

static void rms_norm_neon(float *dst, const float *x, const float *w, uint32_t n, float eps)
{
    float32x4_t sum[8];
    float lane[VEC_NORM_LANES];
    ATTR_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        sum[i] = vdupq_n_f32(0);
    uint32_t at = 0;
    for (; at + VEC_NORM_LANES <= n; at += VEC_NORM_LANES) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            float32x4_t v = vld1q_f32(x + at + 4 * i);
            sum[i] = vfmaq_f32(sum[i], v, v);
        }
    }
    ATTR_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        vst1q_f32(lane + 4 * i, sum[i]);
    for (; at < n; at++)
        lane[at % VEC_NORM_LANES] = fmaf(x[at], x[at], lane[at % VEC_NORM_LANES]);
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sum[i] = vaddq_f32(vld1q_f32(lane + 4 * i), vld1q_f32(lane + 16 + 4 * i));
    float mean = sum16_neon(sum) / (float)n;
    float scale = 1.0f / sqrtf(mean + eps);
    for (at = 0; at + 4 <= n; at += 4)
        vst1q_f32(dst + at, vmulq_f32(vmulq_n_f32(vld1q_f32(x + at), scale), vld1q_f32(w + at)));
    for (; at < n; at++)
        dst[at] = x[at] * scale * w[at];
}

static void rope_pairs_neon(float *x, const float *cos, const float *sin, uint32_t n)
{
    uint32_t at = 0;
    for (; at + 4 <= n; at += 4) {
        float32x4_t v = vld1q_f32(x + at), turned = vmulq_f32(vrev64q_f32(v), vld1q_f32(sin + at));
        vst1q_f32(x + at, vfmaq_f32(turned, v, vld1q_f32(cos + at)));
    }
    for (; at < n; at += 2) {
        float a = x[at], b = x[at + 1];
        x[at] = fmaf(a, cos[at], b * sin[at]);
        x[at + 1] = fmaf(b, cos[at + 1], a * sin[at + 1]);
    }
}

static void silu_mul_neon(float *dst, const float *gate, const float *up, uint32_t n)
{
    const float32x4_t max = vdupq_n_f32(EXP_MAX), one = vdupq_n_f32(1.0f);
    uint32_t at = 0;
    for (; at + 4 <= n; at += 4) {
        float32x4_t g = vld1q_f32(gate + at), x = vnegq_f32(g);
        x = vbslq_f32(vcgtq_f32(x, max), max, x);
        g = vdivq_f32(g, vaddq_f32(one, exp_neon(x)));
        vst1q_f32(dst + at, vmulq_f32(g, vld1q_f32(up + at)));
    }
    for (; at < n; at++) {
        float x = -gate[at] > EXP_MAX ? EXP_MAX : -gate[at];
        dst[at] = gate[at] / (1.0f + exp_ref(x)) * up[at];
    }
}

static void add_scaled_neon(float *dst, const float *x, float scale, uint32_t n)
{
    uint32_t at = 0;
    for (; at + 4 <= n; at += 4)
        vst1q_f32(dst + at, vfmaq_n_f32(vld1q_f32(dst + at), vld1q_f32(x + at), scale));
    for (; at < n; at++)
        dst[at] = fmaf(scale, x[at], dst[at]);
}

static void to_f16_neon(uint16_t *dst, const float *x, uint32_t n)
{
    uint32_t at = 0;
    for (; at + 4 <= n; at += 4)
        vst1_u16(dst + at, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + at))));
    for (; at < n; at++)
        dst[at] = f32_to_f16(x[at]);
}

static void peak_neon(struct vec_peak *out, const float *x, uint32_t n)
{
    const uint32_t whole = n / VEC_EXP_LANES * VEC_EXP_LANES;
    float32x4_t m = vdupq_n_f32(-INFINITY), sum[4];
    float lane[VEC_EXP_LANES], four[4], max = -INFINITY;
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sum[i] = vdupq_n_f32(0);
    for (uint32_t at = 0; at < whole; at += 4)
        m = larger_neon(m, vld1q_f32(x + at));
    vst1q_f32(four, m);
    for (uint32_t i = 0; i < 4; i++)
        max = four[i] > max ? four[i] : max;
    for (uint32_t at = whole; at < n; at++)
        max = x[at] > max ? x[at] : max;
    m = vdupq_n_f32(max);
    for (uint32_t at = 0; at < whole; at += VEC_EXP_LANES) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            sum[i] = vaddq_f32(sum[i], exp_neon(vsubq_f32(vld1q_f32(x + at + 4 * i), m)));
    }
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        vst1q_f32(lane + 4 * i, sum[i]);
    for (uint32_t at = whole; at < n; at++)
        lane[at - whole] += exp_ref(x[at] - max);
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sum[i] = vld1q_f32(lane + 4 * i);
    *out = (struct vec_peak){ max, sum16_neon(sum) };
}

/* Pairs 1 and 2 apart, in one register. */
ATTR_INLINE float32x4_t pairs_inside(float32x4_t v)
{
    const uint32x4_t odd = { 0, ~0u, 0, ~0u };
    float32x4_t other = vrev64q_f32(v);
    v = vbslq_f32(odd, vsubq_f32(other, v), vaddq_f32(v, other));
    other = vextq_f32(v, v, 2);
    return vcombine_f32(vget_low_f32(vaddq_f32(v, other)), vget_high_f32(vsubq_f32(other, v)));
}

static void hadamard_neon(float *x, uint32_t n, uint32_t size, float scale)
{
    for (uint32_t at = 0; at < n; at += 4)
        vst1q_f32(x + at, pairs_inside(vld1q_f32(x + at)));
    for (uint32_t h = 4; h < size; h *= 2) {
        for (uint32_t at = 0; at < n; at += 2 * h) {
            for (uint32_t i = at; i < at + h; i += 4) {
                float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + i + h);
                vst1q_f32(x + i, vaddq_f32(a, b));
                vst1q_f32(x + i + h, vsubq_f32(a, b));
            }
        }
    }
    for (uint32_t at = 0; at < n; at += 4)
        vst1q_f32(x + at, vmulq_n_f32(vld1q_f32(x + at), scale));
}

void vec_fill_neon(struct vec_kernels *k)
{
    k->rms_norm = rms_norm_neon;
    k->rope_pairs = rope_pairs_neon;
    k->silu_mul = silu_mul_neon;
    k->add_scaled = add_scaled_neon;
    k->to_f16 = to_f16_neon;
    k->peak = peak_neon;
    k->hadamard = hadamard_neon;
}
