/* SPDX-License-Identifier: MIT */
/* unpack - GGUF blocks into tiles, V_ROWS rows at a time. Byte operations do not care which row and
 * weight a byte belongs to, so codes are moved into place while still packed and taken apart there.
 * Block layouts: kernels/ref/matmul_ref_blocks.c. */
#ifndef QUIRE_KERNELS_TILE_UNPACK_H
#define QUIRE_KERNELS_TILE_UNPACK_H

#include "kernels/tile/tile.h"

ATTR_INLINE vint mask8(vint v, const int mask)
{
    return v_and(v, v_set8(mask));
}

ATTR_INLINE vint low_nibbles(vint v)
{
    return mask8(v, 15);
}

ATTR_INLINE vint high_nibbles(vint v)
{
    return mask8(v_shr16(v, 4), 15);
}

/* Codes that stand for code - centre: taken off where codes are signed, kept otherwise. */
ATTR_INLINE vint centred(vint codes, const int centre)
{
    return V_CODES_SIGNED ? v_sub8(codes, v_set8(centre)) : codes;
}

/* One bit of every byte moved to another place, the others cleared. */
ATTR_INLINE vint move_bit(vint v, const int from, const int to)
{
    return mask8(from < to ? v_shl16(v, to - from) : v_shr16(v, from - to), 1 << to);
}

/* Byte j of each lane, and the same as a signed byte. */
ATTR_INLINE vint byte_u8(vint v, const int j)
{
    return v_and(v_shr32(v, 8 * j), v_set32(255));
}

ATTR_INLINE vint byte_s8(vint v, const int j)
{
    return v_sar32(v_shl32(v, 24 - 8 * j), 24);
}

/* Bytes j and j + 1 of each lane as a pair of int16, j = 0 or 2. */
ATTR_INLINE vint pair_u8(vint v, const int j)
{
    vint two = j == 0 ? v : v_shr32(v, 16);
    return v_or(v_and(two, v_set32(255)), v_and(v_shl32(two, 8), v_set32(0x00ff0000)));
}

/* Scales a and b (int32) times 1 << shift as a pair of int16. */
ATTR_INLINE vint pair_of(vint a, vint b, const int shift)
{
    return v_or(v_and(v_shl32(a, shift), v_set32(0xffff)), v_shl32(b, 16 + shift));
}

/* f16 at p of each row: two bytes more are read, behind it or before it. */
ATTR_INLINE vfloat row_halves(const uint8_t *p, size_t stride)
{
    return vf_of_half(v_and(v_row_words(p, stride), v_set32(0xffff)));
}

ATTR_INLINE vfloat row_halves_at_end(const uint8_t *p, size_t stride)
{
    return vf_of_half(v_shr32(v_row_words(p - 2, stride), 16));
}

/* Two f16 of each row. */
ATTR_INLINE void split_halves(vint words, vfloat *low, vfloat *high)
{
    *low = vf_of_half(v_and(words, v_set32(0xffff)));
    *high = vf_of_half(v_shr32(words, 16));
}

/* 16 nibble bytes: the low halves are the first 16 weights, the high ones the last. */
ATTR_INLINE void nibbles32(vint codes[8], const uint8_t *src, size_t stride)
{
    vint w[4];
    v_codes16(w, src, stride);
    ATTR_UNROLL
    for (int i = 0; i < 4; i++) {
        codes[i] = low_nibbles(w[i]);
        codes[4 + i] = high_nibbles(w[i]);
    }
}

ATTR_INLINE void add_high_bits(vint codes[8], vint bits)
{
    ATTR_UNROLL
    for (int i = 0; i < 8; i++)
        codes[i] = v_or(codes[i], v_high_bits(bits, i));
}

ATTR_INLINE void store_codes(struct tile_q *t, uint32_t b, uint32_t v, const vint codes[8],
                             const int centre)
{
    ATTR_UNROLL
    for (int i = 0; i < 8; i++)
        t->q[b][i][v] = centre != 0 ? centred(codes[i], centre) : codes[i];
    t->times = v_set32(centre / 8 * 0x10001);
}

