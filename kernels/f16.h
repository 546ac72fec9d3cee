/* SPDX-License-Identifier: MIT */
/* f16 - 16-bit floats as the formats store them, converted exactly in software: the same bits on every machine.
 * No state, any thread. NaN stays NaN (payload kept, quiet bit set, as the instructions of x86 and ARM do).
 *   source   IEEE 754 binary16; bfloat16 is the upper half of binary32 */
#ifndef QUIRE_KERNELS_F16_H
#define QUIRE_KERNELS_F16_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
    if (exponent == 31)
        return f32_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction != 0 ? 0x400000u : 0));
    if (exponent != 0)
        return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* zero or subnormal: exact */
    return sign != 0 ? -tiny : tiny;
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

#endif
