/* SPDX-License-Identifier: MIT */
/* budget - what is read, below the root:
 *
 *   proc/meminfo                                   MemAvailable
 *   proc/self/cgroup                               0::/a/b (v2)   7:memory:/a/b (v1)
 *   sys/fs/cgroup/<group>/memory.max, memory.stat  v2: limit and "anon"
 *   sys/fs/cgroup/memory/<group>/memory.limit_in_bytes, memory.stat   v1: limit and "total_rss"
 *
 * Page cache under a limit is given back when asked for, so only anonymous memory counts as used.
 * The limit of a group binds all groups below it: every level from ours up to the mount is looked
 * at. In a container whose own group is mounted as the top, the path below it does not exist, and
 * the top is what is found. */
#include "frontend/budget.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/str.h"

enum { FILE_BYTES = 16384, PATH_BYTES = 2048 };

static struct str read_file(char *text, const char *root, const char *dir, const char *group,
                            const char *name)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s%s/%s", root, dir, group, name);
    if (n < 0 || n >= PATH_BYTES)
        return (struct str){ 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return (struct str){ 0 };
    ssize_t got = read(fd, text, FILE_BYTES);
    close(fd);
    return (struct str){ text, got > 0 ? (size_t)got : 0 };
}

/* Number after "key " on a line of its own. */
static bool find_number(struct str text, const char *key, uint64_t *out)
{
    struct str line, word;
    while (str_cut(&text, '\n', &line)) {
        struct str rest = line;
        if (!str_cut(&rest, ' ', &word) || !str_equal(word, str_of(key)))
            continue;
        rest = str_trim(rest);
        struct str number;
        return str_cut(&rest, ' ', &number) && str_parse_u64(number, 0, UINT64_MAX, out);
    }
    return false;
}

/* Where the hierarchies are, and what their files are called. */
static const struct hierarchy {
    const char *controller, *dir, *limit, *used;
} hierarchies[] = {
    { "", "sys/fs/cgroup", "memory.max", "anon" },
    { "memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss" },
};

static void look_at_group(struct budget *b, const char *root, const struct hierarchy *h,
                          const char *group)
{
    char text[FILE_BYTES];
    uint64_t limit, used = 0;
    struct str value = str_trim(read_file(text, root, h->dir, group, h->limit));
    if (!str_parse_u64(value, 0, UINT64_MAX, &limit)) /* "max", or no such file */
        return;
    (void)find_number(read_file(text, root, h->dir, group, "memory.stat"), h->used, &used);
    uint64_t left = used < limit ? limit - used : 0;
    if (left >= b->available_bytes)
        return;
    b->available_bytes = left;
    snprintf(b->reason, sizeof b->reason, "under the cgroup limit of %llu MiB",
             (unsigned long long)(limit >> 20));
}

/* A line of proc/self/cgroup: number, controllers, path. */
static void look_at_line(struct budget *b, const char *root, struct str line)
{
    struct str number, controllers, controller;
    if (!str_cut(&line, ':', &number) || !str_cut(&line, ':', &controllers))
        return;
    const struct hierarchy *h = controllers.len == 0 ? &hierarchies[0] : NULL;
    while (h == NULL && str_cut(&controllers, ',', &controller))
        if (str_equal(controller, str_of("memory")))
            h = &hierarchies[1];
    char group[PATH_BYTES];
    if (h == NULL || line.len == 0 || line.len >= sizeof group)
        return;
    memcpy(group, line.text, line.len);
    group[line.len] = '\0';
    for (;;) {
        look_at_group(b, root, h, group);
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

void budget_read(struct budget *out, const char *root)
{
    char text[FILE_BYTES];
    uint64_t kib;
    *out = (struct budget){ .available_bytes = UINT64_MAX, .reason = "limit unknown" };
    if (find_number(read_file(text, root, "proc", "", "meminfo"), "MemAvailable:", &kib) &&
        kib < UINT64_MAX / 1024) {
        out->available_bytes = kib * 1024;
        snprintf(out->reason, sizeof out->reason, "of the machine's memory");
    }
    struct str lines = read_file(text, root, "proc/self", "", "cgroup"), line;
    while (str_cut(&lines, '\n', &line))
        look_at_line(out, root, line);
}

void budget_limit(struct budget *b, uint64_t bytes, uint64_t own_bytes)
{
    uint64_t left = own_bytes < bytes ? bytes - own_bytes : 0;
    if (left >= b->available_bytes)
        return;
    b->available_bytes = left;
    snprintf(b->reason, sizeof b->reason, "of --mem %llu MiB", (unsigned long long)(bytes >> 20));
}

uint64_t budget_own_bytes(const char *root)
{
    char text[FILE_BYTES];
    uint64_t kib = 0;
    struct str lines = read_file(text, root, "proc/self", "", "status"), line, name;
    while (str_cut(&lines, '\n', &line)) {
        if (!str_cut(&line, ':', &name) || !str_equal(name, str_of("RssAnon")))
            continue;
        struct str number, rest = str_trim(line);
        if (str_cut(&rest, ' ', &number) && str_parse_u64(number, 0, UINT64_MAX / 1024, &kib))
            break;
    }
    return kib * 1024;
}
