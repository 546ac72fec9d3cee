/* SPDX-License-Identifier: MIT */
/* model_avx512 - the AVX-512 instructions that kernels/x86/ops_avx512vnni.h uses, in plain C: one
 * function an instruction, under the intrinsic's own name. A unit that includes this header and
 * then a kernel's source has that kernel without needing the processor.
 *   source   the Operation sections of the Intel SDM, volume 2 */
#ifndef QUIRE_TESTS_KERNELS_X86_MODEL_AVX512_H
#define QUIRE_TESTS_KERNELS_X86_MODEL_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/f16.h"

#define OPS_MODEL
#undef ATTR_UNROLL /* a register is a loop here already: compiling would take minutes */
#define ATTR_UNROLL

/* A 512-bit register, and the 256 bits that a conversion goes through. */
struct model512 {
    union {
        uint8_t u8[64];
        int8_t s8[64];
        uint16_t u16[32];
        int16_t s16[32];
        uint32_t u32[16];
        int32_t s32[16];
        uint64_t u64[8];
        float f32[16];
    };
};

struct model256 {
    uint16_t u16[16];
};

#define FOR(n) for (int i = 0; i < (n); i++)
/* One function that makes each of n elements of the result r. */
#define MODEL(name, parameters, n, element)                                                        \
    ATTR_NOINLINE static struct model512 model_##name parameters {                                 \
        struct model512 r;                                                                         \
        FOR(n) element;                                                                            \
        return r;                                                                                  \
    }

MODEL(set1_epi8, (char x), 64, r.s8[i] = x)
MODEL(set1_epi32, (int32_t x), 16, r.s32[i] = x)
MODEL(set1_ps, (float x), 16, r.f32[i] = x)
MODEL(and_si512, (struct model512 a, struct model512 b), 8, r.u64[i] = a.u64[i] & b.u64[i])
MODEL(or_si512, (struct model512 a, struct model512 b), 8, r.u64[i] = a.u64[i] | b.u64[i])
MODEL(add_epi32, (struct model512 a, struct model512 b), 16, r.u32[i] = a.u32[i] + b.u32[i])
MODEL(sub_epi32, (struct model512 a, struct model512 b), 16, r.u32[i] = a.u32[i] - b.u32[i])
MODEL(sub_epi8, (struct model512 a, struct model512 b), 64, r.u8[i] = (uint8_t)(a.u8[i] - b.u8[i]))
MODEL(mullo_epi32, (struct model512 a, struct model512 b), 16, r.u32[i] = a.u32[i] * b.u32[i])
MODEL(max_epi32, (struct model512 a, struct model512 b), 16,
      r.s32[i] = a.s32[i] > b.s32[i] ? a.s32[i] : b.s32[i])
MODEL(slli_epi16, (struct model512 a, unsigned n), 32,
      r.u16[i] = (uint16_t)(n > 15 ? 0 : a.u16[i] << n))
MODEL(srli_epi16, (struct model512 a, unsigned n), 32,
      r.u16[i] = (uint16_t)(n > 15 ? 0 : a.u16[i] >> n))
MODEL(slli_epi32, (struct model512 a, unsigned n), 16, r.u32[i] = n > 31 ? 0 : a.u32[i] << n)
MODEL(srli_epi32, (struct model512 a, unsigned n), 16, r.u32[i] = n > 31 ? 0 : a.u32[i] >> n)
MODEL(srai_epi32, (struct model512 a, unsigned n), 16, r.s32[i] = a.s32[i] >> (n > 31 ? 31 : n))

/* Within each quarter; an index with its highest bit set gives 0. */
MODEL(shuffle_epi8, (struct model512 a, struct model512 index), 64,
      r.u8[i] = index.u8[i] > 127 ? 0 : a.u8[i / 16 * 16 + (index.u8[i] & 15)])

MODEL(unpacklo_epi32, (struct model512 a, struct model512 b), 16,
      r.u32[i] = (i % 2 == 0 ? a : b).u32[i / 4 * 4 + i % 4 / 2])
MODEL(unpackhi_epi32, (struct model512 a, struct model512 b), 16,
      r.u32[i] = (i % 2 == 0 ? a : b).u32[i / 4 * 4 + i % 4 / 2 + 2])
MODEL(unpacklo_epi64, (struct model512 a, struct model512 b), 8,
      r.u64[i] = (i % 2 == 0 ? a : b).u64[i / 2 * 2])
MODEL(unpackhi_epi64, (struct model512 a, struct model512 b), 8,
      r.u64[i] = (i % 2 == 0 ? a : b).u64[i / 2 * 2 + 1])

/* A set bit takes b. */
MODEL(mask_blend_epi32, (__mmask16 m, struct model512 a, struct model512 b), 16,
      r.u32[i] = (m >> i & 1) != 0 ? b.u32[i] : a.u32[i])
MODEL(maskz_set1_epi8, (__mmask64 m, char x), 64, r.s8[i] = (m >> i & 1) != 0 ? x : 0)

/* Four products of unsigned bytes of a and signed bytes of b, or two of signed words, added without
 * saturation. */
MODEL(dpbusd_epi32, (struct model512 s, struct model512 a, struct model512 b), 64, {
    if (i == 0)
        r = s;
    r.u32[i / 4] += (uint32_t)(a.u8[i] * b.s8[i]);
})
MODEL(dpwssd_epi32, (struct model512 s, struct model512 a, struct model512 b), 32, {
    if (i == 0)
        r = s;
    r.u32[i / 2] += (uint32_t)(a.s16[i] * b.s16[i]);
})

