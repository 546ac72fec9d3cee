/* SPDX-License-Identifier: MIT */
/* attn_ref - one split of attention, and the merge of two, in plain loops: the specification.
 *   score   f16 keys: one fma chain over the dimensions, ascending, from +0, of the scaled query
 *           (query * scale). Quantized keys: the Q8_0 or Q4_0 weight product of ref/matmul_ref.c,
 *           key times quantized query: one fma chain over the groups, from +0, of round(d a) and
 *           the exact sum of code * quant
 *   weight  exp(score - largest score of the split)
 *   sum     VEC_EXP_LANES lanes (key index in the split mod lanes), then the tree of vec_ref.c
 *   values  one fma chain over the keys, ascending, from +0, for each dimension: of weight and
 *           value; of quantized values, round(weight * d) and code
 *   merge   M = max(m1, m2), x = exp(m1 - M), y = exp(m2 - M); s = fma(s1, x, s2 * y), each o
 *           likewise */
#include <math.h>
#include <string.h>

#include "kernels/act.h"
#include "kernels/attn.h"
#include "kernels/expf.h"
#include "kernels/f16.h"
#include "kernels/vec.h"

static const uint8_t *keys_of(const struct attn *a, const struct attn_row *row, uint32_t key)
{
    return a->kv + row->blocks[key / KV_BLOCK_TOKENS] * a->block_bytes;
}

static float half_at(const uint8_t *p, size_t index)
{
    uint16_t h;
    memcpy(&h, p + index * sizeof h, sizeof h);
    return f16_to_f32(h);
}

/* Scale of (group, token) in a tile of quantized codes. */
static float scale_at(const uint8_t *tile, enum kv_type type, uint32_t head_dim, uint32_t group,
                      uint32_t token)
{
    return half_at(tile + kv_codes_bytes(type, head_dim), group * KV_BLOCK_TOKENS + token);
}

/* A byte of codes, as the code of dimension d: of a group in q4_0, the low nibbles come first. */
static int code_of(enum kv_type type, uint8_t byte, uint32_t d)
{
    if (type == KV_Q8_0)
        return (int8_t)byte;
    return (d % KV_GROUP < KV_GROUP / 2 ? byte & 15 : byte >> 4) - 8;
}

/* Place of dimension d among the bytes of one token. */
static uint32_t byte_of(enum kv_type type, uint32_t d)
{
    if (type == KV_Q8_0)
        return d;
    return d / KV_GROUP * (KV_GROUP / 2) + d % (KV_GROUP / 2);
}

static float score_f16(const uint8_t *tile, uint32_t token, const float *q, float scale,
                       uint32_t head_dim)
{
    float sum = 0;
    for (uint32_t d = 0; d < head_dim; d++)
        sum = fmaf(q[d] * scale, half_at(tile, d * KV_BLOCK_TOKENS + token), sum);
    return sum;
}

static float score_quantized(enum kv_type type, const uint8_t *tile, uint32_t token,
                             const struct act_q8_32 *q, uint32_t head_dim)
{
    float sum = 0;
    for (uint32_t g = 0; g < head_dim / KV_GROUP; g++) {
        int32_t dot = 0;
        for (uint32_t d = g * KV_GROUP; d < (g + 1) * KV_GROUP; d++) {
            uint32_t byte = byte_of(type, d);
            uint8_t code = tile[byte / 4 * 4 * KV_BLOCK_TOKENS + token * 4 + byte % 4];
            dot += code_of(type, code, d) * q[g].q[d % KV_GROUP];
        }
        sum = fmaf(scale_at(tile, type, head_dim, g, token) * q[g].d, (float)dot, sum);
    }
    return sum;
}

/* Scores of the first count keys from key_begin on into p, their largest into *max. */
static void scores(const struct attn *a, const struct attn_row *row, uint32_t head,
                   uint32_t key_begin, uint32_t count, float *p, float *max)
{
    const size_t first = (size_t)head * a->head_dim;
    *max = -INFINITY;
    for (uint32_t k = 0; k < count; k++) {
        const uint8_t *tile = keys_of(a, row, key_begin + k);
        uint32_t token = (key_begin + k) % KV_BLOCK_TOKENS;
        if (a->types.k == KV_F16)
            p[k] = score_f16(tile, token, (const float *)row->q + first, a->scale, a->head_dim);
        else
            p[k] =
                score_quantized(a->types.k, tile, token,
                                (const struct act_q8_32 *)row->q + first / KV_GROUP, a->head_dim);
        *max = p[k] > *max ? p[k] : *max;
    }
}

/* sum + weight * value of dimension d, in the chain of values. */
static float add_value(const struct attn *a, const struct attn_row *row, uint32_t key, uint32_t d,
                       float weight, float sum)
{
    const enum kv_type type = a->types.v;
    const uint8_t *tile = keys_of(a, row, key) + a->value_offset;
    uint32_t token = key % KV_BLOCK_TOKENS;
    if (type == KV_F16)
        return fmaf(weight, half_at(tile, (size_t)token * a->head_dim + d), sum);
    uint8_t code =
        tile[kv_codes_bytes(type, a->head_dim) / KV_BLOCK_TOKENS * token + byte_of(type, d)];
    float scaled = weight * scale_at(tile, type, a->head_dim, d / KV_GROUP, token);
    return fmaf(scaled, (float)code_of(type, code, d), sum);
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
    for (uint32_t c = 0; c < cols; c++) {
        const struct attn_row *row = &a->rows[c / a->head_count];
        if (row->pos < key_begin)
            continue;
        uint32_t left = row->pos + 1 - key_begin;
        uint32_t count = left < KV_SPLIT_TOKENS ? left : KV_SPLIT_TOKENS;
        scores(a, row, c % a->head_count, key_begin, count, w->p, &part->max[c]);
        part->sum[c] = weigh(w->p, count, part->max[c]);
        for (uint32_t d = 0; d < a->head_dim; d++) {
            float sum = 0;
            for (uint32_t k = 0; k < count; k++)
                sum = add_value(a, row, key_begin + k, d, w->p[k], sum);
            part->o[(size_t)c * a->head_dim + d] = sum;
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
