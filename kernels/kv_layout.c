/* SPDX-License-Identifier: MIT */
/* kv_layout - the arithmetic behind kv_layout.h. Every tile is a multiple of 64 bytes (32 tokens of
 * a scale are two bytes each, of four codes 128), so keys and values start on a cache line when the
 * block does.
 * A group's scale: the largest magnitude / 127 (q8_0), or the element of largest magnitude, with
 * its sign, / -8 (q4_0); codes are rounded half to even for the scale before it is rounded to 16
 * bits, as GGUF files have them. */
#include "kernels/kv_layout.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/must.h"
#include "kernels/f16.h"

const char *kv_type_name(enum kv_type type)
{
    static const char *const names[KV_TYPES] = { "f16", "q8_0", "q4_0" };
    must(type < KV_TYPES);
    return names[type];
}

enum rc kv_layout_open(struct kv_layout *l, const struct model *m, struct kv_types types,
                       struct fault *fault)
{
    enum kv_type quantized = types.k != KV_F16 ? types.k : types.v;
    if (quantized != KV_F16 && m->head_dim % KV_GROUP != 0)
        return fault_set(fault, RC_USAGE,
                         "KV type %s takes heads of a multiple of %u, this model's have %" PRIu32
                         ": use f16",
                         kv_type_name(quantized), KV_GROUP, m->head_dim);
    l->types = types;
    l->head_dim = m->head_dim;
    l->value_offset = kv_tile_bytes(types.k, m->head_dim);
    l->head_bytes = l->value_offset + kv_tile_bytes(types.v, m->head_dim);
    l->head_step = l->head_bytes;
    l->layer_step = l->head_step * m->kv_head_count;
    l->block_bytes = l->layer_step * m->layer_count;
    return RC_OK;
}

void kv_layout_contiguous(struct kv_layout *l, uint32_t block_count)
{
    l->head_step *= block_count;
    l->layer_step *= block_count;
    l->block_bytes = l->head_bytes;
}

size_t kv_layout_head(const struct kv_layout *l, uint32_t layer, uint32_t kv_head)
{
    return layer * l->layer_step + kv_head * l->head_step;
}

/* Keys of all tokens share cache lines, as scales do, so they go whole; of the values' codes only
 * the tokens asked for. */
void kv_layout_copy(const struct kv_layout *l, uint8_t *dst, const uint8_t *src,
                    uint32_t token_count, uint32_t layer_begin, uint32_t layer_end)
{
    size_t begin = kv_layout_head(l, layer_begin, 0), end = kv_layout_head(l, layer_end, 0);
    size_t codes = kv_codes_bytes(l->types.v, l->head_dim), scales = l->value_offset + codes;
    size_t bytes = l->value_offset + codes / KV_BLOCK_TOKENS * token_count;
    for (size_t at = begin; at < end; at += l->head_step) {
        memcpy(dst + at, src + at, bytes);
        memcpy(dst + at + scales, src + at + scales, l->head_bytes - scales);
    }
}

uint32_t kv_rotation_size(uint32_t head_dim)
{
    return head_dim & (0u - head_dim);
}

/* The element of largest magnitude; magnitudes are compared as integers, NaN above all. */
static float extreme(const float *x)
{
    uint32_t best = 0, top = 0;
    for (uint32_t i = 0; i < KV_GROUP; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        best = bits > top ? i : best;
        top = bits > top ? bits : top;
    }
    return x[best];
}

/* Codes of one group, signed; returns the scale's 16 bits. */
static uint16_t quantize(enum kv_type type, const float *x, int8_t *q)
{
    float top = extreme(x), steps = type == KV_Q8_0 ? 127.0f : -8.0f;
    top = type == KV_Q8_0 ? fabsf(top) : top;
    if (!isfinite(top) || fabsf(top) < 0x1p-100f) {
        memset(q, 0, KV_GROUP);
        return isfinite(top) ? 0 : 0x7e00;
    }
    float inverse = steps / top;
    for (uint32_t i = 0; i < KV_GROUP; i++) {
        int code = (int)lrintf(x[i] * inverse);
        q[i] = (int8_t)(type == KV_Q4_0 && code > 7 ? 7 : code);
    }
    return f32_to_f16(top / steps);
}

/* Bytes of a group as they are stored: 32, or 16 pairs of nibbles. Returns how many. */
static uint32_t pack(enum kv_type type, int8_t *q)
{
    if (type == KV_Q8_0)
        return KV_GROUP;
    for (uint32_t i = 0; i < KV_GROUP / 2; i++)
        q[i] = (int8_t)((q[i] + 8) | (q[i + KV_GROUP / 2] + 8) << 4);
    return KV_GROUP / 2;
}

static void store_scale(enum kv_type type, uint8_t *tile, uint32_t head_dim, uint32_t group,
                        uint32_t token, uint16_t scale)
{
    size_t at = (size_t)(group * KV_BLOCK_TOKENS + token) * sizeof scale;
    memcpy(tile + kv_codes_bytes(type, head_dim) + at, &scale, sizeof scale);
}

void kv_append_key(enum kv_type type, uint8_t *tile, uint32_t head_dim, uint32_t token,
                   const float *x)
{
    uint8_t *codes = tile + (size_t)token * 4;
    for (uint32_t g = 0; g < head_dim / KV_GROUP; g++) {
        int8_t q[KV_GROUP];
        store_scale(type, tile, head_dim, g, token, quantize(type, x + g * KV_GROUP, q));
        uint32_t bytes = pack(type, q);
        for (uint32_t i = 0; i < bytes; i += 4, codes += (size_t)KV_BLOCK_TOKENS * 4)
            memcpy(codes, q + i, 4);
    }
}

void kv_append_value(enum kv_type type, uint8_t *tile, uint32_t head_dim, uint32_t token,
                     const float *x)
{
    uint8_t *codes = tile + kv_codes_bytes(type, head_dim) / KV_BLOCK_TOKENS * token;
    for (uint32_t g = 0; g < head_dim / KV_GROUP; g++) {
        int8_t q[KV_GROUP];
        store_scale(type, tile, head_dim, g, token, quantize(type, x + g * KV_GROUP, q));
        uint32_t bytes = pack(type, q);
        memcpy(codes, q, bytes);
        codes += bytes;
    }
}
