/* SPDX-License-Identifier: MIT */
/* attn_ref - one split of attention, and the merge of two, in plain loops: the specification.
 *   score   one fma chain over the dimensions, ascending, from +0, of the scaled query (query *
 *           scale)
 *   weight  exp(score - largest score of the split)
 *   sum     VEC_EXP_LANES lanes (key index in the split mod lanes), then the tree of vec_ref.c
 *   values  one fma chain over the keys, ascending, from +0, for each dimension
 *   merge   M = max(m1, m2), x = exp(m1 - M), y = exp(m2 - M); s = fma(s1, x, s2 * y), each o
 *           likewise */
#include <math.h>

#include "kernels/attn.h"
#include "kernels/expf.h"
#include "kernels/f16.h"
#include "kernels/vec.h"

static const uint16_t *keys_of(const struct attn *a, uint32_t key)
{
    const uint8_t *block = a->kv + a->blocks[key / KV_BLOCK_TOKENS] * a->block_bytes;
    return (const uint16_t *)(const void *)block + key % KV_BLOCK_TOKENS;
}

static const uint16_t *values_of(const struct attn *a, uint32_t key)
{
    const uint8_t *block = a->kv + a->blocks[key / KV_BLOCK_TOKENS] * a->block_bytes;
    return (const uint16_t *)(const void *)block +
           (KV_BLOCK_TOKENS + key % KV_BLOCK_TOKENS) * a->head_dim;
}

/* Scores of count keys into p, their largest into *max. */
static void scores(const struct attn *a, const float *q, uint32_t key_begin, uint32_t count,
                   float *p, float *max)
{
    *max = -INFINITY;
    for (uint32_t k = 0; k < count; k++) {
        const uint16_t *key = keys_of(a, key_begin + k);
        float sum = 0;
        for (uint32_t d = 0; d < a->head_dim; d++)
            sum = fmaf(q[d] * a->scale, f16_to_f32(key[d * KV_BLOCK_TOKENS]), sum);
        p[k] = sum;
        *max = sum > *max ? sum : *max;
    }
}

static float weigh(float *p, uint32_t count, float max)
{
    float lane[VEC_EXP_LANES] = { 0 };
    for (uint32_t k = 0; k < count; k++) {
        p[k] = exp_ref(p[k] - max);
        lane[k % VEC_EXP_LANES] += p[k];
    }
    for (uint32_t half = VEC_EXP_LANES / 2; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    }
    return lane[0];
}

static void split_ref(const struct attn *a, uint32_t split, const struct attn_work *w,
                      const struct attn_part *part)
{
    uint32_t key_begin = split * KV_SPLIT_TOKENS, cols = a->row_count * a->head_count;
    for (uint32_t c = attn_col_begin(a, split); c < cols; c++) {
        uint32_t row = c / a->head_count, head = c % a->head_count;
        uint32_t count = a->pos_begin + row + 1 - key_begin;
        if (count > KV_SPLIT_TOKENS)
            count = KV_SPLIT_TOKENS;
        float *o = part->o + (size_t)c * a->head_dim;
        scores(a, a->q + row * a->stride + (size_t)head * a->head_dim, key_begin, count, w->p,
               &part->max[c]);
        part->sum[c] = weigh(w->p, count, part->max[c]);
        for (uint32_t d = 0; d < a->head_dim; d++) {
            float sum = 0;
            for (uint32_t k = 0; k < count; k++)
                sum = fmaf(w->p[k], f16_to_f32(values_of(a, key_begin + k)[d]), sum);
            o[d] = sum;
        }
    }
}

static void merge_ref(const struct attn_part *acc, const struct attn_part *right, uint32_t head_dim,
                      uint32_t col_begin, uint32_t col_end)
{
    for (uint32_t c = col_begin; c < col_end; c++) {
        float m1 = acc->max[c], m2 = right->max[c], m = m1 > m2 ? m1 : m2;
        float x = exp_ref(m1 - m), y = exp_ref(m2 - m);
        float *o1 = acc->o + (size_t)c * head_dim;
        const float *o2 = right->o + (size_t)c * head_dim;
        acc->max[c] = m;
        acc->sum[c] = fmaf(acc->sum[c], x, right->sum[c] * y);
        for (uint32_t d = 0; d < head_dim; d++)
            o1[d] = fmaf(o1[d], x, o2[d] * y);
    }
}

static void store_ref(float *out, const float *o, float sum, uint32_t head_dim)
{
    float inverse = 1.0f / sum;
    for (uint32_t d = 0; d < head_dim; d++)
        out[d] = o[d] * inverse;
}

void attn_fill_ref(struct attn_kernels *k)
{
    *k = (struct attn_kernels){ .split = split_ref, .merge = merge_ref, .store = store_ref };
}
