/* SPDX-License-Identifier: MIT */
/* clock - the clocks behind clock.h. The real one is CLOCK_MONOTONIC: it stands still while the
 * machine sleeps, which is what step times and time-outs want, and the wall clock may jump without
 * being noticed. */
#include "core/clock.h"

#include <stddef.h>
#include <time.h>

#include "core/must.h"

static uint64_t read_us(clockid_t id)
{
    struct timespec t;
    int failed = clock_gettime(id, &t);
    must(failed == 0);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static uint64_t real_now_us(void *ctx)
{
    (void)ctx;
    return read_us(CLOCK_MONOTONIC);
}

static uint64_t wall_now_us(void *ctx)
{
    (void)ctx;
    return read_us(CLOCK_REALTIME);
}

static uint64_t virtual_now_us(void *ctx)
{
    const uint64_t *now_us = ctx;
    return *now_us;
}

struct clock clock_real(void)
{
    return (struct clock){ NULL, real_now_us };
}

struct clock clock_wall(void)
{
    return (struct clock){ NULL, wall_now_us };
}

struct clock clock_virtual(uint64_t *now_us)
{
    must(now_us != NULL);
    return (struct clock){ now_us, virtual_now_us };
}
