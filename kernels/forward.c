/* SPDX-License-Identifier: MIT */
/* forward - the step. All workers run the same function and meet at barriers; `prepare` and
 * `matmul` are the two kinds of stage:
 *
 *   prepare  rows are normed and quantized: shared out by row, then a barrier. A step of one row
 *            has nothing to share: every worker prepares that row for itself, in its own memory,
 *            and there is no barrier
 *   matmul   weight rows are shared out in units of MATMUL_GRAIN, every worker for all rows of the
 *            step; what follows per element (rotation, append to the cache, silu * up) is done on
 *            the worker's own part
 *
 *   layer    prepare(norm) - q k v, rotate, append | attention | prepare - o, residual |
 *            prepare(norm) - gate up silu | prepare - down, residual |           ( | = barrier)
 *
 * Invariants: 1 x is written only by o and down, each element by the one worker that owns its
 * weight row.
 * 2 wide is q, k, v until o has read it, then gate and up: a barrier lies between. 3 act is read by
 *   matmuls only
 * and written by prepares only; between a matmul and the next prepare lies a barrier.
 * Attention takes its tasks from a counter, since they differ in length; everything else is cut
 * evenly. */
#include "kernels/forward.h"

#include <string.h>

#include "core/must.h"
#include "kernels/dequant.h"

/* One worker's view of the step. */
struct turn {
    struct forward *f;
    struct forward_worker *me;
    uint32_t worker, count;
};

static void barrier(const struct turn *t)
{
    workers_barrier(t->f->w, t->worker);
}

static enum act_kind input_kind(const struct forward *f, const struct weight *w)
{
    return f->act_f32 ? ACT_F32 : act_kind_for(w->type);
}

static uint32_t kind_bit(const struct forward *f, const struct weight *w)
{
    return 1u << input_kind(f, w);
}

/* ---- prepare ---- */

struct prepare {
    const float *src; /* [row][stride] */
    size_t stride;
    uint32_t cols;
    const float *norm; /* weights of the norm that comes first, or NULL */
    uint32_t kinds;    /* set of act kinds wanted */
    uint32_t row_count;
    const struct batch_output *gather; /* row i is gather[i].row; NULL: row i is i */
};

static void prepare_row(const struct turn *t, const struct prepare *p, uint32_t i,
                        uint8_t *const *act)
{
    const struct forward *f = t->f;
    const float *src = p->src + (p->gather != NULL ? p->gather[i].row : i) * p->stride;
    if (p->norm != NULL) {
        f->k.vec.rms_norm(t->me->row, src, p->norm, p->cols, f->m->norm_eps);
        src = t->me->row;
    }
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
        if ((p->kinds >> kind & 1u) != 0)
            f->k.matmul.quantize[kind](act[kind] + i * act_row_bytes((enum act_kind)kind, p->cols),
                                       src, p->cols);
    }
}

static void prepare(const struct turn *t, const struct prepare *p)
{
    if (p->row_count == 1) {
        prepare_row(t, p, 0, t->me->act);
        return;
    }
    uint64_t begin, end;
    workers_range(p->row_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        prepare_row(t, p, (uint32_t)i, t->f->act);
    barrier(t);
}

/* ---- matmul ---- */

struct product {
    const struct weight *w;
    const float *bias;
    float *out;
    size_t out_stride;
    bool accumulate;
    uint32_t row_count;
};

static void multiply(const struct turn *t, const struct product *p, uint32_t begin, uint32_t end)
{
    struct forward *f = t->f;
    enum act_kind kind = input_kind(f, p->w);
    struct act x;
    act_open(&x, kind, p->row_count, p->w->cols,
             p->row_count == 1 ? t->me->act[kind] : f->act[kind]);
    struct matmul m = { .w = *p->w,
                        .x = &x,
                        .x_begin = 0,
                        .x_count = p->row_count,
                        .out = p->out,
                        .out_stride = p->out_stride,
                        .bias = p->bias,
                        .accumulate = p->accumulate };
    matmul_run(&f->k.matmul, &m, begin, end);
    t->me->weight_bytes += (uint64_t)(end - begin) * p->w->row_bytes;
}

/* This worker's rows of each of count matrices that are shared out as one: [begin, end) may be
 * empty. */
struct part {
    uint32_t begin, end;
};

static void share_parts(const struct turn *t, const uint32_t *rows, uint32_t count,
                        struct part *parts)
{
    uint64_t units = 0, first = 0, unit_begin, unit_end;
    for (uint32_t i = 0; i < count; i++)
        units += (rows[i] + MATMUL_GRAIN - 1) / MATMUL_GRAIN;
    workers_range(units, 1, t->worker, t->count, &unit_begin, &unit_end);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t own = (rows[i] + MATMUL_GRAIN - 1) / MATMUL_GRAIN;
        uint64_t begin = unit_begin > first ? unit_begin - first : 0;
        uint64_t end = unit_end > first ? unit_end - first : 0;
        begin = (begin < own ? begin : own) * MATMUL_GRAIN;
        end = (end < own ? end : own) * MATMUL_GRAIN;
        parts[i].begin = (uint32_t)(begin < rows[i] ? begin : rows[i]);
        parts[i].end = (uint32_t)(end < rows[i] ? end : rows[i]);
        first += own;
    }
}

