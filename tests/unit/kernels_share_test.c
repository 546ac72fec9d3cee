/* SPDX-License-Identifier: MIT */
/* Shares of work in a simulated time: each worker takes a piece, works at its own speed, takes the
 * next. So what a slow or stolen core costs is a number, not a measurement. */
#include "tests/unit/test.h"

#include <string.h>

#include "kernels/share.h"

enum { WORKERS_MAX = 8, UNITS = 1000 };

struct race {
    uint32_t units, smallest, workers;
    double speed[WORKERS_MAX]; /* units a moment; 0: never finishes a piece */
    uint32_t done[WORKERS_MAX];
    uint32_t largest_last; /* units of the last piece */
};

/* Runs until every worker that moves finds nothing left; returns that moment. */
static double run(struct race *r)
{
    static uint8_t taken_by[UNITS];
    double free_at[WORKERS_MAX] = { 0 }, end = 0;
    bool over[WORKERS_MAX] = { false };
    atomic_uint taken;
    atomic_init(&taken, 0);
    memset(taken_by, 0, sizeof taken_by);
    for (;;) {
        uint32_t next = r->workers, from, to;
        for (uint32_t w = 0; w < r->workers; w++)
            if (!over[w] && (next == r->workers || free_at[w] < free_at[next]))
                next = w;
        if (next == r->workers)
            break;
        if (!share_take(&taken, r->units, r->smallest, r->workers, &from, &to)) {
            over[next] = true;
            end = free_at[next] > end ? free_at[next] : end;
            continue;
        }
        assert_true(from < to && to <= r->units);
        for (uint32_t i = from; i < to; i++)
            assert_int_equal(taken_by[i]++, 0);
        r->done[next] += to - from;
        r->largest_last = to - from;
        over[next] = r->speed[next] <= 0;
        free_at[next] += r->speed[next] > 0 ? (to - from) / r->speed[next] : 0;
    }
    for (uint32_t i = 0; i < r->units; i++)
        assert_int_equal(taken_by[i], 1);
    return end;
}

static void test_share_equal_workers_end_together(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++) {
        struct race r = { .units = UNITS, .smallest = 4, .workers = workers };
        for (uint32_t w = 0; w < workers; w++)
            r.speed[w] = 1;
        double even = (double)UNITS / workers;
        assert_true(run(&r) <= even + 4);
        assert_true(r.largest_last <= 4);
    }
}

/* A core at any part of its speed: all of the rest is used, but for the last small piece. */
static void test_share_slow_core_costs_what_it_lacks(void **state)
{
    (void)state;
    for (uint32_t percent = 35; percent <= 100; percent += 5) {
        struct race r = { .units = UNITS, .smallest = 4, .workers = 2, .speed = { 1 } };
        r.speed[1] = percent / 100.0;
        double ideal = UNITS / (1 + r.speed[1]);
        double end = run(&r);
        if (end > ideal + 4 / r.speed[1])
            fail_msg("at %u %%: ends at %.1f, ideal %.1f", percent, end, ideal);
        assert_in_range(r.done[1], UNITS * r.speed[1] / (1 + r.speed[1]) - 4,
                        UNITS * r.speed[1] / (1 + r.speed[1]) + 4);
    }
}

/* A core that is taken for good holds its one piece; everything else is done by the others. */
static void test_share_taken_core_keeps_one_piece(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= WORKERS_MAX; workers++) {
        struct race r = { .units = UNITS, .smallest = 4, .workers = workers };
        for (uint32_t w = 1; w < workers; w++)
            r.speed[w] = 1;
        run(&r);
        uint32_t others = 0;
        for (uint32_t w = 1; w < workers; w++)
            others += r.done[w];
        assert_int_equal(others + r.done[0], UNITS);
        assert_true(r.done[0] <= UNITS / (2 * workers));
    }
}

static void test_share_edges(void **state)
{
    (void)state;
    atomic_uint taken;
    uint32_t begin, end;
    atomic_init(&taken, 0);
    assert_false(share_take(&taken, 0, 4, 2, &begin, &end));
    assert_true(share_take(&taken, 1, 4, 2, &begin, &end));
    assert_int_equal(begin, 0);
    assert_int_equal(end, 1);
    assert_false(share_take(&taken, 1, 4, 2, &begin, &end));
    atomic_store(&taken, 0); /* too little for pieces: even shares */
    assert_true(share_take(&taken, 7, 100, 2, &begin, &end));
    assert_int_equal(end, 4);
    assert_true(share_take(&taken, 7, 100, 2, &begin, &end));
    assert_int_equal(begin, 4);
    assert_int_equal(end, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share_equal_workers_end_together),
        cmocka_unit_test(test_share_slow_core_costs_what_it_lacks),
        cmocka_unit_test(test_share_taken_core_keeps_one_piece),
        cmocka_unit_test(test_share_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
