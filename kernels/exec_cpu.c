/* SPDX-License-Identifier: MIT */
/* exec_cpu - opens the forward pass for given limits, and turns each plan into rows, tiles and
 * results. Memory: lay_out is run twice, first to add up, then to place; so the sum that is
 * printed, the block that is allocated and the pointers cannot disagree. The block is not cleared:
 * pages that no step needs are never touched. It grows with rows_max * (width + widest stage) and
 * outputs_max * vocabulary. Plans come from the scheduler: what contradicts its own limits is a
 * wrong program, hence must. */
#include "kernels/exec_cpu.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/must.h"
#include "kernels/forward.h"
#include "kernels/logprob.h"
#include "kernels/sample.h"

struct exec_cpu {
    struct forward f;
    struct exec_cpu_config config;
    uint8_t *scratch;
    size_t scratch_bytes;
    uint8_t *sample; /* [workers][sample_bytes] the sampler's own memory */
    size_t sample_bytes;
    struct batch_result *results; /* of the step that runs */
    struct token_logprob *tops;   /* [outputs_max][OUTPUT_TOP_MAX] of its results */
    uint64_t weight_bytes;        /* of the last step */
    atomic_bool lost;             /* bytes of the model are gone */
    uint64_t kv_bytes, macs;      /* likewise */
};

/* Bump placement; base NULL only adds up. */
struct place {
    uint8_t *base;
    size_t used;
    bool overflow;
};

static void *place_take(struct place *p, size_t count, size_t size)
{
    size_t bytes, used;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(p->used, bytes, &used) || used > SIZE_MAX / 2) {
        p->overflow = true;
        return NULL;
    }
    void *at = p->base == NULL ? NULL : p->base + p->used;
    p->used = (used + 127) / 128 * 128;
    return at;
}

static void lay_out_workers(struct exec_cpu *e, struct place *p, const uint32_t *act_cols)
{
    struct forward *f = &e->f;
    uint32_t widest = forward_widest_input(f->m), count = workers_count(f->w);
    f->workers = place_take(p, count, sizeof *f->workers);
    for (uint32_t i = 0; i < count; i++) {
        struct forward_worker worker = { .row = place_take(p, widest, sizeof(float)) };
        for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
            if (act_cols[kind] > 0)
                worker.act[kind] =
                    place_take(p, 1, act_row_bytes((enum act_kind)kind, act_cols[kind]));
        }
        void *attn = place_take(p, 1, attn_work_bytes(f->m->head_dim));
        if (p->base == NULL)
            continue;
        attn_work_open(&worker.attn, f->m->head_dim, attn);
        f->workers[i] = worker;
    }
}

/* Parts of attention when its splits are shared out: one worker never does. */
static struct attn_part *lay_out_parts(struct exec_cpu *e, struct place *p, uint32_t count)
{
    const uint32_t head_dim = e->f.m->head_dim;
    struct attn_part *parts = place_take(p, count, sizeof *parts);
    for (uint32_t i = 0; i < count; i++) {
        void *mem = place_take(p, 1, attn_part_bytes(head_dim, ATTN_COLS_MAX));
        if (p->base != NULL)
            attn_part_open(&parts[i], head_dim, ATTN_COLS_MAX, mem);
    }
    return parts;
}

