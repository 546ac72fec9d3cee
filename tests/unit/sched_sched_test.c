/* SPDX-License-Identifier: MIT */
/* Tests of sched through its interface, with the symbolic executor: what the simulation does not
 * look at by name. */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "sched/sched.h"
#include "tests/sim/symbolic.h"

struct rig {
    uint64_t now_us;
    struct symbolic symbolic;
    struct kvpool *pool;
    struct sched *sched;
};

static const struct sched_config small = {
    .ctx_tokens = 4096, .rows_max = 8, .chunk_tokens = 128, .requests_max = 8
};

static void rig_open(struct rig *g, uint32_t blocks, const struct sched_config *config)
{
    struct executor_limits limits = {
        .rows_max = 256, .outputs_max = 64, .vocab_count = 1000, .ctx_max = 4096
    };
    *g = (struct rig){ 0 };
    assert_int_equal(symbolic_open(&g->symbolic, blocks, &limits), RC_OK);
    g->symbolic.now_us = &g->now_us;
    assert_int_equal(kvpool_open(&g->pool, blocks, 0, NULL), RC_OK);
    assert_int_equal(sched_open(&g->sched, config, g->pool, symbolic_executor(&g->symbolic),
                                clock_virtual(&g->now_us), NULL),
                     RC_OK);
}

static void rig_close(struct rig *g)
{
    assert_int_equal(g->symbolic.violation.code, RC_OK);
    sched_close(g->sched);
    kvpool_close(g->pool);
    symbolic_close(&g->symbolic);
}

/* A prompt of count tokens 7, 8, 9, ... */
static struct request *submit(struct rig *g, uint32_t count, uint32_t max_tokens)
{
    int32_t prompt[4096];
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = 7 + (int32_t)(i % 900);
    struct request_params p = { .prompt = prompt,
                                .prompt_count = count,
                                .max_tokens = max_tokens,
                                .sampling = sampling_default() };
    struct request *r;
    assert_int_equal(sched_submit(&r, g->sched, &p, NULL), RC_OK);
    return r;
}

static void step(struct rig *g, uint32_t count)
{
    struct fault f;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(sched_step(g->sched));
        assert_int_equal(sched_audit(g->sched, &f), RC_OK);
    }
}

static void run_out(struct rig *g)
{
    struct fault f;
    while (sched_step(g->sched))
        assert_int_equal(sched_audit(g->sched, &f), RC_OK);
}

/* Half of what is cached goes at each relief, the oldest first; nobody who runs loses anything. */
static void test_relief_gives_cached_blocks_back(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 64, &small);
    struct request *r = submit(&g, 640, 2);
    run_out(&g);
    uint32_t cached = sched_stats_get(g.sched).blocks_cached, left = cached;
    assert_int_equal(cached, 20);
    struct request *b = submit(&g, 100, 500);
    step(&g, 3);
    for (uint32_t i = 1; i <= 5; i++) {
        uint32_t before = sched_stats_get(g.sched).blocks_cached;
        sched_relieve(g.sched);
        step(&g, 1);
        left = sched_stats_get(g.sched).blocks_cached;
        assert_int_equal(left, before / 2);
    }
    assert_int_equal(left, 0);
    run_out(&g);
    assert_int_equal(request_output_count(b), 500);
    struct sched_stats st = sched_stats_get(g.sched);
    assert_in_range(st.relieved_blocks, cached - 3, cached); /* b has taken three over */
    assert_int_equal(st.preemptions, 0);
    (void)r;
    rig_close(&g);
}

/* CASES T07: what can never fit is refused at once, with the pool's size, and disturbs nobody. */
static void test_impossible_request_is_refused_with_numbers(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 32, &small);
    assert_int_equal(sched_ctx_tokens(g.sched), 1024);
    static int32_t prompt[1500];
    struct request_params p = {
        .prompt = prompt, .prompt_count = 1500, .max_tokens = 8, .sampling = sampling_default()
    };
    struct request *a;
    struct fault f;
    assert_int_equal(sched_submit(&a, g.sched, &p, &f), RC_LIMIT);
    assert_null(a);
    assert_non_null(strstr(f.text, "1500"));
    assert_non_null(strstr(f.text, "1024"));
    struct request *b = submit(&g, 10, 8);
    run_out(&g);
    assert_int_equal(request_finish(b), FINISH_LENGTH);
    assert_int_equal(request_output_count(b), 8);
    struct sched_stats st = sched_stats_get(g.sched);
    assert_int_equal(st.waiting, 0);
    assert_int_equal(st.refused, 1);
    assert_int_equal(st.blocks_free + st.blocks_cached, 32);
    rig_close(&g);
}

