/* SPDX-License-Identifier: MIT */
/* machine - limits of this processor, measured: clock, multiply rates, read bandwidth. For the
 * bench programs alone; everything is static.
 *   clock      a chain of dependent 64-bit multiplies, three cycles each: there is no cycle
 *   counter in
 *              a guest, the time stamp counter is not the core clock, and chains of additions are
 *              folded by newer cores. The minimum seen so far counts
 *   windows    short pieces of work, timed one by one: neighbours on the same core steal up to
 *   half of
 *              it, so the minimum says what the code can do and the median what this host gives now
 *   thread     one, unless a function says otherwise */
#ifndef QUIRE_BENCH_MACHINE_H
#define QUIRE_BENCH_MACHINE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/attr.h"
#include "core/cpu.h"

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

#if defined(__x86_64__)
/* Loops of independent instructions; rates are per cycle. ymm0 and ymm1 hold whatever they hold. */
#define MACHINE_LOOP(body)                                                                         \
    __asm__ volatile("mov $2000, %%ecx\n1:\n" body "dec %%ecx\n jnz 1b\n" ::"r"(ctx)               \
                     : "rcx", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",      \
                       "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13")

static inline void loop_multiply_add(void *ctx)
{
    MACHINE_LOOP(
        ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13\n vpmaddubsw %%ymm0, %%ymm1, %%ymm\\r\n .endr\n");
}

static inline void loop_multiply_add_sum(void *ctx)
{
    MACHINE_LOOP(".irp r, 2,3,4,5,6,7,8,9\n vpmaddubsw %%ymm0, %%ymm1, %%ymm10\n"
                 " vpaddw %%ymm10, %%ymm\\r, %%ymm\\r\n .endr\n");
}

/* The inner step of the kernels: one broadcast for two multiply-adds and their sums. */
static inline void loop_kernel_step(void *ctx)
{
    MACHINE_LOOP(
        ".irp r, 0,1,2,3\n vpbroadcastd \\r*64(%0), %%ymm11\n"
        " vpmaddubsw %%ymm11, %%ymm1, %%ymm10\n vpmaddubsw %%ymm11, %%ymm0, %%ymm11\n"
        ".if \\r == 0\n vpaddw %%ymm10, %%ymm2, %%ymm2\n vpaddw %%ymm11, %%ymm3, %%ymm3\n"
        ".elseif \\r == 1\n vpaddw %%ymm10, %%ymm4, %%ymm4\n vpaddw %%ymm11, %%ymm5, %%ymm5\n"
        ".elseif \\r == 2\n vpaddw %%ymm10, %%ymm6, %%ymm6\n vpaddw %%ymm11, %%ymm7, %%ymm7\n"
        ".else\n vpaddw %%ymm10, %%ymm8, %%ymm8\n vpaddw %%ymm11, %%ymm9, %%ymm9\n.endif\n"
        ".endr\n");
}

static inline void loop_fma(void *ctx)
{
    MACHINE_LOOP(" vpxor %%xmm0, %%xmm0, %%xmm0\n vpxor %%xmm1, %%xmm1, %%xmm1\n"
                 ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13\n vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n"
                 " vfmadd231ps %%ymm0, %%ymm1, %%ymm\\r\n .endr\n");
}
#endif

/* Multiply-accumulates per cycle of one core; 0 = not measured on this architecture. */
struct machine {
    double ghz;
    double int8_multiply; /* u8 x s8 multiply-add alone */
    double int8_sum;      /* with its 16-bit addition */
    double int8_step;     /* and with the broadcasts of the kernels: the ceiling of the products */
    double f32_fma;
};

static inline void machine_measure(struct machine *m, double ms)
{
    *m = (struct machine){ .ghz = 1 / ns_per_cycle() };
#if defined(__x86_64__)
    static char data[1024] __attribute__((aligned(64)));
    if (!isa_usable(ISA_AVX2))
        return;
    double multiply = time_windows(loop_multiply_add, data, ms).min;
    double sum = time_windows(loop_multiply_add_sum, data, ms).min;
    double step = time_windows(loop_kernel_step, data, ms).min;
    double fma = time_windows(loop_fma, data, ms).min, cycle = ns_per_cycle();
    m->ghz = 1 / cycle;
    m->int8_multiply = 2000 * 12 * 32 / (multiply / cycle);
    m->int8_sum = 2000 * 8 * 32 / (sum / cycle);
    m->int8_step = 2000 * 8 * 32 / (step / cycle);
    m->f32_fma = 2000 * 12 * 8 / (fma / cycle);
#else
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

/* Reading. Sums of 64-bit words: never a store, nothing that the compiler can leave out. */
struct reader {
    const uint8_t *data;
    size_t bytes, at; /* whole memory; where the next window starts */
    size_t row_bytes; /* 0: one after another; else 16 rows of this size side by side */
    int prefetch;     /* the next 16 rows are asked for meanwhile */
    size_t streams;   /* with row_bytes 0: so many stretches side by side, or 0 */
    uint64_t sum;
};

enum { READ_WINDOW = 1 << 20, READ_ROWS = 16 };

static inline uint64_t read_line(const uint8_t *p)
{
    const uint64_t *w = (const uint64_t *)(const void *)p;
    return (w[0] + w[1] + w[2] + w[3]) + (w[4] + w[5] + w[6] + w[7]);
}

static inline void read_window(void *ctx)
{
    struct reader *r = ctx;
    uint64_t sum = 0;
    if (r->at + 2 * READ_WINDOW > r->bytes)
        r->at = 0;
    const uint8_t *p = r->data + r->at;
    size_t group = r->row_bytes * READ_ROWS;
    size_t streams = r->streams == 0 ? 1 : r->streams, stretch = READ_WINDOW / streams;
    for (size_t i = 0; group == 0 && i < stretch; i += 64)
        for (size_t s = 0; s < streams; s++)
            sum += read_line(p + s * stretch + i);
    for (size_t g = 0; group != 0 && g + group <= READ_WINDOW; g += group)
        for (size_t i = 0; i + 256 <= r->row_bytes; i += 256)
            for (size_t row = 0; row < READ_ROWS; row++) {
                const uint8_t *q = p + g + row * r->row_bytes + i;
                if (r->prefetch)
                    for (size_t line = 0; line < 256; line += 64)
                        __builtin_prefetch(q + group + line, 0, 2);
                sum += read_line(q) + read_line(q + 64) + read_line(q + 128) + read_line(q + 192);
            }
    r->sum += sum;
    r->at += READ_WINDOW;
}

#endif
