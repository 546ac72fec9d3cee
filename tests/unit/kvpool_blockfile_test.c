/* SPDX-License-Identifier: MIT */
/* Tests of block files that outlive their process (kvpool/blockindex, blockfile, store): what one
 * pool has left the next one finds; a file that is torn, cut short, flipped, foreign or full, or
 * that is taken away in the middle, costs recomputation and never a wrong byte. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "kvpool/audit.h"
#include "kvpool/blockfile.h"
#include "kvpool/prefix.h"
#include "kvpool/store.h"

#define TOKENS 160u /* five blocks: four that can be taken over */
#define WHOLE 128u
#define SLOTS 12u
#define BLOCK_BYTES 8192u

static char path[64];

struct setting {
    struct kvpool *pool;
    struct blockfile *file;
    struct fault fault;
    enum rc rc;
};

static struct blockfile_config config_of(uint32_t slots, uint64_t key)
{
    return (struct blockfile_config){ .path = path, .slot_count = slots, .key = { key, 2 } };
}

static bool setting_open_with(struct setting *t, const struct blockfile_config *c,
                              uint32_t chaos_io, uint32_t block_bytes)
{
    *t = (struct setting){ 0 };
    assert_int_equal(kvpool_open(&t->pool, 8, block_bytes, NULL), RC_OK);
    t->rc = blockfile_open(&t->file, c, t->pool, &t->fault);
    if (t->rc != RC_OK)
        return false;
    struct store_config store = { .io = blockfile_io(t->file),
                                  .clock = clock_real(),
                                  .slot_count = blockfile_slot_count(t->file),
                                  .chaos_io = chaos_io,
                                  .keep = true };
    assert_int_equal(kvpool_open_store(t->pool, &store, NULL), RC_OK);
    return true;
}

static bool setting_open(struct setting *t)
{
    struct blockfile_config c = config_of(SLOTS, 1);
    return setting_open_with(t, &c, 0, BLOCK_BYTES);
}

static void setting_close(struct setting *t)
{
    kvpool_close(t->pool);
    blockfile_close(t->file);
}

struct sequence {
    int32_t tokens[TOKENS];
    uint32_t entries[8];
    struct block_table table;
    struct prefix_view view;
};

static void begin(struct sequence *q, int32_t first, uint64_t salt)
{
    *q = (struct sequence){ 0 };
    for (uint32_t i = 0; i < TOKENS; i++)
        q->tokens[i] = first + (int32_t)i;
    q->table = (struct block_table){ .blocks = q->entries, .capacity = 8 };
    q->view = (struct prefix_view){
        .salt = salt, .tokens = q->tokens, .known = TOKENS, .reuse_max = TOKENS - 1, .publish = true
    };
}

/* Bytes of a block are a function of its tokens. */
static unsigned char byte_of(const struct sequence *q, uint32_t i, size_t at)
{
    return (unsigned char)(q->tokens[i * KV_BLOCK_TOKENS] * 7 + (int32_t)(at * 13 + at / 251));
}

static unsigned char *block_at(struct kvpool *p, const struct sequence *q, uint32_t i)
{
    return (unsigned char *)kvpool_base(p) + q->entries[i] * kvpool_block_bytes(p);
}

/* One request: takes over what there is, checks every byte of it, computes the rest. How many
 * tokens it took over. */
