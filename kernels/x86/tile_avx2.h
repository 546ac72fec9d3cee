/* SPDX-License-Identifier: MIT */
/* tile_avx2 - what the AVX2 products of integer formats share: the tile, the unpacking helpers, the
 * two micro-kernels and the driver. Included by the _avx2 files alone; all inline code is static.
 *
 * A tile is 16 weight rows times 256 weights (fewer in a last chunk), unpacked from GGUF bytes
 * into L1:
 *     q[i][h]   bytes 4 i .. 4 i + 3 of rows 8 h .. 8 h + 7, one row per 32-bit lane: unsigned
 *     codes, or signed ones of 8 bits, whole or split
 * so every vector lane belongs to one output, a multiply-add takes 4 activations that are broadcast
 * from memory, and no sum ever crosses lanes. Two vectors share each broadcast: loads, not
 * multiplies, are what runs out (two a cycle).
 *
 * 8-bit codes leave no room for 16-bit sums: |code| times the activation with the code's sign, two
 * of them at most 2 * 128 * 127 = 32512, and activations are never -128, so nothing saturates or
 * wraps; then straight to 32 bits. For many columns codes are stored split: q is |code|, below is
 * all ones where the code is below 0, and there the activation's bits are flipped. That makes
 * -b - 1 of b, so the 32-bit sums start at the sizes of all codes below 0; two products are
 * -2 * 128 * 128 = -32768 or more. On Zen 3 flipping runs four a cycle and the sign instruction
 * two, on ports that multiplies want; with few columns the splitting costs more than that. Refused:
 * two 4-bit planes of code + 128 (as many multiplies and additions, but twice the tile to unpack:
 * 15 % slower at 8 columns), 16-bit codes and activations (8 % faster than signs from 16 columns
 * on, 40 % slower to unpack, and a second copy of the activations; 20 % slower when they are
 * widened on the way), 6 columns at a time (5 % slower).
 *
 * Depth of 16-bit sums, |activation| <= 127; a multiply-add lane holds two products, additions
 * wrap:
 *     4 bits   32 weights, plain     16 * 15 * 127 = 30480
 *     5 bits   16 weights, plain      8 * 31 * 127 = 31496
 *     5 bits   32 weights, centred   16 * 16 * 127 = 32512
 *     6 bits   16 weights, centred    8 * 32 * 127 = 32512
 * Centred: the sum starts at -centre * sum(activations), so the final value fits although a
 * partial one may wrap; a single multiply-add (at most 63 * 254) never saturates. */
#ifndef QUIRE_KERNELS_X86_TILE_AVX2_H
#define QUIRE_KERNELS_X86_TILE_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "kernels/act.h"

enum {
    TILE_ROWS = 16,
    TILE_HALF = 8,   /* rows of one vector */
    TILE_COLS = 4,   /* columns of one micro-kernel call: 8 sums of 16 bits stay in registers */
    DIRECT_COLS = 8, /* columns of one call without a tile, at most */
    MANY_COLS = 8,   /* for more columns it pays to store signed codes split */
    TILE_BYTES_MAX = 10240,
    PREFETCH_AHEAD = 512, /* bytes */
    PREFETCH_STEPS = 8,   /* the next row group is asked for in this many portions a chunk */
};

typedef void tile_micro(const void *tile, uint32_t count, const uint8_t *x, size_t x_stride,
                        const uint8_t *next, float *acc);
typedef void tile_direct(const uint8_t *src, size_t stride, uint32_t blocks, const uint8_t *x,
                         size_t x_stride, float *acc);

