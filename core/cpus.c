/* SPDX-License-Identifier: MIT */
/* cpus - what is read, below the root:
 *
 *   proc/self/status      Cpus_allowed_list: affinity mask and cpuset together
 *   proc/self/cgroup      our group in each hierarchy:  0::/a/b  (v2)   4:cpu,cpuacct:/a/b  (v1)
 *   proc/self/mountinfo   where these hierarchies are mounted, and which group is the mount's top:
 *                         in a container without a name space of its own, /docker/x is seen as the
 *                         mount point
 *   <mount>/<group>/cpu.max                             "150000 100000" or "max 100000", v2
 *   <mount>/<group>/cpu.cfs_quota_us, cpu.cfs_period_us "150000", "-1" for none, v1
 *   sys/devices/system/cpu/cpuN/topology/thread_siblings_list   "0,4" or "0-1"
 *
 * The quota of a group binds all groups below it, so every level from ours up to the mount is
 * looked at. A quota of 1.5 makes one worker: two would be throttled together a quarter of the
 * time, at a barrier, and everybody would wait for both. Refused: nproc and sysconf, which know no
 * quota. */
#include "core/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"

#define TEXT_BYTES (1u << 20) /* mountinfo of a busy host has some hundred KiB */
#define PATH_BYTES 4096u

struct cpu_mask {
    uint64_t bits[CPUS_ID_MAX / 64];
};

struct reader {
    const char *root;
    char *text; /* [TEXT_BYTES] the file read last */
    char path[PATH_BYTES];
};

