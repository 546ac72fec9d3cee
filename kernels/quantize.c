/* SPDX-License-Identifier: MIT */
/* quantize - see quantize.h. Two kinds of fit, both by trying a few ways to round and keeping the
 * one whose least-squares scale leaves the smallest error:
 *   fit_scale       y = s q, q signed                 (Q3_K, Q6_K groups)
 *   fit_scale_min   y = s q + m, q >= 0, m <= 0       (Q2_K, Q4_K, Q5_K groups)
 * The formats of 32 elements take the scale that their extreme value asks for, as everybody's files
 * do. In the 256-element formats the group scales are themselves rounded to 6 or 8 bits; the quants
 * are then chosen anew for the scales as they are stored. */
#include "kernels/quantize.h"

#include <math.h>
#include <string.h>

#include "core/must.h"
#include "kernels/quantize_block.h"

static void range(const float *x, int n, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < n; i++) {
        *min = x[i] < *min ? x[i] : *min;
        *max = x[i] > *max ? x[i] : *max;
    }
}

static void quantize_q8_0(const float *x, uint8_t *b)
{
    float d = fabsf(extreme(x, 32)) / 127.0f, id = inverse(d);
    store_f16(b, d);
    for (int j = 0; j < 32; j++)
        b[2 + j] = (uint8_t)nearest(x[j] * id, -127, 127);
}

/* Q4_0 and Q5_0: the extreme value gets the most negative quant. */
static void quantize_signed(const float *x, uint8_t *b, int half, int q[32])
{
    float d = extreme(x, 32) / (float)-half, id = inverse(d);
    store_f16(b, d);
    for (int j = 0; j < 32; j++)
        q[j] = nearest(x[j] * id, -half, half - 1) + half;
}

/* Q4_1 and Q5_1. */
static void quantize_ranged(const float *x, uint8_t *b, int top, int q[32])
{
    float min, max;
    range(x, 32, &min, &max);
    float d = (max - min) / (float)top, id = inverse(d);
    store_f16(b, d);
    store_f16(b + 2, min);
    for (int j = 0; j < 32; j++)
        q[j] = nearest((x[j] - min) * id, 0, top);
}

