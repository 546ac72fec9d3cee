/* SPDX-License-Identifier: MIT */
/* attn_q_avx2 - tiles of int8 and 4-bit keys and values with AVX2, FMA and F16C; bit for bit
 * kernels/ref/attn_ref.c.
 *
 *   q8_0 keys    a load gives four dimensions of four keys, widened to 16 bits; products of 16-bit
 *                pairs are exact in 32 bits, and two registers of pairs add up to eight keys
 *   q4_0 keys    a load gives four dimensions and their partners 16 above of eight keys: nibbles
 *                of 0 .. 15 times int8 queries, eight 16-bit sums deep (8 * 2 * 15 * 127 < 2^15);
 *                8 * the query's sum comes off in 32 bits
 *   values       as in attn_avx2.c, widened to floats on their way; the weights of a group's 32
 *                keys are multiplied by its scales first, all lanes at once
 *
 * Between groups of 32 dimensions, scores wait in p: one load and one store a group. */
#include <string.h>

#include "kernels/act.h"
#include "kernels/x86/attn_avx2.h"

#define BLOCK KV_BLOCK_TOKENS
#define SPLIT KV_SPLIT_TOKENS
#define ROW (4 * BLOCK) /* bytes of four codes of each key */

/* The compiler must not gather products before it adds them: it would spill most of the sums. */
#define KEEP_ORDER(v) __asm__("" : "+x"(v))

/* A packed query: head_dim codes (16 bits for q8_0 keys, 8 for q4_0), then of each group its scale
 * and, for q4_0, 8 * its sum. */
struct group {
    float d;
    int32_t centre;
};

static size_t group_offset(uint32_t head_dim, uint32_t g)
{
    return head_dim * sizeof(int16_t) + g * sizeof(struct group);
}

static const struct act_q8_32 *query_of(const struct attn *a, const struct attn_row *row,
                                        uint32_t head)
{
    return (const struct act_q8_32 *)row->q + (size_t)head * (a->head_dim / KV_GROUP);
}

static void pack_q8(const struct attn *a, const struct attn_row *row, uint32_t head, float *dst)
{
    const struct act_q8_32 *src = query_of(a, row, head);
    int16_t *codes = (int16_t *)(void *)dst;
    for (uint32_t g = 0; g < a->head_dim / KV_GROUP; g++) {
        for (uint32_t i = 0; i < KV_GROUP; i++)
            codes[g * KV_GROUP + i] = src[g].q[i];
        struct group group = { .d = src[g].d };
        memcpy((uint8_t *)dst + group_offset(a->head_dim, g), &group, sizeof group);
    }
}

static void pack_q4(const struct attn *a, const struct attn_row *row, uint32_t head, float *dst)
{
    const struct act_q8_32 *src = query_of(a, row, head);
    int8_t *codes = (int8_t *)dst;
    for (uint32_t g = 0; g < a->head_dim / KV_GROUP; g++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < KV_GROUP; i++)
            sum += src[g].q[i];
        memcpy(codes + g * KV_GROUP, src[g].q, KV_GROUP);
        struct group group = { src[g].d, 8 * sum };
        memcpy((uint8_t *)dst + group_offset(a->head_dim, g), &group, sizeof group);
    }
}

/* p = fma(round(scales * d), dot, p), from +0 in the first group. */
ATTR_INLINE void add_group(float *p, __m256 scales, float d, __m256i dot, bool first)
{
    __m256 sum = first ? _mm256_setzero_ps() : _mm256_loadu_ps(p);
    __m256 scaled = _mm256_mul_ps(scales, _mm256_set1_ps(d));
    _mm256_storeu_ps(p, _mm256_fmadd_ps(scaled, _mm256_cvtepi32_ps(dot), sum));
}

/* Eight keys of a group by H columns: k at the group's first row, q at its codes. */
ATTR_INLINE void dot_q8(__m256i *dot, const uint8_t *k, struct attn_next *next, const uint8_t *q,
                        size_t stride, const uint32_t h_count)
{
    __m256i low[6], high[6];
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++)
        low[h] = high[h] = _mm256_setzero_si256();
    for (uint32_t i = 0; i < KV_GROUP / 4; i++, k += ROW, q += 4 * sizeof(int16_t)) {
        attn_prefetch_avx2(next);
        __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)k));
        __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(k + 16)));
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            long long four;
            memcpy(&four, q + h * stride, sizeof four);
            __m256i x = _mm256_set1_epi64x(four);
            low[h] = _mm256_add_epi32(low[h], _mm256_madd_epi16(a, x));
            KEEP_ORDER(low[h]);
            high[h] = _mm256_add_epi32(high[h], _mm256_madd_epi16(b, x));
            KEEP_ORDER(high[h]);
        }
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++)
        dot[h] = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low[h], high[h]), 0xd8);
}

