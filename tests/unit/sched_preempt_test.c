/* SPDX-License-Identifier: MIT */
/* Tests of the victim rule (sched/preempt.c): a sequence needs a block, the pool has none left,
 * and exactly the right one of those behind it goes. */
#include "tests/unit/test.h"

#include "sched/record.h"
#include "tests/sim/symbolic.h"

#define BLOCKS 64u

struct rig {
    uint64_t now_us;
    struct symbolic symbolic;
    struct kvpool *pool;
    struct sched *sched;
    struct block_id eaten[BLOCKS];
    uint32_t eaten_count;
};

static void rig_open(struct rig *g, uint32_t chunk)
{
    struct executor_limits limits = {
        .rows_max = 600, .outputs_max = 16, .vocab_count = 100000, .ctx_max = 1024
    };
    struct sched_config c = { .ctx_tokens = 1024,
                              .rows_max = 8,
                              .chunk_tokens = chunk,
                              .step_prefill_tokens = 500,
                              .requests_max = 8 };
    *g = (struct rig){ 0 };
    assert_int_equal(symbolic_open(&g->symbolic, BLOCKS, &limits), RC_OK);
    g->symbolic.now_us = &g->now_us;
    assert_int_equal(kvpool_open(&g->pool, BLOCKS, 0, NULL), RC_OK);
    assert_int_equal(sched_open(&g->sched, &c, g->pool, symbolic_executor(&g->symbolic),
                                clock_virtual(&g->now_us), NULL),
                     RC_OK);
}

static void run_out(struct rig *g)
{
    struct fault f = { 0 };
    while (g->eaten_count > 0)
        kvpool_drop_block(g->pool, g->eaten[--g->eaten_count]);
    while (sched_step(g->sched))
        if (sched_audit(g->sched, &f) != RC_OK)
            fail_msg("%s", f.text);
}

static void rig_close(struct rig *g)
{
    run_out(g);
    assert_int_equal(g->symbolic.violation.code, RC_OK);
    sched_close(g->sched);
    kvpool_close(g->pool);
    symbolic_close(&g->symbolic);
}

static struct request *submit(struct rig *g, int32_t text, uint32_t count, uint32_t max_tokens,
                              enum priority priority)
{
    int32_t prompt[1024];
    struct request *r;
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = text * 2000 + (int32_t)i;
    struct request_params p = { .prompt = prompt,
                                .prompt_count = count,
                                .max_tokens = max_tokens,
                                .priority = priority,
                                .sampling = sampling_default() };
    assert_int_equal(sched_submit(&r, g->sched, &p, NULL), RC_OK);
    return r;
}

/* Steps until r knows so many tokens. */
static void step_until(struct rig *g, const struct request *r, uint32_t known)
{
    while (r->seq.known < known)
        assert_true(sched_step(g->sched));
    assert_int_equal(r->seq.known, known);
}

/* A step in which there is not one block but those of who gives way. */
static void step_without_blocks(struct rig *g)
{
    while (kvpool_take_block(&g->eaten[g->eaten_count], g->pool) == RC_OK)
        g->eaten_count++;
    uint64_t before = sched_stats_get(g->sched).preemptions;
    assert_true(sched_step(g->sched));
    assert_int_equal(sched_stats_get(g->sched).preemptions, before + 1);
}

static bool waits(const struct request *r)
{
    return r->seq.state == SEQ_WAITING;
}

#define NEEDY 16u /* its prompt; it needs a second block when it knows 33 tokens */

static void test_who_costs_least_for_a_block_goes(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 500);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    struct request *b = submit(&g, 2, 66, 200, PRIORITY_NORMAL);  /* 3 blocks of 82 tokens */
    struct request *c = submit(&g, 3, 300, 200, PRIORITY_NORMAL); /* 10 blocks of 316 */
    step_until(&g, a, 33);
    step_without_blocks(&g);
    assert_true(waits(b) && !waits(a) && !waits(c));
    rig_close(&g);
}

static void test_the_youngest_of_equals_goes(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 500);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    struct request *b = submit(&g, 2, 66, 200, PRIORITY_NORMAL);
    struct request *c = submit(&g, 3, 66, 200, PRIORITY_NORMAL);
    step_until(&g, a, 33);
    step_without_blocks(&g);
    assert_true(waits(c) && !waits(a) && !waits(b));
    rig_close(&g);
}

