/* SPDX-License-Identifier: MIT */
/* One request, one answer, in the real engine: tokens and log-probabilities of a request are the
 * same bits cold and alone as when its blocks come from the cache, from part of another block, from
 * a request beside it, from a second computation after a preemption, or from a file of an earlier
 * process; and so are embeddings of the same prompts. Each case shows by counters that it went that
 * way. */
#include "tests/unit/test.h"

#include <unistd.h>

#include "frontend/api/pooled.h"
#include "kernels/dequant.h"
#include "kernels/exec_cpu.h"
#include "kvpool/blockfile.h"
#include "kvpool/store.h"
#include "sched/sched.h"
#include "tests/kernels/guard.h"
#include "tests/mkmodel/mkmodel.h"

#define REQUESTS 6u
#define PROMPT_MAX 100u
#define OUTPUT 70u
#define WIDTH 64u
#define ROOMY 128u /* blocks */
#define SCARCE 12u /* two requests and a half */

static char model_path[] = "/tmp/quire-paths-XXXXXX";
static char file_path[64];

struct machine {
    struct gguf *gguf;
    struct model *model;
    struct workers *workers;
    struct kvpool *pool;
    struct blockfile *file;
    struct exec_cpu *exec;
    struct sched *sched;
    uint64_t now_us; /* stands still: a disk takes no time, so that writing always pays */
};

struct answer {
    int32_t tokens[OUTPUT];
    float logprobs[OUTPUT];
};

struct way {
    uint32_t threads, chunk, blocks;
    const char *path; /* of the block file, or NULL */
    uint32_t chaos_preempt;
    bool plain;
};

static int32_t prompts[REQUESTS][PROMPT_MAX];
static uint32_t prompt_count[REQUESTS];
static struct answer right[REQUESTS];
static float right_embedding[2][REQUESTS][WIDTH]; /* mean, last */

