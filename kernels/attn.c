/* SPDX-License-Identifier: MIT */
/* attn - the walk over the splits of one task, and its memory.
 * Scores of a whole split are made first, then its values are summed: the kernel reads the keys of
 * 256 tokens, then their values, so that both streams are long. A query head's running result stays
 * in work memory, which is a few hundred KiB a worker at the very most and fits the second-level
 * cache. */
#include "kernels/attn.h"

#include "core/must.h"

uint32_t attn_split_count(const struct attn *a)
{
    return (a->pos_begin + a->row_count - 1) / KV_SPLIT_TOKENS + 1;
}

uint32_t attn_col_begin(const struct attn *a, uint32_t split)
{
    uint32_t key_begin = split * KV_SPLIT_TOKENS;
    return key_begin > a->pos_begin ? (key_begin - a->pos_begin) * a->head_count : 0;
}

/* Maxima and sums are padded to whole cache lines, so that o starts on one. */
static size_t line_floats(uint32_t cols)
{
    return ((size_t)cols + 15) / 16 * 16;
}

size_t attn_part_bytes(uint32_t head_dim, uint32_t cols)
{
    size_t bytes = (2 * line_floats(cols) + (size_t)cols * head_dim) * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

void attn_part_open(struct attn_part *part, uint32_t head_dim, uint32_t cols, void *mem)
{
    must(head_dim <= MODEL_HEAD_DIM_MAX);
    part->max = mem;
    part->sum = part->max + line_floats(cols);
    part->o = part->sum + line_floats(cols);
}

size_t attn_work_bytes(uint32_t head_dim)
{
    return ((size_t)head_dim + KV_SPLIT_TOKENS) * ATTN_COLS_MAX * sizeof(float) +
           2 * attn_part_bytes(head_dim, ATTN_COLS_MAX);
}

void attn_work_open(struct attn_work *w, uint32_t head_dim, void *mem)
{
    size_t part_floats = attn_part_bytes(head_dim, ATTN_COLS_MAX) / sizeof(float);
    w->q = mem;
    w->p = w->q + (size_t)head_dim * ATTN_COLS_MAX;
    float *parts = w->p + (size_t)KV_SPLIT_TOKENS * ATTN_COLS_MAX;
    attn_part_open(&w->acc, head_dim, ATTN_COLS_MAX, parts);
    attn_part_open(&w->part, head_dim, ATTN_COLS_MAX, parts + part_floats);
}

void attn_run(const struct attn_kernels *k, const struct attn *a, const struct attn_work *w)
{
    uint32_t cols = a->row_count * a->head_count, splits = attn_split_count(a);
    must(cols >= 1 && cols <= ATTN_COLS_MAX);
    k->split(a, 0, w, &w->acc);
    for (uint32_t s = 1; s < splits; s++) {
        k->split(a, s, w, &w->part);
        k->merge(&w->acc, &w->part, a->head_dim, attn_col_begin(a, s), cols);
    }
    attn_store(k, a, &w->acc);
}

void attn_store(const struct attn_kernels *k, const struct attn *a, const struct attn_part *acc)
{
    for (uint32_t c = 0; c < a->row_count * a->head_count; c++) {
        float *out =
            a->out + c / a->head_count * a->stride + (size_t)(c % a->head_count) * a->head_dim;
        k->store(out, acc->o + (size_t)c * a->head_dim, acc->sum[c], a->head_dim);
    }
}
