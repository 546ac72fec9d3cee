/* SPDX-License-Identifier: MIT */
/* Stress of the rings between submitters, scheduler and consumer, to be run under
 * ThreadSanitizer as well: one scheduler thread, three that submit and cancel, one that reads
 * and releases. Every accepted request ends once; nothing is left. */
#include "tests/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "core/mem.h"
#include "core/rng.h"
#include "sched/sched.h"
#include "tests/sim/symbolic.h"

#define SUBMITTERS 3u
#define EACH (QUIRE_SLOW_CHECKS ? 2000u : 34000u) /* rounds; some are requests of several choices */
#define WARM 10000u /* requests after which private memory has its size */
#define GROWTH_KIB 1024u
#define BLOCKS 40u

/* A request is handed to its consumer by the scheduler, so a submitter may cancel only while the
 * consumer cannot have released it: user points here, and the consumer waits for done. */
struct handle {
    atomic_bool done;
};

struct stress {
    struct symbolic symbolic;
    struct kvpool *pool;
    struct sched *sched;
    _Atomic uint64_t accepted, cancels;
    atomic_uint submitters_left, submitters_begun;
    struct handle handles[SUBMITTERS][256];
    uint64_t finished, tokens; /* the consumer's */
    uint64_t private_kib;      /* when WARM requests have ended */
};

static void submit_one(struct stress *t, struct rng *rng, struct handle *h)
{
    int32_t prompt[80];
    struct request_params p = { .prompt = prompt, .sampling = sampling_default(), .user = h };
    p.prompt_count = 1 + (uint32_t)rng_below(rng, 80);
    p.max_tokens = (uint32_t)rng_below(rng, 20);
    for (uint32_t i = 0; i < p.prompt_count; i++)
        prompt[i] = (int32_t)rng_below(rng, 50);
    struct request *r[4];
    enum rc rc;
    uint32_t count = rng_below(rng, 8) == 0 ? 4 : 1;
    atomic_store(&h->done, false);
    while ((rc = sched_submit_group(r, count, t->sched, &p, NULL)) == RC_FULL)
        sched_yield();
    assert_int_equal(rc, RC_OK);
    atomic_fetch_add(&t->accepted, count);
    if (rng_below(rng, 3) == 0) {
        for (uint64_t spin = rng_below(rng, 2000); spin > 0; spin--)
            atomic_load(&t->cancels);
        for (uint32_t i = 0; i < count; i++)
            request_cancel(r[i]);
        atomic_fetch_add(&t->cancels, count);
    }
    atomic_store(&h->done, true);
}

static void *submitter(void *ctx)
{
    struct stress *t = ctx;
    uint32_t self = atomic_fetch_add(&t->submitters_begun, 1);
    struct rng rng = rng_seeded(self);
    for (uint32_t i = 0; i < EACH; i++)
        submit_one(t, &rng, &t->handles[self][i % 256]);
    atomic_fetch_sub(&t->submitters_left, 1);
    return NULL;
}

static void *scheduler(void *ctx)
{
    struct stress *t = ctx;
    sched_run(t->sched);
    return NULL;
}

/* RssAnon and VmSwap of this process. */
static uint64_t private_kib(void)
{
    char line[128];
    unsigned long kib, sum = 0;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "RssAnon: %lu", &kib) == 1 || sscanf(line, "VmSwap: %lu", &kib) == 1)
            sum += kib;
    assert_int_equal(fclose(f), 0);
    return sum;
}

static void consume(struct stress *t)
{
    while (atomic_load(&t->submitters_left) > 0 || t->finished < atomic_load(&t->accepted)) {
        struct request *r = sched_next_event(t->sched, 1000);
        if (r == NULL || request_finish(r) == FINISH_NONE)
            continue;
        struct handle *h = request_user(r);
        while (!atomic_load(&h->done))
            sched_yield();
        t->tokens += request_output_count(r);
        for (uint32_t i = 0; i < request_output_count(r); i++)
            assert_in_range(request_token(r, i), 0, 49);
        if (++t->finished == WARM)
            t->private_kib = private_kib();
        sched_release(t->sched, r);
    }
}

static void test_rings_and_cancels_under_load(void **state)
{
    (void)state;
    static struct stress t;
    size_t before = mem_live_bytes();
    struct executor_limits limits = {
        .rows_max = 64, .outputs_max = 32, .vocab_count = 50, .ctx_max = 200
    };
    struct sched_config config = {
        .ctx_tokens = 200, .rows_max = 16, .chunk_tokens = 16, .requests_max = 64
    };
    assert_int_equal(symbolic_open(&t.symbolic, BLOCKS, &limits), RC_OK);
    assert_int_equal(kvpool_open(&t.pool, BLOCKS, 0, NULL), RC_OK);
    assert_int_equal(
        sched_open(&t.sched, &config, t.pool, symbolic_executor(&t.symbolic), clock_real(), NULL),
        RC_OK);
    atomic_store(&t.submitters_left, SUBMITTERS);
    pthread_t threads[SUBMITTERS + 1];
    assert_int_equal(pthread_create(&threads[SUBMITTERS], NULL, scheduler, &t), 0);
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submitter, &t), 0);
    consume(&t);
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    sched_stop(t.sched);
    pthread_join(threads[SUBMITTERS], NULL);

    struct sched_stats st = sched_stats_get(t.sched);
    assert_int_equal(t.finished, t.accepted);
    assert_true(t.finished >= SUBMITTERS * EACH);
    if (!QUIRE_SLOW_CHECKS)
        assert_in_range(private_kib(), 0, t.private_kib + GROWTH_KIB);
    assert_int_equal(st.finished + st.cancelled, st.submitted);
    assert_true(st.cancelled > 0 && t.tokens > 0);
    assert_int_equal(st.failed, 0);
    assert_int_equal(t.symbolic.violation.code, RC_OK);
    assert_int_equal(kvpool_free_count(t.pool) + kvpool_cached_count(t.pool), BLOCKS);
    sched_close(t.sched);
    kvpool_close(t.pool);
    symbolic_close(&t.symbolic);
    assert_int_equal(mem_live_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rings_and_cancels_under_load) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