ATTR_INLINE void dot_q4(__m256i *dot, const uint8_t *k, struct attn_next *next, const uint8_t *q,
                        size_t stride, const uint32_t h_count)
{
    const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i sum[6];
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++)
        sum[h] = _mm256_setzero_si256();
    for (uint32_t i = 0; i < KV_GROUP / 8; i++, k += ROW, q += 4) {
        attn_prefetch_avx2(next);
        __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)k);
        __m256i low = _mm256_and_si256(both, nibble);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            int x, y;
            memcpy(&x, q + h * stride, sizeof x);
            memcpy(&y, q + h * stride + KV_GROUP / 2, sizeof y);
            __m256i t = _mm256_maddubs_epi16(low, _mm256_set1_epi32(x));
            __m256i u = _mm256_maddubs_epi16(high, _mm256_set1_epi32(y));
            sum[h] = _mm256_add_epi16(_mm256_add_epi16(sum[h], t), u);
        }
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++)
        dot[h] = _mm256_madd_epi16(sum[h], ones);
}

/* stride is in bytes here. */
ATTR_INLINE void scores_tile(const enum kv_type type, const uint8_t *tile, struct attn_next next,
                             const uint8_t *q, size_t stride, uint32_t head_dim, float *p,
                             const uint32_t h_count)
{
    const uint8_t *scales = tile + kv_codes_bytes(type, head_dim);
    const size_t code_bytes = type == KV_Q8_0 ? sizeof(int16_t) : 1;
    for (uint32_t x = 0; x < BLOCK; x += 8) {
        const uint8_t *k = tile + (size_t)4 * x;
        for (uint32_t g = 0; g < head_dim / KV_GROUP; g++) {
            const uint8_t *codes = q + g * KV_GROUP * code_bytes;
            __m256 d = half8_avx2(scales + 2 * (g * BLOCK + x));
            __m256i dot[6];
            if (type == KV_Q8_0)
                dot_q8(dot, k, &next, codes, stride, h_count);
            else
                dot_q4(dot, k, &next, codes, stride, h_count);
            k += ROW * KV_GROUP / (type == KV_Q8_0 ? 4 : 8);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++) {
                struct group group;
                memcpy(&group, q + h * stride + group_offset(head_dim, g), sizeof group);
                if (type == KV_Q4_0)
                    dot[h] = _mm256_sub_epi32(dot[h], _mm256_set1_epi32(group.centre));
                add_group(p + (size_t)h * SPLIT + x, d, group.d, dot[h], g == 0);
            }
        }
    }
}

ATTR_INLINE void scores(const enum kv_type type, const uint8_t *tile, struct attn_next next,
                        const float *q, size_t stride, uint32_t head_dim, float *p,
                        uint32_t h_count)
{
    const uint8_t *codes = (const uint8_t *)q;
    stride *= sizeof *q;
    switch (h_count) {
    case 1:
        scores_tile(type, tile, next, codes, stride, head_dim, p, 1);
        break;
    case 2:
        scores_tile(type, tile, next, codes, stride, head_dim, p, 2);
        break;
    case 3:
        scores_tile(type, tile, next, codes, stride, head_dim, p, 3);
        break;
    case 4:
        scores_tile(type, tile, next, codes, stride, head_dim, p, 4);
        break;
    default:
        scores_tile(type, tile, next, codes, stride, head_dim, p, 6);
        break;
    }
}

static void scores_q8(const uint8_t *tile, struct attn_next next, const float *q, size_t stride,
                      uint32_t head_dim, float *p, uint32_t h_count)
{
    scores(KV_Q8_0, tile, next, q, stride, head_dim, p, h_count);
}

static void scores_q4(const uint8_t *tile, struct attn_next next, const float *q, size_t stride,
                      uint32_t head_dim, float *p, uint32_t h_count)
{
    scores(KV_Q4_0, tile, next, q, stride, head_dim, p, h_count);
}

const struct attn_keys_avx2 attn_keys_q8_avx2 = { pack_q8, scores_q8 };
const struct attn_keys_avx2 attn_keys_q4_avx2 = { pack_q4, scores_q4 };

/* ---- values ---- */

/* Eight codes as floats: int8; or of the nibbles of eight bytes, the lower (shift 0) or the upper
 * (shift 4) ones, less 8. */
ATTR_INLINE __m256 codes8(const enum kv_type type, const uint8_t *v, int shift)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)v);
    if (type == KV_Q8_0)
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    bytes = _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm_set1_epi8(15));
    bytes = _mm_sub_epi8(bytes, _mm_set1_epi8(8));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