static void test_full_queue_says_so_and_recovers(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 32, &small);
    for (int i = 0; i < 8; i++)
        submit(&g, 10, 2);
    int32_t token = 1;
    struct request_params p = {
        .prompt = &token, .prompt_count = 1, .max_tokens = 1, .sampling = sampling_default()
    };
    struct request *r;
    assert_int_equal(sched_submit(&r, g.sched, &p, NULL), RC_FULL);
    run_out(&g);
    assert_int_equal(sched_submit(&r, g.sched, &p, NULL), RC_FULL); /* until one is released */
    r = sched_next_event(g.sched, 0);
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    sched_release(g.sched, r);
    assert_int_equal(sched_submit(&r, g.sched, &p, NULL), RC_OK);
    rig_close(&g);
}

static void test_wrong_parameters_are_refused_by_name(void **state)
{
    (void)state;
    struct rig g;
    struct fault f;
    struct request *r;
    rig_open(&g, 32, &small);
    int32_t prompt[2] = { 5, 1000 };
    struct request_params good = {
        .prompt = prompt, .prompt_count = 1, .max_tokens = 1, .sampling = sampling_default()
    };
    struct request_params p = good;
    p.prompt_count = 2;
    assert_int_equal(sched_submit(&r, g.sched, &p, &f), RC_INVALID);
    assert_non_null(strstr(f.text, "1000"));
    p = good;
    p.prompt_count = 0;
    assert_int_equal(sched_submit(&r, g.sched, &p, &f), RC_INVALID);
    p = good;
    p.stop_id_count = 1;
    p.stop_ids[0] = -1;
    assert_int_equal(sched_submit(&r, g.sched, &p, &f), RC_INVALID);
    p = good;
    p.top_count = OUTPUT_TOP_MAX + 1;
    assert_int_equal(sched_submit(&r, g.sched, &p, &f), RC_INVALID);
    p = good;
    p.sampling.top_p = 7.0f;
    assert_int_equal(sched_submit(&r, g.sched, &p, &f), RC_INVALID);
    rig_close(&g);
}

static void test_cancel_before_first_step_and_while_queued(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config one = small;
    one.rows_max = 1;
    rig_open(&g, 32, &one);
    struct request *a = submit(&g, 10, 50), *b = submit(&g, 10, 50);
    request_cancel(a);
    request_cancel(a);
    step(&g, 1);
    assert_int_equal(request_finish(a), FINISH_CANCELLED);
    struct request *c = submit(&g, 10, 50);
    step(&g, 1);
    request_cancel(c);
    step(&g, 1);
    assert_int_equal(request_finish(c), FINISH_CANCELLED);
    assert_int_equal(request_finish(b), FINISH_NONE);
    run_out(&g);
    assert_int_equal(request_output_count(b), 50);
    assert_int_equal(sched_stats_get(g.sched).cancelled, 2);
    rig_close(&g);
}

/* CASES T09: a cancel in prefill or decode gives every block back at the next step boundary. */
static void test_cancel_in_prefill_and_decode_frees_within_a_step(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 64, &small);
    struct request *a = submit(&g, 300, 400);
    step(&g, 1); /* 128 of 300 */
    request_cancel(a);
    assert_false(sched_step(g.sched));
    assert_int_equal(request_finish(a), FINISH_CANCELLED);
    assert_int_equal(kvpool_available_count(g.pool), 64);
    struct request *b = submit(&g, 10, 400);
    step(&g, 5);
    assert_int_equal(request_output_count(b), 5);
    request_cancel(b);
    assert_false(sched_step(g.sched));
    assert_int_equal(request_finish(b), FINISH_CANCELLED);
    assert_int_equal(request_output_count(b), 5);
    assert_int_equal(sched_stats_get(g.sched).running, 0);
    assert_int_equal(kvpool_available_count(g.pool), 64);
    rig_close(&g);
}

