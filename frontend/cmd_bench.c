/* SPDX-License-Identifier: MIT */
/* cmd_bench - speed of the two phases. Two ways to ask: -p and -n, a row for each (pp512: 512
 * prompt tokens; tg128: 128 tokens one after another), or -npp, -ntg and -npl, a row for each
 * combination: npl sequences with prompts of npp tokens, then ntg steps that hold exactly npl rows.
 * What is inside the clock: frontend/bench/bench_run.h. A warm-up that touches every weight is run
 * first and dropped; then the same steps are measured against themselves, which is the noise. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/bench/bench.h"
#include "frontend/bench/bench_report.h"
#include "frontend/bench/bench_run.h"
#include "frontend/bench/provenance.h"
#include "frontend/commands.h"
#include "frontend/engine.h"
#include "frontend/interrupt.h"

struct bench_options {
    struct option_u32s prompts, outputs; /* -p, -n */
    struct option_u32s batch_prompts, batch_outputs, parallels;
    struct option_u32s depths, chunks;
    uint32_t repeat, format;
    int64_t seed;
    bool layers, jsonl;
};

static const char *const formats[] = { "md", "csv", "json", "jsonl", NULL };

#define AT(member) offsetof(struct bench_options, member)
static const struct option bench_rows[] = {
    { "-p --prompts", OPTION_U32S, AT(prompts), 0, CTX_TOKENS_MAX, "N,..", NULL,
      "a row for the speed of a prompt of N tokens; 0 = none; 512 when nothing is asked for" },
    { "-n --outputs", OPTION_U32S, AT(outputs), 0, CTX_TOKENS_MAX, "N,..", NULL,
      "a row for the speed of N tokens one after another; 0 = none; 128 likewise" },
    { "-npp --n-prompt", OPTION_U32S, AT(batch_prompts), 1, CTX_TOKENS_MAX, "N,..", NULL,
      "tokens of each prompt; with outputs in one row" },
    { "-ntg --n-gen", OPTION_U32S, AT(batch_outputs), 0, CTX_TOKENS_MAX, "N,..", NULL,
      "tokens generated for each sequence after it" },
    { "-npl --n-parallel", OPTION_U32S, AT(parallels), 1, 1024, "N,..", NULL, "sequences at once" },
    { "-d --depth", OPTION_U32S, AT(depths), 0, CTX_TOKENS_MAX, "N,..", NULL,
      "tokens that each sequence has before the clock starts" },
    { "-b --batch-size", OPTION_U32S, AT(chunks), 1, STEP_ROWS_MAX / 2, "N,..", NULL,
      "prompt rows of a step; default: --chunk" },
    { "-r --repetitions", OPTION_U32, AT(repeat), 1, BENCH_REPEAT_MAX, "N", NULL,
      "runs of each row; the median is printed" },
    { "-s --seed", OPTION_I64, AT(seed), 0, 0, "N", NULL, "seed of the random prompts" },
    { "--layers", OPTION_FLAG, AT(layers), 0, 0, NULL, NULL,
      "where the time of a step goes, by layer and stage" },
    { "-o --output", OPTION_CHOICE, AT(format), 0, 0, "FORMAT", formats,
      "md, csv, json (one array), jsonl (an object a row)" },
    { "--jsonl", OPTION_FLAG, AT(jsonl), 0, 0, NULL, NULL, "the same as -o jsonl" },
};

static uint32_t largest(const struct option_u32s *list)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < list->count; i++)
        most = list->items[i] > most ? list->items[i] : most;
    return most;
}

static void default_to(struct option_u32s *list, uint32_t value)
{
    if (list->count == 0)
        *list = (struct option_u32s){ { value }, 1 };
}

