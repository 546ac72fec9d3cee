/* SPDX-License-Identifier: MIT */
/* Tests of kvpool/pool, kvpool/table and kvpool/audit. */
#include "tests/unit/test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "kvpool/audit.h"

static void test_pool_hands_out_each_block_once(void **state)
{
    (void)state;
    struct kvpool *p;
    assert_int_equal(kvpool_open(&p, 5, 100, NULL), RC_OK);
    bool seen[5] = { false };
    struct block_id id[5], more;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kvpool_take_block(&id[i], p), RC_OK);
        assert_true(id[i].index < 5 && !seen[id[i].index]);
        seen[id[i].index] = true;
    }
    assert_int_equal(kvpool_take_block(&more, p), RC_FULL);
    kvpool_ref_block(p, id[2]);
    kvpool_drop_block(p, id[2]);
    assert_int_equal(kvpool_free_count(p), 0);
    kvpool_drop_block(p, id[2]);
    assert_int_equal(kvpool_free_count(p), 1);
    assert_int_equal(kvpool_take_block(&more, p), RC_OK);
    assert_int_equal(more.index, id[2].index);
    kvpool_close(p);
}

static void test_pool_memory_is_whole_pages_and_upward(void **state)
{
    (void)state;
    struct kvpool *p;
    assert_int_equal(kvpool_open(&p, 300, 5000, NULL), RC_OK);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = kvpool_block_bytes(p);
    assert_true(bytes >= 5000 && bytes % page == 0);
    assert_int_equal((uintptr_t)kvpool_base(p) % ((size_t)2 << 20), 0);
    for (uint32_t i = 0; i < 300; i++) {
        struct block_id id;
        assert_int_equal(kvpool_take_block(&id, p), RC_OK);
        assert_int_equal(id.index, i);
        memset((char *)kvpool_base(p) + i * bytes, 7, bytes);
    }
    kvpool_close(p);
}

/* Pages of blocks [first, first + count) that are in memory. */
static uint32_t resident(const struct kvpool *p, uint32_t first, uint32_t count)
{
    unsigned char pages[1024];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = count * kvpool_block_bytes(p);
    uint32_t found = 0;
    assert_true(bytes / page <= sizeof pages);
    char *at = (char *)kvpool_base(p) + first * kvpool_block_bytes(p);
    assert_int_equal(mincore(at, bytes, pages), 0);
    for (size_t i = 0; i < bytes / page; i++)
        found += pages[i] & 1;
    return found;
}

static void test_pool_gives_free_memory_back(void **state)
{
    (void)state;
    struct kvpool *p;
    struct block_id id[6];
    assert_int_equal(kvpool_open(&p, 6, 65536, NULL), RC_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(kvpool_take_block(&id[i], p), RC_OK);
        memset((char *)kvpool_base(p) + id[i].index * kvpool_block_bytes(p), 7, 65536);
    }
    uint32_t all = resident(p, 0, 6);
    for (int i = 2; i < 6; i++)
        kvpool_drop_block(p, id[i]);
    assert_int_equal(resident(p, 0, 6), all);
    assert_int_equal(kvpool_relieve(p), 0); /* nothing was cached */
    assert_int_equal(resident(p, 2, 4), 0);
    assert_int_equal(resident(p, 0, 2), all / 3);
    assert_int_equal(((char *)kvpool_base(p))[65536], 7); /* what is used stays what it is */
    assert_int_equal(kvpool_take_block(&id[2], p), RC_OK);
    memset((char *)kvpool_base(p) + id[2].index * kvpool_block_bytes(p), 7, 65536);
    kvpool_drop_block(p, id[2]);
    assert_int_equal(kvpool_relieve(p), 0); /* and again after it was used again */
    assert_int_equal(resident(p, 2, 4), 0);
    kvpool_close(p);
}

static void test_pool_refuses_what_no_machine_has(void **state)
{
    (void)state;
    struct kvpool *p;
    struct fault f;
    assert_int_equal(kvpool_open(&p, UINT32_MAX, 1, &f), RC_NO_FIT);
    assert_int_equal(kvpool_open(&p, 1000, SIZE_MAX / 2, &f), RC_NO_FIT);
    assert_int_equal(kvpool_open(&p, 1000, SIZE_MAX, &f), RC_NO_FIT);
    assert_int_equal(kvpool_open(&p, 1u << 24, (size_t)1 << 30, &f), RC_NO_FIT);
    assert_non_null(strstr(f.text, "KV pool"));
    assert_null(p);
    assert_int_equal(kvpool_open(&p, 0, 10, &f), RC_NO_FIT);
}

