/* SPDX-License-Identifier: MIT */
/* forward_moe - the feed-forward part of a layer that is a mixture of experts.
 *
 *   router logits | each row picks its experts | picks are sorted by expert into slots |
 *   prepare(slots) - gate up silu, expert by expert | prepare - down, into slots | rows add up
 *   their slots
 *
 * A slot is one (row, expert). Slots of an expert are consecutive, so each expert that was picked
 * at all is read once, for all its rows. A row's result is its own slots' in the order of its
 * picks, the strongest first: which other rows share an expert changes nothing.
 * Weights of the picks: exp(logit - largest), divided by their sum over the picks. */
#include "kernels/expf.h"
#include "kernels/forward_stage.h"

/* The strongest experts of a row, best first, lowest number first among equals. A NaN is as good as
 * any: the row is lost, but every pick is a valid expert. */
static void pick_experts(const struct forward *f, uint32_t row)
{
    const struct model *m = f->m;
    const float *logits = f->router + (size_t)row * m->expert_count;
    struct forward_pick *picks = f->picks + (size_t)row * m->expert_used_count;
    float sum = 0;
    for (uint32_t k = 0; k < m->expert_used_count; k++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < m->expert_count; e++) {
            bool taken = false;
            for (uint32_t i = 0; i < k; i++)
                taken = taken || picks[i].expert == e;
            if (!taken && (best == UINT32_MAX || logits[e] > logits[best]))
                best = e;
        }
        picks[k].expert = best;
        picks[k].weight = exp_ref(logits[best] - logits[picks[0].expert]);
        sum += picks[k].weight;
    }
    for (uint32_t k = 0; k < m->expert_used_count; k++)
        picks[k].weight /= sum;
}

/* Counting sort of all picks by expert; rows ascending within an expert. */
static void sort_picks(const struct forward *f)
{
    const struct model *m = f->m;
    uint32_t picks = f->batch->row_count * m->expert_used_count;
    for (uint32_t e = 0; e <= m->expert_count; e++)
        f->slot_begin[e] = 0;
    for (uint32_t i = 0; i < picks; i++)
        f->slot_begin[f->picks[i].expert + 1]++;
    for (uint32_t e = 0; e < m->expert_count; e++)
        f->slot_begin[e + 1] += f->slot_begin[e];
    for (uint32_t i = 0; i < picks; i++) {
        uint32_t slot = f->slot_begin[f->picks[i].expert]++;
        f->picks[i].slot = slot;
        f->slot_row[slot] = i / m->expert_used_count;
    }
    for (uint32_t e = m->expert_count; e > 0; e--) /* Each begin has moved to its end. */
        f->slot_begin[e] = f->slot_begin[e - 1];
    f->slot_begin[0] = 0;
}

/* Has the experts read that some row picked. */
static void choose_experts(const struct forward *f, const struct model_layer *l)
{
    const struct weight *parts[] = { &l->gate, &l->up, &l->down };
    uint32_t matrices[3 * MODEL_EXPERTS_MAX], count = 0;
    for (uint32_t e = 0; e < f->m->expert_count; e++) {
        for (uint32_t p = 0; p < 3 && f->slot_begin[e] < f->slot_begin[e + 1]; p++) {
            struct weight slice = weight_slice(parts[p], e);
            matrices[count++] = stream_find(f->stream, slice.data);
        }
    }
    stream_choose(f->stream, matrices, count);
}

static void route(const struct forward_turn *t, const struct model_layer *l)
{
    struct forward *f = t->f;
    uint32_t rows = f->batch->row_count;
    struct forward_part part;
    forward_prepare(t, &(struct forward_prepare){ .src = f->x,
                                                  .stride = f->m->width,
                                                  .cols = f->m->width,
                                                  .norm = l->ffn_norm,
                                                  .kinds = forward_kind_bit(f, &l->router),
                                                  .row_count = rows });
    forward_share(t, &l->router.rows, 1, &part);
    forward_multiply(t,
                     &(struct forward_product){ .w = &l->router,
                                                .out = f->router,
                                                .out_stride = f->m->expert_count,
                                                .input_count = rows,
                                                .x_count = rows },
                     part);
    forward_barrier(t);
    uint64_t begin, end;
    workers_range(rows, 1, t->worker, t->count, &begin, &end);
    for (uint64_t r = begin; r < end; r++)
        pick_experts(f, (uint32_t)r);
    forward_barrier(t);
    if (t->worker == 0) {
        sort_picks(f);
        if (f->stream != NULL)
            choose_experts(f, l);
    }
    forward_barrier(t);
    forward_lap(t, LAP_ROUTE);
}

