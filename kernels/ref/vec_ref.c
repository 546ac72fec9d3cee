/* SPDX-License-Identifier: MIT */
/* vec_ref - the row-wise kernels in plain loops: the specification that every instruction set must
 * equal. A sum of n terms in L lanes means: lane i adds the terms i, i + L, i + 2L, ... in that
 * order from +0, then lane i takes lane i + L/2, i + L/4, ... until lane 0 has all. */
#include <math.h>

#include "kernels/expf.h"
#include "kernels/f16.h"
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

static void to_f16_ref(uint16_t *dst, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        dst[i] = f32_to_f16(x[i]);
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

static void hadamard_ref(float *x, uint32_t n, uint32_t size, float scale)
{
    for (uint32_t h = 1; h < size; h *= 2) {
        for (uint32_t i = 0; i < n; i++) {
            if ((i & h) != 0)
                continue;
            float a = x[i], b = x[i + h];
            x[i] = a + b;
            x[i + h] = a - b;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] *= scale;
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
        .hadamard = hadamard_ref,
    };
}