static void lay_out_mixture(struct exec_cpu *e, struct place *p)
{
    struct forward *f = &e->f;
    const struct model *m = f->m;
    size_t slots = (size_t)e->config.rows_max * m->expert_used_count;
    f->router = place_take(p, (size_t)e->config.rows_max * m->expert_count, sizeof(float));
    f->picks = place_take(p, slots, sizeof *f->picks);
    f->slot_begin = place_take(p, m->expert_count + 1, sizeof *f->slot_begin);
    f->slot_row = place_take(p, slots, sizeof *f->slot_row);
    f->slot_out = place_take(p, slots * m->width, sizeof(float));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(struct exec_cpu *e, struct place *p)
{
    struct forward *f = &e->f;
    const struct model *m = f->m;
    const struct exec_cpu_config *c = &e->config;
    uint32_t act_cols[ACT_KINDS];
    uint32_t workers = workers_count(f->w), sharing = workers > 1 ? workers : 0;
    size_t rows = c->rows_max, slots = m->expert_count > 0 ? rows * m->expert_used_count : rows;
    forward_act_cols(m, c->act_f32, act_cols);
    lay_out_workers(e, p, act_cols);
    f->parts = lay_out_parts(e, p, FORWARD_PARTS * sharing);
    f->accs = lay_out_parts(e, p, FORWARD_ACCS * sharing);
    f->rows = place_take(p, rows, sizeof *f->rows);
    f->tiles = place_take(p, rows, sizeof *f->tiles);
    f->tile_rows = place_take(p, rows, sizeof *f->tile_rows);
    f->span_order = place_take(p, rows, sizeof *f->span_order);
    f->output_rows = place_take(p, c->outputs_max, sizeof *f->output_rows);
    f->next = place_take(p, m->layer_count, sizeof *f->next);
    f->taken = place_take(p, forward_taken_count(m), sizeof *f->taken);
    f->x = place_take(p, rows * m->width, sizeof(float));
    size_t wide = larger(rows * f->wide_cols, slots * f->hidden_cols);
    f->wide = place_take(p, larger(wide, rows * m->width), sizeof(float));
    f->cos = place_take(p, rows * m->rope.dim_count, sizeof(float));
    f->sin = place_take(p, rows * m->rope.dim_count, sizeof(float));
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
        if (act_cols[kind] > 0)
            f->act[kind] = place_take(p, larger(slots, c->outputs_max),
                                      act_row_bytes((enum act_kind)kind, act_cols[kind]));
    }
    f->q8 = place_take(p, rows, forward_query_bytes(f));
    if (m->expert_count > 0)
        lay_out_mixture(e, p);
    f->logits = place_take(p, (size_t)c->outputs_max * m->vocab_count, sizeof(float));
    f->peaks = place_take(p, (size_t)c->outputs_max * f->peak_count, sizeof *f->peaks);
    e->tops = place_take(p, (size_t)c->outputs_max * OUTPUT_TOP_MAX, sizeof *e->tops);
    e->sample = place_take(p, workers, e->sample_bytes);
}

enum rc exec_cpu_block_bytes(size_t *out, const struct model *m, struct kv_types types,
                             struct fault *fault)
{
    struct kv_layout l;
    enum rc rc = kv_layout_open(&l, m, types, fault);
    if (rc == RC_OK)
        *out = l.block_bytes;
    return rc;
}

static void finish_output(void *ctx, uint32_t worker, uint32_t index)
{
    struct exec_cpu *e = ctx;
    const struct forward *f = &e->f;
    const struct batch_output *o = &f->batch->outputs[index];
    struct batch_result *r = &e->results[index];
    const float *logits = f->logits + (size_t)index * f->m->vocab_count;
    struct logprob l;
    logprob_open(&l, f->peaks + (size_t)index * f->peak_count, f->peak_count);
    struct sample_scratch *scratch = (void *)(e->sample + worker * e->sample_bytes);
    r->token = o->sample ? sample_token(o, logits, f->m->vocab_count, scratch) : -1;
    int32_t wanted = o->target >= 0 ? o->target : r->token;
    r->logprob = wanted >= 0 ? logprob_of(&l, logits[wanted]) : 0;
    r->logits = o->logits ? logits : NULL;
    struct token_logprob *top = &e->tops[(size_t)index * OUTPUT_TOP_MAX];
    r->top_count = logprob_top(&l, logits, f->m->vocab_count, o->top_count, top);
    r->top = top;
}

/* Fills rows from the spans, and checks them against the limits. */
static void plan_rows(struct exec_cpu *e, const struct batch *b)
{
    struct forward *f = &e->f;
    uint32_t next_row = 0;
    for (uint32_t s = 0; s < b->span_count; s++) {
        const struct batch_span *span = &b->spans[s];
        uint32_t pos_end = span->pos_begin + span->row_count;
        must(span->row_begin == next_row && span->row_count > 0 && pos_end <= e->config.ctx_max);
        must(span->row_count <= b->row_count - next_row);
        must((pos_end - 1) / KV_BLOCK_TOKENS < span->table_count);
        for (uint32_t i = 0; i <= (pos_end - 1) / KV_BLOCK_TOKENS; i++)
            must(span->table[i] < e->config.kv_block_count);
        for (uint32_t i = 0; i < span->row_count; i++) {
            uint32_t pos = span->pos_begin + i;
            f->rows[next_row + i] = (struct forward_row){ pos, span->table };
        }
        next_row += span->row_count;
    }
    must(next_row == b->row_count);
}

