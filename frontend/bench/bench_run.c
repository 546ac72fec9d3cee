/* SPDX-License-Identifier: MIT */
/* bench_run - see bench_run.h. The executor is driven directly, because a scheduler would start to
 * decode the first sequence while the last is still in prefill, and no step would have a known
 * number of rows.
 * Every sequence has its own random tokens, position by position. filled says how many of them are
 * in the cache from the front: a case at a greater depth adds what is missing, and what a case
 * writes behind its depth counts for nothing afterwards. */
#include "frontend/bench/bench_run.h"

#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "frontend/bench/quantiles.h"
#include "frontend/interrupt.h"

#define NOISE_US 10000u        /* of one measurement */
#define NOISE_TOTAL_US 200000u /* of all: then no more pairs than needed */
enum { NOISE_PAIRS_MIN = 5, NOISE_PAIRS_MAX = 15, SEQUENCES_MAX = 1024 };

struct bench {
    struct engine *engine;
    struct executor executor;
    struct limits_probe limits;
    struct limits last; /* measured most recently */
    bool timed;
    struct bench_sizes sizes;
    uint32_t table_blocks;          /* blocks of each sequence's table */
    uint32_t *tables;               /* [sequence][table_blocks] */
    size_t taken_count;             /* blocks in tables that are ours */
    int32_t *prompts;               /* [sequence][positions] */
    uint32_t *filled;               /* [sequence] */
    int32_t *tokens;                /* [rows] of a step */
    struct batch_span *spans;       /* [sequence] */
    struct batch_output *outputs;   /* [sequence] */
    struct batch_result *results;   /* [sequence] */
    int32_t *next;                  /* [sequence] token chosen last */
    uint64_t (*laps[2])[LAP_COUNT]; /* of prompts, of outputs */
    struct sampling sampling;
};

/* A step under construction: rows of several sequences. */
struct step {
    struct batch batch;
    struct bench_phase *phase;      /* that counts it; NULL = none does */
    uint32_t owners[SEQUENCES_MAX]; /* sequence of each output */
};

static void add_rows(struct bench *b, struct step *s, uint32_t sequence, const int32_t *tokens,
                     uint32_t pos, uint32_t count, bool sample)
{
    struct batch *p = &s->batch;
    b->spans[p->span_count++] =
        (struct batch_span){ .row_begin = p->row_count,
                             .row_count = count,
                             .pos_begin = pos,
                             .table_count = b->table_blocks,
                             .table = b->tables + sequence * b->table_blocks };
    memcpy(b->tokens + p->row_count, tokens, count * sizeof *tokens);
    p->row_count += count;
    if (!sample)
        return;
    s->owners[p->output_count] = sequence;
    b->outputs[p->output_count++] = (struct batch_output){ .row = p->row_count - 1,
                                                           .sample = true,
                                                           .target = -1,
                                                           .sampling = &b->sampling,
                                                           .history_count = pos + count,
                                                           .prompt_count = pos + count };
}

/* Since the start; 0 for a mapped model, whose pages the system reads. */
static uint64_t file_bytes(const struct bench *b)
{
    return residency_stats(&b->engine->weights).read_bytes;
}

static enum rc run_step(struct bench *b, struct step *s)
{
    struct batch *p = &s->batch;
    const struct exec_cpu *exec = b->engine->exec;
    p->tokens = b->tokens;
    p->spans = b->spans;
    p->outputs = b->outputs;
    uint64_t before = file_bytes(b);
    enum rc rc = b->executor.run(b->executor.ctx, p, b->results);
    for (uint32_t i = 0; i < p->output_count && rc == RC_OK; i++)
        b->next[s->owners[i]] = b->results[i].token;
    if (s->phase != NULL) {
        struct bench_counts *c = &s->phase->counts;
        c->steps++;
        c->weight_bytes += exec_cpu_weight_bytes(exec);
        c->kv_bytes += exec_cpu_kv_bytes(exec);
        c->macs += exec_cpu_macs(exec);
        c->file_bytes += file_bytes(b) - before;
    }
    s->batch = (struct batch){ .step = p->step + 1 };
    return rc;
}

/* Positions below end of the first parallel sequences, from what is filled, packed into steps of at
 * most chunk rows; a signal ends it between two of them. */
static enum rc run_prompts(struct bench *b, const struct bench_case *what, uint32_t end,
                           struct bench_phase *phase)
{
    struct step s = { .phase = phase };
    enum rc rc = RC_OK;
    for (uint32_t q = 0; q < what->parallel && rc == RC_OK; q++) {
        while (b->filled[q] < end && rc == RC_OK && interrupt_signal() == 0) {
            uint32_t pos = b->filled[q], room = what->chunk - s.batch.row_count;
            uint32_t count = end - pos < room ? end - pos : room;
            const int32_t *prompt = b->prompts + (size_t)q * b->sizes.positions;
            add_rows(b, &s, q, prompt + pos, pos, count, phase != NULL && pos + count == end);
            b->filled[q] += count;
            if (s.batch.row_count == what->chunk)
                rc = run_step(b, &s);
        }
    }
    return rc == RC_OK && s.batch.row_count > 0 ? run_step(b, &s) : rc;
}

