/* SPDX-License-Identifier: MIT */
/* ops_neon - the operations of kernels/tile/tile.h on four lanes of NEON, for all ARM levels. The
 * levels differ in how sums over codes are made and, for i8mm, in where codes lie; their headers
 * are included after this one. Needs no more than ARMv8-A. */
#ifndef QUIRE_KERNELS_ARM_OPS_NEON_H
#define QUIRE_KERNELS_ARM_OPS_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/act.h"

#define vint int32x4_t
#define vfloat float32x4_t

#define TILE_COLS 4
enum { V_ROWS = 4, TILE_VECTORS = 4, V_CODES_SIGNED = 1 };

ATTR_INLINE vint v_of_u8(uint8x16_t v)
{
    return vreinterpretq_s32_u8(v);
}

ATTR_INLINE uint8x16_t v_as_u8(vint v)
{
    return vreinterpretq_u8_s32(v);
}

ATTR_INLINE vint v_zero(void)
{
    return vdupq_n_s32(0);
}

ATTR_INLINE vint v_set8(int x)
{
    return vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x));
}

ATTR_INLINE vint v_set32(int32_t x)
{
    return vdupq_n_s32(x);
}

ATTR_INLINE vint v_splat32(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return vdupq_n_s32(x);
}

ATTR_INLINE vint v_and(vint a, vint b)
{
    return vandq_s32(a, b);
}

ATTR_INLINE vint v_or(vint a, vint b)
{
    return vorrq_s32(a, b);
}

ATTR_INLINE vint v_add32(vint a, vint b)
{
    return vaddq_s32(a, b);
}

ATTR_INLINE vint v_sub32(vint a, vint b)
{
    return vsubq_s32(a, b);
}

ATTR_INLINE vint v_sub8(vint a, vint b)
{
    return v_of_u8(vsubq_u8(v_as_u8(a), v_as_u8(b)));
}

ATTR_INLINE vint v_max32(vint a, vint b)
{
    return vmaxq_s32(a, b);
}

ATTR_INLINE vint v_shl16(vint v, const int n)
{
    return vreinterpretq_s32_u16(vshlq_u16(vreinterpretq_u16_s32(v), vdupq_n_s16((int16_t)n)));
}

ATTR_INLINE vint v_shr16(vint v, const int n)
{
    return v_shl16(v, -n);
}

ATTR_INLINE vint v_shl32(vint v, const int n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), vdupq_n_s32(n)));
}

ATTR_INLINE vint v_shr32(vint v, const int n)
{
    return v_shl32(v, -n);
}

ATTR_INLINE vint v_sar32(vint v, const int n)
{
    return vshlq_s32(v, vdupq_n_s32(-n));
}

ATTR_INLINE vint v_lookup(const uint8_t table[16], vint index)
{
    return v_of_u8(vqtbl1q_u8(vld1q_u8(table), v_as_u8(index)));
}

ATTR_INLINE vint v_mla32(vint sum, vint a, vint b)
{
    return vmlaq_s32(sum, a, b);
}

ATTR_INLINE vint v_dot16(vint sum, vint a, vint b)
{
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(x, y)));
}

ATTR_INLINE vfloat vf_load(const float *p)
{
    return vld1q_f32(p);
}

ATTR_INLINE void vf_store(float *p, vfloat v)
{
    vst1q_f32(p, v);
}

/* p need not be aligned. */
ATTR_INLINE vfloat vf_splat(const void *p)
{
    return vreinterpretq_f32_s32(v_splat32(p));
}

ATTR_INLINE vfloat vf_add(vfloat a, vfloat b)
{
    return vaddq_f32(a, b);
}

ATTR_INLINE vfloat vf_mul(vfloat a, vfloat b)
{
    return vmulq_f32(a, b);
}

ATTR_INLINE vfloat vf_fma(vfloat a, vfloat b, vfloat c)
{
    return vfmaq_f32(c, a, b);
}

ATTR_INLINE vfloat vf_fms(vfloat a, vfloat b, vfloat c)
{
    return vfmaq_f32(vnegq_f32(c), a, b);
}

ATTR_INLINE vfloat vf_of_int(vint v)
{
    return vcvtq_f32_s32(v);
}

ATTR_INLINE vfloat vf_of_half(vint v)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(v))));
}

ATTR_INLINE vfloat vf_of_bits(vint v)
{
    return vreinterpretq_f32_s32(v);
}

ATTR_INLINE vfloat vf_one_nan(vfloat v)
{
    return vbslq_f32(vceqq_f32(v, v), v, vreinterpretq_f32_u32(vdupq_n_u32(NAN_BITS)));
}

ATTR_INLINE vint v_row_words(const uint8_t *p, size_t stride)
{
    uint32_t w[V_ROWS];
    ATTR_UNROLL
    for (uint32_t r = 0; r < V_ROWS; r++)
        memcpy(&w[r], p + r * stride, sizeof w[r]);
    uint64_t low = w[0] | (uint64_t)w[1] << 32, high = w[2] | (uint64_t)w[3] << 32;
    return vreinterpretq_s32_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}

ATTR_INLINE void v_words16(vint w[4], const uint8_t *p, size_t stride)
{
    int32x4_t a = v_of_u8(vld1q_u8(p)), b = v_of_u8(vld1q_u8(p + stride));
    int32x4_t c = v_of_u8(vld1q_u8(p + 2 * stride)), d = v_of_u8(vld1q_u8(p + 3 * stride));
    int32x4_t ac0 = vzip1q_s32(a, c), ac1 = vzip2q_s32(a, c);
    int32x4_t bd0 = vzip1q_s32(b, d), bd1 = vzip2q_s32(b, d);
    w[0] = vzip1q_s32(ac0, bd0);
    w[1] = vzip2q_s32(ac0, bd0);
    w[2] = vzip1q_s32(ac1, bd1);
    w[3] = vzip2q_s32(ac1, bd1);
}

#endif