static enum rc run(void *ctx, const struct batch *b, struct batch_result *results)
{
    struct exec_cpu *e = ctx;
    struct forward *f = &e->f;
    if (exec_cpu_lost(e))
        return RC_CORRUPT;
    must(b->row_count <= e->config.rows_max && b->output_count <= e->config.outputs_max);
    for (uint32_t i = 0; i < b->row_count; i++)
        must(b->tokens[i] >= 0 && (uint32_t)b->tokens[i] < f->m->vocab_count);
    for (uint32_t i = 0; i < b->output_count; i++)
        must(b->outputs[i].row < b->row_count && b->outputs[i].top_count <= OUTPUT_TOP_MAX &&
             (b->outputs[i].target < 0 || (uint32_t)b->outputs[i].target < f->m->vocab_count));
    must(b->hidden_count <= b->row_count);
    for (uint32_t i = 0; i < b->hidden_count; i++)
        must(b->hidden[i] < b->row_count);
    for (uint32_t i = 0; i < b->copy_count; i++)
        must(b->copies[i].src_block < e->config.kv_block_count &&
             b->copies[i].dst_block < e->config.kv_block_count &&
             b->copies[i].src_block != b->copies[i].dst_block && b->copies[i].token_count >= 1 &&
             b->copies[i].token_count <= KV_BLOCK_TOKENS);
    plan_rows(e, b);
    for (uint32_t i = 0; i < b->output_count; i++)
        f->output_rows[i] = b->outputs[i].row;
    for (uint32_t i = 0; i < f->m->layer_count; i++)
        atomic_store_explicit(&f->next[i], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < forward_taken_count(f->m); i++)
        atomic_store_explicit(&f->taken[i], 0, memory_order_relaxed);
    f->batch = b;
    forward_attention_plan(f, workers_count(f->w));
    e->results = results;
    bool streams = f->stream != NULL && b->row_count > 0;
    if (streams)
        stream_begin(f->stream, b->output_count > 0);
    if (f->laps != NULL)
        laps_begin(f->laps, f->m->layer_count);
    workers_run(f->w, forward_run, f);
    if (f->laps != NULL)
        laps_end(f->laps);
    e->weight_bytes = e->kv_bytes = e->macs = 0;
    for (uint32_t i = 0; i < workers_count(f->w); i++) {
        e->weight_bytes += f->workers[i].weight_bytes;
        e->kv_bytes += f->workers[i].kv_bytes;
        e->macs += f->workers[i].macs;
    }
    enum rc rc = streams ? stream_end(f->stream) : RC_OK;
    if (rc == RC_CORRUPT || (e->config.lost != NULL && e->config.lost()))
        atomic_store(&e->lost, true);
    return exec_cpu_lost(e) ? RC_CORRUPT : rc;
}

bool exec_cpu_lost(const struct exec_cpu *e)
{
    return atomic_load(&e->lost);
}

static enum rc check_config(const struct exec_cpu_config *c, const struct kv_layout *kv,
                            struct fault *fault)
{
    if (c->rows_max < 1 || c->rows_max > STEP_ROWS_MAX)
        return fault_set(fault, RC_USAGE, "rows of a step %" PRIu32 ", not in [1, %u]", c->rows_max,
                         STEP_ROWS_MAX);
    if (c->ctx_max < 1 || c->ctx_max > CTX_TOKENS_MAX)
        return fault_set(fault, RC_USAGE, "context of %" PRIu32 " tokens, not in [1, %u]",
                         c->ctx_max, CTX_TOKENS_MAX);
    must(c->outputs_max >= 1 && c->kv_block_count >= 1);
    must(c->kv_block_bytes >= kv->block_bytes && c->kv_block_bytes % 64 == 0);
    must((uintptr_t)c->kv_base % 64 == 0);
    return RC_OK;
}

