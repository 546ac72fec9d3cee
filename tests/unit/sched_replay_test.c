/* SPDX-License-Identifier: MIT */
/* Tests of the journal: worlds of the simulator, with their faults, late disks and small pools,
 * give the same plans again; a journal that was changed or cut is noticed where it was. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <unistd.h>

#include "sched/replay.h"
#include "tests/sim/sim.h"

static char path[] = "/tmp/quire-journal-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void record(uint64_t seed, uint64_t steps)
{
    struct sim_options options = { .seed = seed, .steps = steps, .journal = path };
    struct sim_outcome outcome;
    assert_true(sim_run(&outcome, &options));
}

static struct replay replay(enum rc want)
{
    struct replay out;
    struct fault fault = { 0 };
    enum rc rc = replay_log(&out, path, 1, &fault);
    if (rc != want)
        fail_msg("%s, not %s: %s", rc_text(rc), rc_text(want), fault.text);
    return out;
}

static void test_worlds_give_the_same_plans_again(void **state)
{
    (void)state;
    uint64_t steps = 0, requests = 0, cancels = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        record(seed, 300);
        struct replay out = replay(RC_OK);
        if (out.differs)
            fail_msg("seed %d, step %d: %s", (int)seed, (int)out.steps, out.text);
        steps += out.steps;
        requests += out.requests;
        cancels += out.cancels;
    }
    assert_true(steps > 40 * 300 && requests > 1000 && cancels > 100);
}

static size_t read_all(char *bytes, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t len = fread(bytes, 1, room, f);
    assert_int_equal(fclose(f), 0);
    return len;
}

static void write_all(const char *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Whatever byte is changed: a difference or an error, and never a crash. Some bytes do not matter
 * to any plan. */
static void test_changed_bytes_are_survived(void **state)
{
    (void)state;
    static char bytes[1 << 20];
    record(3, 60);
    size_t len = read_all(bytes, sizeof bytes);
    assert_true(len > 500 && len < sizeof bytes);
    uint32_t noticed = 0, tried = 0;
    for (size_t at = 0; at < len; at += 1 + len / 300, tried++) {
        struct replay out;
        struct fault fault;
        char before = bytes[at];
        bytes[at] = (char)(before ^ (1 << at % 7));
        write_all(bytes, len);
        noticed += replay_log(&out, path, 0, &fault) != RC_OK || out.differs;
        bytes[at] = before;
    }
    assert_true(noticed > tried / 2);
}

static void test_cut_journal_is_played_to_its_end(void **state)
{
    (void)state;
    static char bytes[1 << 20];
    record(5, 100);
    struct replay whole = replay(RC_OK);
    size_t len = read_all(bytes, sizeof bytes);
    uint64_t last = 0;
    for (size_t keep = len / 2; keep < len; keep += 1 + len / 60) {
        write_all(bytes, keep);
        struct replay out = replay(RC_OK);
        if (out.differs)
            fail_msg("%d of %d bytes: %s", (int)keep, (int)len, out.text);
        assert_true(out.steps >= last && out.steps <= whole.steps);
        last = out.steps;
    }
    write_all(bytes, 10);
    replay(RC_CORRUPT);
}

static void test_missing_journal_is_named(void **state)
{
    (void)state;
    struct replay out;
    struct fault fault;
    assert_int_equal(replay_log(&out, "/nonexistent/log", 0, &fault), RC_NOT_FOUND);
    assert_non_null(strstr(fault.text, "/nonexistent/log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds_give_the_same_plans_again),
        cmocka_unit_test(test_changed_bytes_are_survived),
        cmocka_unit_test(test_cut_journal_is_played_to_its_end),
        cmocka_unit_test(test_missing_journal_is_named),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
