/* SPDX-License-Identifier: MIT */
/* Tests of pinned prompts: their blocks stay whatever comes, up to limits that are said with
 * numbers, until a cancel or a deadline; and everybody else still gets what was promised. */
#include "tests/unit/test.h"

#include "sched/record.h"
#include "tests/sim/symbolic.h"

#define BLOCKS 32u
#define PIN_TOKENS 320u /* ten blocks */

struct rig {
    uint64_t now_us;
    struct symbolic symbolic;
    struct kvpool *pool;
    struct sched *sched;
};

static struct sched_config config = { .ctx_tokens = 1024,
                                      .rows_max = 8,
                                      .chunk_tokens = 128,
                                      .requests_max = 16,
                                      .pin_tokens = PIN_TOKENS,
                                      .pin_tenant_tokens = 256 };

static void rig_open(struct rig *g, const struct sched_config *c)
{
    struct executor_limits limits = {
        .rows_max = 256, .outputs_max = 16, .vocab_count = 100000, .ctx_max = 1024
    };
    *g = (struct rig){ 0 };
    assert_int_equal(symbolic_open(&g->symbolic, BLOCKS, &limits), RC_OK);
    g->symbolic.now_us = &g->now_us;
    assert_int_equal(kvpool_open(&g->pool, BLOCKS, 0, NULL), RC_OK);
    assert_int_equal(sched_open(&g->sched, c, g->pool, symbolic_executor(&g->symbolic),
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

static void run_out(struct rig *g)
{
    struct fault f = { 0 };
    while (sched_step(g->sched))
        if (sched_audit(g->sched, &f) != RC_OK)
            fail_msg("%s", f.text);
}

static enum rc submit(struct rig *g, struct request **r, int32_t text, struct request_params p,
                      struct fault *fault)
{
    int32_t prompt[1024];
    for (uint32_t i = 0; i < p.prompt_count; i++)
        prompt[i] = text * 2000 + (int32_t)i;
    p.prompt = prompt;
    p.sampling = sampling_default();
    return sched_submit(r, g->sched, &p, fault);
}

static struct request *pin(struct rig *g, int32_t text, uint32_t count, uint64_t tenant)
{
    struct request *r;
    struct fault f = { 0 };
    struct request_params p = { .prompt_count = count, .tenant = tenant, .pin = true };
    if (submit(g, &r, text, p, &f) != RC_OK)
        fail_msg("%s", f.text);
    return r;
}

static void release(struct rig *g, struct request *r)
{
    while (sched_next_event(g->sched, 0) != NULL) {
    }
    sched_release(g->sched, r);
}

/* A prompt of its own, answered; how many of its tokens were cached. */
static uint32_t serve(struct rig *g, int32_t text, uint32_t count)
{
    struct request *r;
    struct request_params p = { .prompt_count = count, .max_tokens = 2 };
    assert_int_equal(submit(g, &r, text, p, NULL), RC_OK);
    run_out(g);
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    uint32_t cached = request_cached_count(r);
    release(g, r);
    return cached;
}

static void test_pinned_blocks_stay_until_the_cancel(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, &config);
    struct request *r = pin(&g, 1, 200, 0);
    assert_false(request_pinned(r));
    run_out(&g);
    assert_true(request_pinned(r));
    assert_ptr_equal(sched_next_event(g.sched, 0), r);
    assert_int_equal(request_finish(r), FINISH_NONE);
    struct sched_stats s = sched_stats_get(g.sched);
    assert_int_equal(s.pins, 1);
    assert_int_equal(s.blocks_pinned, 6); /* 200 tokens are six whole blocks */
    assert_int_equal(s.running + s.waiting, 0);
    assert_int_equal(s.blocks_free + s.blocks_cached + s.blocks_pinned, BLOCKS);
    for (int32_t text = 2; text < 12; text++) /* each fills the rest of the pool */
        assert_int_equal(serve(&g, text, 680), 0);
    assert_in_range(serve(&g, 1, 200), 192, 199);
    request_cancel(r);
    assert_false(sched_step(g.sched));
    assert_int_equal(request_finish(r), FINISH_CANCELLED);
    release(&g, r);
    assert_int_equal(sched_stats_get(g.sched).blocks_pinned, 0);
    assert_int_equal(kvpool_available_count(g.pool), BLOCKS); /* cached from now on */
    rig_close(&g);
}

static void test_pins_over_the_limits_are_refused_with_numbers(void **state)
{
    (void)state;
    struct rig g;
    struct request *r;
    struct fault f = { 0 };
    rig_open(&g, &config);
    struct request *a = pin(&g, 1, 223, 7); /* 192 tokens in whole blocks */
    struct request_params p = { .prompt_count = 96, .tenant = 7, .pin = true };
    assert_int_equal(submit(&g, &r, 2, p, &f), RC_LIMIT);
    assert_string_equal(f.text, "pin of 96 tokens: the tenant holds 192 of the 256 that it may");
    p.prompt_count = 95;
    assert_int_equal(submit(&g, &r, 2, p, &f), RC_OK); /* 64: just */
    run_out(&g);
    p = (struct request_params){ .prompt_count = 96, .tenant = 8, .pin = true };
    assert_int_equal(submit(&g, &r, 3, p, &f), RC_LIMIT);
    assert_string_equal(f.text, "pin of 96 tokens: 256 of the 320 for all pins are taken");
    p.prompt_count = 64;
    assert_int_equal(submit(&g, &r, 3, p, &f), RC_OK);
    run_out(&g);
    assert_int_equal(sched_stats_get(g.sched).blocks_pinned, 10);
    assert_int_equal(sched_stats_get(g.sched).refused, 2);
    request_cancel(a);
    sched_step(g.sched);
    p.prompt_count = 192;
    assert_int_equal(submit(&g, &r, 4, p, &f), RC_OK); /* its room is free again */
    run_out(&g);
    rig_close(&g);
}

static void test_what_cannot_be_pinned_is_refused_by_name(void **state)
{
    (void)state;
    struct rig g;
    struct request *r[2];
    struct fault f = { 0 };
    rig_open(&g, &config);
    struct request_params p = { .prompt_count = 100, .max_tokens = 1, .pin = true };
    assert_int_equal(submit(&g, r, 1, p, &f), RC_INVALID);
    assert_non_null(strstr(f.text, "max_tokens"));
    p = (struct request_params){ .prompt_count = 31, .pin = true };
    assert_int_equal(submit(&g, r, 1, p, &f), RC_INVALID);
    assert_non_null(strstr(f.text, "31"));
    int32_t prompt[64] = { 0 };
    p = (struct request_params){ .prompt = prompt, .prompt_count = 64, .pin = true };
    p.sampling = sampling_default();
    assert_int_equal(sched_submit_group(r, 2, g.sched, &p, &f), RC_INVALID);
    assert_non_null(strstr(f.text, "choices"));
    rig_close(&g);
    struct sched_config c = config;
    c.no_prefix_cache = true;
    rig_open(&g, &c);
    assert_int_equal(sched_submit(r, g.sched, &p, &f), RC_INVALID);
    rig_close(&g);
    c = config;
    c.pin_tokens = 0;
    rig_open(&g, &c);
    assert_int_equal(sched_submit(r, g.sched, &p, &f), RC_LIMIT);
    rig_close(&g);
    c.pin_tokens = BLOCKS * KV_BLOCK_TOKENS;
    rig_open(&g, &config);
    struct sched *s;
    assert_int_equal(sched_open(&s, &c, g.pool, symbolic_executor(&g.symbolic), clock_real(), &f),
                     RC_INVALID);
    assert_non_null(strstr(f.text, "1024"));
    rig_close(&g);
}

static void test_a_deadline_ends_a_pin(void **state)
{
    (void)state;
    struct rig g;
    struct request *r;
    rig_open(&g, &config);
    struct request_params p = { .prompt_count = 100, .pin = true };
    p.deadline_us = 500000;
    p.ttft_us = 1; /* of no meaning here */
    assert_int_equal(submit(&g, &r, 1, p, NULL), RC_OK);
    run_out(&g);
    assert_true(request_pinned(r));
    assert_int_equal(request_finish(r), FINISH_NONE);
    g.now_us = 499999;
    run_out(&g);
    assert_int_equal(request_finish(r), FINISH_NONE);
    g.now_us = 500000;
    run_out(&g);
    assert_int_equal(request_finish(r), FINISH_EXPIRED);
    assert_int_equal(kvpool_available_count(g.pool), BLOCKS);
    rig_close(&g);
}

/* What pins may hold is kept from what requests are promised, so the largest one that is accepted
 * runs beside all pins there can be. */
static void test_the_largest_request_runs_beside_full_pins(void **state)
{
    (void)state;
    struct rig g;
    struct request *r;
    struct fault f = { 0 };
    rig_open(&g, &config);
    assert_int_equal(sched_ctx_tokens(g.sched), (BLOCKS - 10) * KV_BLOCK_TOKENS);
    pin(&g, 1, 256, 1);
    pin(&g, 2, 64, 2);
    run_out(&g);
    assert_int_equal(sched_stats_get(g.sched).blocks_pinned, 10);
    struct request_params p = { .prompt_count = 100, .max_tokens = 2000 };
    assert_int_equal(submit(&g, &r, 3, p, NULL), RC_OK);
    run_out(&g);
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    assert_int_equal(request_output_count(r), (BLOCKS - 10) * KV_BLOCK_TOKENS - 100);
    p.prompt_count = 705;
    assert_int_equal(submit(&g, &r, 3, p, &f), RC_LIMIT);
    assert_non_null(strstr(f.text, "704"));
    rig_close(&g);
}

/* Cancelled before it is pinned, or while it waits: nothing stays. */
static void test_a_pin_is_cancelled_anywhere(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 4; steps++) {
        struct rig g;
        rig_open(&g, &config);
        struct request *r = pin(&g, 1, 256, 0);
        for (uint32_t i = 0; i < steps; i++)
            sched_step(g.sched);
        assert_int_equal(request_pinned(r), steps > 1);
        request_cancel(r);
        run_out(&g);
        assert_int_equal(request_finish(r), FINISH_CANCELLED);
        assert_int_equal(kvpool_available_count(g.pool), BLOCKS);
        pin(&g, 2, 256, 0);
        run_out(&g);
        rig_close(&g); /* with a pin that is left */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned_blocks_stay_until_the_cancel),
        cmocka_unit_test(test_pins_over_the_limits_are_refused_with_numbers),
        cmocka_unit_test(test_what_cannot_be_pinned_is_refused_by_name),
        cmocka_unit_test(test_a_deadline_ends_a_pin),
        cmocka_unit_test(test_the_largest_request_runs_beside_full_pins),
        cmocka_unit_test(test_a_pin_is_cancelled_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
