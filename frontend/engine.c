/* SPDX-License-Identifier: MIT */
/* engine - what is opened by whom:
 *
 *   opener             gguf -> model -> tokenizer -> limits resolved, memory compared
 *   scheduler thread   workers -> kvpool -> exec_cpu -> sched -> sched_run ... -> closed in reverse
 *
 * The second row has one owner for its whole life, because workers take their opener for worker 0.
 * Without a thread both rows are the opener's. The KV pool and the executor's scratch are
 * compared with the memory that is available before the start is called one (P5): KV by its size in
 * bytes before it is mapped, scratch as soon as its size is known, before any page of it is used.
 * */
#include "frontend/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/cpus.h"
#include "core/mem.h"
#include "core/must.h"
#include "frontend/budget.h"
#include "frontend/interrupt.h"
#include "frontend/engine_store.h"
#include "kvpool/blockfile.h"
#include "sched/journal.h"

struct engine_thread {
    pthread_t id;
    sem_t ready; /* posted once, when rc is known */
    enum rc rc;
    struct fault *fault;
};

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static uint32_t round_to_blocks(uint64_t tokens)
{
    return (uint32_t)((tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS);
}

static uint64_t file_bytes(const struct gguf *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < gguf_file_count(g); i++)
        bytes += gguf_file_bytes(g, i);
    return bytes;
}

/* KV tokens when the flag leaves them open: every request at its full context, but not more than
 * 16K tokens or one context, and not more than half of what is available; a quarter when weights
 * want the rest: each byte that they do not get is read in every step. */
static uint32_t choose_kv_tokens(const struct engine_options *o, size_t block_bytes,
                                 uint64_t available, uint64_t weights)
{
    uint32_t rows = o->rows_max > 0 ? o->rows_max : ENGINE_ROWS;
    uint64_t wanted = (uint64_t)o->ctx_tokens * rows, most = 16384;
    if (most < o->ctx_tokens)
        most = o->ctx_tokens;
    if (wanted > most)
        wanted = most;
    uint64_t share = available / 2 >= weights ? available / 2 : available / 4;
    uint64_t fitting = share / block_bytes * KV_BLOCK_TOKENS;
    if (wanted > fitting)
        wanted = fitting > o->ctx_tokens ? fitting : o->ctx_tokens;
    return (uint32_t)wanted;
}

static struct kv_types kv_types(const struct engine_options *o)
{
    return (struct kv_types){ (enum kv_type)o->kv_type_k, (enum kv_type)o->kv_type_v };
}

static enum rc say_no_fit(struct engine *e, uint64_t kv_bytes, uint64_t scratch_bytes,
                          const struct budget *b, struct fault *fault)
{
    return fault_set(
        fault, RC_NO_FIT,
        "KV pool of %u tokens (%.0f MiB) and scratch (%.0f MiB) do not fit: %.0f MiB available "
        "%s; lower --kv-tokens, -c, --max-rows or --chunk",
        e->options.kv_tokens, mib(kv_bytes), mib(scratch_bytes), mib(b->available_bytes),
        b->reason);
}

/* How wide steps may be. A pass over weights that come from disk takes its time: more requests
 * share it, and more of a prompt. */
static enum rc resolve_rows(struct engine *e, bool streams, struct fault *fault)
{
    struct engine_options *o = &e->options;
    bool chosen = o->chunk_tokens == 0;
    if (chosen)
        o->chunk_tokens = streams ? 256 : e->needs.chunk_tokens > 0 ? e->needs.chunk_tokens : 128;
    if (o->rows_max == 0) {
        o->rows_max = streams ? ENGINE_ROWS_STREAMED : ENGINE_ROWS;
        e->rows_calm = streams ? ENGINE_ROWS : 0;
    }
    if (e->needs.outputs_max < o->rows_max)
        e->needs.outputs_max = o->rows_max;
    bool twice = streams && !chosen && o->chunk_tokens <= STEP_ROWS_MAX / 4;
    if (e->needs.step_prefill_tokens == 0)
        e->needs.step_prefill_tokens = twice ? 2 * o->chunk_tokens : o->chunk_tokens;
    if (o->rows_max + e->needs.step_prefill_tokens > STEP_ROWS_MAX)
        return fault_set(fault, RC_USAGE,
                         "--max-rows and --chunk make steps of %u rows, at most %u",
                         o->rows_max + e->needs.step_prefill_tokens, STEP_ROWS_MAX);
    return RC_OK;
}