static bool mask_has(const struct cpu_mask *m, uint32_t cpu)
{
    return (m->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

static uint32_t mask_count(const struct cpu_mask *m)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CPUS_ID_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(m->bits[i]);
    return count;
}

/* Sets *out to the file's bytes, in r->text until the next call; false when there are none. */
ATTR_PRINTF(3, 4) static bool read_file(struct reader *r, struct str *out, const char *fmt, ...)
{
    size_t len = 0;
    int n = snprintf(r->path, sizeof r->path, "%s", r->root);
    if (n < 0 || (size_t)n >= sizeof r->path)
        return false;
    va_list args;
    va_start(args, fmt);
    int more = vsnprintf(r->path + n, sizeof r->path - (size_t)n, fmt, args);
    va_end(args);
    if (more < 0 || (size_t)more >= sizeof r->path - (size_t)n)
        return false;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (len < TEXT_BYTES) {
        ssize_t got = read(fd, r->text + len, TEXT_BYTES - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    *out = (struct str){ r->text, len };
    return len > 0;
}

/* "0-3,8,10-11" as the kernel writes it. False, and an empty mask, for anything else. */
static bool parse_list(struct cpu_mask *m, struct str list)
{
    *m = (struct cpu_mask){ 0 };
    list = str_trim(list);
    struct str part;
    while (str_cut(&list, ',', &part)) {
        struct str first;
        uint32_t begin, end;
        bool range = memchr(part.text, '-', part.len) != NULL;
        str_cut(&part, '-', &first);
        if (!str_parse_u32(first, 0, CPUS_ID_MAX - 1, &begin) ||
            !str_parse_u32(range ? part : first, begin, CPUS_ID_MAX - 1, &end)) {
            *m = (struct cpu_mask){ 0 };
            return false;
        }
        for (uint32_t cpu = begin; cpu <= end; cpu++)
            m->bits[cpu / 64] |= 1ull << cpu % 64;
    }
    return true;
}

static void read_allowed(struct reader *r, struct cpu_mask *m)
{
    struct str text, line;
    const struct str label = str_of("Cpus_allowed_list:");
    if (read_file(r, &text, "/proc/self/status"))
        while (str_cut(&text, '\n', &line))
            if (str_starts(line, label) &&
                parse_list(m, (struct str){ line.text + label.len, line.len - label.len }) &&
                mask_count(m) > 0)
                return;
    *m = (struct cpu_mask){ 0 };
    cpu_set_t set;
    if (r->root[0] == '\0' && sched_getaffinity(0, sizeof set, &set) == 0)
        for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                m->bits[cpu / 64] |= 1ull << cpu % 64;
    if (mask_count(m) == 0)
        m->bits[0] = 1; /* something runs this code */
}

/* Counts cores and lists the first allowed CPU of each. A CPU without topology is a core of its
 * own. */
static void read_cores(struct reader *r, const struct cpu_mask *allowed, struct cpus *out)
{
    struct cpu_mask siblings, seen = { 0 };
    struct str text;
    for (uint32_t cpu = 0; cpu < CPUS_ID_MAX; cpu++) {
        if (!mask_has(allowed, cpu) || mask_has(&seen, cpu))
            continue;
        if (out->core_count < WORKERS_MAX)
            out->ids[out->core_count] = cpu;
        out->core_count++;
        if (read_file(r, &text, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
                      cpu) &&
            parse_list(&siblings, text))
            for (uint32_t i = 0; i < CPUS_ID_MAX / 64; i++)
                seen.bits[i] |= siblings.bits[i];
    }
}

/* A group's quota and period in microseconds: keeps the tightest in out. */
static void note_quota(struct cpus *out, uint32_t version, struct str quota_text,
                       struct str period_text)
{
    uint64_t quota, period, millicpus;
    if (!str_parse_u64(str_trim(quota_text), 1, UINT32_MAX, &quota) || /* "max" and "-1" end here */
        !str_parse_u64(str_trim(period_text), 1, UINT32_MAX, &period))
        return;
    millicpus = quota * 1000 / period;
    if (millicpus == 0)
        millicpus = 1;
    if (millicpus > UINT32_MAX || (out->quota_millicpus != 0 && millicpus >= out->quota_millicpus))
        return;
    out->quota_millicpus = (uint32_t)millicpus;
    out->cgroup_version = version;
}

static void read_quota_at(struct reader *r, struct cpus *out, uint32_t version, const char *dir)
{
    struct str text, quota;
    if (version == 2) {
        if (read_file(r, &text, "%s/cpu.max", dir) && str_cut(&text, ' ', &quota))
            note_quota(out, 2, quota, text);
        return;
    }
    char first[24];
    if (!read_file(r, &text, "%s/cpu.cfs_quota_us", dir) || text.len > sizeof first)
        return;
    memcpy(first, text.text, text.len);
    quota = (struct str){ first, text.len };
    if (read_file(r, &text, "%s/cpu.cfs_period_us", dir))
        note_quota(out, 1, quota, text);
}

/* Our group as proc/self/cgroup names it, copied to group; false when this hierarchy has none. */
static bool find_group(struct reader *r, uint32_t version, char group[PATH_BYTES])
{
    struct str text, line;
    if (!read_file(r, &text, "/proc/self/cgroup"))
        return false;
    while (str_cut(&text, '\n', &line)) {
        struct str number, controllers, controller;
        if (!str_cut(&line, ':', &number) || !str_cut(&line, ':', &controllers) || line.len == 0 ||
            line.len >= PATH_BYTES)
            continue;
        bool ours = version == 2 && controllers.len == 0;
        while (version == 1 && str_cut(&controllers, ',', &controller))
            ours = ours || str_equal(controller, str_of("cpu"));
        if (ours) {
            memcpy(group, line.text, line.len);
            group[line.len] = '\0';
            return true;
        }
    }
    return false;
}

/* Copies a path of mountinfo, in which blanks and backslashes are \ooo; false when it is too long.
 * */
static bool copy_mount_path(char out[PATH_BYTES], struct str path)
{
    size_t n = 0;
    for (size_t i = 0; i < path.len; i++) {
        char c = path.text[i];
        if (c == '\\' && path.len - i > 3) {
            c = (char)((path.text[i + 1] & 7) << 6 | (path.text[i + 2] & 7) << 3 |
                       (path.text[i + 3] & 7));
            i += 3;
        }
        if (n + 1 >= PATH_BYTES)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* One line of mountinfo: id parent device top point options [tag...] - type source super-options.
 * */
static bool is_mount(struct str line, uint32_t version, struct str *top, struct str *point)
{
    struct str field, type, options;
    for (int i = 0; i < 3; i++)
        if (!str_cut(&line, ' ', &field))
            return false;
    if (!str_cut(&line, ' ', top) || !str_cut(&line, ' ', point))
        return false;
    do
        if (!str_cut(&line, ' ', &field))
            return false;
    while (!str_equal(field, str_of("-")));
    if (!str_cut(&line, ' ', &type) || !str_cut(&line, ' ', &field) ||
        !str_cut(&line, ' ', &options))
        return false;
    if (version == 2)
        return str_equal(type, str_of("cgroup2"));
    bool has_cpu = false;
    while (str_cut(&options, ',', &field))
        has_cpu = has_cpu || str_equal(field, str_of("cpu"));
    return has_cpu && str_equal(type, str_of("cgroup"));
}

static bool find_mount(struct reader *r, uint32_t version, char top[PATH_BYTES],
                       char point[PATH_BYTES])
{
    struct str text, line, top_text, point_text;
    if (!read_file(r, &text, "/proc/self/mountinfo"))
        return false;
    while (str_cut(&text, '\n', &line))
        if (is_mount(line, version, &top_text, &point_text))
            return copy_mount_path(top, top_text) && copy_mount_path(point, point_text);
    return false;
}

/* The tightest quota on the way from our group up to the mount point. */
static void read_quota(struct reader *r, struct cpus *out, uint32_t version)
{
    char group[PATH_BYTES], top[PATH_BYTES], dir[2 * PATH_BYTES];
    if (!find_group(r, version, group) || !find_mount(r, version, top, dir))
        return;
    size_t top_len = strcmp(top, "/") == 0 ? 0 : strlen(top);
    bool below =
        strncmp(group, top, top_len) == 0 && (group[top_len] == '/' || group[top_len] == '\0');
    if (strstr(group, "/..") != NULL)
        below = false;
    const char *relative =
        below ? group + top_len : ""; /* a group outside our view: the mount alone */
    size_t point_len = strlen(dir);
    memcpy(dir + point_len, relative, strlen(relative) + 1);
    for (;;) {
        read_quota_at(r, out, version, dir);
        char *slash = strrchr(dir + point_len, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static void write_reason(struct cpus *c)
{
    char quota[48] = "no quota";
    uint32_t hundredths = c->quota_millicpus / 10;
    if (c->quota_millicpus != 0)
        snprintf(quota, sizeof quota, "quota %u.%02u", hundredths / 100, hundredths % 100);
    char why[64];
    if (c->quota_millicpus != 0 && c->quota_millicpus / 1000 < c->core_count)
        snprintf(why, sizeof why, "cgroup v%u %s", c->cgroup_version, quota);
    else if (c->core_count > WORKERS_MAX)
        snprintf(why, sizeof why, "most that help");
    else if (c->core_count < c->allowed_count)
        snprintf(why, sizeof why, "one for each core");
    else if (c->allowed_count < c->online_count)
        snprintf(why, sizeof why, "CPU affinity");
    else
        snprintf(why, sizeof why, "every CPU");
    snprintf(c->reason, sizeof c->reason, "%u thread%s: %s (%u of %u CPUs allowed, %u core%s, %s)",
             c->count, c->count == 1 ? "" : "s", why, c->allowed_count, c->online_count,
             c->core_count, c->core_count == 1 ? "" : "s", quota);
}

enum rc cpus_read(struct cpus *out, const char *root)
{
    *out = (struct cpus){ 0 };
    struct cpu_mask mask;
    struct str text;
    struct reader r = { .root = root, .text = mem_alloc_raw(TEXT_BYTES) };
    if (r.text == NULL)
        return RC_NO_MEMORY;
    bool known = read_file(&r, &text, "/sys/devices/system/cpu/online") && parse_list(&mask, text);
    out->online_count = known ? mask_count(&mask) : 0;
    read_allowed(&r, &mask);
    out->allowed_count = mask_count(&mask);
    if (out->online_count < out->allowed_count)
        out->online_count = out->allowed_count;
    read_cores(&r, &mask, out);
    read_quota(&r, out, 2);
    read_quota(&r, out, 1);
    mem_free(r.text);

    out->count = out->core_count < WORKERS_MAX ? out->core_count : WORKERS_MAX;
    uint32_t whole = out->quota_millicpus / 1000;
    if (out->quota_millicpus != 0 && whole < out->count)
        out->count = whole == 0 ? 1 : whole;
    out->pinnable = out->count == out->core_count;
    must(out->count >= 1);
    write_reason(out);
    return RC_OK;
}