#define OK(call)                                                                                   \
    do                                                                                             \
        if ((call) != RC_OK)                                                                       \
            fail_msg("%s: %s", #call, fault.text);                                                 \
    while (0)

static void open_store(struct machine *m, const struct way *w)
{
    struct fault fault = { 0 };
    struct blockfile_config file = {
        .path = w->path, .slot_count = 64, .plain = w->plain, .key = { 1, exec_cpu_kv_id(m->exec) }
    };
    OK(blockfile_open(&m->file, &file, m->pool, &fault));
    struct store_config store = { .io = blockfile_io(m->file),
                                  .clock = clock_virtual(&m->now_us),
                                  .slot_count = blockfile_slot_count(m->file),
                                  .keep = blockfile_index(m->file) != NULL };
    OK(kvpool_open_store(m->pool, &store, &fault));
}

static void machine_open(struct machine *m, const struct way *w)
{
    struct fault fault = { 0 };
    *m = (struct machine){ 0 };
    OK(gguf_open(&m->gguf, model_path, &fault));
    OK(model_open(&m->model, m->gguf, &fault));
    OK(workers_open(&m->workers, w->threads, NULL, true, &fault));
    struct exec_cpu_config c = { .rows_max = REQUESTS + 64,
                                 .outputs_max = REQUESTS,
                                 .ctx_max = 256,
                                 .isa = cpu_isa(),
                                 .kv_block_count = w->blocks };
    size_t block_bytes;
    OK(exec_cpu_block_bytes(&block_bytes, m->model, c.kv_types, &fault));
    OK(kvpool_open(&m->pool, w->blocks, block_bytes, &fault));
    c.kv_base = kvpool_base(m->pool);
    c.kv_block_bytes = kvpool_block_bytes(m->pool);
    OK(exec_cpu_open(&m->exec, m->model, m->workers, &c, &fault));
    if (w->path != NULL)
        open_store(m, w);
    struct sched_config s = { .ctx_tokens = 256,
                              .rows_max = REQUESTS,
                              .chunk_tokens = w->chunk,
                              .requests_max = 2 * REQUESTS,
                              .chaos_preempt_steps = w->chaos_preempt,
                              .audit_steps = 1 };
    OK(sched_open(&m->sched, &s, m->pool, exec_cpu_executor(m->exec), clock_virtual(&m->now_us),
                  &fault));
}

static void machine_close(struct machine *m)
{
    sched_close(m->sched);
    exec_cpu_close(m->exec);
    kvpool_close(m->pool);
    blockfile_close(m->file);
    workers_close(m->workers);
    model_close(m->model);
    gguf_close(m->gguf);
}

static struct request *submit(struct machine *m, uint32_t i)
{
    struct fault fault = { 0 };
    struct request *r;
    struct request_params p = { .prompt = prompts[i],
                                .prompt_count = prompt_count[i],
                                .max_tokens = OUTPUT,
                                .sampling = sampling_default(),
                                .logprobs = true };
    p.sampling.seed = i;
    OK(sched_submit(&r, m->sched, &p, &fault));
    return r;
}

/* Takes the answer of a finished request; how many tokens of its prompt came from elsewhere. */
static uint32_t take(struct machine *m, struct request *r, struct answer *a)
{
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    for (uint32_t k = 0; k < OUTPUT; k++) {
        a->tokens[k] = request_token(r, k);
        a->logprobs[k] = request_logprob(r, k);
    }
    uint32_t cached = request_cached_count(r);
    sched_release(m->sched, r);
    return cached;
}

/* Requests [from, to) together; their cached tokens. Every answer must be right. */
static uint32_t serve(struct machine *m, uint32_t from, uint32_t to)
{
    struct request *r[REQUESTS];
    struct answer a;
    uint32_t cached = 0;
    for (uint32_t i = from; i < to; i++)
        r[i] = submit(m, i);
    while (sched_step(m->sched)) {
    }
    for (uint32_t i = from; i < to; i++) {
        cached += take(m, r[i], &a);
        if (memcmp(&a, &right[i], sizeof a) != 0)
            fail_msg("request %u differs from its run alone", i);
    }
    return cached;
}

static const struct way ways[] = {
    { .threads = 1, .chunk = 7, .blocks = ROOMY },
    { .threads = 2, .chunk = 64, .blocks = ROOMY },
    { .threads = 2, .chunk = 33, .blocks = ROOMY },
};
#define WAYS (sizeof ways / sizeof ways[0])

static void test_prefix_hit(void **state)
{
    (void)state;
    for (size_t n = 0; n < WAYS; n++) {
        struct machine m;
        machine_open(&m, &ways[n]);
        assert_int_equal(serve(&m, 0, 1), 0);                /* cold */
        assert_true(serve(&m, 0, 1) >= 2 * KV_BLOCK_TOKENS); /* hit */
        assert_true(kvpool_stats_get(m.pool).hit_blocks >= 2);
        serve(&m, 0, REQUESTS); /* hit, with batch mates */
        machine_close(&m);
    }
}

/* Request 1 leaves request 0 in the middle of a block. */
static void test_partial_fork(void **state)
{
    (void)state;
    for (size_t n = 0; n < WAYS; n++) {
        struct machine m;
        machine_open(&m, &ways[n]);
        serve(&m, 0, 1);
        uint64_t before = kvpool_stats_get(m.pool).fork_tokens;
        assert_true(serve(&m, 1, 2) > KV_BLOCK_TOKENS);
        assert_true(kvpool_stats_get(m.pool).fork_tokens > before);
        machine_close(&m);
    }
}

/* Requests 0 to 3 begin with the same tokens and are admitted in one step. */
static void test_in_flight_share(void **state)
{
    (void)state;
    for (size_t n = 0; n < WAYS; n++) {
        struct machine m;
        machine_open(&m, &ways[n]);
        assert_true(serve(&m, 0, 4) >= 3 * KV_BLOCK_TOKENS);
        machine_close(&m);
    }
}

static void test_preempt_recompute(void **state)
{
    (void)state;
    for (size_t n = 0; n < WAYS; n++) {
        struct machine m;
        struct way w = ways[n];
        w.blocks = SCARCE;
        w.chaos_preempt = 9;
        machine_open(&m, &w);
        serve(&m, 0, REQUESTS);
        assert_true(sched_stats_get(m.sched).preemptions > 0);
        assert_int_equal(store_stats_get(m.pool).writes, 0);
        assert_true(kvpool_stats_get(m.pool).evictions > 0);
        machine_close(&m);
    }
}

static void test_preempt_swap(void **state)
{
    (void)state;
    uint64_t writes = 0, reads = 0;
    for (size_t n = 0; n < 2 * WAYS; n++) {
        struct machine m;
        struct way w = ways[n / 2];
        w.blocks = 10; /* a preempted one's blocks have to go to the file, and come back */
        w.chaos_preempt = 40;
        w.path = "/tmp";
        w.plain = n % 2 == 1;
        machine_open(&m, &w);
        serve(&m, 0, REQUESTS);
        struct store_stats s = store_stats_get(m.pool);
        assert_true(sched_stats_get(m.sched).preemptions > 0);
        assert_int_equal(s.failures, 0);
        writes += s.writes;
        reads += s.reads;
        machine_close(&m);
    }
    assert_true(writes > 0 && reads > 0);
}

static void test_restart_from_disk(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * WAYS; n++) {
        struct machine m;
        struct way w = ways[n / 2];
        snprintf(file_path, sizeof file_path, "%s.blocks", model_path);
        w.path = file_path;
        w.plain = n % 2 == 1;
        machine_open(&m, &w);
        serve(&m, 0, REQUESTS);
        machine_close(&m);
        w = ways[(n / 2 + 1) % WAYS]; /* another chunk, other threads */
        w.path = file_path;
        machine_open(&m, &w);
        assert_true(serve(&m, 0, REQUESTS) >= REQUESTS * KV_BLOCK_TOKENS);
        struct store_stats s = store_stats_get(m.pool);
        assert_true(s.recalled > 0 && s.reads > 0);
        assert_int_equal(s.failures, 0);
        machine_close(&m);
        unlink(file_path);
    }
}

