/* SPDX-License-Identifier: MIT */
/* attn_avx2 - attention with AVX2, FMA and F16C; bit for bit kernels/ref/attn_ref.c.
 *
 *   scores  lanes are keys: a block's keys lie [head_dim][32 tokens], so one load gives a dimension
 *           of eight keys, and each (query column, eight keys) is one register, one fma chain
 *   values  lanes are dimensions: values lie [32 tokens][head_dim], each (column, eight dimensions)
 *           is one chain over the keys
 *
 * Both run over H columns at once by V vectors: H * V chains, 8 to 12 of them, hide the latency of
 * an fma, and each load serves H columns. Columns are cut into groups of 6, 4, 3, 2 and 1. All
 * scores of a split come first, then its values: two long streams instead of a short one each
 * block. Rows of one task differ in how many keys of the last blocks they see. Scores of keys that
 * a row does not see are computed and replaced by -inf (they may be anything, NaN too); values are
 * summed over exactly the keys seen: rows that see all of a block together, the others row by row.
 * While a block is read, the following one is prefetched line by line. */
#include <math.h>

#include "kernels/attn.h"
#include "kernels/x86/exp_avx2.h"

#define BLOCK KV_BLOCK_TOKENS
#define SPLIT KV_SPLIT_TOKENS

ATTR_INLINE __m256 half8(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static const uint16_t *keys_at(const struct attn *a, uint32_t block)
{
    return (const uint16_t *)(const void *)(a->kv + a->blocks[block] * a->block_bytes);
}

static const uint16_t *values_at(const struct attn *a, uint32_t block)
{
    return keys_at(a, block) + (size_t)BLOCK * a->head_dim;
}

/* Columns in the next group. */
static uint32_t group_size(uint32_t cols)
{
    static const uint8_t size[] = { 0, 1, 2, 3, 4, 3, 6, 4, 4, 6 };
    return cols < sizeof size ? size[cols] : 6;
}

/* sum[h][v] += column[h * stride] * half[8 v ..]. Whichever side is the shorter waits in registers:
 * with 12 sums there are four left. */
ATTR_INLINE void outer(__m256 *sum, const uint16_t *half, const float *column, size_t stride,
                       const uint32_t h_count, const uint32_t v_count)
{
    __m256 held[3];
    if (h_count < v_count) {
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++)
            held[h] = _mm256_broadcast_ss(column + h * stride);
        ATTR_UNROLL
        for (uint32_t v = 0; v < v_count; v++) {
            __m256 x = half8(half + 8 * v);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++)
                sum[h * v_count + v] = _mm256_fmadd_ps(held[h], x, sum[h * v_count + v]);
        }
    } else {
        ATTR_UNROLL
        for (uint32_t v = 0; v < v_count; v++)
            held[v] = half8(half + 8 * v);
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            __m256 x = _mm256_broadcast_ss(column + h * stride);
            ATTR_UNROLL
            for (uint32_t v = 0; v < v_count; v++)
                sum[h * v_count + v] = _mm256_fmadd_ps(x, held[v], sum[h * v_count + v]);
        }
    }
}

/* H scores of a block's 32 keys. q [head_dim][H]; p [H][SPLIT]. */
ATTR_INLINE void scores_tile(const uint16_t *k, const uint16_t *next, const float *q,
                             uint32_t head_dim, float *p, const uint32_t h_count,
                             const uint32_t v_count)
{
    for (uint32_t x = 0; x < BLOCK; x += 8 * v_count) {
        __m256 sum[12];
        ATTR_UNROLL
        for (uint32_t i = 0; i < h_count * v_count; i++)
            sum[i] = _mm256_setzero_ps();
        for (uint32_t d = 0; d < head_dim; d++) {
            if (x == 0)
                _mm_prefetch((const char *)(next + (size_t)d * BLOCK), _MM_HINT_T0);
            outer(sum, k + (size_t)d * BLOCK + x, q + (size_t)d * h_count, 1, h_count, v_count);
        }
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            ATTR_UNROLL
            for (uint32_t v = 0; v < v_count; v++)
                _mm256_storeu_ps(p + (size_t)h * SPLIT + x + 8 * v, sum[h * v_count + v]);
        }
    }
}

static void scores(const uint16_t *k, const uint16_t *next, const float *q, uint32_t head_dim,
                   float *p, uint32_t h_count)
{
    switch (h_count) {
    case 1:
        scores_tile(k, next, q, head_dim, p, 1, 4);
        break;
    case 2:
        scores_tile(k, next, q, head_dim, p, 2, 4);
        break;
    case 3:
        scores_tile(k, next, q, head_dim, p, 3, 4);
        break;
    case 4:
        scores_tile(k, next, q, head_dim, p, 4, 2);
        break;
    default:
        scores_tile(k, next, q, head_dim, p, 6, 2);
        break;
    }
}

