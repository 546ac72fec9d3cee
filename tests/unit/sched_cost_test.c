/* SPDX-License-Identifier: MIT */
/* Tests of sched/cost: it finds the machine behind the times, follows it when it changes, and
 * never says anything absurd. */
#include "tests/unit/test.h"

#include "core/rng.h"
#include "sched/cost.h"

struct machine {
    double fixed_us, row_us, pair_us;
};

static uint64_t time_of(const struct machine *m, uint64_t rows, uint64_t pairs)
{
    return (uint64_t)(m->fixed_us + m->row_us * (double)rows + m->pair_us * (double)pairs);
}

/* Steps as they come: mostly some decode rows, now and then a chunk beside them. */
static void watch(struct cost *c, const struct machine *m, struct rng *rng, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t rows = 1 + rng_below(rng, 8), pairs = rows * rng_below(rng, 2000);
        if (rng_below(rng, 3) == 0) {
            uint32_t chunk = 16 + (uint32_t)rng_below(rng, 112);
            rows += chunk;
            pairs += cost_pairs((uint32_t)rng_below(rng, 2000), chunk);
        }
        cost_observe(c, rows, pairs, time_of(m, rows, pairs));
    }
}

static void expect_near(const struct cost *c, const struct machine *m, uint64_t rows,
                        uint64_t pairs)
{
    double real = (double)time_of(m, rows, pairs), said = (double)cost_us(c, rows, pairs);
    assert_true(said > 0.9 * real && said < 1.1 * real);
}

static void test_cost_finds_the_machine(void **state)
{
    (void)state;
    struct machine m = { 30000, 900, 0.02 };
    struct rng rng = rng_seeded(1);
    struct cost c;
    cost_open(&c);
    assert_int_equal(cost_us(&c, 10, 10), 0);
    assert_int_equal(cost_rows_within(&c, 1, 1, 0, 100, 1000000), 0);
    watch(&c, &m, &rng, 60);
    expect_near(&c, &m, 1, 100);
    expect_near(&c, &m, 64, 50000);
    assert_in_range(cost_free_rows(&c), 3, 5); /* 30000 / 900 / 8 */
    uint32_t rows = cost_rows_within(&c, 8, 8000, 1000, 500, 60000);
    assert_in_range(rows, 18, 30);
    assert_true(cost_us(&c, 8 + rows, 8000 + cost_pairs(1000, rows)) <= 60000);
    assert_int_equal(cost_rows_within(&c, 8, 8000, 1000, 500, 1), 0);
    assert_int_equal(cost_rows_within(&c, 8, 8000, 1000, 500, 1000000000), 500);
}

static void test_cost_follows_a_throttled_machine(void **state)
{
    (void)state;
    struct machine fast = { 30000, 900, 0.02 }, slow = { 60000, 1800, 0.04 };
    struct rng rng = rng_seeded(2);
    struct cost c;
    cost_open(&c);
    watch(&c, &fast, &rng, 300);
    watch(&c, &slow, &rng, 200);
    expect_near(&c, &slow, 8, 8000);
    expect_near(&c, &slow, 72, 60000);
}

static void test_cost_shrugs_off_one_bad_step(void **state)
{
    (void)state;
    struct machine m = { 30000, 900, 0.02 };
    struct rng rng = rng_seeded(3);
    struct cost c;
    cost_open(&c);
    watch(&c, &m, &rng, 200);
    cost_observe(&c, 5, 5000, 3600000000u); /* an hour: the lid was closed */
    watch(&c, &m, &rng, 60);
    expect_near(&c, &m, 8, 8000);
    expect_near(&c, &m, 72, 60000);
}

/* The same step again and again says nothing about rows; times may be anything. */
static void test_cost_survives_poor_and_absurd_news(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(4);
    struct cost c;
    cost_open(&c);
    for (uint32_t i = 0; i < 20000; i++)
        cost_observe(&c, 1, 100, 5000);
    assert_in_range(cost_us(&c, 1, 100), 4900, 5100);
    for (uint32_t i = 0; i < 20000; i++)
        cost_observe(&c, rng_below(&rng, 9000), rng_next(&rng) >> (rng_below(&rng, 60)),
                     rng_next(&rng) >> rng_below(&rng, 64));
    uint32_t last = 0;
    for (uint32_t us = 1; us < 1u << 30; us *= 4) {
        uint32_t rows = cost_rows_within(&c, 10, 100, 100, 300, us);
        assert_true(rows >= last && rows <= 300);
        last = rows;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_finds_the_machine),
        cmocka_unit_test(test_cost_follows_a_throttled_machine),
        cmocka_unit_test(test_cost_shrugs_off_one_bad_step),
        cmocka_unit_test(test_cost_survives_poor_and_absurd_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
