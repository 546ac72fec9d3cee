/* SPDX-License-Identifier: MIT */
/* Cases that other engines had trouble with, through the engine as every command opens it: a real
 * model, executor, pool and scheduler. T07: a request that can never fit. T09: who asked is gone.
 * T11: warm equals cold. T15: a long prompt beside live streams. No times: steps are counted. */
#include "tests/unit/test.h"

#include <sched.h>
#include <unistd.h>

#include "frontend/engine.h"
#include "tests/mkmodel/mkmodel.h"

#define VOCAB 264u
#define CTX 4096u
#define CHUNK 128u
#define OUTPUT 32u

static char model_path[] = "/tmp/quire-cases-XXXXXX";

static void engine_begin(struct engine *e, uint32_t kv_tokens, bool thread, bool quiet)
{
    struct engine_options o = engine_options_default();
    struct engine_needs needs = { .thread = thread, .requests_max = 64 };
    struct fault fault = { 0 };
    o.model = model_path;
    o.ctx_tokens = CTX;
    o.kv_tokens = kv_tokens;
    o.chunk_tokens = CHUNK;
    o.rows_max = 16;
    o.threads = 1;
    o.itl_ms = 0;
    o.quiet = quiet;
    o.audit_steps = thread ? 0 : 1;
    if (engine_open(e, &o, &needs, &fault) != RC_OK)
        fail_msg("%s", fault.text);
}

/* Texts of different numbers have nothing in common. */
static struct request *ask(struct engine *e, uint32_t text, uint32_t count, uint32_t max_tokens)
{
    static int32_t prompt[CTX];
    struct fault fault = { 0 };
    struct request *r;
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = (int32_t)(((text * 31 + i) * 2654435761u >> 9) % VOCAB);
    struct request_params p = { .prompt = prompt,
                                .prompt_count = count,
                                .max_tokens = max_tokens,
                                .sampling = sampling_default(),
                                .logprobs = true };
    p.sampling.temperature = 0;
    if (sched_submit(&r, e->sched, &p, &fault) != RC_OK)
        fail_msg("%s", fault.text);
    return r;
}

/* Takes what there is; requests that have ended are released, all but keep. */
static void read_events(struct engine *e, const struct request *keep)
{
    struct request *r;
    while ((r = sched_next_event(e->sched, 0)) != NULL)
        if (r != keep && request_finish(r) != FINISH_NONE)
            sched_release(e->sched, r);
}

struct answer {
    int32_t tokens[OUTPUT];
    float logprobs[OUTPUT];
};

/* Steps until r has ended; its answer; how many tokens of its prompt were cached. */
static uint32_t finish(struct engine *e, struct request *r, uint32_t count, struct answer *a)
{
    while (request_finish(r) == FINISH_NONE) {
        assert_true(sched_step(e->sched));
        read_events(e, r);
    }
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    assert_int_equal(request_output_count(r), count);
    *a = (struct answer){ 0 };
    for (uint32_t i = 0; i < count; i++) {
        a->tokens[i] = request_token(r, i);
        a->logprobs[i] = request_logprob(r, i);
    }
    uint32_t cached = request_cached_count(r);
    read_events(e, r);
    sched_release(e->sched, r);
    return cached;
}

static void assert_all_back(const struct engine *e)
{
    struct sched_stats s = sched_stats_get(e->sched);
    assert_int_equal(s.running + s.waiting, 0);
    assert_int_equal(s.blocks_free + s.blocks_cached, s.blocks_total);
}

/* What engine_begin says at the start. */
static void begin_aloud(struct engine *e, uint32_t kv_tokens, char *out, size_t room)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    engine_begin(e, kv_tokens, false, false);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(f);
    out[fread(out, 1, room - 1, f)] = '\0';
    assert_int_equal(fclose(f), 0);
}