/* Adds the weighted values of n keys to 8 * V dimensions of H columns. */
ATTR_INLINE void values_strip(const uint16_t *v, const uint16_t *next, uint32_t n,
                              uint32_t head_dim, const float *p, float *o, const uint32_t h_count,
                              const uint32_t v_count)
{
    __m256 sum[12];
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            sum[h * v_count + i] = _mm256_loadu_ps(o + (size_t)h * head_dim + 8 * i);
    }
    for (uint32_t k = 0; k < n; k++) {
        _mm_prefetch((const char *)(next + (size_t)k * head_dim), _MM_HINT_T0);
        outer(sum, v + (size_t)k * head_dim, p + k, SPLIT, h_count, v_count);
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            _mm256_storeu_ps(o + (size_t)h * head_dim + 8 * i, sum[h * v_count + i]);
    }
}

ATTR_INLINE void values_tile(const uint16_t *v, const uint16_t *next, uint32_t n, uint32_t head_dim,
                             const float *p, float *o, const uint32_t h_count,
                             const uint32_t v_count)
{
    uint32_t d = 0;
    for (; d + 8 * v_count <= head_dim; d += 8 * v_count)
        values_strip(v + d, next + d, n, head_dim, p, o + d, h_count, v_count);
    for (; d < head_dim; d += 8)
        values_strip(v + d, next + d, n, head_dim, p, o + d, h_count, 1);
}

static void values(const uint16_t *v, const uint16_t *next, uint32_t n, uint32_t head_dim,
                   const float *p, float *o, uint32_t h_count)
{
    switch (h_count) {
    case 1:
        values_tile(v, next, n, head_dim, p, o, 1, 4);
        break;
    case 2:
        values_tile(v, next, n, head_dim, p, o, 2, 4);
        break;
    case 3:
        values_tile(v, next, n, head_dim, p, o, 3, 4);
        break;
    case 4:
        values_tile(v, next, n, head_dim, p, o, 4, 2);
        break;
    default:
        values_tile(v, next, n, head_dim, p, o, 6, 2);
        break;
    }
}

/* p = exp(p - max) over n scores; the padding up to 16 becomes 0. */
static void weigh(float *p, uint32_t n, float *max, float *sum)
{
    uint32_t padded = (n + 15) / 16 * 16;
    for (uint32_t k = n; k < padded; k++)
        p[k] = -INFINITY;
    __m256 m = _mm256_set1_ps(-INFINITY), low = _mm256_setzero_ps(), high = low;
    for (uint32_t k = 0; k < padded; k += 8)
        m = _mm256_max_ps(_mm256_loadu_ps(p + k), m); /* in this order NaN is ignored */
    *max = max_avx2(m);
    m = _mm256_set1_ps(*max);
    for (uint32_t k = 0; k < padded; k += 16) {
        __m256 a = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(p + k), m));
        __m256 b = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(p + k + 8), m));
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
        _mm256_storeu_ps(p + k, a);
        _mm256_storeu_ps(p + k + 8, b);
    }
    *sum = sum_avx2(_mm256_add_ps(low, high));
}

/* Scaled queries of columns [col, cols), group after group, each [head_dim][group]. */
static void pack_queries(const struct attn *a, uint32_t col, uint32_t cols, float *q)
{
    while (col < cols) {
        uint32_t h_count = group_size(cols - col);
        for (uint32_t h = 0; h < h_count; h++, col++) {
            const float *src = a->q + col / a->head_count * a->stride;
            src += (size_t)(col % a->head_count) * a->head_dim;
            for (uint32_t d = 0; d < a->head_dim; d++)
                q[(size_t)d * h_count + h] = src[d] * a->scale;
        }
        q += (size_t)h_count * a->head_dim;
    }
}

/* Adds a block's values to columns [col, cols), which all see n of its keys. p belongs to column 0.
 * */
static void add_values(const struct attn *a, const uint16_t *v, const uint16_t *next, uint32_t n,
                       uint32_t col, uint32_t cols, const float *p, float *o)
{
    while (col < cols) {
        uint32_t h_count = group_size(cols - col);
        values(v, next, n, a->head_dim, p + (size_t)col * SPLIT, o + (size_t)col * a->head_dim,
               h_count);
        col += h_count;
    }
}

