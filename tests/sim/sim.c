/* SPDX-License-Identifier: MIT */
/* sim - a tick of the world: arrivals and cancels, maybe a fault, one scheduler step, checks. Then
 * the drain: nothing arrives and nothing fails any more, and everybody must come to an end within a
 * known number of steps, with every block free and every byte given back.
 *
 * Checked after every step
 *   the executor's own rules (symbolic.c): I3, I4, limits and order of the plan (I10)
 *   sched_audit: I1, I2, I6, queue and running list
 *   I8  the oldest request ends within the bound that sched/README.md gives
 *   nothing was allocated
 * and for every event: P1, I9 (client.c) */
#include "tests/sim/sim.h"

#include <string.h>

#include "core/mem.h"
#include "kvpool/internal.h"
#include "kvpool/store.h"
#include "sched/record.h"
#include "tests/sim/world.h"

/* steps on end in which the store is waited for: all blocks out and in is less */
#define WAITS_MAX 20000u
#define RELIEF_TICKS 13u /* in a quarter of the worlds memory is short so often */
#define SHRINK_RUNS 500u

/* Tokens of all that run: what has to be computed, at a row a step, before each of them has
 * ended. */
static uint64_t running_tokens(const struct world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->sched->running_count; i++) {
        const struct request *r = w->sched->running[i];
        sum += r->params.prompt_count + r->output_max + 1;
    }
    return sum;
}

/* The oldest request but spare ones, which have no bound, and pinned ones, which have no end.
 * Orders are given by submission, so they are the scheduler's own. */
static const struct client *oldest_of(const struct world *w)
{
    const struct client *oldest = NULL;
    for (uint32_t i = 0; i < w->config.requests_max; i++) {
        const struct client *c = &w->clients[i];
        if (c->request != NULL && request_finish(c->request) == FINISH_NONE &&
            c->params.priority != PRIORITY_SPARE && !request_pinned(c->request) &&
            (oldest == NULL || c->order < oldest->order))
            oldest = c;
    }
    return oldest;
}

/* I8. While it runs, the oldest request moves in every step, unless another computes tokens for
 * it, at least as many in each as are worth a copy, up to the end of a block. While it waits,
 * its patience ends, then maybe a younger one that was put before everybody meanwhile, then those
 * that run. */
static bool check_oldest(struct world *w, bool excused)
{
    struct progress *p = &w->progress;
    const struct client *oldest = oldest_of(w);
    if (oldest == NULL || excused)
        return true;
    if (p->order != oldest->order)
        *p = (struct progress){ .order = oldest->order };
    const struct sequence *seq = &oldest->request->seq;
    if (seq->state == SEQ_RUNNING) {
        uint32_t reached = seq->computed + seq->known;
        bool same = p->running && p->turns == seq->turns;
        p->idle = same && reached <= p->reached ? p->idle + 1 : 0;
        p->turns = seq->turns;
        p->reached = reached;
    } else {
        uint64_t tokens = running_tokens(w);
        p->drain = tokens > p->drain ? tokens : p->drain;
        p->waited++;
    }
    p->running = seq->state == SEQ_RUNNING;
    if (p->idle > KV_BLOCK_TOKENS / FORK_TOKENS)
        return world_broken(w, "I8: the oldest request runs and does not move", p->order, p->idle);
    if (p->waited > w->config.patience_us / w->symbolic.step_us + 2 * p->drain + 6)
        return world_broken(w, "I8: the oldest request waits", p->order, p->waited);
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

/* Notes who runs, and how far it is. */
static uint32_t note_running(struct world *w)
{
    for (uint32_t i = 0; i < w->sched->running_count; i++) {
        const struct request *r = w->sched->running[i];
        bool spare = r->seq.class == CLASS_SPARE;
        w->before[i] = (struct before){ .request = r,
                                        .turns = r->seq.turns,
                                        .computed = r->seq.computed,
                                        .decodes = !spare && sequence_decodes(r),
                                        .gained = r->seq.gained,
                                        .spare = spare };
    }
    return w->sched->running_count;
}

/* It has run all the time since. */
static bool still_runs(const struct before *b)
{
    return b->request->seq.state == SEQ_RUNNING && b->request->seq.turns == b->turns;
}

/* I10: each of these that still runs has had its row. */
static bool check_decoding(struct world *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct before *b = &w->before[i];
        const struct sequence *seq = &b->request->seq;
        if (b->decodes && still_runs(b) && seq->computed <= b->computed)
            return world_broken(w, "I10: a decoding sequence has no row", seq->order,
                                seq->computed);
    }
    return true;
}

