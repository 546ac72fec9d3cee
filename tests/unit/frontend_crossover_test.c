/* SPDX-License-Identifier: MIT */
/* Tests of what `quire bench crossover` reckons: intervals, the crossover, plans, and the file of
 * rows. Whole runs: tests/cli/bench_crossover_test.py. */
#include "tests/unit/test.h"

#include <unistd.h>

#include "frontend/bench/cross_file.h"
#include "frontend/bench/cross_stats.h"

static void test_interval_holds_the_mean(void **state)
{
    (void)state;
    const double equal[] = { 1.5, 1.5, 1.5 }, two[] = { 0.5, 2 }, many[] = { 1, 2, 4, 8, 16 };
    struct cross_interval v = cross_interval_of(equal, 3);
    assert_float_equal(v.mid, 1.5, 1e-9);
    assert_float_equal(v.low, 1.5, 1e-9);
    assert_float_equal(v.high, 1.5, 1e-9);
    v = cross_interval_of(two, 2); /* geometric: half and double cancel */
    assert_float_equal(v.mid, 1, 1e-9);
    assert_float_equal(v.low, 0.5, 1e-9);
    assert_float_equal(v.high, 2, 1e-9);
    v = cross_interval_of(many, 5);
    assert_float_equal(v.mid, 4, 1e-9);
    /* log2 of a mean of five draws: 2 +- 1.96 sqrt(2 / 5), in steps of a fifth. */
    assert_true(v.low > 1.5 && v.low < 2.1);
    assert_true(v.high > 7.5 && v.high < 10.6);
    v = cross_interval_of(many, 0);
    assert_float_equal(v.mid, 0, 0);
}

static struct cross_point point(uint32_t users, double speed, double wait, double spread)
{
    struct cross_point p = { .users = users, .rounds = 5 };
    for (uint32_t i = 0; i < p.rounds; i++) {
        p.speed[i] = speed + spread * ((double)i - 2);
        p.wait[i] = wait;
    }
    return p;
}

static void test_star_is_the_first_that_wins_both(void **state)
{
    (void)state;
    struct cross_point p[] = { point(1, 0.98, 1.02, 0.001), point(2, 1.7, 1.1, 0.01),
                               point(4, 2.6, 0.7, 0.01), point(8, 4, 0.5, 0.01) };
    struct cross_star s = cross_star_of(p, 4);
    assert_int_equal(s.users, 4); /* at 2 the wait is longer */
    assert_int_equal(s.low, 4);
    assert_int_equal(s.high, 4);
    p[1].wait[0] = 0.5; /* now the mean is 0.94, and some draws have it above 1 */
    s = cross_star_of(p, 4);
    assert_int_equal(s.users, 2);
    assert_int_equal(s.low, 2);
    assert_int_equal(s.high, 4);
    for (uint32_t i = 0; i < p[1].rounds; i++) /* the mean wins in every draw, the interval never */
        p[1].speed[i] = 1 + 1e-12;
    p[1].wait[0] = 1.1;
    s = cross_star_of(p, 4);
    assert_int_equal(s.users, 4);
    assert_true(s.low <= 4 && s.high >= 4);
    s = cross_star_of(p, 1);
    assert_int_equal(s.users, CROSS_NEVER);
    assert_int_equal(s.high, CROSS_NEVER);
    s = cross_star_of(p, 0);
    assert_int_equal(s.users, CROSS_NEVER);
}

static void test_star_needs_a_sure_speed(void **state)
{
    (void)state;
    /* Rounds from 0.84 to 1.24: the mean is above 1, its interval is not. */
    struct cross_point p[] = { point(2, 1.04, 0.9, 0.1), point(4, 2, 0.9, 0.1) };
    assert_false(cross_wins(&p[0]));
    struct cross_star s = cross_star_of(p, 2);
    assert_int_equal(s.users, 4);
    assert_int_equal(s.low, 2);
    assert_int_equal(s.high, 4);
}

/* ---- plans ---- */

static bool same_run(const struct cross_run *a, const struct cross_run *b)
{
    return a->workload == b->workload && a->rung == b->rung && a->round == b->round &&
           a->open == b->open && a->load == b->load && a->again == b->again;
}

static uint32_t count_rung(const struct cross_run *runs, uint32_t count, uint32_t rung,
                           uint32_t load)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += runs[i].rung == rung && runs[i].load == load && !runs[i].open && !runs[i].again;
    return found;
}

static void test_plan_has_every_run_once(void **state)
{
    (void)state;
    static struct cross_run runs[CROSS_RUNS_MAX];
    struct cross_shape shape = { .rounds = 5, .scale = 1 };
    struct cross_plan p;
    cross_plan_open(&p, &shape);
    uint32_t count = cross_plan_runs(&p, runs);
    /* Five rounds of four workloads: 8 at one user, 4 at nine more; three rounds of three rates. */
    assert_int_equal(count, 5 * 4 * (8 + 9 * 4) + 3 * 4 * 3 * 4);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_false(same_run(&runs[i], &runs[k]));
    for (uint32_t rung = RUNG_A; rung < RUNGS; rung++)
        assert_int_equal(count_rung(runs, count, rung, 1), 20);
    assert_int_equal(count_rung(runs, count, RUNG_B, 2), 0);
    assert_int_equal(count_rung(runs, count, RUNG_F, 32), 20);
    assert_true(workload_shared(&p.workloads[1]) >= 0.8);
    assert_float_equal(workload_shared(&p.workloads[0]), 0, 0);
    shape.rounds = CROSS_PLAN_ROUNDS_MAX;
    cross_plan_open(&p, &shape);
    assert_true(cross_plan_runs(&p, runs) <= CROSS_RUNS_MAX);
}