static void test_pool_open_survives_each_failed_allocation(void **state)
{
    (void)state;
    size_t before = mem_live_bytes();
    uint64_t n = 0;
    enum rc rc;
    do {
        struct kvpool *p;
        mem_fail_after(++n);
        rc = kvpool_open(&p, 10, 0, NULL);
        mem_fail_after(0);
        assert_true(rc == RC_OK || (rc == RC_NO_MEMORY && p == NULL));
        kvpool_close(p);
        assert_int_equal(mem_live_bytes(), before);
    } while (rc != RC_OK);
    assert_true(n > 3);
}

static void test_table_extends_all_or_nothing(void **state)
{
    (void)state;
    struct kvpool *p;
    uint32_t entries[8];
    struct block_table t = { .blocks = entries, .capacity = 8 };
    assert_int_equal(kv_blocks_for(0), 0);
    assert_int_equal(kv_blocks_for(KV_BLOCK_TOKENS), 1);
    assert_int_equal(kv_blocks_for(KV_BLOCK_TOKENS + 1), 2);
    assert_int_equal(kvpool_open(&p, 4, 0, NULL), RC_OK);
    assert_int_equal(table_extend(&t, p, 33), RC_OK);
    assert_int_equal(t.count, 2);
    assert_int_equal(table_extend(&t, p, 64), RC_OK);
    assert_int_equal(t.count, 2);
    assert_int_equal(table_extend(&t, p, 129), RC_FULL);
    assert_int_equal(t.count, 2);
    assert_int_equal(kvpool_free_count(p), 2);
    assert_int_equal(table_extend(&t, p, 128), RC_OK);
    table_truncate(&t, p, 1);
    assert_int_equal(kvpool_free_count(p), 3);
    table_truncate(&t, p, 0);
    kvpool_close(p);
}

/* An audit that never complains would pass every simulation: each rule is broken once by hand. */
static void test_audit_sees_each_broken_rule(void **state)
{
    (void)state;
    struct kvpool *p;
    struct fault f;
    uint32_t entries[4];
    struct block_table t = { .blocks = entries, .capacity = 4 };
    int32_t tokens[96] = { 0 };
    assert_int_equal(kvpool_open(&p, 6, 0, NULL), RC_OK);
    assert_int_equal(table_extend(&t, p, 96), RC_OK);
    kvpool_audit_begin(p);
    assert_true(kvpool_audit_table(p, &t, tokens, 0, &f) && kvpool_audit_end(p, &f));

    kvpool_audit_begin(p);
    assert_false(kvpool_audit_end(p, &f)); /* a table was forgotten: a leak */
    assert_non_null(strstr(f.text, "I2"));

    kvpool_audit_begin(p);
    assert_false(kvpool_audit_table(p, &t, tokens, 5, &f)); /* computed, says its owner */
    assert_non_null(strstr(f.text, "I4"));

    uint32_t kept = entries[1];
    entries[1] = entries[0];
    kvpool_audit_begin(p);
    assert_false(kvpool_audit_table(p, &t, tokens, 0, &f)); /* one block twice */
    entries[1] = 5;
    kvpool_audit_begin(p);
    assert_false(kvpool_audit_table(p, &t, tokens, 0, &f)); /* a block that is free */
    assert_non_null(strstr(f.text, "I6"));
    entries[1] = kept;

    kvpool_ref_block(p, (struct block_id){ kept });
    kvpool_audit_begin(p);
    assert_false(kvpool_audit_table(p, &t, tokens, 0, &f)); /* open, and somebody else's too */
    assert_non_null(strstr(f.text, "I3"));
    kvpool_drop_block(p, (struct block_id){ kept });
    table_truncate(&t, p, 0);
    kvpool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_hands_out_each_block_once),
        cmocka_unit_test(test_pool_memory_is_whole_pages_and_upward),
        cmocka_unit_test(test_pool_gives_free_memory_back),
        cmocka_unit_test(test_pool_refuses_what_no_machine_has),
        cmocka_unit_test(test_pool_open_survives_each_failed_allocation),
        cmocka_unit_test(test_table_extends_all_or_nothing),
        cmocka_unit_test(test_audit_sees_each_broken_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