static enum rc resolve_options(struct engine *e, const struct budget *b, const struct cpus *cpus,
                               size_t block_bytes, struct fault *fault)
{
    struct engine_options *o = &e->options;
    uint32_t trained = e->model->ctx_train;
    if (o->ctx_tokens == 0)
        o->ctx_tokens = trained > 0 && trained < 4096 ? trained : 4096;
    if (trained > 0 && o->ctx_tokens > trained)
        fprintf(stderr,
                "warning: -c %u is more than the %u tokens that the model was trained for\n",
                o->ctx_tokens, trained);
    if (o->kv_tokens == 0)
        o->kv_tokens = choose_kv_tokens(o, block_bytes, b->available_bytes, file_bytes(e->gguf));
    uint64_t kv_bytes = (uint64_t)round_to_blocks(o->kv_tokens) * block_bytes;
    if (kv_bytes > b->available_bytes)
        return say_no_fit(e, kv_bytes, 0, b, fault);
    if (o->threads == 0)
        o->threads = cpus->count;
    if (o->threads > cpus->count)
        fprintf(stderr, "warning: -t %u is more than the usable CPUs (%s)\n", o->threads,
                cpus->reason);
    struct residency_needs needs = { b->available_bytes, kv_bytes, o->threads };
    struct residency_split split; /* scratch is not known yet: it follows from the rows */
    residency_split(&split, &needs, file_bytes(e->gguf), STREAM_EXTENT_BYTES);
    enum rc rc = resolve_rows(e, !split.fits, fault);
    if (rc != RC_OK)
        return rc;
    enum isa isa = o->isa == 0 ? cpu_isa() : (enum isa)(o->isa - 1);
    if (!isa_usable(isa))
        return fault_set(fault, RC_USAGE, "--isa %s: this machine has no more than %s",
                         isa_name(isa), isa_name(cpu_isa()));
    o->isa = 1 + (uint32_t)isa;
    return RC_OK;
}

/* The end-of-turn tokens, which stop every request that does not say ignore_eos. */
static void find_end_ids(struct engine *e)
{
    uint32_t vocab = tokenizer_vocab_count(e->tokenizer);
    for (uint32_t id = 0; id < vocab && e->end_id_count < STOP_IDS_MAX; id++)
        if (tokenizer_is_end(e->tokenizer, (int32_t)id))
            e->end_ids[e->end_id_count++] = (int32_t)id;
}

/* Bytes outside plain ASCII become '_': the name goes into JSON and log lines. */
static void take_name(struct engine *e)
{
    const char *slash = strrchr(e->options.model, '/');
    const char *from = slash != NULL ? slash + 1 : e->options.model;
    size_t len = strlen(from), cut = len > 5 && strcmp(from + len - 5, ".gguf") == 0 ? 5 : 0;
    len = len - cut < sizeof e->name - 1 ? len - cut : sizeof e->name - 1;
    for (size_t i = 0; i < len; i++)
        e->name[i] = from[i] > ' ' && from[i] < 0x7f ? from[i] : '_';
    e->name[len] = '\0';
}

static enum rc open_model(struct engine *e, struct fault *fault)
{
    if (e->options.model == NULL)
        return fault_set(fault, RC_USAGE, "-m MODEL is missing");
    take_name(e);
    enum rc rc = gguf_open(&e->gguf, e->options.model, fault);
    if (rc == RC_IO ||
        rc == RC_NOT_FOUND) /* for the exit status an unreadable file is a bad model */
        fault->code = rc = RC_CORRUPT;
    if (rc == RC_OK) {
        /* Vectors are copied out of it; residency_open says how the rest is read. */
        (void)!gguf_advise(e->gguf, GGUF_PIECES);
        rc = model_open(&e->model, e->gguf, fault);
    }
    if (rc == RC_OK)
        rc = tokenizer_open(&e->tokenizer, e->gguf, fault);
    if (rc == RC_OK && tokenizer_vocab_count(e->tokenizer) > e->model->vocab_count)
        rc = fault_set(fault, RC_CORRUPT, "the vocabulary has %u tokens, the embedding %u rows",
                       tokenizer_vocab_count(e->tokenizer), e->model->vocab_count);
    if (rc == RC_OK)
        find_end_ids(e);
    return rc;
}

