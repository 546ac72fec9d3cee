/* SPDX-License-Identifier: MIT */
/* sched - the loop: drain the inbox, plan, run, commit.
 *
 *   submitters --inbox ring--> [queue] -> [running] --event ring--> one consumer
 *                                  ^          |
 *                                  +- preempt-+
 *
 * One thread owns queue, running list, sequences and pool; there is no lock on the way of a
 * step. A step is planned completely, frozen, run, then committed: nothing is half done between
 * two steps, so a cancel or an audit there finds a whole state. Refused: planning the next step
 * while this one runs (placeholder tokens, deferred frees; it would hide some microseconds of
 * planning behind milliseconds of compute). */
#include <stdio.h>

#include "core/mem.h"
#include "core/must.h"
#include "kvpool/audit.h"
#include "sched/journal.h"
#include "sched/record.h"

#define IDLE_WAIT_US 1000000u /* a sleeping scheduler looks around once a second */
#define TIDY_BESIDE 2u /* blocks on their way to a file for the next process, beside a step */
#define PATIENCE_US 30000000u /* who waits longer goes before everybody, if nothing else is said */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t next_power_of_two(uint32_t n)
{
    uint32_t power = 2;
    while (power < n)
        power *= 2;
    return power;
}

static enum rc check_config(const struct sched_config *c, const struct executor_limits *l,
                            struct fault *fault)
{
    if (c->ctx_tokens == 0 || c->ctx_tokens > CTX_TOKENS_MAX)
        return fault_set(fault, RC_INVALID, "context of %u tokens is not in 1..%u", c->ctx_tokens,
                         CTX_TOKENS_MAX);
    if (c->rows_max == 0 || c->rows_max > l->rows_max || c->rows_max > l->outputs_max)
        return fault_set(fault, RC_INVALID, "%u sequences at once is not in 1..%u", c->rows_max,
                         min_u32(l->rows_max, l->outputs_max));
    if (c->chunk_tokens == 0)
        return fault_set(fault, RC_INVALID, "prefill chunk of 0 tokens");
    if (c->requests_max == 0 || c->requests_max > REQUESTS_MAX)
        return fault_set(fault, RC_INVALID, "%u requests is not in 1..%u", c->requests_max,
                         REQUESTS_MAX);
    return RC_OK;
}

static enum rc open_memory(struct sched *s)
{
    const struct executor_limits *l = &s->executor.limits;
    s->running = mem_alloc_array(s->config.rows_max, sizeof(struct request *));
    s->results = mem_alloc_array(l->outputs_max, sizeof *s->results);
    s->forecast = mem_alloc_array(s->config.rows_max, sizeof *s->forecast);
    s->prompts = mem_alloc_array(s->config.rows_max, sizeof(struct request *));
    if (s->running == NULL || s->results == NULL || s->forecast == NULL || s->prompts == NULL ||
        arena_open(&s->arena, plan_arena_bytes(s)) != RC_OK)
        return RC_NO_MEMORY;
    uint32_t entries = next_power_of_two(s->config.requests_max);
    if (ring_open(&s->inbox, 2 * entries) != RC_OK || ring_open(&s->events, entries) != RC_OK)
        return RC_NO_MEMORY;
    return RC_OK;
}

