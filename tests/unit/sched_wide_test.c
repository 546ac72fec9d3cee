/* SPDX-License-Identifier: MIT */
/* Tests of wide steps: where weights are read from disk while a step computes, prompts get the rows
 * that fit into that time, whatever the inter-token target says. */
#include "tests/unit/test.h"

#include "sched/sched.h"
#include "tests/sim/symbolic.h"

/* A step computes for 1000 us and 100 for each row; it is not over before read_us. */
struct disk {
    struct symbolic symbolic;
    struct executor inner;
    uint64_t now_us, read_us, wait_us, longest_us;
};

static enum rc run(void *ctx, const struct batch *batch, struct batch_result *results)
{
    struct disk *d = ctx;
    uint64_t begin = d->now_us;
    enum rc rc = d->inner.run(d->inner.ctx, batch, results);
    uint64_t us = d->now_us - begin;
    d->wait_us = us < d->read_us ? d->read_us - us : 0;
    d->now_us += d->wait_us;
    us += d->wait_us;
    d->longest_us = us > d->longest_us ? us : d->longest_us;
    return rc;
}

static struct executor_pace pace(void *ctx)
{
    const struct disk *d = ctx;
    return (struct executor_pace){ d->read_us, d->wait_us };
}

static struct request *submit(struct sched *s, uint32_t count, uint32_t max_tokens)
{
    static int32_t prompt[4096];
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = 7 + (int32_t)(i % 900);
    struct request_params p = { .prompt = prompt,
                                .prompt_count = count,
                                .max_tokens = max_tokens,
                                .sampling = sampling_default() };
    struct request *r;
    assert_int_equal(sched_submit(&r, s, &p, NULL), RC_OK);
    return r;
}

/* A scheduler over the disk d, and its pool. */
static struct sched *open_beside(struct disk *d, const struct executor_limits *limits,
                                 const struct sched_config *c, struct kvpool **pool)
{
    struct sched *s;
    assert_int_equal(symbolic_open(&d->symbolic, 256, limits), RC_OK);
    d->symbolic.now_us = &d->now_us;
    d->inner = symbolic_executor(&d->symbolic);
    struct executor outer = d->inner;
    outer.ctx = d;
    outer.run = run;
    outer.pace = d->read_us > 0 ? pace : NULL;
    assert_int_equal(kvpool_open(pool, 256, 0, NULL), RC_OK);
    assert_int_equal(sched_open(&s, c, *pool, outer, clock_virtual(&d->now_us), NULL), RC_OK);
    return s;
}

/* Steps until a prompt of 3,500 tokens is done beside somebody who decodes. */
static uint32_t steps_of_a_prompt(uint64_t read_us, uint64_t *longest_us)
{
    struct disk d = { .read_us = read_us };
    struct executor_limits limits = {
        .rows_max = 512, .outputs_max = 64, .vocab_count = 1000, .ctx_max = 4096
    };
    struct sched_config c = { .ctx_tokens = 4096,
                              .rows_max = 8,
                              .chunk_tokens = 400,
                              .itl_us = 5000,
                              .requests_max = 8 };
    struct kvpool *pool;
    struct sched *s = open_beside(&d, &limits, &c, &pool);
    (void)submit(s, 10, 400);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(sched_step(s));
    d.longest_us = 0;
    struct request *b = submit(s, 3500, 4);
    uint32_t steps = 0;
    for (; request_output_count(b) == 0; steps++)
        assert_true(sched_step(s));
    *longest_us = d.longest_us;
    assert_int_equal(d.symbolic.violation.code, RC_OK);
    sched_close(s);
    kvpool_close(pool);
    symbolic_close(&d.symbolic);
    return steps;
}

static void test_wide_prompts_fill_the_time_of_reading(void **state)
{
    (void)state;
    uint64_t longest;
    /* In memory: what the target allows, 39 rows less the part of a tile. */
    assert_in_range(steps_of_a_prompt(0, &longest), 3500 / 39, 3500 / 24);
    assert_true(longest <= 5000);
    /* 189 rows compute as long as the disk reads: no step is longer than reading. */
    assert_in_range(steps_of_a_prompt(20000, &longest), 3500 / 189, 3500 / 160);
    assert_int_equal(longest, 20000);
    /* A disk that is faster than the target changes nothing. */
    assert_in_range(steps_of_a_prompt(2000, &longest), 3500 / 39, 3500 / 24);
}

/* The most sequences that run at once of 40 that wait, with 4 calm places and 32 in all. */
static uint32_t most_running(uint64_t read_us)
{
    struct disk d = { .read_us = read_us };
    struct executor_limits limits = {
        .rows_max = 256, .outputs_max = 64, .vocab_count = 1000, .ctx_max = 256
    };
    struct sched_config c = { .ctx_tokens = 256,
                              .rows_max = 32,
                              .rows_calm = 4,
                              .chunk_tokens = 64,
                              .no_prefix_cache = true,
                              .requests_max = 64 };
    struct kvpool *pool;
    struct sched *s = open_beside(&d, &limits, &c, &pool);
    for (uint32_t i = 0; i < 40; i++)
        (void)submit(s, 20, 100);
    uint32_t most = 0, running;
    while (sched_step(s)) {
        running = sched_stats_get(s).running;
        most = running > most ? running : most;
    }
    assert_int_equal(sched_stats_get(s).finished, 40);
    assert_int_equal(d.symbolic.violation.code, RC_OK);
    sched_close(s);
    kvpool_close(pool);
    symbolic_close(&d.symbolic);
    return most;
}

static void test_wide_more_requests_run_as_long_as_reading_takes(void **state)
{
    (void)state;
    assert_int_equal(most_running(0), 4);
    assert_int_equal(most_running(1000), 4);
    assert_in_range(most_running(2500), 13, 16); /* 15 rows compute so long */
    assert_int_equal(most_running(20000), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_prompts_fill_the_time_of_reading),
        cmocka_unit_test(test_wide_more_requests_run_as_long_as_reading_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
