/* SPDX-License-Identifier: MIT */
/* expf - the one exponential of the engine, in scalar form; each instruction set has the same steps
 * in lanes.
 *   exp(x) for x <= 88: n = round(x / ln 2), r = x - n ln 2 by two fma, a polynomial of degree 6 in
 *   r, times 2^n. Below EXP_MIN it is 0, so that -inf masks; exp(0) is exactly 1; NaN stays NaN.
 *   error  at most 0.66 * 2^-23 of the value, over [-87, 88]
 *   source own minimax fit of exp(r) - 1 - r over |r| <= ln 2 / 2 */
#ifndef QUIRE_KERNELS_EXPF_H
#define QUIRE_KERNELS_EXPF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"

#define EXP_LOG2E 0x1.715476p+0f
#define EXP_ROUND                                                                                  \
    12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, which is left in the low bits */
#define EXP_LN2_HI 0x1.62e4p-1f /* few bits, so that n * EXP_LN2_HI is exact */
#define EXP_LN2_LO 0x1.7f7d1cp-20f
#define EXP_MIN (-87.0f)
#define EXP_MAX 88.0f /* callers clamp to it */
#define EXP_ONE_BITS 0x3f800000u
#define EXP_C6 0x1.6a1a6ep-10f
#define EXP_C5 0x1.123fc6p-7f
#define EXP_C4 0x1.555916p-5f
#define EXP_C3 0x1.55548ap-3f
#define EXP_C2 0x1.fffffcp-2f

ATTR_INLINE float exp_ref(float x)
{
    float t = fmaf(x, EXP_LOG2E, EXP_ROUND), n = t - EXP_ROUND;
    float r = fmaf(n, -EXP_LN2_LO, fmaf(n, -EXP_LN2_HI, x));
    float p = fmaf(EXP_C6, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(fmaf(p, r, 1.0f), r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits << 23) +
           EXP_ONE_BITS; /* The constant part of t is a multiple of 2^9: it shifts out. */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < EXP_MIN ? 0.0f : p * scale;
}

#endif