/* A matrix that adds to the residual stream. */
static void project(const struct turn *t, const struct weight *w, const float *bias)
{
    struct part part;
    share_parts(t, &w->rows, 1, &part);
    if (part.begin < part.end)
        multiply(
            t, &(struct product){ w, bias, t->f->x, t->f->m->width, true, t->f->batch->row_count },
            part.begin, part.end);
    barrier(t);
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

static uint8_t *block_of(const struct forward *f, uint32_t block, uint32_t layer, uint32_t kv_head)
{
    return f->kv_base + block * f->kv_block_bytes + kv_layout_head(&f->kv, layer, kv_head);
}

/* Appends elements [begin, end) of a row's keys (or values) to the cache, head by head. */
static void append(const struct forward *f, const float *x, uint32_t row, uint32_t layer,
                   bool values, uint32_t begin, uint32_t end)
{
    uint32_t head_dim = f->m->head_dim, slot = f->rows[row].pos % KV_BLOCK_TOKENS;
    uint16_t half[MODEL_HEAD_DIM_MAX];
    for (uint32_t at = begin; at < end;) {
        uint32_t d = at % head_dim, stop = at - d + head_dim < end ? at - d + head_dim : end;
        uint8_t *base = block_of(f, f->rows[row].block, layer, at / head_dim) +
                        (values ? f->kv.value_offset : 0);
        uint16_t *tile = (uint16_t *)(void *)base;
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

static void query_key_value(const struct turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    const struct model_layer *l = &f->m->layers[layer];
    const struct weight *w[3] = { &l->q, &l->k, &l->v };
    const float *bias[3] = { l->q_bias, l->k_bias, l->v_bias };
    uint32_t rows = f->batch->row_count, sizes[3] = { l->q.rows, l->k.rows, l->v.rows }, offset = 0;
    struct part part[3];
    share_parts(t, sizes, 3, part);
    for (uint32_t i = 0; i < 3; offset += sizes[i], i++) {
        uint32_t begin = part[i].begin, end = part[i].end;
        if (begin == end)
            continue;
        multiply(t, &(struct product){ w[i], bias[i], f->wide + offset, f->wide_cols, false, rows },
                 begin, end);
        for (uint32_t r = 0; r < rows; r++) {
            float *out = f->wide + (size_t)r * f->wide_cols + offset;
            if (i < 2)
                rotate(f, out, r, begin, end);
            if (i > 0)
                append(f, out, r, layer, i == 2, begin, end);
        }
    }
    barrier(t);
}

/* Task number index: tile, KV head, and which part of its query heads. */
static void attention_task(const struct turn *t, uint32_t layer, uint32_t index)
{
    const struct forward *f = t->f;
    const struct model *m = f->m;
    uint32_t group = m->head_count / m->kv_head_count;
    uint32_t pieces = (group + f->heads_per_task - 1) / f->heads_per_task;
    const struct forward_tile *tile = &f->tiles[index / (pieces * m->kv_head_count)];
    uint32_t kv_head = index / pieces % m->kv_head_count,
             first = index % pieces * f->heads_per_task;
    uint32_t heads = group - first < f->heads_per_task ? group - first : f->heads_per_task;
    float *q = f->wide + (size_t)tile->row_begin * f->wide_cols +
               (size_t)(kv_head * group + first) * m->head_dim;
    attn_run(&f->k.attn,
             &(struct attn){ .kv = block_of(f, 0, layer, kv_head),
                             .block_bytes = f->kv_block_bytes,
                             .blocks = f->batch->blocks + f->batch->spans[tile->span].table_begin,
                             .head_dim = m->head_dim,
                             .row_count = tile->row_count,
                             .head_count = heads,
                             .pos_begin = f->rows[tile->row_begin].pos,
                             .scale = m->attn_scale,
                             .q = q,
                             .out = q,
                             .stride = f->wide_cols },
             &t->me->attn);
}

static void attention(const struct turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    uint32_t group = f->m->head_count / f->m->kv_head_count;
    uint32_t pieces = (group + f->heads_per_task - 1) / f->heads_per_task;
    uint32_t tasks = f->tile_count * f->m->kv_head_count * pieces;
    for (;;) {
        uint32_t index = atomic_fetch_add_explicit(&f->next[layer], 1, memory_order_relaxed);
        if (index >= tasks)
            break;
        attention_task(t, layer, index);
    }
    barrier(t);
}

/* ---- feed forward ---- */

static void gate_up(const struct turn *t, const struct model_layer *l)
{
    struct forward *f = t->f;
    uint32_t rows = f->batch->row_count, ff = f->m->ff_width;
    struct part part;
    share_parts(t, &ff, 1, &part);
    if (part.begin < part.end) {
        float *gate = f->wide, *up = f->wide + ff;
        multiply(t, &(struct product){ &l->gate, NULL, gate, f->wide_cols, false, rows },
                 part.begin, part.end);
        multiply(t, &(struct product){ &l->up, NULL, up, f->wide_cols, false, rows }, part.begin,
                 part.end);
        for (uint32_t r = 0; r < rows; r++) {
            float *g = gate + (size_t)r * f->wide_cols + part.begin;
            f->k.vec.silu_mul(g, g, g + ff, part.end - part.begin);
        }
    }
    barrier(t);
}

/* ---- the step ---- */

static void run_layer(const struct turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    const struct model *m = f->m;
    const struct model_layer *l = &m->layers[layer];
    uint32_t rows = f->batch->row_count;
    prepare(t, &(struct prepare){ f->x, m->width, m->width, l->attn_norm,
                                  kind_bit(f, &l->q) | kind_bit(f, &l->k) | kind_bit(f, &l->v),
                                  rows, NULL });
    query_key_value(t, layer);
    attention(t, layer);
    prepare(t, &(struct prepare){ f->wide, f->wide_cols, m->head_count * m->head_dim, NULL,
                                  kind_bit(f, &l->o), rows, NULL });
    project(t, &l->o, l->o_bias);
    prepare(t, &(struct prepare){ f->x, m->width, m->width, l->ffn_norm,
                                  kind_bit(f, &l->gate) | kind_bit(f, &l->up), rows, NULL });
    gate_up(t, l);
    prepare(t, &(struct prepare){ f->wide, f->wide_cols, m->ff_width, NULL, kind_bit(f, &l->down),
                                  rows, NULL });
    project(t, &l->down, NULL);
}

/* Copies are cut by layer, so that one worker does all of them in their order. */
static void copy_blocks(const struct turn *t)
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

static void embed(const struct turn *t)
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

static void output_logits(const struct turn *t)
{
    struct forward *f = t->f;
    const struct model *m = f->m;
    uint32_t outputs = f->batch->output_count, vocab = m->vocab_count;
    prepare(t, &(struct prepare){ f->x, m->width, m->width, m->output_norm, kind_bit(f, &m->output),
                                  outputs, f->batch->outputs });
    struct part part;
    share_parts(t, &vocab, 1, &part);
    if (part.begin < part.end)
        multiply(t, &(struct product){ &m->output, NULL, f->logits, vocab, false, outputs },
                 part.begin, part.end);
    barrier(t);
    uint64_t begin, end;
    workers_range((uint64_t)outputs * f->peak_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++) {
        uint64_t output = i / f->peak_count, first = i % f->peak_count * FORWARD_PEAK_LOGITS;
        uint64_t left = vocab - first;
        f->k.vec.peak(&f->peaks[i], f->logits + output * vocab + first,
                      (uint32_t)(left < FORWARD_PEAK_LOGITS ? left : FORWARD_PEAK_LOGITS));
    }
    barrier(t);
    workers_range(outputs, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        f->finish(f->finish_ctx, t->worker, (uint32_t)i);
}

void forward_run(void *ctx, uint32_t worker, uint32_t worker_count)
{
    struct forward *f = ctx;
    struct turn t = { f, &f->workers[worker], worker, worker_count };
    t.me->weight_bytes = 0;
    copy_blocks(&t);
    if (f->batch->row_count == 0)
        return;
    embed(&t);
    barrier(&t);
    for (uint32_t i = 0; i < f->m->layer_count; i++)
        run_layer(&t, i);
    if (f->batch->output_count > 0)
        output_logits(&t);
}

uint32_t forward_widest_input(const struct model *m)
{
    uint32_t widest = m->width > m->ff_width ? m->width : m->ff_width;
    uint32_t heads = m->head_count * m->head_dim;
    return widest > heads ? widest : heads;
}

uint32_t forward_act_kinds(const struct model *m, bool act_f32)
{
    if (act_f32)
        return 1u << ACT_F32;
    uint32_t kinds = 1u << act_kind_for(m->output.type);
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const struct model_layer *l = &m->layers[i];
        const struct weight *w[] = { &l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down };
        for (size_t p = 0; p < sizeof w / sizeof w[0]; p++)
            kinds |= 1u << act_kind_for(w[p]->type);
    }
    return kinds;
}
