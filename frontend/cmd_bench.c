/* SPDX-License-Identifier: MIT */
/* cmd_bench - speed of the two phases at several batch sizes: npl sequences with random prompts of
 * npp tokens each are computed, then ntg steps follow that hold exactly npl rows.
 * Inside the clock: plans handed to the executor and its return, that is the forward pass, the KV
 * cache through block tables, and greedy sampling; the prefill clock runs from the first chunk to
 * the last one's logits. Outside: tokenizing, scheduling, and making the plans, all far below 1 %.
 * The executor is driven directly, because a scheduler would start to decode the first sequence
 * while the last is still in prefill, and no step would have a known number of rows.
 * A warm-up that touches every weight is run first and dropped. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/mem.h"
#include "core/rng.h"
#include "frontend/bench/bench.h"
#include "frontend/commands.h"
#include "frontend/engine.h"
#include "frontend/interrupt.h"

struct bench_options {
    struct option_u32s prompts, outputs, parallels;
    uint32_t repeat;
    int64_t seed;
    bool jsonl;
};

#define AT(member) offsetof(struct bench_options, member)
static const struct option bench_rows[] = {
    { "-npp --n-prompt", OPTION_U32S, AT(prompts), 1, CTX_TOKENS_MAX, "N,..", NULL,
      "tokens of each prompt" },
    { "-ntg --n-gen", OPTION_U32S, AT(outputs), 0, CTX_TOKENS_MAX, "N,..", NULL,
      "tokens generated for each sequence" },
    { "-npl --n-parallel", OPTION_U32S, AT(parallels), 1, 1024, "N,..", NULL,
      "sequences at once, a row of the table each" },
    { "-r --repetitions", OPTION_U32, AT(repeat), 1, 1000, "N", NULL,
      "runs of each row; the median is printed" },
    { "-s --seed", OPTION_I64, AT(seed), 0, 0, "N", NULL, "seed of the random prompts" },
    { "--jsonl", OPTION_FLAG, AT(jsonl), 0, 0, NULL, NULL, "one JSON object a row" },
};

enum { REPEAT_MAX = 1000 };

struct bench {
    struct engine *engine;
    struct executor executor;
    uint32_t chunk;
    uint32_t table_blocks; /* blocks of each sequence's table */
    uint32_t *tables;      /* [sequence][table_blocks] */
    int32_t *prompts;      /* [sequence][prompt_max] */
    size_t taken_count;    /* blocks in tables that are ours */
    uint32_t prompt_max, sequence_max;
    int32_t *tokens;              /* [rows] of a step */
    struct batch_span *spans;     /* [sequence] */
    struct batch_output *outputs; /* [sequence] */
    struct batch_result *results; /* [sequence] */
    int32_t *next;                /* [sequence] token chosen last */
    struct sampling sampling;
    uint64_t prompt_us[REPEAT_MAX], output_us[REPEAT_MAX];
    uint64_t output_read; /* weight bytes read from the file by the decode steps of a row */
};

static uint64_t largest(const struct option_u32s *list)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < list->count; i++)
        most = list->items[i] > most ? list->items[i] : most;
    return most;
}

/* A step under construction: rows of several sequences. */
struct step {
    struct batch batch;
    uint32_t owners[1024]; /* sequence of each output */
};