/* This worker's part of a matrix of rows rows of every expert that has slots. */
static void share_experts(const struct forward_turn *t, uint32_t rows, struct forward_part *parts)
{
    const struct forward *f = t->f;
    uint32_t wanted[MODEL_EXPERTS_MAX] = { 0 };
    for (uint32_t e = 0; e < f->m->expert_count; e++) {
        if (f->slot_begin[e] < f->slot_begin[e + 1])
            wanted[e] = rows;
    }
    forward_share(t, wanted, f->m->expert_count, parts);
}

static void multiply_experts(const struct forward_turn *t, const struct weight *w,
                             const struct forward_part *parts, float *out, size_t stride)
{
    struct forward *f = t->f;
    for (uint32_t e = 0; e < f->m->expert_count; e++) {
        struct weight slice = weight_slice(w, e);
        uint32_t first = f->slot_begin[e];
        forward_multiply(
            t,
            &(struct forward_product){ .w = &slice,
                                       .out = out + first * stride,
                                       .out_stride = stride,
                                       .input_count = f->slot_begin[f->m->expert_count],
                                       .x_begin = first,
                                       .x_count = f->slot_begin[e + 1] - first },
            parts[e]);
    }
}

static void gate_up(const struct forward_turn *t, const struct model_layer *l)
{
    struct forward *f = t->f;
    struct forward_part parts[MODEL_EXPERTS_MAX];
    uint32_t ff = f->m->ff_width;
    share_experts(t, ff, parts);
    multiply_experts(t, &l->gate, parts, f->wide, f->hidden_cols);
    multiply_experts(t, &l->up, parts, f->wide + ff, f->hidden_cols);
    forward_settle(t);
    for (uint32_t e = 0; e < f->m->expert_count; e++) {
        uint32_t n = parts[e].end - parts[e].begin;
        for (uint32_t s = f->slot_begin[e]; n > 0 && s < f->slot_begin[e + 1]; s++) {
            float *g = f->wide + (size_t)s * f->hidden_cols + parts[e].begin;
            f->k.vec.silu_mul(g, g, g + ff, n);
        }
    }
    forward_barrier(t);
    forward_lap(t, LAP_GATE_UP);
}

static void down(const struct forward_turn *t, const struct model_layer *l)
{
    struct forward_part parts[MODEL_EXPERTS_MAX];
    share_experts(t, t->f->m->width, parts);
    multiply_experts(t, &l->down, parts, t->f->slot_out, t->f->m->width);
    forward_barrier(t);
}

/* Each row adds up its slots. */
static void gather_slots(const struct forward_turn *t)
{
    struct forward *f = t->f;
    const uint32_t used = f->m->expert_used_count, width = f->m->width;
    uint64_t begin, end;
    workers_range(f->batch->row_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t r = begin; r < end; r++) {
        const struct forward_pick *picks = f->picks + r * used;
        for (uint32_t k = 0; k < used; k++)
            f->k.vec.add_scaled(f->x + r * width, f->slot_out + (size_t)picks[k].slot * width,
                                picks[k].weight, width);
    }
    forward_barrier(t);
    forward_lap(t, LAP_DOWN);
}

void forward_mixture(const struct forward_turn *t, const struct model_layer *l)
{
    struct forward *f = t->f;
    const struct model *m = f->m;
    route(t, l);
    uint32_t slots = f->slot_begin[m->expert_count];
    uint32_t kinds = forward_kind_bit(f, &l->gate) | forward_kind_bit(f, &l->up);
    forward_prepare(t, &(struct forward_prepare){ .src = f->x,
                                                  .stride = m->width,
                                                  .cols = m->width,
                                                  .norm = l->ffn_norm,
                                                  .kinds = kinds,
                                                  .row_count = slots,
                                                  .gather = f->slot_row });
    gate_up(t, l);
    forward_prepare(t, &(struct forward_prepare){ .src = f->wide,
                                                  .stride = f->hidden_cols,
                                                  .cols = m->ff_width,
                                                  .kinds = forward_kind_bit(f, &l->down),
                                                  .row_count = slots });
    down(t, l);
    gather_slots(t);
}
