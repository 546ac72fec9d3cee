/* SPDX-License-Identifier: MIT */
/* attn_neon - attention with NEON; bit for bit kernels/ref/attn_ref.c: the walk over a split, and
 * the tiles of f16 (those of other cache types: attn_q_neon.c).
 *   scores  lanes are keys: a block's keys lie [head_dim][32 tokens]; each (column, four keys) is
 *           one register, one fma chain over the dimensions
 *   values  lanes are dimensions; each (column, four dimensions) is one chain over the keys
 * Up to four columns share a load: H columns by V vectors are 16 chains. Columns are cut inside
 * runs of rows that hold the same block. Scores of keys that a row does not see may be anything and
 * are replaced; values are summed over exactly the keys seen. */
#include <math.h>
#include <string.h>

#include "kernels/act.h"
#include "kernels/arm/attn_neon.h"
#include "kernels/arm/exp_neon.h"
#include "kernels/vec.h"

#define BLOCK KV_BLOCK_TOKENS
#define SPLIT KV_SPLIT_TOKENS

ATTR_INLINE float32x4_t half4(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* 4 * V keys of a tile, by H columns. */
ATTR_INLINE void scores_strip(const uint8_t *k, const float *q, size_t stride, uint32_t head_dim,
                              float *p, const uint32_t h_count, const uint32_t v_count)
{
    float32x4_t sum[16];
    ATTR_UNROLL
    for (uint32_t i = 0; i < h_count * v_count; i++)
        sum[i] = vdupq_n_f32(0);
    for (uint32_t d = 0; d < head_dim; d++, k += 2 * BLOCK) {
        ATTR_UNROLL
        for (uint32_t v = 0; v < v_count; v++) {
            float32x4_t keys = half4(k + 8 * v);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++)
                sum[h * v_count + v] = vfmaq_n_f32(sum[h * v_count + v], keys, q[h * stride + d]);
        }
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t v = 0; v < v_count; v++)
            vst1q_f32(p + (size_t)h * SPLIT + 4 * v, sum[h * v_count + v]);
    }
}

static void scores_f16(const uint8_t *tile, const float *q, size_t stride, uint32_t head_dim,
                       float *p, uint32_t h_count)
{
    if (h_count == 4) {
        scores_strip(tile, q, stride, head_dim, p, 4, 4);
        scores_strip(tile + BLOCK, q, stride, head_dim, p + BLOCK / 2, 4, 4);
    } else if (h_count == 2) {
        scores_strip(tile, q, stride, head_dim, p, 2, 8);
    } else {
        scores_strip(tile, q, stride, head_dim, p, 1, 8);
    }
}

/* The weighted values of n keys onto 4 * V dimensions of H columns. */
ATTR_INLINE void values_strip(const uint8_t *v, uint32_t n, uint32_t head_dim, const float *p,
                              float *o, const uint32_t h_count, const uint32_t v_count)
{
    float32x4_t sum[16];
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            sum[h * v_count + i] = vld1q_f32(o + (size_t)h * head_dim + 4 * i);
    }
    for (uint32_t k = 0; k < n; k++, v += 2 * (size_t)head_dim) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++) {
            float32x4_t values = half4(v + 8 * i);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++)
                sum[h * v_count + i] = vfmaq_n_f32(sum[h * v_count + i], values, p[h * SPLIT + k]);
        }
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            vst1q_f32(o + (size_t)h * head_dim + 4 * i, sum[h * v_count + i]);
    }
}

ATTR_INLINE void values_tile(const uint8_t *tile, uint32_t n, uint32_t head_dim, const float *p,
                             float *o, const uint32_t h_count)
{
    uint32_t d = 0;
    for (; d + 16 <= head_dim; d += 16)
        values_strip(tile + 2 * d, n, head_dim, p, o + d, h_count, 4);
    for (; d < head_dim; d += 4)
        values_strip(tile + 2 * d, n, head_dim, p, o + d, h_count, 1);
}

static void values_f16(const uint8_t *tile, uint32_t n, uint32_t head_dim, const float *p, float *o,
                       uint32_t h_count)
{
    if (h_count == 4)
        values_tile(tile, n, head_dim, p, o, 4);
    else if (h_count == 2)
        values_tile(tile, n, head_dim, p, o, 2);
    else
        values_tile(tile, n, head_dim, p, o, 1);
}

static attn_scores_neon_fn *const scores_of[KV_TYPES] = { scores_f16, attn_scores_q8_neon,
                                                          attn_scores_q4_neon };
static attn_values_neon_fn *const values_of[KV_TYPES] = { values_f16, attn_values_q8_neon,
                                                          attn_values_q4_neon };

/* Columns in the next group of cols. */
static uint32_t group_size(uint32_t cols)
{
    return cols >= 4 ? 4 : cols >= 2 ? 2 : 1;
}

/* p = exp(p - max) over n scores; the padding up to 16 becomes 0. */
static void weigh(float *p, uint32_t n, float *max, float *sum)
{
    const uint32_t padded = (n + VEC_EXP_LANES - 1) / VEC_EXP_LANES * VEC_EXP_LANES;
    float32x4_t m = vdupq_n_f32(-INFINITY), lane[4];
    float four[4];
    for (uint32_t k = n; k < padded; k++)
        p[k] = -INFINITY;
    for (uint32_t k = 0; k < padded; k += 4)
        m = larger_neon(m, vld1q_f32(p + k));
    vst1q_f32(four, m);
    *max = four[0];
    for (uint32_t i = 1; i < 4; i++)
        *max = four[i] > *max ? four[i] : *max;
    m = vdupq_n_f32(*max);
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        lane[i] = vdupq_n_f32(0);
    for (uint32_t k = 0; k < padded; k += VEC_EXP_LANES) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            float32x4_t e = exp_neon(vsubq_f32(vld1q_f32(p + k + 4 * i), m));
            lane[i] = vaddq_f32(lane[i], e);
            vst1q_f32(p + k + 4 * i, e);
        }
    }
    *sum = sum16_neon(lane);
}