/* How a format is run. */
struct tile_format {
    uint32_t block_elems, block_bytes;
    uint32_t chunk_blocks; /* blocks of a row in one tile */
    uint32_t act_bytes;    /* activation group that belongs to one block */
    /* Rows 8 half .. of the tile, count blocks, the first at src; rows are stride bytes apart. */
    void (*unpack)(void *tile, uint32_t half, const uint8_t *src, size_t stride, uint32_t count);
    /* [n] n columns, x_stride apart; acc[column][row] are the chains. next: to prefetch, or
     * NULL. */
    tile_micro *micro[TILE_COLS + 1];
    /* Up to so many columns are taken narrow, 8 rows at a time: by direct, [n] again, which takes
     * whole rows and needs no tile; or, if that is NULL, by narrow on the first half of a tile. */
    uint32_t narrow_cols;
    tile_micro *narrow[3];
    tile_direct *const *direct;
    const struct tile_format *many; /* NULL, or what is run for more than MANY_COLS columns */
};

/* tile_run_avx2 - rows [row_begin, row_end) of m. */
void tile_run_avx2(const struct matmul *m, uint32_t row_begin, uint32_t row_end,
                   const struct tile_format *f);

/* What the files of this level fill in. */
void matmul_fill_k_avx2(struct matmul_kernels *k);
void matmul_fill_q_avx2(struct matmul_kernels *k);
void matmul_fill_float_avx2(struct matmul_kernels *k);
void act_fill_avx2(struct matmul_kernels *k);

/* direct entries of tile_format. */
extern tile_direct *const direct_q4_0_avx2[], *const direct_q4_1_avx2[], *const direct_q8_0_avx2[];

/* Those of name, over an inline function of n columns: up to 6 and what is listed. */
#define DIRECT(name, n)                                                                            \
    static void direct_##name##_##n(const uint8_t *src, size_t stride, uint32_t blocks,            \
                                    const uint8_t *x, size_t x_stride, float *acc)                 \
    {                                                                                              \
        direct_##name(src, stride, blocks, x, x_stride, acc, n);                                   \
    }
#define DIRECTS(name, storage, ...)                                                                \
    DIRECT(name, 1)                                                                                \
    DIRECT(name, 2)                                                                                \
    DIRECT(name, 3)                                                                                \
    DIRECT(name, 4)                                                                                \
    DIRECT(name, 5)                                                                                \
    DIRECT(name, 6)                                                                                \
    storage tile_direct *const direct_##name##_avx2[] = { NULL,                                    \
                                                          direct_##name##_1,                       \
                                                          direct_##name##_2,                       \
                                                          direct_##name##_3,                       \
                                                          direct_##name##_4,                       \
                                                          direct_##name##_5,                       \
                                                          direct_##name##_6,                       \
                                                          __VA_ARGS__ };

/* The compiler must not reorder integer sums into trees: it would spill most of them. */
#define KEEP_ORDER(v) __asm__("" : "+x"(v))

ATTR_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

ATTR_INLINE __m128i load128(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

/* Four bytes in every lane. */
ATTR_INLINE __m256i splat32(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

ATTR_INLINE __m256 splat_f32(const void *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_ps(v);
}

/* 16 bytes at p and at q, in the low and high half: a load and a blend, where an insert has one
 * port. */
ATTR_INLINE __m256i load_halves(const uint8_t *p, const uint8_t *q)
{
    __m256i high = _mm256_broadcastsi128_si256(load128(q));
    return _mm256_blend_epi32(_mm256_castsi128_si256(load128(p)), high, 0xf0);
}

/* 16 bytes of each of 8 rows -> o[i]: bytes 4 i .. 4 i + 3, one row a lane. Rows 4..7 sit in the
 * upper halves, so no shuffle crosses the middle. */
ATTR_INLINE void transpose16(const uint8_t *p, size_t stride, __m256i o[4])
{
    const uint8_t *p4 = p + 4 * stride;
    __m256i a = load_halves(p, p4), b = load_halves(p + stride, p4 + stride);
    __m256i c = load_halves(p + 2 * stride, p4 + 2 * stride),
            d = load_halves(p + 3 * stride, p4 + 3 * stride);
    __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    o[0] = _mm256_unpacklo_epi64(ab, cd);
    o[1] = _mm256_unpackhi_epi64(ab, cd);
    ab = _mm256_unpackhi_epi32(a, b);
    cd = _mm256_unpackhi_epi32(c, d);
    o[2] = _mm256_unpacklo_epi64(ab, cd);
    o[3] = _mm256_unpackhi_epi64(ab, cd);
}

/* 32-bit word at p of each of 8 rows: broadcasts and blends use the ports that have room. */
ATTR_INLINE __m256i load_u32_rows(const uint8_t *p, size_t stride)
{
    const uint8_t *p4 = p + 4 * stride;
    __m256i a = _mm256_blend_epi32(splat32(p), splat32(p + stride), 0x02);
    __m256i b = _mm256_blend_epi32(splat32(p + 2 * stride), splat32(p + 3 * stride), 0x08);
    __m256i c = _mm256_blend_epi32(splat32(p4), splat32(p4 + stride), 0x20);
    __m256i d = _mm256_blend_epi32(splat32(p4 + 2 * stride), splat32(p4 + 3 * stride), 0x80);
    return _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x0c), _mm256_blend_epi32(c, d, 0xc0), 0xf0);
}

