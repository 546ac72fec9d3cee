/* SPDX-License-Identifier: MIT */
/* workers - three gates, each a word that only moves forward and a count of those who sleep on it:
 *
 *   start   worker 0 opens it with a new round: fn and ctx are published before
 *   meet    the last to arrive at a barrier opens it with a new phase
 *   finish  the last of workers 1.. to return from fn opens it with the round
 *
 * Rules
 *   W1  who waits: spins for a few tens of microseconds, then counts itself a sleeper, looks at the
 *       word again and sleeps in the kernel, which compares the word once more
 *   W2  who opens: stores the word, then looks at the count of sleepers. W1 and W2 are sequentially
 *       consistent, so either the sleeper sees the new word or the opener sees the sleeper: no wake
 *       is lost, and no system call is made while nobody sleeps
 *   W3  a member's phase counts its own barriers and must equal the gate's: a worker that skips a
 *       barrier or gives a wrong number is found at the next one
 * A barrier costs one atomic addition a member and one store by the last. Refused: spinning for
 * ever (one descheduled member makes every other burn its quota), sched_yield loops (the same with
 * more system calls), a tree of counters (no gain below some hundred threads). */
#include "core/workers.h"

#include <errno.h>
#include <fenv.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/futex.h"
#include "core/limits.h"
#include "core/mem.h"
#include "core/must.h"

#define WORKERS_MAGIC 0x776f726bu
#define SPIN_US 50u       /* about the longest stage difference of a small model's step */
#define SPIN_PAUSES 2000u /* of one calibration */

struct gate {
    ATTR_CACHE_LINE _Atomic uint32_t word;
    _Atomic uint32_t sleepers;
};

struct member {
    ATTR_CACHE_LINE struct workers *team;
    uint32_t worker;
    uint32_t phase; /* barriers passed; this member's thread alone */
    pthread_t thread;
};

struct workers {
    uint32_t magic;
    uint32_t count;
    uint32_t started;     /* members whose thread runs, worker 0 included */
    uint32_t spin_pauses; /* 0 = never spin */
    bool pinned;          /* the opener's affinity is to be put back */
    cpu_set_t affinity;   /* the opener's own */
    workers_fn *fn;       /* NULL = leave; synchronised by start */
    void *ctx;
    struct gate start, meet, finish;
    ATTR_CACHE_LINE _Atomic uint32_t arrived; /* at the barrier */
    ATTR_CACHE_LINE _Atomic uint32_t running; /* workers 1.. that have not returned from fn */
    struct member members[];
};

static void gate_open(struct gate *g, uint32_t word)
{
    atomic_store(&g->word, word);
    if (atomic_load(&g->sleepers) != 0)
        futex_wake(&g->word, UINT32_MAX);
}

/* Returns when the word is no longer `old`. */
static void gate_wait(struct gate *g, uint32_t old, uint32_t spin_pauses)
{
    for (uint32_t i = 0; i < spin_pauses; i++) {
        if (atomic_load_explicit(&g->word, memory_order_acquire) != old)
            return;
        futex_pause();
    }
    if (atomic_load_explicit(&g->word, memory_order_acquire) != old)
        return;
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->word) == old)
        futex_wait(&g->word, old, FUTEX_FOREVER);
    atomic_fetch_sub(&g->sleepers, 1);
}

/* The same arithmetic in every thread, whatever a library or the parent process has left behind. */
static void set_float_mode(void)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(0x1f80u); /* exceptions masked, nearest, no FTZ, no DAZ */
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0)); /* nearest, no flush, no default NaN */
#else
    fesetround(FE_TONEAREST);
#endif
}

/* How many pauses take SPIN_US here: a pause is 5 to 140 cycles, depending on the model. */
static uint32_t calibrate_spin(void)
{
    struct clock clock = clock_real();
    uint64_t best_us = UINT64_MAX;
    for (int round = 0; round < 3; round++) { /* the shortest: others may have been interrupted */
        uint64_t begin_us = clock_now_us(&clock);
        for (uint32_t i = 0; i < SPIN_PAUSES; i++)
            futex_pause();
        uint64_t us = clock_now_us(&clock) - begin_us;
        best_us = us < best_us ? us : best_us;
    }
    return (uint32_t)(SPIN_PAUSES * SPIN_US / (best_us == 0 ? 1 : best_us)) + 1;
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct workers *w = m->team;
    char name[16];
    snprintf(name, sizeof name, "quire-w%u", m->worker);
    pthread_setname_np(pthread_self(), name);
    set_float_mode();
    for (uint32_t round = 0;; round++) {
        gate_wait(&w->start, round, w->spin_pauses);
        if (w->fn == NULL)
            return NULL;
        w->fn(w->ctx, m->worker, w->count);
        if (atomic_fetch_sub(&w->running, 1) == 1)
            gate_open(&w->finish, round + 1);
    }
}

