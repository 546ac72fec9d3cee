/* SPDX-License-Identifier: MIT */
/* matmul_one_avx2 - one column times 16 rows of 8 blocks, without a tile: what is unpacked once and
 * used once need not be stored. The same exact integers and the same chains, lanes are rows again.
 *   Q4_0, Q4_1   unpacked as for a tile, multiplied in the registers. Four blocks of Q4_1 are 80
 *   bytes,
 *                five times 16: their scales come out of the same transposition
 *   Q8_0         along the row instead: abs(code) times the activation with the code's sign (128 *
 *   127
 *                twice is 32512, and activations are never -128, so nothing saturates or wraps),
 *                the lanes of a block added and turned so that lanes are rows before the float
 *                step */
#include "kernels/x86/tile_avx2.h"

enum { BLOCKS = 8 }; /* of 32 weights */

ATTR_INLINE const struct act_q8_32 *groups_of(const uint8_t *x)
{
    return (const struct act_q8_32 *)(const void *)x;
}

/* Sum over a block of codes, given as the nibbles of 4 vectors, on top of s. */
ATTR_INLINE __m256i sum_nibbles(__m256i s, const __m256i w[4], const int8_t *y)
{
    __m256i t = _mm256_setzero_si256();
    ATTR_UNROLL
    for (int i = 0; i < 4; i++) {
        s = _mm256_add_epi16(s, _mm256_maddubs_epi16(low_nibbles(w[i]), splat32(y + 4 * i)));
        t = _mm256_add_epi16(t, _mm256_maddubs_epi16(high_nibbles(w[i]), splat32(y + 16 + 4 * i)));
    }
    return _mm256_madd_epi16(_mm256_add_epi16(s, t), _mm256_set1_epi16(1));
}

void direct_q4_0_avx2(const uint8_t *const src[2], size_t stride, const uint8_t *x,
                      const uint8_t *next, float *acc)
{
    for (uint32_t half = 0; half < 2; half++) {
        const struct act_q8_32 *g = groups_of(x);
        const uint8_t *p = src[half];
        __m256 chain = _mm256_load_ps(acc + half * TILE_HALF);
        for (uint32_t b = 0; b < BLOCKS; b++, g++, p += 18) {
            __m256i w[4];
            prefetch_part(next, half * BLOCKS + b, 3);
            transpose16(p + 2, stride, w);
            __m256i dot = sum_nibbles(splat32(g->centre8), w, g->q);
            __m256 scale = _mm256_mul_ps(load_f16_rows(p, stride), splat_f32(&g->d));
            chain = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dot), chain);
        }
        _mm256_store_ps(acc + half * TILE_HALF, chain);
    }
}

void direct_q4_1_avx2(const uint8_t *const src[2], size_t stride, const uint8_t *x,
                      const uint8_t *next, float *acc)
{
    for (uint32_t half = 0; half < 2; half++) {
        const struct act_q8_32 *g = groups_of(x);
        const uint8_t *p = src[half];
        __m256 chain = _mm256_load_ps(acc + half * TILE_HALF);
        for (uint32_t quad = 0; quad < BLOCKS / 4; quad++, p += 80) {
            __m256i w[20]; /* words 5 b: scales of block b; behind it, its nibbles */
            prefetch_part(next, half * (BLOCKS / 4) + quad, 10);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 5; i++)
                transpose16(p + 16 * i, stride, w + 4 * i);
            ATTR_UNROLL
            for (uint32_t b = 0; b < 4; b++, g++) {
                __m256 d, m;
                split_f16_pairs(w[5 * b], &d, &m);
                __m256i dot = sum_nibbles(_mm256_setzero_si256(), w + 5 * b + 1, g->q);
                __m256 low = _mm256_mul_ps(m, splat_f32(&g->sum));
                __m256 value = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(dot), low);
                chain = _mm256_fmadd_ps(splat_f32(&g->d), value, chain);
            }
        }
        _mm256_store_ps(acc + half * TILE_HALF, chain);
    }
}

/* Lane i: the sum of the lanes of v[i]. */
ATTR_INLINE __m256i sum_each(const __m256i v[8])
{
    __m256i pair[4], four[2];
    ATTR_UNROLL
    for (int i = 0; i < 4; i++)
        pair[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                   _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    ATTR_UNROLL
    for (int i = 0; i < 2; i++)
        four[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]),
                                   _mm256_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

void direct_q8_0_avx2(const uint8_t *const src[2], size_t stride, const uint8_t *x,
                      const uint8_t *next, float *acc)
{
    const __m256i ones = _mm256_set1_epi16(1);
    for (uint32_t half = 0; half < 2; half++) {
        const struct act_q8_32 *g = groups_of(x);
        const uint8_t *p = src[half];
        __m256 chain = _mm256_load_ps(acc + half * TILE_HALF);
        for (uint32_t b = 0; b < BLOCKS; b++, g++, p += 34) {
            __m256i y = load256(g->q), v[8];
            prefetch_part(next, half * BLOCKS + b, 5);
            ATTR_UNROLL
            for (uint32_t r = 0; r < 8; r++) {
                __m256i w = load256(p + r * stride + 2);
                v[r] = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(y, w));
                v[r] = _mm256_madd_epi16(v[r], ones);
            }
            __m256 scale = _mm256_mul_ps(load_f16_rows(p, stride), splat_f32(&g->d));
            chain = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum_each(v)), chain);
        }
        _mm256_store_ps(acc + half * TILE_HALF, chain);
    }
}