/* Lanes below 2^16, as f16 -> floats. */
ATTR_INLINE __m256 lanes_to_f32(__m256i v)
{
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* f16 at p of each of 8 rows, as floats: two bytes more are read, behind it or before it. */
ATTR_INLINE __m256 load_f16_rows(const uint8_t *p, size_t stride)
{
    return lanes_to_f32(_mm256_and_si256(load_u32_rows(p, stride), _mm256_set1_epi32(0xffff)));
}

ATTR_INLINE __m256 load_f16_rows_at_end(const uint8_t *p, size_t stride)
{
    return lanes_to_f32(_mm256_srli_epi32(load_u32_rows(p - 2, stride), 16));
}

/* Lanes hold two f16, low and high -> two vectors of floats. */
ATTR_INLINE void split_f16_pairs(__m256i pairs, __m256 *low, __m256 *high)
{
    __m256i halves = _mm256_packus_epi32(_mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)),
                                         _mm256_srli_epi32(pairs, 16));
    halves = _mm256_permute4x64_epi64(halves, 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}

ATTR_INLINE __m256i low_nibbles(__m256i v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

ATTR_INLINE __m256i high_nibbles(__m256i v)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}

/* Codes of IQ4, of the table indices in the bytes of index. */
ATTR_INLINE __m256i iq4_codes(__m256i index)
{
    const __m128i table =
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}

/* What distinguishes the micro-kernels; always a compile-time constant. */
enum tile_centre { CENTRE_NONE, CENTRE_4, CENTRE_8, CENTRE_16, CENTRE_32 };

struct tile_shape {
    int depth;               /* multiply-adds of one 16-bit sum: 4 or 8 (16 or 32 weights) */
    bool wide;               /* signed codes of 8 bits: no 16-bit sums, depth is not used */
    bool split;              /* those, stored split */
    enum tile_centre centre; /* start of the sum */
    int scale_depth;         /* 256: multiply-adds that share a scale, 4 or 8 */
    bool narrow;             /* 8 rows: the second vector is not there */
    int mins;                /* 256: pairs of sums of the second term, 0 none; 32: 1 = has m */
};

/* The activation group of column c. */
ATTR_INLINE const struct act_q8_256 *group256(const uint8_t *x, size_t x_stride, int c)
{
    return (const struct act_q8_256 *)(const void *)(x + (size_t)c * x_stride);
}

ATTR_INLINE const struct act_q8_32 *group32(const uint8_t *x, size_t x_stride, int c)
{
    return (const struct act_q8_32 *)(const void *)(x + (size_t)c * x_stride);
}

