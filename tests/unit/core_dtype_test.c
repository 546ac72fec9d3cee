/* SPDX-License-Identifier: MIT */
/* Tests of core/dtype and core/name_table. */
#include "tests/unit/test.h"

#include "core/dtype.h"
#include "core/mem.h"
#include "core/name_table.h"
#include "tests/unit/golden.h"

static void test_dtype_names_and_numbers_agree(void **state)
{
    (void)state;
    uint32_t known = 0;
    for (uint32_t number = 0; number < 300; number++) {
        const struct dtype_info *info = dtype_find(number);
        if (info == NULL)
            continue;
        enum dtype back = DTYPE_COUNT;
        known++;
        assert_null(dtype_withdrawn_name(number));
        assert_true(dtype_parse(&back, info->name));
        assert_int_equal(back, number);
        assert_true(info->block_elems >= 1 && info->block_elems <= 256);
        assert_true(info->block_bytes >= 1);
    }
    assert_int_equal(known, 33);
    enum dtype type;
    assert_true(dtype_parse(&type, "q4_k"));
    assert_int_equal(type, DTYPE_Q4_K);
    assert_false(dtype_parse(&type, "Q4_2"));
    assert_false(dtype_parse(&type, ""));
    assert_null(dtype_find(UINT32_MAX));
}

static void test_dtype_withdrawn_formats_keep_their_names(void **state)
{
    (void)state;
    static const uint32_t numbers[] = { 4, 5, 31, 32, 33, 36, 37, 38 };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_non_null(dtype_withdrawn_name(numbers[i]));
        assert_null(dtype_find(numbers[i]));
    }
    assert_string_equal(dtype_withdrawn_name(4), "Q4_2");
    assert_string_equal(dtype_withdrawn_name(31), "Q4_0_4_4");
    assert_null(dtype_withdrawn_name(9));
    assert_null(dtype_withdrawn_name(43));
}

static void test_dtype_row_bytes_checks_blocks_and_overflow(void **state)
{
    (void)state;
    size_t bytes = 7;
    assert_true(dtype_row_bytes(&bytes, DTYPE_Q6_K, 512));
    assert_int_equal(bytes, 420);
    assert_true(dtype_row_bytes(&bytes, DTYPE_F16, 3));
    assert_int_equal(bytes, 6);
    assert_true(dtype_row_bytes(&bytes, DTYPE_Q8_0, 0));
    assert_int_equal(bytes, 0);
    bytes = 7;
    assert_false(dtype_row_bytes(&bytes, DTYPE_Q6_K, 255));
    assert_false(dtype_row_bytes(&bytes, DTYPE_F32, 1ull << 62));
    assert_false(dtype_row_bytes(&bytes, DTYPE_F64, UINT64_MAX));
    assert_false(dtype_row_bytes(&bytes, (enum dtype)4, 32));
    assert_int_equal(bytes, 7);
    assert_true(dtype_row_bytes(&bytes, DTYPE_Q4_0, 1ull << 62));
}

/* The golden files hold whole blocks and name every format by the name in our table. */
static void test_dtype_blocks_have_their_golden_size(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (uint32_t number = 0; number < DTYPE_COUNT; number++) {
        const struct dtype_info *info = dtype_find(number);
        size_t block_bytes, float_bytes;
        char name[64];
        if (info == NULL)
            continue;
        snprintf(name, sizeof name, "dequant/%s.blocks", info->name);
        uint8_t *blocks = golden_read(name, &block_bytes);
        if (blocks == NULL)
            continue;
        free(blocks);
        snprintf(name, sizeof name, "dequant/%s.f32", info->name);
        uint8_t *floats = golden_read(name, &float_bytes);
        assert_non_null(floats);
        free(floats);
        assert_int_equal(block_bytes % info->block_bytes, 0);
        assert_int_equal(block_bytes / info->block_bytes * info->block_elems * 4, float_bytes);
        found++;
    }
    if (found == 0)
        skip(); /* no ../shared/golden/dequant */
    assert_int_equal(found, 27);
}

static void test_name_table_finds_and_refuses_doubles(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static char names[COUNT][16];
    struct name_table t;
    size_t before = mem_live_bytes();
    assert_int_equal(name_table_open(&t, COUNT + 2), RC_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        assert_int_equal(name_table_add(&t, names[i], strlen(names[i]), i), NAME_NONE);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        char copy[16];
        memcpy(copy, names[i], sizeof copy);
        assert_int_equal(name_table_find(&t, copy, strlen(copy)), i);
        assert_int_equal(name_table_add(&t, copy, strlen(copy), 9999), i);
    }
    assert_int_equal(name_table_find(&t, "n5000", 5), NAME_NONE);
    assert_int_equal(name_table_find(&t, "n12345678", 9), NAME_NONE);
    assert_int_equal(name_table_find(&t, "", 0), NAME_NONE);
    assert_int_equal(name_table_add(&t, "", 0, 7), NAME_NONE);
    assert_int_equal(name_table_find(&t, NULL, 0), 7);
    assert_int_equal(name_table_add(&t, "a\0b", 3, 8), NAME_NONE);
    assert_int_equal(name_table_find(&t, "a\0b", 3), 8);
    assert_int_equal(name_table_find(&t, "a\0c", 3), NAME_NONE);
    name_table_close(&t);
    assert_int_equal(mem_live_bytes(), before);
}

static void test_name_table_empty_and_without_memory(void **state)
{
    (void)state;
    struct name_table t = { 0 };
    assert_int_equal(name_table_find(&t, "x", 1), NAME_NONE);
    name_table_close(&t);
    assert_int_equal(name_table_open(&t, 0), RC_OK);
    assert_int_equal(name_table_find(&t, "x", 1), NAME_NONE);
    name_table_close(&t);
    mem_fail_after(1);
    assert_int_equal(name_table_open(&t, 10), RC_NO_MEMORY);
    name_table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype_names_and_numbers_agree),
        cmocka_unit_test(test_dtype_withdrawn_formats_keep_their_names),
        cmocka_unit_test(test_dtype_row_bytes_checks_blocks_and_overflow),
        cmocka_unit_test(test_dtype_blocks_have_their_golden_size),
        cmocka_unit_test(test_name_table_finds_and_refuses_doubles),
        cmocka_unit_test(test_name_table_empty_and_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
