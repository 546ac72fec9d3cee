/* SPDX-License-Identifier: MIT */
/* bench_limits - see bench_limits.h. Rates are counted over the time that each worker itself was
 * busy and then added up, so that no worker waits for a slower one inside the clock. */
#include "frontend/bench/bench_limits.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "frontend/bench/loops.h"
#include "frontend/fit_measure.h"

#define BYTES_MIN (96ull << 20) /* read in turn; on machines with large caches twice those */
#define BYTES_MAX (512ull << 20)
#define HUGE_PAGE (2u << 20)
#define ROUND_US 8000u
#define ROUNDS 2u

struct round {
    struct limits_probe *probe;
    size_t streams;
    _Atomic uint64_t rate; /* of all workers, per second */
    _Atomic uint64_t sum;  /* so that nothing is left out */
};

static void add_rate(struct round *r, uint64_t count, uint64_t us)
{
    atomic_fetch_add(&r->rate, (uint64_t)((double)count * 1e6 / (double)(us > 0 ? us : 1)));
}

static void read_round(void *ctx, uint32_t worker, uint32_t count)
{
    struct round *r = ctx;
    const struct clock *clock = &r->probe->clock;
    size_t share = r->probe->bytes / count / READ_WINDOW * READ_WINDOW;
    struct reader reader = { .data = r->probe->memory + worker * share,
                             .bytes = share,
                             .streams = r->streams };
    uint64_t begun = clock_now_us(clock), us = 0, windows = 0;
    for (; us < ROUND_US; windows++) {
        read_window(&reader);
        us = clock_now_us(clock) - begun;
    }
    atomic_fetch_add(&r->sum, reader.sum);
    add_rate(r, windows * READ_WINDOW, us);
}

#if defined(__x86_64__)
static void multiply_round(void *ctx, uint32_t worker, uint32_t count)
{
    struct round *r = ctx;
    const struct clock *clock = &r->probe->clock;
    uint8_t data[256] = { 0 };
    uint64_t begun = clock_now_us(clock), us = 0, calls = 0;
    (void)worker;
    (void)count;
    for (; us < ROUND_US; calls += 16) {
        for (uint32_t i = 0; i < 16; i++)
            loop_kernel_step(data);
        us = clock_now_us(clock) - begun;
    }
    add_rate(r, calls * LOOP_ROUNDS * LOOP_STEP_MACS, us);
}
#endif

/* The loop is of instructions that later levels do better than. */
static bool has_loop(enum isa isa)
{
#if defined(__x86_64__)
    return isa_usable(ISA_AVX2) && isa <= ISA_AVX2;
#else
    (void)isa;
    return false;
#endif
}

static size_t memory_bytes(uint32_t workers)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t bytes = cache > 0 ? 2 * (uint64_t)cache : 0;
    bytes = bytes < BYTES_MIN ? BYTES_MIN : bytes > BYTES_MAX ? BYTES_MAX : bytes;
    uint64_t least = 4ull * READ_WINDOW * workers;
    return (size_t)(bytes > least ? bytes : least);
}

enum rc limits_open(struct limits_probe *p, struct workers *w, enum isa isa, enum dtype type,
                    bool spare)
{
    *p = (struct limits_probe){ .workers = w, .clock = clock_real(), .loop = has_loop(isa) };
    if (!spare)
        return RC_OK;
    p->bytes = memory_bytes(workers_count(w));
    p->block = mem_alloc_raw(p->bytes + HUGE_PAGE);
    if (p->block == NULL)
        return RC_NO_MEMORY;
    p->memory = (uint8_t *)p->block + (HUGE_PAGE - (uintptr_t)p->block % HUGE_PAGE);
    (void)madvise(p->memory, p->bytes, MADV_HUGEPAGE); /* the most that the machine gives */
    memset(p->memory, 1, p->bytes);
    if (p->loop)
        return RC_OK;
    struct fit_machine machine;
    enum rc rc = fit_measure_cores(&machine, w, type);
    p->kernel_macs_s = rc == RC_OK ? machine.macs_s : 0;
    return rc;
}

void limits_close(struct limits_probe *p)
{
    mem_free(p->block);
    p->block = NULL;
}

static double best_rate(struct limits_probe *p, workers_fn *fn, size_t streams)
{
    uint64_t best = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct round r = { .probe = p, .streams = streams };
        workers_run(p->workers, fn, &r);
        best = r.rate > best ? r.rate : best;
    }
    return (double)best;
}

void limits_measure(struct limits *out, struct limits_probe *p)
{
    double one = 0, eight = 0;
    if (p->bytes > 0) {
        one = best_rate(p, read_round, 1);
        eight = best_rate(p, read_round, 8);
    }
    out->read_bytes_s = one > eight ? one : eight;
    out->int8_macs_s = p->kernel_macs_s;
#if defined(__x86_64__)
    if (p->loop && !limits_by_kernel(p))
        out->int8_macs_s = best_rate(p, multiply_round, 0);
#endif
}

bool limits_by_kernel(const struct limits_probe *p)
{
    return p->kernel_macs_s > 0;
}

static double apart(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a;
    return most > 0 ? (most - least) / most : 0;
}

double limits_moved(const struct limits *a, const struct limits *b)
{
    double read = apart(a->read_bytes_s, b->read_bytes_s);
    double int8 = apart(a->int8_macs_s, b->int8_macs_s);
    return read > int8 ? read : int8;
}

struct limits limits_best(const struct limits *a, const struct limits *b)
{
    struct limits best = *a;
    best.read_bytes_s = b->read_bytes_s > best.read_bytes_s ? b->read_bytes_s : best.read_bytes_s;
    best.int8_macs_s = b->int8_macs_s > best.int8_macs_s ? b->int8_macs_s : best.int8_macs_s;
    return best;
}