static void unpack_q4_0(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 18) {
        vint codes[8];
        nibbles32(codes, src + 2, stride);
        store_codes(t, b, v, codes, 8);
        t->d[b][v] = row_halves(src, stride);
    }
}

static void unpack_q4_1(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 20) {
        vint codes[8];
        nibbles32(codes, src + 4, stride);
        store_codes(t, b, v, codes, 0);
        split_halves(v_row_words(src, stride), &t->d[b][v], &t->m[b][v]);
    }
}

static void unpack_q5_0(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 22) {
        vint codes[8];
        nibbles32(codes, src + 6, stride);
        add_high_bits(codes, v_row_words(src + 2, stride));
        store_codes(t, b, v, codes, 16);
        t->d[b][v] = row_halves(src, stride);
    }
}

static void unpack_q5_1(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 24) {
        vint codes[8];
        nibbles32(codes, src + 8, stride);
        add_high_bits(codes, v_row_words(src + 4, stride));
        store_codes(t, b, v, codes, 0);
        split_halves(v_row_words(src, stride), &t->d[b][v], &t->m[b][v]);
    }
}

/* Signed codes; code + 128 flips the highest bit, so "code - 128" of the flipped is the code. */
static void unpack_q8_0(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 34) {
        vint codes[8];
        v_codes16(codes, src + 2, stride);
        v_codes16(codes + 4, src + 18, stride);
        ATTR_UNROLL
        for (int i = 0; i < 8; i++)
            t->q[b][i][v] = V_CODES_SIGNED ? codes[i] : v_sub8(codes[i], v_set8(-128));
        t->d[b][v] = row_halves(src, stride);
    }
    t->times = v_set32(16 * 0x10001);
}

/* Codes + 128 of IQ4_NL, IQ4_XS and MXFP4. */
static const uint8_t iq4_table[16] = { 1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241 };
static const uint8_t mxfp4_table[16] = { 128, 129, 130, 131, 132, 134, 136, 140,
                                         128, 127, 126, 125, 124, 122, 120, 116 };

ATTR_INLINE void look_up32(vint codes[8], const uint8_t *src, size_t stride,
                           const uint8_t table[16])
{
    nibbles32(codes, src, stride);
    ATTR_UNROLL
    for (int i = 0; i < 8; i++)
        codes[i] = v_lookup(table, codes[i]);
}

static void unpack_iq4_nl(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 18) {
        vint codes[8];
        look_up32(codes, src + 2, stride, iq4_table);
        store_codes(t, b, v, codes, 128);
        t->d[b][v] = row_halves(src, stride);
    }
}

/* The scale is 2^(e - 128): exponent e - 1, or a subnormal for e = 0 and 1, which is less than any
 * of the others and more than the bits that a negative exponent makes. */
static void unpack_mxfp4(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 17) {
        vint codes[8], e = v_and(v_row_words(src, stride), v_set32(255));
        look_up32(codes, src + 1, stride, mxfp4_table);
        store_codes(t, b, v, codes, 128);
        vint normal = v_shl32(v_sub32(e, v_set32(1)), 23);
        vint small = v_shl32(v_add32(v_and(e, v_set32(1)), v_set32(1)), 21);
        t->d[b][v] = vf_of_bits(v_max32(normal, small));
    }
}

