/* SPDX-License-Identifier: MIT */
/* ops_avxvnni - the operations of kernels/tile/tile.h on eight lanes of AVX2 with AVX-VNNI (Alder
 * Lake and later, Zen 5). Two vectors make a tile of 16 rows.
 * With OPS_MODEL the two instructions beyond AVX2 come from a model (tests/kernels/x86). */
#ifndef QUIRE_KERNELS_X86_OPS_AVXVNNI_H
#define QUIRE_KERNELS_X86_OPS_AVXVNNI_H

#ifndef OPS_MODEL
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/act.h"

#define vint __m256i
#define vfloat __m256
#define TILE_COLS 4
enum { V_ROWS = 8, TILE_VECTORS = 2, V_CODES_SIGNED = 0 };

ATTR_INLINE vint v_zero(void)
{
    return _mm256_setzero_si256();
}

ATTR_INLINE vint v_set8(int x)
{
    return _mm256_set1_epi8((char)x);
}

ATTR_INLINE vint v_set32(int32_t x)
{
    return _mm256_set1_epi32(x);
}

ATTR_INLINE vint v_splat32(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}

ATTR_INLINE vint v_and(vint a, vint b)
{
    return _mm256_and_si256(a, b);
}

ATTR_INLINE vint v_or(vint a, vint b)
{
    return _mm256_or_si256(a, b);
}

ATTR_INLINE vint v_add32(vint a, vint b)
{
    return _mm256_add_epi32(a, b);
}

ATTR_INLINE vint v_sub32(vint a, vint b)
{
    return _mm256_sub_epi32(a, b);
}

ATTR_INLINE vint v_sub8(vint a, vint b)
{
    return _mm256_sub_epi8(a, b);
}

ATTR_INLINE vint v_max32(vint a, vint b)
{
    return _mm256_max_epi32(a, b);
}

ATTR_INLINE vint v_shl16(vint v, const int n)
{
    return _mm256_slli_epi16(v, n);
}

ATTR_INLINE vint v_shr16(vint v, const int n)
{
    return _mm256_srli_epi16(v, n);
}

ATTR_INLINE vint v_shl32(vint v, const int n)
{
    return _mm256_slli_epi32(v, n);
}

ATTR_INLINE vint v_shr32(vint v, const int n)
{
    return _mm256_srli_epi32(v, n);
}

ATTR_INLINE vint v_sar32(vint v, const int n)
{
    return _mm256_srai_epi32(v, n);
}

ATTR_INLINE vint v_lookup(const uint8_t table[16], vint index)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), index);
}

ATTR_INLINE vint v_mla32(vint sum, vint a, vint b)
{
    return _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b));
}

ATTR_INLINE vint v_dot16(vint sum, vint a, vint b)
{
    return _mm256_dpwssd_avx_epi32(sum, a, b);
}

ATTR_INLINE void v_dots(vint s[][TILE_VECTORS], const vint (*q)[TILE_VECTORS], const int8_t *y,
                        size_t y_stride, const int depth, const int n, const bool wide)
{
    (void)wide;
    ATTR_UNROLL
    for (int i = 0; i < depth; i++) {
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            vint four = v_splat32(y + (size_t)c * y_stride + 4 * i);
            s[c][0] = _mm256_dpbusd_avx_epi32(s[c][0], q[i][0], four);
            s[c][1] = _mm256_dpbusd_avx_epi32(s[c][1], q[i][1], four);
        }
    }
}

ATTR_INLINE vfloat vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

ATTR_INLINE void vf_store(float *p, vfloat v)
{
    _mm256_storeu_ps(p, v);
}

/* p need not be aligned. */
ATTR_INLINE vfloat vf_splat(const void *p)
{
    float x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_ps(x);
}

ATTR_INLINE vfloat vf_add(vfloat a, vfloat b)
{
    return _mm256_add_ps(a, b);
}

ATTR_INLINE vfloat vf_mul(vfloat a, vfloat b)
{
    return _mm256_mul_ps(a, b);
}

ATTR_INLINE vfloat vf_fma(vfloat a, vfloat b, vfloat c)
{
    return _mm256_fmadd_ps(a, b, c);
}

ATTR_INLINE vfloat vf_fms(vfloat a, vfloat b, vfloat c)
{
    return _mm256_fmsub_ps(a, b, c);
}

ATTR_INLINE vfloat vf_of_int(vint v)
{
    return _mm256_cvtepi32_ps(v);
}

ATTR_INLINE vfloat vf_of_half(vint v)
{
    __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return _mm256_cvtph_ps(halves);
}

ATTR_INLINE vfloat vf_of_bits(vint v)
{
    return _mm256_castsi256_ps(v);
}

ATTR_INLINE vfloat vf_one_nan(vfloat v)
{
    vfloat nan = _mm256_castsi256_ps(_mm256_set1_epi32(NAN_BITS));
    return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* Broadcasts and blends use the ports that have room. */
ATTR_INLINE vint v_row_words(const uint8_t *p, size_t stride)
{
    const uint8_t *p4 = p + 4 * stride;
    vint a = _mm256_blend_epi32(v_splat32(p), v_splat32(p + stride), 0x02);
    vint b = _mm256_blend_epi32(v_splat32(p + 2 * stride), v_splat32(p + 3 * stride), 0x08);
    vint c = _mm256_blend_epi32(v_splat32(p4), v_splat32(p4 + stride), 0x20);
    vint d = _mm256_blend_epi32(v_splat32(p4 + 2 * stride), v_splat32(p4 + 3 * stride), 0x80);
    return _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x0c), _mm256_blend_epi32(c, d, 0xc0), 0xf0);
}

/* 16 bytes of rows r and r + 4, in the two halves: no shuffle crosses them. */
ATTR_INLINE vint load_halves(const uint8_t *p, size_t stride)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(p + 4 * stride));
    return _mm256_blend_epi32(_mm256_castsi128_si256(low), _mm256_broadcastsi128_si256(high), 0xf0);
}

ATTR_INLINE void v_words16(vint w[4], const uint8_t *p, size_t stride)
{
    vint a = load_halves(p, stride), b = load_halves(p + stride, stride);
    vint c = load_halves(p + 2 * stride, stride), d = load_halves(p + 3 * stride, stride);
    vint ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    w[0] = _mm256_unpacklo_epi64(ab, cd);
    w[1] = _mm256_unpackhi_epi64(ab, cd);
    ab = _mm256_unpackhi_epi32(a, b);
    cd = _mm256_unpackhi_epi32(c, d);
    w[2] = _mm256_unpacklo_epi64(ab, cd);
    w[3] = _mm256_unpackhi_epi64(ab, cd);
}

ATTR_INLINE void v_codes16(vint w[4], const uint8_t *p, size_t stride)
{
    v_words16(w, p, stride);
}

/* Vector i holds codes 4 i .. 4 i + 3: bits 4 i .. of byte i / 2 of each word. */
ATTR_INLINE vint v_high_bits(vint bits, const int i)
{
    const vint one_each = _mm256_set1_epi32(i % 2 == 0 ? 0x08040201 : (int32_t)0x80402010u);
    const __m128i lane = _mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    vint from =
        _mm256_add_epi32(_mm256_broadcastsi128_si256(lane), _mm256_set1_epi32(i / 2 * 0x01010101));
    vint mine = _mm256_and_si256(_mm256_shuffle_epi8(bits, from), one_each);
    return _mm256_and_si256(_mm256_cmpeq_epi8(mine, one_each), _mm256_set1_epi8(16));
}

#endif