/* An executor that cancels while it runs: the step that is under way counts, the next does not. */
struct canceller {
    struct executor inner;
    struct request *request;
    uint64_t at_step;
};

static enum rc run_and_cancel(void *ctx, const struct batch *b, struct batch_result *results)
{
    struct canceller *c = ctx;
    if (b->step == c->at_step)
        request_cancel(c->request);
    return c->inner.run(c->inner.ctx, b, results);
}

static void test_cancel_inside_any_step_ends_once(void **state)
{
    (void)state;
    for (uint64_t at = 0; at <= 6; at++) { /* three steps of prefill, four tokens in steps 2 to 5 */
        struct rig g;
        rig_open(&g, 32, &small);
        sched_close(g.sched);
        struct canceller c = { .inner = symbolic_executor(&g.symbolic), .at_step = at };
        struct executor x = { .ctx = &c, .limits = c.inner.limits, .run = run_and_cancel };
        assert_int_equal(sched_open(&g.sched, &small, g.pool, x, clock_virtual(&g.now_us), NULL),
                         RC_OK);
        c.request = submit(&g, 300, 4);
        run_out(&g);
        bool whole = at >= 5; /* the step of the last token: its token is there, the end as well */
        assert_int_equal(request_finish(c.request), whole ? FINISH_LENGTH : FINISH_CANCELLED);
        assert_int_equal(request_output_count(c.request), whole ? 4 : at < 2 ? 0 : at - 1);
        assert_int_equal(kvpool_available_count(g.pool), 32);
        assert_ptr_equal(sched_next_event(g.sched, 0), c.request);
        assert_null(sched_next_event(g.sched, 0));
        sched_release(g.sched, c.request);
        assert_null(sched_next_event(g.sched, 0));
        rig_close(&g);
    }
}

static void test_cancel_of_all_choices_ends_within_a_step(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 6; steps++) {
        struct rig g;
        rig_open(&g, 64, &small);
        int32_t prompt[200] = { 1, 2, 3 };
        struct request_params p = { .prompt = prompt, .prompt_count = 200, .max_tokens = 50 };
        p.sampling = sampling_default();
        struct request *r[5];
        assert_int_equal(sched_submit_group(r, 5, g.sched, &p, NULL), RC_OK);
        step(&g, steps);
        for (uint32_t i = 0; i < 5; i++)
            request_cancel(r[i]);
        assert_false(sched_step(g.sched));
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(request_finish(r[i]), FINISH_CANCELLED);
        assert_int_equal(sched_stats_get(g.sched).cancelled, 5);
        assert_int_equal(kvpool_available_count(g.pool), 64);
        rig_close(&g);
    }
}

static void test_cancel_after_the_end_changes_nothing(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 32, &small);
    struct request *a = submit(&g, 10, 1);
    step(&g, 1);
    assert_int_equal(request_finish(a), FINISH_LENGTH);
    request_cancel(a);
    assert_false(sched_step(g.sched));
    assert_int_equal(request_finish(a), FINISH_LENGTH);
    assert_ptr_equal(sched_next_event(g.sched, 0), a);
    assert_null(sched_next_event(g.sched, 0));
    sched_release(g.sched, a);
    assert_int_equal(sched_stats_get(g.sched).cancelled, 0);
    rig_close(&g);
}

/* CASES T15: a long prompt beside a live stream costs it nothing but time: one token in every
 * step. */
static void test_stream_gains_a_token_beside_every_chunk(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 256, &small);
    struct request *a = submit(&g, 10, 200);
    step(&g, 10);
    struct request *b = submit(&g, 4000, 4);
    for (uint32_t chunk = 0; chunk < 32; chunk++) {
        assert_int_equal(request_output_count(b), 0);
        step(&g, 1);
        assert_int_equal(request_output_count(a), 11 + chunk);
    }
    assert_int_equal(request_output_count(b), 1);
    rig_close(&g);
}

/* The same with a target: as much of the prompt goes into each step as lets it end in time, and
 * not less than a tile. */
