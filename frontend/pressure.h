/* SPDX-License-Identifier: MIT */
/* pressure - watches whether memory runs short for this process, and says so while it does: whoever
 * holds memory that can be made again gives some back, before the kernel takes weights that are
 * read in every step.
 *   owner    the opener
 *   thread   one of its own, which calls relieve; pressure_stats: any
 *   errors   RC_IO for a file that --pressure names and that cannot be read; what the system does
 *            not have is not watched
 *   source   Linux documentation: accounting/psi ("some": total microseconds in which a task
 *            waited for memory), admin-guide/cgroup-v2 (memory.pressure) */
#ifndef QUIRE_FRONTEND_PRESSURE_H
#define QUIRE_FRONTEND_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct pressure_config {
    const char *root;    /* "", or a recorded tree as in budget.h */
    const char *file;    /* --pressure: NULL = the group's file or the machine's; "off" */
    uint64_t mem_bytes;  /* --mem; 0 = no limit */
    uint64_t keep_bytes; /* fewer than these available are pressure */
    void (*relieve)(void *ctx);
    void *ctx;
};

struct pressure_stats {
    uint64_t looks, short_looks; /* and how many of them found too little */
};

/* One look at the files; what the thread does every PRESSURE_LOOK_US. */
struct pressure_watch {
    struct pressure_config config;
    char path[512]; /* of the stall times; "" = there is none */
    uint64_t stall_us, at_us;
};
#define PRESSURE_LOOK_US 500000u

enum rc pressure_watch_open(struct pressure_watch *out, const struct pressure_config *config,
                            uint64_t now_us, struct fault *fault) ATTR_MUST_USE;

/* pressure_watch_look - whether memory is short: tasks waited for it for a tenth of the time since
 * the last look, or fewer than keep_bytes are available. */
bool pressure_watch_look(struct pressure_watch *w, uint64_t now_us);

struct pressure;

/* pressure_open - *out is NULL with "off". */
enum rc pressure_open(struct pressure **out, const struct pressure_config *config,
                      struct fault *fault) ATTR_MUST_USE;
void pressure_close(struct pressure *p);
struct pressure_stats pressure_stats(const struct pressure *p); /* zeroes for NULL */

#endif
