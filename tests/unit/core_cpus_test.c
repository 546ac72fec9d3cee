/* SPDX-License-Identifier: MIT */
/* Tests of core/cpus on recorded trees. tests/unit/data/cpus/NAME.txt holds one tree: a line "@
 * path" and below it that file's contents; it is laid out in a temporary directory, which is the
 * reader's root. */
#include "tests/unit/test.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cpus.h"
#include "core/mem.h"

#define DATA "tests/unit/data/cpus/"

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

static void lay_out(const char *name, const char *root)
{
    char path[600], line[512];
    snprintf(path, sizeof path, DATA "%s.txt", name);
    FILE *in = fopen(path, "r"), *out = NULL;
    if (in == NULL)
        fail_msg("%s is missing (run from the top of the tree)", path);
    while (fgets(line, sizeof line, in) != NULL) {
        if (line[0] == '#')
            continue;
        if (line[0] != '@') {
            assert_non_null(out);
            fputs(line, out);
            continue;
        }
        if (out != NULL)
            fclose(out);
        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof path, "%s/%s", root, line + 2);
        make_parents(path);
        out = fopen(path, "w");
        assert_non_null(out);
    }
    if (out != NULL)
        fclose(out);
    fclose(in);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static struct cpus read_tree(const char *name)
{
    char root[] = "/tmp/quire-cpus-XXXXXX";
    assert_non_null(mkdtemp(root));
    if (name != NULL)
        lay_out(name, root);
    struct cpus c;
    assert_int_equal(cpus_read(&c, root), RC_OK);
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return c;
}

struct expected {
    const char *name;
    uint32_t count, allowed, cores, millicpus;
    const char *reason;
};

static const struct expected cases[] = {
    { "container_two", 2, 8, 8, 2000,
      "2 threads: cgroup v2 quota 2.00 (8 of 8 CPUs allowed, 8 cores, quota 2.00)" },
    { "quota_one_and_a_half", 1, 8, 8, 1500,
      "1 thread: cgroup v2 quota 1.50 (8 of 8 CPUs allowed, 8 cores, quota 1.50)" },
    { "quota_half", 1, 8, 8, 500,
      "1 thread: cgroup v2 quota 0.50 (8 of 8 CPUs allowed, 8 cores, quota 0.50)" },
    { "taskset_one", 1, 1, 1, 0, "1 thread: CPU affinity (1 of 8 CPUs allowed, 1 core, no quota)" },
    { "cpuset_siblings", 2, 4, 2, 0,
      "2 threads: one for each core (4 of 8 CPUs allowed, 2 cores, no quota)" },
    { "smt_neighbours", 4, 7, 4, 0,
      "4 threads: one for each core (7 of 8 CPUs allowed, 4 cores, no quota)" },
    { "nested_v2", 3, 8, 8, 3000,
      "3 threads: cgroup v2 quota 3.00 (8 of 8 CPUs allowed, 8 cores, quota 3.00)" },
    { "v1_unlimited_in_a_pod", 4, 8, 8, 4000,
      "4 threads: cgroup v1 quota 4.00 (8 of 8 CPUs allowed, 8 cores, quota 4.00)" },
    { "v1_no_limit", 8, 8, 8, 0, "8 threads: every CPU (8 of 8 CPUs allowed, 8 cores, no quota)" },
    { "v1_container", 2, 8, 8, 2500,
      "2 threads: cgroup v1 quota 2.50 (8 of 8 CPUs allowed, 8 cores, quota 2.50)" },
    { "both_versions", 3, 8, 8, 3000,
      "3 threads: cgroup v1 quota 3.00 (8 of 8 CPUs allowed, 8 cores, quota 3.00)" },
    { "blank_in_the_mount_point", 2, 8, 8, 2000, NULL },
    { "group_out_of_view", 6, 8, 8, 6000, NULL },
    { "missing_files", 4, 4, 4, 0,
      "4 threads: every CPU (4 of 4 CPUs allowed, 4 cores, no quota)" },
    { "broken_files", 2, 2, 2, 0, "2 threads: every CPU (2 of 2 CPUs allowed, 2 cores, no quota)" },
    { "many_cpus", 256, 512, 512, 0,
      "256 threads: most that help (512 of 512 CPUs allowed, 512 cores, no quota)" },
    { NULL, 1, 1, 1, 0, "1 thread: every CPU (1 of 1 CPUs allowed, 1 core, no quota)" },
};

static void test_recorded_trees(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct expected *e = &cases[i];
        struct cpus c = read_tree(e->name);
        if (c.count != e->count || c.allowed_count != e->allowed || c.core_count != e->cores ||
            c.quota_millicpus != e->millicpus)
            fail_msg("%s: count %u, allowed %u, cores %u, quota %u", e->name, c.count,
                     c.allowed_count, c.core_count, c.quota_millicpus);
        if (e->reason != NULL)
            assert_string_equal(c.reason, e->reason);
        assert_int_equal(c.pinnable, c.count == c.core_count);
    }
}

static void test_ids_are_one_of_each_core(void **state)
{
    (void)state;
    struct cpus c = read_tree("cpuset_siblings");
    assert_int_equal(c.ids[0], 1);
    assert_int_equal(c.ids[1], 2);
    assert_true(c.pinnable);
    c = read_tree("smt_neighbours");
    static const uint32_t want[] = { 1, 2, 4, 6 };
    for (int i = 0; i < 4; i++)
        assert_int_equal(c.ids[i], want[i]);
    c = read_tree("container_two");
    assert_false(c.pinnable);
    assert_int_equal(c.ids[1], 1);
}

static void test_this_machine(void **state)
{
    (void)state;
    struct cpus c;
    assert_int_equal(cpus_read(&c, ""), RC_OK);
    assert_in_range(c.count, 1, WORKERS_MAX);
    assert_in_range(c.allowed_count, 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_true(c.count <= c.core_count && c.core_count <= c.allowed_count);
    assert_non_null(strstr(c.reason, "thread"));
    mem_fail_after(1);
    assert_int_equal(cpus_read(&c, ""), RC_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_trees),
        cmocka_unit_test(test_ids_are_one_of_each_core),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
