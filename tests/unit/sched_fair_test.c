/* SPDX-License-Identifier: MIT */
/* Tests of classes, tenants, wishes and deadlines, on a virtual clock where a step takes 1000 us
 * and a row 100 us more. */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "sched/sched.h"
#include "tests/sim/symbolic.h"

#define BLOCKS 2000u
#define AUDIT_EVERY 16u

struct rig {
    uint64_t now_us;
    struct symbolic symbolic;
    struct kvpool *pool;
    struct sched *sched;
    int32_t next; /* prompts differ, so that nothing is shared */
};

static void rig_open(struct rig *g, const struct sched_config *config)
{
    struct executor_limits limits = {
        .rows_max = 512, .outputs_max = 64, .vocab_count = 1000000, .ctx_max = 4096
    };
    *g = (struct rig){ 0 };
    assert_int_equal(symbolic_open(&g->symbolic, BLOCKS, &limits), RC_OK);
    g->symbolic.now_us = &g->now_us;
    assert_int_equal(kvpool_open(&g->pool, BLOCKS, 0, NULL), RC_OK);
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

static struct request_params params_of(uint32_t prompt_count, uint32_t max_tokens)
{
    struct request_params p = { .prompt_count = prompt_count, .max_tokens = max_tokens };
    p.sampling = sampling_default();
    return p;
}

static struct request *submit(struct rig *g, struct request_params p)
{
    int32_t prompt[4096];
    for (uint32_t i = 0; i < p.prompt_count; i++)
        prompt[i] = (g->next + (int32_t)i) % 1000000;
    g->next += 5000;
    p.prompt = prompt;
    struct request *r;
    assert_int_equal(sched_submit(&r, g->sched, &p, NULL), RC_OK);
    return r;
}

static bool step(struct rig *g)
{
    struct fault f = { 0 };
    bool worked = sched_step(g->sched);
    if (g->symbolic.steps % AUDIT_EVERY == 0 && sched_audit(g->sched, &f) != RC_OK)
        fail_msg("%s", f.text);
    return worked;
}

static void release_finished(struct rig *g)
{
    struct request *r;
    while ((r = sched_next_event(g->sched, 0)) != NULL)
        if (request_finish(r) != FINISH_NONE)
            sched_release(g->sched, r);
}

static uint64_t ttft_us(struct rig *g, struct request *r)
{
    while (request_output_count(r) == 0)
        assert_true(step(g));
    struct request_times t = request_times_get(r);
    return t.first_token_us - t.arrival_us;
}

static const struct sched_config eight = {
    .ctx_tokens = 4096, .rows_max = 8, .chunk_tokens = 128, .requests_max = 200
};

/* One tenant floods 64 long prompts, another sends a short one each second: its time to first
 * token stays under twice the solo value plus one chunk, also when the patience of the flood is
 * over, and while its own answer before is not. */
static void test_flood_of_one_tenant_does_not_delay_another(void **state)
{
    (void)state;
    struct rig solo, g;
    struct request_params shortly = params_of(100, 80), flood = params_of(3000, 200);
    shortly.tenant = 2;
    flood.tenant = 1;
    rig_open(&solo, &eight);
    uint64_t alone_us = ttft_us(&solo, submit(&solo, shortly));
    rig_close(&solo);

    struct sched_config c = eight;
    c.patience_us = 3000000;
    rig_open(&g, &c);
    for (int i = 0; i < 64; i++)
        submit(&g, flood);
    uint64_t next_us = 1000000, chunk_us = 1000 + 100 * 136;
    for (int second = 0; second < 20; second++, next_us += 1000000) {
        while (g.now_us < next_us) {
            assert_true(step(&g));
            release_finished(&g);
        }
        uint64_t us = ttft_us(&g, submit(&g, shortly));
        assert_true(us < 2 * alone_us + chunk_us);
    }
    assert_true(sched_stats_get(g.sched).preemptions > 0);
    rig_close(&g);
}

/* Two tenants with as much to do as they like get equal shares of the engine, though one asks
 * for much longer contexts. */
static void test_tenants_share_by_time_not_by_requests(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = eight;
    c.rows_max = 4;
    c.no_prefix_cache = true;
    rig_open(&g, &c);
    struct request_params light = params_of(60, 30), heavy = params_of(1500, 30);
    light.tenant = 1;
    heavy.tenant = 2;
    uint32_t live[2] = { 0 }, ended[2] = { 0 };
    while (g.now_us < 20000000) {
        for (; live[0] < 10; live[0]++) {
            light.user = &live[0];
            submit(&g, light);
        }
        for (; live[1] < 10; live[1]++) {
            heavy.user = &live[1];
            submit(&g, heavy);
        }
        assert_true(step(&g));
        struct request *r;
        while ((r = sched_next_event(g.sched, 0)) != NULL) {
            if (request_finish(r) == FINISH_NONE)
                continue;
            uint32_t *who = request_user(r);
            *who -= 1;
            ended[who - live]++;
            sched_release(g.sched, r);
        }
    }
    /* 90 rows against 1530, and keys to read: about 17 of the light ones for a heavy one. */
    assert_in_range(ended[0], 8 * ended[1], 30 * ended[1]);
    rig_close(&g);
}

/* Batch work gets its weight beside interactive work, not nothing and not half. */
static void test_classes_share_by_weight(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = eight;
    c.rows_max = 4;
    rig_open(&g, &c);
    uint32_t live[2] = { 0 }, ended[2] = { 0 };
    while (g.now_us < 20000000) {
        for (uint32_t k = 0; k < 2; k++)
            for (; live[k] < 10; live[k]++) {
                struct request_params p = params_of(60, 30);
                p.priority = k == 0 ? PRIORITY_INTERACTIVE : PRIORITY_BATCH;
                p.user = &live[k];
                submit(&g, p);
            }
        assert_true(step(&g));
        struct request *r;
        while ((r = sched_next_event(g.sched, 0)) != NULL) {
            if (request_finish(r) == FINISH_NONE)
                continue;
            uint32_t *who = request_user(r);
            *who -= 1;
            ended[who - live]++;
            sched_release(g.sched, r);
        }
    }
    assert_true(ended[1] > 0);
    assert_in_range(ended[0], 4 * ended[1], 20 * ended[1]);
    rig_close(&g);
}

static void test_interactive_does_not_wait_for_batch(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, &eight);
    struct request_params batch = params_of(1000, 1000), quick = params_of(50, 5);
    batch.priority = PRIORITY_BATCH;
    quick.priority = PRIORITY_INTERACTIVE;
    for (int i = 0; i < 30; i++)
        submit(&g, batch);
    for (int i = 0; i < 100; i++)
        step(&g);
    assert_int_equal(sched_stats_get(g.sched).running, 8);
    assert_true(ttft_us(&g, submit(&g, quick)) < 4 * (1000 + 100 * 136));
    rig_close(&g);
}

