/* SPDX-License-Identifier: MIT */
/* Tests of frontend/budget and frontend/input: recorded trees of proc and sys, and lists of ids. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "frontend/budget.h"
#include "frontend/input.h"
#include "frontend/pressure.h"

static char root[] = "/tmp/quire-budget-XXXXXX";
static char made[32][200];
static int made_count;

static void note(const char *path)
{
    assert_true(made_count < 32);
    snprintf(made[made_count++], sizeof made[0], "%s", path);
}

/* A file below the root, with the folders above it. */
static void put(const char *name, const char *text)
{
    char path[200];
    int n = snprintf(path, sizeof path, "%s/", root);
    for (const char *p = name; *p != '\0'; p++) {
        path[n] = '\0';
        if (*p == '/' && mkdir(path, 0700) == 0)
            note(path);
        path[n++] = *p;
    }
    path[n] = '\0';
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    note(path);
}

static void clear(void)
{
    while (made_count > 0)
        remove(made[--made_count]);
}

static int open_root(void **state)
{
    (void)state;
    return mkdtemp(root) == NULL;
}

static int close_root(void **state)
{
    (void)state;
    clear();
    return rmdir(root);
}

#define MEMINFO "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n"

static void check(uint64_t mib, const char *reason)
{
    struct budget b;
    budget_read(&b, root);
    assert_int_equal(b.available_bytes >> 20, mib);
    assert_string_equal(b.reason, reason);
    clear();
}

static void test_budget_trees(void **state)
{
    (void)state;
    struct budget b;
    budget_read(&b, root);
    assert_true(b.available_bytes == UINT64_MAX);
    assert_string_equal(b.reason, "limit unknown");
    put("proc/meminfo", MEMINFO);
    check(8192, "of the machine's memory");
    put("proc/meminfo", MEMINFO);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    check(8192, "of the machine's memory");
    put("proc/meminfo", MEMINFO);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "268435456\n");
    put("sys/fs/cgroup/a/b/memory.stat", "anon 12582912\nfile 99999999999\n");
    check(244, "under the cgroup limit of 256 MiB");
    put("proc/meminfo", MEMINFO);
    put("proc/self/cgroup", "0::/a/b\n"); /* the group above binds */
    put("sys/fs/cgroup/a/memory.max", "1073741824\n");
    put("sys/fs/cgroup/a/b/memory.max", "2147483648\n");
    check(1024, "under the cgroup limit of 1024 MiB");
    put("proc/self/cgroup", "0::/a/b\n"); /* or does not */
    put("sys/fs/cgroup/a/memory.max", "2147483648\n");
    put("sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    check(1024, "under the cgroup limit of 1024 MiB");
    put("proc/self/cgroup", "5:cpu:/x\n7:memory,hugetlb:/docker/abc\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"); /* our group is the mount */
    put("sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_rss 1048576\n");
    check(511, "under the cgroup limit of 512 MiB");
    put("proc/self/cgroup", "0::/\n"); /* more used than allowed */
    put("sys/fs/cgroup/memory.max", "1048576\n");
    put("sys/fs/cgroup/memory.stat", "anon 2097152\n");
    check(0, "under the cgroup limit of 1 MiB");
    put("proc/meminfo", "MemAvailable: lots kB\n");
    put("proc/self/cgroup", "::::\nx\n0:memory\n\n");
    check(UINT64_MAX >> 20, "limit unknown");
}

#define STALLS(total) "some avg10=1.00 avg60=0.00 avg300=0.00 total=" total "\nfull total=9\n"

static struct pressure_watch watch(const char *file, uint64_t keep_mib)
{
    struct pressure_watch w;
    struct pressure_config c = { .root = root, .file = file, .keep_bytes = keep_mib << 20 };
    assert_int_equal(pressure_watch_open(&w, &c, 1000000, NULL), RC_OK);
    return w;
}

