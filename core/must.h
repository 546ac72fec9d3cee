/* SPDX-License-Identifier: MIT */
/* must - assertions against wrong programs, on in every build. Never for data from outside.
 *   must(x)        cheap and always true; prints place and expression, then aborts
 *   must_slow(x)   a costly sweep; compiled in when QUIRE_SLOW_CHECKS is set (debug, sanitizers)
 *   thread         any */
#ifndef QUIRE_CORE_MUST_H
#define QUIRE_CORE_MUST_H

#include "core/attr.h"

#define must(x) ((x) ? (void)0 : must_fail(__FILE__, __LINE__, __func__, #x))

#if QUIRE_SLOW_CHECKS
#define must_slow(x) must(x)
#else
#define must_slow(x) ((void)sizeof(x))
#endif

/* must_fail - reports to stderr with the last recorded events, then aborts. */
ATTR_NORETURN ATTR_COLD void must_fail(const char *file, int line, const char *func,
                                       const char *expr);

/* must_note - records an event (a static string and two numbers) that a later failure prints.
 * Per-thread ring of the last 16; costs a few stores. */
void must_note(const char *what, long a, long b);

#endif