/* Start of the 16-bit sums of 16 activations of a 256-group. */
ATTR_INLINE void start256(__m256i s16[2], const struct act_q8_256 *x, int j,
                          const struct tile_shape s)
{
    __m256i centre = splat32(x->centre32[j]);
    s16[0] = s16[1] = s.centre == CENTRE_4 ? _mm256_srai_epi16(centre, 3) : centre;
}

/* 16-bit sums over s.depth multiply-adds of n columns; s16 holds their start if there is a
 * centre. */
ATTR_INLINE void sums16(__m256i s16[TILE_COLS][2], const __m256i (*q)[2], const int8_t *y,
                        size_t y_stride, const int n, const struct tile_shape s)
{
    ATTR_UNROLL
    for (int i = 0; i < s.depth; i++) {
        __m256i q0 = q[i][0], q1 = q[i][1];
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            __m256i b = splat32(y + (size_t)c * y_stride + 4 * i);
            bool first = i == 0 && s.centre == CENTRE_NONE;
            __m256i p0 = _mm256_maddubs_epi16(q0, b);
            s16[c][0] = first ? p0 : _mm256_add_epi16(s16[c][0], p0);
            KEEP_ORDER(s16[c][0]);
            if (s.narrow)
                continue;
            __m256i p1 = _mm256_maddubs_epi16(q1, b);
            s16[c][1] = first ? p1 : _mm256_add_epi16(s16[c][1], p1);
            KEEP_ORDER(s16[c][1]);
        }
    }
}

/* Stores 32 codes of 8 rows as they are. */
ATTR_INLINE void store_codes(__m256i (*q)[2], uint32_t half, const __m256i codes[8])
{
    ATTR_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        q[i][half] = codes[i];
}

/* Stores 32 signed codes of 8 rows, split. Returns 16-bit sums of those below 0. */
ATTR_INLINE __m256i store_split(__m256i (*q)[2], __m256i (*below)[2], uint32_t half,
                                const __m256i codes[8])
{
    __m256i sum = _mm256_setzero_si256();
    ATTR_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        __m256i size = _mm256_abs_epi8(codes[i]);
        __m256i mask = _mm256_cmpgt_epi8(_mm256_setzero_si256(), codes[i]);
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(size, mask));
        q[i][half] = size;
        below[i][half] = mask;
    }
    return sum;
}

/* Adds to dot the sums of 32 weights of n columns, signed codes of 8 bits, times scale (int16 twice
 * in each lane). below: of codes that are stored split. */
ATTR_INLINE void sums_wide(__m256i dot[TILE_COLS][2], const __m256i (*q)[2],
                           const __m256i (*below)[2], const int8_t *y, size_t y_stride,
                           const __m256i scale[2], const int n, const struct tile_shape s)
{
    const uint32_t vectors = s.narrow ? 1 : 2;
    ATTR_UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i size[2], turn[2];
        ATTR_UNROLL
        for (uint32_t v = 0; v < vectors; v++) {
            size[v] = s.split ? q[i][v] : _mm256_abs_epi8(q[i][v]);
            turn[v] = s.split ? below[i][v] : q[i][v];
            KEEP_ORDER(size[v]); /* in registers, too */
            KEEP_ORDER(turn[v]);
        }
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            __m256i b = splat32(y + (size_t)c * y_stride + 4 * i);
            ATTR_UNROLL
            for (uint32_t v = 0; v < vectors; v++) {
                __m256i to = s.split ? _mm256_xor_si256(b, turn[v]) : _mm256_sign_epi8(b, turn[v]);
                __m256i p = _mm256_maddubs_epi16(size[v], to);
                dot[c][v] = _mm256_add_epi32(dot[c][v], _mm256_madd_epi16(p, scale[v]));
                KEEP_ORDER(dot[c][v]);
            }
        }
    }
}

ATTR_INLINE void prefetch_part(const uint8_t *next, uint32_t step, const int lines)
{
    if (next == NULL)
        return;
    ATTR_UNROLL
    for (int i = 0; i < lines; i++)
        _mm_prefetch((const char *)next + ((size_t)step * (size_t)lines + (size_t)i) * 64,
                     _MM_HINT_T1);
}

