/* SPDX-License-Identifier: MIT */
/* forward_attn - which rows are attended to together, and who computes which piece. The bits are
 * the same either way: the splits of a row are at absolute positions and are merged left to right,
 * whoever made them and beside whichever rows.
 *
 *   tiles       rows of one span, and of spans whose tables begin with the same block: side by
 *               side, in the order of their tables, so that a block of several rows is read once
 *   many tasks  (tile, KV head, heads) are handed out by a counter, longest first; a task walks all
 *               its splits
 *   few tasks   (one or a few rows over a long context) the splits of all tasks are shared out
 *               evenly in waves of as many as there are parts; after each wave every task merges
 *               its own
 *
 * A task writes its result over its queries, which nobody else reads. */
#include <stdlib.h>
#include <string.h>

#include "core/must.h"
#include "kernels/act.h"
#include "kernels/forward_stage.h"

static uint32_t pieces_of(const struct forward *f)
{
    uint32_t group = f->m->head_count / f->m->kv_head_count;
    return (group + f->heads_per_task - 1) / f->heads_per_task;
}

static uint32_t task_count(const struct forward *f)
{
    return f->tile_count * f->m->kv_head_count * pieces_of(f);
}

/* ---- quantized caches ---- */

size_t forward_query_bytes(const struct forward *f)
{
    const struct model *m = f->m;
    if (f->kv.types.k == KV_F16)
        return 0;
    return m->head_count * (m->head_dim / KV_GROUP) * sizeof(struct act_q8_32);
}

/* One head of a row, in place: queries first, then keys, then values. */
static void quantize_head(const struct forward *f, uint32_t layer, uint32_t row, uint32_t head)
{
    const struct model *m = f->m;
    const uint32_t dim = m->head_dim, size = kv_rotation_size(dim);
    const uint32_t token = f->rows[row].pos % KV_BLOCK_TOKENS;
    const struct kv_types types = f->kv.types;
    float *x = f->wide + (size_t)row * f->wide_cols + (size_t)head * dim;
    if (head < m->head_count) {
        if (types.k == KV_F16)
            return;
        uint8_t *dst = f->q8 + row * forward_query_bytes(f);
        f->k.vec.hadamard(x, dim, size, m->attn_scale / (float)size);
        f->k.matmul.quantize[ACT_Q8_32](dst + head * (dim / KV_GROUP) * sizeof(struct act_q8_32), x,
                                        dim);
        return;
    }
    uint32_t kv_head = (head - m->head_count) % m->kv_head_count;
    bool value = head - m->head_count >= m->kv_head_count;
    enum kv_type type = value ? types.v : types.k;
    if (type == KV_F16)
        return;
    uint8_t *cache = forward_cache(f, row, layer, kv_head);
    f->k.vec.hadamard(x, dim, size, 1.0f);
    if (value)
        kv_append_value(type, cache + f->kv.value_offset, dim, token, x);
    else
        kv_append_key(type, cache, dim, token, x);
}