/* Type of the tensors that take most bytes. */
static const char *main_type(const struct gguf *g)
{
    uint64_t bytes[DTYPE_COUNT] = { 0 };
    uint32_t best = 0;
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        bytes[t->type] += t->bytes;
    }
    for (uint32_t i = 0; i < DTYPE_COUNT; i++)
        if (bytes[i] > bytes[best])
            best = i;
    return dtype_find(best)->name;
}

static void print_start(const struct engine *e, const struct budget *b, const struct cpus *cpus)
{
    const struct engine_options *o = &e->options;
    fprintf(stderr, "model     %s: %s, %s, %u layers, vocabulary %u, %.1f MiB mapped\n", o->model,
            e->model->arch->name, main_type(e->gguf), e->model->layer_count, e->model->vocab_count,
            mib(file_bytes(e->gguf)));
    fprintf(stderr,
            "context   %u tokens a request (trained for %u), %u requests at once, chunk %u\n",
            sched_ctx_tokens(e->sched), e->model->ctx_train, o->rows_max, o->chunk_tokens);
    uint32_t blocks = kvpool_block_count(e->pool);
    uint64_t kv_bytes = (uint64_t)blocks * kvpool_block_bytes(e->pool);
    fprintf(stderr,
            "memory    KV pool %u tokens (%s keys, %s values), %.0f MiB; scratch %.0f MiB; ",
            blocks * KV_BLOCK_TOKENS, kv_type_name(kv_types(o).k), kv_type_name(kv_types(o).v),
            mib(kv_bytes), mib(exec_cpu_scratch_bytes(e->exec)));
    if (b->available_bytes == UINT64_MAX)
        fprintf(stderr, "available: %s\n", b->reason);
    else
        fprintf(stderr, "%.0f MiB available %s\n", mib(b->available_bytes), b->reason);
    residency_print(&e->weights, &o->weights);
    if (o->threads == cpus->count)
        fprintf(stderr, "threads   %s", cpus->reason);
    else
        fprintf(stderr, "threads   %u, as asked", o->threads);
    fprintf(stderr, "; isa %s, activations %s\n", isa_name(exec_cpu_isa(e->exec)),
            o->act == 0 ? "int8" : "f32");
    engine_store_print(e);
}

/* With -v: what the scheduler counted. */
static void print_end(const struct engine *e)
{
    struct sched_stats s = sched_stats_get(e->sched);
    fprintf(stderr,
            "steps     %llu with %llu rows; %llu preemptions, %llu prompt tokens reused, "
            "%llu waits for the block file, %llu cached blocks given back\n",
            (unsigned long long)s.steps, (unsigned long long)s.rows,
            (unsigned long long)s.preemptions, (unsigned long long)s.cached_tokens,
            (unsigned long long)s.io_waits, (unsigned long long)s.relieved_blocks);
    residency_report(&e->weights);
}

/* --log-events. */
static enum rc open_journal(struct engine *e, struct fault *fault)
{
    if (e->options.log_events == NULL)
        return RC_OK;
    struct journal_pool head = {
        .block_count = kvpool_block_count(e->pool),
        .block_bytes = kvpool_block_bytes(e->pool),
        .hash_seed = kvpool_seed(e->pool),
    };
    enum rc rc = journal_create(&e->journal, e->options.log_events, fault);
    if (rc == RC_OK)
        journal_put_pool(e->journal, &head);
    return rc;
}

static void close_journal(struct engine *e)
{
    if (e->journal != NULL && journal_failed(e->journal))
        fprintf(stderr, "warning: --log-events %s could not be written whole\n",
                e->options.log_events);
    journal_close(e->journal);
    e->journal = NULL;
}