static void test_plan_fits_its_time(void **state)
{
    (void)state;
    struct cross_speeds fast = { 800, 130, 500 }, slow = { 127, 29, 100 };
    struct cross_shape full = { .rounds = 5, .scale = 1 };
    struct cross_shape quick = { .quick = true, .rounds = 3, .scale = 1 };
    struct cross_plan p;
    cross_plan_open(&p, &full);
    cross_plan_fit(&p, &fast, 120 * 60 * 0.8);
    assert_true(p.seconds <= 120 * 60 * 0.8);
    assert_true(p.shape.rounds >= 3 && p.shape.scale >= 0.25);
    cross_plan_open(&p, &quick);
    cross_plan_fit(&p, &slow, 30 * 60 * 0.8);
    assert_true(p.seconds <= 30 * 60 * 0.8);
    assert_int_equal(p.shape.rounds, 3);
    assert_int_equal(p.workloads[1].head % 32, 0);
    cross_plan_fit(&p, &slow, 1); /* the least there is */
    assert_true(p.seconds > 1 && p.shape.scale > 0.2 && p.shape.scale <= 0.25);
}

static void test_long_sessions_are_every_fifth(void **state)
{
    (void)state;
    struct cross_shape full = { .rounds = 1, .scale = 1 };
    struct cross_plan p;
    cross_plan_open(&p, &full);
    const struct workload *mixed = &p.workloads[3];
    uint32_t longs = 0;
    for (uint32_t i = 0; i < 20; i++)
        longs += session_is_long(mixed, i);
    assert_int_equal(longs, 4);
    assert_int_equal(workload_tokens(mixed), mixed->long_text + mixed->long_answer);
    assert_int_equal(workload_tokens(&p.workloads[1]), 64 + 8 * 28);
}

/* ---- the file ---- */

static char path[] = "/tmp/quire-cross-XXXXXX";

static void put(const char *text, const char *mode)
{
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_arrivals_of_twice_the_rate(void **state)
{
    enum { COUNT = 1000 };
    uint64_t slow[COUNT], fast[COUNT], other[COUNT];
    uint32_t same = 0;
    (void)state;
    cross_arrivals(7, 0, 2, COUNT, slow);
    cross_arrivals(7, 0, 4, COUNT, fast);
    cross_arrivals(7, 1, 2, COUNT, other);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_in_range(slow[i], 2 * fast[i], 2 * fast[i] + 1);
        assert_true(i == 0 || slow[i] >= slow[i - 1]);
        same += slow[i] == other[i];
    }
    assert_true(same < 10);
    assert_in_range(slow[COUNT - 1], 450000000, 550000000); /* 500 s, deviation 16 s */
}

static void test_file_keeps_rows_and_cuts_a_torn_one(void **state)
{
    (void)state;
    struct cross_file f;
    struct fault fault;
    put("", "w");
    assert_int_equal(cross_file_open(&f, path, "p1", &fault), RC_OK);
    assert_int_equal(cross_file_add(&f, "run", "a", json_pack("{s:i}", "x", 1), &fault), RC_OK);
    cross_file_close(&f);
    put("{\"row\":\"run\",\"key\":\"b\",\"pl", "a"); /* killed here */
    assert_int_equal(cross_file_open(&f, path, "p1", &fault), RC_OK);
    assert_int_equal(json_array_size(f.rows), 1);
    assert_null(cross_file_find(&f, "run", "b"));
    assert_null(cross_file_find(&f, "tax", "a"));
    assert_int_equal(cross_file_add(&f, "run", "b", json_pack("{s:i}", "x", 2), &fault), RC_OK);
    cross_file_close(&f);
    assert_int_equal(cross_file_open(&f, path, "p2", &fault), RC_OK);
    assert_int_equal(json_array_size(f.rows), 0); /* rows of another plan are not its */
    cross_file_close(&f);
    assert_int_equal(cross_file_open(&f, path, "p1", &fault), RC_OK);
    assert_int_equal(json_array_size(f.rows), 2);
    const json_t *b = cross_file_find(&f, "run", "b");
    assert_int_equal(json_integer_value(json_object_get(b, "x")), 2);
    cross_file_close(&f);
    put("{}\nnonsense\n", "a");
    assert_int_equal(cross_file_open(&f, path, "p1", &fault), RC_CORRUPT);
    assert_non_null(strstr(fault.text, "line 4"));
    cross_file_close(&f);
    assert_int_equal(cross_file_open(&f, "/nowhere/at/all", "p1", &fault), RC_IO);
    cross_file_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval_holds_the_mean),
        cmocka_unit_test(test_star_is_the_first_that_wins_both),
        cmocka_unit_test(test_star_needs_a_sure_speed),
        cmocka_unit_test(test_plan_has_every_run_once),
        cmocka_unit_test(test_plan_fits_its_time),
        cmocka_unit_test(test_long_sessions_are_every_fifth),
        cmocka_unit_test(test_arrivals_of_twice_the_rate),
        cmocka_unit_test(test_file_keeps_rows_and_cuts_a_torn_one),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