/* --- embeddings --- */

static struct request *submit_embedding(struct machine *m, uint32_t i, bool last, struct pooled *to)
{
    struct fault fault = { 0 };
    struct request *r;
    struct request_params p = { .prompt = prompts[i],
                                .prompt_count = prompt_count[i],
                                .sampling = sampling_default(),
                                .on_hidden = pooled_add,
                                .on_hidden_ctx = to,
                                .hidden_from = last ? prompt_count[i] - 1 : 0 };
    OK(sched_submit(&r, m->sched, &p, &fault));
    return r;
}

/* Takes the embedding of a finished request; how many tokens were not computed for it. */
static uint32_t take_embedding(struct machine *m, struct request *r, const struct pooled *from,
                               float *out)
{
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    assert_int_equal(request_output_count(r), 0);
    uint32_t cached = request_cached_count(r);
    sched_release(m->sched, r);
    pooled_vector(from, out);
    return cached;
}

/* Every prompt is embedded while all are answered, in scarce memory and with preemptions, too.
 * A mean needs every row, the last state one: the others it takes from the cache. */
static void embed_beside(struct machine *m, bool last)
{
    struct request *text[REQUESTS], *r[REQUESTS];
    struct pooled *pooled;
    struct answer a;
    float v[WIDTH];
    uint32_t cached = 0;
    assert_int_equal(pooled_open(&pooled, REQUESTS, WIDTH), RC_OK);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        text[i] = submit(m, i);
        r[i] = submit_embedding(m, i, last, &pooled[i]);
    }
    while (sched_step(m->sched)) {
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        cached += take_embedding(m, r[i], &pooled[i], v);
        if (memcmp(v, right_embedding[last][i], sizeof v) != 0)
            fail_msg("embedding %u (%s) differs from its run alone", i, last ? "last" : "mean");
        take(m, text[i], &a);
        if (memcmp(&a, &right[i], sizeof a) != 0)
            fail_msg("request %u differs from its run alone", i);
    }
    assert_true(last ? cached > 0 : cached == 0);
    while (sched_next_event(m->sched, 0) != NULL) {
    }
    pooled_close(pooled);
}

static void test_embeddings(void **state)
{
    (void)state;
    uint64_t preempted = 0;
    for (size_t n = 0; n < 2 * WAYS; n++) {
        struct machine m;
        struct way w = ways[n / 2];
        if (n % 2 == 1) {
            w.blocks = SCARCE;
            w.chaos_preempt = 3;
        }
        machine_open(&m, &w);
        embed_beside(&m, false);
        embed_beside(&m, true);
        preempted += sched_stats_get(m.sched).preemptions;
        machine_close(&m);
    }
    assert_true(preempted > 0);
}

/* What was seen at the positions of a prompt. */
struct seen {
    const struct model *model;
    float hidden[WIDTH];
    uint32_t hidden_next, logits_next;
    double distance, square; /* of logits from the output matrix times the hidden state */
};

static void see_hidden(void *ctx, uint32_t position, const float *hidden)
{
    struct seen *s = ctx;
    assert_int_equal(position, s->hidden_next++);
    memcpy(s->hidden, hidden, sizeof s->hidden);
}

