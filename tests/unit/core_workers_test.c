/* SPDX-License-Identifier: MIT */
/* Tests of core/workers: shares, barriers, rounds and sleep. No test looks at a duration. */
#include "tests/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/workers.h"

static struct workers *open_team(uint32_t count, bool spin)
{
    struct workers *w = NULL;
    struct fault fault;
    assert_int_equal(workers_open(&w, count, NULL, spin, &fault), RC_OK);
    assert_int_equal(workers_count(w), count);
    return w;
}

static void test_range_covers_everything_once(void **state)
{
    (void)state;
    static const uint64_t items[] = { 0, 1, 15, 16, 17, 100, 1000, 4096, 1u << 20 };
    static const uint32_t grains[] = { 1, 16, 64, 1000 };
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++) {
            for (uint32_t count = 1; count <= 9; count++) {
                uint64_t next = 0, least = UINT64_MAX, most = 0;
                for (uint32_t worker = 0; worker < count; worker++) {
                    uint64_t begin, end;
                    workers_range(items[i], grains[g], worker, count, &begin, &end);
                    assert_int_equal(begin, next);
                    assert_true(end >= begin);
                    assert_true(begin % grains[g] == 0 || begin == items[i]);
                    uint64_t units = (end - begin + grains[g] - 1) / grains[g];
                    least = units < least ? units : least;
                    most = units > most ? units : most;
                    next = end;
                }
                assert_int_equal(next, items[i]);
                assert_true(most - least <= 1);
            }
        }
    }
}

static void test_range_holds_at_the_top_of_64_bits(void **state)
{
    (void)state;
    uint64_t begin, end, next = 0;
    for (uint32_t worker = 0; worker < 3; worker++) {
        workers_range(UINT64_MAX, 16, worker, 3, &begin, &end);
        assert_int_equal(begin, next);
        assert_true(end > begin);
        next = end;
    }
    assert_true(next == UINT64_MAX);
}

#define STAGES 200u

/* Each stage, every member writes its own cell and reads all the others' of the stage before. */
struct relay {
    struct workers *team;
    uint32_t cells[STAGES + 1][16]; /* plain memory: the barriers alone order it */
    _Atomic uint32_t wrong;
    uint32_t lagging; /* this member gives its processor away now and then */
};

static void run_relay(void *ctx, uint32_t worker, uint32_t count)
{
    struct relay *r = ctx;
    for (uint32_t stage = 1; stage <= STAGES; stage++) {
        for (uint32_t other = 0; other < count; other++)
            if (r->cells[stage - 1][other] != (stage - 1) * 100 + other)
                atomic_fetch_add(&r->wrong, 1);
        r->cells[stage][worker] = stage * 100 + worker;
        if (worker == r->lagging && stage % 16 == 0)
            usleep(100);
        workers_barrier(r->team, worker);
    }
}

static void relay(uint32_t count, bool spin, uint32_t rounds)
{
    struct relay *r = mem_alloc(sizeof *r);
    assert_non_null(r);
    r->team = open_team(count, spin);
    for (uint32_t round = 0; round < rounds; round++) {
        memset(r->cells, 0xff, sizeof r->cells);
        for (uint32_t i = 0; i < 16; i++)
            r->cells[0][i] = i;
        r->lagging = round % (count + 1);
        workers_run(r->team, run_relay, r);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(r->cells[STAGES][i], STAGES * 100 + i);
        if (round % 8 == 0)
            usleep(300); /* longer than the spin: the team is asleep when the next round starts */
    }
    assert_int_equal(r->wrong, 0);
    workers_close(r->team);
    mem_free(r);
}

static void test_barrier_orders_memory_spinning(void **state)
{
    (void)state;
    relay(2, true, 40);
}

static void test_barrier_orders_memory_sleeping(void **state)
{
    (void)state;
    relay(3, false, 10);
}

static void test_barrier_survives_more_members_than_cpus(void **state)
{
    (void)state;
    relay(7, true, 2);
    relay(13, false, 2);
}

static void test_one_worker_needs_no_threads(void **state)
{
    (void)state;
    relay(1, true, 3);
}

struct once {
    _Atomic uint32_t calls[64];
    pthread_t threads[64];
};

