/* SPDX-License-Identifier: MIT */
/* Tests of kvpool/store and kvpool/blockfile with real bytes: what goes out comes back, through
 * io_uring and through plain calls, and what comes back different is not used. */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "kvpool/audit.h"
#include "kvpool/blockfile.h"
#include "kvpool/prefix.h"
#include "kvpool/store.h"

#define TOKENS 96u /* three blocks: two that can be taken over */

struct sequence {
    int32_t tokens[TOKENS];
    uint32_t entries[4];
    struct block_table table;
    struct prefix_view view;
};

static void begin(struct sequence *q, int32_t first)
{
    *q = (struct sequence){ 0 };
    for (uint32_t i = 0; i < TOKENS; i++)
        q->tokens[i] = first + (int32_t)i;
    q->table = (struct block_table){ .blocks = q->entries, .capacity = 4 };
    q->view = (struct prefix_view){
        .tokens = q->tokens, .known = TOKENS, .reuse_max = TOKENS - 1, .publish = true
    };
}

/* Bytes that a block would have: a function of its tokens. */
static void fill(struct kvpool *p, const struct sequence *q)
{
    for (uint32_t i = 0; i < q->table.count; i++)
        memset((char *)kvpool_base(p) + q->entries[i] * kvpool_block_bytes(p),
               q->tokens[i * KV_BLOCK_TOKENS] % 251, kvpool_block_bytes(p));
}

static bool filled(struct kvpool *p, const struct sequence *q, uint32_t i)
{
    const unsigned char *at = kvpool_base(p);
    at += q->entries[i] * kvpool_block_bytes(p);
    for (size_t n = 0; n < kvpool_block_bytes(p); n++)
        if (at[n] != q->tokens[i * KV_BLOCK_TOKENS] % 251)
            return false;
    return true;
}

static void compute(struct kvpool *p, struct sequence *q, uint32_t from, uint64_t step)
{
    prefix_claim(&q->table, p, q->tokens, from, TOKENS, step);
    fill(p, q);
    prefix_commit(&q->table, p, from, TOKENS);
}

static void audit(struct kvpool *p, const struct sequence *q, uint32_t computed)
{
    struct fault f = { 0 };
    kvpool_audit_begin(p);
    bool whole =
        kvpool_audit_table(p, &q->table, q->tokens, computed, &f) && kvpool_audit_end(p, &f);
    if (!whole)
        fail_msg("%s", f.text);
}

/* Acquires q in a pool of four blocks that another sequence's blocks fill, moving those out. */
static void acquire(struct kvpool *p, struct sequence *q)
{
    for (uint32_t n = 0; table_acquire(&q->table, p, &q->view) != RC_OK; n++) {
        assert_true(n < 100);
        assert_true(store_save(p, 4) > 0);
        store_poll(p, true);
    }
}

static void out_and_in(struct kvpool *p)
{
    struct sequence a, b;
    begin(&a, 1000);
    begin(&b, 5000);
    acquire(p, &a);
    compute(p, &a, 0, 1);
    table_park(&a.table, p);
    acquire(p, &b);
    compute(p, &b, 0, 2);
    audit(p, &b, TOKENS);
    table_park(&b.table, p);
    acquire(p, &a);
    while (store_poll(p, true)) {
    }
    audit(p, &a, 0);
    assert_int_equal(prefix_advance(&a.table, p, &a.view, 0), 64);
    assert_true(filled(p, &a, 0) && filled(p, &a, 1));
    compute(p, &a, 64, 3);
    audit(p, &a, TOKENS);
    table_truncate(&a.table, p, 0);
    struct store_stats st = store_stats_get(p);
    assert_true(st.writes >= 2 && st.reads >= 1);
    assert_int_equal(st.failures, 0);
}

static void with_file(bool uring)
{
    size_t before = mem_live_bytes();
    struct kvpool *p;
    struct blockfile *f;
    struct fault fault;
    assert_int_equal(kvpool_open(&p, 4, 20000, NULL), RC_OK);
    struct blockfile_config file = { .path = "/tmp", .slot_count = 8, .plain = !uring };
    assert_int_equal(blockfile_open(&f, &file, p, &fault), RC_OK);
    if (!uring)
        assert_non_null(strstr(blockfile_mode(f), "plain"));
    struct store_config config = { .io = blockfile_io(f), .clock = clock_real(), .slot_count = 8 };
    assert_int_equal(kvpool_open_store(p, &config, NULL), RC_OK);
    out_and_in(p);
    kvpool_close(p);
    blockfile_close(f);
    assert_int_equal(mem_live_bytes(), before);
}

static void test_blocks_go_out_and_come_back_plain(void **state)
{
    (void)state;
    with_file(false);
}