static void test_t07_request_that_can_never_fit_is_refused_at_once(void **state)
{
    (void)state;
    struct engine e, other;
    struct answer alone, beside;
    struct fault fault = { 0 };
    struct request *a;
    static char said[4096];
    static int32_t prompt[1500];
    engine_begin(&other, 1024, false, true);
    (void)finish(&other, ask(&other, 3, 10, 8), 8, &alone);
    engine_close(&other);

    begin_aloud(&e, 1024, said, sizeof said);
    assert_non_null(strstr(said, "context   1024 tokens a request"));
    struct request_params p = {
        .prompt = prompt, .prompt_count = 1500, .max_tokens = 8, .sampling = sampling_default()
    };
    assert_int_equal(sched_submit(&a, e.sched, &p, &fault), RC_LIMIT);
    assert_null(a);
    assert_non_null(strstr(fault.text, "1500"));
    assert_non_null(strstr(fault.text, "KV pool 1024"));
    struct request *b = ask(&e, 3, 10, 8);
    assert_int_equal(sched_stats_get(e.sched).prefill_tokens, 0);
    (void)finish(&e, b, 8, &beside);
    assert_memory_equal(&alone, &beside, sizeof alone);
    assert_int_equal(sched_stats_get(e.sched).refused, 1);

    p.prompt_count = 1024; /* the prompt alone would fit, an answer would not */
    assert_int_equal(sched_submit(&a, e.sched, &p, &fault), RC_LIMIT);
    a = ask(&e, 4, 1023, 8); /* and this one does, just */
    (void)finish(&e, a, 1, &alone);
    assert_all_back(&e);
    engine_close(&e);
}

/* RssAnon and VmSwap of this process. */
static uint64_t private_kib(void)
{
    char line[128];
    unsigned long kib, sum = 0;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "RssAnon: %lu", &kib) == 1 || sscanf(line, "VmSwap: %lu", &kib) == 1)
            sum += kib;
    assert_int_equal(fclose(f), 0);
    return sum;
}

static void test_t09_cancel_frees_everything_within_a_step(void **state)
{
    (void)state;
    struct engine e;
    engine_begin(&e, 1024, false, true);
    for (uint32_t n = 0; n < 4; n++) {
        struct request *r = ask(&e, n, 60, 400);
        while (request_output_count(r) < 5)
            assert_true(sched_step(e.sched));
        request_cancel(r);
        assert_false(sched_step(e.sched)); /* nothing is left to compute */
        assert_int_equal(request_finish(r), FINISH_CANCELLED);
        assert_int_equal(request_output_count(r), 5);
        assert_int_equal(sched_stats_get(e.sched).cancelled, n + 1);
        assert_all_back(&e);
        read_events(&e, NULL);
    }
    engine_close(&e);
}

/* The scheduler has a thread here, and cancels come in the middle of its steps; late when this
 * thread is held up: then the answer is whole. */
static void test_t09_two_hundred_cancels_leave_no_memory(void **state)
{
    (void)state;
    struct engine e;
    uint64_t before_kib = 0, late = 0;
    engine_begin(&e, 1024, true, true);
    for (uint32_t n = 0; n < 220; n++) {
        struct request *r = ask(&e, n, 60, 400);
        while (request_output_count(r) < 5)
            (void)sched_next_event(e.sched, 1000);
        request_cancel(r);
        uint64_t steps = sched_stats_get(e.sched).steps;
        while (request_finish(r) == FINISH_NONE)
            (void)sched_next_event(e.sched, 1000);
        late += request_finish(r) == FINISH_LENGTH;
        assert_int_equal(sched_stats_get(e.sched).cancelled, n + 1 - late);
        /* The step that was under way, and one that may have begun before the notice. */
        assert_in_range(sched_stats_get(e.sched).steps, steps, steps + 2);
        while (sched_stats_get(e.sched).running > 0)
            sched_yield();
        sched_release(e.sched, r);
        read_events(&e, NULL);
        if (n == 20) /* the pool is warm */
            before_kib = private_kib();
    }
    assert_true(late < 220);
    assert_all_back(&e);
    if (!QUIRE_SLOW_CHECKS)
        assert_in_range(private_kib(), 0, before_kib + 1023);
    engine_close(&e);
}

