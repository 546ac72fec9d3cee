/* SPDX-License-Identifier: MIT */
/* act - activation rows: sizes, layout and the scalar quantizer, which is the specification.
 * One group (32 or 256 values) at a time, from that group alone:
 *     top = largest |x|                     found on the bits: integers order like magnitudes, NaN
 *     above all
 *     Inf or NaN inside   d = NaN, q = 0    the result is NaN and seen, instead of a quiet wrong
 *     number
 *     top < 2^-100        d = 0,   q = 0    127 / top could overflow
 *     else                d = top / 127, q = round half even of x * (127 / top)
 * No clamp is needed: |x| * (127 / top) <= 127 (1 + 2^-24)^2 < 127.5. So |q| <= 127 always, which
 * the depth of the 16-bit sums of all kernels relies on. Padding behind the last group of a row is
 * never read. Refused: a scale of 16 bits (llama.cpp's q8_0; sums overflow), x / d instead of x *
 * (1 / d) (a division per value). */
#include "kernels/act.h"

#include <math.h>
#include <string.h>

#include "core/must.h"

enum act_kind act_kind_for(enum dtype weight_type)
{
    switch ((int)weight_type) {
    case DTYPE_Q4_0:
    case DTYPE_Q4_1:
    case DTYPE_Q5_0:
    case DTYPE_Q5_1:
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL:
    case DTYPE_MXFP4:
        return ACT_Q8_32;
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
    case DTYPE_Q6_K:
    case DTYPE_IQ4_XS:
        return ACT_Q8_256;
    default:
        return ACT_F32;
    }
}

/* An odd number of cache lines: rows whose distance is a power of two would share a few cache
 * sets. */
size_t act_row_bytes(enum act_kind kind, uint32_t cols)
{
    size_t bytes = 0;
    switch (kind) {
    case ACT_F32:
        bytes = ((size_t)cols + 7) / 8 * 8 * sizeof(float);
        break;
    case ACT_Q8_32:
        must(cols % 32 == 0);
        bytes = cols / 32 * sizeof(struct act_q8_32);
        break;
    case ACT_Q8_256:
        must(cols % 256 == 0);
        bytes = cols / 256 * sizeof(struct act_q8_256);
        break;
    case ACT_KINDS:
        must(kind != ACT_KINDS);
    }
    size_t lines = (bytes + 63) / 64;
    return (lines | 1) * 64;
}

void act_open(struct act *a, enum act_kind kind, uint32_t rows, uint32_t cols, void *mem)
{
    must(mem != NULL && (uintptr_t)mem % 64 == 0);
    *a = (struct act){ .kind = kind, .rows = rows, .cols = cols, .data = mem };
    a->row_bytes = (uint32_t)act_row_bytes(kind, cols);
}

static uint32_t top_bits(const float *x, uint32_t count)
{
    uint32_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        top = bits > top ? bits : top;
    }
    return top;
}

/* Quants of one group; returns its scale. */
static float quantize_group(int8_t *q, const float *x, uint32_t count)
{
    uint32_t bits = top_bits(x, count);
    float top, d = 0;
    memcpy(&top, &bits, sizeof top);
    if (bits >= ACT_INF_BITS || bits < ACT_TINY_BITS) {
        memset(q, 0, count);
        bits = bits >= ACT_INF_BITS ? NAN_BITS : 0;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    float inverse = 127.0f / top;
    for (uint32_t i = 0; i < count; i++)
        q[i] = (int8_t)lrintf(x[i] * inverse);
    return top / 127.0f;
}

/* Sums of q over count values: [0] where k mod 4 is 0 or 1, [1] where it is 2 or 3. */
static void pair_sums(int sum[2], const int8_t *q, uint32_t count)
{
    sum[0] = sum[1] = 0;
    for (uint32_t i = 0; i < count; i++)
        sum[i / 2 % 2] += q[i];
}

static void quantize_q8_32(uint8_t *dst, const float *x, uint32_t cols)
{
    for (uint32_t at = 0; at < cols; at += 32, dst += sizeof(struct act_q8_32)) {
        struct act_q8_32 g;
        int sum[2];
        g.d = quantize_group(g.q, x + at, 32);
        pair_sums(sum, g.q, 32);
        g.sum = (float)(sum[0] + sum[1]);
        g.centre8[0] = (int16_t)(-8 * sum[0]);
        g.centre8[1] = (int16_t)(-8 * sum[1]);
        memcpy(dst, &g, sizeof g);
    }
}

static void quantize_q8_256(uint8_t *dst, const float *x, uint32_t cols)
{
    for (uint32_t at = 0; at < cols; at += 256, dst += sizeof(struct act_q8_256)) {
        struct act_q8_256 g;
        memset(&g, 0, sizeof g);
        g.d = quantize_group(g.q, x + at, 256);
        for (uint32_t j = 0; j < 16; j++) {
            int sum[2];
            pair_sums(sum, g.q + 16 * j, 16);
            g.sum16[j] = (int16_t)(sum[0] + sum[1]);
            g.sum32[j / 2] = (int16_t)(g.sum32[j / 2] + g.sum16[j]);
            g.centre32[j][0] = (int16_t)(-32 * sum[0]);
            g.centre32[j][1] = (int16_t)(-32 * sum[1]);
        }
        memcpy(dst, &g, sizeof g);
    }
}

/* Floats as they are, zeros up to a multiple of 8: kernels read whole vectors. */
static void quantize_f32(uint8_t *dst, const float *x, uint32_t cols)
{
    uint32_t padded = (cols + 7) / 8 * 8;
    memcpy(dst, x, cols * sizeof *x);
    memset(dst + cols * sizeof *x, 0, (padded - cols) * sizeof *x);
}

void act_fill_ref(struct matmul_kernels *k)
{
    k->quantize[ACT_F32] = quantize_f32;
    k->quantize[ACT_Q8_32] = quantize_q8_32;
    k->quantize[ACT_Q8_256] = quantize_q8_256;
}
