/* SPDX-License-Identifier: MIT */
/* Tests of core/slab: handles that go stale, fullness, and a long random use against a plain model.
 * */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "core/rng.h"
#include "core/slab.h"

struct record {
    uint64_t value;
    char rest[100];
};

static struct slab *open_slab(uint32_t count)
{
    struct slab *s = NULL;
    assert_int_equal(slab_open(&s, count, sizeof(struct record)), RC_OK);
    return s;
}

static void test_take_until_full_and_again(void **state)
{
    (void)state;
    struct slab *s = open_slab(3);
    struct slab_handle handles[3], more;
    struct record *records[3];
    for (int i = 0; i < 3; i++) {
        records[i] = slab_take(s, &handles[i]);
        assert_non_null(records[i]);
        assert_int_equal((uintptr_t)records[i] % 64, 0);
        assert_int_equal(records[i]->value, 0);
        memset(records[i], 0xff, sizeof *records[i]);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(records[i], records[k]);
    }
    assert_null(slab_take(s, &more));
    assert_int_equal(slab_taken_count(s), 3);
    slab_give(s, handles[1]);
    struct record *again = slab_take(s, &more);
    assert_ptr_equal(again, records[1]);
    for (size_t i = 0; i < sizeof *again; i++)
        assert_int_equal(((char *)again)[i], 0);
    assert_null(slab_find(s, handles[1])); /* the same place, another use */
    assert_ptr_equal(slab_find(s, more), again);
    assert_ptr_equal(slab_find(s, handles[0]), records[0]);
    slab_close(s);
}

static void test_handles_that_name_nothing(void **state)
{
    (void)state;
    struct slab *s = open_slab(2);
    struct slab_handle h;
    assert_null(slab_find(s, (struct slab_handle){ 0 }));
    struct record *r = slab_take(s, &h);
    assert_ptr_equal(slab_find(s, h), r);
    struct slab_handle back = slab_handle_of(s, r);
    assert_int_equal(back.index, h.index);
    assert_int_equal(back.generation, h.generation);
    assert_null(slab_find(s, (struct slab_handle){ 0 }));
    assert_null(slab_find(s, (struct slab_handle){ h.index, h.generation + 1 }));
    assert_null(slab_find(s, (struct slab_handle){ h.index, h.generation + 2 }));
    assert_null(slab_find(s, (struct slab_handle){ 2, 1 }));
    assert_null(slab_find(s, (struct slab_handle){ UINT32_MAX, 1 }));
    slab_give(s, h);
    assert_null(slab_find(s, h));
    assert_int_equal(slab_taken_count(s), 0);
    slab_close(s);
}

#define COUNT 50u
#define STEPS 20000u

static void test_random_use_against_a_model(void **state)
{
    (void)state;
    struct slab *s = open_slab(COUNT);
    struct slab_handle live[COUNT], stale[16] = { { 0 } };
    uint64_t values[COUNT];
    uint32_t live_count = 0;
    struct rng rng = rng_seeded(3);
    for (uint32_t step = 0; step < STEPS; step++) {
        if (rng_below(&rng, 100) < 51) {
            struct slab_handle h;
            struct record *r = slab_take(s, &h);
            assert_int_equal(r == NULL, live_count == COUNT);
            if (r != NULL) {
                r->value = values[live_count] = rng_next(&rng);
                live[live_count++] = h;
            }
        } else if (live_count > 0) {
            uint32_t i = (uint32_t)rng_below(&rng, live_count);
            struct record *r = slab_find(s, live[i]);
            assert_non_null(r);
            assert_true(r->value == values[i]);
            slab_give(s, live[i]);
            stale[step % 16] = live[i];
            live[i] = live[--live_count];
            values[i] = values[live_count];
        }
        assert_null(slab_find(s, stale[rng_below(&rng, 16)]));
        assert_int_equal(slab_taken_count(s), live_count);
    }
    uint32_t cursor = 0, seen = 0;
    uint64_t sum = 0, want = 0;
    for (struct record *r; (r = slab_next(s, &cursor)) != NULL; seen++)
        sum += r->value;
    for (uint32_t i = 0; i < live_count; i++)
        want += values[i];
    assert_int_equal(seen, live_count);
    assert_true(sum == want);
    slab_close(s);
}

static void test_open_fails_whole(void **state)
{
    (void)state;
    size_t live = mem_live_bytes();
    struct slab *s;
    for (uint64_t n = 1; n <= 4; n++) {
        mem_fail_after(n);
        assert_int_equal(slab_open(&s, 10, 8), RC_NO_MEMORY);
        assert_null(s);
        assert_int_equal(mem_live_bytes(), live);
    }
    assert_int_equal(slab_open(&s, 8, SIZE_MAX / 4), RC_NO_MEMORY);
    assert_int_equal(slab_open(&s, 1, SIZE_MAX), RC_NO_MEMORY);
    slab_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_until_full_and_again),
        cmocka_unit_test(test_handles_that_name_nothing),
        cmocka_unit_test(test_random_use_against_a_model),
        cmocka_unit_test(test_open_fails_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
