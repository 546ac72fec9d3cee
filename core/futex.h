/* SPDX-License-Identifier: MIT */
/* futex - sleep until a 32-bit word changes, and wake those who sleep on it. Linux only, private to
 * the process. The word is the truth: a caller checks it before and after, since a wait may end
 * without a reason.
 *   thread   any; futex_wake is safe in signal handlers
 *   errors   none that a caller could act on */
#ifndef QUIRE_CORE_FUTEX_H
#define QUIRE_CORE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FUTEX_FOREVER UINT64_MAX

/* futex_deadline_us - the moment timeout_us from now on the monotonic clock; FUTEX_FOREVER stays
 * what it is. */
uint64_t futex_deadline_us(uint64_t timeout_us);

/* futex_wait - returns when the word is not `expected`, after a wake, a signal, or at the deadline.
 * False when the deadline has passed. */
bool futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_us);

/* futex_wake - ends the wait of up to `count` sleepers. */
void futex_wake(_Atomic uint32_t *word, uint32_t count);

/* futex_pause - tells the processor that this is a spin loop. */
static inline void futex_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` is a no-op on most cores: it would spin too hot */
#elif defined(__riscv)
    __asm__ volatile(".4byte 0x0100000f"); /* pause hint, an ordinary fence where unknown */
#endif
}

#endif
