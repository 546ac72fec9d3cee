/* SPDX-License-Identifier: MIT */
/* budget - how many bytes this process may still take: the least of what the machine has available
 * and what the memory limit of its control group, or of one above it, leaves.
 *   owner    the caller; a plain value, read once at start
 *   errors   none: a file that is missing or unreadable limits nothing
 *   source   Linux documentation: filesystems/proc (MemAvailable), admin-guide/cgroup-v2
 *            (memory.max, memory.stat), cgroup-v1/memory */
#ifndef QUIRE_FRONTEND_BUDGET_H
#define QUIRE_FRONTEND_BUDGET_H

#include <stdint.h>

struct budget {
    uint64_t available_bytes; /* UINT64_MAX when nothing is known */
    char reason[96];          /* "of the machine's memory", "under the cgroup limit of 256 MiB" */
};

/* budget_read - root is "" for this machine, or the directory of a recorded tree with proc/ and
 * sys/ in it. */
void budget_read(struct budget *out, const char *root);

/* budget_limit - the process as a whole may take no more than bytes, of which it has own_bytes. */
void budget_limit(struct budget *b, uint64_t bytes, uint64_t own_bytes);

/* budget_own_bytes - anonymous memory that this process has, below root. */
uint64_t budget_own_bytes(const char *root);

#endif
