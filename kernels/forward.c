/* SPDX-License-Identifier: MIT */
/* forward - the step. All workers run the same function and meet at barriers, shown as | :
 *
 *   layer  prepare(norm) - q k v, rotate, append to the cache | attention |
 *          prepare - o, residual | prepare(norm) - gate up silu | prepare - down, residual |
 *
 * A quantized cache takes whole heads, which a worker's part of q k v may not be: there rows and
 * heads are shared out anew after one more barrier (forward_quantize_heads).
 * In a prepare, rows are shared out, and it ends with a barrier of its own unless the step has one
 * row. In a matmul, weight rows are shared out, every worker for all rows of the step; what follows
 * for each element (rotation, append, silu * up) is done on the worker's own part. So no weight is
 * read by two workers. Attention takes its tasks from a counter, since they differ in length.
 * Invariants
 *   1 x is written only by o and down, each element by the one worker that owns its weight row
 *   2 wide is q, k, v until o has read it, then gate and up: a barrier lies between
 *   3 act is written by prepares and read by matmuls: between a matmul and the next prepare, and
 *     between a shared prepare and its matmul, lies a barrier */
#include "kernels/forward_stage.h"

#include <string.h>

#include "core/must.h"
#include "kernels/dequant.h"

/* A matrix that adds to the residual stream. */
static void project(const struct forward_turn *t, uint32_t layer, enum forward_stage stage,
                    const struct weight *w, const float *bias)
{
    struct forward *f = t->f;
    struct forward_pieces pieces = { layer, stage, w->row_bytes, false };
    struct forward_product product = { .w = w,
                                       .bias = bias,
                                       .out = f->x,
                                       .out_stride = f->m->width,
                                       .accumulate = true,
                                       .input_count = f->batch->row_count,
                                       .x_count = f->batch->row_count };
    struct forward_part part;
    while (forward_take(t, &pieces, &w->rows, 1, &part))
        forward_multiply(t, &product, part);
    forward_barrier(t);
    forward_lap(t, stage == STAGE_O ? LAP_O : LAP_DOWN);
}

/* ---- attention ---- */

/* Rotates elements [begin, end) of a row's heads. Units are whole pairs, so no pair is cut. */
static void rotate(const struct forward *f, float *x, uint32_t row, uint32_t begin, uint32_t end)
{
    uint32_t head_dim = f->m->head_dim, dims = f->rope.dim_count;
    const float *cos = f->cos + (size_t)row * dims, *sin = f->sin + (size_t)row * dims;
    for (uint32_t at = begin; at < end;) {
        uint32_t d = at % head_dim, next = at - d + head_dim;
        uint32_t stop = next < end ? next : end;
        uint32_t turning = at - d + dims < stop ? at - d + dims : stop;
        if (turning > at)
            f->k.vec.rope_pairs(x + at, cos + d, sin + d, turning - at);
        at = stop;
    }
}

/* Appends elements [begin, end) of a row's keys (or values) to a cache of f16, head by head. */
static void append(const struct forward *f, const float *x, uint32_t row, uint32_t layer,
                   bool values, uint32_t begin, uint32_t end)
{
    uint32_t head_dim = f->m->head_dim, slot = f->rows[row].pos % KV_BLOCK_TOKENS;
    uint16_t half[MODEL_HEAD_DIM_MAX];
    for (uint32_t at = begin; at < end;) {
        uint32_t d = at % head_dim, stop = at - d + head_dim < end ? at - d + head_dim : end;
        uint8_t *base = forward_cache(f, row, layer, at / head_dim);
        uint16_t *tile = (uint16_t *)(void *)(base + (values ? f->kv.value_offset : 0));
        if (values) {
            f->k.vec.to_f16(tile + (size_t)slot * head_dim + d, x + at, stop - at);
        } else {
            f->k.vec.to_f16(half, x + at, stop - at);
            for (uint32_t i = 0; i < stop - at; i++)
                tile[(d + i) * KV_BLOCK_TOKENS + slot] = half[i];
        }
        at = stop;
    }
}

/* Parts of q, k and v: multiplied, rotated, appended. */
static void query_key_value_parts(const struct forward_turn *t, uint32_t layer,
                                  const uint32_t sizes[3], const struct forward_part part[3])
{
    struct forward *f = t->f;
    const struct model_layer *l = &f->m->layers[layer];
    const struct weight *w[3] = { &l->q, &l->k, &l->v };
    const float *bias[3] = { l->q_bias, l->k_bias, l->v_bias };
    const bool whole[3] = { false, f->kv.types.k != KV_F16, f->kv.types.v != KV_F16 };
    const uint32_t rows = f->batch->row_count;
    uint32_t offset = 0;
    for (uint32_t i = 0; i < 3; offset += sizes[i], i++) {
        forward_multiply(t,
                         &(struct forward_product){ .w = w[i],
                                                    .bias = bias[i],
                                                    .out = f->wide + offset,
                                                    .out_stride = f->wide_cols,
                                                    .input_count = rows,
                                                    .x_count = rows },
                         part[i]);
    }
    forward_settle(t);
    offset = 0;
    for (uint32_t i = 0; i < 3; offset += sizes[i], i++) {
        uint32_t begin = part[i].begin, end = part[i].end;
        for (uint32_t r = 0; r < rows && begin < end; r++) {
            float *out = f->wide + (size_t)r * f->wide_cols + offset;
            if (i < 2)
                rotate(f, out, r, begin, end);
            if (i > 0 && !whole[i])
                append(f, out, r, layer, i == 2, begin, end);
        }
    }
}

