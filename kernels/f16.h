/* SPDX-License-Identifier: MIT */
/* f16 - 16-bit floats as the formats store them, converted exactly in software: the same bits on
 * every machine. No state, any thread. NaN stays NaN (payload kept, quiet bit set, as the
 * instructions of x86 and ARM do).
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
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
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

/* Rounding to the nearest, ties to even: half of the last kept place, and that place itself, are
 * added before the cut; a carry walks into the exponent by itself, up to infinity. */
static inline uint16_t f32_to_f16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 2^16 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { /* 2^-14 and above: a normal result */
        magnitude -= 112u << 23;
        return (uint16_t)(sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
    }
    uint32_t shift = 126 - (magnitude >> 23); /* in units of 2^-24, the smallest subnormal */
    if (shift > 24)
        return (uint16_t)sign;
    uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t rounded = fraction + (1u << (shift - 1)) - 1 + (fraction >> shift & 1u);
    return (uint16_t)(sign | rounded >> shift);
}

static inline uint16_t f32_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
