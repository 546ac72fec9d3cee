/* SPDX-License-Identifier: MIT */
/* sim - a step of the world: arrivals and cancels, maybe a fault, one scheduler step, checks. Then
 * the drain: nothing arrives and nothing fails any more, and everybody must come to an end within a
 * known number of steps, with every block free and every byte given back.
 *
 * Checked after every step
 *   the executor's own rules (symbolic.c): I3, I4, limits and order of the plan (I10)
 *   sched_audit: I1, I2, I6, queue and running list
 *   I8  the oldest request is served in every step: it ends within the tokens it still needs
 *   nothing was allocated
 * and for every event: P1, I9 (client.c) */
#include "tests/sim/sim.h"

#include "core/mem.h"
#include "kvpool/store.h"
#include "tests/sim/world.h"

/* I8. Orders are given by submission, so they are the scheduler's own. */
static bool check_oldest(struct world *w, bool excused)
{
    const struct client *oldest = NULL;
    for (uint32_t i = 0; i < w->config.requests_max; i++) {
        const struct client *c = &w->clients[i];
        if (c->request != NULL && request_finish(c->request) == FINISH_NONE &&
            (oldest == NULL || c->order < oldest->order))
            oldest = c;
    }
    if (oldest == NULL)
        return true;
    if (w->oldest != oldest->order) {
        w->oldest = oldest->order;
        w->oldest_steps = 0;
    }
    w->oldest_steps += !excused;
    if (w->oldest_steps > (uint64_t)oldest->params.prompt_count + oldest->output_max + 1)
        return world_broken(w, "I8: the oldest request is not served", oldest->order,
                            w->oldest_steps);
    return true;
}

/* One scheduler step; an allocation inside it would use up the armed failure. */
static bool step_once(struct world *w, bool *worked)
{
    mem_fail_after(1);
    *worked = sched_step(w->sched);
    void *p = mem_alloc_raw(1);
    if (p != NULL) {
        mem_free(p);
        return world_broken(w, "a step allocated memory", w->symbolic.steps, 0);
    }
    if (w->symbolic.violation.code != RC_OK) {
        w->violation = w->symbolic.violation;
        return false;
    }
    return true;
}

static bool audit(struct world *w)
{
    return sched_audit(w->sched, &w->violation) == RC_OK;
}

static bool live_step(struct world *w)
{
    const struct sim_options *o = w->options;
    w->symbolic.log = o->log != NULL && w->symbolic.steps >= o->log_from ? o->log : NULL;
    if (world_chance(w, w->habits.arrive))
        for (uint32_t n = world_draw(w, 1, w->habits.burst); n > 0; n--)
            if (!client_arrive(w))
                return false;
    if (world_chance(w, w->habits.cancel))
        client_cancel_one(w);
    bool fails = world_chance(w, w->habits.fail_step);
    w->symbolic.fail_next = fails;
    w->failures += fails;
    bool worked;
    if (!step_once(w, &worked))
        return false;
    w->notices = 0;
    w->symbolic.fail_next = false;
    if (o->audit_every > 0 && w->symbolic.steps % o->audit_every == 0 && !audit(w))
        return false;
    struct sched_stats st = sched_stats_get(w->sched);
    bool waited = st.io_waits != w->io_waits;
    uint64_t prefill = st.prefill_tokens - w->prefill_tokens;
    w->io_waits = st.io_waits;
    w->prefill_tokens = st.prefill_tokens;
    if (prefill > (w->config.step_prefill_tokens > 0 ? w->config.step_prefill_tokens
                                                     : w->config.chunk_tokens))
        return world_broken(w, "I10: more prompt tokens than a step may have", prefill, 0);
    if (!o->fixed && !check_oldest(w, fails || waited))
        return false;
    if (!worked)
        w->now_us += 1000;
    return !world_chance(w, w->habits.read) || client_read_all(w);
}

static bool drain(struct world *w)
{
    uint64_t bound = 2;
    for (uint32_t i = 0; i < w->config.requests_max; i++)
        if (w->clients[i].request != NULL)
            bound += w->clients[i].params.prompt_count + w->clients[i].output_max + 1;
    w->habits = (struct habits){ .read = 500 };
    uint64_t begun = w->io_waits;
    for (uint64_t n = 0; w->live > 0; n += w->io_waits == begun, begun = w->io_waits) {
        if (n > bound)
            return client_read_all(w) && world_broken(w, "I8: the drain does not end", w->live, n);
        if (!live_step(w))
            return false;
        if (sched_stats_get(w->sched).running == 0 && !client_read_all(w))
            return false;
    }
    while (store_poll(w->pool, true)) {
    }
    if (w->block_count != kvpool_free_count(w->pool) + kvpool_cached_count(w->pool))
        return world_broken(w, "I1: blocks are missing at the end", kvpool_available_count(w->pool),
                            w->block_count);
    struct sched_stats st = sched_stats_get(w->sched);
    if (st.finished + st.cancelled + st.failed != st.submitted || st.waiting + st.running > 0)
        return world_broken(w, "I9: ends and submissions", st.finished + st.cancelled + st.failed,
                            st.submitted);
    return audit(w);
}

bool sim_run(struct sim_outcome *out, const struct sim_options *options)
{
    struct world w;
    *out = (struct sim_outcome){ 0 };
    bool whole = world_open(&w, options);
    for (uint64_t n = 0; whole && w.symbolic.steps < options->steps && n < 4 * options->steps; n++)
        whole = live_step(&w);
    whole = whole && drain(&w);
    mem_fail_after(0);
    out->steps = w.symbolic.steps;
    if (w.sched != NULL) {
        struct sched_stats st = sched_stats_get(w.sched);
        out->finished = st.finished;
        out->cancelled = st.cancelled;
        out->failed = st.failed;
        out->refused = st.refused;
        out->preemptions = st.preemptions;
        out->cached_tokens = st.cached_tokens;
        out->io_waits = st.io_waits;
        out->writes = store_stats_get(w.pool).writes;
        out->reads = store_stats_get(w.pool).reads;
    }
    world_close(&w);
    out->violation = w.violation;
    return whole && w.violation.code == RC_OK;
}