/* S7. Who was preempted had moved since it was let in, or nobody behind it that has goes on. */
static bool check_preempted(struct world *w, uint32_t count)
{
    const struct before *mover = NULL;
    for (uint32_t i = count; i-- > 0 && w->config.chaos_preempt_steps == 0;) {
        const struct before *b = &w->before[i];
        const struct sequence *seq = &b->request->seq;
        bool preempted =
            seq->state == SEQ_WAITING || (seq->state == SEQ_RUNNING && seq->turns != b->turns);
        if (preempted && !b->gained && !b->spare && mover != NULL)
            return world_broken(w, "S7: preempted twice without having moved", seq->order,
                                mover->request->seq.order);
        if (b->gained && still_runs(b))
            mover = b;
    }
    return true;
}

/* Arrivals and a cancel, as drawn; whether the step is to fail in *fails. */
static bool outside(struct world *w, bool *fails)
{
    const struct sim_options *o = w->options;
    bool full = o->fixed && w->live == w->config.requests_max; /* not what is to be measured */
    (void)world_event(w, EVENT_DRAW);
    uint32_t arrivals =
        !full && world_chance(w, w->habits.arrive) ? world_draw(w, 1, w->habits.burst) : 0;
    bool cancels = world_chance(w, w->habits.cancel), jumps = world_chance(w, w->habits.jump);
    *fails = world_chance(w, w->habits.fail_step) && world_event(w, EVENT_FAIL);
    for (uint32_t i = 0; i < arrivals; i++)
        if (world_event(w, EVENT_ARRIVE + i) && !client_arrive(w))
            return false;
    if (cancels && world_event(w, EVENT_CANCEL))
        client_cancel_one(w);
    if (jumps && world_event(w, EVENT_JUMP))
        w->now_us += world_draw(w, 1, 1u << world_draw(w, 10, 26));
    return true;
}

/* Limits of a step, and that nobody waits for ever. */
static bool check_step(struct world *w, uint32_t running, bool fails)
{
    struct sched_stats st = sched_stats_get(w->sched);
    bool waited = st.io_waits != w->io_waits;
    uint64_t prefill = st.prefill_tokens - w->prefill_tokens;
    uint32_t most = w->config.step_prefill_tokens;
    w->io_waits = st.io_waits;
    w->prefill_tokens = st.prefill_tokens;
    w->waits_on_end = waited ? w->waits_on_end + 1 : 0;
    if (w->waits_on_end > WAITS_MAX)
        return world_broken(w, "I8: the store keeps everybody waiting", w->waits_on_end, 0);
    if (prefill > (most > 0 ? most : w->config.chunk_tokens))
        return world_broken(w, "I10: more prompt tokens than a step may have", prefill, 0);
    if (w->options->fixed)
        return true;
    return check_preempted(w, running) && (fails || waited || check_decoding(w, running)) &&
           check_oldest(w, fails || waited);
}