static void add_rows(struct bench *b, struct step *s, uint32_t sequence, const int32_t *tokens,
                     uint32_t pos, uint32_t count, bool sample)
{
    struct batch *p = &s->batch;
    b->spans[p->span_count++] = (struct batch_span){ .row_begin = p->row_count,
                                                     .row_count = count,
                                                     .pos_begin = pos,
                                                     .table_begin = sequence * b->table_blocks,
                                                     .table_count = b->table_blocks };
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

static enum rc run_step(struct bench *b, struct step *s)
{
    struct batch *p = &s->batch;
    p->tokens = b->tokens;
    p->spans = b->spans;
    p->blocks = b->tables;
    p->block_count = b->table_blocks * b->sequence_max;
    p->outputs = b->outputs;
    enum rc rc = b->executor.run(b->executor.ctx, p, b->results);
    for (uint32_t i = 0; i < p->output_count && rc == RC_OK; i++)
        b->next[s->owners[i]] = b->results[i].token;
    s->batch = (struct batch){ .step = p->step + 1 };
    return rc;
}

/* All prompts, packed into steps of at most chunk rows; a signal ends it between two of them. */
static enum rc run_prefill(struct bench *b, uint32_t pp, uint32_t pl)
{
    struct step s = { 0 };
    enum rc rc = RC_OK;
    for (uint32_t q = 0; q < pl && rc == RC_OK; q++) {
        for (uint32_t pos = 0; pos < pp && rc == RC_OK && interrupt_signal() == 0;) {
            uint32_t room = b->chunk - s.batch.row_count, count = pp - pos < room ? pp - pos : room;
            const int32_t *prompt = b->prompts + (size_t)q * b->prompt_max;
            add_rows(b, &s, q, prompt + pos, pos, count, pos + count == pp);
            pos += count;
            if (s.batch.row_count == b->chunk)
                rc = run_step(b, &s);
        }
    }
    return rc == RC_OK && s.batch.row_count > 0 ? run_step(b, &s) : rc;
}

static enum rc run_decode(struct bench *b, uint32_t pp, uint32_t tg, uint32_t pl)
{
    struct step s = { 0 };
    enum rc rc = RC_OK;
    for (uint32_t t = 0; t < tg && rc == RC_OK && interrupt_signal() == 0; t++) {
        for (uint32_t q = 0; q < pl; q++)
            add_rows(b, &s, q, &b->next[q], pp + t, 1, true);
        rc = run_step(b, &s);
    }
    return rc;
}

/* Since the start; 0 for a mapped model, whose pages the system reads. */
static uint64_t read_bytes(const struct bench *b)
{
    return residency_stats(&b->engine->weights).read_bytes;
}

static enum rc run_once(struct bench *b, uint32_t pp, uint32_t tg, uint32_t pl, uint32_t round,
                        struct fault *fault)
{
    const struct clock *clock = &b->engine->clock;
    uint64_t begin = clock_now_us(clock);
    enum rc rc = run_prefill(b, pp, pl);
    uint64_t middle = clock_now_us(clock), before = read_bytes(b);
    if (rc == RC_OK)
        rc = run_decode(b, pp, tg, pl);
    b->output_read = (round > 0 ? b->output_read : 0) + read_bytes(b) - before;
    b->prompt_us[round] = middle - begin;
    b->output_us[round] = clock_now_us(clock) - middle;
    return rc == RC_OK ? rc : fault_set(fault, rc, "the model run failed: %s", rc_text(rc));
}

static double median_seconds(uint64_t *us, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = i; j > 0 && us[j - 1] > us[j]; j--) {
            uint64_t swap = us[j];
            us[j] = us[j - 1];
            us[j - 1] = swap;
        }
    uint64_t twice = us[(count - 1) / 2] + us[count / 2];
    return (double)(twice > 0 ? twice : 1) / 2e6;
}

/* Seven digits are more than a clock gives, and read well: 15.4 and not 15.400000000000001. */
static bool print_json(const json_t *row)
{
    return json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7)) == 0 &&
           putchar('\n') != EOF;
}

/* How weights came into memory. */
static bool add_reading(const struct bench *b, const struct bench_options *o, uint32_t tg,
                        json_t *row)
{
    struct stream_stats stats = residency_stats(&b->engine->weights);
    uint64_t steps = (uint64_t)tg * o->repeat;
    json_int_t per_step = steps > 0 ? (json_int_t)(b->output_read / steps) : 0;
    return json_object_set_new(row, "read_bytes_per_step", json_integer(per_step)) == 0 &&
           json_object_set_new(row, "pinned_bytes",
                               json_integer((json_int_t)stats.pinned_bytes)) == 0 &&
           json_object_set_new(row, "read_mode", json_string(stats.mode)) == 0 &&
           json_object_set_new(row, "read_fallbacks", json_integer(stats.fallbacks)) == 0 &&
           json_object_set_new(row, "ring_reads", json_integer((json_int_t)stats.ring_reads)) == 0;
}