enum rc sched_open(struct sched **out, const struct sched_config *config, struct kvpool *pool,
                   struct executor executor, struct clock clock, struct fault *fault)
{
    *out = NULL;
    enum rc rc = check_config(config, &executor.limits, fault);
    if (rc == RC_OK && kv_blocks_for(config->pin_tokens) >= kvpool_block_count(pool))
        rc = fault_set(fault, RC_INVALID, "pins of %u tokens leave nothing of a KV pool of %u",
                       config->pin_tokens, kvpool_block_count(pool) * KV_BLOCK_TOKENS);
    if (rc != RC_OK)
        return rc;
    struct sched *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return fault_set(fault, RC_NO_MEMORY, "scheduler: out of memory");
    s->magic = SCHED_MAGIC;
    s->config = *config;
    if (s->config.step_prefill_tokens == 0)
        s->config.step_prefill_tokens = config->chunk_tokens;
    if (s->config.patience_us == 0)
        s->config.patience_us = PATIENCE_US;
    s->pool = pool;
    s->executor = executor;
    s->clock = s->step_clock = clock;
    if (config->journal != NULL) {
        s->executor = journal_executor(config->journal, executor);
        s->step_clock = journal_clock(config->journal, clock);
    }
    cost_open(&s->cost);
    kvpool_keep_cached(pool, !config->no_prefix_cache);
    uint64_t pool_tokens =
        (uint64_t)(kvpool_block_count(pool) - kv_blocks_for(config->pin_tokens)) * KV_BLOCK_TOKENS;
    s->pin_tokens = config->pin_tokens;
    s->ctx_tokens = min_u32(config->ctx_tokens, executor.limits.ctx_max);
    if (s->ctx_tokens > pool_tokens)
        s->ctx_tokens = (uint32_t)pool_tokens;
    int failed = pthread_mutex_init(&s->registry_lock, NULL);
    must(failed == 0); /* Linux: never */
    rc = open_memory(s);
    if (rc != RC_OK) {
        sched_close(s);
        return fault_set(fault, rc, "scheduler: out of memory");
    }
    stats_publish(s);
    *out = s;
    return RC_OK;
}

void sched_close(struct sched *s)
{
    if (s == NULL)
        return;
    must(s->magic == SCHED_MAGIC);
    s->magic = 0;
    while (s->registry != NULL) {
        struct request *r = s->registry;
        s->registry = r->registry_next;
        if (r->seq.state == SEQ_RUNNING || r->seq.state == SEQ_PINNED)
            table_truncate(&r->seq.table, s->pool, 0);
        request_free(r);
    }
    ring_close(s->events);
    ring_close(s->inbox);
    arena_close(&s->arena);
    mem_free(s->prompts);
    mem_free(s->forecast);
    mem_free(s->results);
    mem_free(s->running);
    pthread_mutex_destroy(&s->registry_lock);
    mem_free(s);
}

/* Takes places among the live records: all or none. */
static bool registry_reserve(struct sched *s, uint32_t count)
{
    pthread_mutex_lock(&s->registry_lock);
    bool room = count <= s->config.requests_max - s->registry_count;
    s->registry_count += room ? count : 0;
    pthread_mutex_unlock(&s->registry_lock);
    return room;
}

static void registry_return(struct sched *s, uint32_t count)
{
    pthread_mutex_lock(&s->registry_lock);
    s->registry_count -= count;
    pthread_mutex_unlock(&s->registry_lock);
}

/* Whether r, a pin, is within the limits beside those that have not ended. Under the lock. */
static enum rc pin_fits(const struct sched *s, const struct request *r, struct fault *fault)
{
    uint64_t all = 0, own = 0;
    uint32_t wanted = sequence_pin_blocks(r) * KV_BLOCK_TOKENS;
    uint32_t most = s->config.pin_tenant_tokens > 0 ? s->config.pin_tenant_tokens : s->pin_tokens;
    for (const struct request *o = s->registry; o != NULL; o = o->registry_next) {
        uint32_t held = o->params.pin ? sequence_pin_blocks(o) * KV_BLOCK_TOKENS : 0;
        if (held == 0 || request_finish(o) != FINISH_NONE)
            continue;
        all += held;
        own += o->params.tenant == r->params.tenant ? held : 0;
    }
    if (own + wanted > most)
        return fault_set(fault, RC_LIMIT,
                         "pin of %u tokens: the tenant holds %u of the %u that it may", wanted,
                         (uint32_t)own, most);
    if (all + wanted > s->pin_tokens)
        return fault_set(fault, RC_LIMIT, "pin of %u tokens: %u of the %u for all pins are taken",
                         wanted, (uint32_t)all, s->pin_tokens);
    return RC_OK;
}

