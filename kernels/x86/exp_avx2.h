/* SPDX-License-Identifier: MIT */
/* exp_avx2 - the exponential of kernels/expf.h in eight lanes, sums and maxima of lanes, masks.
 * Included only by units built with AVX2, FMA and F16C; always inlined, so that no unit built for
 * another level can end up with a copy. */
#ifndef QUIRE_KERNELS_X86_EXP_AVX2_H
#define QUIRE_KERNELS_X86_EXP_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "core/attr.h"
#include "kernels/expf.h"

ATTR_INLINE __m256 exp_avx2(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f), round = _mm256_set1_ps(EXP_ROUND);
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), round);
    __m256 n = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HI), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LO), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C6), r, _mm256_set1_ps(EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
    p = _mm256_fmadd_ps(_mm256_fmadd_ps(p, r, one), r, one);
    __m256i scale = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    scale = _mm256_add_epi32(scale, _mm256_set1_epi32((int)EXP_ONE_BITS));
    __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_LT_OQ);
    return _mm256_andnot_ps(low, _mm256_mul_ps(p, _mm256_castsi256_ps(scale)));
}

/* The sum of eight lanes by the tree of kernels/ref/vec_ref.c: 4, 2, 1. */
ATTR_INLINE float sum_avx2(__m256 v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* The largest of eight lanes, none of them NaN. */
ATTR_INLINE float max_avx2(__m256 v)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* Mask of the first n lanes. */
ATTR_INLINE __m256i lanes_avx2(uint32_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

#endif