/* Adds n keys' values to 8 * V dimensions of H columns. V = 4 is a whole group, V = 2 its first or,
 * with upper, its second half. weights [h][32]. */
ATTR_INLINE void values_strip(const enum kv_type type, const uint8_t *v, size_t row_bytes,
                              bool upper, struct attn_next *next, uint32_t n, uint32_t head_dim,
                              const float *weights, float *o, const uint32_t h_count,
                              const uint32_t v_count)
{
    __m256 sum[12];
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            sum[h * v_count + i] = _mm256_loadu_ps(o + (size_t)h * head_dim + 8 * i);
    }
    if (type == KV_Q8_0 && upper)
        v += KV_GROUP / 2;
    for (uint32_t k = 0; k < n; k++, v += row_bytes) {
        attn_prefetch_avx2(next);
        __m256 held[4];
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++) {
            uint32_t byte = type == KV_Q8_0 ? 8 * i : 8 * (i % 2);
            held[i] = codes8(type, v + byte, upper || i >= 2 ? 4 : 0);
        }
        ATTR_UNROLL
        for (uint32_t h = 0; h < h_count; h++) {
            __m256 weight = _mm256_broadcast_ss(weights + h * BLOCK + k);
            ATTR_UNROLL
            for (uint32_t i = 0; i < v_count; i++)
                sum[h * v_count + i] = _mm256_fmadd_ps(weight, held[i], sum[h * v_count + i]);
        }
    }
    ATTR_UNROLL
    for (uint32_t h = 0; h < h_count; h++) {
        ATTR_UNROLL
        for (uint32_t i = 0; i < v_count; i++)
            _mm256_storeu_ps(o + (size_t)h * head_dim + 8 * i, sum[h * v_count + i]);
    }
}

ATTR_INLINE void values_tile(const enum kv_type type, const uint8_t *v, struct attn_next next,
                             uint32_t n, uint32_t head_dim, const float *p, float *o,
                             const uint32_t h_count)
{
    const uint8_t *scales = v + kv_codes_bytes(type, head_dim);
    const size_t row_bytes = kv_codes_bytes(type, head_dim) / BLOCK;
    for (uint32_t g = 0; g < head_dim / KV_GROUP; g++, o += KV_GROUP, scales += 2 * BLOCK) {
        float weights[6 * BLOCK];
        ATTR_UNROLL
        for (uint32_t x = 0; x < BLOCK; x += 8) {
            __m256 d = half8_avx2(scales + 2 * (size_t)x);
            ATTR_UNROLL
            for (uint32_t h = 0; h < h_count; h++)
                _mm256_storeu_ps(weights + h * BLOCK + x,
                                 _mm256_mul_ps(_mm256_loadu_ps(p + (size_t)h * SPLIT + x), d));
        }
        const uint8_t *codes = v + g * (row_bytes * KV_GROUP / head_dim);
        if (h_count <= 3) {
            values_strip(type, codes, row_bytes, false, &next, n, head_dim, weights, o, h_count, 4);
            continue;
        }
        for (uint32_t half = 0; half < 2; half++)
            values_strip(type, codes, row_bytes, half == 1, &next, n, head_dim, weights,
                         o + half * (KV_GROUP / 2), h_count, 2);
    }
}

ATTR_INLINE void values(const enum kv_type type, const uint8_t *tile, struct attn_next next,
                        uint32_t n, uint32_t head_dim, const float *p, float *o, uint32_t h_count)
{
    switch (h_count) {
    case 1:
        values_tile(type, tile, next, n, head_dim, p, o, 1);
        break;
    case 2:
        values_tile(type, tile, next, n, head_dim, p, o, 2);
        break;
    case 3:
        values_tile(type, tile, next, n, head_dim, p, o, 3);
        break;
    case 4:
        values_tile(type, tile, next, n, head_dim, p, o, 4);
        break;
    default:
        values_tile(type, tile, next, n, head_dim, p, o, 6);
        break;
    }
}

void attn_values_q8_avx2(const uint8_t *tile, struct attn_next next, uint32_t n, uint32_t head_dim,
                         const float *p, float *o, uint32_t h_count)
{
    values(KV_Q8_0, tile, next, n, head_dim, p, o, h_count);
}

void attn_values_q4_avx2(const uint8_t *tile, struct attn_next next, uint32_t n, uint32_t head_dim,
                         const float *p, float *o, uint32_t h_count)
{
    values(KV_Q4_0, tile, next, n, head_dim, p, o, h_count);
}
