/* SPDX-License-Identifier: MIT */
/* matmul_ref_blocks - the integer weight blocks of GGUF taken apart, one plain loop each.
 * Fields in file order, f16 and words little-endian; a nibble byte holds its first element in the
 * low half.
 *   Q4_0     d, q[16]                       byte i: elements i and 16 + i; code = nibble - 8
 *   Q4_1     d, m, q[16]                    the same; code = nibble
 *   Q5_0/1   d, (m,) high u32, q[16]        the same; bit e of high is bit 4 of element e; Q5_0:
 *   code - 16
 *   Q8_0     d, q[32] signed
 *   IQ4_NL   d, q[16]                       the same as Q4_0, nibble = index of a table of 16
 *   MXFP4    e, q[16]                       scale 2^(e - 128); table of 16 (twice the values of
 *   E2M1)
 *   Q2_K     scales[16], q[64], d, dmin     scales: low nibble scale, high nibble min
 *   Q3_K     high[32], q[64], packed[12], d      scale - 32, 6 bits; bit set in high: 0, clear: -4
 *            q of both: 2 bits, byte 32 h + i, bits 2 j: element 128 h + 32 j + i
 *   Q4_K     d, dmin, packed[12], q[128]    byte 32 p + i: elements 64 p + i and 64 p + 32 + i
 *   Q5_K     d, dmin, packed[12], high[32], q[128]     bit j of high[i]: bit 4 of element 32 j + i
 *   Q6_K     low[128], high[64], scales[16] signed, d  code - 32
 *   IQ4_XS   d, scales_high u16, scales_low[4], q[128] scale - 32, 6 bits; 8 sub-blocks laid out
 *   as IQ4_NL
 *   source   GGUF specification and ggml's public block definitions (2026-08) */
#include "kernels/ref/matmul_ref.h"

#include <string.h>

#include "kernels/f16.h"

