/* SPDX-License-Identifier: MIT */
/* kv_layout - where the key and the value of (layer, kv head, token) lie inside a KV block, and how
 * quantized ones are made.
 *   block   [layer][kv head] { keys, values }, each a tile of 32 tokens of one type
 *   f16     keys [head_dim][32 tokens], values [32 tokens][head_dim]
 *   q8_0    keys [head_dim / 4][32 tokens][4], values [32 tokens][head_dim], int8; then scales
 *   q4_0    two dimensions d and d + 16 of a group in a byte, the lower one in the low nibble, as
 *           code + 8; bytes as in q8_0: keys [head_dim / 8][32 tokens][4], values [32 tokens]
 *           [head_dim / 2]; then scales
 *   scales  f16 [head_dim / 32 groups][32 tokens]
 *   contiguous  the same tiles for one sequence alone: [layer][kv head][position / 32], without
 *           blocks: what a loop that serves one conversation would have
 * Keys are interleaved by token, so that the lanes of a score are tokens and no sum is horizontal;
 * values are rows, so that the lanes of an output are dimensions. Appending a token moves nothing
 * that is there. A token's group of 32 has the bits of the GGUF block of that name.
 *   thread  any; pure arithmetic
 *   limits  quantized types need heads of whole groups of 32 */
#ifndef QUIRE_KERNELS_KV_LAYOUT_H
#define QUIRE_KERNELS_KV_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/limits.h"
#include "core/model.h"

#define KV_GROUP 32u /* dimensions that share a scale */

enum kv_type { KV_F16, KV_Q8_0, KV_Q4_0, KV_TYPES };

/* Keys and values are independent. */
struct kv_types {
    enum kv_type k, v;
};

struct kv_layout {
    struct kv_types types;
    uint32_t head_dim;
    size_t value_offset; /* from a head's keys to its values, bytes */
    size_t head_bytes;   /* of a head's 32 tokens, keys and values */
    /* from a head, a layer, a block of 32 tokens to the next one; of a block also its size */
    size_t head_step, layer_step, block_bytes;
};

/* kv_type_name - "f16", "q8_0", "q4_0". */
const char *kv_type_name(enum kv_type type);

/* kv_layout_open - layout of this model's blocks. RC_USAGE when its heads are not whole groups
 * of a quantized type. */
enum rc kv_layout_open(struct kv_layout *l, const struct model *m, struct kv_types types,
                       struct fault *fault) ATTR_MUST_USE;

/* kv_layout_contiguous - turns l into that of one sequence of at most block_count x 32 tokens; in
 * all it has block_count times the bytes of a block. */
void kv_layout_contiguous(struct kv_layout *l, uint32_t block_count);

/* kv_codes_bytes - a tile without its scales; kv_tile_bytes - with them. */
static inline size_t kv_codes_bytes(enum kv_type type, uint32_t head_dim)
{
    static const uint8_t bits[KV_TYPES] = { 16, 8, 4 };
    return (size_t)KV_BLOCK_TOKENS / 8 * bits[type] * head_dim;
}

static inline size_t kv_tile_bytes(enum kv_type type, uint32_t head_dim)
{
    size_t scales = KV_BLOCK_TOKENS * sizeof(uint16_t) * (head_dim / KV_GROUP);
    return kv_codes_bytes(type, head_dim) + (type == KV_F16 ? 0 : scales);
}

/* kv_layout_head - byte offset of (layer, kv head) from the beginning of a block. */
size_t kv_layout_head(const struct kv_layout *l, uint32_t layer, uint32_t kv_head);

/* kv_layout_copy - the first token_count tokens of every head in layers [layer_begin, layer_end).
 * */
void kv_layout_copy(const struct kv_layout *l, uint8_t *dst, const uint8_t *src,
                    uint32_t token_count, uint32_t layer_begin, uint32_t layer_end);

/* kv_rotation_size - stretch of the Walsh-Hadamard transform that quantized keys, queries and
 * values go through, so that no dimension outgrows its group: the largest power of two that divides
 * head_dim. The transform of keys and values carries no factor; the query's and the result's carry
 * 1 / size, which is exact. */
uint32_t kv_rotation_size(uint32_t head_dim);

/* kv_append_key, kv_append_value - one rotated vector of head_dim floats into a token's place of a
 * quantized tile. A group that holds Inf or NaN gets the scale NaN and codes 0. */
void kv_append_key(enum kv_type type, uint8_t *tile, uint32_t head_dim, uint32_t token,
                   const float *x);
void kv_append_value(enum kv_type type, uint8_t *tile, uint32_t head_dim, uint32_t token,
                     const float *x);

#endif
