/* SPDX-License-Identifier: MIT */
/* matmul_few_avx2 - few columns times 8 rows, formats of 32-weight blocks, without a tile: what is
 * used by few columns need not be stored. The same exact integers and the same chains, lanes are
 * rows again.
 *   Q4_0, Q4_1  unpacked as for a tile, multiplied in the registers. Four blocks of Q4_1 are 80
 *               bytes, five times 16: their scales come out of the same transposition
 *   Q8_0        abs(code) times the activation with the code's sign (128 * 127 twice is 32512, and
 *               activations are never -128, so nothing saturates or wraps); 1 and 2 columns along
 *               the row, lanes of a block added and turned so that they are rows before the float
 *               step
 * 8 long streams are read faster than 16 neighbouring rows: without a tile, 6 columns are 1.03
 * (Q4_0, Q4_K) and 1.13 (Q8_0) times as fast as with one, 8 are 1.01, 0.88 and 1.08 times. */
#include "kernels/x86/tile_avx2.h"

/* Sums of n columns over a block of codes, given as the nibbles of 4 vectors, on top of sum. */
ATTR_INLINE void add_nibbles(__m256i *sum, const __m256i w[4], const uint8_t *x, size_t x_stride,
                             const int n)
{
    const int8_t *y = (const int8_t *)x;
    ATTR_UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i low = low_nibbles(w[i]), high = high_nibbles(w[i]);
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            const int8_t *at = y + (size_t)c * x_stride + 4 * i;
            __m256i p = _mm256_maddubs_epi16(low, splat32(at));
            __m256i q = _mm256_maddubs_epi16(high, splat32(at + 16));
            sum[c] = _mm256_add_epi16(sum[c], _mm256_add_epi16(p, q));
            KEEP_ORDER(sum[c]);
        }
    }
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        sum[c] = _mm256_madd_epi16(sum[c], _mm256_set1_epi16(1));
}

ATTR_INLINE void load_chains(__m256 *chain, const float *acc, const int n)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        chain[c] = _mm256_load_ps(acc + c * TILE_ROWS);
}

ATTR_INLINE void store_chains(float *acc, const __m256 *chain, const int n)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        _mm256_store_ps(acc + c * TILE_ROWS, chain[c]);
}

ATTR_INLINE void direct_q4_0(const uint8_t *src, size_t stride, uint32_t blocks, const uint8_t *x,
                             size_t x_stride, float *acc, const int n)
{
    __m256 chain[DIRECT_COLS];
    load_chains(chain, acc, n);
    for (uint32_t b = 0; b < blocks; b++, src += 18, x += sizeof(struct act_q8_32)) {
        __m256i w[4], sum[DIRECT_COLS];
        if (b % 4 == 0)
            prefetch_streams(src, stride, 0, 72);
        transpose16(src + 2, stride, w);
        ATTR_UNROLL
        for (int c = 0; c < n; c++)
            sum[c] = splat32(group32(x, x_stride, c)->centre8);
        add_nibbles(sum, w, x, x_stride, n);
        __m256 d = load_f16_rows(src, stride);
        ATTR_UNROLL
        for (int c = 0; c < n; c++)
            chain[c] = chain32(sum[c], d, NULL, group32(x, x_stride, c), chain[c],
                               (struct tile_shape){ .mins = 0 });
    }
    store_chains(acc, chain, n);
}

/* One block of Q4_1: pairs are its d and m, w its nibbles. */
ATTR_INLINE void add_q4_1(__m256 *chain, __m256i pairs, const __m256i w[4], const uint8_t *x,
                          size_t x_stride, const int n)
{
    __m256 d, m;
    __m256i sum[DIRECT_COLS];
    split_f16_pairs(pairs, &d, &m);
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        sum[c] = _mm256_setzero_si256();
    add_nibbles(sum, w, x, x_stride, n);
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        chain[c] = chain32(sum[c], d, &m, group32(x, x_stride, c), chain[c],
                           (struct tile_shape){ .mins = 1 });
}