static uint32_t serve(struct kvpool *p, int32_t first, uint64_t salt)
{
    struct sequence q;
    struct fault f = { 0 };
    begin(&q, first, salt);
    for (uint32_t n = 0; table_acquire(&q.table, p, &q.view) != RC_OK; n++) {
        assert_true(n < 100);
        store_poll(p, true);
    }
    while (store_poll(p, true)) {
    }
    uint32_t got = prefix_advance(&q.table, p, &q.view, 0);
    for (uint32_t i = 0; i < got / KV_BLOCK_TOKENS; i++)
        for (size_t at = 0; at < kvpool_block_bytes(p); at++)
            if (block_at(p, &q, i)[at] != byte_of(&q, i, at))
                fail_msg("block %u: byte %zu is wrong", i, at);
    static uint64_t step;
    prefix_claim(&q.table, p, q.tokens, got, TOKENS, ++step);
    for (uint32_t i = got / KV_BLOCK_TOKENS; i < q.table.count; i++)
        for (size_t at = 0; at < kvpool_block_bytes(p); at++)
            block_at(p, &q, i)[at] = byte_of(&q, i, at);
    prefix_commit(&q.table, p, got, TOKENS);
    kvpool_audit_begin(p);
    if (!kvpool_audit_table(p, &q.table, q.tokens, TOKENS, &f) || !kvpool_audit_end(p, &f))
        fail_msg("%s", f.text);
    table_truncate(&q.table, p, 0);
    return got;
}

/* A process that serves one request; how many tokens it took over. */
static uint32_t life(int32_t first)
{
    struct setting t;
    assert_true(setting_open(&t));
    uint32_t got = serve(t.pool, first, 0);
    setting_close(&t);
    return got;
}

static int fresh_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/quire-blocks-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* Changes len bytes of the file at an offset. */
static void spoil(off_t at, size_t len)
{
    unsigned char bytes[512];
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && len <= sizeof bytes);
    assert_int_equal(pread(fd, bytes, len, at), (ssize_t)len);
    for (size_t i = 0; i < len; i++)
        bytes[i] ^= 0x10;
    assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
    close(fd);
}

static off_t data_begin(void)
{
    return (off_t)(2 * BLOCKINDEX_PAGE); /* 12 records fit into the second page */
}

static void test_the_next_process_finds_what_this_one_had(void **state)
{
    (void)state;
    size_t before = mem_live_bytes();
    assert_int_equal(life(1000), 0);
    assert_int_equal(life(1000), WHOLE);
    assert_int_equal(life(5000), 0);
    struct setting t;
    assert_true(setting_open(&t));
    assert_int_equal(serve(t.pool, 1000, 0), WHOLE);
    assert_int_equal(serve(t.pool, 5000, 0), WHOLE);
    assert_int_equal(serve(t.pool, 1000, 9), 0); /* another tenant's namespace */
    assert_int_equal(store_stats_get(t.pool).recalled, 10);
    assert_null(blockfile_index(t.file)->anew);
    setting_close(&t);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(mem_live_bytes(), before);
}

/* As after kill -9: nothing is closed, nothing is flushed; another process opens a copy of what is
 * in the file at that moment, at every moment. */
static void test_killed_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t polls = 0; polls < 8; polls++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct setting t;
            if (!setting_open(&t))
                _exit(9);
            serve(t.pool, 3000 + (int32_t)polls, 0);
            for (uint32_t i = 0; i < polls; i++) {
                store_tidy(t.pool, 1 + i % 3);
                store_poll(t.pool, i % 2 == 0);
            }
            raise(SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        struct setting t;
        assert_true(setting_open(&t));
        assert_null(blockfile_index(t.file)->anew);
        assert_true(serve(t.pool, 3000 + (int32_t)polls, 0) <= WHOLE); /* checks every byte */
        assert_int_equal(serve(t.pool, 3000 + (int32_t)polls, 0), WHOLE);
        setting_close(&t);
    }
}

/* Each bit of head, records and slots matters. */
static void test_flipped_bits_are_seen(void **state)
{
    (void)state;
    assert_int_equal(life(1000), 0);
    spoil(8, 1); /* the key */
    struct setting t;
    assert_true(setting_open(&t));
    assert_non_null(strstr(blockfile_index(t.file)->anew, "head is damaged"));
    assert_int_equal(serve(t.pool, 1000, 0), 0);
    setting_close(&t);
    spoil(BLOCKINDEX_PAGE + 256 + 40, 1); /* a token in the second record */
    assert_true(setting_open(&t));
    assert_null(blockfile_index(t.file)->anew);
    assert_int_equal(blockfile_index(t.file)->damaged, 1);
    assert_int_equal(store_stats_get(t.pool).recalled, 4);
    assert_true(serve(t.pool, 1000, 0) < WHOLE);
    setting_close(&t);
    assert_int_equal(life(1000), WHOLE); /* and it is whole again */
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        spoil(data_begin() + (off_t)slot * BLOCK_BYTES + 4000, 1);
    uint32_t before = life(1000), lives = 0;
    assert_int_equal(before, 0);
    for (uint32_t now; (now = life(1000)) < WHOLE; before = now) /* what is read is mended */
        assert_true(now > before && ++lives < 4);
}

