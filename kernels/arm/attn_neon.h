/* SPDX-License-Identifier: MIT */
/* attn_neon - one tile of keys or values times some query columns, by cache type: the parts that
 * attn_neon.c walks a split with.
 *   columns  1, 2 or 4 at once
 *   queries  of f16 keys: head_dim floats, scaled; of others: their groups, as struct act_q8_32
 *   thread   any, no state */
#ifndef QUIRE_KERNELS_ARM_ATTN_NEON_H
#define QUIRE_KERNELS_ARM_ATTN_NEON_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/attn.h"

/* p[h * KV_SPLIT_TOKENS + token] of a tile's 32 tokens; q: stride floats a column. */
typedef void attn_scores_neon_fn(const uint8_t *tile, const float *q, size_t stride,
                                 uint32_t head_dim, float *p, uint32_t h_count);

/* o[h * head_dim + d] += the first n values of a tile, times p[h * KV_SPLIT_TOKENS + token]. */
typedef void attn_values_neon_fn(const uint8_t *tile, uint32_t n, uint32_t head_dim, const float *p,
                                 float *o, uint32_t h_count);

attn_scores_neon_fn attn_scores_q8_neon, attn_scores_q4_neon;
attn_values_neon_fn attn_values_q8_neon, attn_values_q4_neon;

#endif