static void query_key_value(const struct forward_turn *t, uint32_t layer)
{
    const struct model_layer *l = &t->f->m->layers[layer];
    const uint32_t sizes[3] = { l->q.rows, l->k.rows, l->v.rows };
    struct forward_pieces pieces = { layer, STAGE_QKV, l->q.row_bytes, false };
    struct forward_part part[3];
    while (forward_take(t, &pieces, sizes, 3, part))
        query_key_value_parts(t, layer, sizes, part);
    if (t->f->kv.types.k != KV_F16 || t->f->kv.types.v != KV_F16)
        forward_quantize_heads(t, layer);
    forward_barrier(t);
    forward_lap(t, LAP_QKV);
}

/* ---- feed forward ---- */

static void gate_up(const struct forward_turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    const struct model_layer *l = &f->m->layers[layer];
    uint32_t rows = f->batch->row_count, ff = f->m->ff_width;
    struct forward_pieces pieces = { layer, STAGE_GATE_UP, l->gate.row_bytes + l->up.row_bytes,
                                     false };
    struct forward_part part;
    struct forward_product gate = { .w = &l->gate,
                                    .out = f->wide,
                                    .out_stride = f->hidden_cols,
                                    .input_count = rows,
                                    .x_count = rows };
    struct forward_product up = gate;
    up.w = &l->up;
    up.out = f->wide + ff;
    while (forward_take(t, &pieces, &ff, 1, &part)) {
        forward_multiply(t, &gate, part);
        forward_multiply(t, &up, part);
        forward_settle(t);
        for (uint32_t r = 0; r < rows && part.begin < part.end; r++) {
            float *g = f->wide + (size_t)r * f->hidden_cols + part.begin;
            f->k.vec.silu_mul(g, g, g + ff, part.end - part.begin);
        }
    }
    forward_barrier(t);
    forward_lap(t, LAP_GATE_UP);
}

static void feed_forward(const struct forward_turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    const struct model_layer *l = &f->m->layers[layer];
    uint32_t rows = f->batch->row_count;
    uint32_t kinds = forward_kind_bit(f, &l->gate) | forward_kind_bit(f, &l->up);
    forward_prepare(t, &(struct forward_prepare){ .src = f->x,
                                                  .stride = f->m->width,
                                                  .cols = f->m->width,
                                                  .norm = l->ffn_norm,
                                                  .kinds = kinds,
                                                  .row_count = rows });
    gate_up(t, layer);
    forward_prepare(t, &(struct forward_prepare){ .src = f->wide,
                                                  .stride = f->hidden_cols,
                                                  .cols = f->m->ff_width,
                                                  .kinds = forward_kind_bit(f, &l->down),
                                                  .row_count = rows });
    project(t, layer, STAGE_DOWN, &l->down, NULL);
}

/* ---- the step ---- */

/* From here on time counts for this layer; for none of them when it is their number. */
static void enter_layer(const struct forward_turn *t, uint32_t layer)
{
    if (t->f->laps != NULL && t->worker == 0)
        t->f->laps->layer = layer;
}

static void run_layer(const struct forward_turn *t, uint32_t layer)
{
    enter_layer(t, layer);
    struct forward *f = t->f;
    const struct model *m = f->m;
    const struct model_layer *l = &m->layers[layer];
    uint32_t rows = f->batch->row_count, kinds = forward_kind_bit(f, &l->q);
    kinds |= forward_kind_bit(f, &l->k) | forward_kind_bit(f, &l->v);
    forward_prepare(t, &(struct forward_prepare){ .src = f->x,
                                                  .stride = m->width,
                                                  .cols = m->width,
                                                  .norm = l->attn_norm,
                                                  .kinds = kinds,
                                                  .row_count = rows });
    query_key_value(t, layer);
    forward_attention(t, layer);
    forward_prepare(t, &(struct forward_prepare){ .src = f->wide,
                                                  .stride = f->wide_cols,
                                                  .cols = m->head_count * m->head_dim,
                                                  .kinds = forward_kind_bit(f, &l->o),
                                                  .row_count = rows });
    project(t, layer, STAGE_O, &l->o, l->o_bias);
    if (l->router.data != NULL)
        forward_mixture(t, l);
    else
        feed_forward(t, layer);
}