static void test_blocks_go_out_and_come_back_uring(void **state)
{
    (void)state;
    with_file(true); /* falls back to plain calls where io_uring is refused: the same result */
}

static void test_file_is_refused_where_it_cannot_be(void **state)
{
    (void)state;
    struct kvpool *p;
    struct blockfile *f;
    struct fault fault;
    assert_int_equal(kvpool_open(&p, 4, 4096, NULL), RC_OK);
    struct blockfile_config file = { .path = "/nowhere/at/all", .slot_count = 8 };
    assert_int_equal(blockfile_open(&f, &file, p, &fault), RC_IO);
    assert_null(f);
    assert_non_null(strstr(fault.text, "/nowhere/at/all"));
    kvpool_close(p);
}

/* A memory that flips a bit, fails, or forgets, as told. */
struct shelf {
    struct kvpool *pool;
    char bytes[8][20480];
    uint32_t tags[4], tag_count;
    bool spoil, fail_reads;
    enum rc rc;
};

static enum rc shelf_start(void *ctx, bool write, uint32_t slot, uint32_t block, uint32_t tag)
{
    struct shelf *h = ctx;
    char *memory = (char *)kvpool_base(h->pool) + block * kvpool_block_bytes(h->pool);
    assert_true(kvpool_block_bytes(h->pool) <= sizeof h->bytes[0] && h->tag_count < 4);
    memcpy(write ? h->bytes[slot] : memory, write ? memory : h->bytes[slot],
           kvpool_block_bytes(h->pool));
    if (h->spoil && !write)
        memory[777] ^= 1;
    h->rc = h->fail_reads && !write ? RC_IO : RC_OK;
    h->tags[h->tag_count++] = tag;
    return RC_OK;
}

static uint32_t shelf_collect(void *ctx, struct blockio_end *out, uint32_t max, bool wait)
{
    struct shelf *h = ctx;
    (void)wait;
    if (h->tag_count == 0 || max == 0)
        return 0;
    out[0] = (struct blockio_end){ h->tags[--h->tag_count], h->rc };
    return 1;
}

/* Sequence a goes out; says how many of its tokens come back. */
static uint32_t come_back(struct shelf *h, uint64_t day_bytes, uint32_t token_us)
{
    struct sequence a, b;
    struct kvpool *p;
    assert_int_equal(kvpool_open(&p, 3, 20480, NULL), RC_OK);
    h->pool = p;
    struct store_config config = { .io = { .ctx = h,
                                           .depth = 4,
                                           .start = shelf_start,
                                           .collect = shelf_collect },
                                   .clock = clock_real(),
                                   .slot_count = 8 };
    config.write_bytes_day = day_bytes;
    assert_int_equal(kvpool_open_store(p, &config, NULL), RC_OK);
    store_set_token_us(p, token_us);
    begin(&a, 1000);
    begin(&b, 5000);
    acquire(p, &a);
    compute(p, &a, 0, 1);
    table_park(&a.table, p);
    assert_int_equal(table_acquire(&b.table, p, &b.view), RC_FULL); /* all three are owed */
    while (table_acquire(&b.table, p, &b.view) != RC_OK) {
        if (store_save(p, 4) > 0)
            store_poll(p, true);
        else
            assert_true(store_give_up(p));
    }
    compute(p, &b, 0, 2);
    table_truncate(&b.table, p, 0);
    acquire(p, &a);
    while (store_poll(p, true)) {
    }
    audit(p, &a, 0);
    uint32_t back = prefix_advance(&a.table, p, &a.view, 0);
    table_truncate(&a.table, p, 0);
    assert_int_equal(store_stats_get(p).reads, back / KV_BLOCK_TOKENS);
    kvpool_close(p);
    return back;
}

static void test_what_comes_back_different_is_computed_again(void **state)
{
    (void)state;
    static struct shelf h;
    h = (struct shelf){ 0 };
    assert_int_equal(come_back(&h, 0, 0), 64);
    h = (struct shelf){ .spoil = true };
    assert_true(come_back(&h, 0, 0) < 64);
    h = (struct shelf){ .fail_reads = true };
    assert_true(come_back(&h, 0, 0) < 64);
}

static void test_writes_keep_their_budget(void **state)
{
    (void)state;
    static struct shelf h;
    h = (struct shelf){ 0 };
    assert_int_equal(come_back(&h, (uint64_t)1 << 40, 1000000), 64);
    h = (struct shelf){ 0 };
    assert_true(come_back(&h, 1, 1000000) < 64); /* not a byte a day */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_go_out_and_come_back_plain),
        cmocka_unit_test(test_blocks_go_out_and_come_back_uring),
        cmocka_unit_test(test_file_is_refused_where_it_cannot_be),
        cmocka_unit_test(test_what_comes_back_different_is_computed_again),
        cmocka_unit_test(test_writes_keep_their_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