static void note_call(void *ctx, uint32_t worker, uint32_t count)
{
    struct once *o = ctx;
    assert_true(worker < count);
    atomic_fetch_add(&o->calls[worker], 1);
    o->threads[worker] = pthread_self();
}

static void test_run_calls_every_worker_once_a_round(void **state)
{
    (void)state;
    struct once o = { 0 };
    struct workers *w = open_team(4, false);
    for (int round = 0; round < 500; round++)
        workers_run(w, note_call, &o);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(o.calls[i], 500);
        for (int k = 0; k < i; k++)
            assert_false(pthread_equal(o.threads[i], o.threads[k]));
    }
    assert_true(pthread_equal(o.threads[0], pthread_self()));
    workers_close(w);
}

struct modes {
    float tiny[8];
    sigset_t masks[8];
};

/* Half the smallest normal float: zero where denormals are flushed. */
static void note_mode(void *ctx, uint32_t worker, uint32_t count)
{
    (void)count;
    struct modes *m = ctx;
    volatile float least = 0x1p-126f;
    m->tiny[worker] = least * 0.5f;
    pthread_sigmask(SIG_SETMASK, NULL, &m->masks[worker]);
}

static void test_every_worker_keeps_denormals(void **state)
{
    (void)state;
    struct modes m = { 0 };
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(0x1f80u | 0x8040u); /* what a library built for speed leaves behind */
#endif
    struct workers *w = open_team(3, true);
    workers_run(w, note_mode, &m);
    for (int i = 0; i < 3; i++)
        assert_true(m.tiny[i] == 0x1p-127f);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(0x1f80u | 0x8040u);
    workers_run(w, note_mode, &m);
    assert_true(m.tiny[0] == 0x1p-127f);
#endif
    for (int i = 1; i < 3; i++) {
        assert_true(sigismember(&m.masks[i], SIGTERM));
        assert_false(sigismember(&m.masks[i], SIGBUS));
    }
    assert_false(sigismember(&m.masks[0], SIGTERM));
    workers_close(w);
}

static void note_cpu(void *ctx, uint32_t worker, uint32_t count)
{
    (void)count;
    cpu_set_t *sets = ctx;
    pthread_getaffinity_np(pthread_self(), sizeof sets[worker], &sets[worker]);
}

static void test_pinning_is_done_and_undone(void **state)
{
    (void)state;
    cpu_set_t before, after, seen[2];
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    uint32_t cpus[2], found = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &before))
            cpus[found++] = cpu;
    if (found == 1)
        cpus[1] = cpus[0];
    struct workers *w;
    struct fault fault;
    assert_int_equal(workers_open(&w, 2, cpus, false, &fault), RC_OK);
    workers_run(w, note_cpu, seen);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(CPU_COUNT(&seen[i]), 1);
        assert_true(CPU_ISSET(cpus[i], &seen[i]));
    }
    workers_close(w);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void test_open_refuses_what_cannot_be(void **state)
{
    (void)state;
    struct workers *w;
    struct fault fault;
    size_t live = mem_live_bytes();
    assert_int_equal(workers_open(&w, 100000, NULL, false, &fault), RC_USAGE);
    assert_null(w);
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    uint32_t first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    uint32_t far[2] = { first, 1023 }, beyond[2] = { first, 5000000 };
    if (!CPU_ISSET(1023, &before))
        assert_int_equal(workers_open(&w, 2, far, false, &fault), RC_USAGE);
    assert_int_equal(workers_open(&w, 2, beyond, false, &fault), RC_USAGE);
    assert_non_null(strstr(fault.text, "5000000"));
    mem_fail_after(1);
    assert_int_equal(workers_open(&w, 2, NULL, false, &fault), RC_NO_MEMORY);
    workers_close(NULL);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(mem_live_bytes(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_covers_everything_once),
        cmocka_unit_test(test_range_holds_at_the_top_of_64_bits),
        cmocka_unit_test(test_barrier_orders_memory_spinning),
        cmocka_unit_test(test_barrier_orders_memory_sleeping),
        cmocka_unit_test(test_barrier_survives_more_members_than_cpus),
        cmocka_unit_test(test_one_worker_needs_no_threads),
        cmocka_unit_test(test_run_calls_every_worker_once_a_round),
        cmocka_unit_test(test_every_worker_keeps_denormals),
        cmocka_unit_test(test_pinning_is_done_and_undone),
        cmocka_unit_test(test_open_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