/* First row from row on that sees a key of block b; row_count when none does. */
static uint32_t next_row(const struct attn *a, uint32_t row, uint32_t b)
{
    while (row < a->row_count && attn_keys(&a->rows[row], b) == 0)
        row++;
    return row;
}

/* Block b: scores into p, or, with o, values times p added to o; rows that see the same number of
 * keys of it together. */
static void one_block(const struct attn *a, uint32_t b, const float *q, float *p, float *o)
{
    const size_t stride = a->head_dim + ATTN_Q_PAD;
    uint32_t end;
    for (uint32_t row = next_row(a, 0, b); row < a->row_count; row = next_row(a, end, b)) {
        const uint32_t n = attn_keys(&a->rows[row], b), limit = attn_run_end(a, row, b);
        const uint8_t *tile = a->kv + a->rows[row].blocks[b] * a->block_bytes;
        for (end = row + 1; end < limit && (o == NULL || attn_keys(&a->rows[end], b) == n);)
            end++;
        uint32_t col = row * a->head_count, cols = end * a->head_count, h_count;
        for (; col < cols; col += h_count) {
            h_count = group_size(cols - col);
            if (o == NULL)
                scores_of[a->types.k](tile, q + col * stride, stride, a->head_dim,
                                      p + (size_t)col * SPLIT, h_count);
            else
                values_of[a->types.v](tile + a->value_offset, n, a->head_dim,
                                      p + (size_t)col * SPLIT, o + (size_t)col * a->head_dim,
                                      h_count);
        }
    }
}

/* The query of one column: scaled, or its groups. */
static void pack_query(const struct attn *a, const struct attn_row *row, uint32_t head, float *dst)
{
    if (a->types.k != KV_F16) {
        const size_t groups = a->head_dim / KV_GROUP;
        memcpy(dst, (const struct act_q8_32 *)row->q + head * groups,
               groups * sizeof(struct act_q8_32));
        return;
    }
    const float *src = (const float *)row->q + (size_t)head * a->head_dim;
    for (uint32_t d = 0; d < a->head_dim; d += 4)
        vst1q_f32(dst + d, vmulq_n_f32(vld1q_f32(src + d), a->scale));
}

/* Queries of the rows that see the split, and the last block that any of them sees. */
static uint32_t pack_queries(const struct attn *a, uint32_t begin, float *q)
{
    uint32_t last = begin / BLOCK;
    for (uint32_t col = 0; col < a->row_count * a->head_count; col++) {
        const struct attn_row *row = &a->rows[col / a->head_count];
        if (row->pos < begin)
            continue;
        pack_query(a, row, col % a->head_count, q + col * (a->head_dim + ATTN_Q_PAD));
        last = row->pos / BLOCK > last ? row->pos / BLOCK : last;
    }
    const uint32_t split_last = (begin + SPLIT) / BLOCK - 1;
    return last < split_last ? last : split_last;
}

static void split_neon(const struct attn *a, uint32_t split, const struct attn_work *w,
                       const struct attn_part *part)
{
    const uint32_t begin = split * SPLIT, first = begin / BLOCK;
    const uint32_t last = pack_queries(a, begin, w->q);
    for (uint32_t b = first; b <= last; b++)
        one_block(a, b, w->q, w->p + (size_t)(b - first) * BLOCK, NULL);
    for (uint32_t col = 0; col < a->row_count * a->head_count; col++) {
        uint32_t pos = a->rows[col / a->head_count].pos;
        if (pos < begin)
            continue;
        uint32_t seen = pos - begin + 1;
        weigh(w->p + (size_t)col * SPLIT, seen < SPLIT ? seen : SPLIT, &part->max[col],
              &part->sum[col]);
        for (uint32_t d = 0; d < a->head_dim; d += 4)
            vst1q_f32(part->o + (size_t)col * a->head_dim + d, vdupq_n_f32(0));
    }
    for (uint32_t b = first; b <= last; b++)
        one_block(a, b, w->q, w->p + (size_t)(b - first) * BLOCK, part->o);
}

static void merge_neon(const struct attn_part *acc, const struct attn_part *right,
                       uint32_t head_dim, uint32_t col_begin, uint32_t col_end)
{
    for (uint32_t c = col_begin; c < col_end; c++) {
        float m1 = acc->max[c], m2 = right->max[c], m = m1 > m2 ? m1 : m2;
        float x = exp_ref(m1 - m), y = exp_ref(m2 - m);
        float *o1 = acc->o + (size_t)c * head_dim;
        const float *o2 = right->o + (size_t)c * head_dim;
        acc->max[c] = m;
        acc->sum[c] = fmaf(acc->sum[c], x, right->sum[c] * y);
        for (uint32_t d = 0; d < head_dim; d += 4) {
            float32x4_t t = vmulq_n_f32(vld1q_f32(o2 + d), y);
            vst1q_f32(o1 + d, vfmaq_n_f32(t, vld1q_f32(o1 + d), x));
        }
    }
}

static void store_neon(float *out, const float *o, float sum, uint32_t head_dim)
{
    const float inverse = 1.0f / sum;
    for (uint32_t d = 0; d < head_dim; d += 4)
        vst1q_f32(out + d, vmulq_n_f32(vld1q_f32(o + d), inverse));
}

void attn_fill_neon(struct attn_kernels *k)
{
    k->split = split_neon;
    k->merge = merge_neon;
    k->store = store_neon;
}