static bool live_step(struct world *w)
{
    const struct sim_options *o = w->options;
    bool fails, worked;
    w->symbolic.log = o->log != NULL && w->symbolic.steps >= o->log_from ? o->log : NULL;
    if (!outside(w, &fails))
        return false;
    w->symbolic.fail_next = fails;
    w->failures += fails;
    if (o->seed % 4 == 0 && w->tick % RELIEF_TICKS == RELIEF_TICKS - 1)
        sched_relieve(w->sched);
    uint32_t running = o->fixed ? 0 : note_running(w);
    if (!step_once(w, &worked))
        return false;
    w->tick++;
    w->notices = 0;
    const struct client *left = w->cancelled;
    w->cancelled = NULL;
    if (left != NULL && request_finish(left->request) == FINISH_NONE)
        return world_broken(w, "I9: a cancel had no effect within a step", left->order, 0);
    w->symbolic.fail_next = false;
    if (o->audit_every > 0 && w->symbolic.steps % o->audit_every == 0 && !audit(w))
        return false;
    if (!check_step(w, running, fails))
        return false;
    if (!worked)
        w->now_us += 1000;
    return !world_chance(w, w->habits.read) || client_read_all(w);
}

static bool drain(struct world *w)
{
    uint64_t bound = 2 + w->config.patience_us / w->symbolic.step_us;
    for (uint32_t i = 0; i < w->config.requests_max; i++)
        if (w->clients[i].request != NULL)
            /* What preemption lets them compute again is in the factor; check_oldest is strict. */
            bound += 8 * (w->clients[i].params.prompt_count + w->clients[i].output_max + 1);
    w->habits = (struct habits){ .read = 500 };
    client_cancel_pins(w);
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
    if (st.finished + st.cancelled + st.failed + st.expired != st.submitted ||
        st.waiting + st.running > 0)
        return world_broken(w, "I9: ends and submissions", st.finished, st.submitted);
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
    out->event_count = w.event_count;
    if (w.sched != NULL) {
        struct sched_stats st = sched_stats_get(w.sched);
        out->finished = st.finished;
        out->cancelled = st.cancelled;
        out->failed = st.failed;
        out->expired = st.expired;
        out->refused = st.refused;
        out->preemptions = st.preemptions;
        out->cached_tokens = st.cached_tokens;
        out->io_waits = st.io_waits;
        out->pinned = w.pinned;
        out->writes = store_stats_get(w.pool).writes;
        out->reads = store_stats_get(w.pool).reads;
    }
    world_close(&w);
    out->violation = w.violation;
    return whole && w.violation.code == RC_OK;
}

/* Whether the seed is broken without events [from, to) of the list. */
static bool broken_without(const struct sim_options *options, const uint64_t *events,
                           uint32_t count, uint32_t from, uint32_t to, uint64_t *scratch)
{
    struct sim_outcome ignored;
    struct sim_options o = *options;
    memcpy(scratch, events, from * sizeof *events);
    memcpy(&scratch[from], &events[to], (count - to) * sizeof *events);
    o.only = scratch;
    o.only_count = count - (to - from);
    return !sim_run(&ignored, &o);
}

bool sim_shrink(struct sim_outcome *out, const struct sim_options *options, uint64_t *events,
                uint32_t event_room)
{
    struct sim_options o = *options;
    o.log = NULL;
    o.events = events;
    o.event_room = event_room;
    if (sim_run(out, &o) || out->event_count > event_room)
        return false;
    o.events = NULL;
    uint64_t *scratch = mem_alloc_array(event_room, sizeof *scratch);
    uint32_t count = out->event_count, runs = 0;
    for (uint32_t part = count; scratch != NULL && part > 0; part /= 2)
        for (uint32_t at = 0; at < count && runs < SHRINK_RUNS; runs++) {
            uint32_t to = at + part < count ? at + part : count;
            if (broken_without(&o, events, count, at, to, scratch)) {
                memmove(&events[at], &events[to], (count - to) * sizeof *events);
                count -= to - at;
            } else {
                at = to;
            }
        }
    mem_free(scratch);
    out->event_count = count;
    return true;
}