/* Asks for the bytes that 8 streams will reach after PREFETCH_AHEAD more: those that belong to
 * [at, at + bytes) of each. It is the order of the lines that counts: it leads the processor's own
 * prefetcher, which the order in which a block is unpacked would mislead. */
ATTR_INLINE void prefetch_streams(const uint8_t *src, size_t stride, size_t at, size_t bytes)
{
    size_t line = (at + PREFETCH_AHEAD + 63) / 64 * 64;
    for (; line < at + PREFETCH_AHEAD + bytes; line += 64)
        ATTR_UNROLL
    for (uint32_t r = 0; r < TILE_HALF; r++)
        _mm_prefetch((const char *)src + r * stride + line, _MM_HINT_T1);
}

/* Parts of a 256-weight tile that belong to one pair of vectors. */
struct part256 {
    const __m256i (*q)[2];
    const __m256i (*below)[2], *start; /* of split codes, as in struct part32 */
    const __m256i (*scale)[2];         /* int16 twice in each lane, by 16 or 32 weights */
    const __m256i (*min)[2];           /* int16 pairs, as the sums lie in memory */
    const __m256 *d, *dmin;            /* [2] */
};

/* The float step of one block of 256 weights and one column: the chains of the 8 rows of
 * vector v. */
ATTR_INLINE void chain256(const struct part256 p, const uint32_t v, __m256i dot,
                          const struct act_q8_256 *g, float *acc, const struct tile_shape s)
{
    const int16_t *sums = s.mins == 8 ? g->sum16 : g->sum32;
    __m256 chain = _mm256_load_ps(acc), i = _mm256_cvtepi32_ps(dot), a = _mm256_set1_ps(g->d);
    if (s.mins == 0) {
        _mm256_store_ps(acc, _mm256_fmadd_ps(_mm256_mul_ps(p.d[v], a), i, chain));
        return;
    }
    __m256i m = _mm256_setzero_si256();
    ATTR_UNROLL
    for (int k = 0; k < s.mins; k++)
        m = _mm256_add_epi32(m, _mm256_madd_epi16(p.min[k][v], splat32(&sums[2 * k])));
    __m256 low = _mm256_mul_ps(p.dmin[v], _mm256_cvtepi32_ps(m));
    _mm256_store_ps(acc, _mm256_fmadd_ps(a, _mm256_fmsub_ps(p.d[v], i, low), chain));
}

/* One block of 256 weights times n columns. */
ATTR_INLINE void micro256(const struct part256 p, const uint8_t *x, size_t x_stride,
                          const uint8_t *next, const int lines, float *acc, const int n,
                          const struct tile_shape s)
{
    __m256i dot[TILE_COLS][2];
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        dot[c][0] = s.split ? p.start[0] : _mm256_setzero_si256();
        dot[c][1] = s.split ? p.start[1] : _mm256_setzero_si256();
    }
    const int8_t *y = (const int8_t *)x;
    const int centred = s.centre == CENTRE_NONE ? 0 : n;
    for (int j = 0; s.wide && j < 8; j++) {
        prefetch_part(next, (uint32_t)j, lines);
        sums_wide(dot, &p.q[8 * j], &p.below[8 * j], y + 32 * j, x_stride, p.scale[j], n, s);
    }
    for (int j = 0; !s.wide && j < 64 / s.depth; j++) {
        __m256i s16[TILE_COLS][2];
        if (s.depth == 8 || j % 2 == 0)
            prefetch_part(next, (uint32_t)(j * s.depth / 8), lines);
        ATTR_UNROLL
        for (int c = 0; c < centred; c++)
            start256(s16[c], group256(x, x_stride, c), j, s);
        sums16(s16, &p.q[j * s.depth], y + 4 * j * s.depth, x_stride, n, s);
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            const __m256i *scale = p.scale[j * s.depth / s.scale_depth];
            dot[c][0] = _mm256_add_epi32(dot[c][0], _mm256_madd_epi16(s16[c][0], scale[0]));
            if (!s.narrow)
                dot[c][1] = _mm256_add_epi32(dot[c][1], _mm256_madd_epi16(s16[c][1], scale[1]));
        }
    }
    const uint32_t vectors = s.narrow ? 1 : 2;
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        ATTR_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            chain256(p, v, dot[c][v], group256(x, x_stride, c), acc + c * TILE_ROWS + v * TILE_HALF,
                     s);
    }
}

