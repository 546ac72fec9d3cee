/* SPDX-License-Identifier: MIT */
/* dequant_iq - formats whose elements are looked up or ternary.
 * The books are in kernels/ref/iq_tables.c.
 *
 * Blocks of 256, as eight groups of 32 (g), each four runs of 8 (r); d: f16:
 *   IQ2_XXS  d | per g: u32 book indices (8 bits a run), u32 4 x 7 sign bits, scale in the top 4
 *   IQ2_XS   d | per run u16: index 9 bits, 7 sign bits | scales, a nibble per two runs [8]
 *   IQ2_S    d | index low [32] | signs [32] | index bits 8,9 [8] | scales [8]
 *   IQ3_XXS  d | index per 4 elements [64] | per g u32: 4 x 7 sign bits, scale in the top 4
 *   IQ3_S    d | index low [64] | index bit 8 [8] | signs [32] | scales, a nibble per g [4]
 *   IQ1_S    d | index low [32] | per g u16: index bits 8..10 of each run, scale of 3 bits,
 *            sign of delta
 *   IQ1_M    index low [32] | nibble per run: index bits 8..10, sign of delta [16] | u16 [4]:
 *            scales of 3 bits per two runs in the low 12 bits, a quarter of d in the top 4
 *   IQ4_XS   d | bits 4,5 of the scales u16 | low nibbles [4] | nibbles [128]
 *   TQ1_0    5 trits a byte [48], 4 trits a byte [4] | d
 *   TQ2_0    2 bits [64] | d
 * Smaller blocks:
 *   IQ4_NL   32: d | nibbles [16]                MXFP4  32: scale E8M0 | nibbles [16]
 *   NVFP4    64: scales UE4M3 [4] | nibbles [32] Q1_0  128: d | signs [16]
 *   Q2_0     64: d | 2 bits [16], -1 .. 2 */
#include "core/load.h"
#include "kernels/dequant_block.h"
#include "kernels/f16.h"
#include "kernels/ref/iq_tables.h"

#define IQ1_DELTA 0.125f

static float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

/* Eight elements of a two-bit book. */
static void put_iq2(float *y, float scale, uint32_t grid, uint32_t signs)
{
    for (int j = 0; j < 8; j++) {
        float v = scale * (float)iq2_levels[grid >> (2 * j) & 3];
        y[j] = (signs >> j & 1) != 0 ? -v : v;
    }
}

void dequant_iq2_xxs(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *index = b + 2 + 8 * g;
        uint32_t word = load_u32(index + 4);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (int r = 0; r < 4; r++)
            put_iq2(y + 32 * g + 8 * r, scale, iq2_xxs_grid[index[r]],
                    iq_signs(word >> (7 * r) & 127));
    }
}

void dequant_iq2_xs(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int r = 0; r < 32; r++) {
        uint32_t word = load_u16(b + 2 + 2 * r);
        float scale = d * (0.5f + (float)(b[66 + r / 4] >> (r % 4 / 2 * 4) & 15)) * 0.25f;
        put_iq2(y + 8 * r, scale, iq2_xs_grid[word & 511], iq_signs(word >> 9));
    }
}

void dequant_iq2_s(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int r = 0; r < 32; r++) {
        uint32_t high = b[66 + r / 4] >> (r % 4 * 2) & 3u;
        float scale = d * (0.5f + (float)(b[74 + r / 4] >> (r % 4 / 2 * 4) & 15)) * 0.25f;
        put_iq2(y + 8 * r, scale, iq2_s_grid[b[2 + r] | high << 8], b[34 + r]);
    }
}

void dequant_iq3_xxs(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int r = 0; r < 32; r++) {
        uint32_t word = load_u32(b + 66 + r / 4 * 4);
        uint32_t signs = iq_signs(word >> (7 * (r % 4)) & 127);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        for (int j = 0; j < 8; j++) {
            uint32_t grid = iq3_xxs_grid[b[2 + 2 * r + j / 4]];
            float v = scale * (float)iq3_xxs_levels[grid >> (3 * (j % 4)) & 7];
            y[8 * r + j] = (signs >> j & 1) != 0 ? -v : v;
        }
    }
}

void dequant_iq3_s(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int r = 0; r < 32; r++) {
        uint32_t signs = b[74 + r];
        float scale = d * (float)(1 + 2 * (b[106 + r / 8] >> (r / 4 % 2 * 4) & 15));
        for (int j = 0; j < 8; j++) {
            int q = 2 * r + j / 4; /* number of the index */
            uint32_t high = b[66 + q / 8] >> (q % 8) & 1u;
            uint32_t grid = iq3_s_grid[b[2 + q] | high << 8];
            float v = scale * (float)(2 * (grid >> (3 * (j % 4)) & 7) + 1);
            y[8 * r + j] = (signs >> j & 1) != 0 ? -v : v;
        }
    }
}