static enum rc print_row(struct bench *b, const struct bench_options *o, uint32_t pp, uint32_t tg,
                         uint32_t pl, struct fault *fault)
{
    const struct engine_options *eo = &b->engine->options;
    double t_pp = median_seconds(b->prompt_us, o->repeat);
    double t_tg = median_seconds(b->output_us, o->repeat);
    double pp_tps = pp * (double)pl / t_pp, tg_tps = tg > 0 ? tg * (double)pl / t_tg : 0;
    double all = t_pp + (tg > 0 ? t_tg : 0);
    bool good;
    if (!o->jsonl) {
        good =
            printf("|%6u | %6u | %4u | %7.0f | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f |\n",
                   pp, tg, pl, (pp + (double)tg) * pl, t_pp, pp_tps, tg > 0 ? t_tg : 0, tg_tps, all,
                   (pp + (double)tg) * pl / all) > 0;
    } else {
        json_t *row =
            json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:s, s:s, s:s, s:I, s:I}",
                      "n_pp", (int)pp, "n_tg", (int)tg, "n_pl", (int)pl, "t_pp", t_pp, "pp_tps",
                      pp_tps, "t_tg", tg > 0 ? t_tg : 0.0, "tg_tps", tg_tps, "tps",
                      (pp + (double)tg) * pl / all, "threads", (int)eo->threads, "repetitions",
                      (int)o->repeat, "isa", isa_name(exec_cpu_isa(b->engine->exec)), "act",
                      eo->act == 0 ? "int8" : "f32", "model", b->engine->name,
                      "weight_bytes_per_step", (json_int_t)exec_cpu_weight_bytes(b->engine->exec),
                      "kv_block_bytes", (json_int_t)kvpool_block_bytes(b->engine->pool));
        good = row != NULL && add_reading(b, o, tg, row) && print_json(row);
        json_decref(row);
    }
    return good && fflush(stdout) == 0 ? RC_OK
                                       : fault_set(fault, RC_IO, "stdout cannot be written");
}

