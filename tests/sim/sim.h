/* SPDX-License-Identifier: MIT */
/* sim - scheduler and pool against the symbolic executor: seeded clients, a virtual clock, faults
 * on purpose, every invariant checked after every step. One seed is one world; the same seed is the
 * same run.
 *   errors   a violation is text in the outcome, with the step it was seen at */
#ifndef QUIRE_TESTS_SIM_SIM_H
#define QUIRE_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"

struct sim_options {
    uint64_t seed;
    uint64_t steps;       /* steps with arrivals; the drain comes on top */
    uint32_t audit_every; /* steps between two audits; 0 = only at the end */
    bool fixed;           /* the speed workload: 64 sequences, no faults */
    FILE *log;            /* every plan and event from log_from on, or NULL */
    uint64_t log_from;
    /* What happens from outside are events (arrivals, cancels, failures, jumps of the clock), each
     * drawn by itself, so that some can be left out and the rest stay as they are. */
    const uint64_t *only; /* [only_count] ascending: just these, or NULL for all */
    uint32_t only_count;
    uint64_t *events; /* [event_room] what happened, or NULL */
    uint32_t event_room;
    const char *journal; /* file for all that the scheduler is given, or NULL */
};

struct sim_outcome {
    uint64_t steps;
    uint64_t finished, cancelled, failed, expired, refused, preemptions, cached_tokens;
    uint64_t writes, reads, io_waits, pinned;
    uint32_t event_count;   /* at most event_room are in the list */
    struct fault violation; /* code RC_OK: none */
};

/* sim_shrink - the fewest events that it finds with which a broken seed stays broken, in events;
 * their number in event_count. */
bool sim_shrink(struct sim_outcome *out, const struct sim_options *options, uint64_t *events,
                uint32_t event_room);

/* sim_run - one seed; false when a rule was broken. */
bool sim_run(struct sim_outcome *out, const struct sim_options *options);

#endif