void forward_quantize_heads(const struct forward_turn *t, uint32_t layer)
{
    const struct forward *f = t->f;
    const uint32_t heads = f->m->head_count + 2 * f->m->kv_head_count;
    uint64_t begin, end;
    forward_barrier(t);
    workers_range((uint64_t)f->batch->row_count * heads, 1, t->worker, t->count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        quantize_head(f, layer, (uint32_t)(i / heads), (uint32_t)(i % heads));
}

/* ---- tasks ---- */

struct task {
    struct attn a;
    struct attn_row rows[ATTN_COLS_MAX];
};

/* Task number index: tile, KV head, and which part of its query heads. */
static void open_task(struct task *task, const struct forward *f, uint32_t layer, uint32_t index)
{
    const struct model *m = f->m;
    uint32_t group = m->head_count / m->kv_head_count, pieces = pieces_of(f);
    const struct forward_tile *tile = &f->tiles[index / (pieces * m->kv_head_count)];
    uint32_t kv_head = index / pieces % m->kv_head_count;
    uint32_t first = index % pieces * f->heads_per_task, head = kv_head * group + first;
    size_t q8_row = forward_query_bytes(f), q8_head = q8_row / m->head_count;
    for (uint32_t i = 0; i < tile->row_count; i++) {
        uint32_t row = f->tile_rows[tile->first + i];
        float *q = f->wide + (size_t)row * f->wide_cols + (size_t)head * m->head_dim;
        task->rows[i] = (struct attn_row){ f->rows[row].blocks, f->rows[row].pos, q, q };
        if (q8_row > 0)
            task->rows[i].q = f->q8 + row * q8_row + head * q8_head;
    }
    task->a = (struct attn){
        .kv = f->kv_base + kv_layout_head(&f->kv, layer, kv_head),
        .block_bytes = f->kv_block_bytes,
        .value_offset = f->kv.value_offset,
        .types = f->kv.types,
        .head_dim = m->head_dim,
        .row_count = tile->row_count,
        .head_count = group - first < f->heads_per_task ? group - first : f->heads_per_task,
        .scale = m->attn_scale,
        .rows = task->rows,
    };
}

/* Values that were rotated are turned back in their weighted sum. */
static void turn_back(const struct forward *f, const struct attn *a)
{
    const uint32_t size = kv_rotation_size(a->head_dim);
    if (a->types.v == KV_F16)
        return;
    for (uint32_t r = 0; r < a->row_count; r++)
        f->k.vec.hadamard(a->rows[r].out, a->head_count * a->head_dim, size, 1.0f / (float)size);
}

static void count_reads(const struct forward_turn *t, const struct attn *a, uint32_t split)
{
    t->me->kv_bytes += (uint64_t)attn_split_reads(a, split) * t->f->kv.head_bytes;
}

static void run_whole(const struct forward_turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    uint32_t tasks = task_count(f);
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&f->next[layer], 1, memory_order_relaxed);
        if (i >= tasks)
            return;
        struct task task;
        open_task(&task, f, layer, i);
        attn_run(&f->k.attn, &task.a, &t->me->attn);
        turn_back(f, &task.a);
        for (uint32_t s = 0; s < attn_split_count(&task.a); s++)
            count_reads(t, &task.a, s);
    }
}

/* One split of one task. Pairs are numbered task after task, splits ascending. */
struct pair {
    uint32_t task, split;
    bool opened; /* the task's number changed when not */
};

static uint32_t splits_of(const struct forward *f, uint32_t task)
{
    return f->tiles[task / (pieces_of(f) * f->m->kv_head_count)].split_count;
}

static struct pair find_pair(const struct forward *f, uint64_t index)
{
    uint32_t task = 0;
    for (; index >= splits_of(f, task); task++)
        index -= splits_of(f, task);
    return (struct pair){ task, (uint32_t)index, false };
}

static void next_pair(struct pair *p, const struct forward *f)
{
    if (++p->split < splits_of(f, p->task))
        return;
    *p = (struct pair){ p->task + 1, 0, false };
}

static void use_pair(struct pair *p, struct task *task, const struct forward *f, uint32_t layer)
{
    if (!p->opened)
        open_task(task, f, layer, p->task);
    p->opened = true;
}

/* Merges the pairs [begin, end) of the tasks that are this worker's. */
static void merge_wave(const struct forward_turn *t, uint32_t layer, uint64_t begin, uint64_t end)
{
    struct forward *f = t->f;
    struct task task;
    struct pair p = find_pair(f, begin);
    for (uint64_t i = begin; i < end; i++, next_pair(&p, f)) {
        if (p.task % t->count != t->worker)
            continue;
        use_pair(&p, &task, f, layer);
        attn_take(&f->k.attn, &task.a, p.split, &f->accs[p.task], &f->parts[i - begin]);
        if (p.split + 1 < splits_of(f, p.task))
            continue;
        attn_store(&f->k.attn, &task.a, &f->accs[p.task]);
        turn_back(f, &task.a);
    }
}

