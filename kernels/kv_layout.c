/* SPDX-License-Identifier: MIT */
/* kv_layout - the arithmetic behind kv_layout.h. Every head's part is a multiple of 64 bytes (32
 * tokens of two bytes), so keys and values start on a cache line when the block does. */
#include "kernels/kv_layout.h"

#include <string.h>

void kv_layout_open(struct kv_layout *l, const struct model *m)
{
    l->head_dim = m->head_dim;
    l->value_offset = (size_t)KV_BLOCK_TOKENS * m->head_dim * sizeof(uint16_t);
    l->head_bytes = 2 * l->value_offset;
    l->layer_bytes = l->head_bytes * m->kv_head_count;
    l->block_bytes = l->layer_bytes * m->layer_count;
}

size_t kv_layout_head(const struct kv_layout *l, uint32_t layer, uint32_t kv_head)
{
    return layer * l->layer_bytes + kv_head * l->head_bytes;
}

/* Keys of all tokens share cache lines, so their whole tile goes; of the values only the tokens
 * asked for. */
void kv_layout_copy(const struct kv_layout *l, uint8_t *dst, const uint8_t *src,
                    uint32_t token_count, uint32_t layer_begin, uint32_t layer_end)
{
    size_t begin = kv_layout_head(l, layer_begin, 0), end = kv_layout_head(l, layer_end, 0);
    size_t bytes = l->value_offset + (size_t)token_count * l->head_dim * sizeof(uint16_t);
    for (size_t at = begin; at < end; at += l->head_bytes)
        memcpy(dst + at, src + at, bytes);
}
