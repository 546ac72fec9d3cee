/* SPDX-License-Identifier: MIT */
/* attn_avx2 - one tile of keys or values times some query columns, by cache type: the parts that
 * attn_avx2.c walks a split with.
 *   columns  1 .. 4 or 6 at once, as attn_group_avx2 cuts them
 *   next     the tile that is read after this one: prefetched line by line
 *   thread   any, no state */
#ifndef QUIRE_KERNELS_X86_ATTN_AVX2_H
#define QUIRE_KERNELS_X86_ATTN_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "kernels/attn.h"

struct attn_next {
    const uint8_t *at;
    uint32_t lines; /* of 64 bytes, still to be asked for */
};

struct attn_keys_avx2 {
    /* The query of (row, head), scaled, in the form that scores takes: at most (head_dim +
     * ATTN_Q_PAD) floats. */
    void (*pack)(const struct attn *a, const struct attn_row *row, uint32_t head, float *dst);
    /* p[h * KV_SPLIT_TOKENS + token] of a tile's 32 tokens; q: stride floats a column. */
    void (*scores)(const uint8_t *tile, struct attn_next next, const float *q, size_t stride,
                   uint32_t head_dim, float *p, uint32_t h_count);
};

/* o[h * head_dim + d] += the first n values of a tile, times p[h * KV_SPLIT_TOKENS + token]. */
typedef void attn_values_fn(const uint8_t *tile, struct attn_next next, uint32_t n,
                            uint32_t head_dim, const float *p, float *o, uint32_t h_count);

extern const struct attn_keys_avx2 attn_keys_q8_avx2, attn_keys_q4_avx2;
attn_values_fn attn_values_q8_avx2, attn_values_q4_avx2;

/* Columns in the next group of cols. */
ATTR_INLINE uint32_t attn_group_avx2(uint32_t cols)
{
    static const uint8_t size[] = { 0, 1, 2, 3, 4, 3, 6, 4, 4, 6 };
    return cols < sizeof size ? size[cols] : 6;
}

ATTR_INLINE void attn_prefetch_avx2(struct attn_next *next)
{
    if (next->lines == 0)
        return;
    _mm_prefetch((const char *)next->at, _MM_HINT_T0);
    next->at += 64;
    next->lines--;
}

ATTR_INLINE __m256 half8_avx2(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

#endif