/* The other way round it does: batch work of a tenant that has nothing running puts nobody
 * better off. */
static void test_batch_waits_for_interactive(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, &eight);
    struct request_params quick = params_of(50, 500), batch = params_of(50, 5);
    quick.priority = PRIORITY_INTERACTIVE;
    batch.priority = PRIORITY_BATCH;
    batch.tenant = 7;
    for (int i = 0; i < 8; i++)
        submit(&g, quick);
    for (int i = 0; i < 150; i++)
        step(&g);
    struct request *b = submit(&g, batch);
    for (int i = 0; i < 150; i++)
        step(&g);
    assert_int_equal(request_output_count(b), 0);
    assert_int_equal(sched_stats_get(g.sched).preemptions, 0);
    rig_close(&g);
}

/* Spare requests run with what is left, and all alone when nobody else is there. */
static void test_spare_ends_when_it_is_alone(void **state)
{
    (void)state;
    struct rig g;
    rig_open(&g, &eight);
    struct request_params spare = params_of(40, 40), normal = params_of(40, 200);
    spare.priority = PRIORITY_SPARE;
    struct request *n = submit(&g, normal);
    for (int i = 0; i < 20; i++)
        step(&g);
    struct request *r = submit(&g, spare);
    for (int i = 0; i < 100; i++)
        step(&g);
    assert_int_equal(request_output_count(n), 120);
    /* a row makes a step a twelfth longer: none is free */
    assert_true(request_output_count(r) < 40);
    while (step(&g)) {
    }
    assert_int_equal(request_finish(r), FINISH_LENGTH);
    rig_close(&g);
}

