/* SPDX-License-Identifier: MIT */
/* forward_stage - see forward_stage.h.
 * A step of one row has nothing to share out in a prepare: every worker makes that row for itself
 * in its own memory, which costs less than the barrier that it saves. Weight rows are cut in whole
 * units, so that no kernel sees a cut unit and no two workers write near each other; they are taken
 * piece by piece, because cores are never equally fast (kernels/share.h). */
#include "kernels/forward_stage.h"

#include "core/must.h"
#include "kernels/share.h"

enum { PIECE_BYTES_MIN = 128 << 10 }; /* of weights: each piece begins with cold streams */

void forward_barrier(const struct forward_turn *t)
{
    workers_barrier(t->f->w, t->worker);
}

static enum act_kind input_kind(const struct forward *f, const struct weight *w)
{
    return f->act_f32 ? ACT_F32 : act_kind_for(w->type);
}

uint32_t forward_kind_bit(const struct forward *f, const struct weight *w)
{
    return 1u << input_kind(f, w);
}

static void prepare_row(const struct forward_turn *t, const struct forward_prepare *p, uint32_t i,
                        uint8_t *const *act)
{
    const struct forward *f = t->f;
    const float *src = p->src + (p->gather != NULL ? p->gather[i] : i) * p->stride;
    if (p->norm != NULL) {
        f->k.vec.rms_norm(t->me->row, src, p->norm, p->cols, f->m->norm_eps);
        src = t->me->row;
    }
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
        if ((p->kinds >> kind & 1u) == 0)
            continue;
        uint8_t *dst = act[kind] + i * act_row_bytes((enum act_kind)kind, p->cols);
        f->k.matmul.quantize[kind](dst, src, p->cols);
    }
}

void forward_prepare(const struct forward_turn *t, const struct forward_prepare *p)
{
    if (p->row_count == 1) {
        prepare_row(t, p, 0, t->me->act);
        forward_lap(t, LAP_PREPARE);
        return;
    }
    uint64_t begin, end;
    workers_range(p->row_count, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        prepare_row(t, p, (uint32_t)i, t->f->act);
    forward_barrier(t);
    forward_lap(t, LAP_PREPARE);
}

static uint32_t units_of(uint32_t rows)
{
    return (rows + MATMUL_GRAIN - 1) / MATMUL_GRAIN;
}

static uint32_t units_of_all(const uint32_t *rows, uint32_t count)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < count; i++)
        units += units_of(rows[i]);
    return units;
}

/* Units [unit_begin, unit_end) of all matrices as rows of each. */
static void cut(const uint32_t *rows, uint32_t count, uint64_t unit_begin, uint64_t unit_end,
                struct forward_part *parts)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t own = units_of(rows[i]);
        uint64_t begin = unit_begin > first ? unit_begin - first : 0;
        uint64_t end = unit_end > first ? unit_end - first : 0;
        begin = (begin < own ? begin : own) * MATMUL_GRAIN;
        end = (end < own ? end : own) * MATMUL_GRAIN;
        parts[i].begin = (uint32_t)(begin < rows[i] ? begin : rows[i]);
        parts[i].end = (uint32_t)(end < rows[i] ? end : rows[i]);
        first += own;
    }
}

void forward_share(const struct forward_turn *t, const uint32_t *rows, uint32_t count,
                   struct forward_part *parts)
{
    uint64_t begin, end;
    workers_range(units_of_all(rows, count), 1, t->worker, t->count, &begin, &end);
    cut(rows, count, begin, end, parts);
}

/* Units of weight rows that one piece has at least. */
static uint32_t smallest_piece(size_t row_bytes)
{
    return (uint32_t)(PIECE_BYTES_MIN / (row_bytes * MATMUL_GRAIN)) + 1;
}

bool forward_take(const struct forward_turn *t, struct forward_pieces *p, const uint32_t *rows,
                  uint32_t count, struct forward_part *parts)
{
    const struct forward *f = t->f;
    if (t->count == 1 || f->stream != NULL) {
        if (p->over)
            return false;
        p->over = true;
        forward_share(t, rows, count, parts);
        return true;
    }
    atomic_uint *taken = &f->taken[p->layer * STAGE_COUNT + p->stage];
    uint32_t begin, end, smallest = smallest_piece(p->row_bytes);
    if (!share_take(taken, units_of_all(rows, count), smallest, t->count, &begin, &end))
        return false;
    cut(rows, count, begin, end, parts);
    return true;
}

static void count_work(const struct forward_turn *t, const struct matmul *m, uint32_t rows)
{
    t->me->weight_bytes += (uint64_t)rows * m->w.row_bytes;
    t->me->macs += (uint64_t)rows * m->w.cols * m->x_count;
}

/* Weights that come in extents: every worker visits all of them, in the same order, so that none
 * waits for what another has yet to give up; it takes pieces of each until nothing is left. */
static void multiply_streamed(const struct forward_turn *t, const struct matmul *whole,
                              uint32_t matrix)
{
    const struct forward *f = t->f;
    uint32_t extent, last;
    stream_extents(f->stream, matrix, &extent, &last);
    for (; extent < last; extent++) {
        struct matmul m = *whole;
        uint32_t first, end, begin, rows, smallest = smallest_piece(m.w.row_bytes);
        stream_rows(f->stream, extent, &first, &end);
        rows = end - first;
        m.w.data = stream_wait(f->stream, extent, t->worker);
        m.w.rows = rows;
        m.out += first;
        m.bias = m.bias != NULL ? m.bias + first : NULL;
        while (share_take(stream_taken(f->stream, extent), units_of(rows), smallest, t->count,
                          &begin, &end)) {
            begin *= MATMUL_GRAIN;
            end = end * MATMUL_GRAIN < rows ? end * MATMUL_GRAIN : rows;
            matmul_run(&f->k.matmul, &m, begin, end);
            count_work(t, &m, end - begin);
        }
        stream_done(f->stream, extent);
    }
}

void forward_settle(const struct forward_turn *t)
{
    if (t->f->stream != NULL)
        forward_barrier(t);
}

void forward_multiply(const struct forward_turn *t, const struct forward_product *p,
                      struct forward_part part)
{
    struct forward *f = t->f;
    if (p->x_count == 0 || (f->stream == NULL && part.begin == part.end))
        return;
    enum act_kind kind = input_kind(f, p->w);
    struct act x;
    act_open(&x, kind, p->input_count, p->w->cols,
             p->input_count == 1 ? t->me->act[kind] : f->act[kind]);
    struct matmul m = { .w = *p->w,
                        .x = &x,
                        .x_begin = p->x_begin,
                        .x_count = p->x_count,
                        .out = p->out,
                        .out_stride = p->out_stride,
                        .bias = p->bias,
                        .accumulate = p->accumulate };
    uint32_t matrix = f->stream != NULL ? stream_find(f->stream, p->w->data) : STREAM_NONE;
    if (matrix != STREAM_NONE) {
        multiply_streamed(t, &m, matrix);
        return;
    }
    matmul_run(&f->k.matmul, &m, part.begin, part.end);
    count_work(t, &m, part.end - part.begin);
}
