/* SPDX-License-Identifier: MIT */
/* kv_layout - where the key and the value of (layer, kv head, token) lie inside a KV block.
 *   block  [layer][kv head] { keys f16 [head_dim][32 tokens], values f16 [32 tokens][head_dim] }
 * Keys are interleaved by token, so that the lanes of a score are tokens and no sum is horizontal;
 * values are rows, so that the lanes of an output are dimensions. Appending a token moves nothing
 * that is there.
 *   thread any; pure arithmetic */
#ifndef QUIRE_KERNELS_KV_LAYOUT_H
#define QUIRE_KERNELS_KV_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/model.h"

struct kv_layout {
    uint32_t head_dim;
    size_t value_offset; /* from a head's keys to its values, bytes */
    size_t head_bytes;
    size_t layer_bytes;
    size_t block_bytes;
};

/* kv_layout_open - layout of this model's blocks. */
void kv_layout_open(struct kv_layout *l, const struct model *m);

/* kv_layout_head - byte offset of (layer, kv head) in a block. */
size_t kv_layout_head(const struct kv_layout *l, uint32_t layer, uint32_t kv_head);

/* kv_layout_copy - the first token_count tokens of every head in layers [layer_begin, layer_end).
 * */
void kv_layout_copy(const struct kv_layout *l, uint8_t *dst, const uint8_t *src,
                    uint32_t token_count, uint32_t layer_begin, uint32_t layer_end);

#endif