static void see_logits(void *ctx, uint32_t position, const float *logits)
{
    struct seen *s = ctx;
    const struct weight *w = &s->model->output;
    float row[WIDTH];
    assert_int_equal(position, s->logits_next++);
    assert_int_equal(s->logits_next, s->hidden_next); /* one row a step, its hidden state first */
    for (uint32_t t = 0; t < w->rows; t++) {
        double dot = 0;
        dequant_row(w->type, w->data + t * w->row_bytes, row, WIDTH);
        for (uint32_t k = 0; k < WIDTH; k++)
            dot += (double)row[k] * (double)s->hidden[k];
        s->distance += (dot - (double)logits[t]) * (dot - (double)logits[t]);
        s->square += dot * dot;
    }
}

/* A hidden state times the output matrix is the logits, but for the rounding of its int8. */
static void test_hidden_states_give_the_logits(void **state)
{
    (void)state;
    struct machine m;
    struct request *r;
    struct fault fault = { 0 };
    machine_open(&m, &(struct way){ .threads = 2, .chunk = 1, .blocks = ROOMY });
    struct seen seen = { .model = m.model };
    struct request_params p = { .prompt = prompts[0],
                                .prompt_count = prompt_count[0],
                                .sampling = sampling_default(),
                                .on_hidden = see_hidden,
                                .on_hidden_ctx = &seen,
                                .on_logits = see_logits,
                                .on_logits_ctx = &seen };
    OK(sched_submit(&r, m.sched, &p, &fault));
    while (sched_step(m.sched)) {
    }
    sched_release(m.sched, r);
    assert_int_equal(seen.hidden_next, prompt_count[0]);
    assert_int_equal(seen.logits_next, prompt_count[0]);
    assert_true(seen.square > 0 && seen.distance / seen.square < 1e-3);
    machine_close(&m);
}

/* Alone; and what it is: of length 1, and not the same for other prompts or the other pooling. */
static void embed_alone(struct machine *m, uint32_t i)
{
    for (int last = 0; last < 2; last++) {
        struct pooled *pooled;
        float *v = right_embedding[last][i];
        double square = 0;
        assert_int_equal(pooled_open(&pooled, 1, WIDTH), RC_OK);
        struct request *r = submit_embedding(m, i, last == 1, pooled);
        while (sched_step(m->sched)) {
        }
        (void)take_embedding(m, r, pooled, v);
        for (uint32_t k = 0; k < WIDTH; k++)
            square += (double)v[k] * (double)v[k];
        assert_float_equal(square, 1, 1e-5);
        pooled_close(pooled);
    }
    assert_true(memcmp(right_embedding[0][i], right_embedding[1][i], sizeof(float) * WIDTH) != 0);
    assert_true(i == 0 || memcmp(right_embedding[0][i], right_embedding[0][0], 64) != 0);
}

static void write_model(void)
{
    struct mkmodel_spec spec;
    struct fault fault = { 0 };
    int fd = mkstemp(model_path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(mkmodel_shape(&spec, "tiny") && mkmodel_type(&spec, "Q4_0"));
    spec.seed = 5;
    spec.width = WIDTH;
    spec.ffn = 96;
    spec.layers = 2;
    spec.heads = 4;
    spec.kv_heads = 2;
    spec.head_dim = 16;
    spec.vocab = 264;
    spec.ctx = 512;
    OK(mkmodel_write(&spec, model_path, &fault));
}

/* Requests 0 to 3 share 50 tokens, a block and a half; each is answered cold and alone, on one
 * thread, token by token. */
static int prepare(void **state)
{
    (void)state;
    struct dice d = { 41 };
    const struct way alone = { .threads = 1, .chunk = 1, .blocks = ROOMY };
    write_model();
    for (uint32_t i = 0; i < REQUESTS; i++) {
        prompt_count[i] = i == 0 ? PROMPT_MAX : 70 + dice_below(&d, 30);
        for (uint32_t k = 0; k < PROMPT_MAX; k++)
            prompts[i][k] = i > 0 && i < 4 && k < 50 ? prompts[0][k] : (int32_t)dice_below(&d, 264);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct machine m;
        machine_open(&m, &alone);
        struct request *r = submit(&m, i);
        while (sched_step(m.sched)) {
        }
        assert_int_equal(take(&m, r, &right[i]), 0);
        embed_alone(&m, i);
        machine_close(&m);
    }
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unlink(model_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_hit),
        cmocka_unit_test(test_partial_fork),
        cmocka_unit_test(test_in_flight_share),
        cmocka_unit_test(test_preempt_recompute),
        cmocka_unit_test(test_preempt_swap),
        cmocka_unit_test(test_restart_from_disk),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_hidden_states_give_the_logits),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
