/* SPDX-License-Identifier: MIT */
/* dequant - plain floats, Q4_0 .. Q8_0 and Q2_K .. Q6_K; the code book formats are in dequant_iq.c.
 *
 * Blocks of 32 (d, m: f16; "low nibbles first": byte j holds elements j and j + 16):
 *   Q4_0  d | nibbles[16]             y = (q - 8) d
 *   Q4_1  d | m | nibbles[16]         y = q d + m
 *   Q5_0  d | bit 4 of q [4] | nibbles[16]          y = (q - 16) d
 *   Q5_1  d | m | bit 4 of q [4] | nibbles[16]      y = q d + m
 *   Q8_0  d | int8 [32]               y = q d
 *
 * Blocks of 256 in groups of 16 or 32 (s, t: small integers of a group; d, dmin: f16 of the block):
 *   Q2_K  s,t nibbles [16] | 2 bits [64] | d | dmin                16 of 16  y = (d s) q - (dmin t)
 *   Q3_K  bit 2 of q [32] | 2 bits [64] | s 6 bits [12] | d    16 of 16  y = (d (s - 32)) (q - 4)
 *   Q4_K  d | dmin | s,t 6 bits [12] | nibbles [128]                8 of 32  y = (d s) q - (dmin t)
 *   Q5_K  d | dmin | s,t 6 bits [12] | bit 4 [32] | nibbles [128]   8 of 32  y = (d s) q - (dmin t)
 *   Q6_K  low nibbles [128] | bits 4,5 [64] | s int8 [16] | d      16 of 16  y = (d s) (q - 32)
 *
 * Each formula is computed exactly as bracketed, each step rounded to float32, nothing fused. */
#include "kernels/dequant.h"

#include <string.h>

#include "core/load.h"
#include "core/must.h"
#include "kernels/dequant_block.h"
#include "kernels/f16.h"

static float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

static void dequant_q4_0(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b[2 + j] & 15) - 8) * d;
        y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
    }
}

static void dequant_q4_1(const uint8_t *b, float *y)
{
    float d = load_f16(b), m = load_f16(b + 2);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(b[4 + j] & 15) * d + m;
        y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
    }
}

/* Element j of a 5-bit block: its nibble and its bit of the word. */
static int five_bits(const uint8_t *nibbles, uint32_t high, int j)
{
    int low = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

static void dequant_q5_0(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    uint32_t high = load_u32(b + 2);
    for (int j = 0; j < 32; j++)
        y[j] = (float)(five_bits(b + 6, high, j) - 16) * d;
}

static void dequant_q5_1(const uint8_t *b, float *y)
{
    float d = load_f16(b), m = load_f16(b + 2);
    uint32_t high = load_u32(b + 4);
    for (int j = 0; j < 32; j++)
        y[j] = (float)five_bits(b + 8, high, j) * d + m;
}

static void dequant_q8_0(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int j = 0; j < 32; j++)
        y[j] = (float)(int8_t)b[2 + j] * d;
}