static void test_t11_warm_equals_cold(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 48, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65 };
    struct engine warm;
    engine_begin(&warm, 1024, false, true);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        struct engine cold;
        struct answer right, a;
        uint32_t length = lengths[n];
        engine_begin(&cold, 1024, false, true);
        assert_int_equal(finish(&cold, ask(&cold, 1, length, OUTPUT), OUTPUT, &right), 0);
        engine_close(&cold);
        for (int run = 0; run < 4; run++) {
            struct request *r = ask(&warm, 1, length, OUTPUT);
            assert_int_equal(request_prompt_count(r), length);
            uint32_t cached = finish(&warm, r, OUTPUT, &a);
            assert_memory_equal(&right, &a, sizeof a);
            assert_in_range(cached, 0, length - 1);
            if (run == 1 && length >= 32) /* repeated at once */
                assert_in_range(cached, length / 32 * 32 - (length % 32 == 0), length - 1);
            for (uint32_t i = 0; run == 1 && i < 20; i++)
                (void)finish(&warm, ask(&warm, 100 + i + 20 * (uint32_t)n, 40, 4), 4, &a);
        }
    }
    assert_all_back(&warm);
    engine_close(&warm);
}

/* Each of the 32 chunks of a long prompt leaves room for a token of the stream beside it. */
static void test_t15_stream_gains_a_token_in_every_chunk(void **state)
{
    (void)state;
    struct engine e;
    engine_begin(&e, 8192, false, true);
    struct request *a = ask(&e, 1, 10, 200);
    while (request_output_count(a) < 10)
        assert_true(sched_step(e.sched));
    struct request *b = ask(&e, 2, 4000, 4);
    uint32_t chunks = 0;
    for (; request_output_count(b) == 0; chunks++) {
        uint64_t prefill = sched_stats_get(e.sched).prefill_tokens;
        assert_true(sched_step(e.sched));
        assert_int_equal(request_output_count(a), 11 + chunks);
        assert_in_range(sched_stats_get(e.sched).prefill_tokens - prefill, 1, CHUNK);
    }
    assert_int_equal(chunks, 32);
    while (sched_step(e.sched)) {
    }
    assert_int_equal(request_finish(a), FINISH_LENGTH);
    assert_int_equal(request_finish(b), FINISH_LENGTH);
    engine_close(&e);
}

/* With 8 short streams always live, the long prompt's first token comes within 32 x (N + 1) steps,
 * N = 1: half of what prompts may have in a step is kept from the short ones (sched/README.md). */
static void test_t15_long_prompt_moves_beside_short_streams(void **state)
{
    (void)state;
    struct engine e;
    engine_begin(&e, 8192, false, true);
    uint32_t live = 0, text = 10, steps = 0;
    struct request *b = NULL;
    for (; b == NULL || request_output_count(b) == 0; steps++) {
        for (; live < 8; live++)
            ask(&e, text++, 100, 12);
        if (b == NULL)
            b = ask(&e, 2, 4000, 4);
        assert_true(sched_step(e.sched));
        struct request *r;
        while ((r = sched_next_event(e.sched, 0)) != NULL)
            if (r != b && request_finish(r) != FINISH_NONE) {
                sched_release(e.sched, r);
                live--;
            }
        assert_in_range(steps, 0, 32 * 2);
    }
    assert_true(text > 40); /* they did come and go */
    engine_close(&e);
}

static int prepare(void **state)
{
    (void)state;
    struct mkmodel_spec spec;
    struct fault fault = { 0 };
    int fd = mkstemp(model_path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(mkmodel_shape(&spec, "tiny") && mkmodel_type(&spec, "Q4_0"));
    spec.width = 64;
    spec.ffn = 96;
    spec.layers = 2;
    spec.heads = 4;
    spec.kv_heads = 2;
    spec.head_dim = 16;
    spec.vocab = VOCAB;
    spec.ctx = CTX;
    if (mkmodel_write(&spec, model_path, &fault) != RC_OK)
        fail_msg("%s", fault.text);
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
        cmocka_unit_test(test_t07_request_that_can_never_fit_is_refused_at_once),
        cmocka_unit_test(test_t09_cancel_frees_everything_within_a_step),
        cmocka_unit_test(test_t09_two_hundred_cancels_leave_no_memory),
        cmocka_unit_test(test_t11_warm_equals_cold),
        cmocka_unit_test(test_t15_stream_gains_a_token_in_every_chunk),
        cmocka_unit_test(test_t15_long_prompt_moves_beside_short_streams),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
