/* SPDX-License-Identifier: MIT */
/* forward_stage - the two kinds of stage that a step is made of, for the files that make up the
 * forward pass and for no other. All workers call each function with the same arguments but their
 * own turn.
 *   prepare  rows are normed and quantized into the input of the next matmul
 *   multiply some weight rows, times all rows of the input
 *   thread   every worker; see forward.c for what may overlap */
#ifndef QUIRE_KERNELS_FORWARD_STAGE_H
#define QUIRE_KERNELS_FORWARD_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/forward.h"

/* One worker's view of the step. */
struct forward_turn {
    struct forward *f;
    struct forward_worker *me;
    uint32_t worker, count;
};

struct forward_prepare {
    const float *src; /* [row][stride] */
    size_t stride;
    uint32_t cols;
    const float *norm;      /* weights of the norm that comes first, or NULL */
    uint32_t kinds;         /* set of act kinds wanted */
    uint32_t row_count;     /* of the input that is made */
    const uint32_t *gather; /* its row i is row gather[i] of src; NULL: row i */
};

struct forward_product {
    const struct weight *w;
    const float *bias;
    float *out; /* of input row x_begin */
    size_t out_stride;
    bool accumulate;
    uint32_t input_count;      /* rows of the input as it was prepared */
    uint32_t x_begin, x_count; /* those that take part */
};

/* A worker's rows of one of several matrices; may be empty. */
struct forward_part {
    uint32_t begin, end;
};

void forward_barrier(const struct forward_turn *t);

/* forward_lap - this stage of the layer is over. */
static inline void forward_lap(const struct forward_turn *t, enum lap stage)
{
    if (t->f->laps != NULL && t->worker == 0)
        laps_take(t->f->laps, stage);
}

/* forward_kind_bit - the act kind that this weight wants, as a set. */
uint32_t forward_kind_bit(const struct forward *f, const struct weight *w);

/* forward_prepare - ends with a barrier, unless there is one row: then every worker has its own
 * copy. */
void forward_prepare(const struct forward_turn *t, const struct forward_prepare *p);

/* forward_share - this worker's parts of count matrices of rows[i] rows that are shared out as one,
 * in units of MATMUL_GRAIN. */
void forward_share(const struct forward_turn *t, const uint32_t *rows, uint32_t count,
                   struct forward_part *parts);

/* The stages of a layer whose rows are taken piece by piece; the output matrix is stage 0 behind
 * the last layer. */
enum forward_stage { STAGE_QKV, STAGE_O, STAGE_GATE_UP, STAGE_DOWN, STAGE_COUNT };

struct forward_pieces {
    uint32_t layer;
    enum forward_stage stage;
    size_t row_bytes; /* read for one row: short rows make long pieces */
    bool over;        /* the only piece has been taken */
};

/* forward_take - as forward_share, but a piece of what is left; false when nothing is. One worker
 * alone, and workers of streamed weights, get one piece: all, or their even share. */
bool forward_take(const struct forward_turn *t, struct forward_pieces *p, const uint32_t *rows,
                  uint32_t count, struct forward_part *parts);

/* forward_multiply - the part's rows of p, or, when weights are streamed, this worker's share of
 * each extent; no barrier. */
void forward_multiply(const struct forward_turn *t, const struct forward_product *p,
                      struct forward_part part);

/* forward_settle - before a worker uses its part of what was multiplied: streamed, others have
 * computed pieces of it. */
void forward_settle(const struct forward_turn *t);

/* forward_cache - (layer, kv head) in the block that holds the row's own token. */
static inline uint8_t *forward_cache(const struct forward *f, uint32_t row, uint32_t layer,
                                     uint32_t kv_head)
{
    uint32_t block = f->rows[row].blocks[f->rows[row].pos / KV_BLOCK_TOKENS];
    return f->kv_base + block * f->kv_block_bytes + kv_layout_head(&f->kv, layer, kv_head);
}

/* forward_quantize_heads - rotates queries, keys and values of every row where the cache is
 * quantized, quantizes the queries and appends the rest; begins with a barrier.
 * forward_attention - attention of every tile; ends with a barrier. (forward_attn.c) */
void forward_quantize_heads(const struct forward_turn *t, uint32_t layer);
void forward_attention(const struct forward_turn *t, uint32_t layer);

/* forward_mixture - the feed-forward part of a layer of experts, residual and barrier included.
 * (forward_moe.c) */
void forward_mixture(const struct forward_turn *t, const struct model_layer *l);

#endif
