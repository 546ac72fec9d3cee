/* SPDX-License-Identifier: MIT */
/* ring - a bounded queue of pointers between threads: many producers, one consumer, no locks.
 *   full     ring_push returns RC_FULL; the producer decides what that means (429, retry)
 *   order    items of one producer come out in the order it pushed them
 *   owner    the items stay their owner's; the ring moves pointers
 *   source   bounded MPMC queue with a sequence number per cell, D. Vyukov, one consumer here */
#ifndef QUIRE_CORE_RING_H
#define QUIRE_CORE_RING_H

#include <stdint.h>

#include "core/err.h"

struct ring;

/* ring_open - capacity is a power of two, 2 .. 2^31. */
enum rc ring_open(struct ring **out, uint32_t capacity) ATTR_MUST_USE;
void ring_close(struct ring *r);

/* ring_push - any thread; RC_OK or RC_FULL. Wakes a consumer that waits. item is not NULL. */
enum rc ring_push(struct ring *r, void *item) ATTR_MUST_USE;

/* ring_pop - the consumer; NULL when empty. */
void *ring_pop(struct ring *r);

/* ring_wait - the consumer sleeps until an item is there, ring_wake is called, or timeout_us passed
 * (UINT64_MAX: never). */
void ring_wait(struct ring *r, uint64_t timeout_us);

/* ring_wake - any thread (and signal handlers): ends the wait that is going on, or else the next
 * one. */
void ring_wake(struct ring *r);

#endif