/* First 16 bytes of Q4_K and Q5_K: d, dmin, and 8 scales and mins of 6 bits. */
ATTR_INLINE void unpack_header_k4(struct tile_k *t, uint32_t v, const uint8_t *src, size_t stride)
{
    vint w[4], scale[2], min[2];
    v_words16(w, src, stride);
    split_halves(w[0], &t->d[v], &t->dmin[v]);
    scale[0] = mask8(w[1], 0x3f);
    min[0] = mask8(w[2], 0x3f);
    scale[1] = v_or(mask8(w[3], 0x0f), mask8(v_shr32(w[1], 2), 0x30));
    min[1] = v_or(mask8(v_shr32(w[3], 4), 0x0f), mask8(v_shr32(w[2], 2), 0x30));
    ATTR_UNROLL
    for (int i = 0; i < 2; i++) {
        ATTR_UNROLL
        for (int j = 0; j < 4; j++)
            t->scale[4 * i + j][v] = byte_u8(scale[i], j);
        t->pair[2 * i][v] = pair_u8(min[i], 0);
        t->pair[2 * i + 1][v] = pair_u8(min[i], 2);
    }
}

static void unpack_q4_k(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_k *t = tile;
    (void)count;
    unpack_header_k4(t, v, src, stride);
    for (uint32_t p = 0; p < 4; p++) {
        ATTR_UNROLL
        for (uint32_t s = 0; s < 2; s++) {
            vint(*q)[TILE_VECTORS] = &t->q[16 * p + 4 * s], w[4];
            v_codes16(w, src + 16 + 32 * p + 16 * s, stride);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                q[i][v] = low_nibbles(w[i]);
                q[8 + i][v] = high_nibbles(w[i]);
            }
        }
    }
}

static void unpack_q5_k(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_k *t = tile;
    (void)count;
    unpack_header_k4(t, v, src, stride);
    for (uint32_t s = 0; s < 2; s++) {
        vint high[4], w[4];
        v_codes16(high, src + 16 + 16 * s, stride);
        ATTR_UNROLL
        for (int p = 0; p < 4; p++) {
            vint(*q)[TILE_VECTORS] = &t->q[16 * (uint32_t)p + 4 * s];
            v_codes16(w, src + 48 + 32 * p + 16 * s, stride);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                q[i][v] = v_or(low_nibbles(w[i]), move_bit(high[i], 2 * p, 4));
                q[8 + i][v] = v_or(high_nibbles(w[i]), move_bit(high[i], 2 * p + 1, 4));
            }
        }
    }
}

/* 16 scales of one byte each, w[j / 4] byte j % 4; pairs only where centres are to be taken off. */
ATTR_INLINE void store_scales16(struct tile_k *t, uint32_t v, const vint w[4], const int shift)
{
    ATTR_UNROLL
    for (int j = 0; j < 16; j++)
        t->scale[j][v] = byte_s8(w[j / 4], j % 4);
    ATTR_UNROLL
    for (int j = 0; j < 8 && !V_CODES_SIGNED; j++)
        t->pair[j][v] = pair_of(t->scale[2 * j][v], t->scale[2 * j + 1][v], shift);
}

static void unpack_q6_k(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_k *t = tile;
    vint w[4];
    (void)count;
    for (uint32_t step = 0; step < 4; step++) {
        vint(*q)[TILE_VECTORS] = &t->q[step / 2 * 32 + step % 2 * 4], first[4], second[4], high[4];
        const uint8_t *low = src + 64 * (step / 2) + 16 * (step % 2);
        v_codes16(first, low, stride);
        v_codes16(second, low + 32, stride);
        v_codes16(high, src + 128 + 32 * (step / 2) + 16 * (step % 2), stride);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            vint h = high[i];
            vint codes[4] = { v_or(low_nibbles(first[i]), mask8(v_shl16(h, 4), 0x30)),
                              v_or(low_nibbles(second[i]), mask8(v_shl16(h, 2), 0x30)),
                              v_or(high_nibbles(first[i]), mask8(h, 0x30)),
                              v_or(high_nibbles(second[i]), mask8(v_shr16(h, 2), 0x30)) };
            ATTR_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                q[8 * k + i][v] = centred(codes[k], 32);
        }
    }
    v_words16(w, src + 192, stride);
    store_scales16(t, v, w, 5);
    t->d[v] = row_halves_at_end(src + 208, stride);
}