static enum rc open_sched(struct engine *e, const struct chaos *chaos, struct fault *fault)
{
    const struct engine_options *o = &e->options;
    struct sched_config config = {
        .ctx_tokens = o->ctx_tokens,
        .rows_max = o->rows_max,
        .rows_calm = e->rows_calm,
        .chunk_tokens = o->chunk_tokens,
        .step_prefill_tokens = e->needs.step_prefill_tokens,
        .itl_us = o->itl_ms * 1000,
        .requests_max = e->needs.requests_max,
        .no_prefix_cache = o->no_prefix_cache,
        .chaos_preempt_steps = chaos->preempt,
        .chaos_alloc = chaos->alloc,
        .audit_steps = o->audit_steps,
        .on_events = e->needs.on_events,
        .on_events_ctx = e->needs.on_events_ctx,
    };
    struct executor executor = exec_cpu_executor(e->exec);
    struct journal_sched head = { config, executor.limits };
    if (e->journal != NULL)
        journal_put_sched(e->journal, &head);
    config.journal = e->journal;
    return sched_open(&e->sched, &config, e->pool, executor, e->clock, fault);
}

/* Weights get their place beside the KV pool and scratch, which take other_bytes. */
static enum rc open_weights(struct engine *e, uint64_t available_bytes, uint64_t other_bytes,
                            struct fault *fault)
{
    const struct engine_options *o = &e->options;
    struct residency_needs needs = { available_bytes, other_bytes, o->threads };
    enum rc rc = residency_open(&e->weights, &o->weights, &needs, e->model, e->gguf, fault);
    if (rc != RC_OK)
        return rc;
    exec_cpu_stream(e->exec, e->weights.stream);
    for (uint32_t i = 0; i < gguf_file_count(e->gguf); i++)
        interrupt_survive_loss(gguf_file_base(e->gguf, i), gguf_file_bytes(e->gguf, i));
    return RC_OK;
}

static void relieve(void *ctx)
{
    struct engine *e = ctx;
    sched_relieve(e->sched);
}

/* Looks after memory from here on. */
static enum rc open_pressure(struct engine *e, struct fault *fault)
{
    struct pressure_config config = { .root = "",
                                      .file = e->options.pressure,
                                      .mem_bytes = e->options.weights.mem_bytes,
                                      .keep_bytes = e->weights.keep_bytes,
                                      .relieve = relieve,
                                      .ctx = e };
    return pressure_open(&e->pressure, &config, fault);
}

/* The second row of the picture; after an error close_compute cleans up. */
static enum rc open_compute(struct engine *e, struct fault *fault)
{
    const struct engine_options *o = &e->options;
    struct budget budget;
    struct cpus cpus;
    struct chaos chaos;
    budget_read(&budget, "");
    if (o->weights.mem_bytes > 0)
        budget_limit(&budget, o->weights.mem_bytes, budget_own_bytes(""));
    enum rc rc = chaos_parse(&chaos, o->chaos, fault);
    if (rc != RC_OK)
        return rc;
    rc = cpus_read(&cpus, "");
    if (rc != RC_OK)
        return fault_set(fault, rc, "the usable CPUs cannot be read: %s", rc_text(rc));
    size_t block_bytes = 0;
    rc = exec_cpu_block_bytes(&block_bytes, e->model, kv_types(o), fault);
    if (rc == RC_OK)
        rc = resolve_options(e, &budget, &cpus, block_bytes, fault);
    if (rc == RC_OK)
        rc = workers_open(&e->workers, o->threads, NULL, o->threads <= cpus.count, fault);
    if (rc == RC_OK)
        rc = kvpool_open(&e->pool, round_to_blocks(o->kv_tokens), block_bytes, fault);
    if (rc == RC_OK)
        rc = open_journal(e, fault);
    if (rc != RC_OK)
        return rc;
    struct exec_cpu_config config = {
        .rows_max = o->rows_max + e->needs.step_prefill_tokens,
        .outputs_max = e->needs.outputs_max,
        .ctx_max = o->ctx_tokens,
        .isa = (enum isa)(o->isa - 1),
        .act_f32 = o->act == 1,
        .lost = interrupt_lost_bytes,
        .kv_types = kv_types(o),
        .kv_base = kvpool_base(e->pool),
        .kv_block_bytes = kvpool_block_bytes(e->pool),
        .kv_block_count = kvpool_block_count(e->pool),
    };
    rc = exec_cpu_open(&e->exec, e->model, e->workers, &config, fault);
    if (rc != RC_OK)
        return rc;
    uint64_t kv_bytes = (uint64_t)config.kv_block_count * config.kv_block_bytes;
    uint64_t scratch = exec_cpu_scratch_bytes(e->exec);
    if (kv_bytes + scratch > budget.available_bytes)
        return say_no_fit(e, kv_bytes, scratch, &budget, fault);
    rc = engine_store_open(e, chaos.io, fault);
    if (rc != RC_OK)
        return rc;
    rc = open_weights(e, budget.available_bytes, kv_bytes + scratch, fault);
    if (rc != RC_OK)
        return rc;
    rc = open_sched(e, &chaos, fault);
    if (rc == RC_OK)
        rc = open_pressure(e, fault);
    if (rc == RC_OK && !o->quiet)
        print_start(e, &budget, &cpus);
    return rc;
}