static void pack_nibbles(uint8_t *p, const int q[32])
{
    for (int j = 0; j < 16; j++)
        p[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void pack_fifth_bits(uint8_t *p, const int q[32])
{
    uint32_t word = 0;
    for (int j = 0; j < 32; j++)
        word |= ((uint32_t)q[j] >> 4 & 1u) << j;
    memcpy(p, &word, sizeof word);
}

static void quantize_q4_0(const float *x, uint8_t *b)
{
    int q[32];
    quantize_signed(x, b, 8, q);
    pack_nibbles(b + 2, q);
}

static void quantize_q4_1(const float *x, uint8_t *b)
{
    int q[32];
    quantize_ranged(x, b, 15, q);
    pack_nibbles(b + 4, q);
}

static void quantize_q5_0(const float *x, uint8_t *b)
{
    int q[32];
    quantize_signed(x, b, 16, q);
    pack_fifth_bits(b + 2, q);
    pack_nibbles(b + 6, q);
}

static void quantize_q5_1(const float *x, uint8_t *b)
{
    int q[32];
    quantize_ranged(x, b, 31, q);
    pack_fifth_bits(b + 4, q);
    pack_nibbles(b + 8, q);
}

/* Scale s and minimum m <= 0 for n values, at most 32, as s q + m, q in [0, top]. */
static void fit_scale_min(const float *x, int n, int top, float *scale, float *min)
{
    float low, high, error_best = INFINITY;
    range(x, n, &low, &high);
    low = low < 0.0f ? low : 0.0f;
    *scale = 0.0f;
    *min = low;
    if (!(high > low))
        return;
    for (int step = 0; step <= 20; step++) {
        float per_unit = ((float)top - 1.0f + 0.1f * (float)step) / (high - low);
        float sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0, error = 0;
        int q[32];
        for (int i = 0; i < n; i++) {
            q[i] = nearest((x[i] - low) * per_unit, 0, top);
            sum_q += (float)q[i];
            sum_qq += (float)(q[i] * q[i]);
            sum_x += x[i];
            sum_qx += (float)q[i] * x[i];
        }
        /* All quants equal (det 0) happens to positive values alone: then m is 0 too. */
        float det = (float)n * sum_qq - sum_q * sum_q;
        float s = ((float)n * sum_qx - sum_q * sum_x) / det;
        float m = (sum_qq * sum_x - sum_q * sum_qx) / det;
        if (!(det > 0.0f) || m > 0.0f) {
            m = 0.0f;
            s = sum_qx / sum_qq;
        }
        for (int i = 0; i < n; i++) {
            float e = s * (float)q[i] + m - x[i];
            error += e * e;
        }
        if (error < error_best && s > 0.0f) {
            error_best = error;
            *scale = s;
            *min = m;
        }
    }
}

/* The 8 scales and 8 minima of Q4_K and Q5_K, 6 bits each (the reader is in dequant.c). */
static void pack_six_bits(uint8_t *p, const int s[8], const int t[8])
{
    for (int g = 0; g < 4; g++) {
        p[g] = (uint8_t)(s[g] | s[g + 4] >> 4 << 6);
        p[g + 4] = (uint8_t)(t[g] | t[g + 4] >> 4 << 6);
        p[g + 8] = (uint8_t)((s[g + 4] & 15) | (t[g + 4] & 15) << 4);
    }
}

/* d, dmin and the packed scales go to b; the quants of the 256 values to q. */
static void fit_groups(const float *x, int top, uint8_t *b, uint8_t q[256])
{
    float scale[8], min[8], scale_max = 0, min_max = 0;
    int s[8], t[8];
    for (int g = 0; g < 8; g++) {
        fit_scale_min(x + 32 * g, 32, top, &scale[g], &min[g]);
        scale_max = fmaxf(scale_max, scale[g]);
        min_max = fmaxf(min_max, -min[g]);
    }
    float d = store_f16(b, scale_max / 63.0f), dmin = store_f16(b + 2, min_max / 63.0f);
    for (int g = 0; g < 8; g++) {
        s[g] = nearest(scale[g] * inverse(d), 0, 63);
        t[g] = nearest(-min[g] * inverse(dmin), 0, 63);
        float id = inverse(d * (float)s[g]), low = dmin * (float)t[g];
        for (int i = 32 * g; i < 32 * g + 32; i++)
            q[i] = (uint8_t)nearest((x[i] + low) * id, 0, top);
    }
    pack_six_bits(b + 4, s, t);
}

static void pack_nibbles_256(uint8_t *p, const uint8_t q[256])
{
    for (int i = 0; i < 128; i++) {
        const uint8_t *pair = q + i / 32 * 64 + i % 32;
        p[i] = (uint8_t)((pair[0] & 15) | (pair[32] & 15) << 4);
    }
}

static void quantize_q4_k(const float *x, uint8_t *b)
{
    uint8_t q[256];
    fit_groups(x, 15, b, q);
    pack_nibbles_256(b + 16, q);
}

static void quantize_q5_k(const float *x, uint8_t *b)
{
    uint8_t q[256];
    fit_groups(x, 31, b, q);
    memset(b + 16, 0, 32);
    for (int i = 0; i < 256; i++)
        b[16 + i % 32] |= (uint8_t)(q[i] >> 4 << (i / 32));
    pack_nibbles_256(b + 48, q);
}

/* Scale for 16 values as s q, q in [-half, half - 1]; 0 when all are zero. */
static float fit_scale(const float x[16], int half)
{
    float peak = extreme(x, 16), best = 0.0f, scale = 0.0f;
    if (peak == 0.0f)
        return 0.0f;
    for (int step = -9; step <= 9; step++) {
        float per_unit = -((float)half + 0.1f * (float)step) / peak;
        float sum_qx = 0, sum_qq = 0;
        for (int i = 0; i < 16; i++) {
            float q = (float)nearest(x[i] * per_unit, -half, half - 1);
            sum_qx += q * x[i];
            sum_qq += q * q;
        }
        /* The error is sum x^2 - sum_qx^2 / sum_qq. */
        if (sum_qq > 0.0f && sum_qx * sum_qx > best * sum_qq) {
            scale = sum_qx / sum_qq;
            best = scale * sum_qx;
        }
    }
    return scale;
}

static void quantize_q6_k(const float *x, uint8_t *b)
{
    float scale[16];
    for (int g = 0; g < 16; g++)
        scale[g] = fit_scale(x + 16 * g, 32);
    float d = store_f16(b + 208, extreme(scale, 16) / -128.0f), id = inverse(d);
    memset(b, 0, 192);
    for (int g = 0; g < 16; g++)
        b[192 + g] = (uint8_t)nearest(scale[g] * id, -128, 127);
    for (int i = 0; i < 256; i++) {
        float s = d * (float)(int8_t)b[192 + i / 16];
        int q = nearest(x[i] * inverse(s), -32, 31) + 32, half = i / 128, j = i % 128;
        b[half * 64 + j % 64] |= (uint8_t)((q & 15) << (j / 64 * 4));
        b[128 + half * 32 + j % 32] |= (uint8_t)(q >> 4 << (j / 32 * 2));
    }
}

/* Error of 16 values as s q - t with q in [0, top]. */
static float error_of_pair(const float *x, float s, float t, int top)
{
    float error = 0.0f, id = inverse(s);
    for (int i = 0; i < 16; i++) {
        float e = s * (float)nearest((x[i] + t) * id, 0, top) - t - x[i];
        error += e * e;
    }
    return error;
}

/* Of the stored scales and minima next to the wanted ones, the pair that leaves least; 4 bits are
 * too few to round each by itself. */
static uint8_t settle_pair(const float *x, float scale, float d, float min, float dmin)
{
    int s0 = nearest(scale * inverse(d), 0, 15), t0 = nearest(min * inverse(dmin), 0, 15);
    int best = s0 | t0 << 4;
    float least = INFINITY;
    for (int s = s0 - 1; s <= s0 + 1; s++) {
        for (int t = t0 - 1; t <= t0 + 1; t++) {
            if (s < 0 || s > 15 || t < 0 || t > 15)
                continue;
            float error = error_of_pair(x, d * (float)s, dmin * (float)t, 3);
            if (error < least) {
                least = error;
                best = s | t << 4;
            }
        }
    }
    return (uint8_t)best;
}

static void quantize_q2_k(const float *x, uint8_t *b)
{
    float scale[16], min[16], scale_max = 0, min_max = 0;
    for (int g = 0; g < 16; g++) {
        fit_scale_min(x + 16 * g, 16, 3, &scale[g], &min[g]);
        scale_max = fmaxf(scale_max, scale[g]);
        min_max = fmaxf(min_max, -min[g]);
    }
    float d = store_f16(b + 80, scale_max / 15.0f), dmin = store_f16(b + 82, min_max / 15.0f);
    for (int g = 0; g < 16; g++)
        b[g] = settle_pair(x + 16 * g, scale[g], d, -min[g], dmin);
    memset(b + 16, 0, 64);
    for (int i = 0; i < 256; i++) {
        int s = b[i / 16] & 15, t = b[i / 16] >> 4;
        int q = nearest((x[i] + dmin * (float)t) * inverse(d * (float)s), 0, 3);
        b[16 + i / 128 * 32 + i % 32] |= (uint8_t)(q << (i % 128 / 32 * 2));
    }
}

static void quantize_q3_k(const float *x, uint8_t *b)
{
    float scale[16];
    int s[16];
    for (int g = 0; g < 16; g++)
        scale[g] = fit_scale(x + 16 * g, 4);
    memset(b, 0, 108);
    float d = store_f16(b + 108, extreme(scale, 16) / -32.0f);
    for (int g = 0; g < 16; g++) {
        s[g] = nearest(scale[g] * inverse(d), -32, 31);
        b[96 + g % 8] |= (uint8_t)(((s[g] + 32) & 15) << (g / 8 * 4));
        b[104 + g % 4] |= (uint8_t)((s[g] + 32) >> 4 << (g / 4 * 2));
    }
    for (int i = 0; i < 256; i++) {
        int q = nearest(x[i] * inverse(d * (float)s[i / 16]), -4, 3) + 4;
        b[i % 32] |= (uint8_t)(q >> 2 << (i / 32));
        b[32 + i / 128 * 32 + i % 32] |= (uint8_t)((q & 3) << (i % 128 / 32 * 2));
    }
}

static void quantize_f32(const float *x, uint8_t *b)
{
    memcpy(b, x, sizeof *x);
}

static void quantize_f16(const float *x, uint8_t *b)
{
    store_u16(b, f32_to_f16(*x));
}

static void quantize_bf16(const float *x, uint8_t *b)
{
    store_u16(b, f32_to_bf16(*x));
}

static quantize_block_fn *const blocks[DTYPE_COUNT] = {
    [DTYPE_F32] = quantize_f32,         [DTYPE_F16] = quantize_f16,
    [DTYPE_BF16] = quantize_bf16,       [DTYPE_Q4_0] = quantize_q4_0,
    [DTYPE_Q4_1] = quantize_q4_1,       [DTYPE_Q5_0] = quantize_q5_0,
    [DTYPE_Q5_1] = quantize_q5_1,       [DTYPE_Q8_0] = quantize_q8_0,
    [DTYPE_Q4_K] = quantize_q4_k,       [DTYPE_Q5_K] = quantize_q5_k,
    [DTYPE_Q6_K] = quantize_q6_k,       [DTYPE_Q2_K] = quantize_q2_k,
    [DTYPE_Q3_K] = quantize_q3_k,       [DTYPE_IQ4_NL] = quantize_iq4_nl,
    [DTYPE_IQ4_XS] = quantize_iq4_xs,   [DTYPE_IQ1_M] = quantize_iq1_m,
    [DTYPE_IQ2_S] = quantize_iq2_s,     [DTYPE_IQ3_S] = quantize_iq3_s,
    [DTYPE_IQ3_XXS] = quantize_iq3_xxs, [DTYPE_MXFP4] = quantize_mxfp4,
    [DTYPE_NVFP4] = quantize_nvfp4,     [DTYPE_TQ1_0] = quantize_tq1_0,
    [DTYPE_TQ2_0] = quantize_tq2_0,     [DTYPE_Q1_0] = quantize_q1_0,
    [DTYPE_Q2_0] = quantize_q2_0,
};

bool quantize_has(enum dtype type)
{
    return (unsigned)type < DTYPE_COUNT && blocks[type] != NULL;
}

void quantize_row(enum dtype type, const float *src, uint8_t *dst, size_t elems)
{
    must(quantize_has(type));
    const struct dtype_info *info = dtype_find((uint32_t)type);
    must(elems % info->block_elems == 0);
    for (size_t i = 0; i < elems; i += info->block_elems, dst += info->block_bytes)
        blocks[type](src + i, dst);
}
