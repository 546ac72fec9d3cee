/* SPDX-License-Identifier: MIT */
/* Tests of core/lock: exclusion, holders, conditions, and misuse that must end the process. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lock.h"

#define THREADS 4
#define TIMES 5000u

struct account {
    struct lock lock;
    struct lock_condition changed;
    uint64_t value; /* plain: the lock alone protects it */
};

static void open_account(struct account *a)
{
    *a = (struct account){ 0 };
    lock_open(&a->lock, LOCK_INNER);
    lock_condition_open(&a->changed);
}

static void close_account(struct account *a)
{
    lock_condition_close(&a->changed);
    lock_close(&a->lock);
}

static void *add_many(void *arg)
{
    struct account *a = arg;
    for (uint32_t i = 0; i < TIMES; i++) {
        lock_take(&a->lock);
        a->value++;
        lock_give(&a->lock);
    }
    return NULL;
}

static void test_lock_excludes(void **state)
{
    (void)state;
    struct account a;
    open_account(&a);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &a), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(a.value, THREADS * TIMES);
    close_account(&a);
}

static void *ask_holder(void *arg)
{
    struct account *a = arg;
    return lock_is_held(&a->lock) ? a : NULL;
}

static void test_lock_knows_its_holder(void **state)
{
    (void)state;
    struct account a;
    open_account(&a);
    assert_false(lock_is_held(&a.lock));
    lock_take(&a.lock);
    lock_must_hold(&a.lock);
    pthread_t thread;
    void *held_there;
    assert_int_equal(pthread_create(&thread, NULL, ask_holder, &a), 0);
    pthread_join(thread, &held_there);
    assert_null(held_there);
    lock_give(&a.lock);
    assert_false(lock_is_held(&a.lock));
    close_account(&a);
}

static void *count_up(void *arg)
{
    struct account *a = arg;
    lock_take(&a->lock);
    while (a->value < 200) {
        while (a->value % 2 == 0)
            lock_condition_wait(&a->changed, &a->lock, UINT64_MAX);
        lock_must_hold(&a->lock);
        a->value++;
        lock_condition_wake(&a->changed, &a->lock);
    }
    lock_give(&a->lock);
    return NULL;
}

/* Two threads raise a number in turn: each step needs the other's wake. */
static void test_condition_hands_over(void **state)
{
    (void)state;
    struct account a;
    open_account(&a);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, count_up, &a), 0);
    lock_take(&a.lock);
    while (a.value < 200) {
        a.value++;
        lock_condition_wake(&a.changed, &a.lock);
        while (a.value % 2 == 1)
            lock_condition_wait(&a.changed, &a.lock, UINT64_MAX);
    }
    assert_int_equal(a.value, 200);
    lock_give(&a.lock);
    pthread_join(thread, NULL);
    lock_take(&a.lock);
    assert_false(lock_condition_wait(&a.changed, &a.lock, 1000)); /* nobody is left to wake us */
    lock_must_hold(&a.lock);
    lock_give(&a.lock);
    close_account(&a);
}

static void test_locks_nest_in_rising_rank(void **state)
{
    (void)state;
    struct lock outer, leaf;
    lock_open(&outer, LOCK_OUTER);
    lock_open(&leaf, LOCK_LEAF);
    for (int i = 0; i < 3; i++) {
        lock_take(&outer);
        lock_take(&leaf);
        if (i % 2 == 0) {
            lock_give(&leaf);
            lock_give(&outer);
        } else {
            lock_give(&outer); /* giving in any order is fine */
            lock_give(&leaf);
        }
    }
    lock_close(&outer);
    lock_close(&leaf);
}

static void give_what_is_free(void)
{
    struct lock l;
    lock_open(&l, LOCK_LEAF);
    lock_give(&l);
}

static void take_twice(void)
{
    struct lock l;
    lock_open(&l, LOCK_LEAF);
    lock_take(&l);
    lock_take(&l);
}

static void close_while_held(void)
{
    struct lock l;
    lock_open(&l, LOCK_LEAF);
    lock_take(&l);
    lock_close(&l);
}

static void wait_without_holding(void)
{
    struct account a;
    open_account(&a);
    lock_condition_wait(&a.changed, &a.lock, 1000);
}

#if QUIRE_SLOW_CHECKS
static void take_in_falling_rank(void)
{
    struct lock outer, leaf;
    lock_open(&outer, LOCK_OUTER);
    lock_open(&leaf, LOCK_LEAF);
    lock_take(&leaf);
    lock_take(&outer);
}
#endif

/* Whether fn ends its process with an abort. */
static bool aborts(void (*fn)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        int silent = open("/dev/null", O_WRONLY);
        dup2(silent, STDERR_FILENO);
        fn();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_true(aborts(give_what_is_free));
    assert_true(aborts(take_twice));
    assert_true(aborts(close_while_held));
    assert_true(aborts(wait_without_holding));
#if QUIRE_SLOW_CHECKS
    assert_true(aborts(take_in_falling_rank));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_excludes),
        cmocka_unit_test(test_lock_knows_its_holder),
        cmocka_unit_test(test_condition_hands_over),
        cmocka_unit_test(test_locks_nest_in_rising_rank),
        cmocka_unit_test(test_misuse_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
