/* SPDX-License-Identifier: MIT */
/* vec_avx2 - the row-wise kernels with AVX2, FMA and F16C; bit for bit kernels/ref/vec_ref.c.
 * Lanes are the reference's lanes: 32 sums of squares are four registers, 16 sums of exponentials
 * two. Tails go through masked loads, never past the end of a buffer; a masked lane adds +0 to a
 * sum that is not negative, which changes no bit. */
#include <math.h>
#include <string.h>

#include "kernels/vec.h"
#include "kernels/x86/exp_avx2.h"

static void rms_norm_avx2(float *dst, const float *x, const float *w, uint32_t n, float eps)
{
    __m256 sum[4];
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sum[i] = _mm256_setzero_ps();
    uint32_t at = 0;
    for (; at + VEC_NORM_LANES <= n; at += VEC_NORM_LANES) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            __m256 v = _mm256_loadu_ps(x + at + 8 * i);
            sum[i] = _mm256_fmadd_ps(v, v, sum[i]);
        }
    }
    for (uint32_t i = 0; at < n; at += 8, i++) {
        __m256i m = lanes_avx2(n - at < 8 ? n - at : 8);
        __m256 v = _mm256_maskload_ps(x + at, m);
        sum[i] = _mm256_fmadd_ps(v, v, sum[i]);
    }
    __m256 half = _mm256_add_ps(_mm256_add_ps(sum[0], sum[2]), _mm256_add_ps(sum[1], sum[3]));
    float mean = sum_avx2(half) / (float)n;
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf(mean + eps));
    for (at = 0; at + 8 <= n; at += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + at), scale);
        _mm256_storeu_ps(dst + at, _mm256_mul_ps(v, _mm256_loadu_ps(w + at)));
    }
    if (at < n) {
        __m256i m = lanes_avx2(n - at);
        __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + at, m), scale);
        _mm256_maskstore_ps(dst + at, m, _mm256_mul_ps(v, _mm256_maskload_ps(w + at, m)));
    }
}

ATTR_INLINE __m256 turn8(__m256 v, __m256 cos, __m256 sin)
{
    __m256 other = _mm256_permute_ps(v, 0xb1);
    return _mm256_fmadd_ps(v, cos, _mm256_mul_ps(other, sin));
}

static void rope_pairs_avx2(float *x, const float *cos, const float *sin, uint32_t n)
{
    uint32_t at = 0;
    for (; at + 8 <= n; at += 8) {
        __m256 c = _mm256_loadu_ps(cos + at), s = _mm256_loadu_ps(sin + at);
        _mm256_storeu_ps(x + at, turn8(_mm256_loadu_ps(x + at), c, s));
    }
    if (at < n) {
        __m256i m = lanes_avx2(n - at);
        __m256 c = _mm256_maskload_ps(cos + at, m), s = _mm256_maskload_ps(sin + at, m);
        _mm256_maskstore_ps(x + at, m, turn8(_mm256_maskload_ps(x + at, m), c, s));
    }
}

ATTR_INLINE __m256 silu8(__m256 gate, __m256 up)
{
    __m256 x = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
    x = _mm256_min_ps(_mm256_set1_ps(EXP_MAX), x); /* in this order NaN passes */
    __m256 below = _mm256_add_ps(_mm256_set1_ps(1.0f), exp_avx2(x));
    return _mm256_mul_ps(_mm256_div_ps(gate, below), up);
}

static void silu_mul_avx2(float *dst, const float *gate, const float *up, uint32_t n)
{
    uint32_t at = 0;
    for (; at + 8 <= n; at += 8)
        _mm256_storeu_ps(dst + at, silu8(_mm256_loadu_ps(gate + at), _mm256_loadu_ps(up + at)));
    if (at < n) {
        __m256i m = lanes_avx2(n - at);
        __m256 v = silu8(_mm256_maskload_ps(gate + at, m), _mm256_maskload_ps(up + at, m));
        _mm256_maskstore_ps(dst + at, m, v);
    }
}

static void add_scaled_avx2(float *dst, const float *x, float scale, uint32_t n)
{
    __m256 s = _mm256_set1_ps(scale);
    uint32_t at = 0;
    for (; at + 8 <= n; at += 8) {
        __m256 v = _mm256_fmadd_ps(s, _mm256_loadu_ps(x + at), _mm256_loadu_ps(dst + at));
        _mm256_storeu_ps(dst + at, v);
    }
    if (at < n) {
        __m256i m = lanes_avx2(n - at);
        __m256 v = _mm256_maskload_ps(x + at, m);
        _mm256_maskstore_ps(dst + at, m, _mm256_fmadd_ps(s, v, _mm256_maskload_ps(dst + at, m)));
    }
}