static const int8_t iq4_codes[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113 };
static const int8_t mxfp4_codes[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

static void nibbles32(int8_t code[32], const uint8_t *q)
{
    for (int i = 0; i < 16; i++) {
        code[i] = (int8_t)(q[i] & 15);
        code[16 + i] = (int8_t)(q[i] >> 4);
    }
}

static void add_bit4(int8_t code[32], const uint8_t *high)
{
    for (int i = 0; i < 32; i++)
        code[i] = (int8_t)(code[i] | (high[i / 8] >> i % 8 & 1) << 4);
}

static void shift_codes(int8_t *code, int count, int by)
{
    for (int i = 0; i < count; i++)
        code[i] = (int8_t)(code[i] + by);
}

static void look_up(int8_t *code, int count, const int8_t table[16])
{
    for (int i = 0; i < count; i++)
        code[i] = table[code[i]];
}

static void decode_q4_0(struct ref_block32 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    nibbles32(out->code, src + 2);
    shift_codes(out->code, 32, -8);
}

static void decode_q4_1(struct ref_block32 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    out->m = load_f16(src + 2);
    nibbles32(out->code, src + 4);
}

static void decode_q5_0(struct ref_block32 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    nibbles32(out->code, src + 6);
    add_bit4(out->code, src + 2);
    shift_codes(out->code, 32, -16);
}

static void decode_q5_1(struct ref_block32 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    out->m = load_f16(src + 2);
    nibbles32(out->code, src + 8);
    add_bit4(out->code, src + 4);
}

static void decode_q8_0(struct ref_block32 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    memcpy(out->code, src + 2, 32);
}

static void decode_iq4_nl(struct ref_block32 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    nibbles32(out->code, src + 2);
    look_up(out->code, 32, iq4_codes);
}

static void decode_mxfp4(struct ref_block32 *out, const uint8_t *src)
{
    out->d = f32_from_bits(src[0] < 2 ? 0x00200000u << src[0] : (uint32_t)(src[0] - 1) << 23);
    nibbles32(out->code, src + 1);
    look_up(out->code, 32, mxfp4_codes);
}

/* Two-bit codes of Q2_K and Q3_K. */
static void crumbs256(int8_t code[256], const uint8_t *q)
{
    for (int e = 0; e < 256; e++)
        code[e] = (int8_t)(q[e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3);
}

static void decode_q2_k(struct ref_block256 *out, const uint8_t *src)
{
    for (int j = 0; j < 16; j++) {
        out->scale[j] = src[j] & 15;
        out->min[j] = src[j] >> 4;
    }
    crumbs256(out->code, src + 16);
    out->d = load_f16(src + 80);
    out->dmin = load_f16(src + 82);
}

static void decode_q3_k(struct ref_block256 *out, const uint8_t *src)
{
    const uint8_t *high = src, *packed = src + 96;
    crumbs256(out->code, src + 32);
    for (int e = 0; e < 256; e++)
        out->code[e] = (int8_t)(out->code[e] - (high[e % 32] >> e / 32 & 1 ? 0 : 4));
    for (int j = 0; j < 16; j++) {
        int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4,
            top = packed[8 + j % 4] >> j / 4 * 2 & 3;
        out->scale[j] = (int16_t)((low | top << 4) - 32);
    }
    out->d = load_f16(src + 108);
}

/* Eight 6-bit scales and mins in 12 bytes, each for 32 weights. */
static void scales_k4(struct ref_block256 *out, const uint8_t *packed)
{
    for (int j = 0; j < 4; j++) {
        int scale = packed[j] & 63, min = packed[4 + j] & 63;
        int scale4 = (packed[8 + j] & 15) | packed[j] >> 6 << 4,
            min4 = packed[8 + j] >> 4 | packed[4 + j] >> 6 << 4;
        out->scale[2 * j] = out->scale[2 * j + 1] = (int16_t)scale;
        out->min[2 * j] = out->min[2 * j + 1] = (int16_t)min;
        out->scale[8 + 2 * j] = out->scale[9 + 2 * j] = (int16_t)scale4;
        out->min[8 + 2 * j] = out->min[9 + 2 * j] = (int16_t)min4;
    }
}

static void nibbles256(int8_t code[256], const uint8_t *q)
{
    for (int e = 0; e < 256; e++)
        code[e] = (int8_t)(q[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15);
}

static void decode_q4_k(struct ref_block256 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    out->dmin = load_f16(src + 2);
    scales_k4(out, src + 4);
    nibbles256(out->code, src + 16);
}

static void decode_q5_k(struct ref_block256 *out, const uint8_t *src)
{
    out->d = load_f16(src);
    out->dmin = load_f16(src + 2);
    scales_k4(out, src + 4);
    nibbles256(out->code, src + 48);
    for (int e = 0; e < 256; e++)
        out->code[e] = (int8_t)(out->code[e] | (src[16 + e % 32] >> e / 32 & 1) << 4);
}

static void decode_q6_k(struct ref_block256 *out, const uint8_t *src)
{
    const uint8_t *low = src, *high = src + 128, *scales = src + 192;
    for (int e = 0; e < 256; e++) {
        int half = e / 128, quarter = e / 32 % 4;
        int nibble = low[64 * half + 32 * (quarter % 2) + e % 32] >> (quarter / 2 * 4) & 15;
        int top = high[32 * half + e % 32] >> 2 * quarter & 3;
        out->code[e] = (int8_t)((nibble | top << 4) - 32);
    }
    for (int j = 0; j < 16; j++)
        out->scale[j] = (int16_t)(scales[j] < 128 ? scales[j] : scales[j] - 256);
    out->d = load_f16(src + 208);
}

static void decode_iq4_xs(struct ref_block256 *out, const uint8_t *src)
{
    unsigned high = load_u16(src + 2);
    out->d = load_f16(src);
    for (int j = 0; j < 8; j++) {
        int scale = (src[4 + j / 2] >> j % 2 * 4 & 15) | (int)(high >> 2 * j & 3) << 4;
        out->scale[2 * j] = out->scale[2 * j + 1] = (int16_t)(scale - 32);
        nibbles32(out->code + 32 * j, src + 8 + 16 * j);
    }
    look_up(out->code, 256, iq4_codes);
}

struct ref_format ref_format_of(enum dtype type)
{
    switch ((int)type) {
    case DTYPE_Q4_0:
        return (struct ref_format){ .decode32 = decode_q4_0 };
    case DTYPE_Q4_1:
        return (struct ref_format){ .decode32 = decode_q4_1, .has_min = 1 };
    case DTYPE_Q5_0:
        return (struct ref_format){ .decode32 = decode_q5_0 };
    case DTYPE_Q5_1:
        return (struct ref_format){ .decode32 = decode_q5_1, .has_min = 1 };
    case DTYPE_Q8_0:
        return (struct ref_format){ .decode32 = decode_q8_0 };
    case DTYPE_IQ4_NL:
        return (struct ref_format){ .decode32 = decode_iq4_nl };
    case DTYPE_MXFP4:
        return (struct ref_format){ .decode32 = decode_mxfp4 };
    case DTYPE_Q2_K:
        return (struct ref_format){ .decode256 = decode_q2_k, .has_min = 1 };
    case DTYPE_Q3_K:
        return (struct ref_format){ .decode256 = decode_q3_k };
    case DTYPE_Q4_K:
        return (struct ref_format){ .decode256 = decode_q4_k, .has_min = 1 };
    case DTYPE_Q5_K:
        return (struct ref_format){ .decode256 = decode_q5_k, .has_min = 1 };
    case DTYPE_Q6_K:
        return (struct ref_format){ .decode256 = decode_q6_k };
    case DTYPE_IQ4_XS:
        return (struct ref_format){ .decode256 = decode_iq4_xs };
    default:
        return (struct ref_format){ 0 };
    }
}