static enum rc run_outputs(struct bench *b, const struct bench_case *what,
                           struct bench_phase *phase)
{
    struct step s = { .phase = phase };
    enum rc rc = RC_OK;
    for (uint32_t t = 0; t < what->output && rc == RC_OK && interrupt_signal() == 0; t++) {
        for (uint32_t q = 0; q < what->parallel; q++)
            add_rows(b, &s, q, &b->next[q], what->depth + what->prompt + t, 1, true);
        rc = run_step(b, &s);
    }
    return rc;
}

static enum rc say(struct fault *fault, enum rc rc)
{
    if (rc == RC_OK && interrupt_signal() != 0)
        return fault_set(fault, RC_CANCELLED, "interrupted");
    return rc == RC_OK ? rc : fault_set(fault, rc, "the model run failed: %s", rc_text(rc));
}

/* Brings every sequence back to the depth: the first token of outputs without a prompt is random
 * too. */
static enum rc go_to_depth(struct bench *b, const struct bench_case *what)
{
    for (uint32_t q = 0; q < what->parallel; q++) {
        b->filled[q] = b->filled[q] < what->depth ? b->filled[q] : what->depth;
        b->next[q] = b->prompts[(size_t)q * b->sizes.positions + what->depth];
    }
    return run_prompts(b, what, what->depth, NULL);
}

static enum rc run_once(struct bench *b, struct bench_row *row, struct fault *fault)
{
    const struct clock *clock = &b->engine->clock;
    const struct bench_case *what = &row->what;
    struct exec_cpu *exec = b->engine->exec;
    const struct bench_counts counts[2] = { row->prompt.counts, row->output.counts };
    enum rc rc = go_to_depth(b, what);
    exec_cpu_time(exec, b->timed ? &row->prompt.laps : NULL);
    uint64_t begin = clock_now_us(clock);
    if (rc == RC_OK)
        rc = run_prompts(b, what, what->depth + what->prompt, &row->prompt);
    uint64_t middle = clock_now_us(clock);
    exec_cpu_time(exec, b->timed ? &row->output.laps : NULL);
    if (rc == RC_OK)
        rc = run_outputs(b, what, &row->output);
    row->prompt.us[row->done] = middle - begin;
    row->output.us[row->done] = clock_now_us(clock) - middle;
    exec_cpu_time(exec, NULL);
    rc = say(fault, rc);
    if (rc != RC_OK) {
        row->prompt.counts = counts[0];
        row->output.counts = counts[1];
    }
    return rc;
}

enum rc bench_run_case(struct bench *b, const struct bench_case *what, uint32_t repeat,
                       struct bench_row *row, struct fault *fault)
{
    size_t lap_bytes = (b->engine->model->layer_count + 1) * sizeof *b->laps[0];
    *row = (struct bench_row){ .what = *what, .before = b->last };
    struct bench_phase *phases[] = { &row->prompt, &row->output };
    for (size_t i = 0; i < 2 && b->timed; i++) {
        memset(b->laps[i], 0, lap_bytes);
        phases[i]->laps = (struct laps){ .clock = b->engine->clock, .us = b->laps[i] };
    }
    enum rc rc = RC_OK;
    while (row->done < repeat && rc == RC_OK) {
        rc = run_once(b, row, fault);
        row->done += rc == RC_OK;
    }
    limits_measure(&row->after, &b->limits);
    b->last = row->after;
    return rc;
}

enum rc bench_warm_up(struct bench *b, struct fault *fault)
{
    uint32_t most = b->sizes.positions > 1 ? b->sizes.positions - 1 : 1;
    struct bench_case what = { .prompt = most < 16 ? most : 16, .parallel = 1, .chunk = 16 };
    what.chunk = b->sizes.chunk < what.chunk ? b->sizes.chunk : what.chunk;
    enum rc rc = go_to_depth(b, &what);
    struct bench_phase unused = { 0 };
    if (rc == RC_OK)
        rc = run_prompts(b, &what, what.prompt, &unused);
    return say(fault, rc);
}

/* steps of one row at position 0, which is always there. */
static enum rc time_steps(struct bench *b, uint32_t steps, double *us)
{
    const struct bench_case what = { .output = 1, .parallel = 1 };
    uint64_t begin = clock_now_us(&b->engine->clock);
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < steps && rc == RC_OK; i++)
        rc = run_outputs(b, &what, NULL);
    *us = (double)(clock_now_us(&b->engine->clock) - begin) + 1;
    return rc;
}