static void to_f16_avx2(uint16_t *dst, const float *x, uint32_t n)
{
    uint32_t at = 0;
    for (; at + 8 <= n; at += 8) {
        __m128i v = _mm256_cvtps_ph(_mm256_loadu_ps(x + at), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(dst + at), v);
    }
    if (at < n) {
        uint16_t last[8];
        __m256 v = _mm256_maskload_ps(x + at, lanes_avx2(n - at));
        _mm_storeu_si128((__m128i *)(void *)last, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
        memcpy(dst + at, last, (n - at) * sizeof *dst);
    }
}

/* Up to eight floats; lanes past n are -inf: never the largest, and their exponential is 0. */
ATTR_INLINE __m256 load_or_none(const float *x, uint32_t n)
{
    __m256i m = lanes_avx2(n);
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(x, m),
                            _mm256_castsi256_ps(m));
}

static void peak_avx2(struct vec_peak *out, const float *x, uint32_t n)
{
    const uint32_t whole = n / 16 * 16, left = n - whole;
    const __m256 none = _mm256_set1_ps(-INFINITY);
    __m256 last_low = left > 0 ? load_or_none(x + whole, left < 8 ? left : 8) : none;
    __m256 last_high = left > 8 ? load_or_none(x + whole + 8, left - 8) : none;
    __m256 m = none, low = _mm256_setzero_ps(), high = low;
    for (uint32_t at = 0; at < whole; at += 8)
        m = _mm256_max_ps(_mm256_loadu_ps(x + at), m); /* in this order NaN is ignored */
    m = _mm256_max_ps(last_high, _mm256_max_ps(last_low, m));
    float max = max_avx2(m);
    m = _mm256_set1_ps(max);
    for (uint32_t at = 0; at < whole; at += 16) {
        low = _mm256_add_ps(low, exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + at), m)));
        high = _mm256_add_ps(high, exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + at + 8), m)));
    }
    if (left > 0) {
        low = _mm256_add_ps(low, exp_avx2(_mm256_sub_ps(last_low, m)));
        high = _mm256_add_ps(high, exp_avx2(_mm256_sub_ps(last_high, m)));
    }
    *out = (struct vec_peak){ max, sum_avx2(_mm256_add_ps(low, high)) };
}

/* The stages 1, 2 and 4 inside a register: the upper partners are negated, the lower ones added. */
ATTR_INLINE __m256 hadamard8(__m256 v)
{
    const __m256 minus1 = _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f);
    const __m256 minus2 = _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f);
    const __m256 minus4 = _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
    v = _mm256_add_ps(_mm256_permute_ps(v, 0xb1), _mm256_xor_ps(v, minus1));
    v = _mm256_add_ps(_mm256_permute_ps(v, 0x4e), _mm256_xor_ps(v, minus2));
    return _mm256_add_ps(_mm256_permute2f128_ps(v, v, 1), _mm256_xor_ps(v, minus4));
}

static void hadamard_avx2(float *x, uint32_t n, uint32_t size, float scale)
{
    for (uint32_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, hadamard8(_mm256_loadu_ps(x + i)));
    for (uint32_t h = 8; h < size; h *= 2) {
        for (uint32_t at = 0; at < n; at += 2 * h) {
            for (uint32_t i = at; i < at + h; i += 8) {
                __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + h);
                _mm256_storeu_ps(x + i, _mm256_add_ps(a, b));
                _mm256_storeu_ps(x + i + h, _mm256_sub_ps(a, b));
            }
        }
    }
    __m256 s = _mm256_set1_ps(scale);
    for (uint32_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), s));
}

void vec_fill_avx2(struct vec_kernels *k)
{
    k->rms_norm = rms_norm_avx2;
    k->rope_pairs = rope_pairs_avx2;
    k->silu_mul = silu_mul_avx2;
    k->add_scaled = add_scaled_avx2;
    k->to_f16 = to_f16_avx2;
    k->peak = peak_avx2;
    k->hadamard = hadamard_avx2;
}