/* What two people see who ask and read without a pause. */
struct talk {
    struct request *live[2];
    uint32_t seen[2];
    uint64_t last_us[2];
    uint32_t gaps_us[100000];
    uint32_t gap_count;
};

static void talk_on(struct rig *g, struct talk *t)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct request *r = t->live[i];
        if (r == NULL) {
            struct request_params p = params_of(60, 40 + 30 * i);
            p.priority = PRIORITY_INTERACTIVE;
            t->live[i] = submit(g, p);
            t->seen[i] = 0;
        }
        if (r == NULL || request_output_count(r) == t->seen[i])
            continue;
        if (t->seen[i]++ > 0)
            t->gaps_us[t->gap_count++] = (uint32_t)(g->now_us - t->last_us[i]);
        t->last_us[i] = g->now_us;
        if (request_finish(r) != FINISH_NONE)
            t->live[i] = NULL;
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* 95 of 100 gaps between tokens of the two are as long or shorter, on a machine where a row costs
 * row_us beyond knee_rows, while so many spare jobs are kept in the queue. *ended: those that came
 * to their end. */
static uint32_t gap_p95_us(uint32_t row_us, uint32_t knee_rows, uint32_t jobs, uint32_t *ended)
{
    struct talk *t = mem_alloc(sizeof *t);
    struct rig g;
    struct sched_config c = eight;
    uint32_t live = 0;
    c.itl_us = 100000;
    rig_open(&g, &c);
    g.symbolic.step_us = 20000;
    g.symbolic.row_us = row_us;
    g.symbolic.knee_rows = knee_rows;
    *ended = 0;
    while (g.now_us < 30000000) {
        struct request_params spare = params_of(100, 40);
        spare.priority = PRIORITY_SPARE;
        spare.user = ended;
        for (; live < jobs; live++)
            submit(&g, spare);
        talk_on(&g, t);
        assert_true(step(&g));
        struct request *r;
        while ((r = sched_next_event(g.sched, 0)) != NULL) {
            if (request_finish(r) == FINISH_NONE)
                continue;
            live -= request_user(r) == ended;
            *ended += request_user(r) == ended;
            talk_on(&g, t);
            sched_release(g.sched, r);
        }
    }
    rig_close(&g);
    qsort(t->gaps_us, t->gap_count, sizeof t->gaps_us[0], by_size);
    uint32_t p95_us = t->gaps_us[t->gap_count * 95 / 100];
    mem_free(t);
    return p95_us;
}

static void test_spare_slows_others_by_a_twentieth_at_most(void **state)
{
    (void)state;
    static const struct {
        uint32_t row_us, knee_rows;
    } machines[] = { { 50, 0 }, { 200, 0 }, { 2000, 0 }, { 2000, 4 }, { 5000, 4 }, { 500, 16 } };
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        uint32_t none, ended;
        uint32_t alone_us = gap_p95_us(machines[i].row_us, machines[i].knee_rows, 0, &none);
        uint32_t beside_us = gap_p95_us(machines[i].row_us, machines[i].knee_rows, 6, &ended);
        printf("# row %u us, knee %u: %u us alone, %u us beside %u spare jobs\n",
               machines[i].row_us, machines[i].knee_rows, alone_us, beside_us, ended);
        assert_true(beside_us <= alone_us + alone_us / 20);
        if (machines[i].row_us < 1000) /* 4 % of a step are several rows */
            assert_true(ended > 5);
    }
}