static void test_chunks_keep_the_inter_token_target(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = small;
    c.itl_us = 5000; /* a step takes 1000 us and 100 for a row */
    c.chunk_tokens = 2000;
    rig_open(&g, 256, &c);
    struct request *a = submit(&g, 10, 300);
    step(&g, 20);
    struct request *b = submit(&g, 3500, 4);
    uint32_t steps = 0, late = 0;
    for (; request_output_count(b) == 0; steps++) {
        uint64_t before_us = g.now_us;
        step(&g, 1);
        late += g.now_us - before_us > c.itl_us;
    }
    assert_int_equal(late, 0);
    assert_in_range(steps, 3500 / 39, 3500 / 24); /* 39 rows are to be had, 32 are whole tiles */
    assert_int_equal(request_output_count(a), 20 + steps);
    rig_close(&g);
}

/* Two lanes: a short prompt that comes after a long one begins to answer long before it. */
static void test_short_prompt_is_not_stuck_behind_a_long_one(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 256, &small);
    struct request *a = submit(&g, 3000, 4);
    step(&g, 2);
    int32_t prompt[100];
    for (int i = 0; i < 100; i++)
        prompt[i] = 999 - i;
    struct request_params p = {
        .prompt = prompt, .prompt_count = 100, .max_tokens = 4, .sampling = sampling_default()
    };
    struct request *b;
    assert_int_equal(sched_submit(&b, g.sched, &p, NULL), RC_OK);
    step(&g, 2);
    assert_int_equal(request_output_count(b), 1);
    assert_int_equal(request_output_count(a), 0);
    step(&g, 3000 / 128 - 2);
    assert_int_equal(request_output_count(a), 1); /* and it cost the long one 100 of its rows */
    rig_close(&g);
}

static void test_context_limit_ends_with_length(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 2, &small); /* 64 tokens in all */
    struct request *a = submit(&g, 50, 1000);
    run_out(&g);
    assert_int_equal(request_finish(a), FINISH_LENGTH);
    assert_int_equal(request_output_count(a), 14);
    rig_close(&g);
}

static void test_max_tokens_zero_only_scores(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 32, &small);
    int32_t prompt[40];
    for (int i = 0; i < 40; i++)
        prompt[i] = i * 3;
    struct request_params p = { .prompt = prompt,
                                .prompt_count = 40,
                                .prompt_logprobs = true,
                                .sampling = sampling_default() };
    struct request *r;
    assert_int_equal(sched_submit(&r, g.sched, &p, NULL), RC_OK);
    run_out(&g);
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    assert_int_equal(request_output_count(r), 0);
    uint64_t hash = SYMBOLIC_EMPTY;
    for (uint32_t i = 0; i < 40; i++) {
        if (i > 0)
            assert_true(request_prompt_logprob(r, i) == symbolic_logprob(hash, prompt[i]));
        hash = symbolic_extend(hash, prompt[i]);
    }
    rig_close(&g);
}

static void test_executor_failure_ends_its_requests_and_no_others(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config one = small;
    one.rows_max = 1;
    rig_open(&g, 32, &one);
    struct request *a = submit(&g, 10, 5), *b = submit(&g, 10, 5);
    step(&g, 2);
    g.symbolic.fail_next = true;
    step(&g, 1);
    assert_int_equal(request_finish(a), FINISH_ERROR);
    assert_int_equal(request_error(a), RC_IO);
    assert_int_equal(request_output_count(a), 2);
    run_out(&g);
    assert_int_equal(request_finish(b), FINISH_LENGTH);
    rig_close(&g);
}

/* Two that do not fit together, which nobody could foresee after so many short answers: the
 * younger gives way, and both say what they say alone. */