static void close_compute(struct engine *e)
{
    pressure_close(e->pressure);
    e->pressure = NULL;
    if (e->sched != NULL) {
        if (e->options.verbose > 0)
            print_end(e);
        sched_close(e->sched);
        engine_store_report(e);
    }
    exec_cpu_close(e->exec);
    residency_close(&e->weights);
    kvpool_close(e->pool);
    close_journal(e);
    blockfile_close(e->blocks);
    e->blocks = NULL;
    workers_close(e->workers);
    e->sched = NULL;
    e->exec = NULL;
    e->pool = NULL;
    e->workers = NULL;
}

/* The scheduler thread: owns what it opens until the engine is closed. */
static void *thread_main(void *arg)
{
    struct engine *e = arg;
    struct engine_thread *t = e->thread;
    enum rc rc = t->rc = open_compute(e, t->fault);
    sem_post(&t->ready);
    if (rc == RC_OK)
        sched_run(e->sched);
    close_compute(e);
    return NULL;
}

static enum rc start_thread(struct engine *e, struct fault *fault)
{
    struct engine_thread *t = mem_alloc(sizeof *t);
    if (t == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    t->fault = fault;
    must(sem_init(&t->ready, 0, 0) == 0);
    sigset_t all, before;
    e->thread = t;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* interrupt_guard_files: a signal of the thread that reads */
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the opener's */
    int error = pthread_create(&t->id, NULL, thread_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        sem_destroy(&t->ready);
        mem_free(t);
        e->thread = NULL;
        errno = error;
        return fault_set_errno(fault, RC_NO_MEMORY, "the scheduler thread cannot be started");
    }
    while (sem_wait(&t->ready) != 0)
        must(errno == EINTR);
    return t->rc;
}

enum rc engine_open(struct engine *e, const struct engine_options *options,
                    const struct engine_needs *needs, struct fault *fault)
{
    *e = (struct engine){ .options = *options, .needs = *needs, .clock = clock_real() };
    enum rc rc = open_model(e, fault);
    if (rc == RC_OK)
        rc = needs->thread ? start_thread(e, fault) : open_compute(e, fault);
    if (rc != RC_OK)
        engine_close(e);
    return rc;
}

void engine_close(struct engine *e)
{
    struct engine_thread *t = e->thread;
    if (t != NULL) {
        if (t->rc == RC_OK)
            sched_stop(e->sched);
        must(pthread_join(t->id, NULL) == 0);
        sem_destroy(&t->ready);
        mem_free(t);
        e->thread = NULL;
    } else {
        close_compute(e);
    }
    tokenizer_close(e->tokenizer);
    model_close(e->model);
    if (e->gguf != NULL)
        interrupt_forget_files();
    gguf_close(e->gguf);
    e->tokenizer = NULL;
    e->model = NULL;
    e->gguf = NULL;
}

enum rc engine_encode(const struct engine *e, const char *text, size_t len, bool special,
                      struct token_list *out)
{
    unsigned flags = TOKENIZE_BOS | (special ? TOKENIZE_SPECIAL : 0u);
    return tokenizer_encode(e->tokenizer, text, len, flags, out);
}

int engine_complain(const char *command, const struct fault *fault)
{
    fprintf(stderr, "quire %s: %s\n", command, fault->text);
    return rc_exit_status(fault->code);
}
