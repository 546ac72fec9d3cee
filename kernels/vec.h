/* SPDX-License-Identifier: MIT */
/* vec - row-wise kernels: norm, rotation, activation, conversion, and the reduction of logits.
 *   numerics  each is one fixed function of its arguments (kernels/README.md); sums run in a fixed
 *             number of lanes (element index mod lanes, ascending) and end in one fixed tree:
 *             halves added, widest first. Elements that are not finite give NaN at the same places
 *             on every level; NaN payloads are not promised
 *   thread    any, no shared state
 *   owner     the caller keeps every buffer; none needs an alignment; dst may be the input itself
 *             where the comment says "in place" */
#ifndef QUIRE_KERNELS_VEC_H
#define QUIRE_KERNELS_VEC_H

#include <stdint.h>

#define VEC_NORM_LANES                                                                             \
    32u                   /* partial sums of squares: enough chains to hide the latency of an fma */
#define VEC_EXP_LANES 16u /* partial sums of exponentials */

/* What a stretch of logits is reduced to. */
struct vec_peak {
    float max; /* largest, NaN ignored; -inf when there is none; of zeros, either */
    float sum; /* sum of exp(x - max) */
};

struct vec_kernels {
    /* dst = x / sqrt(mean(x^2) + eps) * w; in place */
    void (*rms_norm)(float *dst, const float *x, const float *w, uint32_t n, float eps);
    /* Rotation of neighbours, in place: (a, b) -> (a cos - b sin, b cos + a sin). cos holds each
     * value twice, sin likewise with the first negated, so entry i belongs to element i
     * (kernels/rope.h). n is even. */
    void (*rope_pairs)(float *x, const float *cos, const float *sin, uint32_t n);
    /* dst = silu(gate) * up, silu(g) = g / (1 + exp(-g)); in place over either input */
    void (*silu_mul)(float *dst, const float *gate, const float *up, uint32_t n);
    /* dst = dst + scale * x, one fma each */
    void (*add_scaled)(float *dst, const float *x, float scale, uint32_t n);
    /* f32 to f16, to nearest even */
    void (*to_f16)(uint16_t *dst, const float *x, uint32_t n);
    void (*peak)(struct vec_peak *out, const float *x, uint32_t n);
    /* Walsh-Hadamard transform of each stretch of size elements, in place, then times scale: the
     * pairs (x[i], x[i + h]) become sum and difference, h = 1, 2, 4 .. size / 2. size is a power of
     * two, at least 8, and divides n. Twice the transform is size times the input. */
    void (*hadamard)(float *x, uint32_t n, uint32_t size, float scale);
};

/* vec_fill_ref - fills every slot. vec_fill_<level> - overrides what that level has. */
void vec_fill_ref(struct vec_kernels *k);
void vec_fill_avx2(struct vec_kernels *k);
void vec_fill_neon(struct vec_kernels *k);

#endif