static enum rc registry_add(struct sched *s, struct request *r, struct fault *fault)
{
    pthread_mutex_lock(&s->registry_lock);
    enum rc rc = r->params.pin ? pin_fits(s, r, fault) : RC_OK;
    if (rc == RC_OK) {
        r->registry_next = s->registry;
        if (s->registry != NULL)
            s->registry->registry_prev = r;
        s->registry = r;
    }
    pthread_mutex_unlock(&s->registry_lock);
    return rc;
}

/* Choice i of a group: one prompt, one place in the prefix cache, a draw of its own. */
static enum rc make_choice(struct request **out, struct sched *s,
                           const struct request_params *params, uint32_t i, uint64_t salt,
                           struct fault *fault)
{
    struct request_params p = *params;
    p.sampling.choice += i;
    if (i > 0) { /* the prompt is scored, and told of, once */
        p.prompt_logprobs = false;
        p.on_logits = NULL;
        p.on_hidden = NULL;
        p.progress = false;
    }
    if (s->config.no_prefix_cache)
        p.cache_salt = salt;
    return request_make(out, s, &p, fault);
}

enum rc sched_submit_group(struct request **out, uint32_t count, struct sched *s,
                           const struct request_params *params, struct fault *fault)
{
    must(s->magic == SCHED_MAGIC);
    must(count > 0);
    if (params->pin && count > 1)
        return fault_set(fault, RC_INVALID, "pin: %u choices, one is possible", count);
    if (!registry_reserve(s, count))
        return fault_set(fault, RC_FULL, "no room for %u more requests: at most %u may be live",
                         count, s->config.requests_max);
    uint64_t salt = atomic_fetch_add_explicit(&s->salt_next, 1, memory_order_relaxed);
    enum rc rc = RC_OK;
    uint32_t made = 0, added = 0;
    while (rc == RC_OK && made < count) {
        rc = make_choice(&out[made], s, params, made, salt, fault);
        made += rc == RC_OK;
    }
    while (rc == RC_OK && added < count) {
        rc = registry_add(s, out[added], fault);
        added += rc == RC_OK; /* one that may be refused comes alone */
    }
    if (rc != RC_OK) {
        while (made > 0)
            request_free(out[--made]);
        registry_return(s, count);
        count_up(&s->counters.refused, 1);
        return rc;
    }
    count_up(&s->counters.submitted, count);
    for (uint32_t i = 0; i < count; i++) {
        rc = ring_push(s->inbox, out[i]);
        must(rc == RC_OK); /* two entries for every record: itself and one cancel notice */
    }
    return RC_OK;
}

enum rc sched_submit(struct request **out, struct sched *s, const struct request_params *params,
                     struct fault *fault)
{
    *out = NULL;
    return sched_submit_group(out, 1, s, params, fault);
}

static void take_new(struct sched *s, struct request *r, bool cancelled)
{
    uint64_t arrival_us = atomic_load_explicit(&r->arrival_us, memory_order_relaxed);
    if (s->config.journal != NULL)
        journal_note_request(s->config.journal, &r->params, arrival_us, r->salt, cancelled);
    if (s->now_us < arrival_us)
        s->now_us = arrival_us; /* it came after the step had begun */
    r->seq.order = s->order_next++;
}

/* What others do not compute again from is worth less than weights that every step reads. */
static void give_back(struct sched *s)
{
    if (!atomic_load_explicit(&s->relieve, memory_order_relaxed) ||
        !atomic_exchange_explicit(&s->relieve, false, memory_order_acquire))
        return;
    if (s->config.journal != NULL)
        journal_note_relief(s->config.journal);
    count_up(&s->counters.relieved_blocks, kvpool_relieve(s->pool));
}

