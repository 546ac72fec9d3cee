/* SPDX-License-Identifier: MIT */
/* ops_avx512vnni - the operations of kernels/tile/tile.h on sixteen lanes of AVX-512 (F, BW, DQ,
 * VL) with VNNI. Two vectors make a tile of 32 rows: every broadcast activation serves two
 * products, and eight columns take 16 of the 32 registers.
 * With OPS_MODEL the intrinsics come from a model in C instead (tests/kernels/x86), so that these
 * lines are checked where no such processor is. */
#ifndef QUIRE_KERNELS_X86_OPS_AVX512VNNI_H
#define QUIRE_KERNELS_X86_OPS_AVX512VNNI_H

#ifndef OPS_MODEL
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/act.h"

#define vint __m512i
#define vfloat __m512
#define TILE_COLS 8
enum { V_ROWS = 16, TILE_VECTORS = 2, V_CODES_SIGNED = 0 };

ATTR_INLINE vint v_zero(void)
{
    return _mm512_setzero_si512();
}

ATTR_INLINE vint v_set8(int x)
{
    return _mm512_set1_epi8((char)x);
}

ATTR_INLINE vint v_set32(int32_t x)
{
    return _mm512_set1_epi32(x);
}

ATTR_INLINE vint v_splat32(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

ATTR_INLINE vint v_and(vint a, vint b)
{
    return _mm512_and_si512(a, b);
}

ATTR_INLINE vint v_or(vint a, vint b)
{
    return _mm512_or_si512(a, b);
}

ATTR_INLINE vint v_add32(vint a, vint b)
{
    return _mm512_add_epi32(a, b);
}

ATTR_INLINE vint v_sub32(vint a, vint b)
{
    return _mm512_sub_epi32(a, b);
}

ATTR_INLINE vint v_sub8(vint a, vint b)
{
    return _mm512_sub_epi8(a, b);
}

ATTR_INLINE vint v_max32(vint a, vint b)
{
    return _mm512_max_epi32(a, b);
}

ATTR_INLINE vint v_shl16(vint v, const int n)
{
    return _mm512_slli_epi16(v, (unsigned)n);
}

ATTR_INLINE vint v_shr16(vint v, const int n)
{
    return _mm512_srli_epi16(v, (unsigned)n);
}

ATTR_INLINE vint v_shl32(vint v, const int n)
{
    return _mm512_slli_epi32(v, (unsigned)n);
}

ATTR_INLINE vint v_shr32(vint v, const int n)
{
    return _mm512_srli_epi32(v, (unsigned)n);
}

ATTR_INLINE vint v_sar32(vint v, const int n)
{
    return _mm512_srai_epi32(v, (unsigned)n);
}

ATTR_INLINE vint v_lookup(const uint8_t table[16], vint index)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), index);
}

ATTR_INLINE vint v_mla32(vint sum, vint a, vint b)
{
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b));
}

ATTR_INLINE vint v_dot16(vint sum, vint a, vint b)
{
    return _mm512_dpwssd_epi32(sum, a, b);
}

/* Columns innermost: the chains of a column would fill the scheduler otherwise. */
ATTR_INLINE void v_dots(vint s[][TILE_VECTORS], const vint (*q)[TILE_VECTORS], const int8_t *y,
                        size_t y_stride, const int depth, const int n, const bool wide)
{
    (void)wide;
    ATTR_UNROLL
    for (int i = 0; i < depth; i++) {
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            vint four = v_splat32(y + (size_t)c * y_stride + 4 * i);
            s[c][0] = _mm512_dpbusd_epi32(s[c][0], q[i][0], four);
            s[c][1] = _mm512_dpbusd_epi32(s[c][1], q[i][1], four);
        }
    }
}

ATTR_INLINE vfloat vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

ATTR_INLINE void vf_store(float *p, vfloat v)
{
    _mm512_storeu_ps(p, v);
}