/* One block of 32 weights. */
struct part32 {
    const __m256i (*q)[2];             /* [8] */
    const __m256i (*below)[2], *start; /* of split codes: [8], and what their sums start at, [2] */
    const __m256 *d, *m;               /* [2] */
};

/* The float step of one block and one column, 8 rows. */
ATTR_INLINE __m256 chain32(__m256i dot, __m256 d, const __m256 *m, const struct act_q8_32 *g,
                           __m256 chain, const struct tile_shape s)
{
    __m256 i = _mm256_cvtepi32_ps(dot), a = splat_f32(&g->d);
    if (s.mins == 0)
        return _mm256_fmadd_ps(_mm256_mul_ps(d, a), i, chain);
    __m256 value = _mm256_fmadd_ps(d, i, _mm256_mul_ps(*m, splat_f32(&g->sum)));
    return _mm256_fmadd_ps(a, value, chain);
}

/* The 16-bit sums of one block, n columns, and what they add up to. */
ATTR_INLINE void sums_block(__m256i dot[TILE_COLS][2], const struct part32 p, const uint8_t *x,
                            size_t x_stride, const int n, const struct tile_shape s)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const int centred = s.centre == CENTRE_NONE ? 0 : n;
    __m256i s16[TILE_COLS][2];
    ATTR_UNROLL
    for (int j = 0; j * s.depth < 8; j++) {
        ATTR_UNROLL
        for (int c = 0; c < centred; c++) {
            __m256i start = splat32(group32(x, x_stride, c)->centre8);
            s16[c][1] = s16[c][0] = s.centre == CENTRE_16 ? _mm256_add_epi16(start, start) : start;
        }
        sums16(s16, p.q + j * s.depth, (const int8_t *)x + 4 * j * s.depth, x_stride, n, s);
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            __m256i d0 = _mm256_madd_epi16(s16[c][0], ones);
            dot[c][0] = j == 0 ? d0 : _mm256_add_epi32(dot[c][0], d0);
            if (s.narrow)
                continue;
            __m256i d1 = _mm256_madd_epi16(s16[c][1], ones);
            dot[c][1] = j == 0 ? d1 : _mm256_add_epi32(dot[c][1], d1);
        }
    }
}

/* One block of 32 weights times n columns. */
ATTR_INLINE void micro32(const struct part32 p, const uint8_t *x, size_t x_stride, float *acc,
                         const int n, const struct tile_shape s)
{
    __m256i dot[TILE_COLS][2];
    if (s.wide) {
        const __m256i ones[2] = { _mm256_set1_epi16(1), _mm256_set1_epi16(1) };
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            dot[c][0] = s.split ? p.start[0] : _mm256_setzero_si256();
            dot[c][1] = s.split ? p.start[1] : _mm256_setzero_si256();
        }
        sums_wide(dot, p.q, p.below, (const int8_t *)x, x_stride, ones, n, s);
    } else {
        sums_block(dot, p, x, x_stride, n, s);
    }
    const int vectors = s.narrow ? 1 : 2;
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        const struct act_q8_32 *g = group32(x, x_stride, c);
        float *out = acc + c * TILE_ROWS;
        ATTR_UNROLL
        for (int v = 0; v < vectors; v++)
            _mm256_store_ps(out + v * TILE_HALF,
                            chain32(dot[c][v], p.d[v], s.mins != 0 ? &p.m[v] : NULL, g,
                                    _mm256_load_ps(out + v * TILE_HALF), s));
    }
}

