/* SPDX-License-Identifier: MIT */
/* quantize_block - one block of each format from floats, and what the fits share: for quantize.c
 * and quantize_iq.c only. */
#ifndef QUIRE_KERNELS_QUANTIZE_BLOCK_H
#define QUIRE_KERNELS_QUANTIZE_BLOCK_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/f16.h"

typedef void quantize_block_fn(const float *x, uint8_t *b);

/* quantize_iq.c */
quantize_block_fn quantize_iq1_m, quantize_iq2_s, quantize_iq3_xxs, quantize_iq3_s, quantize_iq4_nl,
    quantize_iq4_xs, quantize_mxfp4, quantize_nvfp4, quantize_tq1_0, quantize_tq2_0, quantize_q1_0,
    quantize_q2_0;

ATTR_INLINE void store_u16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

/* Stores a scale and gives back what a reader will see. */
ATTR_INLINE float store_f16(uint8_t *p, float v)
{
    uint16_t h = f32_to_f16(v);
    store_u16(p, h);
    return f16_to_f32(h);
}

/* Nearest whole number within [low, high], ties to even; low for NaN. */
ATTR_INLINE int nearest(float v, int low, int high)
{
    if (!(v > (float)low))
        return low;
    if (v >= (float)high)
        return high;
    return (int)((v + 0x1.8p23f) - 0x1.8p23f);
}

/* 0 for scales so small that their inverse is no number. */
ATTR_INLINE float inverse(float v)
{
    float id = 1.0f / v;
    return isfinite(id) ? id : 0.0f;
}

/* The element of largest magnitude, with its sign. */
ATTR_INLINE float extreme(const float *x, int n)
{
    float best = 0.0f;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(best))
            best = x[i];
    return best;
}

#endif
