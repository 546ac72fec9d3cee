/* SPDX-License-Identifier: MIT */
/* attn_avx2 - attention with AVX2, FMA and F16C; bit for bit kernels/ref/attn_ref.c. Here: the walk
 * over a split, and tiles of f16; tiles of integers are in attn_q_avx2.c.
 *
 *   scores  lanes are keys: a block's keys lie [head_dim][32 tokens], so one load gives a dimension
 *           of eight keys, and each (query column, eight keys) is one register, one fma chain
 *   values  lanes are dimensions: values lie [32 tokens][head_dim], each (column, eight dimensions)
 *           is one chain over the keys
 *
 * Both run over H columns at once by V vectors: H * V chains, 8 to 12 of them, hide the latency of
 * an fma, and each load serves H columns. Columns are cut into groups of 6, 4, 3, 2 and 1, inside
 * runs of rows that hold the same block. All scores of a split come first, then its values: two
 * long streams instead of a short one each block. Rows of one task differ in how many keys of the
 * last blocks they see. Scores of keys that a row does not see are computed and replaced by -inf
 * (they may be anything, NaN too); values are summed over exactly the keys seen: rows that see the
 * same number of keys together. While a tile is read, the following one is prefetched line by line.
 */
#include <math.h>

#include "kernels/x86/attn_avx2.h"
#include "kernels/x86/exp_avx2.h"

#define BLOCK KV_BLOCK_TOKENS
#define SPLIT KV_SPLIT_TOKENS

/* sum[h][v] += column[h * stride] * half[8 v ..]. Whichever side is the shorter waits in registers:
 * with 12 sums there are four left. */
ATTR_INLINE void outer(__m256 *sum, const uint8_t *half, const float *column, size_t stride,
                       const uint32_t h_count, const uint32_t v_count)
{
    __m256 held[3];
    if (h_count < v_count) {
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++)
            held[h] = _mm256_broadcast_ss(column + h * stride);
        ATTR_UNROLL
        for (uint32_t v = 0; v < v_count; v++) {
            __m256 x = half8_avx2(half + 16 * v);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++)
                sum[h * v_count + v] = _mm256_fmadd_ps(held[h], x, sum[h * v_count + v]);
        }
    } else {
        ATTR_UNROLL
        for (uint32_t v = 0; v < v_count; v++)
            held[v] = half8_avx2(half + 16 * v);
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            __m256 x = _mm256_broadcast_ss(column + h * stride);
            ATTR_UNROLL
            for (uint32_t v = 0; v < v_count; v++)
                sum[h * v_count + v] = _mm256_fmadd_ps(x, held[v], sum[h * v_count + v]);
        }
    }
}

/* Scores of a tile, [head_dim][32 tokens], by H columns. */
ATTR_INLINE void scores_tile(const uint8_t *k, struct attn_next next, const float *q, size_t stride,
                             uint32_t head_dim, float *p, const uint32_t h_count,
                             const uint32_t v_count)
{
    for (uint32_t x = 0; x < BLOCK; x += 8 * v_count) {
        __m256 sum[12];
        ATTR_UNROLL
        for (uint32_t i = 0; i < h_count * v_count; i++)
            sum[i] = _mm256_setzero_ps();
        for (uint32_t d = 0; d < head_dim; d++) {
            attn_prefetch_avx2(&next);
            outer(sum, k + 2 * ((size_t)d * BLOCK + x), q + d, stride, h_count, v_count);
        }
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            ATTR_UNROLL
            for (uint32_t v = 0; v < v_count; v++)
                _mm256_storeu_ps(p + (size_t)h * SPLIT + x + 8 * v, sum[h * v_count + v]);
        }
    }
}