static void test_preempted_output_is_the_undisturbed_one(void **state)
{
    (void)state;
    struct rig g;
    int32_t alone[2][120];
    for (int crowd = 0; crowd < 2; crowd++) {
        rig_open(&g, crowd == 0 ? 64 : 6, &small);
        for (int i = 0; i < 100; i++) {
            struct request *r = submit(&g, 1, 1);
            run_out(&g);
            assert_ptr_equal(sched_next_event(g.sched, 0), r);
            sched_release(g.sched, r);
        }
        struct request *a = submit(&g, 40, 100), *b = submit(&g, 33, 100);
        run_out(&g);
        assert_int_equal(sched_stats_get(g.sched).preemptions > 0, crowd == 1);
        for (uint32_t i = 0; i < 100; i++) {
            if (crowd == 0) {
                alone[0][i] = request_token(a, i);
                alone[1][i] = request_token(b, i);
            }
            assert_int_equal(request_token(a, i), alone[0][i]);
            assert_int_equal(request_token(b, i), alone[1][i]);
        }
        rig_close(&g);
    }
}

/* Two whose lengths are known do not fit together, and the second waits instead of being thrown
 * out. */
static void test_foreseen_shortage_makes_the_second_wait(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 6, &small);
    struct request *a = submit(&g, 40, 100), *b = submit(&g, 33, 100);
    step(&g, 20);
    assert_int_equal(sched_stats_get(g.sched).waiting, 1);
    run_out(&g);
    assert_int_equal(request_output_count(a), 100);
    assert_int_equal(request_output_count(b), 100);
    assert_int_equal(sched_stats_get(g.sched).preemptions, 0);
    rig_close(&g);
}

/* One request alone, its tokens and log-probabilities out; returns how many were cached. */
static uint32_t run_one(struct rig *g, const int32_t *prompt, uint32_t count, int32_t *tokens,
                        float *logprobs)
{
    struct request_params p = {
        .prompt = prompt, .prompt_count = count, .max_tokens = 32, .logprobs = true
    };
    p.sampling = sampling_default();
    struct request *r;
    assert_int_equal(sched_submit(&r, g->sched, &p, NULL), RC_OK);
    run_out(g);
    assert_int_equal(request_output_count(r), 32);
    for (uint32_t i = 0; i < 32; i++) {
        tokens[i] = request_token(r, i);
        logprobs[i] = request_logprob(r, i);
    }
    uint32_t cached = request_cached_count(r);
    assert_ptr_equal(sched_next_event(g->sched, 0), r);
    sched_release(g->sched, r);
    return cached;
}

/* CASES T11: warm equals cold, at every length around the ends of blocks. */
static void test_warm_equals_cold(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65 };
    struct rig warm;
    rig_open(&warm, 32, &small);
    int32_t prompt[65], other[40];
    for (int i = 0; i < 65; i++)
        prompt[i] = 500 + i * 3;
    for (uint32_t n = 0; n < 12; n++) {
        struct rig cold;
        int32_t tokens[4][32];
        float logprobs[4][32];
        rig_open(&cold, 32, &small);
        assert_int_equal(run_one(&cold, prompt, lengths[n], tokens[0], logprobs[0]), 0);
        rig_close(&cold);
        run_one(&warm, prompt, lengths[n], tokens[1], logprobs[1]);
        uint32_t cached = run_one(&warm, prompt, lengths[n], tokens[2], logprobs[2]);
        assert_int_equal(cached, lengths[n] - 1);
        for (int i = 0; i < 20; i++) {
            for (int t = 0; t < 40; t++)
                other[t] = 1 + i + 20 * (int)n + t * 7 % 100;
            run_one(&warm, other, 40, tokens[3], logprobs[3]);
        }
        run_one(&warm, prompt, lengths[n], tokens[3], logprobs[3]);
        for (int run = 1; run < 4; run++) {
            assert_memory_equal(tokens[0], tokens[run], sizeof tokens[0]);
            assert_memory_equal(logprobs[0], logprobs[run], sizeof logprobs[0]);
        }
    }
    rig_close(&warm);
}

/* Eight requests that come together and begin alike: the common part is computed once, also the
 * part of it that ends inside a block. */
static void test_shared_prompt_is_computed_once(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = small;
    c.chunk_tokens = 16;
    c.step_prefill_tokens = 200;
    rig_open(&g, 64, &c);
    struct request *r[8];
    for (int i = 0; i < 8; i++) {
        int32_t prompt[150];
        for (int t = 0; t < 150; t++)
            prompt[t] = t < 140 ? 30 + t : 200 + i * 10 + t;
        struct request_params p = {
            .prompt = prompt, .prompt_count = 150, .max_tokens = 5, .sampling = sampling_default()
        };
        assert_int_equal(sched_submit(&r[i], g.sched, &p, NULL), RC_OK);
    }
    run_out(&g);
    struct sched_stats st = sched_stats_get(g.sched);
    assert_int_equal(st.finished, 8);
    assert_int_equal(st.prefill_tokens, 140 + 8 * 10);
    assert_int_equal(st.cached_tokens, 7 * 140);
    rig_close(&g);
}