enum rc bench_take_noise(struct bench *b, struct bench_noise *out, struct fault *fault)
{
    struct quantiles ratios = { 0 };
    double us[2], total = 0;
    b->filled[0] = 0;
    b->next[0] = b->prompts[0];
    enum rc rc = time_steps(b, 2, &us[0]);
    uint32_t steps = us[0] < 2 * NOISE_US ? (uint32_t)(2 * NOISE_US / us[0]) : 1;
    for (uint32_t i = 0; i < NOISE_PAIRS_MAX && rc == RC_OK && interrupt_signal() == 0; i++) {
        if (i >= NOISE_PAIRS_MIN && total > NOISE_TOTAL_US)
            break;
        for (uint32_t arm = 0; arm < 2 && rc == RC_OK; arm++)
            rc = time_steps(b, steps, &us[(i + arm) % 2]); /* who is first alternates */
        total += us[0] + us[1];
        if (rc == RC_OK)
            rc = quantiles_add(&ratios, us[0] / us[1]);
    }
    *out = (struct bench_noise){ quantiles_at(&ratios, 0), quantiles_at(&ratios, 0.5),
                                 quantiles_at(&ratios, 1), (uint32_t)ratios.count };
    quantiles_close(&ratios);
    return say(fault, rc);
}

const struct limits_probe *bench_probe(const struct bench *b)
{
    return &b->limits;
}

/* ---- opening ---- */

static enum rc take_memory(struct bench *b)
{
    size_t sequences = b->sizes.parallel, layers = b->engine->model->layer_count + 1;
    size_t rows = b->sizes.chunk > sequences ? b->sizes.chunk : sequences;
    b->tables = mem_alloc_array(sequences * b->table_blocks, sizeof *b->tables);
    b->prompts = mem_alloc_array(sequences * b->sizes.positions, sizeof *b->prompts);
    b->filled = mem_alloc_array(sequences, sizeof *b->filled);
    b->tokens = mem_alloc_array(rows, sizeof *b->tokens);
    b->spans = mem_alloc_array(sequences, sizeof *b->spans);
    b->outputs = mem_alloc_array(sequences, sizeof *b->outputs);
    b->results = mem_alloc_array(sequences, sizeof *b->results);
    b->next = mem_alloc_array(sequences, sizeof *b->next);
    b->laps[0] = mem_alloc_array(layers, sizeof *b->laps[0]);
    b->laps[1] = mem_alloc_array(layers, sizeof *b->laps[1]);
    return b->tables == NULL || b->prompts == NULL || b->filled == NULL || b->tokens == NULL ||
                   b->spans == NULL || b->outputs == NULL || b->results == NULL ||
                   b->next == NULL || b->laps[0] == NULL || b->laps[1] == NULL
               ? RC_NO_MEMORY
               : RC_OK;
}

static enum rc take_blocks(struct bench *b, struct fault *fault)
{
    const struct engine_options *o = &b->engine->options;
    for (size_t i = 0; i < (size_t)b->sizes.parallel * b->table_blocks; i++) {
        struct block_id id;
        if (kvpool_take_block(&id, b->engine->pool) != RC_OK)
            return fault_set(fault, RC_NO_FIT, "--kv-tokens %u: too small for %u sequences of %u",
                             o->kv_tokens, b->sizes.parallel, b->sizes.positions);
        b->tables[b->taken_count++] = id.index;
    }
    return RC_OK;
}

enum rc bench_open(struct bench **out, struct engine *e, const struct bench_sizes *sizes,
                   int64_t seed, bool timed, struct fault *fault)
{
    struct bench *b = mem_alloc(sizeof *b);
    if (b == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    b->engine = e;
    b->executor = exec_cpu_executor(e->exec);
    b->timed = timed;
    b->sizes = *sizes;
    b->sampling = sampling_default();
    b->sampling.temperature = 0.0f;
    b->table_blocks = (sizes->positions + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    enum rc rc = take_memory(b);
    if (rc == RC_OK)
        rc = limits_open(&b->limits, e->workers, exec_cpu_isa(e->exec),
                         e->model->layers[0].gate.type,
                         residency_stats(&e->weights).streamed_bytes == 0);
    if (rc != RC_OK)
        fault_set(fault, rc, "out of memory");
    if (rc == RC_OK)
        rc = take_blocks(b, fault);
    if (rc != RC_OK) {
        bench_close(b);
        return rc;
    }
    struct rng rng = rng_seeded((uint64_t)seed);
    for (size_t i = 0; i < (size_t)sizes->parallel * sizes->positions; i++)
        b->prompts[i] = (int32_t)rng_below(&rng, e->model->vocab_count);
    limits_measure(&b->last, &b->limits);
    *out = b;
    return RC_OK;
}

void bench_close(struct bench *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < b->taken_count; i++)
        kvpool_drop_block(b->engine->pool, (struct block_id){ b->tables[i] });
    limits_close(&b->limits);
    mem_free(b->laps[0]);
    mem_free(b->laps[1]);
    mem_free(b->tables);
    mem_free(b->prompts);
    mem_free(b->filled);
    mem_free(b->tokens);
    mem_free(b->spans);
    mem_free(b->outputs);
    mem_free(b->results);
    mem_free(b->next);
    mem_free(b);
}