/* Which of the two ways was meant, and what was left out. */
static enum rc settle(struct bench_options *o, const struct engine_options *e, bool *batched,
                      struct fault *fault)
{
    bool single = o->prompts.count > 0 || o->outputs.count > 0;
    *batched = o->batch_prompts.count > 0 || o->batch_outputs.count > 0;
    if (single && *batched)
        return fault_set(fault, RC_USAGE,
                         "-p and -n make rows of their own, -npp and -ntg rows of "
                         "both: not in one run");
    if (*batched) {
        static const struct option_u32s usual = { { 1, 2, 4, 8, 16 }, 5 };
        default_to(&o->batch_prompts, 128);
        default_to(&o->batch_outputs, 32);
        o->parallels = o->parallels.count > 0 ? o->parallels : usual;
    } else {
        default_to(&o->prompts, single ? 0 : 512);
        default_to(&o->outputs, single ? 0 : 128);
        if (largest(&o->prompts) == 0 && largest(&o->outputs) == 0)
            return fault_set(fault, RC_USAGE, "-p and -n are 0: nothing to measure");
    }
    default_to(&o->parallels, 1);
    default_to(&o->depths, 0);
    default_to(&o->chunks, e->chunk_tokens);
    if (o->jsonl)
        o->format = BENCH_JSONL;
    if (o->layers && o->format == BENCH_CSV)
        return fault_set(fault, RC_USAGE, "--layers needs -o md, json or jsonl");
    return RC_OK;
}

/* ---- all rows ---- */

struct table {
    const struct bench_options *o;
    struct bench *bench;
    struct bench_report report;
    struct bench_row *row;
};

/* A row that was interrupted shows the repetitions that were done. */
static enum rc run_row(struct table *t, const struct bench_case *what, struct fault *fault)
{
    if (what->prompt == 0 && what->output == 0)
        return RC_OK;
    enum rc rc = bench_run_case(t->bench, what, t->o->repeat, t->row, fault);
    if (t->row->done == 0)
        return rc;
    struct fault second;
    enum rc printed = bench_report_row(&t->report, t->row, rc == RC_OK ? fault : &second);
    return rc == RC_OK ? printed : rc;
}

static enum rc run_single(struct table *t, const struct bench_case *like, struct fault *fault)
{
    enum rc rc = RC_OK;
    struct bench_case what = *like;
    for (uint32_t i = 0; i < t->o->prompts.count && rc == RC_OK; i++) {
        what.prompt = t->o->prompts.items[i];
        rc = run_row(t, &what, fault);
    }
    what.prompt = 0;
    for (uint32_t i = 0; i < t->o->outputs.count && rc == RC_OK; i++) {
        what.output = t->o->outputs.items[i];
        rc = run_row(t, &what, fault);
    }
    return rc;
}

static enum rc run_batched(struct table *t, const struct bench_case *like, struct fault *fault)
{
    const struct bench_options *o = t->o;
    enum rc rc = RC_OK;
    struct bench_case what = *like;
    for (uint32_t i = 0; i < o->batch_prompts.count; i++)
        for (uint32_t j = 0; j < o->batch_outputs.count; j++)
            for (uint32_t k = 0; k < o->parallels.count && rc == RC_OK; k++) {
                what.prompt = o->batch_prompts.items[i];
                what.output = o->batch_outputs.items[j];
                what.parallel = o->parallels.items[k];
                rc = run_row(t, &what, fault);
            }
    return rc;
}

static enum rc run_rows(struct table *t, struct fault *fault)
{
    const struct bench_options *o = t->o;
    enum rc rc = RC_OK;
    for (uint32_t d = 0; d < o->depths.count; d++)
        for (uint32_t c = 0; c < o->chunks.count; c++) {
            struct bench_case like = { .depth = o->depths.items[d], .chunk = o->chunks.items[c] };
            if (t->report.batched && rc == RC_OK)
                rc = run_batched(t, &like, fault);
            for (uint32_t k = 0; k < o->parallels.count && !t->report.batched && rc == RC_OK; k++) {
                like.parallel = o->parallels.items[k];
                rc = run_single(t, &like, fault);
            }
        }
    return rc;
}

/* What was begun is ended, whatever happened. */
static enum rc run_table(struct table *t, struct fault *fault)
{
    struct fault second;
    enum rc rc = bench_warm_up(t->bench, fault);
    if (rc == RC_OK)
        rc = bench_take_noise(t->bench, &t->report.noise, fault);
    if (rc == RC_OK)
        rc = bench_report_open(&t->report, fault);
    if (rc == RC_OK)
        rc = run_rows(t, fault);
    enum rc closed = bench_report_close(&t->report, rc == RC_OK ? fault : &second);
    return rc == RC_OK ? closed : rc;
}