/* A tenth of the time spent waiting is pressure; before any look, time counts from the opening. */
static void test_pressure_by_stalls(void **state)
{
    (void)state;
    put("proc/pressure/memory", STALLS("500000"));
    struct pressure_watch w = watch(NULL, 0);
    assert_false(pressure_watch_look(&w, 1500000));
    put("proc/pressure/memory", STALLS("549999"));
    assert_false(pressure_watch_look(&w, 2000000));
    put("proc/pressure/memory", STALLS("599999"));
    assert_true(pressure_watch_look(&w, 2500000));
    assert_false(pressure_watch_look(&w, 3000000));
    put("proc/pressure/memory", "some total=x\n"); /* unreadable: nothing new */
    assert_false(pressure_watch_look(&w, 3500000));
    put("proc/pressure/memory", STALLS("1")); /* counts from the start again */
    assert_false(pressure_watch_look(&w, 4000000));
    clear();
    assert_false(pressure_watch_look(&w, 4500000));
    struct pressure_watch none = watch(NULL, 0);
    assert_int_equal(none.path[0], 0);
    assert_false(pressure_watch_look(&none, 4500000));
}

static void test_pressure_of_the_own_group_comes_first(void **state)
{
    (void)state;
    put("proc/pressure/memory", STALLS("0"));
    put("proc/self/cgroup", "4:memory:/x\n0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.pressure", STALLS("10"));
    struct pressure_watch w = watch(NULL, 0);
    put("sys/fs/cgroup/a/b/memory.pressure", STALLS("400010"));
    assert_true(pressure_watch_look(&w, 1500000));
    put("proc/pressure/memory", STALLS("900000"));
    assert_false(pressure_watch_look(&w, 2000000));
    clear();
}

static void test_pressure_by_what_is_available(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable: 102400 kB\n");
    struct pressure_watch w = watch(NULL, 100);
    assert_false(pressure_watch_look(&w, 1500000));
    put("proc/meminfo", "MemAvailable: 102396 kB\n");
    assert_true(pressure_watch_look(&w, 2000000));
    put("proc/self/status", "RssAnon: 51200 kB\n"); /* of --mem 60M ten are left */
    w = watch(NULL, 11);
    assert_false(pressure_watch_look(&w, 2500000));
    w.config.mem_bytes = 60u << 20;
    assert_true(pressure_watch_look(&w, 3000000));
    clear();
}

static void test_pressure_file_by_name(void **state)
{
    (void)state;
    struct pressure_watch w;
    struct fault f;
    char path[200];
    snprintf(path, sizeof path, "%s/stalls", root);
    put("stalls", "full total=1\n");
    struct pressure_config c = { .root = root, .file = path };
    assert_int_equal(pressure_watch_open(&w, &c, 0, &f), RC_IO);
    assert_non_null(strstr(f.text, "--pressure"));
    put("stalls", STALLS("1"));
    assert_int_equal(pressure_watch_open(&w, &c, 0, &f), RC_OK);
    put("stalls", STALLS("100001"));
    assert_true(pressure_watch_look(&w, 1000000));
    clear();
    assert_int_equal(pressure_watch_open(&w, &c, 0, &f), RC_IO);
}

static void check_ids(const char *list, int count, const char *complaint)
{
    struct fault fault;
    struct text text = { 0 };
    int32_t *ids;
    uint32_t n;
    assert_int_equal(text_append(&text, list, strlen(list)), RC_OK);
    enum rc rc = input_parse_ids(&ids, &n, &text, 50000, "--tokens", &fault);
    assert_int_equal(rc, complaint == NULL ? RC_OK : RC_USAGE);
    if (complaint != NULL)
        assert_string_equal(fault.text, complaint);
    else
        assert_int_equal(n, count);
    for (int i = 0; complaint == NULL && i < count; i++)
        assert_int_equal(ids[i], i + 1);
    if (complaint == NULL)
        mem_free(ids);
    text_close(&text);
}

static void test_input_ids(void **state)
{
    (void)state;
    check_ids("1 2\n3", 3, NULL);
    check_ids("[1, 2, 3]\n", 3, NULL);
    check_ids("1,2,\t3,", 3, NULL);
    check_ids("", 0, "--tokens has no token ids");
    check_ids("[]", 0, "--tokens has no token ids");
    check_ids("1 2 x3", 0, "--tokens: 'x3' at byte 4 is no token id below 50000");
    check_ids("1 50000", 0, "--tokens: '50000' at byte 2 is no token id below 50000");
    check_ids("-1", 0, "--tokens: '-1' at byte 0 is no token id below 50000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pressure_by_stalls),
        cmocka_unit_test(test_pressure_of_the_own_group_comes_first),
        cmocka_unit_test(test_pressure_by_what_is_available),
        cmocka_unit_test(test_pressure_file_by_name),
        cmocka_unit_test(test_budget_trees),
        cmocka_unit_test(test_input_ids),
    };
    return cmocka_run_group_tests(tests, open_root, close_root);
}
