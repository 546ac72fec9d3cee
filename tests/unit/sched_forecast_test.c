/* SPDX-License-Identifier: MIT */
/* Tests of sched/forecast: against a simulation of the same sequences, token by token. */
#include "tests/unit/test.h"

#include "core/limits.h"
#include "core/rng.h"
#include "sched/forecast.h"

#define ITEMS_MAX 12u

/* Most blocks that the items need at once beyond what they have, less what those that ended
 * returned. */
static int64_t most_needed(const struct forecast_item *items, uint32_t count)
{
    int64_t most = 0;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < count; i++)
        longest = items[i].left > longest ? items[i].left : longest;
    for (uint32_t t = 0; t <= longest; t++) {
        int64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t grown = items[i].left < t ? items[i].left : t;
            int64_t growth = (items[i].open + grown) / KV_BLOCK_TOKENS;
            sum += items[i].left < t ? -(int64_t)items[i].own : growth;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static void test_forecast_agrees_with_counting(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(5);
    for (uint32_t n = 0; n < 3000; n++) {
        struct forecast_item items[ITEMS_MAX], copy[ITEMS_MAX];
        uint32_t count = 1 + (uint32_t)rng_below(&rng, ITEMS_MAX);
        for (uint32_t i = 0; i < count; i++)
            items[i] = (struct forecast_item){ .left = (uint32_t)rng_below(&rng, 300),
                                               .open = (uint16_t)rng_below(&rng, 32),
                                               .own = (uint16_t)rng_below(&rng, 12) };
        int64_t most = most_needed(items, count);
        memcpy(copy, items, sizeof copy);
        /* Running sums round once instead of once for each: a block for each item either way. */
        assert_true(forecast_fits(copy, count, (uint64_t)most + count));
        memcpy(copy, items, sizeof copy);
        if (most > count)
            assert_false(forecast_fits(copy, count, (uint64_t)(most - count) - 1));
    }
}

static void test_lengths_follow_four_of_five(void **state)
{
    (void)state;
    struct lengths l = { 0 };
    struct rng rng = rng_seeded(6);
    assert_int_equal(lengths_left(&l, 0, 1000), 256);
    assert_int_equal(lengths_left(&l, 0, 10), 10);
    for (uint32_t i = 0; i < 3000; i++)
        lengths_note(&l, (uint32_t)rng_below(&rng, 1000));
    assert_in_range(l.high, 650, 950);
    for (uint32_t i = 0; i < 3000; i++)
        lengths_note(&l, 5);
    assert_in_range(l.high, 1, 8);
    assert_int_equal(lengths_left(&l, 400, 1000), 100); /* longer than expected: a quarter more */
    assert_int_equal(lengths_left(&l, 1000, 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast_agrees_with_counting),
        cmocka_unit_test(test_lengths_follow_four_of_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
