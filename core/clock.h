/* SPDX-License-Identifier: MIT */
/* clock - time as a seam: the real clocks, or a virtual one that tests move by hand.
 *   thread   any; a virtual clock belongs to its test's thread */
#ifndef QUIRE_CORE_CLOCK_H
#define QUIRE_CORE_CLOCK_H

#include <stdint.h>

struct clock {
    void *ctx;
    uint64_t (*now_us)(void *ctx); /* microseconds since an arbitrary start, never going back */
};

/* clock_real - CLOCK_MONOTONIC. */
struct clock clock_real(void);

/* clock_wall - microseconds since 1970. It follows the time of day and so may go back: for log
 * lines and answers, never for durations. */
struct clock clock_wall(void);

/* clock_virtual - reads *now_us, which the caller advances. */
struct clock clock_virtual(uint64_t *now_us);

/* clock_now_us - shorthand. */
static inline uint64_t clock_now_us(const struct clock *c)
{
    return c->now_us(c->ctx);
}

#endif
