/* SPDX-License-Identifier: MIT */
/* lock - a pthread mutex with two additions. The holder is written while the mutex is held and
 * compared only with the reader's own mark, so the answer to "do I hold it" is exact without
 * another lock. The mark of a thread is the address of a variable of its own. In slow-check builds
 * each thread has a list of what it holds; taking a rank that is not above the last one fails at
 * once, whether or not it would have come to a deadlock this time. Waits use the monotonic clock:
 * setting the time of day must not end or stretch them. */
#include "core/lock.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "core/futex.h"
#include "core/must.h"

#define HELD_MAX 8u /* locks one thread may hold at once */

static _Thread_local struct {
    const struct lock *held[HELD_MAX]; /* rising rank; kept in slow-check builds */
    uint32_t held_count;
} self;

static void note_taken(struct lock *l)
{
#if QUIRE_SLOW_CHECKS
    must(self.held_count < HELD_MAX);
    self.held[self.held_count++] = l;
#endif
    atomic_store_explicit(&l->holder, &self, memory_order_relaxed);
}

static void note_given(struct lock *l)
{
    atomic_store_explicit(&l->holder, NULL, memory_order_relaxed);
#if QUIRE_SLOW_CHECKS
    uint32_t i = 0;
    while (i < self.held_count && self.held[i] != l)
        i++;
    must(i < self.held_count);
    for (self.held_count--; i < self.held_count; i++)
        self.held[i] = self.held[i + 1];
#endif
}

void lock_open(struct lock *l, enum lock_rank rank)
{
    must((unsigned)rank < LOCK_RANK_COUNT);
    l->rank = rank;
    atomic_init(&l->holder, NULL);
    int failed = pthread_mutex_init(&l->mutex, NULL);
    must(failed == 0);
}

void lock_close(struct lock *l)
{
    must(atomic_load_explicit(&l->holder, memory_order_relaxed) == NULL);
    int failed = pthread_mutex_destroy(&l->mutex);
    must(failed == 0);
}

void lock_take(struct lock *l)
{
    must(!lock_is_held(l));
#if QUIRE_SLOW_CHECKS
    if (self.held_count > 0)
        must(self.held[self.held_count - 1]->rank < l->rank);
#endif
    int failed = pthread_mutex_lock(&l->mutex);
    must(failed == 0);
    note_taken(l);
}

void lock_give(struct lock *l)
{
    lock_must_hold(l);
    note_given(l);
    int failed = pthread_mutex_unlock(&l->mutex);
    must(failed == 0);
}

bool lock_is_held(const struct lock *l)
{
    return atomic_load_explicit(&l->holder, memory_order_relaxed) == &self;
}

void lock_must_hold(const struct lock *l)
{
    must(lock_is_held(l));
}

void lock_condition_open(struct lock_condition *c)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    must(failed == 0);
    failed = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    must(failed == 0);
    failed = pthread_cond_init(&c->condition, &attr);
    must(failed == 0);
    pthread_condattr_destroy(&attr);
}

void lock_condition_close(struct lock_condition *c)
{
    int failed = pthread_cond_destroy(&c->condition);
    must(failed == 0);
}

bool lock_condition_wait(struct lock_condition *c, struct lock *l, uint64_t timeout_us)
{
    lock_must_hold(l);
    uint64_t deadline_us = futex_deadline_us(timeout_us);
    note_given(l);
    int failed;
    if (deadline_us / 1000000u > INT32_MAX) {
        failed = pthread_cond_wait(&c->condition, &l->mutex);
    } else {
        struct timespec t = { (time_t)(deadline_us / 1000000u),
                              (long)(deadline_us % 1000000u * 1000u) };
        failed = pthread_cond_timedwait(&c->condition, &l->mutex, &t);
    }
    must(failed == 0 || failed == ETIMEDOUT);
    note_taken(l);
    return failed == 0;
}

void lock_condition_wake(struct lock_condition *c, const struct lock *l)
{
    lock_must_hold(l);
    int failed = pthread_cond_broadcast(&c->condition);
    must(failed == 0);
}