/* New requests and cancel notices, in the order they came. */
static void drain_inbox(struct sched *s)
{
    struct request *r;
    while ((r = ring_pop(s->inbox)) != NULL) {
        bool notice = r->seq.state != SEQ_NEW, cancelled = request_cancelled(r);
        if (!notice)
            take_new(s, r, cancelled);
        else if (s->config.journal != NULL)
            journal_note_cancel(s->config.journal, r->seq.order);
        if (r->seq.state != SEQ_DONE && cancelled)
            sequence_finish(s, r, FINISH_CANCELLED, RC_OK);
        else if (!notice)
            sequence_wait(s, r);
        if (notice)
            request_drop(r);
    }
    give_back(s);
    if (s->config.journal != NULL)
        journal_note_step(s->config.journal);
}

static enum rc run_plan(struct sched *s, const struct plan *plan)
{
    uint64_t begin_us = clock_now_us(&s->step_clock);
    enum rc rc = s->executor.run(s->executor.ctx, &plan->batch, s->results);
    uint64_t plan_us = begin_us - s->now_us;
    s->now_us = clock_now_us(&s->step_clock);
    uint64_t us = s->now_us - begin_us;
    atomic_store_explicit(&s->counters.step_us, (uint32_t)us, memory_order_relaxed);
    count_up(&s->counters.engine_us, us);
    count_up(&s->counters.plan_us, plan_us);
    fair_charge(s, plan, us);
    if (rc == RC_OK) {
        struct executor_pace pace = { 0 };
        if (s->executor.pace != NULL)
            pace = s->executor.pace(s->executor.ctx);
        s->read_us = pace.read_us;
        us -= pace.wait_us < us ? pace.wait_us : us; /* rows cost what they compute */
        cost_observe(&s->cost, plan->batch.row_count, plan->pairs, us);
        store_set_token_us(s->pool, cost_token_us(&s->cost));
    }
    return rc;
}

/* --audit: a broken invariant is a wrong program. */
static void audit_or_die(struct sched *s)
{
    struct fault fault = { 0 };
    enum rc rc = sched_audit(s, &fault);
    if (rc != RC_OK)
        fprintf(stderr, "audit after step %llu: %s\n", (unsigned long long)s->step, fault.text);
    must(rc == RC_OK);
}

bool sched_step(struct sched *s)
{
    must(s->magic == SCHED_MAGIC);
    s->now_us = clock_now_us(&s->step_clock);
    drain_inbox(s);
    store_poll(s->pool, false);
    admit_expire(s);
    size_t mark = arena_mark(&s->arena);
    struct plan plan;
    bool planned = plan_step(s, &plan);
    if (planned) {
        enum rc rc = run_plan(s, &plan);
        for (uint32_t i = 0; i < plan.batch.copy_count; i++)
            prefix_copied(s->pool, plan.batch.copies[i].src_block);
        commit_step(s, &plan, rc);
        s->step++;
        count_up(&s->counters.steps, 1);
    }
    arena_reset(&s->arena, mark);
    if (planned && s->config.audit_steps > 0 && s->step % s->config.audit_steps == 0)
        audit_or_die(s);
    count_up(&s->counters.io_waits, s->io_waits);
    uint32_t tidying = store_tidy(s->pool, planned ? TIDY_BESIDE : SAVES_AT_ONCE);
    bool waits = !planned && (s->io_waits > 0 || tidying > 0);
    if (waits)
        store_poll(s->pool, true);
    stats_publish(s);
    if (s->published && s->config.on_events != NULL)
        s->config.on_events(s->config.on_events_ctx);
    s->published = false;
    return planned || waits;
}

void sched_run(struct sched *s)
{
    while (!atomic_load_explicit(&s->stop, memory_order_acquire))
        if (!sched_step(s))
            ring_wait(s->inbox, IDLE_WAIT_US);
}

void sched_relieve(struct sched *s)
{
    atomic_store_explicit(&s->relieve, true, memory_order_release);
    ring_wake(s->inbox);
}

void sched_stop(struct sched *s)
{
    atomic_store_explicit(&s->stop, true, memory_order_release);
    ring_wake(s->inbox);
}

uint32_t sched_ctx_tokens(const struct sched *s)
{
    return s->ctx_tokens;
}