/* A prompt that holds its blocks and has computed little of it. */
static void test_who_has_hardly_begun_goes(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 40);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    struct request *c = submit(&g, 2, 66, 200, PRIORITY_NORMAL);
    step_until(&g, a, 32);
    struct request *b = submit(&g, 3, 300, 200, PRIORITY_NORMAL);
    struct request *d = submit(&g, 4, 66, 200, PRIORITY_NORMAL);
    step_until(&g, a, 33);
    assert_int_equal(b->seq.computed, 40);
    step_without_blocks(&g);
    assert_true(waits(b) && !waits(a) && !waits(c) && !waits(d));
    rig_close(&g);
}

/* The same, but it has not moved since it was let in: another goes, though it costs more. */
static void test_who_has_not_moved_stays(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 30);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    struct request *c = submit(&g, 2, 66, 200, PRIORITY_NORMAL);
    step_until(&g, a, 32);
    struct request *b = submit(&g, 3, 300, 200, PRIORITY_NORMAL);
    step_until(&g, a, 33);
    assert_int_equal(b->seq.computed, 30);
    step_without_blocks(&g);
    assert_true(waits(c) && !waits(a) && !waits(b));
    rig_close(&g);
}

/* And when nobody else is behind the needy one it goes all the same. */
static void test_who_has_not_moved_goes_when_alone_behind(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 30);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    step_until(&g, a, 32);
    struct request *b = submit(&g, 3, 300, 200, PRIORITY_NORMAL);
    step_until(&g, a, 33);
    step_without_blocks(&g);
    assert_true(waits(b) && !waits(a));
    rig_close(&g);
}

static void test_a_worse_class_goes_first(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 500);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    struct request *b = submit(&g, 2, 66, 200, PRIORITY_NORMAL);
    struct request *c = submit(&g, 3, 300, 200, PRIORITY_BATCH); /* though it costs more */
    struct request *d = submit(&g, 4, 66, 200, PRIORITY_INTERACTIVE);
    step_until(&g, a, 33);
    step_without_blocks(&g);
    assert_true(waits(c) && !waits(a) && !waits(b) && !waits(d));
    rig_close(&g);
}

/* Nobody behind: the needy one goes itself, and not one before it. */
static void test_nobody_before_the_needy_one_goes(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 500);
    struct request *b = submit(&g, 2, 66, 200, PRIORITY_NORMAL);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    step_until(&g, a, 33);
    step_without_blocks(&g);
    assert_true(waits(a) && !waits(b));
    rig_close(&g);
}

/* Who has only eight tokens to say gives its blocks back soon anyway. */
static void test_who_is_about_to_end_stays(void **state)
{
    (void)state;
    for (uint32_t left = 8; left <= 9; left++) {
        struct rig g;
        rig_open(&g, 500);
        struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
        struct request *b = submit(&g, 2, 66, 17 + left, PRIORITY_NORMAL); /* 17 are said */
        struct request *c = submit(&g, 3, 300, 200, PRIORITY_NORMAL);
        step_until(&g, a, 33);
        assert_int_equal(request_output_count(b), 17);
        step_without_blocks(&g);
        assert_int_equal(waits(b), left == 9);
        assert_int_equal(waits(c), left == 8);
        rig_close(&g);
    }
}

/* Blocks that others hold as well are not won: who shares its prompt costs what is its own. */
static void test_shared_blocks_do_not_count(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, 500);
    struct request *a = submit(&g, 1, NEEDY, 200, PRIORITY_NORMAL);
    struct request *b = submit(&g, 2, 300, 200, PRIORITY_NORMAL);
    struct request *c = submit(&g, 2, 300, 200, PRIORITY_NORMAL); /* 288 tokens are b's too */
    struct request *d = submit(&g, 4, 66, 200, PRIORITY_NORMAL);
    step_until(&g, a, 33);
    uint32_t lost;
    assert_int_equal(table_sole(&b->seq.table, g.pool, &lost), 1);
    assert_int_equal(lost, b->seq.computed - 288);
    assert_int_equal(table_sole(&d->seq.table, g.pool, &lost), 3);
    assert_int_equal(lost, d->seq.computed);
    step_without_blocks(&g);
    /* c's own 27 tokens cost more work a block than a third of d's 82: they see 288 keys each */
    assert_true(waits(d) && !waits(a) && !waits(b) && !waits(c));
    rig_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_costs_least_for_a_block_goes),
        cmocka_unit_test(test_the_youngest_of_equals_goes),
        cmocka_unit_test(test_who_has_hardly_begun_goes),
        cmocka_unit_test(test_who_has_not_moved_stays),
        cmocka_unit_test(test_who_has_not_moved_goes_when_alone_behind),
        cmocka_unit_test(test_a_worse_class_goes_first),
        cmocka_unit_test(test_nobody_before_the_needy_one_goes),
        cmocka_unit_test(test_who_is_about_to_end_stays),
        cmocka_unit_test(test_shared_blocks_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
