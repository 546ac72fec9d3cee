/* SPDX-License-Identifier: MIT */
/* replay - a journal through the scheduler once more, without a model: every plan must be the one
 * that was logged.
 *   errors   RC_CORRUPT, RC_IO, RC_NOT_FOUND: the file; RC_NO_MEMORY. A difference is no error */
#ifndef QUIRE_SCHED_REPLAY_H
#define QUIRE_SCHED_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct replay {
    uint64_t steps, requests, cancels;
    bool differs; /* at step steps; text says how */
    char text[256];
};

/* replay_log - audit_steps: sched_audit after every so many steps, which counts as a difference
 * when it finds something; 0 = never. */
enum rc replay_log(struct replay *out, const char *path, uint32_t audit_steps,
                   struct fault *fault) ATTR_MUST_USE;

#endif