/* p need not be aligned. */
ATTR_INLINE vfloat vf_splat(const void *p)
{
    float x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_ps(x);
}

ATTR_INLINE vfloat vf_add(vfloat a, vfloat b)
{
    return _mm512_add_ps(a, b);
}

ATTR_INLINE vfloat vf_mul(vfloat a, vfloat b)
{
    return _mm512_mul_ps(a, b);
}

ATTR_INLINE vfloat vf_fma(vfloat a, vfloat b, vfloat c)
{
    return _mm512_fmadd_ps(a, b, c);
}

ATTR_INLINE vfloat vf_fms(vfloat a, vfloat b, vfloat c)
{
    return _mm512_fmsub_ps(a, b, c);
}

ATTR_INLINE vfloat vf_of_int(vint v)
{
    return _mm512_cvtepi32_ps(v);
}

ATTR_INLINE vfloat vf_of_half(vint v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

ATTR_INLINE vfloat vf_of_bits(vint v)
{
    return _mm512_castsi512_ps(v);
}

ATTR_INLINE vfloat vf_one_nan(vfloat v)
{
    vfloat nan = _mm512_castsi512_ps(_mm512_set1_epi32(NAN_BITS));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v, nan);
}

/* A masked broadcast is a load and a blend; four chains of them run side by side. */
ATTR_INLINE vint v_row_words(const uint8_t *p, size_t stride)
{
    vint part[4];
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        part[i] = v_splat32(p + 4 * i * stride);
        ATTR_UNROLL
        for (uint32_t k = 1; k < 4; k++)
            part[i] = _mm512_mask_blend_epi32((__mmask16)(1u << (4 * i + k)), part[i],
                                              v_splat32(p + (4 * i + k) * stride));
    }
    vint low = _mm512_mask_blend_epi32(0x00f0, part[0], part[1]);
    vint high = _mm512_mask_blend_epi32(0xf000, part[2], part[3]);
    return _mm512_mask_blend_epi32(0xff00, low, high);
}

/* 16 bytes of rows r, r + 4, r + 8, r + 12, in the four quarters: no shuffle crosses them. */
ATTR_INLINE vint load_quarters(const uint8_t *p, size_t stride)
{
    vint v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)p));
    p += 4 * stride;
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)p), 1);
    p += 4 * stride;
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)p), 2);
    p += 4 * stride;
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)p), 3);
}

ATTR_INLINE void v_words16(vint w[4], const uint8_t *p, size_t stride)
{
    vint a = load_quarters(p, stride), b = load_quarters(p + stride, stride);
    vint c = load_quarters(p + 2 * stride, stride), d = load_quarters(p + 3 * stride, stride);
    vint ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    w[0] = _mm512_unpacklo_epi64(ab, cd);
    w[1] = _mm512_unpackhi_epi64(ab, cd);
    ab = _mm512_unpackhi_epi32(a, b);
    cd = _mm512_unpackhi_epi32(c, d);
    w[2] = _mm512_unpacklo_epi64(ab, cd);
    w[3] = _mm512_unpackhi_epi64(ab, cd);
}

ATTR_INLINE void v_codes16(vint w[4], const uint8_t *p, size_t stride)
{
    v_words16(w, p, stride);
}

/* Vector i holds codes 4 i .. 4 i + 3: bits 4 i .. of byte i / 2 of each word. */
ATTR_INLINE vint v_high_bits(vint bits, const int i)
{
    const int32_t one_each = i % 2 == 0 ? 0x08040201 : (int32_t)0x80402010u;
    const __m128i lane = _mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    vint from =
        _mm512_add_epi32(_mm512_broadcast_i32x4(lane), _mm512_set1_epi32(i / 2 * 0x01010101));
    vint copies = _mm512_shuffle_epi8(bits, from);
    __mmask64 set = _mm512_test_epi8_mask(copies, _mm512_set1_epi32(one_each));
    return _mm512_maskz_set1_epi8(set, 16);
}

#endif
