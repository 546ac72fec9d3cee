/* SPDX-License-Identifier: MIT */
/* forward - one step of the model over a frozen plan, on every worker at once.
 *   numerics  a row's result depends on its token, its position and the keys and values of its
 *             sequence alone; how rows, weights and attention are shared out among workers changes
 *             nothing (kernels/README.md)
 *   memory    laid out once by forward_open; nothing is allocated afterwards
 *   owner     exec_cpu; the step runs on the scheduler's thread as worker 0
 *   reading   every weight is read once a step, or once for each portion of rows that a tile has
 *             columns for: weight_bytes counts it once; kv_bytes counts keys and values, once for
 *             all rows that share them in a task; macs counts the products of weights that were
 *             made */
#ifndef QUIRE_KERNELS_FORWARD_H
#define QUIRE_KERNELS_FORWARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/batch.h"
#include "core/model.h"
#include "core/stream.h"
#include "core/workers.h"
#include "kernels/kernels.h"
#include "kernels/kv_layout.h"
#include "kernels/laps.h"
#include "kernels/rope.h"

#define FORWARD_PEAK_LOGITS 4096u /* logits reduced at once: a fixed cut, part of the numerics */
#define FORWARD_ACCS                                                                               \
    4u /* a worker; with fewer attention tasks than this, their splits are shared out */
#define FORWARD_PARTS 8u /* a worker; splits in flight when they are */

/* Where a row's token lives. */
struct forward_row {
    uint32_t pos;
    const uint32_t *blocks; /* block table of its sequence */
};

/* Rows that are attended to together: of one span, or of spans that begin with the same block. */
struct forward_tile {
    uint32_t first; /* in tile_rows */
    uint32_t row_count;
    uint32_t split_count; /* of the row that sees most */
    uint64_t work;        /* keys that its rows see, for the order of tasks */
};

/* One expert of one row (kernels/forward_moe.c). */
struct forward_pick {
    uint32_t expert;
    uint32_t slot;
    float weight;
};

struct forward_worker {
    ATTR_CACHE_LINE struct attn_work attn;
    float *row;              /* [widest input] a row on its way to quantization */
    uint8_t *act[ACT_KINDS]; /* one row of each kind: steps of a single row */
    uint64_t weight_bytes;   /* read in this step */
    uint64_t kv_bytes;       /* keys and values, likewise */
    uint64_t macs;           /* products of weights, likewise */
    char pad[64];            /* neighbours' counters stay off this line */
};

struct forward {
    const struct model *m;
    struct kernels k;
    struct workers *w;
    struct stream *stream; /* where weights come from; NULL = they are in memory */
    struct laps *laps;     /* where time goes; NULL = nobody asks */
    bool act_f32;
    bool reads_apart; /* sequences with common blocks read them one by one */
    struct rope rope;
    struct kv_layout kv;
    uint8_t *kv_base;
    size_t kv_block_bytes;
    uint32_t heads_per_task; /* query heads of one attention task */
    uint32_t wide_cols;      /* floats of a row of wide: q, k, v */
    uint32_t hidden_cols;    /* floats of a row, or slot, of wide: gate, up */
    uint32_t peak_count;     /* of one output */
    /* Once for each output, on any worker, when its logits and peaks are there. */
    void (*finish)(void *ctx, uint32_t worker, uint32_t output);
    void *finish_ctx;

    /* The plan of the step. */
    const struct batch *batch;
    struct forward_row *rows;   /* [rows] */
    struct forward_tile *tiles; /* longest first */
    uint32_t *tile_rows;        /* [rows] the batch's rows, tile after tile */
    uint32_t *span_order;       /* [rows] spans, those with equal block tables side by side */
    uint32_t tile_count;
    uint32_t *output_rows; /* [outputs] */
    uint64_t pair_count;   /* splits of all attention tasks when they are shared out, else 0 */
    atomic_uint *next;     /* [layers] attention tasks handed out */
    atomic_uint *taken;    /* [layers + 1][stages] units of weight rows handed out */

    /* Activations, by row. */
    float *x;         /* [rows][width] the residual stream */
    float *wide;      /* [rows][wide_cols] q, k, v, then [rows or slots][hidden_cols] gate, up;
                       * behind the last layer [hidden_count][width], what executor.hidden gives */
    float *cos, *sin; /* [rows][rope.dim_count] */
    uint8_t *act[ACT_KINDS]; /* quantized input of the next matmul */
    uint8_t *q8;             /* [rows][heads][groups] act_q8_32, where keys are quantized */
    float *logits;           /* [outputs][vocab] */
    struct vec_peak *peaks;  /* [outputs][peak_count] */
    struct attn_part *parts; /* [workers * FORWARD_PARTS] */
    struct attn_part *accs;  /* [workers * FORWARD_ACCS] */
    struct forward_worker *workers;

    /* Mixtures of experts. */
    float *router;              /* [rows][experts] logits */
    struct forward_pick *picks; /* [rows][experts used] strongest first */
    uint32_t *slot_begin;       /* [experts + 1] first slot of each expert */
    uint32_t *slot_row;         /* [slots] */
    float *slot_out;            /* [slots][width] */
};

/* forward_run - computes a step: x, keys and values, and the logits and peaks of every output. The
 * rows and tiles of the plan are filled in already. A workers_fn; ctx is the struct forward. */
void forward_run(void *ctx, uint32_t worker, uint32_t worker_count);

/* forward_taken_count - counters of forward.taken. */
uint32_t forward_taken_count(const struct model *m);

/* forward_widest_input - longest row that is normed or quantized. forward_act_cols - the longest
 * input of each kind of activations; 0 for a kind that no weight takes. */
uint32_t forward_widest_input(const struct model *m);
void forward_act_cols(const struct model *m, bool act_f32, uint32_t cols[ACT_KINDS]);

/* forward_attention_plan - tiles and pair_count of the step, from its rows. */
void forward_attention_plan(struct forward *f, uint32_t worker_count);

/* forward_query_bytes - of a row of q8; 0 where keys are not quantized. */
size_t forward_query_bytes(const struct forward *f);

#endif
