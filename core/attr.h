/* SPDX-License-Identifier: MIT */
/* attr - compiler attributes under our own words. No state, any thread. */
#ifndef QUIRE_CORE_ATTR_H
#define QUIRE_CORE_ATTR_H

#define ATTR_MUST_USE __attribute__((warn_unused_result))
#define ATTR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define ATTR_NORETURN __attribute__((noreturn))
#define ATTR_COLD __attribute__((cold))
#define ATTR_NOINLINE __attribute__((noinline))
#define ATTR_INLINE static inline __attribute__((always_inline))
#define ATTR_UNUSED __attribute__((unused))
#define ATTR_CACHE_LINE _Alignas(64)
#if QUIRE_PLAIN_LOOPS /* sanitized builds: unrolled kernels take minutes to compile */
#define ATTR_UNROLL
#elif defined(__clang__)
#define ATTR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ATTR_UNROLL _Pragma("GCC unroll 64")
#endif

#endif
