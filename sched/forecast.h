/* SPDX-License-Identifier: MIT */
/* forecast - whether blocks will do until the running sequences end, as far as lengths can be
 * foreseen.
 *   owner    the scheduler thread
 *   errors   a wrong forecast costs a preemption or some waiting, never an answer */
#ifndef QUIRE_SCHED_FORECAST_H
#define QUIRE_SCHED_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

/* How long answers get: the length that four of five stay under, followed as they end. */
struct lengths {
    uint32_t high; /* tokens; 0 = nothing seen yet */
};

/* lengths_note - an answer ended with that many tokens. */
void lengths_note(struct lengths *l, uint32_t tokens);

/* lengths_left - tokens that are still expected after done, at most max - done. */
uint32_t lengths_left(const struct lengths *l, uint32_t done, uint32_t max);

/* A sequence that decodes from now on. Small, because many are ordered at each admission. */
struct forecast_item {
    uint32_t left; /* tokens still to come */
    uint16_t open; /* tokens in its last block */
    uint16_t own;  /* blocks that are to be had again when it ends */
};
_Static_assert(CTX_TOKENS_MAX / KV_BLOCK_TOKENS <= UINT16_MAX, "blocks of a sequence");

/* forecast_fits - whether the items, whose order is changed here, never need more than available
 * blocks. */
bool forecast_fits(struct forecast_item *items, uint32_t count, uint64_t available);

#endif