static void scores_f16(const uint8_t *tile, struct attn_next next, const float *q, size_t stride,
                       uint32_t head_dim, float *p, uint32_t h_count)
{
    switch (h_count) {
    case 1:
        scores_tile(tile, next, q, stride, head_dim, p, 1, 4);
        break;
    case 2:
        scores_tile(tile, next, q, stride, head_dim, p, 2, 4);
        break;
    case 3:
        scores_tile(tile, next, q, stride, head_dim, p, 3, 4);
        break;
    case 4:
        scores_tile(tile, next, q, stride, head_dim, p, 4, 2);
        break;
    default:
        scores_tile(tile, next, q, stride, head_dim, p, 6, 2);
        break;
    }
}

static void pack_f16(const struct attn *a, const struct attn_row *row, uint32_t head, float *dst)
{
    const float *src = (const float *)row->q + (size_t)head * a->head_dim;
    const __m256 scale = _mm256_set1_ps(a->scale);
    for (uint32_t d = 0; d < a->head_dim; d += 8)
        _mm256_storeu_ps(dst + d, _mm256_mul_ps(_mm256_loadu_ps(src + d), scale));
}

/* Adds the weighted values of n keys to 8 * V dimensions of H columns. */
ATTR_INLINE void values_strip(const uint8_t *v, struct attn_next *next, uint32_t n,
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
        attn_prefetch_avx2(next);
        outer(sum, v + (size_t)k * head_dim * 2, p + k, SPLIT, h_count, v_count);
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            _mm256_storeu_ps(o + (size_t)h * head_dim + 8 * i, sum[h * v_count + i]);
    }
}

ATTR_INLINE void values_tile(const uint8_t *v, struct attn_next next, uint32_t n, uint32_t head_dim,
                             const float *p, float *o, const uint32_t h_count,
                             const uint32_t v_count)
{
    uint32_t d = 0;
    for (; d + 8 * v_count <= head_dim; d += 8 * v_count)
        values_strip(v + 2 * d, &next, n, head_dim, p, o + d, h_count, v_count);
    for (; d < head_dim; d += 8)
        values_strip(v + 2 * d, &next, n, head_dim, p, o + d, h_count, 1);
}

static void values_f16(const uint8_t *tile, struct attn_next next, uint32_t n, uint32_t head_dim,
                       const float *p, float *o, uint32_t h_count)
{
    switch (h_count) {
    case 1:
        values_tile(tile, next, n, head_dim, p, o, 1, 4);
        break;
    case 2:
        values_tile(tile, next, n, head_dim, p, o, 2, 4);
        break;
    case 3:
        values_tile(tile, next, n, head_dim, p, o, 3, 4);
        break;
    case 4:
        values_tile(tile, next, n, head_dim, p, o, 4, 2);
        break;
    default:
        values_tile(tile, next, n, head_dim, p, o, 6, 2);
        break;
    }
}

static const struct attn_keys_avx2 keys_f16 = { pack_f16, scores_f16 };
static const struct attn_keys_avx2 *const keys_of[KV_TYPES] = { &keys_f16, &attn_keys_q8_avx2,
                                                                &attn_keys_q4_avx2 };
static attn_values_fn *const values_of[KV_TYPES] = { values_f16, attn_values_q8_avx2,
                                                     attn_values_q4_avx2 };

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

static const uint8_t *tile_at(const struct attn *a, uint32_t row, uint32_t b, bool values)
{
    return a->kv + a->rows[row].blocks[b] * a->block_bytes + (values ? a->value_offset : 0);
}

/* First row from row on that sees a key of block b; row_count when none does. */
static uint32_t next_row(const struct attn *a, uint32_t row, uint32_t b)
{
    while (row < a->row_count && attn_keys(&a->rows[row], b) == 0)
        row++;
    return row;
}

/* What is read after the tiles of a run that ends at row: the next run of this block, or the first
 * of the following one. */
static struct attn_next next_tile(const struct attn *a, uint32_t row, uint32_t b, uint32_t last,
                                  bool values)
{
    enum kv_type type = values ? a->types.v : a->types.k;
    uint32_t lines = (uint32_t)kv_tile_bytes(type, a->head_dim) / 64;
    row = next_row(a, row, b);
    if (row < a->row_count)
        return (struct attn_next){ tile_at(a, row, b, values), lines };
    if (b == last)
        return (struct attn_next){ NULL, 0 };
    row = next_row(a, 0, b + 1);
    return (struct attn_next){ tile_at(a, row, b + 1, values), lines };
}