static enum rc open_bench(struct bench *b, struct engine *e, const struct bench_options *o,
                          struct fault *fault)
{
    uint32_t vocab = e->model->vocab_count;
    b->engine = e;
    b->executor = exec_cpu_executor(e->exec);
    b->chunk = e->options.chunk_tokens;
    b->sampling = sampling_default();
    b->sampling.temperature = 0.0f;
    b->prompt_max = (uint32_t)largest(&o->prompts);
    b->sequence_max = (uint32_t)largest(&o->parallels);
    b->table_blocks = (e->options.ctx_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    uint32_t rows = b->chunk > b->sequence_max ? b->chunk : b->sequence_max;
    b->tables = mem_alloc_array((size_t)b->sequence_max * b->table_blocks, sizeof *b->tables);
    b->prompts = mem_alloc_array((size_t)b->sequence_max * b->prompt_max, sizeof *b->prompts);
    b->tokens = mem_alloc_array(rows, sizeof *b->tokens);
    b->spans = mem_alloc_array(b->sequence_max, sizeof *b->spans);
    b->outputs = mem_alloc_array(b->sequence_max, sizeof *b->outputs);
    b->results = mem_alloc_array(b->sequence_max, sizeof *b->results);
    b->next = mem_alloc_array(b->sequence_max, sizeof *b->next);
    if (b->tables == NULL || b->prompts == NULL || b->tokens == NULL || b->spans == NULL ||
        b->outputs == NULL || b->results == NULL || b->next == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    struct rng rng = rng_seeded((uint64_t)o->seed);
    for (size_t i = 0; i < (size_t)b->sequence_max * b->prompt_max; i++)
        b->prompts[i] = (int32_t)rng_below(&rng, vocab);
    for (size_t i = 0; i < (size_t)b->sequence_max * b->table_blocks; i++) {
        struct block_id id;
        if (kvpool_take_block(&id, e->pool) != RC_OK)
            return fault_set(fault, RC_NO_FIT, "--kv-tokens %u: too small for %u sequences of %u",
                             e->options.kv_tokens, b->sequence_max, e->options.ctx_tokens);
        b->tables[b->taken_count++] = id.index;
    }
    return RC_OK;
}

static void close_bench(struct bench *b)
{
    for (size_t i = 0; i < b->taken_count; i++)
        kvpool_drop_block(b->engine->pool, (struct block_id){ b->tables[i] });
    mem_free(b->tables);
    mem_free(b->prompts);
    mem_free(b->tokens);
    mem_free(b->spans);
    mem_free(b->outputs);
    mem_free(b->results);
    mem_free(b->next);
    mem_free(b);
}

static enum rc run_row(struct bench *b, const struct bench_options *o, uint32_t pp, uint32_t tg,
                       uint32_t pl, struct fault *fault)
{
    enum rc rc = RC_OK;
    for (uint32_t round = 0; round < o->repeat && rc == RC_OK; round++) {
        rc = run_once(b, pp, tg, pl, round, fault);
        if (rc == RC_OK && interrupt_signal() != 0)
            rc = fault_set(fault, RC_CANCELLED, "interrupted");
    }
    return rc == RC_OK ? print_row(b, o, pp, tg, pl, fault) : rc;
}

static enum rc run_rows(struct bench *b, const struct bench_options *o, struct fault *fault)
{
    uint32_t warm = b->prompt_max < 16 ? b->prompt_max : 16;
    enum rc rc = run_once(b, warm, b->table_blocks * KV_BLOCK_TOKENS > warm + 1, 1, 0, fault);
    if (!o->jsonl && rc == RC_OK)
        printf("|    PP |     TG |    B |    N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |    "
               "  T s "
               "|    S t/s "
               "|\n|-------|--------|------|---------|----------|----------|----------|-------"
               "---|----------|----------|\n");
    for (uint32_t i = 0; i < o->prompts.count; i++)
        for (uint32_t j = 0; j < o->outputs.count; j++)
            for (uint32_t k = 0; k < o->parallels.count && rc == RC_OK; k++)
                rc = run_row(b, o, o->prompts.items[i], o->outputs.items[j], o->parallels.items[k],
                             fault);
    return rc;
}

/* Context and pool for the largest row, unless flags say otherwise. */
static enum rc size_engine(struct engine_options *e, const struct bench_options *o,
                           struct fault *fault)
{
    uint64_t longest = largest(&o->prompts) + largest(&o->outputs);
    e->rows_max = (uint32_t)largest(&o->parallels);
    if (longest > CTX_TOKENS_MAX || (e->ctx_tokens != 0 && e->ctx_tokens < longest))
        return fault_set(fault, RC_USAGE, "-npp and -ntg need %llu tokens, -c allows %u",
                         (unsigned long long)longest,
                         e->ctx_tokens != 0 ? e->ctx_tokens : CTX_TOKENS_MAX);
    e->ctx_tokens = (uint32_t)longest;
    uint64_t prompts = largest(&o->prompts) * e->rows_max; /* no step has more rows than these */
    if (prompts < e->chunk_tokens)
        e->chunk_tokens = (uint32_t)prompts;
    uint64_t blocks = (longest + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * e->rows_max;
    if (e->kv_tokens == 0)
        e->kv_tokens =
            blocks * KV_BLOCK_TOKENS < 1u << 30 ? (uint32_t)blocks * KV_BLOCK_TOKENS : 1u << 30;
    return RC_OK;
}

static const struct kind {
    const char *name;
    int (*run)(int argc, char **argv);
} kinds[] = {
    { "fused", bench_fused },
    { "serve", bench_serve },
};

int cmd_bench(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].run(argc - 1, argv + 1);
    struct bench_options o = { .prompts = { { 128 }, 1 },
                               .outputs = { { 32 }, 1 },
                               .parallels = { { 1, 2, 4, 8, 16 }, 5 },
                               .repeat = 1 };
    struct engine_options options = engine_options_default();
    options.chunk_tokens = 512;
    struct option_group groups[] = {
        { "bench", bench_rows, sizeof bench_rows / sizeof bench_rows[0], &o },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { "bench",
                              "-m MODEL [-npp N,..] [-ntg N,..] [-npl N,..]",
                              "Measures prefill and decode at several batch sizes. Other kinds: "
                              "quire bench fused, serve.",
                              groups,
                              2,
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    struct engine e;
    struct engine_needs needs = { .requests_max = 1 };
    enum rc rc = size_engine(&options, &o, &fault);
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &fault)) == RC_OK) {
        struct bench *b = mem_alloc(sizeof *b);
        rc = b != NULL ? open_bench(b, &e, &o, &fault)
                       : fault_set(&fault, RC_NO_MEMORY, "out of memory");
        if (rc == RC_OK)
            rc = run_rows(b, &o, &fault);
        if (b != NULL)
            close_bench(b);
        engine_close(&e);
    }
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    return rc == RC_OK ? 0 : engine_complain("bench", &fault);
}