/* n > 1: one prefill, then every choice by itself, one of them cancelled; also without a cache. */
static void test_choices_share_one_prefill(void **state)
{
    (void)state;
    for (int off = 0; off < 2; off++) {
        struct rig g;
        struct sched_config c = small;
        c.no_prefix_cache = off;
        rig_open(&g, 64, &c);
        int32_t prompt[200];
        for (int t = 0; t < 200; t++)
            prompt[t] = t * 4;
        struct request_params p = {
            .prompt = prompt, .prompt_count = 200, .max_tokens = 50, .sampling = sampling_default()
        };
        struct request *r[8], *other[1];
        assert_int_equal(sched_submit_group(r, 8, g.sched, &p, NULL), RC_OK);
        assert_int_equal(sched_submit_group(other, 1, g.sched, &p, NULL), RC_FULL);
        step(&g, 10);
        request_cancel(r[3]);
        run_out(&g);
        assert_int_equal(sched_stats_get(g.sched).prefill_tokens, 200 + 7);
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(request_choice(r[i]), i);
            assert_int_equal(request_finish(r[i]), i == 3 ? FINISH_CANCELLED : FINISH_LENGTH);
        }
        bool differ = false;
        for (uint32_t t = 0; t < 50; t++)
            differ = differ || request_token(r[0], t) != request_token(r[1], t);
        assert_true(differ);
        assert_int_equal(kvpool_available_count(g.pool), 64);
        assert_int_equal(kvpool_cached_count(g.pool) > 0, !off);
        rig_close(&g);
    }
}

/* The one that fills shared blocks is cancelled half way: another goes on from the very token. */
static void test_cancel_while_others_wait_for_its_blocks(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = small;
    c.chunk_tokens = 20;
    rig_open(&g, 64, &c);
    struct request *a = submit(&g, 400, 5), *b = submit(&g, 400, 5);
    step(&g, 3);
    request_cancel(a);
    run_out(&g);
    assert_int_equal(request_finish(a), FINISH_CANCELLED);
    assert_int_equal(request_finish(b), FINISH_LENGTH);
    assert_int_equal(sched_stats_get(g.sched).prefill_tokens, 400);
    rig_close(&g);
}

static void test_salts_keep_prompts_apart(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 64, &small);
    int32_t prompt[100] = { 0 };
    struct request_params p = {
        .prompt = prompt, .prompt_count = 100, .max_tokens = 1, .sampling = sampling_default()
    };
    struct request *r;
    static const uint32_t cached[4] = { 0, 0, 96, 96 }; /* three more are not worth a copy */
    for (uint32_t i = 0; i < 4; i++) {
        p.cache_salt = i % 2;
        assert_int_equal(sched_submit(&r, g.sched, &p, NULL), RC_OK);
        run_out(&g);
        assert_int_equal(request_cached_count(r), cached[i]);
    }
    rig_close(&g);
}

/* A salt for each tenant: what one has computed, is computing, or has in part, no other gets; each
 * gets its own. */