enum rc exec_cpu_open(struct exec_cpu **out, const struct model *m, struct workers *w,
                      const struct exec_cpu_config *config, struct fault *fault)
{
    struct kv_layout kv;
    enum rc rc = kv_layout_open(&kv, m, config->kv_types, fault);
    if (rc == RC_OK)
        rc = check_config(config, &kv, fault);
    if (rc != RC_OK)
        return rc;
    struct exec_cpu *e = mem_alloc(sizeof *e);
    if (e == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for an executor");
    uint32_t group = m->head_count / m->kv_head_count, heads = m->head_count * m->head_dim;
    uint32_t qkv = heads + 2 * m->kv_head_count * m->head_dim;
    e->config = *config;
    if (config->kv_contiguous) {
        kv_layout_contiguous(&kv, config->kv_block_count);
        e->config.kv_block_bytes = kv.block_bytes;
    }
    e->f = (struct forward){ .m = m,
                             .w = w,
                             .act_f32 = config->act_f32,
                             .kv = kv,
                             .kv_base = config->kv_base,
                             .kv_block_bytes = e->config.kv_block_bytes,
                             .heads_per_task = group < ATTN_COLS_MAX ? group : ATTN_COLS_MAX,
                             .wide_cols = (qkv + 15) & ~15u,
                             .hidden_cols = (2 * m->ff_width + 15) & ~15u,
                             .peak_count =
                                 (m->vocab_count + FORWARD_PEAK_LOGITS - 1) / FORWARD_PEAK_LOGITS,
                             .finish = finish_output,
                             .finish_ctx = e };
    kernels_open(&e->f.k, config->isa);
    e->sample_bytes = (sample_scratch_bytes(m->vocab_count) + 127) / 128 * 128;
    struct place sum = { NULL, 0, false };
    lay_out(e, &sum);
    e->scratch_bytes = sum.used;
    e->scratch = sum.overflow ? NULL : mem_alloc_raw(sum.used);
    if (e->scratch == NULL || rope_open(&e->f.rope, m) != RC_OK) {
        rc = fault_set(fault, RC_NO_MEMORY,
                       "no memory for %zu bytes of scratch (%" PRIu32 " rows, %" PRIu32
                       " outputs a step)",
                       sum.used, config->rows_max, config->outputs_max);
        exec_cpu_close(e);
        return rc;
    }
    struct place place = { e->scratch, 0, false };
    lay_out(e, &place);
    memset(e->sample, 0, workers_count(w) * e->sample_bytes);
    *out = e;
    return RC_OK;
}

void exec_cpu_close(struct exec_cpu *e)
{
    if (e == NULL)
        return;
    rope_close(&e->f.rope);
    mem_free(e->scratch);
    mem_free(e);
}

void exec_cpu_stream(struct exec_cpu *e, struct stream *s)
{
    e->f.stream = s;
}

void exec_cpu_share_reads(struct exec_cpu *e, bool share)
{
    e->f.reads_apart = !share;
}

void exec_cpu_time(struct exec_cpu *e, struct laps *laps)
{
    e->f.laps = laps;
}

static struct executor_pace pace(void *ctx)
{
    const struct exec_cpu *e = ctx;
    struct stream_stats s = stream_stats(e->f.stream);
    uint64_t bytes_us = s.read_bytes / (s.busy_us > 0 ? s.busy_us : 1);
    return (struct executor_pace){ s.streamed_bytes / (bytes_us > 0 ? bytes_us : 1), s.wait_us };
}

static const float *hidden(void *ctx, uint32_t index)
{
    const struct exec_cpu *e = ctx;
    must(index < e->f.batch->hidden_count);
    return e->f.wide + (size_t)index * e->f.m->width;
}

struct executor exec_cpu_executor(struct exec_cpu *e)
{
    return (struct executor){ .ctx = e,
                              .limits = { .rows_max = e->config.rows_max,
                                          .outputs_max = e->config.outputs_max,
                                          .vocab_count = e->f.m->vocab_count,
                                          .ctx_max = e->config.ctx_max },
                              .run = run,
                              .pace = e->f.stream != NULL ? pace : NULL,
                              .hidden = hidden };
}

size_t exec_cpu_scratch_bytes(const struct exec_cpu *e)
{
    return e->scratch_bytes;
}

uint64_t exec_cpu_weight_bytes(const struct exec_cpu *e)
{
    return e->weight_bytes;
}

uint64_t exec_cpu_kv_bytes(const struct exec_cpu *e)
{
    return e->kv_bytes;
}

uint64_t exec_cpu_macs(const struct exec_cpu *e)
{
    return e->macs;
}

enum isa exec_cpu_isa(const struct exec_cpu *e)
{
    return e->f.k.isa;
}

uint64_t exec_cpu_kv_id(const struct exec_cpu *e)
{
    const struct kv_layout *l = &e->f.kv;
    const uint64_t parts[] = { KERNELS_NUMERICS, KV_BLOCK_TOKENS, KV_SPLIT_TOKENS, e->f.act_f32,
                               l->head_dim,      l->value_offset, l->head_bytes,   l->layer_step,
                               l->block_bytes,   l->types.k,      l->types.v };
    return hash_bytes((struct hash){ 0 }, parts, sizeof parts).a;
}
