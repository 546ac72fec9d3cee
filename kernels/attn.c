/* SPDX-License-Identifier: MIT */
/* attn - the walk over the splits of one task, and its memory.
 * Scores of a whole split are made first, then its values are summed: the kernel reads the keys of
 * 256 tokens, then their values, so that both streams are long. A query head's running result stays
 * in work memory, which is a few hundred KiB a worker at the very most and fits the second-level
 * cache. */
#include "kernels/attn.h"

#include <string.h>

#include "core/must.h"

uint32_t attn_split_count(const struct attn *a)
{
    uint32_t last = 0;
    for (uint32_t r = 0; r < a->row_count; r++)
        last = a->rows[r].pos > last ? a->rows[r].pos : last;
    return last / KV_SPLIT_TOKENS + 1;
}

uint32_t attn_split_reads(const struct attn *a, uint32_t split)
{
    const uint32_t per_split = KV_SPLIT_TOKENS / KV_BLOCK_TOKENS;
    uint32_t reads = 0;
    for (uint32_t b = split * per_split; b < (split + 1) * per_split; b++) {
        for (uint32_t r = 0; r < a->row_count;) {
            bool sees = attn_keys(&a->rows[r], b) > 0;
            reads += sees;
            r = sees ? attn_run_end(a, r, b) : r + 1;
        }
    }
    return reads;
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
    return ((size_t)head_dim + ATTN_Q_PAD + KV_SPLIT_TOKENS) * ATTN_COLS_MAX * sizeof(float) +
           2 * attn_part_bytes(head_dim, ATTN_COLS_MAX);
}

void attn_work_open(struct attn_work *w, uint32_t head_dim, void *mem)
{
    size_t part_floats = attn_part_bytes(head_dim, ATTN_COLS_MAX) / sizeof(float);
    w->q = mem;
    w->p = w->q + ((size_t)head_dim + ATTN_Q_PAD) * ATTN_COLS_MAX;
    float *parts = w->p + (size_t)KV_SPLIT_TOKENS * ATTN_COLS_MAX;
    attn_part_open(&w->acc, head_dim, ATTN_COLS_MAX, parts);
    attn_part_open(&w->part, head_dim, ATTN_COLS_MAX, parts + part_floats);
}

void attn_take(const struct attn_kernels *k, const struct attn *a, uint32_t split,
               const struct attn_part *acc, const struct attn_part *part)
{
    uint32_t cols = a->row_count * a->head_count;
    if (split == 0) {
        memcpy(acc->max, part->max, cols * sizeof *acc->max);
        memcpy(acc->sum, part->sum, cols * sizeof *acc->sum);
        memcpy(acc->o, part->o, (size_t)cols * a->head_dim * sizeof *acc->o);
        return;
    }
    for (uint32_t r = 0; r < a->row_count; r++) {
        uint32_t begin = r;
        while (r < a->row_count && a->rows[r].pos >= split * KV_SPLIT_TOKENS)
            r++;
        if (r > begin)
            k->merge(acc, part, a->head_dim, begin * a->head_count, r * a->head_count);
    }
}

void attn_run(const struct attn_kernels *k, const struct attn *a, const struct attn_work *w)
{
    uint32_t cols = a->row_count * a->head_count, splits = attn_split_count(a);
    must(cols >= 1 && cols <= ATTN_COLS_MAX);
    k->split(a, 0, w, &w->acc);
    for (uint32_t s = 1; s < splits; s++) {
        k->split(a, s, w, &w->part);
        attn_take(k, a, s, &w->acc, &w->part);
    }
    attn_store(k, a, &w->acc);
}

void attn_store(const struct attn_kernels *k, const struct attn *a, const struct attn_part *acc)
{
    for (uint32_t c = 0; c < a->row_count * a->head_count; c++) {
        float *out = a->rows[c / a->head_count].out + (size_t)(c % a->head_count) * a->head_dim;
        k->store(out, acc->o + (size_t)c * a->head_dim, acc->sum[c], a->head_dim);
    }
}