static void test_a_salt_for_each_tenant_keeps_caches_apart(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 64, &small);
    int32_t prompt[100];
    for (int i = 0; i < 100; i++)
        prompt[i] = 3 * i;
    struct request_params p = {
        .prompt = prompt, .prompt_count = 100, .max_tokens = 4, .sampling = sampling_default()
    };
    struct request *r[4];
    for (uint32_t i = 0; i < 4; i++) { /* two of each tenant, at the same time */
        p.tenant = p.cache_salt = 1 + i % 2;
        assert_int_equal(sched_submit(&r[i], g.sched, &p, NULL), RC_OK);
    }
    run_out(&g);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(request_cached_count(r[i]), i < 2 ? 0 : 96); /* whole blocks */
        for (uint32_t t = 0; t < 4; t++)
            assert_int_equal(request_token(r[i], t), request_token(r[0], t));
    }
    for (uint32_t i = 0; i < 4; i++)
        sched_release(g.sched, sched_next_event(g.sched, 0));
    prompt[50] = 7; /* it leaves the others in the middle of a block */
    for (uint64_t tenant = 1; tenant <= 3; tenant++) {
        p.tenant = p.cache_salt = tenant;
        assert_int_equal(sched_submit(&r[0], g.sched, &p, NULL), RC_OK);
        run_out(&g);
        assert_int_equal(request_cached_count(r[0]), tenant < 3 ? 50 : 0);
        assert_ptr_equal(sched_next_event(g.sched, 0), r[0]);
        sched_release(g.sched, r[0]);
    }
    rig_close(&g);
}

static void test_open_survives_each_failed_allocation(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 4, &small);
    size_t before = mem_live_bytes();
    uint64_t n = 0;
    enum rc rc;
    do {
        struct sched *s;
        mem_fail_after(++n);
        rc = sched_open(&s, &small, g.pool, symbolic_executor(&g.symbolic), clock_real(), NULL);
        mem_fail_after(0);
        assert_true(rc == RC_OK || (rc == RC_NO_MEMORY && s == NULL));
        sched_close(s);
        assert_int_equal(mem_live_bytes(), before);
    } while (rc != RC_OK);
    assert_true(n > 4);
    rig_close(&g);
}

static void test_open_refuses_impossible_limits(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 4, &small);
    struct sched *s;
    struct sched_config c = small;
    c.rows_max = 65; /* over outputs_max */
    assert_int_equal(sched_open(&s, &c, g.pool, symbolic_executor(&g.symbolic), clock_real(), NULL),
                     RC_INVALID);
    c = small;
    c.chunk_tokens = 0;
    assert_int_equal(sched_open(&s, &c, g.pool, symbolic_executor(&g.symbolic), clock_real(), NULL),
                     RC_INVALID);
    c = small;
    c.requests_max = REQUESTS_MAX + 1;
    assert_int_equal(sched_open(&s, &c, g.pool, symbolic_executor(&g.symbolic), clock_real(), NULL),
                     RC_INVALID);
    rig_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relief_gives_cached_blocks_back),
        cmocka_unit_test(test_impossible_request_is_refused_with_numbers),
        cmocka_unit_test(test_full_queue_says_so_and_recovers),
        cmocka_unit_test(test_wrong_parameters_are_refused_by_name),
        cmocka_unit_test(test_cancel_before_first_step_and_while_queued),
        cmocka_unit_test(test_cancel_in_prefill_and_decode_frees_within_a_step),
        cmocka_unit_test(test_cancel_inside_any_step_ends_once),
        cmocka_unit_test(test_cancel_of_all_choices_ends_within_a_step),
        cmocka_unit_test(test_cancel_after_the_end_changes_nothing),
        cmocka_unit_test(test_stream_gains_a_token_beside_every_chunk),
        cmocka_unit_test(test_chunks_keep_the_inter_token_target),
        cmocka_unit_test(test_short_prompt_is_not_stuck_behind_a_long_one),
        cmocka_unit_test(test_context_limit_ends_with_length),
        cmocka_unit_test(test_max_tokens_zero_only_scores),
        cmocka_unit_test(test_executor_failure_ends_its_requests_and_no_others),
        cmocka_unit_test(test_preempted_output_is_the_undisturbed_one),
        cmocka_unit_test(test_foreseen_shortage_makes_the_second_wait),
        cmocka_unit_test(test_warm_equals_cold),
        cmocka_unit_test(test_shared_prompt_is_computed_once),
        cmocka_unit_test(test_choices_share_one_prefill),
        cmocka_unit_test(test_cancel_while_others_wait_for_its_blocks),
        cmocka_unit_test(test_salts_keep_prompts_apart),
        cmocka_unit_test(test_a_salt_for_each_tenant_keeps_caches_apart),
        cmocka_unit_test(test_open_survives_each_failed_allocation),
        cmocka_unit_test(test_open_refuses_impossible_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
