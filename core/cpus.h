/* SPDX-License-Identifier: MIT */
/* cpus - how many processors this process may really use, which, and why: the least of the affinity
 * mask, the CPU quota of its control group and of every group above it, and the physical cores
 * among the allowed.
 *   owner    the caller; a plain value, read once at start
 *   errors   RC_NO_MEMORY alone. A file that is missing or unreadable limits nothing
 *   limits   CPUS_ID_MAX, WORKERS_MAX
 *   source   Linux Documentation: admin-guide/cgroup-v2 (cpu.max), scheduler/sched-bwc,
 *            filesystems/proc */
#ifndef QUIRE_CORE_CPUS_H
#define QUIRE_CORE_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/limits.h"

#define CPUS_ID_MAX 4096u /* CPU ids: what the largest kernel configurations allow is 8192 */

struct cpus {
    uint32_t count;            /* workers to start, 1 .. WORKERS_MAX */
    uint32_t allowed_count;    /* CPUs in the affinity mask (cpuset included) */
    uint32_t online_count;     /* CPUs of the machine, at least the allowed ones */
    uint32_t core_count;       /* physical cores with at least one allowed CPU */
    uint32_t quota_millicpus;  /* tightest quota, 1500 = one and a half CPU; 0 = none */
    uint32_t cgroup_version;   /* of that quota, 1 or 2 */
    bool pinnable;             /* one worker for each allowed core: pinning cannot crowd some */
    char reason[160];          /* a line for the start: "2 threads: cgroup v2 quota 2.00 (...)" */
    uint32_t ids[WORKERS_MAX]; /* [count] one CPU of each core, ascending: for workers_open */
};

/* cpus_read - root is "" for this machine, or the directory of a recorded tree with proc/ and sys/
 * in it. */
enum rc cpus_read(struct cpus *out, const char *root) ATTR_MUST_USE;

#endif