/* Starts the thread of members[worker] on its CPU, deaf to signals that are not its own doing. */
static int start_member(struct workers *w, uint32_t worker, const uint32_t *pin)
{
    struct member *m = &w->members[worker];
    pthread_attr_t attr;
    int failed = pthread_attr_init(&attr);
    if (failed != 0)
        return failed;
    if (pin != NULL) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(pin[worker], &set);
        failed = pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    }
    sigset_t deaf, before;
    sigfillset(&deaf);
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&deaf, own[i]);
    pthread_sigmask(SIG_SETMASK, &deaf, &before);
    if (failed == 0)
        failed = pthread_create(&m->thread, &attr, member_main, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return failed;
}

/* Pins the opener to pin[0] and remembers where it was. */
static enum rc pin_opener(struct workers *w, const uint32_t *pin, struct fault *fault)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (pin[i] >= CPU_SETSIZE)
            return fault_set(fault, RC_USAGE, "cannot pin worker %u to CPU %u: over %d", i, pin[i],
                             CPU_SETSIZE - 1);
    errno = pthread_getaffinity_np(pthread_self(), sizeof w->affinity, &w->affinity);
    if (errno != 0)
        return fault_set_errno(fault, RC_IO, "cannot read the CPU affinity");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(pin[0], &set);
    errno = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    if (errno != 0)
        return fault_set_errno(fault, RC_USAGE, "cannot pin worker 0 to CPU %u", pin[0]);
    w->pinned = true;
    return RC_OK;
}

enum rc workers_open(struct workers **out, uint32_t count, const uint32_t *pin, bool spin,
                     struct fault *fault)
{
    must(count >= 1);
    *out = NULL;
    if (count > WORKERS_MAX)
        return fault_set(fault, RC_USAGE, "%u threads: at most %u", count, WORKERS_MAX);
    struct workers *w = mem_alloc(sizeof *w + count * sizeof w->members[0]);
    if (w == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for %u workers", count);
    w->magic = WORKERS_MAGIC;
    w->count = count;
    w->started = 1;
    w->spin_pauses = spin && count > 1 ? calibrate_spin() : 0;
    enum rc rc = pin == NULL ? RC_OK : pin_opener(w, pin, fault);
    if (rc != RC_OK)
        goto fail;
    for (uint32_t i = 0; i < count; i++) {
        w->members[i].team = w;
        w->members[i].worker = i;
        if (i == 0)
            continue;
        errno = start_member(w, i, pin);
        if (errno != 0) {
            rc = errno == EINVAL && pin != NULL
                     ? fault_set_errno(fault, RC_USAGE, "cannot pin worker %u to CPU %u", i, pin[i])
                     : fault_set_errno(fault, RC_NO_MEMORY, "cannot start worker %u of %u", i,
                                       count);
            goto fail;
        }
        w->started++;
    }
    set_float_mode();
    *out = w;
    return RC_OK;
fail:
    workers_close(w);
    return rc;
}

void workers_close(struct workers *w)
{
    if (w == NULL)
        return;
    must(w->magic == WORKERS_MAGIC);
    w->fn = NULL;
    gate_open(&w->start, atomic_load(&w->start.word) + 1);
    for (uint32_t i = 1; i < w->started; i++)
        pthread_join(w->members[i].thread, NULL);
    if (w->pinned)
        pthread_setaffinity_np(pthread_self(), sizeof w->affinity, &w->affinity);
    w->magic = 0;
    mem_free(w);
}

uint32_t workers_count(const struct workers *w)
{
    return w->count;
}

void workers_run(struct workers *w, workers_fn *fn, void *ctx)
{
    must(w->magic == WORKERS_MAGIC);
    must(fn != NULL);
    set_float_mode();
    if (w->count == 1) {
        fn(ctx, 0, 1);
        return;
    }
    uint32_t round = atomic_load_explicit(&w->start.word, memory_order_relaxed);
    must(atomic_load_explicit(&w->running, memory_order_relaxed) == 0); /* no run inside a run */
    w->fn = fn;
    w->ctx = ctx;
    atomic_store_explicit(&w->running, w->count - 1, memory_order_relaxed);
    gate_open(&w->start, round + 1);
    fn(ctx, 0, w->count);
    gate_wait(&w->finish, round, w->spin_pauses);
}

void workers_barrier(struct workers *w, uint32_t worker)
{
    must(worker < w->count);
    if (w->count == 1)
        return;
    struct member *m = &w->members[worker];
    uint32_t phase = m->phase++;
    must(atomic_load_explicit(&w->meet.word, memory_order_relaxed) == phase);
    if (atomic_fetch_add(&w->arrived, 1) == w->count - 1) {
        atomic_store_explicit(&w->arrived, 0, memory_order_relaxed);
        gate_open(&w->meet, phase + 1);
    } else {
        gate_wait(&w->meet, phase, w->spin_pauses);
    }
}

void workers_range(uint64_t items, uint32_t grain, uint32_t worker, uint32_t worker_count,
                   uint64_t *begin, uint64_t *end)
{
    must(grain >= 1);
    must(worker < worker_count);
    uint64_t units = items / grain + (items % grain != 0);
    uint64_t share = units / worker_count;
    uint64_t extra = units % worker_count; /* the first `extra` workers get one more */
    uint64_t first = worker * share + (worker < extra ? worker : extra);
    uint64_t last = first + share + (worker < extra);
    *begin = first == units ? items : first * grain;
    *end = last == units ? items : last * grain;
}
