/* SPDX-License-Identifier: MIT */
/* vec_ref - the row-wise kernels in plain loops: the specification that every instruction set must equal.
 * A sum of n terms in L lanes means: lane i adds the terms i, i + L, i + 2L, ... in that order from +0, then
 * lane i takes lane i + L/2, i + L/4, ... until lane 0 has all. */
#include <math.h>
#include <string.h>

#include "kernels/expf.h"
#include "kernels/vec.h"

static float sum_lanes(float *lane, uint32_t count)
{
    for (uint32_t half = count / 2; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    }
    return lane[0];
}

static void rms_norm_ref(float *dst, const float *x, const float *w, uint32_t n, float eps)
{
    float lane[VEC_NORM_LANES] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        lane[i % VEC_NORM_LANES] = fmaf(x[i], x[i], lane[i % VEC_NORM_LANES]);
    float mean = sum_lanes(lane, VEC_NORM_LANES) / (float)n;
    float scale = 1.0f / sqrtf(mean + eps);
    for (uint32_t i = 0; i < n; i++)
        dst[i] = x[i] * scale * w[i];
}

static void rope_pairs_ref(float *x, const float *cos, const float *sin, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 2) {
        float a = x[i], b = x[i + 1];
        x[i] = fmaf(a, cos[i], b * sin[i]);
        x[i + 1] = fmaf(b, cos[i + 1], a * sin[i + 1]);
    }
}

static void silu_mul_ref(float *dst, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float x = -gate[i] > EXP_MAX ? EXP_MAX : -gate[i];
        dst[i] = gate[i] / (1.0f + exp_ref(x)) * up[i];
    }
}

static void add_scaled_ref(float *dst, const float *x, float scale, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        dst[i] = fmaf(scale, x[i], dst[i]);
}

/* Rounding by hand: the mantissa is shifted to its place, and half of the last place plus its own last bit
 * added before the cut. A carry walks into the exponent by itself, up to infinity. */
static uint16_t f16_from_f32(float f)
{
    uint32_t x;
    memcpy(&x, &f, sizeof x);
    uint16_t sign = (uint16_t)(x >> 16 & 0x8000u);
    x &= 0x7fffffffu;
    if (x > 0x7f800000u) /* NaN: quiet, the upper payload kept, as the processors do */
        return (uint16_t)(sign | 0x7e00u | (x >> 13 & 0x3ffu));
    if (x >= 0x47800000u) /* 65536 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (x < 0x33000000u) /* below half of the smallest */
        return sign;
    uint32_t exponent = x >> 23, mantissa = x & 0x7fffffu, shift = 13;
    if (exponent < 113) { /* subnormal result: the hidden bit is written out */
        mantissa |= 0x800000u;
        shift = 126 - exponent;
        exponent = 112;
    }
    uint32_t half = (1u << (shift - 1)) - 1 + (mantissa >> shift & 1u);
    return (uint16_t)(sign | (((exponent - 112) << 10) + ((mantissa + half) >> shift)));
}

static void to_f16_ref(uint16_t *dst, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        dst[i] = f16_from_f32(x[i]);
}

static void peak_ref(struct vec_peak *out, const float *x, uint32_t n)
{
    float lane[VEC_EXP_LANES] = { 0 };
    float max = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < n; i++)
        lane[i % VEC_EXP_LANES] += exp_ref(x[i] - max);
    *out = (struct vec_peak){ max, sum_lanes(lane, VEC_EXP_LANES) };
}

void vec_fill_ref(struct vec_kernels *k)
{
    *k = (struct vec_kernels){
        .rms_norm = rms_norm_ref,
        .rope_pairs = rope_pairs_ref,
        .silu_mul = silu_mul_ref,
        .add_scaled = add_scaled_ref,
        .to_f16 = to_f16_ref,
        .peak = peak_ref,
    };
}
