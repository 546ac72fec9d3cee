/* SPDX-License-Identifier: MIT */
/* futex - the system call behind futex.h. Absolute deadlines (FUTEX_WAIT_BITSET), so that a wait
 * that is ended early by a signal and begun again does not get longer. errno is kept: signal
 * handlers call the wake. */
#include "core/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/must.h"

#define US_PER_S 1000000u

uint64_t futex_deadline_us(uint64_t timeout_us)
{
    struct timespec t;
    int failed = clock_gettime(CLOCK_MONOTONIC, &t);
    must(failed == 0);
    uint64_t deadline_us = (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000u;
    if (__builtin_add_overflow(deadline_us, timeout_us, &deadline_us))
        return FUTEX_FOREVER;
    return deadline_us;
}

bool futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_us)
{
    struct timespec t, *until = NULL;
    if (deadline_us / US_PER_S <=
        INT32_MAX) { /* beyond that the kernel would refuse: no deadline */
        t.tv_sec = (time_t)(deadline_us / US_PER_S);
        t.tv_nsec = (long)(deadline_us % US_PER_S * 1000u);
        until = &t;
    }
    int saved = errno;
    long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, until, NULL,
                     FUTEX_BITSET_MATCH_ANY);
    bool late = r != 0 && errno == ETIMEDOUT;
    must(r == 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT);
    errno = saved;
    return !late;
}

void futex_wake(_Atomic uint32_t *word, uint32_t count)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT32_MAX ? INT32_MAX : (int)count, NULL,
            NULL, 0);
    errno = saved;
}
