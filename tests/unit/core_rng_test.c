/* SPDX-License-Identifier: MIT */
/* Tests of core/rng: published vectors, independence of order, evenness. */
#include "tests/unit/test.h"

#include "core/rng.h"

static void test_philox_published_vectors(void **state)
{
    (void)state;
    static const uint32_t in[3][6] = {
        { 0, 0, 0, 0, 0, 0 },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0 },
    };
    static const uint32_t out[3][4] = {
        { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };
    for (int i = 0; i < 3; i++) {
        uint32_t counter[4];
        memcpy(counter, in[i], sizeof counter);
        rng_philox(counter, in[i][4], in[i][5]);
        assert_memory_equal(counter, out[i], sizeof counter);
    }
}

static void test_splitmix_published_vector(void **state)
{
    (void)state;
    struct rng r = rng_seeded(1234567);
    static const uint64_t out[] = { 6457827717110365317u, 3203168211198807973u,
                                    9817491932198370423u, 4593380528125082431u,
                                    16408922859458223821u };
    for (int i = 0; i < 5; i++)
        assert_true(rng_next(&r) == out[i]);
}

/* These are what seeds mean to users: a change here breaks reproducibility of their texts. */
static void test_rng_at_is_frozen(void **state)
{
    (void)state;
    assert_true(rng_at(0, 0, 0) == 0xe169c58d6627e8d5u);
    assert_true(rng_at(UINT64_MAX, 3, 1000) == rng_at(UINT64_MAX, 3, 1000));
    uint32_t words[4] = { 1000, 7, 3, 0 };
    rng_philox(words, 0x89abcdef, 0x01234567);
    assert_true(rng_at(0x0123456789abcdef, 3, 7ull << 32 | 1000) ==
                ((uint64_t)words[1] << 32 | words[0]));
}

static void test_rng_at_tells_all_coordinates_apart(void **state)
{
    (void)state;
    uint64_t base = rng_at(42, 0, 10);
    for (int bit = 0; bit < 64; bit++) {
        assert_true(rng_at(42 ^ 1ull << bit, 0, 10) != base);
        assert_true(rng_at(42, 0, 10 ^ 1ull << bit) != base);
        if (bit < 32)
            assert_true(rng_at(42, 1u << bit, 10) != base);
    }
}

static void test_unit_is_even_and_below_one(void **state)
{
    (void)state;
    uint32_t bins[16] = { 0 };
    double sum = 0;
    for (uint64_t position = 0; position < 32000; position++) {
        double u = rng_unit_at(7, (uint32_t)position % 3, position);
        assert_true(u >= 0.0 && u < 1.0);
        bins[(int)(u * 16)]++;
        sum += u;
    }
    for (int i = 0; i < 16; i++)
        assert_in_range(bins[i], 1800, 2200); /* 2000 expected, sigma 43 */
    assert_true(sum / 32000 > 0.49 && sum / 32000 < 0.51);
}

static void test_below_is_even_at_every_bound(void **state)
{
    (void)state;
    struct rng r = rng_seeded(1);
    uint32_t bins[7] = { 0 };
    for (int i = 0; i < 14000; i++)
        bins[rng_below(&r, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(bins[i], 1800, 2200);
    for (int i = 0; i < 100; i++) {
        assert_true(rng_below(&r, 1) == 0);
        assert_true(rng_below(&r, 1ull << 63 | 1) <= 1ull << 63);
        double u = rng_unit(&r);
        assert_true(u >= 0.0 && u < 1.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_published_vectors),
        cmocka_unit_test(test_splitmix_published_vector),
        cmocka_unit_test(test_rng_at_is_frozen),
        cmocka_unit_test(test_rng_at_tells_all_coordinates_apart),
        cmocka_unit_test(test_unit_is_even_and_below_one),
        cmocka_unit_test(test_below_is_even_at_every_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
