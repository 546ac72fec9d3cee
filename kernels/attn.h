/* SPDX-License-Identifier: MIT */
/* attn - causal attention of some rows over their paged keys and values, for query heads that share
 * one KV head.
 *   numerics  the keys are cut at absolute positions 256 i; each split gives (max, sum, weighted
 *             values), the splits of a row are merged left to right (kernels/README.md). So a row's
 *             result depends on its query and on the keys 0 .. pos alone: not on the rows beside
 *             it, on who computes it, or when
 *   sharing   neighbouring rows whose tables hold the same block read it once: rows of one
 *             sequence, and rows of sequences with a common prefix
 *   layout    keys and values in a block as in kernels/kv_layout.h; to quantized keys belong
 *             quantized queries (ACT_Q8_32, kernels/act.h)
 *   thread    any; work memory belongs to one call at a time
 *   limits    ATTN_COLS_MAX columns (row x head) a call; head_dim a multiple of 8, at most
 *             MODEL_HEAD_DIM_MAX */
#ifndef QUIRE_KERNELS_ATTN_H
#define QUIRE_KERNELS_ATTN_H

#include <stddef.h>
#include <stdint.h>

#include "core/limits.h"
#include "kernels/kv_layout.h"

#define ATTN_COLS_MAX 32u /* query columns of one call: they share each load of a key or value */

struct attn_row {
    const uint32_t *blocks; /* block table of its sequence */
    uint32_t pos;           /* it sees keys 0 .. pos */
    const void *q;          /* f16 keys: [head][head_dim] f32; else [head][groups] act_q8_32 of the
                               scaled query */
    float *out;             /* [head][head_dim]; may be q itself */
};

struct attn {
    const uint8_t *kv;  /* (layer, kv head) of block 0: keys, then values */
    size_t block_bytes; /* from a block to the next in the mapping */
    size_t value_offset;
    struct kv_types types;
    uint32_t head_dim;
    uint32_t row_count;
    uint32_t head_count; /* row_count * head_count <= ATTN_COLS_MAX */
    float scale;         /* of f32 queries */
    const struct attn_row *rows;
};

/* Result of one split, and the work memory to make it. Column c is row c / head_count, head c %
 * head_count. */
struct attn_part {
    float *max; /* [cols] */
    float *sum; /* [cols] */
    float *o;   /* [cols][head_dim], 64-byte aligned rows when head_dim is a multiple of 16 */
};

struct attn_work {
    float *q;              /* [cols][head_dim + ATTN_Q_PAD] queries, in a form of the kernel's */
    float *p;              /* [cols][KV_SPLIT_TOKENS] scores, then their exponentials */
    struct attn_part acc;  /* merged so far */
    struct attn_part part; /* the next split */
};

#define ATTN_Q_PAD 16u /* floats: columns a power of two apart would share cache sets */

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

/* attn_fill_ref - fills every slot. attn_fill_<level> - overrides what that level has. */
void attn_fill_ref(struct attn_kernels *k);
void attn_fill_avx2(struct attn_kernels *k);
void attn_fill_neon(struct attn_kernels *k);

/* attn_keys - how many of block b's keys a row sees. */
static inline uint32_t attn_keys(const struct attn_row *row, uint32_t b)
{
    uint32_t begin = b * KV_BLOCK_TOKENS;
    uint32_t left = row->pos < begin ? 0 : row->pos - begin + 1;
    return left < KV_BLOCK_TOKENS ? left : KV_BLOCK_TOKENS;
}

/* attn_run_end - end of the run of rows from row on that see keys of the same physical block b.
 * row itself must see one. */
static inline uint32_t attn_run_end(const struct attn *a, uint32_t row, uint32_t b)
{
    const uint32_t id = a->rows[row].blocks[b];
    do
        row++;
    while (row < a->row_count && attn_keys(&a->rows[row], b) > 0 && a->rows[row].blocks[b] == id);
    return row;
}

/* attn_split_count - splits that the farthest row sees. */
uint32_t attn_split_count(const struct attn *a);

/* attn_split_reads - blocks that this split reads: fewer than its rows see when they share. */
uint32_t attn_split_reads(const struct attn *a, uint32_t split);

/* attn_part_bytes / attn_work_bytes - memory of either for head_dim; attn_part_open, attn_work_open
 * - lay it out over mem (64-byte aligned). */
size_t attn_part_bytes(uint32_t head_dim, uint32_t cols);
void attn_part_open(struct attn_part *part, uint32_t head_dim, uint32_t cols, void *mem);
size_t attn_work_bytes(uint32_t head_dim);
void attn_work_open(struct attn_work *w, uint32_t head_dim, void *mem);

/* attn_take - acc takes over what split 0 gave, or is merged with what a later split gave. */
void attn_take(const struct attn_kernels *k, const struct attn *a, uint32_t split,
               const struct attn_part *acc, const struct attn_part *part);

/* attn_run - all splits of a, merged, into out. attn_store - out = acc / sum. */
void attn_run(const struct attn_kernels *k, const struct attn *a, const struct attn_work *w);
void attn_store(const struct attn_kernels *k, const struct attn *a, const struct attn_part *acc);

#endif