/* First row that sees position pos. */
static uint32_t row_of(const struct attn *a, uint32_t pos)
{
    return pos > a->pos_begin ? pos - a->pos_begin : 0;
}

/* Scores of blocks [first, last] for columns from col_begin on. */
static void split_scores(const struct attn *a, uint32_t first, uint32_t last, uint32_t col_begin,
                         const struct attn_work *w)
{
    const uint32_t cols = a->row_count * a->head_count;
    for (uint32_t b = first; b <= last; b++) {
        const uint16_t *next = b < last ? keys_at(a, b + 1) : values_at(a, first);
        const float *q = w->q;
        float *p = w->p + (size_t)(b - first) * BLOCK;
        for (uint32_t col = col_begin; col < cols;) {
            uint32_t h_count = group_size(cols - col);
            scores(keys_at(a, b), next, q, a->head_dim, p + (size_t)col * SPLIT, h_count);
            q += (size_t)h_count * a->head_dim;
            col += h_count;
        }
    }
}

static void split_values(const struct attn *a, uint32_t first, uint32_t last,
                         const struct attn_work *w, float *o)
{
    for (uint32_t b = first; b <= last; b++) {
        const uint16_t *v = values_at(a, b), *next = b < last ? values_at(a, b + 1) : v;
        const float *p = w->p + (size_t)(b - first) * BLOCK;
        uint32_t row = row_of(a, b * BLOCK), whole = row_of(a, b * BLOCK + BLOCK - 1);
        whole = whole < a->row_count ? whole : a->row_count;
        for (; row < whole; row++)
            add_values(a, v, next, a->pos_begin + row + 1 - b * BLOCK, row * a->head_count,
                       (row + 1) * a->head_count, p, o);
        add_values(a, v, next, BLOCK, whole * a->head_count, a->row_count * a->head_count, p, o);
    }
}

static void split_avx2(const struct attn *a, uint32_t split, const struct attn_work *w,
                       const struct attn_part *part)
{
    const uint32_t cols = a->row_count * a->head_count, begin = split * SPLIT;
    const uint32_t left = a->pos_begin + a->row_count - begin, keys = left < SPLIT ? left : SPLIT;
    const uint32_t first = begin / BLOCK, last = first + (keys - 1) / BLOCK;
    const uint32_t col_begin = attn_col_begin(a, split);
    pack_queries(a, col_begin, cols, w->q);
    split_scores(a, first, last, col_begin, w);
    for (uint32_t col = col_begin; col < cols; col++) {
        uint32_t seen = a->pos_begin + col / a->head_count + 1 - begin;
        weigh(w->p + (size_t)col * SPLIT, seen < SPLIT ? seen : SPLIT, &part->max[col],
              &part->sum[col]);
    }
    for (size_t i = (size_t)col_begin * a->head_dim; i < (size_t)cols * a->head_dim; i += 8)
        _mm256_storeu_ps(part->o + i, _mm256_setzero_ps());
    split_values(a, first, last, w, part->o);
}

static void merge_avx2(const struct attn_part *acc, const struct attn_part *right,
                       uint32_t head_dim, uint32_t col_begin, uint32_t col_end)
{
    for (uint32_t c = col_begin; c < col_end; c++) {
        float m1 = acc->max[c], m2 = right->max[c], m = m1 > m2 ? m1 : m2;
        float x = exp_ref(m1 - m), y = exp_ref(m2 - m);
        __m256 scale1 = _mm256_set1_ps(x), scale2 = _mm256_set1_ps(y);
        float *o1 = acc->o + (size_t)c * head_dim;
        const float *o2 = right->o + (size_t)c * head_dim;
        acc->max[c] = m;
        acc->sum[c] = fmaf(acc->sum[c], x, right->sum[c] * y);
        for (uint32_t d = 0; d < head_dim; d += 8) {
            __m256 t = _mm256_mul_ps(_mm256_loadu_ps(o2 + d), scale2);
            _mm256_storeu_ps(o1 + d, _mm256_fmadd_ps(_mm256_loadu_ps(o1 + d), scale1, t));
        }
    }
}

static void store_avx2(float *out, const float *o, float sum, uint32_t head_dim)
{
    __m256 inverse = _mm256_set1_ps(1.0f / sum);
    for (uint32_t d = 0; d < head_dim; d += 8)
        _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_loadu_ps(o + d), inverse));
}

void attn_fill_avx2(struct attn_kernels *k)
{
    k->split = split_avx2;
    k->merge = merge_avx2;
    k->store = store_avx2;
}