static void unpack_q2_k(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_k *t = tile;
    vint w[4];
    (void)count;
    v_words16(w, src, stride);
    ATTR_UNROLL
    for (int j = 0; j < 16; j++)
        t->scale[j][v] = byte_u8(low_nibbles(w[j / 4]), j % 4);
    ATTR_UNROLL
    for (int j = 0; j < 8; j++)
        t->pair[j][v] = pair_u8(high_nibbles(w[j / 2]), j % 2 * 2);
    for (uint32_t n = 0; n < 4; n++) {
        vint(*q)[TILE_VECTORS] = &t->q[n / 2 * 32 + n % 2 * 4];
        v_codes16(w, src + 16 + 16 * n, stride);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            ATTR_UNROLL
            for (int k = 0; k < 4; k++)
                q[8 * (uint32_t)k + i][v] = mask8(v_shr16(w[i], 2 * k), 3);
        }
    }
    split_halves(v_row_words(src + 80, stride), &t->d[v], &t->dmin[v]);
}

/* 6-bit scales of Q3_K, signed bytes in w. */
ATTR_INLINE void scales_q3_k(vint w[4], const uint8_t *src, size_t stride)
{
    vint packed[3];
    ATTR_UNROLL
    for (uint32_t i = 0; i < 3; i++)
        packed[i] = v_row_words(src + 4 * i, stride);
    ATTR_UNROLL
    for (int g = 0; g < 4; g++) {
        vint low = g < 2 ? low_nibbles(packed[g]) : high_nibbles(packed[g - 2]);
        vint top = v_shl16(mask8(v_shr16(packed[2], 2 * g), 3), 4);
        w[g] = v_sub8(v_or(low, top), v_set8(32));
    }
}

static void unpack_q3_k(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_k *t = tile;
    vint w[4];
    (void)count;
    for (uint32_t s = 0; s < 2; s++) {
        vint high[4];
        v_codes16(high, src + 16 * s, stride);
        ATTR_UNROLL
        for (int n = 0; n < 2; n++) {
            vint(*q)[TILE_VECTORS] = &t->q[32 * (uint32_t)n + 4 * s];
            v_codes16(w, src + 32 + 32 * n + 16 * s, stride);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                ATTR_UNROLL
                for (int k = 0; k < 4; k++)
                    q[8 * (uint32_t)k + i][v] = centred(
                        v_or(mask8(v_shr16(w[i], 2 * k), 3), move_bit(high[i], 4 * n + k, 2)), 4);
            }
        }
    }
    scales_q3_k(w, src + 96, stride);
    store_scales16(t, v, w, 2);
    t->d[v] = row_halves_at_end(src + 108, stride);
}

/* Scales of IQ4_XS: four low bits in nibble j of w1, two high ones in bits 16 + 2 j of w0. */
ATTR_INLINE void scales_iq4_xs(struct tile_k *t, uint32_t v, vint w0, vint w1)
{
    ATTR_UNROLL
    for (int j = 0; j < 8; j++) {
        vint low = v_and(v_shr32(w1, 4 * j), v_set32(15));
        vint high = v_shl32(v_and(v_shr32(w0, 16 + 2 * j), v_set32(3)), 4);
        t->scale[j][v] = v_sub32(v_or(low, high), v_set32(32));
    }
    ATTR_UNROLL
    for (int j = 0; j < 4 && !V_CODES_SIGNED; j++)
        t->pair[j][v] = pair_of(t->scale[2 * j][v], t->scale[2 * j + 1][v], 7);
}

static void unpack_iq4_xs(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count)
{
    struct tile_k *t = tile;
    vint w[4];
    (void)count;
    v_words16(w, src, stride);
    scales_iq4_xs(t, v, w[0], w[1]);
    t->d[v] = vf_of_half(v_and(w[0], v_set32(0xffff)));
    for (uint32_t j = 0; j < 8; j++) {
        vint codes[8];
        look_up32(codes, src + 8 + 16 * j, stride, iq4_table);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            t->q[8 * j + i][v] = centred(codes[i], 128);
    }
}

#endif