/* A record without its slot, a slot with another one's record, half a slot. */
static void test_torn_files_are_computed_again(void **state)
{
    (void)state;
    assert_int_equal(life(1000), 0);
    static unsigned char half[BLOCK_BYTES / 2];
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, half, sizeof half, data_begin() + BLOCK_BYTES / 2),
                     (ssize_t)sizeof half);
    unsigned char record[256];
    assert_int_equal(pread(fd, record, 256, BLOCKINDEX_PAGE + 512), 256);
    assert_int_equal(pwrite(fd, record, 256, BLOCKINDEX_PAGE + 768), 256);
    close(fd);
    struct setting t;
    assert_true(setting_open(&t));
    assert_int_equal(blockfile_index(t.file)->damaged, 1); /* a record knows its place */
    assert_true(serve(t.pool, 1000, 0) < WHOLE);
    setting_close(&t);
    assert_int_equal(life(1000), WHOLE);
}

static void test_files_cut_short_are_begun_anew(void **state)
{
    (void)state;
    off_t whole = data_begin() + (off_t)SLOTS * BLOCK_BYTES;
    const off_t cuts[] = { 30, 71, 4096, 5000, data_begin() + 100, whole - 1 };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct setting t;
        assert_int_equal(life(1000) % WHOLE, 0);
        assert_int_equal(life(1000), WHOLE);
        assert_int_equal(truncate(path, cuts[i]), 0);
        assert_true(setting_open(&t));
        assert_non_null(blockfile_index(t.file)->anew);
        assert_int_equal(serve(t.pool, 1000, 0), 0);
        setting_close(&t);
    }
}

static void test_foreign_files_are_not_touched(void **state)
{
    (void)state;
    static const char text[] = "Dear diary, today I have\n";
    char after[sizeof text] = { 0 };
    struct setting t;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, text, sizeof text), (ssize_t)sizeof text);
    assert_false(setting_open(&t));
    assert_int_equal(t.rc, RC_CORRUPT);
    assert_non_null(strstr(t.fault.text, "not a block file"));
    setting_close(&t);
    assert_int_equal(pread(fd, after, sizeof after, 0), (ssize_t)sizeof after);
    assert_memory_equal(text, after, sizeof text);
    close(fd);
}

static void test_another_key_size_or_block_begins_anew(void **state)
{
    (void)state;
    assert_int_equal(life(1000), 0);
    struct setting t;
    struct blockfile_config other = config_of(SLOTS, 7);
    assert_true(setting_open_with(&t, &other, 0, BLOCK_BYTES));
    assert_non_null(strstr(blockfile_index(t.file)->anew, "another model"));
    assert_int_equal(serve(t.pool, 1000, 0), 0);
    setting_close(&t);
    struct blockfile_config larger = config_of(2 * SLOTS, 7);
    assert_true(setting_open_with(&t, &larger, 0, BLOCK_BYTES)); /* no wish: as it is */
    assert_int_equal(blockfile_slot_count(t.file), SLOTS);
    assert_int_equal(serve(t.pool, 1000, 0), WHOLE);
    setting_close(&t);
    larger.exact = true;
    assert_true(setting_open_with(&t, &larger, 0, BLOCK_BYTES));
    assert_int_equal(blockfile_slot_count(t.file), 2 * SLOTS);
    assert_non_null(strstr(blockfile_index(t.file)->anew, "size"));
    setting_close(&t);
    assert_true(setting_open_with(&t, &larger, 0, 2 * BLOCK_BYTES));
    assert_non_null(strstr(blockfile_index(t.file)->anew, "another model"));
    setting_close(&t);
}

