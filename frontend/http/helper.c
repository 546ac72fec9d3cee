/* SPDX-License-Identifier: MIT */
/* helper - two threads, one for short items and one for long ones, each with a ring in front of it;
 * both push what they have done into a third ring. */
#include "frontend/http/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/ring.h"

#define LONG_BYTES 65536u /* an item of so much work goes to the second thread */
#define IDLE_US 60000000u /* a helper without work looks around once a minute */
#define STACK_BYTES (1u << 20)

struct helper_lane {
    struct helper *helper;
    struct ring *ring;
    pthread_t thread;
    bool started;
};

struct helper {
    struct helper_config config;
    struct ring *done;
    struct helper_lane lanes[2];
    atomic_bool stop;
};

static void *lane_main(void *arg)
{
    struct helper_lane *lane = arg;
    struct helper *h = lane->helper;
    while (!atomic_load_explicit(&h->stop, memory_order_acquire)) {
        void *item = ring_pop(lane->ring);
        if (item == NULL) {
            ring_wait(lane->ring, IDLE_US);
            continue;
        }
        h->config.work(item);
        enum rc rc = ring_push(h->done, item);
        must(rc == RC_OK); /* a place for every item */
        h->config.done(h->config.ctx);
    }
    return NULL;
}

static int start_lane(struct helper_lane *lane)
{
    pthread_attr_t attr;
    sigset_t all, before;
    must(pthread_attr_init(&attr) == 0);
    must(pthread_attr_setstacksize(&attr, STACK_BYTES) == 0);
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* interrupt_guard_files */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&lane->thread, &attr, lane_main, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    lane->started = error == 0;
    return error;
}

enum rc helper_open(struct helper **out, const struct helper_config *config, struct fault *fault)
{
    uint32_t capacity = 2;
    while (capacity < config->capacity)
        capacity *= 2;
    *out = NULL;
    struct helper *h = mem_alloc(sizeof *h);
    if (h == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    h->config = *config;
    enum rc rc = ring_open(&h->done, capacity);
    for (int i = 0; i < 2 && rc == RC_OK; i++) {
        h->lanes[i].helper = h;
        rc = ring_open(&h->lanes[i].ring, capacity);
        if (rc == RC_OK && start_lane(&h->lanes[i]) != 0)
            rc = RC_NO_MEMORY;
    }
    if (rc != RC_OK) {
        helper_close(h);
        return fault_set(fault, rc, "the helper threads cannot be started");
    }
    *out = h;
    return RC_OK;
}

void helper_close(struct helper *h)
{
    if (h == NULL)
        return;
    atomic_store_explicit(&h->stop, true, memory_order_release);
    for (int i = 0; i < 2; i++) {
        if (h->lanes[i].started) {
            ring_wake(h->lanes[i].ring);
            must(pthread_join(h->lanes[i].thread, NULL) == 0);
        }
        ring_close(h->lanes[i].ring);
    }
    ring_close(h->done);
    mem_free(h);
}

void helper_post(struct helper *h, void *item, size_t bytes)
{
    enum rc rc = ring_push(h->lanes[bytes >= LONG_BYTES].ring, item);
    must(rc == RC_OK);
}

void *helper_take(struct helper *h)
{
    return ring_pop(h->done);
}
