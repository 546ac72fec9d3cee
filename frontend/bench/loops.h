/* SPDX-License-Identifier: MIT */
/* loops - what the limits of a machine are measured with: instructions that depend on nothing, and
 * reading that cannot be left out. Time and threads are the caller's (bench_limits.c beside this,
 * and bench/machine.h). No state, any thread. */
#ifndef QUIRE_FRONTEND_BENCH_LOOPS_H
#define QUIRE_FRONTEND_BENCH_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
/* Each call runs its body 2,000 times. ymm0 and ymm1 hold whatever they hold. AVX2 and FMA are
 * needed. */
#define LOOP_ROUNDS 2000
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

/* The inner step of the kernels: one broadcast for two multiply-adds and their sums; a round is
 * LOOP_STEP_MACS products of bytes. */
#define LOOP_STEP_MACS (8 * 32)
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
