/* SPDX-License-Identifier: MIT */
/* ops_lanes_neon - where codes lie for plain NEON and dotprod: a lane is four weights of a row. */
#ifndef QUIRE_KERNELS_ARM_OPS_LANES_NEON_H
#define QUIRE_KERNELS_ARM_OPS_LANES_NEON_H

#include "kernels/arm/ops_neon.h"

ATTR_INLINE void v_codes16(vint w[4], const uint8_t *p, size_t stride)
{
    v_words16(w, p, stride);
}

/* Vector i holds codes 4 i .. 4 i + 3: bits 4 i .. of byte i / 2 of each word. */
ATTR_INLINE vint v_high_bits(vint bits, const int i)
{
    const uint8_t from = (uint8_t)(i / 2);
    const uint8x16_t lane = { 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12 };
    const uint32_t one_each = i % 2 == 0 ? 0x08040201u : 0x80402010u;
    uint8x16_t copies = vqtbl1q_u8(v_as_u8(bits), vaddq_u8(lane, vdupq_n_u8(from)));
    uint8x16_t set = vtstq_u8(copies, vreinterpretq_u8_u32(vdupq_n_u32(one_each)));
    return v_of_u8(vandq_u8(set, vdupq_n_u8(16)));
}

#endif
