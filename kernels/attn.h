/* SPDX-License-Identifier: MIT */
/* attn - causal attention of some rows of one sequence over its paged keys and values, for query
 * heads that share one KV head.
 *   numerics  the keys are cut at absolute positions 256 i; each split gives (max, sum, weighted
 *             values), the splits of a row are merged left to right (kernels/README.md). So a row's
 *             result depends on its query and on the keys 0 .. pos alone: not on the rows beside
 *             it, on who computes it, or when
 *   layout    keys and values in a block as in kernels/kv_layout.h
 *   thread    any; work memory belongs to one call at a time
 *   limits    ATTN_COLS_MAX columns (row x head) a call; head_dim a multiple of 8, at most
 *             MODEL_HEAD_DIM_MAX */
#ifndef QUIRE_KERNELS_ATTN_H
#define QUIRE_KERNELS_ATTN_H

#include <stddef.h>
#include <stdint.h>

#include "core/limits.h"

#define ATTN_COLS_MAX 32u /* query columns of one call: they share each load of a key or value */

struct attn {
    const uint8_t *kv;      /* (layer, kv head) of block 0: keys, then values */
    size_t block_bytes;     /* from a block to the next in the mapping */
    const uint32_t *blocks; /* block table of the sequence */
    uint32_t head_dim;
    uint32_t row_count;
    uint32_t head_count; /* row_count * head_count <= ATTN_COLS_MAX */
    uint32_t pos_begin;  /* position of the first row; row r sees keys 0 .. pos_begin + r */
    float scale;
    const float *q; /* [row][stride], heads head_dim apart */
    float *out;     /* the same shape; may be q itself */
    size_t stride;  /* floats between two rows */
};

/* Result of one split, and the work memory to make it. Column c is row c / head_count, head c %
 * head_count. */
struct attn_part {
    float *max; /* [cols] */
    float *sum; /* [cols] */
    float *o;   /* [cols][head_dim], 64-byte aligned rows when head_dim is a multiple of 16 */
};

struct attn_work {
    float *q;              /* scaled queries, in an order of the kernel's choice */
    float *p;              /* [cols][KV_SPLIT_TOKENS] scores, then their exponentials */
    struct attn_part acc;  /* merged so far */
    struct attn_part part; /* the next split */
};

struct attn_kernels {
    /* Columns of rows that see a key of this split; the others of part are left alone. */
    void (*split)(const struct attn *a, uint32_t split, const struct attn_work *w,
                  const struct attn_part *part);
    /* acc = acc merged with the split to its right, columns [col_begin, col_end). */
    void (*merge)(const struct attn_part *acc, const struct attn_part *right, uint32_t head_dim,
                  uint32_t col_begin, uint32_t col_end);
    /* out = o / sum, as a product with 1 / sum. */
    void (*store)(float *out, const float *o, float sum, uint32_t head_dim);
};

/* attn_fill_ref - fills every slot. attn_fill_avx2 - overrides what it has; x86 only. */
void attn_fill_ref(struct attn_kernels *k);
void attn_fill_avx2(struct attn_kernels *k);

/* attn_split_count - splits that the last row sees. */
uint32_t attn_split_count(const struct attn *a);

/* attn_col_begin - first column that sees a key of this split. */
uint32_t attn_col_begin(const struct attn *a, uint32_t split);

/* attn_part_bytes / attn_work_bytes - memory of either for head_dim; attn_part_open, attn_work_open
 * - lay it out over mem (64-byte aligned). */
size_t attn_part_bytes(uint32_t head_dim, uint32_t cols);
void attn_part_open(struct attn_part *part, uint32_t head_dim, uint32_t cols, void *mem);
size_t attn_work_bytes(uint32_t head_dim);
void attn_work_open(struct attn_work *w, uint32_t head_dim, void *mem);

/* attn_run - all splits of a, merged, into out. attn_store - out = acc / sum. */
void attn_run(const struct attn_kernels *k, const struct attn *a, const struct attn_work *w);
void attn_store(const struct attn_kernels *k, const struct attn *a, const struct attn_part *acc);

#endif