static void run_split(const struct forward_turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    const uint64_t pairs = f->pair_count, parts = (uint64_t)FORWARD_PARTS * t->count;
    for (uint64_t wave = 0; wave < pairs; wave += parts) {
        uint64_t size = pairs - wave < parts ? pairs - wave : parts, begin, end;
        workers_range(size, 1, t->worker, t->count, &begin, &end);
        struct task task;
        struct pair p = { 0, 0, false };
        if (begin < end)
            p = find_pair(f, wave + begin);
        for (uint64_t i = begin; i < end; i++, next_pair(&p, f)) {
            use_pair(&p, &task, f, layer);
            f->k.attn.split(&task.a, p.split, &t->me->attn, &f->parts[i]);
            count_reads(t, &task.a, p.split);
        }
        forward_barrier(t);
        merge_wave(t, layer, wave, wave + size);
        if (wave + size < pairs)
            forward_barrier(t);
    }
}

void forward_attention(const struct forward_turn *t, uint32_t layer)
{
    if (t->f->pair_count == 0)
        run_whole(t, layer);
    else
        run_split(t, layer);
    forward_barrier(t);
    forward_lap(t, LAP_ATTENTION);
}

/* ---- the plan ---- */

/* Blocks that a span's rows see. */
static uint32_t blocks_of(const struct batch_span *s)
{
    return (s->pos_begin + s->row_count - 1) / KV_BLOCK_TOKENS + 1;
}

/* Spans in the order of their tables: equal beginnings are side by side. */
static int compare_spans(const void *a, const void *b, void *ctx)
{
    const struct batch *batch = ((const struct forward *)ctx)->batch;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct batch_span *x = &batch->spans[i], *y = &batch->spans[k];
    uint32_t common = blocks_of(x) < blocks_of(y) ? blocks_of(x) : blocks_of(y);
    int order = memcmp(x->table, y->table, common * sizeof *x->table);
    if (order != 0)
        return order;
    return i < k ? -1 : i > k;
}

static int compare_tiles(const void *a, const void *b)
{
    const struct forward_tile *x = a, *y = b;
    if (x->work != y->work)
        return x->work > y->work ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static void add_to_tile(struct forward *f, uint32_t at, bool begin)
{
    const struct forward_row *row = &f->rows[f->tile_rows[at]];
    if (begin)
        f->tiles[f->tile_count++] = (struct forward_tile){ .first = at };
    struct forward_tile *tile = &f->tiles[f->tile_count - 1];
    uint32_t splits = row->pos / KV_SPLIT_TOKENS + 1;
    tile->row_count++;
    tile->work += row->pos + 1;
    tile->split_count = splits > tile->split_count ? splits : tile->split_count;
}

void forward_attention_plan(struct forward *f, uint32_t worker_count)
{
    const struct batch *b = f->batch;
    const uint32_t tile_rows = ATTN_COLS_MAX / f->heads_per_task;
    uint32_t at = 0;
    f->tile_count = 0;
    for (uint32_t i = 0; i < b->span_count; i++)
        f->span_order[i] = i;
    qsort_r(f->span_order, b->span_count, sizeof *f->span_order, compare_spans, f);
    for (uint32_t i = 0; i < b->span_count; i++) {
        const struct batch_span *span = &b->spans[f->span_order[i]];
        for (uint32_t r = 0; r < span->row_count; r++, at++) {
            const struct forward_tile *last = &f->tiles[f->tile_count - (f->tile_count > 0)];
            f->tile_rows[at] = span->row_begin + r;
            bool joins =
                f->tile_count > 0 && last->row_count < tile_rows && (r > 0 || !f->reads_apart) &&
                f->rows[f->tile_rows[last->first]].blocks[0] == f->rows[f->tile_rows[at]].blocks[0];
            add_to_tile(f, at, !joins);
        }
    }
    qsort(f->tiles, f->tile_count, sizeof *f->tiles, compare_tiles);
    uint32_t tasks = task_count(f);
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < tasks; i++)
        pairs += splits_of(f, i);
    bool few = worker_count > 1 && tasks < FORWARD_ACCS * worker_count;
    f->pair_count = few && pairs > tasks ? pairs : 0;
}
