/* SPDX-License-Identifier: MIT */
/* Tests of core/mem, core/arena and core/err. */
#include "tests/unit/test.h"

#include "core/arena.h"
#include "core/err.h"
#include "core/mem.h"

static void test_mem_counts_and_zeroes(void **state)
{
    (void)state;
    size_t before = mem_live_bytes();
    unsigned char *p = mem_alloc_array(10, 100);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    assert_int_equal(mem_live_bytes(), before + 1000);
    p[0] = 7;
    p = mem_grow(p, 1000, 5000);
    assert_non_null(p);
    assert_int_equal(p[0], 7);
    assert_int_equal(p[4999], 0);
    mem_free(p);
    assert_int_equal(mem_live_bytes(), before);
}

static void test_mem_refuses_overflow_and_budget(void **state)
{
    (void)state;
    assert_null(mem_alloc_array(SIZE_MAX / 2, 3));
    assert_null(mem_alloc_raw(SIZE_MAX));
    size_t before = mem_live_bytes();
    mem_set_budget(before + 4096);
    assert_null(mem_alloc_raw(5000));
    void *p = mem_alloc_raw(4000);
    assert_non_null(p);
    assert_null(mem_alloc_raw(4000));
    mem_free(p);
    mem_set_budget(0);
    assert_int_equal(mem_live_bytes(), before);
}

static void test_mem_fails_the_nth(void **state)
{
    (void)state;
    mem_fail_after(2);
    void *a = mem_alloc(10), *b = mem_alloc(10), *c = mem_alloc(10);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    mem_free(a);
    mem_free(c);
}

static void test_arena_mark_and_reset(void **state)
{
    (void)state;
    struct arena a;
    assert_int_equal(arena_open(&a, 1000), RC_OK);
    char *p = arena_take(&a, 1, 100);
    assert_non_null(p);
    size_t mark = arena_mark(&a);
    memset(p, 1, 100);
    char *q = arena_take(&a, 3, 200);
    assert_non_null(q);
    assert_null(arena_take(&a, 1, 1000));
    assert_null(arena_take(&a, SIZE_MAX, 2));
    arena_reset(&a, mark);
    char *r = arena_take(&a, 3, 200);
    assert_ptr_equal(q, r);
    arena_close(&a);
}

static void test_fault_escapes_control_bytes(void **state)
{
    (void)state;
    struct fault f;
    assert_int_equal(fault_set(&f, RC_CORRUPT, "key %s", "a\n\033[1m"), RC_CORRUPT);
    assert_string_equal(f.text, "key a\\x0a\\x1b[1m");
    assert_int_equal(rc_exit_status(RC_CORRUPT), 3);
    assert_int_equal(rc_exit_status(RC_OK), 0);
    assert_string_equal(rc_text(RC_FULL), "full");
    char big[600];
    memset(big, '\n', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    fault_set(&f, RC_IO, "%s", big);
    assert_true(strlen(f.text) < sizeof f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem_counts_and_zeroes),
        cmocka_unit_test(test_mem_refuses_overflow_and_budget),
        cmocka_unit_test(test_mem_fails_the_nth),
        cmocka_unit_test(test_arena_mark_and_reset),
        cmocka_unit_test(test_fault_escapes_control_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