static void test_two_processes_do_not_share_a_file(void **state)
{
    (void)state;
    struct setting one, two;
    assert_true(setting_open(&one));
    assert_false(setting_open(&two));
    assert_int_equal(two.rc, RC_AGAIN);
    assert_non_null(strstr(two.fault.text, "another process"));
    setting_close(&two);
    setting_close(&one);
}

/* Deleted: it goes on in the file that nobody sees any more. Truncated: what is gone is computed
 * again. */
static void test_a_file_that_is_taken_away(void **state)
{
    (void)state;
    for (uint32_t cut = 0; cut < 2; cut++) {
        struct setting t;
        assert_true(setting_open(&t));
        assert_int_equal(serve(t.pool, 1000, 0) % KV_BLOCK_TOKENS, 0);
        store_flush(t.pool);
        assert_int_equal(cut ? truncate(path, 4096) : unlink(path), 0);
        for (int32_t i = 0; i < 4; i++)
            serve(t.pool, 5000 + 1000 * i, 0); /* so that memory has no more of the first */
        uint32_t got = serve(t.pool, 1000, 0); /* checks every byte */
        assert_true(cut || got > 0);
        setting_close(&t);
    }
}

/* A limit of the file's size stands for a full disk: first a short write, then an error. */
static void test_a_disk_that_is_full(void **state)
{
    (void)state;
    for (uint32_t plain = 0; plain < 2; plain++) {
        struct setting t;
        struct blockfile_config c = config_of(SLOTS, 1);
        c.plain = plain;
        assert_true(setting_open_with(&t, &c, 0, BLOCK_BYTES));
        assert_int_equal(truncate(path, data_begin()), 0); /* so that writing grows it */
        struct rlimit before, small;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        small = before;
        small.rlim_cur = (rlim_t)data_begin() + 2 * BLOCK_BYTES + 4096;
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (int32_t i = 0; i < 5; i++)
            serve(t.pool, 1000 + 1000 * i, 0);
        store_flush(t.pool);
        struct store_stats s = store_stats_get(t.pool);
        assert_true(s.failures > 0);
        assert_true(s.writes > 0);
        for (int32_t i = 0; i < 5; i++)
            serve(t.pool, 1000 + 1000 * i, 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        setting_close(&t);
        unlink(path);
    }
}

/* The same budget with each of these lives: how many blocks this one has written. */
static uint64_t spend(uint64_t *wall_us, uint64_t key, int32_t first)
{
    struct setting t = { 0 };
    static uint64_t now_us; /* of the process */
    struct blockfile_config c = config_of(SLOTS, key);
    c.wall = clock_virtual(wall_us);
    now_us = 0;
    assert_int_equal(kvpool_open(&t.pool, 8, BLOCK_BYTES, NULL), RC_OK);
    assert_int_equal(blockfile_open(&t.file, &c, t.pool, &t.fault), RC_OK);
    struct store_config store = { .io = blockfile_io(t.file),
                                  .clock = clock_virtual(&now_us),
                                  .slot_count = SLOTS,
                                  .write_bytes_day = 7 * BLOCK_BYTES,
                                  .keep = true };
    assert_int_equal(kvpool_open_store(t.pool, &store, NULL), RC_OK);
    serve(t.pool, first, 0); /* five blocks */
    store_flush(t.pool);
    uint64_t writes = store_stats_get(t.pool).writes;
    setting_close(&t);
    return writes;
}

/* What a day may write is counted in the file: a restart does not give it again, another model in
 * the same file neither; the next day does. */
static void test_the_budget_of_a_day_outlives_the_process(void **state)
{
    (void)state;
    const uint64_t hour_us = 3600000000u;
    uint64_t wall_us = 1800000000000000u;
    assert_int_equal(spend(&wall_us, 1, 1000), 5);
    wall_us += hour_us;
    assert_int_equal(spend(&wall_us, 1, 5000), 2);
    assert_int_equal(spend(&wall_us, 1, 9000), 0);
    wall_us += 22 * hour_us;
    assert_int_equal(spend(&wall_us, 7, 9000), 0); /* begun anew */
    wall_us += hour_us - 1;
    assert_int_equal(spend(&wall_us, 7, 9000), 0);
    wall_us += 1;
    assert_int_equal(spend(&wall_us, 7, 9000), 5);
    wall_us -= 48 * hour_us; /* a board without a clock of its own: no new day */
    assert_int_equal(spend(&wall_us, 7, 13000), 2);
    spoil(2048, 8); /* what is not there is not believed */
    assert_int_equal(spend(&wall_us, 7, 17000), 5);
}

/* What went wrong is said once, by the name that the system has for it. */
static char said[512];
static uint32_t said_count;

static void listen(const char *text)
{
    snprintf(said, sizeof said, "%s", text);
    said_count++;
}

static void test_a_failing_disk_is_named_once(void **state)
{
    (void)state;
    for (uint32_t plain = 0; plain < 2; plain++) {
        struct setting t;
        struct blockfile_config c = config_of(SLOTS, 1);
        struct rlimit before, small;
        c.plain = plain;
        c.on_failure = listen;
        said_count = 0;
        assert_true(setting_open_with(&t, &c, 0, BLOCK_BYTES));
        assert_int_equal(truncate(path, data_begin()), 0);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        small = before;
        small.rlim_cur = (rlim_t)data_begin() + BLOCK_BYTES;
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (int32_t i = 0; i < 5; i++)
            serve(t.pool, 1000 + 1000 * i, 0);
        store_flush(t.pool);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_true(store_stats_get(t.pool).failures > 1);
        assert_int_equal(said_count, 1);
        assert_non_null(strstr(said, path));
        assert_non_null(strstr(said, "writing a block: File too large"));
        setting_close(&t);
        unlink(path);
    }
}

/* Every nth transfer fails, every nth allocation at start fails. */
static void test_ladders(void **state)
{
    (void)state;
    size_t before = mem_live_bytes();
    struct setting t;
    struct blockfile_config c = config_of(SLOTS, 1);
    for (uint32_t n = 1; n < 12; n++) {
        c.plain = n % 2 == 0;
        assert_true(setting_open_with(&t, &c, n, BLOCK_BYTES));
        for (int32_t i = 0; i < 9; i++)
            serve(t.pool, 1000 + 1000 * (i % 4), 0);
        store_flush(t.pool);
        assert_true(store_stats_get(t.pool).failures > 0);
        setting_close(&t);
    }
    bool opened = false;
    for (uint64_t n = 1; !opened; n++) {
        assert_true(n < 30);
        assert_int_equal(kvpool_open(&t.pool, 8, BLOCK_BYTES, NULL), RC_OK);
        mem_fail_after(n);
        enum rc rc = blockfile_open(&t.file, &c, t.pool, &t.fault);
        if (rc == RC_OK) {
            struct store_config store = { .io = blockfile_io(t.file),
                                          .clock = clock_real(),
                                          .slot_count = SLOTS };
            rc = kvpool_open_store(t.pool, &store, &t.fault);
        }
        mem_fail_after(0);
        opened = rc == RC_OK;
        assert_true(opened || rc == RC_NO_MEMORY);
        setting_close(&t);
        t.file = NULL;
    }
    assert_int_equal(mem_live_bytes(), before);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fresh_file, remove_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_the_next_process_finds_what_this_one_had),
        CASE(test_killed_at_any_moment),
        CASE(test_flipped_bits_are_seen),
        CASE(test_torn_files_are_computed_again),
        CASE(test_files_cut_short_are_begun_anew),
        CASE(test_foreign_files_are_not_touched),
        CASE(test_another_key_size_or_block_begins_anew),
        CASE(test_two_processes_do_not_share_a_file),
        CASE(test_a_file_that_is_taken_away),
        CASE(test_a_disk_that_is_full),
        CASE(test_the_budget_of_a_day_outlives_the_process),
        CASE(test_a_failing_disk_is_named_once),
        CASE(test_ladders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
