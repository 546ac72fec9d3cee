/* SPDX-License-Identifier: MIT */
/* Tests of core/ring: order, fullness, laps, and waits that must end. */
#include "tests/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/ring.h"

static struct ring *open_ring(uint32_t capacity)
{
    struct ring *r = NULL;
    assert_int_equal(ring_open(&r, capacity), RC_OK);
    return r;
}

static void test_ring_is_first_in_first_out_over_laps(void **state)
{
    (void)state;
    struct ring *r = open_ring(4);
    char items[100];
    assert_null(ring_pop(r));
    int in = 0, out = 0;
    while (out < 100) {
        for (int burst = 1 + in % 3; burst > 0 && in < 100; burst--)
            if (ring_push(r, &items[in]) == RC_OK)
                in++;
        assert_ptr_equal(ring_pop(r), &items[out]);
        out++;
    }
    assert_null(ring_pop(r));
    ring_close(r);
}

static void test_ring_says_full_at_capacity(void **state)
{
    (void)state;
    struct ring *r = open_ring(2);
    char items[3];
    assert_int_equal(ring_push(r, &items[0]), RC_OK);
    assert_int_equal(ring_push(r, &items[1]), RC_OK);
    assert_int_equal(ring_push(r, &items[2]), RC_FULL);
    assert_ptr_equal(ring_pop(r), &items[0]);
    assert_int_equal(ring_push(r, &items[2]), RC_OK);
    assert_int_equal(ring_push(r, &items[0]), RC_FULL);
    assert_ptr_equal(ring_pop(r), &items[1]);
    assert_ptr_equal(ring_pop(r), &items[2]);
    ring_close(r);
}

static void test_ring_wait_returns_with_an_item_and_keeps_it(void **state)
{
    (void)state;
    struct ring *r = open_ring(2);
    char item;
    assert_int_equal(ring_push(r, &item), RC_OK);
    ring_wait(r, UINT64_MAX);
    ring_wait(r, UINT64_MAX);
    assert_ptr_equal(ring_pop(r), &item);
    ring_close(r);
}

static void test_ring_wake_before_the_wait_ends_one_wait(void **state)
{
    (void)state;
    struct ring *r = open_ring(2);
    ring_wake(r);
    ring_wake(r);
    ring_wait(r, UINT64_MAX); /* would hang if the wake were lost */
    struct clock clock = clock_real();
    uint64_t begin_us = clock_now_us(&clock);
    ring_wait(r, 2000); /* both wakes are spent: this one runs out */
    assert_true(clock_now_us(&clock) - begin_us >= 1900);
    ring_wait(r, 0);
    ring_close(r);
}

static struct ring *alarmed;

static void on_alarm(int number)
{
    (void)number;
    ring_wake(alarmed);
}

static void test_ring_wake_works_from_a_signal_handler(void **state)
{
    (void)state;
    struct ring *r = alarmed = open_ring(2);
    struct sigaction action = { .sa_handler = on_alarm }, before;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (int i = 0; i < 20; i++) {
        struct itimerval soon = { .it_value = { .tv_usec = 1 + i * 50 } };
        assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
        ring_wait(r, UINT64_MAX);
    }
    sigaction(SIGALRM, &before, NULL);
    ring_close(r);
}

#define PRODUCERS 3u
#define EACH 20000u

struct message {
    uint32_t producer;
    uint32_t number;
};

struct producer {
    struct ring *ring;
    struct message messages[EACH];
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (uint32_t i = 0; i < EACH; i++)
        while (ring_push(p->ring, &p->messages[i]) != RC_OK)
            sched_yield();
    return NULL;
}

static void test_ring_loses_nothing_between_threads(void **state)
{
    (void)state;
    struct ring *r = open_ring(64);
    struct producer *producers = mem_alloc_array(PRODUCERS, sizeof *producers);
    assert_non_null(producers);
    pthread_t threads[PRODUCERS];
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        producers[p].ring = r;
        for (uint32_t i = 0; i < EACH; i++)
            producers[p].messages[i] = (struct message){ p, i };
        assert_int_equal(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    uint32_t next[PRODUCERS] = { 0 };
    for (uint32_t taken = 0; taken < PRODUCERS * EACH;) {
        struct message *m = ring_pop(r);
        if (m == NULL) {
            ring_wait(r, UINT64_MAX); /* a lost wake-up hangs here */
            continue;
        }
        assert_true(m->producer < PRODUCERS);
        assert_int_equal(m->number, next[m->producer]);
        next[m->producer]++;
        taken++;
    }
    for (uint32_t p = 0; p < PRODUCERS; p++)
        pthread_join(threads[p], NULL);
    assert_null(ring_pop(r));
    mem_free(producers);
    ring_close(r);
}

#define TURNS 5000u

struct pair {
    struct ring *to, *from;
};

static void *echo(void *arg)
{
    struct pair *p = arg;
    for (uint32_t i = 0; i < TURNS;) {
        void *item = ring_pop(p->to);
        if (item == NULL) {
            ring_wait(p->to, UINT64_MAX);
            continue;
        }
        if (ring_push(p->from, item) != RC_OK)
            return p; /* full cannot be: one item goes round */
        i++;
    }
    return NULL;
}

/* Both sides sleep nearly every time: each turn is a chance to lose a wake-up. */
static void test_ring_ping_pong_never_hangs(void **state)
{
    (void)state;
    struct pair p = { open_ring(2), open_ring(2) };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, echo, &p), 0);
    char item;
    for (uint32_t i = 0; i < TURNS; i++) {
        assert_int_equal(ring_push(p.to, &item), RC_OK);
        void *back;
        while ((back = ring_pop(p.from)) == NULL)
            ring_wait(p.from, UINT64_MAX);
        assert_ptr_equal(back, &item);
    }
    void *trouble;
    pthread_join(thread, &trouble);
    assert_null(trouble);
    ring_close(p.to);
    ring_close(p.from);
}

static void test_ring_open_fails_whole(void **state)
{
    (void)state;
    size_t live = mem_live_bytes();
    for (uint64_t n = 1; n <= 2; n++) {
        struct ring *r;
        mem_fail_after(n);
        assert_int_equal(ring_open(&r, 8), RC_NO_MEMORY);
        assert_null(r);
    }
    ring_close(NULL);
    assert_int_equal(mem_live_bytes(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_is_first_in_first_out_over_laps),
        cmocka_unit_test(test_ring_says_full_at_capacity),
        cmocka_unit_test(test_ring_wait_returns_with_an_item_and_keeps_it),
        cmocka_unit_test(test_ring_wake_before_the_wait_ends_one_wait),
        cmocka_unit_test(test_ring_wake_works_from_a_signal_handler),
        cmocka_unit_test(test_ring_loses_nothing_between_threads),
        cmocka_unit_test(test_ring_ping_pong_never_hangs),
        cmocka_unit_test(test_ring_open_fails_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