ATTR_INLINE void direct_q4_1(const uint8_t *src, size_t stride, uint32_t blocks, const uint8_t *x,
                             size_t x_stride, float *acc, const int n)
{
    __m256 chain[DIRECT_COLS];
    load_chains(chain, acc, n);
    for (; blocks >= 4; blocks -= 4, src += 80) {
        __m256i w[20]; /* words 5 i: scales of block i; behind it, its nibbles */
        prefetch_streams(src, stride, 0, 80);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 5; i++)
            transpose16(src + 16 * i, stride, w + 4 * i);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++, x += sizeof(struct act_q8_32))
            add_q4_1(chain, w[5 * i], w + 5 * i + 1, x, x_stride, n);
    }
    for (; blocks > 0; blocks--, src += 20, x += sizeof(struct act_q8_32)) {
        __m256i w[4];
        transpose16(src + 4, stride, w);
        add_q4_1(chain, load_u32_rows(src, stride), w, x, x_stride, n);
    }
    store_chains(acc, chain, n);
}

/* Lane i: the sum of the lanes of v[i]. */
ATTR_INLINE __m256i sum_each(const __m256i v[8])
{
    __m256i pair[4], four[2];
    ATTR_UNROLL
    for (int i = 0; i < 4; i++)
        pair[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                   _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    ATTR_UNROLL
    for (int i = 0; i < 2; i++)
        four[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]),
                                   _mm256_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

ATTR_INLINE void direct_q8_0_sums(const uint8_t *src, size_t stride, uint32_t blocks,
                                  const uint8_t *x, size_t x_stride, float *acc, const int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 chain[DIRECT_COLS];
    load_chains(chain, acc, n);
    for (uint32_t b = 0; b < blocks; b++, src += 34, x += sizeof(struct act_q8_32)) {
        if (b % 2 == 0)
            prefetch_streams(src, stride, 0, 68);
        __m256 d = load_f16_rows(src, stride);
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            __m256i y = load256(group32(x, x_stride, c)->q), v[8];
            ATTR_UNROLL
            for (uint32_t r = 0; r < 8; r++) {
                __m256i w = load256(src + r * stride + 2);
                v[r] = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(y, w));
                v[r] = _mm256_madd_epi16(v[r], ones);
            }
            chain[c] = chain32(sum_each(v), d, NULL, group32(x, x_stride, c), chain[c],
                               (struct tile_shape){ .mins = 0 });
        }
    }
    store_chains(acc, chain, n);
}

/* The same with lanes that are rows from the start: the transposition is paid once, the turning of
 * sums for each column. */
ATTR_INLINE void direct_q8_0_rows(const uint8_t *src, size_t stride, uint32_t blocks,
                                  const uint8_t *x, size_t x_stride, float *acc, const int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 chain[DIRECT_COLS];
    load_chains(chain, acc, n);
    for (uint32_t b = 0; b < blocks; b++, src += 34, x += sizeof(struct act_q8_32)) {
        __m256i w[4], dot[DIRECT_COLS];
        if (b % 2 == 0)
            prefetch_streams(src, stride, 0, 68);
        ATTR_UNROLL
        for (int c = 0; c < n; c++)
            dot[c] = _mm256_setzero_si256();
        ATTR_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (i % 4 == 0)
                transpose16(src + 2 + 4 * i, stride, w);
            __m256i code = w[i % 4], size = _mm256_abs_epi8(code);
            ATTR_UNROLL
            for (int c = 0; c < n; c++) {
                __m256i y = splat32(group32(x, x_stride, c)->q + 4 * i);
                __m256i p = _mm256_maddubs_epi16(size, _mm256_sign_epi8(y, code));
                dot[c] = _mm256_add_epi32(dot[c], _mm256_madd_epi16(p, ones));
                KEEP_ORDER(dot[c]);
            }
        }
        __m256 d = load_f16_rows(src, stride);
        ATTR_UNROLL
        for (int c = 0; c < n; c++)
            chain[c] = chain32(dot[c], d, NULL, group32(x, x_stride, c), chain[c],
                               (struct tile_shape){ .mins = 0 });
    }
    store_chains(acc, chain, n);
}

ATTR_INLINE void direct_q8_0(const uint8_t *src, size_t stride, uint32_t blocks, const uint8_t *x,
                             size_t x_stride, float *acc, const int n)
{
    if (n <= 2)
        direct_q8_0_sums(src, stride, blocks, x, x_stride, acc, n);
    else
        direct_q8_0_rows(src, stride, blocks, x, x_stride, acc, n);
}

DIRECTS(q4_0, , NULL)
DIRECTS(q4_1, , NULL)
DIRECT(q8_0, 7)
DIRECT(q8_0, 8)
DIRECTS(q8_0, , direct_q8_0_7, direct_q8_0_8)