static void test_deadline_ends_a_request_anywhere(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = eight;
    c.rows_max = 1;
    rig_open(&g, &c);
    struct request_params p = params_of(20, 2000);
    p.deadline_us = 50000;
    struct request *running = submit(&g, p), *waiting = submit(&g, p);
    while (step(&g)) {
    }
    assert_int_equal(request_finish(running), FINISH_EXPIRED);
    assert_true(request_output_count(running) > 10);
    assert_int_equal(request_finish(waiting), FINISH_EXPIRED);
    assert_int_equal(request_output_count(waiting), 0);
    assert_int_equal(sched_stats_get(g.sched).expired, 2);
    assert_in_range(request_times_get(waiting).finished_us, 50000, 53000);
    rig_close(&g);
}

static void test_earliest_wish_of_a_tenant_goes_first(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = eight;
    c.rows_max = 1;
    rig_open(&g, &c);
    struct request_params p = params_of(20, 10);
    submit(&g, p);
    step(&g);
    struct request *none = submit(&g, p);
    p.ttft_us = 900000;
    struct request *later = submit(&g, p);
    p.ttft_us = 500000;
    struct request *sooner = submit(&g, p);
    while (step(&g)) {
    }
    uint64_t none_us = request_times_get(none).first_token_us;
    uint64_t later_us = request_times_get(later).first_token_us;
    uint64_t sooner_us = request_times_get(sooner).first_token_us;
    assert_true(sooner_us < later_us && later_us < none_us);
    rig_close(&g);
}

/* A wish that was missed makes a request batch: it lets the others pass. */
static void test_late_request_goes_on_as_batch(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = eight;
    c.rows_max = 1;
    rig_open(&g, &c);
    struct request_params p = params_of(20, 40);
    submit(&g, p);
    step(&g);
    p.ttft_us = 5000;
    struct request *late = submit(&g, p);
    for (int i = 0; i < 20; i++)
        step(&g);
    p.ttft_us = 0;
    p.priority = PRIORITY_INTERACTIVE;
    struct request *other = submit(&g, p);
    while (step(&g)) {
    }
    assert_int_equal(request_finish(late), FINISH_LENGTH);
    assert_true(request_times_get(other).first_token_us < request_times_get(late).first_token_us);
    rig_close(&g);
}

/* Whoever waits longer than patience goes first, whatever the class. */
static void test_patience_ends(void **state)
{
    (void)state;
    struct rig g;
    struct sched_config c = eight;
    c.rows_max = 2;
    c.patience_us = 200000;
    rig_open(&g, &c);
    struct request_params batch = params_of(50, 20), quick = params_of(50, 40);
    batch.priority = PRIORITY_BATCH;
    quick.priority = PRIORITY_INTERACTIVE;
    for (int i = 0; i < 3; i++)
        submit(&g, quick);
    struct request *b = submit(&g, batch);
    while (request_output_count(b) == 0) {
        assert_true(step(&g));
        release_finished(&g);
        while (sched_stats_get(g.sched).waiting < 3)
            submit(&g, quick), step(&g);
        assert_true(g.now_us < 300000);
    }
    rig_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flood_of_one_tenant_does_not_delay_another),
        cmocka_unit_test(test_tenants_share_by_time_not_by_requests),
        cmocka_unit_test(test_classes_share_by_weight),
        cmocka_unit_test(test_interactive_does_not_wait_for_batch),
        cmocka_unit_test(test_batch_waits_for_interactive),
        cmocka_unit_test(test_spare_ends_when_it_is_alone),
        cmocka_unit_test(test_spare_slows_others_by_a_twentieth_at_most),
        cmocka_unit_test(test_deadline_ends_a_request_anywhere),
        cmocka_unit_test(test_earliest_wish_of_a_tenant_goes_first),
        cmocka_unit_test(test_late_request_goes_on_as_batch),
        cmocka_unit_test(test_patience_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
