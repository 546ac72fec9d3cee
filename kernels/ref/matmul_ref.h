/* SPDX-License-Identifier: MIT */
/* matmul_ref - one weight block of an integer format, decoded for the scalar reference.
 * Constant functions, any thread. The layouts are drawn in kernels/ref/matmul_ref_blocks.c. */
#ifndef QUIRE_KERNELS_REF_MATMUL_REF_H
#define QUIRE_KERNELS_REF_MATMUL_REF_H

#include <stdint.h>

#include "kernels/matmul.h"

/* 32 weights: d * code + m. */
struct ref_block32 {
    int8_t code[32];
    float d, m;
};

/* 256 weights: d * scale * code - dmin * min, scale and min by 16. */
struct ref_block256 {
    int8_t code[256];
    int16_t scale[16];
    int16_t min[16];
    float d, dmin;
};

/* A decoder, and whether the format has the second term (m, or dmin and min; else not written). */
struct ref_format {
    void (*decode32)(struct ref_block32 *out, const uint8_t *src);
    void (*decode256)(struct ref_block256 *out, const uint8_t *src);
    int has_min;
};

/* matmul_run_int_ref - the entry of every integer format; levels use it for shapes that they leave
 * out. */
void matmul_run_int_ref(const struct matmul *m, uint32_t row_begin, uint32_t row_end);

/* ref_format_of - decode functions of an integer format; both NULL for the others. */
struct ref_format ref_format_of(enum dtype type);

#endif
