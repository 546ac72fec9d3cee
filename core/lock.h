/* SPDX-License-Identifier: MIT */
/* lock - the few mutexes of the engine, each with a rank and a known holder, and a condition to
 * wait for.
 *   order    a thread takes locks in rising rank only, so no two threads can wait for each other;
 *            slow-check builds verify it at every take
 *   holder   lock_must_hold(l) states in code what a comment would only claim
 *   thread   any. Most state has one owner and needs no lock: see core/ring.h first */
#ifndef QUIRE_CORE_LOCK_H
#define QUIRE_CORE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Outermost first. A lock that needs a place of its own gets a line here, below those it is taken
 * inside of and above those that are taken inside it. */
enum lock_rank {
    LOCK_OUTER, /* taken with nothing held, and held while others are taken */
    LOCK_INNER, /* taken alone or inside an outer one */
    LOCK_LEAF,  /* nothing is taken inside */
    LOCK_RANK_COUNT
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
    _Atomic(const void *) holder; /* mark of the thread that has it, NULL = free; see lock.c */
};

struct lock_condition {
    pthread_cond_t condition;
};

void lock_open(struct lock *l, enum lock_rank rank);
void lock_close(struct lock *l); /* must() be free */

void lock_take(struct lock *l);
void lock_give(struct lock *l);

/* lock_is_held - by the calling thread. lock_must_hold - must() on it. */
bool lock_is_held(const struct lock *l);
void lock_must_hold(const struct lock *l);

void lock_condition_open(struct lock_condition *c);
void lock_condition_close(struct lock_condition *c);

/* lock_condition_wait - gives l back, sleeps, has l again. It may return without a reason, so it is
 * called in a loop on the state itself. False once timeout_us has passed (UINT64_MAX: never). */
bool lock_condition_wait(struct lock_condition *c, struct lock *l, uint64_t timeout_us);

/* lock_condition_wake - every waiter; the caller holds l. */
void lock_condition_wake(struct lock_condition *c, const struct lock *l);

#endif
