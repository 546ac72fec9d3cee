/* SPDX-License-Identifier: MIT */
/* act - memory layout of quantized activations, for the kernels alone; everybody else sees struct
 * act.
 *   numerics  the quantizer in kernels/act.c is the specification; every instruction set writes
 *   the same bytes
 *   layout    one struct per group of one row, one after another. The sums are functions of q:
 *   they are kept
 *             because each is used once per weight row */
#ifndef QUIRE_KERNELS_ACT_H
#define QUIRE_KERNELS_ACT_H

#include <stdint.h>

#include "kernels/f16.h"
#include "kernels/matmul.h"

/* x[k] is about d * q[k], |q| <= 127. 44 bytes: a 4-byte piece of q never crosses a cache line. */
struct act_q8_32 {
    int8_t q[32];
    float d;
    float sum; /* of q: a small integer, exact */
    int16_t centre8
        [2]; /* -8 * sum of q[k], k mod 4 in {0,1} and in {2,3}: turns a 4-bit code c into c - 8 */
};

struct act_q8_256 {
    int8_t q[256];
    float d;
    uint32_t reserved[3];    /* 0 */
    int16_t sum32[8];        /* of q, by 32 */
    int16_t sum16[16];       /* of q, by 16 */
    int16_t centre32[16][2]; /* by 16: -32 * sums as in centre8: turns a 6-bit code c into c - 32 */
};

_Static_assert(sizeof(struct act_q8_32) == 44, "layout");
_Static_assert(sizeof(struct act_q8_256) == 384, "layout");

/* A group whose largest magnitude has these bits or more (Inf, NaN) gets the scale NaN; one below
 * ACT_TINY_BITS (2^-100) is all zero: its reciprocal would overflow. Both compared as integers,
 * sign cleared. */
#define ACT_INF_BITS 0x7f800000u
#define ACT_TINY_BITS 0x0d800000u

/* The only NaN that a kernel of this folder writes: operand order and processor family choose
 * others. */
#define NAN_BITS 0x7fc00000u

/* act_row - row r of a. */
static inline const uint8_t *act_row(const struct act *a, uint32_t r)
{
    return a->data + (size_t)r * a->row_bytes;
}

/* matmul_finish - the end of one output: residual, bias, the one NaN. */
static inline void matmul_finish(const struct matmul *m, uint32_t row, uint32_t col, float v)
{
    float *out = &m->out[(size_t)col * m->out_stride + row];
    if (m->accumulate)
        v = *out + v;
    if (m->bias != NULL)
        v = v + m->bias[row];
    *out = v != v ? f32_from_bits(NAN_BITS) : v;
}

/* act_fill_ref, matmul_fill_ref - the scalar entries: every slot. matmul_fill_<level> - what that
 * level has. */
void act_fill_ref(struct matmul_kernels *k);
void matmul_fill_ref(struct matmul_kernels *k);
void matmul_fill_avx2(struct matmul_kernels *k);
void matmul_fill_avxvnni(struct matmul_kernels *k);
void matmul_fill_avx512vnni(struct matmul_kernels *k);
void matmul_fill_neon(struct matmul_kernels *k);
void matmul_fill_dotprod(struct matmul_kernels *k);
void matmul_fill_i8mm(struct matmul_kernels *k);

#endif
