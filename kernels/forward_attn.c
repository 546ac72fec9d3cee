/* SPDX-License-Identifier: MIT */
/* forward_attn - who computes which piece of attention. The bits are the same either way: the
 * splits of a row are at absolute positions and are merged left to right, whoever made them.
 *
 *   many tasks  (tile, KV head, heads) are handed out by a counter, longest first; a task walks all
 *               its splits
 *   few tasks   (one or a few rows over a long context) the splits of all tasks are shared out
 *               evenly in waves of as many as there are parts; after each wave every task merges
 *               its own
 *
 * A task writes its result over its queries, which nobody else reads. */
#include <string.h>

#include "core/must.h"
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

/* Task number index: tile, KV head, and which part of its query heads. */
static struct attn task_at(const struct forward *f, uint32_t layer, uint32_t index)
{
    const struct model *m = f->m;
    uint32_t group = m->head_count / m->kv_head_count, pieces = pieces_of(f);
    const struct forward_tile *tile = &f->tiles[index / (pieces * m->kv_head_count)];
    uint32_t kv_head = index / pieces % m->kv_head_count;
    uint32_t first = index % pieces * f->heads_per_task;
    float *q = f->wide + (size_t)tile->row_begin * f->wide_cols;
    q += (size_t)(kv_head * group + first) * m->head_dim;
    return (struct attn){
        .kv = f->kv_base + kv_layout_head(&f->kv, layer, kv_head),
        .block_bytes = f->kv_block_bytes,
        .blocks = f->batch->blocks + f->batch->spans[tile->span].table_begin,
        .head_dim = m->head_dim,
        .row_count = tile->row_count,
        .head_count = group - first < f->heads_per_task ? group - first : f->heads_per_task,
        .pos_begin = f->rows[tile->row_begin].pos,
        .scale = m->attn_scale,
        .q = q,
        .out = q,
        .stride = f->wide_cols,
    };
}

static void run_whole(const struct forward_turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    uint32_t tasks = task_count(f);
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&f->next[layer], 1, memory_order_relaxed);
        if (i >= tasks)
            return;
        struct attn a = task_at(f, layer, i);
        attn_run(&f->k.attn, &a, &t->me->attn);
    }
}

/* One split of one task. Pairs are numbered task after task, splits ascending. */
struct pair {
    struct attn a;
    uint32_t task, split;
};

static void find_pair(struct pair *p, const struct forward *f, uint32_t layer, uint64_t index)
{
    for (p->task = 0;; p->task++) {
        p->a = task_at(f, layer, p->task);
        uint32_t splits = attn_split_count(&p->a);
        if (index < splits)
            break;
        index -= splits;
    }
    p->split = (uint32_t)index;
}

static void next_pair(struct pair *p, const struct forward *f, uint32_t layer)
{
    if (++p->split < attn_split_count(&p->a))
        return;
    p->split = 0;
    if (++p->task < task_count(f))
        p->a = task_at(f, layer, p->task);
}

static void copy_part(const struct attn_part *to, const struct attn_part *from, uint32_t cols,
                      uint32_t head_dim)
{
    memcpy(to->max, from->max, cols * sizeof *to->max);
    memcpy(to->sum, from->sum, cols * sizeof *to->sum);
    memcpy(to->o, from->o, (size_t)cols * head_dim * sizeof *to->o);
}

/* Merges the pairs [begin, end) of the tasks that are this worker's. */
static void merge_wave(const struct forward_turn *t, uint32_t layer, uint64_t begin, uint64_t end)
{
    struct forward *f = t->f;
    struct pair p;
    find_pair(&p, f, layer, begin);
    for (uint64_t i = begin; i < end; i++) {
        const struct attn_part *acc = &f->accs[p.task], *part = &f->parts[i - begin];
        uint32_t cols = p.a.row_count * p.a.head_count;
        if (p.task % t->count == t->worker) {
            if (p.split == 0)
                copy_part(acc, part, cols, p.a.head_dim);
            else
                f->k.attn.merge(acc, part, p.a.head_dim, attn_col_begin(&p.a, p.split), cols);
            if (p.split + 1 == attn_split_count(&p.a))
                attn_store(&f->k.attn, &p.a, acc);
        }
        next_pair(&p, f, layer);
    }
}

static void run_split(const struct forward_turn *t, uint32_t layer)
{
    struct forward *f = t->f;
    const uint64_t pairs = f->pair_count, parts = (uint64_t)FORWARD_PARTS * t->count;
    for (uint64_t wave = 0; wave < pairs; wave += parts) {
        uint64_t size = pairs - wave < parts ? pairs - wave : parts, begin, end;
        workers_range(size, 1, t->worker, t->count, &begin, &end);
        struct pair p;
        if (begin < end)
            find_pair(&p, f, layer, wave + begin);
        for (uint64_t i = begin; i < end; i++) {
            f->k.attn.split(&p.a, p.split, &t->me->attn, &f->parts[i]);
            next_pair(&p, f, layer);
        }
        forward_barrier(t);
        merge_wave(t, layer, wave, wave + size);
        if (wave + size < pairs)
            forward_barrier(t);
    }
}

uint64_t forward_attention_pairs(const struct forward *f, uint32_t worker_count)
{
    uint32_t tasks = task_count(f);
    uint64_t pairs = 0;
    if (worker_count == 1 || tasks >= FORWARD_ACCS * worker_count)
        return 0;
    for (uint32_t i = 0; i < tasks; i++) {
        struct attn a = task_at(f, 0, i);
        pairs += attn_split_count(&a);
    }
    return pairs > tasks ? pairs : 0;
}

void forward_attention(const struct forward_turn *t, uint32_t layer)
{
    if (t->f->pair_count == 0)
        run_whole(t, layer);
    else
        run_split(t, layer);
    forward_barrier(t);
}