/* Scores of blocks [first, last], run by run. */
static void split_scores(const struct attn *a, uint32_t first, uint32_t last,
                         const struct attn_work *w)
{
    const struct attn_keys_avx2 *keys = keys_of[a->types.k];
    const size_t stride = a->head_dim + ATTN_Q_PAD;
    for (uint32_t b = first; b <= last; b++) {
        float *p = w->p + (size_t)(b - first) * BLOCK;
        uint32_t end;
        for (uint32_t r = next_row(a, 0, b); r < a->row_count; r = next_row(a, end, b)) {
            end = attn_run_end(a, r, b);
            struct attn_next next = next_tile(a, end, b, last, false);
            uint32_t col = r * a->head_count, cols = end * a->head_count, h_count;
            for (; col < cols; col += h_count, next.lines = 0) {
                h_count = attn_group_avx2(cols - col);
                keys->scores(tile_at(a, r, b, false), next, w->q + col * stride, stride,
                             a->head_dim, p + (size_t)col * SPLIT, h_count);
            }
        }
    }
}

/* Adds a block's values, which rows [row, end) hold, to each row that sees them: rows that see the
 * same number together. */
static void add_values(const struct attn *a, uint32_t row, uint32_t end, uint32_t b,
                       struct attn_next next, const float *p, float *o)
{
    while (row < end) {
        uint32_t n = attn_keys(&a->rows[row], b), col = row * a->head_count, h_count;
        for (row++; row < end && attn_keys(&a->rows[row], b) == n;)
            row++;
        for (uint32_t cols = row * a->head_count; col < cols; col += h_count, next.lines = 0) {
            h_count = attn_group_avx2(cols - col);
            values_of[a->types.v](tile_at(a, row - 1, b, true), next, n, a->head_dim,
                                  p + (size_t)col * SPLIT, o + (size_t)col * a->head_dim, h_count);
        }
    }
}

static void split_values(const struct attn *a, uint32_t first, uint32_t last,
                         const struct attn_work *w, float *o)
{
    for (uint32_t b = first; b <= last; b++) {
        uint32_t end;
        for (uint32_t r = next_row(a, 0, b); r < a->row_count; r = next_row(a, end, b)) {
            end = attn_run_end(a, r, b);
            add_values(a, r, end, b, next_tile(a, end, b, last, true),
                       w->p + (size_t)(b - first) * BLOCK, o);
        }
    }
}

static void split_avx2(const struct attn *a, uint32_t split, const struct attn_work *w,
                       const struct attn_part *part)
{
    const uint32_t begin = split * SPLIT, first = begin / BLOCK;
    uint32_t last = first;
    for (uint32_t r = 0; r < a->row_count; r++) {
        const struct attn_row *row = &a->rows[r];
        if (row->pos < begin)
            continue;
        uint32_t block = row->pos / BLOCK;
        last = block > last ? block : last;
        for (uint32_t head = 0; head < a->head_count; head++) {
            uint32_t col = r * a->head_count + head;
            keys_of[a->types.k]->pack(a, row, head, w->q + col * (a->head_dim + ATTN_Q_PAD));
        }
    }
    if (last >= first + SPLIT / BLOCK)
        last = first + SPLIT / BLOCK - 1;
    split_scores(a, first, last, w);
    for (uint32_t col = 0; col < a->row_count * a->head_count; col++) {
        uint32_t pos = a->rows[col / a->head_count].pos;
        if (pos < begin)
            continue;
        uint32_t seen = pos - begin + 1;
        weigh(w->p + (size_t)col * SPLIT, seen < SPLIT ? seen : SPLIT, &part->max[col],
              &part->sum[col]);
        float *o = part->o + (size_t)col * a->head_dim;
        for (uint32_t d = 0; d < a->head_dim; d += 8)
            _mm256_storeu_ps(o + d, _mm256_setzero_ps());
    }
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