static enum rc run_engine(struct engine *e, const struct bench_options *o,
                          const struct bench_sizes *sizes, struct bench_report *report,
                          const struct provenance_words *words, struct fault *fault)
{
    struct table t = { .o = o, .row = mem_alloc(sizeof *t.row), .report = *report };
    enum rc rc = bench_open(&t.bench, e, sizes, o->seed, o->layers, fault);
    if (rc != RC_OK) {
        mem_free(t.row);
        return rc;
    }
    t.report.engine = e;
    t.report.limits = bench_probe(t.bench);
    t.report.provenance = provenance_new(e, words);
    rc = t.row != NULL && t.report.provenance != NULL
             ? run_table(&t, fault)
             : fault_set(fault, RC_NO_MEMORY, "out of memory");
    json_decref(t.report.provenance);
    bench_close(t.bench);
    mem_free(t.row);
    return rc;
}

/* Context and pool for the largest row, unless flags say otherwise. */
static enum rc size_engine(struct engine_options *e, const struct bench_options *o, bool batched,
                           struct bench_sizes *sizes, struct fault *fault)
{
    uint64_t both = (uint64_t)largest(&o->batch_prompts) + largest(&o->batch_outputs);
    uint64_t either =
        largest(&o->prompts) > largest(&o->outputs) ? largest(&o->prompts) : largest(&o->outputs);
    uint64_t longest = largest(&o->depths) + (batched ? both : either);
    e->rows_max = largest(&o->parallels);
    if (longest > CTX_TOKENS_MAX || (e->ctx_tokens != 0 && e->ctx_tokens < longest))
        return fault_set(fault, RC_USAGE, "%s and -d need %llu tokens, -c allows %u",
                         batched ? "-npp, -ntg" : "-p, -n", (unsigned long long)longest,
                         e->ctx_tokens != 0 ? e->ctx_tokens : CTX_TOKENS_MAX);
    e->ctx_tokens = (uint32_t)longest;
    e->chunk_tokens = largest(&o->chunks);
    uint64_t prompts = longest * e->rows_max; /* no step has more rows than these */
    if (prompts < e->chunk_tokens)
        e->chunk_tokens = (uint32_t)prompts;
    uint64_t blocks = (longest + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * e->rows_max;
    if (e->kv_tokens == 0)
        e->kv_tokens =
            blocks * KV_BLOCK_TOKENS < 1u << 30 ? (uint32_t)blocks * KV_BLOCK_TOKENS : 1u << 30;
    *sizes = (struct bench_sizes){ (uint32_t)longest, e->rows_max, e->chunk_tokens };
    return RC_OK;
}

static const struct kind {
    const char *name;
    int (*run)(int argc, char **argv);
} kinds[] = {
    { "crossover", bench_crossover },
    { "fused", bench_fused },
    { "serve", bench_serve },
};

int cmd_bench(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].run(argc - 1, argv + 1);
    struct bench_options o = { .repeat = 3 };
    struct engine_options options = engine_options_default();
    options.chunk_tokens = 512;
    struct option_group groups[] = {
        { "bench", bench_rows, sizeof bench_rows / sizeof bench_rows[0], &o },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { "bench",
                              "-m MODEL [-p N,..] [-n N,..] | [-npp N,..] [-ntg N,..] [-npl N,..]",
                              "Measures prefill and decode beside the limits of the machine. Other "
                              "kinds: quire bench crossover, fused, serve.",
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
    struct bench_sizes sizes;
    struct bench_report report = { 0 };
    struct provenance_words words = { argc, argv };
    enum rc rc = settle(&o, &options, &report.batched, &fault);
    if (rc == RC_OK)
        rc = size_engine(&options, &o, report.batched, &sizes, &fault);
    report.format = (enum bench_format)o.format;
    report.layers = o.layers;
    report.chunks = o.chunks.count > 1;
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &fault)) == RC_OK) {
        rc = run_engine(&e, &o, &sizes, &report, &words, &fault);
        engine_close(&e);
    }
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    return rc == RC_OK ? 0 : engine_complain("bench", &fault);
}
