/* SPDX-License-Identifier: MIT */
/* act_avx2 - the quantizer of kernels/act.c, 32 values at a time, to the same bytes.
 * The largest magnitude is found on the bits as integers, as there. Sums of quants start as
 * multiply-adds with 1: they leave, per 128-bit half (16 values), int16 sums of neighbours whose
 * even and odd places are the two sums that the layout asks for. */
#include "kernels/x86/tile_avx2.h"

#include "kernels/f16.h"

/* Magnitude bits of 8 values, the larger of each pair of lanes. */
ATTR_INLINE __m256i larger_bits(__m256i top, const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    return _mm256_max_epi32(top, _mm256_and_si256(load256(x), magnitude));
}

ATTR_INLINE uint32_t largest_lane(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* Scale of a group by its magnitude bits, and the factor of its values; false: the group is all
 * zero. */
ATTR_INLINE bool group_scale(uint32_t top, float *d, float *factor)
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

/* 32 quants. */
ATTR_INLINE __m256i quants32(const float *x, __m256 factor)
{
    __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), factor));
    __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), factor));
    __m256i c = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), factor));
    __m256i d = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), factor));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Every 32-bit lane of a half: the pair of sums of its 16 quants, int16 each. */
ATTR_INLINE __m256i pair_sums(__m256i q)
{
    __m256i v = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    v = _mm256_add_epi16(v, _mm256_shuffle_epi32(v, 0x4e));
    return _mm256_add_epi16(v, _mm256_shuffle_epi32(v, 0xb1));
}

static void quantize_q8_32(uint8_t *dst, const float *x, uint32_t cols)
{
    for (uint32_t at = 0; at < cols; at += 32, x += 32, dst += sizeof(struct act_q8_32)) {
        struct act_q8_32 *g = (struct act_q8_32 *)(void *)dst;
        __m256i top = _mm256_setzero_si256();
        ATTR_UNROLL
        for (int i = 0; i < 32; i += 8)
            top = larger_bits(top, x + i);
        float factor;
        __m256i q = _mm256_setzero_si256();
        if (group_scale(largest_lane(top), &g->d, &factor))
            q = quants32(x, _mm256_set1_ps(factor));
        _mm256_storeu_si256((__m256i *)(void *)g->q, q);
        __m256i halves = pair_sums(q);
        __m128i pair =
            _mm_add_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
        __m128i sum = _mm_madd_epi16(pair, _mm_set1_epi16(1));
        int32_t centre = _mm_cvtsi128_si32(_mm_mullo_epi16(pair, _mm_set1_epi16(-8)));
        g->sum = (float)_mm_cvtsi128_si32(sum);
        memcpy(g->centre8, &centre, sizeof centre);
    }
}

/* The sums of a group from its 16 pairs of sums. */
ATTR_INLINE void store_sums(struct act_q8_256 *g, __m256i low, __m256i high)
{
    const __m256i ones = _mm256_set1_epi16(1), centre = _mm256_set1_epi16(-32);
    _mm256_storeu_si256((__m256i *)(void *)g->centre32[0], _mm256_mullo_epi16(low, centre));
    _mm256_storeu_si256((__m256i *)(void *)g->centre32[8], _mm256_mullo_epi16(high, centre));
    __m256i by16 = _mm256_packs_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones));
    by16 = _mm256_permute4x64_epi64(by16, 0xd8);
    _mm256_storeu_si256((__m256i *)(void *)g->sum16, by16);
    __m256i by32 = _mm256_madd_epi16(by16, ones);
    by32 = _mm256_permute4x64_epi64(_mm256_packs_epi32(by32, by32), 0x08);
    _mm_storeu_si128((__m128i *)(void *)g->sum32, _mm256_castsi256_si128(by32));
}

static void quantize_q8_256(uint8_t *dst, const float *x, uint32_t cols)
{
    for (uint32_t at = 0; at < cols; at += 256, x += 256, dst += sizeof(struct act_q8_256)) {
        struct act_q8_256 *g = (struct act_q8_256 *)(void *)dst;
        __m256i top = _mm256_setzero_si256(), even = top;
        for (int i = 0; i < 256; i += 16) {
            top = larger_bits(top, x + i);
            even = larger_bits(even, x + i + 8);
        }
        float factor;
        memset(g->reserved, 0, sizeof g->reserved);
        bool some = group_scale(largest_lane(_mm256_max_epi32(top, even)), &g->d, &factor);
        __m256i sums[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };
        ATTR_UNROLL
        for (int j = 0; j < 8; j++) {
            __m256i q = _mm256_setzero_si256();
            if (some)
                q = quants32(x + 32 * j, _mm256_set1_ps(factor));
            _mm256_storeu_si256((__m256i *)(void *)(g->q + 32 * j), q);
            /* low half of the sums into lane 2 j, high half into lane 2 j + 1, of 16 */
            __m256i both = _mm256_permute4x64_epi64(pair_sums(q), 0xd8);
            both = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 2, 0, 2, 0, 2, 0, 2));
            __m256i place = _mm256_cmpeq_epi32(_mm256_set1_epi32(j % 4),
                                               _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
            sums[j / 4] = _mm256_blendv_epi8(sums[j / 4], both, place);
        }
        store_sums(g, sums[0], sums[1]);
    }
}

void act_fill_avx2(struct matmul_kernels *k)
{
    k->quantize[ACT_Q8_32] = quantize_q8_32;
    k->quantize[ACT_Q8_256] = quantize_q8_256;
}
