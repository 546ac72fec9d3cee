/* SPDX-License-Identifier: MIT */
/* machine - limits of this processor in cycles: clock and multiply rates, over the loops of
 * frontend/bench/loops.h. For the bench programs alone; everything is static.
 *   clock      a chain of dependent 64-bit multiplies, three cycles each: there is no cycle counter
 *              in a guest, the time stamp counter is not the core clock, and chains of additions
 *              are folded by newer cores. The minimum seen so far counts
 *   windows    short pieces of work, timed one by one: neighbours on the same core steal up to half
 *              of it, so the minimum says what the code can do and the median what this host gives
 *              now
 *   thread     one, unless a function says otherwise */
#ifndef QUIRE_BENCH_MACHINE_H
#define QUIRE_BENCH_MACHINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/cpu.h"
#include "frontend/bench/loops.h"

static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

struct spread {
    double min, median;
};

enum { WINDOWS_MAX = 20000 };

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef void window_fn(void *ctx);

/* time_windows - runs fn again and again for about ms milliseconds; nanoseconds of one run. */
static inline struct spread time_windows(window_fn *fn, void *ctx, double ms)
{
    static double windows[WINDOWS_MAX];
    size_t count = 0;
    for (double end = now_ns() + ms * 1e6; count < WINDOWS_MAX && (count < 5 || now_ns() < end);) {
        double begin = now_ns();
        fn(ctx);
        windows[count++] = now_ns() - begin;
    }
    qsort(windows, count, sizeof *windows, by_value);
    return (struct spread){ windows[0], windows[count / 2] };
}

enum { BESIDE_MAX = 63 };

struct beside {
    pthread_t thread;
    window_fn *fn;
    void *ctx;
    atomic_bool *stop;
};

static inline void *run_beside(void *ctx)
{
    struct beside *b = ctx;
    while (!atomic_load_explicit(b->stop, memory_order_relaxed))
        b->fn(b->ctx);
    return NULL;
}

/* time_windows_beside - time_windows of fn(ctx[0]), while fn(ctx[1 .. count - 1]) runs on threads
 * of its own. */
static inline struct spread time_windows_beside(window_fn *fn, void *const *ctx, uint32_t count,
                                                double ms)
{
    static struct beside others[BESIDE_MAX];
    atomic_bool stop = false;
    uint32_t started = 0;
    for (; started + 1 < count; started++) {
        others[started] = (struct beside){ .fn = fn, .ctx = ctx[started + 1], .stop = &stop };
        if (pthread_create(&others[started].thread, NULL, run_beside, &others[started]) != 0)
            break;
    }
    struct spread s = time_windows(fn, ctx[0], ms);
    atomic_store(&stop, true);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(others[i].thread, NULL);
    return s;
}

/* ns_per_cycle - the shortest cycle seen so far; measured anew at each call. */
static inline double ns_per_cycle(void)
{
    static double best = 1e9;
    for (int i = 0; i < 50; i++) {
        double begin = now_ns();
        uint64_t x = 3;
        for (int j = 0; j < 4000; j++) {
            x *= 0x9e3779b97f4a7c15u;
            __asm__ volatile("" : "+r"(x));
        }
        double cycle = (now_ns() - begin) / (4000 * 3);
        best = cycle < best ? cycle : best;
    }
    return best;
}

/* Multiply-accumulates per cycle of one core; 0 = not measured on this architecture. */
struct machine {
    double ghz;
    double int8_multiply; /* u8 x s8 multiply-add alone */
    double int8_sum;      /* with its 16-bit addition */
    double int8_step;     /* and with the broadcasts of the kernels: the ceiling of the products */
    double f32_fma;
};

/* Of one core while threads - 1 others do the same. */
static inline void machine_measure(struct machine *m, uint32_t threads, double ms)
{
    *m = (struct machine){ .ghz = 1 / ns_per_cycle() };
#if defined(__x86_64__)
    static char data[1024] __attribute__((aligned(64)));
    if (!isa_usable(ISA_AVX2))
        return;
    void *ctx[BESIDE_MAX + 1];
    for (uint32_t i = 0; i < threads; i++)
        ctx[i] = data;
    double multiply = time_windows_beside(loop_multiply_add, ctx, threads, ms).min;
    double sum = time_windows_beside(loop_multiply_add_sum, ctx, threads, ms).min;
    double step = time_windows_beside(loop_kernel_step, ctx, threads, ms).min;
    double fma = time_windows_beside(loop_fma, ctx, threads, ms).min, cycle = ns_per_cycle();
    m->ghz = 1 / cycle;
    m->int8_multiply = 2000 * 12 * 32 / (multiply / cycle);
    m->int8_sum = 2000 * 8 * 32 / (sum / cycle);
    m->int8_step = 2000 * 8 * 32 / (step / cycle);
    m->f32_fma = 2000 * 12 * 8 / (fma / cycle);
#else
    (void)threads;
    (void)ms;
#endif
}

static inline void machine_print(const struct machine *m)
{
    printf("clock %.2f GHz", m->ghz);
    if (m->int8_multiply > 0)
        printf(", one core per cycle: int8 %.1f MAC (with sums %.1f, with broadcasts %.1f), "
               "f32 %.1f FMA",
               m->int8_multiply, m->int8_sum, m->int8_step, m->f32_fma);
    printf("\n");
}

#endif