/* The functions and the table of a format, for a file that has BLOCKS (of a chunk), ELEMS (of a
 * block), ACT_BYTES (that belong to it), unpack_##name and MICRO(name, prefix, n, lines, shape),
 * the micro-kernel of n columns; lines: of the next row group, for each of PREFETCH_STEPS. */
#define LINES(bytes) ((BLOCKS * (bytes)*TILE_ROWS / 64 + PREFETCH_STEPS - 1) / PREFETCH_STEPS)
#define MICROS(name, bytes, ...)                                                                   \
    MICRO(name, micro, 1, LINES(bytes), __VA_ARGS__)                                               \
    MICRO(name, micro, 2, LINES(bytes), __VA_ARGS__)                                               \
    MICRO(name, micro, 3, LINES(bytes), __VA_ARGS__)                                               \
    MICRO(name, micro, 4, LINES(bytes), __VA_ARGS__)
#define MICROS_NARROW(name, ...)                                                                   \
    MICRO(name, narrow, 1, 0, .narrow = true, __VA_ARGS__)                                         \
    MICRO(name, narrow, 2, 0, .narrow = true, __VA_ARGS__)
#define TILE(name, bytes, ...)                                                                     \
    static const struct tile_format tile_##name = {                                                \
        .block_elems = ELEMS,                                                                      \
        .block_bytes = bytes,                                                                      \
        .chunk_blocks = BLOCKS,                                                                    \
        .act_bytes = ACT_BYTES,                                                                    \
        .unpack = unpack_##name,                                                                   \
        .micro = { NULL, micro_##name##_1, micro_##name##_2, micro_##name##_3, micro_##name##_4 }, \
        __VA_ARGS__,                                                                               \
    };
#define RUN(name)                                                                                  \
    static void run_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)           \
    {                                                                                              \
        tile_run_avx2(m, row_begin, row_end, &tile_##name);                                        \
    }
/* A format whose few columns take the first half of a tile. */
#define FEW_NARROW(name) .narrow_cols = 2, .narrow = { NULL, narrow_##name##_1, narrow_##name##_2 }
#define FORMAT(name, bytes, ...)                                                                   \
    MICROS(name, bytes, __VA_ARGS__)                                                               \
    MICROS_NARROW(name, __VA_ARGS__)                                                               \
    TILE(name, bytes, FEW_NARROW(name))                                                            \
    RUN(name)
/* One whose first max columns need none. */
#define FORMAT_DIRECT(name, bytes, max, ...)                                                       \
    MICROS(name, bytes, __VA_ARGS__)                                                               \
    TILE(name, bytes, .narrow_cols = max, .direct = direct_##name##_avx2)                          \
    RUN(name)
/* Signed codes, over unpack_signed_##name: stored split for many columns. */
#define UNPACK_SIGNED(name, suffix, split)                                                         \
    static void unpack_##name##suffix(void *tile, uint32_t half, const uint8_t *src,               \
                                      size_t stride, uint32_t count)                               \
    {                                                                                              \
        unpack_signed_##name(tile, half, src, stride, count, split);                               \
    }
#define FORMAT_SIGNED(name, bytes)                                                                 \
    UNPACK_SIGNED(name, , false)                                                                   \
    UNPACK_SIGNED(name, _many, true)                                                               \
    MICROS(name, bytes, .wide = true)                                                              \
    MICROS(name##_many, bytes, .wide = true, .split = true)                                        \
    MICROS_NARROW(name, .wide = true)                                                              \
    TILE(name##_many, bytes, .many = NULL)                                                         \
    TILE(name, bytes, FEW_NARROW(name), .many = &tile_##name##_many)                               \
    RUN(name)

#endif