static void put_iq1(float *y, float scale, uint32_t grid, float delta)
{
    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)((int)(grid >> (2 * j) & 3) - 1) + delta);
}

void dequant_iq1_s(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int r = 0; r < 32; r++) {
        uint32_t word = load_u16(b + 34 + r / 4 * 2);
        uint32_t high = word >> (3 * (r % 4)) & 7;
        float scale = d * (float)(2 * (word >> 12 & 7) + 1);
        put_iq1(y + 8 * r, scale, iq1_s_grid[b[2 + r] | high << 8],
                word >> 15 != 0 ? -IQ1_DELTA : IQ1_DELTA);
    }
}

void dequant_iq1_m(const uint8_t *b, float *y)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)load_u16(b + 48 + 2 * i) >> 12 << (4 * i);
    float d = f16_to_f32((uint16_t)bits);
    for (int r = 0; r < 32; r++) {
        uint32_t nibble = b[32 + r / 2] >> (r % 2 * 4) & 15u;
        uint32_t scales = load_u16(b + 48 + r / 8 * 2);
        float scale = d * (float)(2 * (scales >> (r % 8 / 2 * 3) & 7) + 1);
        put_iq1(y + 8 * r, scale, iq1_s_grid[b[r] | (nibble & 7) << 8],
                nibble >> 3 != 0 ? -IQ1_DELTA : IQ1_DELTA);
    }
}

/* Nibbles of 2 half elements, looked up. */
static void put_nibbles(float *y, const uint8_t *q, int half, const int8_t *levels, float scale)
{
    for (int j = 0; j < half; j++) {
        y[j] = (float)levels[q[j] & 15] * scale;
        y[j + half] = (float)levels[q[j] >> 4] * scale;
    }
}

void dequant_iq4_nl(const uint8_t *b, float *y)
{
    put_nibbles(y, b + 2, 16, iq4_levels, load_f16(b));
}

void dequant_iq4_xs(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    uint32_t high = load_u16(b + 2);
    for (int g = 0; g < 8; g++) {
        int s = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (int)(high >> (2 * g) & 3) << 4;
        put_nibbles(y + 32 * g, b + 8 + 16 * g, 16, iq4_levels, d * (float)(s - 32));
    }
}

/* Half of 2^(e - 127); subnormal at the lower end. */
float half_e8m0(uint32_t e)
{
    return f32_from_bits(e < 2 ? 0x200000u << e : (e - 1) << 23);
}

void dequant_mxfp4(const uint8_t *b, float *y)
{
    put_nibbles(y, b + 1, 16, fp4_levels, half_e8m0(b[0]));
}

/* Half of an unsigned E4M3 number; 0x7f, its NaN, counts as 0. */
float half_ue4m3(uint32_t v)
{
    uint32_t exponent = v >> 3 & 15, fraction = v & 7;
    if (v == 0x7f)
        return 0.0f;
    if (exponent == 0)
        return (float)fraction * 0x1p-10f;
    return f32_from_bits((exponent + 119) << 23 | fraction << 20);
}

void dequant_nvfp4(const uint8_t *b, float *y)
{
    for (int s = 0; s < 4; s++)
        put_nibbles(y + 16 * s, b + 4 + 8 * s, 8, fp4_levels, half_ue4m3(b[s]));
}

/* Trit n of a byte: the byte is a base-3 fraction, multiplied up and cut. */
static float trit(uint8_t byte, int n)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    uint8_t q = (uint8_t)(byte * power[n]);
    return (float)((q * 3 >> 8) - 1);
}

void dequant_tq1_0(const uint8_t *b, float *y)
{
    float d = load_f16(b + 52);
    for (int i = 0; i < 160; i++)
        y[i] = trit(b[i % 32], i / 32) * d;
    for (int i = 0; i < 80; i++)
        y[160 + i] = trit(b[32 + i % 16], i / 16) * d;
    for (int i = 0; i < 16; i++)
        y[240 + i] = trit(b[48 + i % 4], i / 4) * d;
}

void dequant_tq2_0(const uint8_t *b, float *y)
{
    float d = load_f16(b + 64);
    for (int i = 0; i < 256; i++)
        y[i] = (float)((b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1) * d;
}

void dequant_q1_0(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int i = 0; i < 128; i++)
        y[i] = (b[2 + i / 8] >> (i % 8) & 1) != 0 ? d : -d;
}

void dequant_q2_0(const uint8_t *b, float *y)
{
    float d = load_f16(b);
    for (int i = 0; i < 64; i++)
        y[i] = (float)((b[2 + i / 4] >> (i % 4 * 2) & 3) - 1) * d;
}