/* Copies are cut by layer, so that one worker does all of them in their order. */
static void copy_blocks(const struct forward_turn *t)
{
    const struct forward *f = t->f;
    uint64_t begin, end;
    workers_range(f->m->layer_count, 1, t->worker, t->count, &begin, &end);
    for (uint32_t i = 0; i < f->batch->copy_count; i++) {
        const struct batch_copy *c = &f->batch->copies[i];
        kv_layout_copy(&f->kv, f->kv_base + c->dst_block * f->kv_block_bytes,
                       f->kv_base + c->src_block * f->kv_block_bytes, c->token_count,
                       (uint32_t)begin, (uint32_t)end);
    }
}

static void embed(const struct forward_turn *t)
{
    struct forward *f = t->f;
    const struct weight *w = &f->m->embed;
    uint64_t begin, end;
    workers_range(f->batch->row_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t r = begin; r < end; r++) {
        uint32_t token = (uint32_t)f->batch->tokens[r];
        dequant_row(w->type, w->data + token * w->row_bytes, f->x + r * f->m->width, f->m->width);
        rope_angles(&f->rope, f->rows[r].pos, f->cos + r * f->rope.dim_count,
                    f->sin + r * f->rope.dim_count);
    }
}

static void output_logits(const struct forward_turn *t)
{
    struct forward *f = t->f;
    const struct model *m = f->m;
    uint32_t outputs = f->batch->output_count, vocab = m->vocab_count;
    struct forward_pieces pieces = { m->layer_count, STAGE_QKV, m->output.row_bytes, false };
    struct forward_part part;
    forward_prepare(t, &(struct forward_prepare){ .src = f->x,
                                                  .stride = m->width,
                                                  .cols = m->width,
                                                  .norm = m->output_norm,
                                                  .kinds = forward_kind_bit(f, &m->output),
                                                  .row_count = outputs,
                                                  .gather = f->output_rows });
    while (forward_take(t, &pieces, &vocab, 1, &part))
        forward_multiply(t,
                         &(struct forward_product){ .w = &m->output,
                                                    .out = f->logits,
                                                    .out_stride = vocab,
                                                    .input_count = outputs,
                                                    .x_count = outputs },
                         part);
    forward_barrier(t);
    forward_lap(t, LAP_OUTPUT);
    uint64_t begin, end;
    workers_range((uint64_t)outputs * f->peak_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++) {
        uint64_t output = i / f->peak_count, first = i % f->peak_count * FORWARD_PEAK_LOGITS;
        uint64_t left = vocab - first;
        f->k.vec.peak(&f->peaks[i], f->logits + output * vocab + first,
                      (uint32_t)(left < FORWARD_PEAK_LOGITS ? left : FORWARD_PEAK_LOGITS));
    }
    forward_barrier(t);
    workers_range(outputs, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        f->finish(f->finish_ctx, t->worker, (uint32_t)i);
    forward_lap(t, LAP_SAMPLE);
}

/* Rows whose hidden state is wanted, normed as for the output matrix, into wide: a function of the
 * row alone. Nobody reads wide any more. */
static void show_hidden(const struct forward_turn *t)
{
    struct forward *f = t->f;
    const uint32_t width = f->m->width;
    uint64_t begin, end;
    workers_range(f->batch->hidden_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        f->k.vec.rms_norm(f->wide + i * width, f->x + (size_t)f->batch->hidden[i] * width,
                          f->m->output_norm, width, f->m->norm_eps);
}

void forward_run(void *ctx, uint32_t worker, uint32_t worker_count)
{
    struct forward *f = ctx;
    struct forward_turn t = { f, &f->workers[worker], worker, worker_count };
    t.me->weight_bytes = t.me->kv_bytes = t.me->macs = 0;
    copy_blocks(&t);
    if (f->batch->row_count == 0)
        return;
    embed(&t);
    forward_barrier(&t);
    forward_lap(&t, LAP_EMBED);
    for (uint32_t i = 0; i < f->m->layer_count; i++)
        run_layer(&t, i);
    show_hidden(&t);
    enter_layer(&t, f->m->layer_count);
    if (f->batch->output_count > 0)
        output_logits(&t);
}

uint32_t forward_taken_count(const struct model *m)
{
    return (m->layer_count + 1) * STAGE_COUNT;
}

uint32_t forward_widest_input(const struct model *m)
{
    uint32_t widest = m->width > m->ff_width ? m->width : m->ff_width;
    uint32_t heads = m->head_count * m->head_dim;
    return widest > heads ? widest : heads;
}

void forward_act_cols(const struct model *m, bool act_f32, uint32_t cols[ACT_KINDS])
{
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++)
        cols[kind] = 0;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const struct model_layer *l = &m->layers[i];
        const struct weight *w[] = { &l->q,  &l->k,    &l->v,      &l->o,     &l->gate,
                                     &l->up, &l->down, &l->router, &m->output };
        for (size_t p = 0; p < sizeof w / sizeof w[0]; p++) {
            if (w[p]->data == NULL)
                continue;
            enum act_kind kind = act_f32 ? ACT_F32 : act_kind_for(w[p]->type);
            cols[kind] = w[p]->cols > cols[kind] ? w[p]->cols : cols[kind];
        }
    }
}