/* 2-bit planes: half h of 128 elements has bytes 32 h .. 32 h + 31, four planes of 32 elements. */
static int two_bits(const uint8_t *q, int i)
{
    return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void dequant_q2_k(const uint8_t *b, float *y)
{
    float d = load_f16(b + 80), dmin = load_f16(b + 82);
    for (int i = 0; i < 256; i++) {
        uint8_t st = b[i / 16];
        float scale = d * (float)(st & 15), min = dmin * (float)(st >> 4);
        y[i] = scale * (float)two_bits(b + 16, i) - min;
    }
}

/* Group g of 16: low 4 bits in bytes 0..7 (two rounds), bits 4 and 5 in bytes 8..11 (four). */
static int q3_k_scale(const uint8_t *s, int g)
{
    int low = s[g % 8] >> (g / 8 * 4) & 15;
    int high = s[8 + g % 4] >> (g / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

static void dequant_q3_k(const uint8_t *b, float *y)
{
    float d = load_f16(b + 108);
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)q3_k_scale(b + 96, i / 16);
        int high = b[i % 32] >> (i / 32) & 1;
        y[i] = scale * (float)(two_bits(b + 32, i) + 4 * high - 4);
    }
}

/* Scales s and mins t of group g of 8: groups 0..3 in the low 6 bits of bytes g and g + 4;
 * groups 4..7 in the nibbles of byte g + 4, with their bits 4 and 5 on top of bytes g - 4 and g. */
static void q4_k_scales(const uint8_t *s, int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *min = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *min = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

/* Nibbles of 256: 32 bytes hold groups 2 n (low) and 2 n + 1 (high). */
static int four_bits(const uint8_t *q, int i)
{
    return q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

static void dequant_q4_k(const uint8_t *b, float *y)
{
    float d = load_f16(b), dmin = load_f16(b + 2);
    for (int g = 0; g < 8; g++) {
        int s, t;
        q4_k_scales(b + 4, g, &s, &t);
        float scale = d * (float)s, min = dmin * (float)t;
        for (int i = 32 * g; i < 32 * g + 32; i++)
            y[i] = scale * (float)four_bits(b + 16, i) - min;
    }
}

static void dequant_q5_k(const uint8_t *b, float *y)
{
    float d = load_f16(b), dmin = load_f16(b + 2);
    for (int g = 0; g < 8; g++) {
        int s, t;
        q4_k_scales(b + 4, g, &s, &t);
        float scale = d * (float)s, min = dmin * (float)t;
        for (int i = 32 * g; i < 32 * g + 32; i++) {
            int high = b[16 + i % 32] >> g & 1;
            y[i] = scale * (float)(four_bits(b + 48, i) + 16 * high) - min;
        }
    }
}

/* Half h of 128 elements: low nibbles in 64 bytes (elements 0..63 low, 64..127 high), bits 4 and 5
 * in 32 bytes as four planes. */
static void dequant_q6_k(const uint8_t *b, float *y)
{
    float d = load_f16(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, j = i % 128;
        int low = b[half * 64 + j % 64] >> (j / 64 * 4) & 15;
        int q = low | two_bits(b + 128, i) << 4;
        float scale = d * (float)(int8_t)b[192 + i / 16];
        y[i] = scale * (float)(q - 32);
    }
}

static dequant_block_fn *const blocks[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = dequant_q4_0,       [DTYPE_Q4_1] = dequant_q4_1,
    [DTYPE_Q5_0] = dequant_q5_0,       [DTYPE_Q5_1] = dequant_q5_1,
    [DTYPE_Q8_0] = dequant_q8_0,       [DTYPE_Q2_K] = dequant_q2_k,
    [DTYPE_Q3_K] = dequant_q3_k,       [DTYPE_Q4_K] = dequant_q4_k,
    [DTYPE_Q5_K] = dequant_q5_k,       [DTYPE_Q6_K] = dequant_q6_k,
    [DTYPE_IQ1_S] = dequant_iq1_s,     [DTYPE_IQ1_M] = dequant_iq1_m,
    [DTYPE_IQ2_XXS] = dequant_iq2_xxs, [DTYPE_IQ2_XS] = dequant_iq2_xs,
    [DTYPE_IQ2_S] = dequant_iq2_s,     [DTYPE_IQ3_XXS] = dequant_iq3_xxs,
    [DTYPE_IQ3_S] = dequant_iq3_s,     [DTYPE_IQ4_NL] = dequant_iq4_nl,
    [DTYPE_IQ4_XS] = dequant_iq4_xs,   [DTYPE_MXFP4] = dequant_mxfp4,
    [DTYPE_NVFP4] = dequant_nvfp4,     [DTYPE_TQ1_0] = dequant_tq1_0,
    [DTYPE_TQ2_0] = dequant_tq2_0,     [DTYPE_Q1_0] = dequant_q1_0,
    [DTYPE_Q2_0] = dequant_q2_0,
};

/* Formats of one element a block. */
static void dequant_plain(enum dtype type, const uint8_t *src, float *dst, size_t elems)
{
    switch ((int)type) {
    case DTYPE_F32:
        memcpy(dst, src, elems * sizeof *dst);
        return;
    case DTYPE_F16:
        for (size_t i = 0; i < elems; i++)
            dst[i] = load_f16(src + 2 * i);
        return;
    case DTYPE_BF16:
        for (size_t i = 0; i < elems; i++)
            dst[i] = bf16_to_f32(load_u16(src + 2 * i));
        return;
    case DTYPE_F64:
        for (size_t i = 0; i < elems; i++)
            dst[i] = (float)load_f64(src + 8 * i);
        return;
    case DTYPE_I8:
        for (size_t i = 0; i < elems; i++)
            dst[i] = (float)(int8_t)src[i];
        return;
    case DTYPE_I16:
        for (size_t i = 0; i < elems; i++)
            dst[i] = (float)(int16_t)load_u16(src + 2 * i);
        return;
    case DTYPE_I32:
        for (size_t i = 0; i < elems; i++)
            dst[i] = (float)(int32_t)load_u32(src + 4 * i);
        return;
    case DTYPE_I64:
        for (size_t i = 0; i < elems; i++)
            dst[i] = (float)(int64_t)load_u64(src + 8 * i);
        return;
    default:
        must(type == DTYPE_F32); /* a format of the list in core/dtype.h without a case here */
    }
}

void dequant_row(enum dtype type, const uint8_t *src, float *dst, size_t elems)
{
    const struct dtype_info *info = dtype_find((uint32_t)type);
    must(info != NULL);
    must(elems % info->block_elems == 0);
    dequant_block_fn *block = blocks[type];
    if (block == NULL) {
        dequant_plain(type, src, dst, elems);
        return;
    }
    for (size_t i = 0; i < elems; i += info->block_elems, src += info->block_bytes)
        block(src, dst + i);
}