MODEL(add_ps, (struct model512 a, struct model512 b), 16, r.f32[i] = a.f32[i] + b.f32[i])
MODEL(mul_ps, (struct model512 a, struct model512 b), 16, r.f32[i] = a.f32[i] * b.f32[i])
MODEL(fmadd_ps, (struct model512 a, struct model512 b, struct model512 c), 16,
      r.f32[i] = fmaf(a.f32[i], b.f32[i], c.f32[i]))
MODEL(fmsub_ps, (struct model512 a, struct model512 b, struct model512 c), 16,
      r.f32[i] = fmaf(a.f32[i], b.f32[i], -c.f32[i]))
MODEL(cvtepi32_ps, (struct model512 a), 16, r.f32[i] = (float)a.s32[i])
MODEL(cvtph_ps, (struct model256 a), 16, r.f32[i] = f16_to_f32(a.u16[i]))

ATTR_NOINLINE static struct model256 model_cvtepi32_epi16(struct model512 a)
{
    struct model256 r;
    FOR(16) r.u16[i] = (uint16_t)a.u32[i];
    return r;
}

ATTR_NOINLINE static __mmask64 model_test_epi8_mask(struct model512 a, struct model512 b)
{
    __mmask64 m = 0;
    FOR(64) m |= (__mmask64)((a.u8[i] & b.u8[i]) != 0) << i;
    return m;
}

ATTR_NOINLINE static __mmask16 model_cmp_ps_mask(struct model512 a, struct model512 b, int how)
{
    unsigned m = 0;
    FOR(16) m |= (unsigned)(how == _CMP_UNORD_Q && (isnan(a.f32[i]) || isnan(b.f32[i]))) << i;
    return (__mmask16)m;
}

ATTR_NOINLINE static struct model512 model_loadu(const void *p)
{
    struct model512 r;
    memcpy(&r, p, sizeof r);
    return r;
}

ATTR_NOINLINE static void model_storeu(void *p, struct model512 v)
{
    memcpy(p, &v, sizeof v);
}

ATTR_NOINLINE static struct model512 model_inserti32x4(struct model512 a, __m128i b, int at)
{
    memcpy(&a.u8[16 * at], &b, sizeof b);
    return a;
}

ATTR_NOINLINE static struct model512 model_broadcast_i32x4(__m128i b)
{
    struct model512 r;
    FOR(4) memcpy(&r.u8[16 * i], &b, sizeof b);
    return r;
}

/* The upper bits are undefined: junk here. */
ATTR_NOINLINE static struct model512 model_castsi128_si512(__m128i b)
{
    return model_inserti32x4(model_set1_epi8(0x5a), b, 0);
}

#define __m512i struct model512
#define __m512 struct model512
#define _mm512_setzero_si512() model_set1_epi32(0)
#define _mm512_set1_epi8 model_set1_epi8
#define _mm512_set1_epi32 model_set1_epi32
#define _mm512_set1_ps model_set1_ps
#define _mm512_and_si512 model_and_si512
#define _mm512_or_si512 model_or_si512
#define _mm512_add_epi32 model_add_epi32
#define _mm512_sub_epi32 model_sub_epi32
#define _mm512_sub_epi8 model_sub_epi8
#define _mm512_mullo_epi32 model_mullo_epi32
#define _mm512_max_epi32 model_max_epi32
#define _mm512_slli_epi16 model_slli_epi16
#define _mm512_srli_epi16 model_srli_epi16
#define _mm512_slli_epi32 model_slli_epi32
#define _mm512_srli_epi32 model_srli_epi32
#define _mm512_srai_epi32 model_srai_epi32
#define _mm512_shuffle_epi8 model_shuffle_epi8
#define _mm512_unpacklo_epi32 model_unpacklo_epi32
#define _mm512_unpackhi_epi32 model_unpackhi_epi32
#define _mm512_unpacklo_epi64 model_unpacklo_epi64
#define _mm512_unpackhi_epi64 model_unpackhi_epi64
#define _mm512_mask_blend_epi32 model_mask_blend_epi32
#define _mm512_mask_blend_ps model_mask_blend_epi32
#define _mm512_maskz_set1_epi8 model_maskz_set1_epi8
#define _mm512_dpbusd_epi32 model_dpbusd_epi32
#define _mm512_dpwssd_epi32 model_dpwssd_epi32
#define _mm512_add_ps model_add_ps
#define _mm512_mul_ps model_mul_ps
#define _mm512_fmadd_ps model_fmadd_ps
#define _mm512_fmsub_ps model_fmsub_ps
#define _mm512_cvtepi32_ps model_cvtepi32_ps
#define _mm512_cvtph_ps model_cvtph_ps
#define _mm512_cvtepi32_epi16 model_cvtepi32_epi16
#define _mm512_test_epi8_mask model_test_epi8_mask
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask model_cmp_ps_mask
#define _mm512_loadu_ps model_loadu
#define _mm512_storeu_ps model_storeu
#undef _mm512_inserti32x4
#define _mm512_inserti32x4 model_inserti32x4
#define _mm512_broadcast_i32x4 model_broadcast_i32x4
#define _mm512_castsi128_si512 model_castsi128_si512
#define _mm512_castsi512_ps(v) (v)

#endif
