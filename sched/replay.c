/* SPDX-License-Identifier: MIT */
/* replay - the driver is the log: it submits and cancels what stands there before each step, then
 * takes the step, in which the journal's wrappers give the scheduler the times, transfers and
 * tokens of then. The pool has no memory, because nobody computes. */
#include "sched/replay.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "sched/journal.h"
#include "sched/record.h"

struct player {
    struct journal *journal;
    struct kvpool *pool;
    struct sched *sched;
    uint64_t arrival_us; /* what submissions see as the time */
    int32_t *tokens;     /* [ctx] scratch */
    uint32_t ctx_tokens;
    struct request **requests; /* [request_room], by order; NULL: ended */
    uint64_t request_room;
};

static void ignore_floats(void *ctx, uint32_t position, const float *floats)
{
    (void)ctx;
    (void)position;
    (void)floats;
}

static enum rc say_head(struct fault *fault, const char *which)
{
    return fault_set(fault, RC_CORRUPT, "log of events: the head of the %s is broken", which);
}

static enum rc open_sched(struct player *p, struct fault *fault)
{
    struct journal_sched head = { 0 };
    if (!journal_take_sched(p->journal, &head))
        return say_head(fault, "scheduler");
    head.config.journal = p->journal;
    /* Records may live longer here, until their events are looked at. */
    head.config.requests_max =
        head.config.requests_max < REQUESTS_MAX / 2 ? 2 * head.config.requests_max : REQUESTS_MAX;
    struct executor nobody = { .limits = head.limits };
    enum rc rc =
        sched_open(&p->sched, &head.config, p->pool, nobody, clock_virtual(&p->arrival_us), fault);
    if (rc != RC_OK)
        return rc;
    p->ctx_tokens = sched_ctx_tokens(p->sched);
    p->sched->pin_tokens = UINT32_MAX; /* pins were within the limits when they were submitted */
    p->sched->config.pin_tenant_tokens = 0;
    p->tokens = mem_alloc_array(p->ctx_tokens, sizeof *p->tokens);
    return p->tokens != NULL ? RC_OK : fault_set(fault, RC_NO_MEMORY, "replay: out of memory");
}

static enum rc open_player(struct player *p, const char *path, struct fault *fault)
{
    struct journal_pool head = { 0 };
    struct store_config store = { 0 };
    enum rc rc = journal_open(&p->journal, path, fault);
    if (rc != RC_OK)
        return rc;
    if (!journal_take_pool(p->journal, &head))
        return say_head(fault, "pool");
    rc = kvpool_open(&p->pool, head.block_count, 0, fault);
    if (rc != RC_OK)
        return rc;
    kvpool_set_seed(p->pool, head.hash_seed);
    if (journal_next(p->journal) == JOURNAL_STORE) {
        if (!journal_take_store(p->journal, &store))
            return say_head(fault, "store");
        store.block_bytes = head.block_bytes;
        journal_store(p->journal, &store);
        rc = kvpool_open_store(p->pool, &store, fault);
        if (rc != RC_OK)
            return rc;
    }
    return open_sched(p, fault);
}

static void close_player(struct player *p)
{
    sched_close(p->sched);
    kvpool_close(p->pool);
    journal_close(p->journal);
    mem_free(p->requests);
    mem_free(p->tokens);
}

static enum rc make_room_for(struct player *p, uint64_t count, struct fault *fault)
{
    if (count <= p->request_room)
        return RC_OK;
    uint64_t room = count < 64 ? 64 : 2 * count;
    struct request **bigger =
        mem_grow(p->requests, p->request_room * sizeof *p->requests, room * sizeof *p->requests);
    if (bigger == NULL)
        return fault_set(fault, RC_NO_MEMORY, "replay: out of memory");
    p->requests = bigger;
    p->request_room = room;
    return RC_OK;
}

static enum rc submit(struct player *p, struct replay *out, struct fault *fault)
{
    struct journal_request r;
    enum rc rc = make_room_for(p, out->requests + 1, fault);
    if (rc == RC_OK)
        rc = journal_take_request(p->journal, &r, p->tokens, p->ctx_tokens, fault);
    if (rc != RC_OK || journal_next(p->journal) == JOURNAL_END)
        return rc;
    r.params.prompt_logprobs = r.scores;
    r.params.on_logits = r.logits ? ignore_floats : NULL;
    r.params.on_hidden = r.hidden ? ignore_floats : NULL;
    r.params.user = (void *)(uintptr_t)out->requests;
    p->arrival_us = r.arrival_us;
    struct request *request;
    rc = sched_submit(&request, p->sched, &r.params, fault);
    if (rc != RC_OK)
        return rc;
    request->salt = r.params.cache_salt; /* also where every request has one of its own */
    if (r.cancelled)
        request_cancel(request);
    p->requests[out->requests++] = request;
    return RC_OK;
}

static void cancel(struct player *p, struct replay *out)
{
    (void)journal_take_value(p->journal); /* the letter */
    uint64_t order = journal_take_value(p->journal);
    if (order < out->requests && p->requests[order] != NULL) {
        request_cancel(p->requests[order]);
        out->cancels++;
    }
}

static void release_ended(struct player *p)
{
    struct request *r;
    while ((r = sched_next_event(p->sched, 0)) != NULL)
        if (request_finish(r) != FINISH_NONE) {
            p->requests[(uintptr_t)request_user(r)] = NULL;
            sched_release(p->sched, r);
        }
}

static void take_step(struct player *p, struct replay *out, uint32_t audit_steps)
{
    struct fault broken = { 0 };
    (void)journal_take_value(p->journal); /* the letter */
    (void)sched_step(p->sched);
    out->steps++;
    if (audit_steps > 0 && out->steps % audit_steps == 0 && sched_audit(p->sched, &broken) != RC_OK)
        journal_set_difference(p->journal, "audit: %s", broken.text);
    release_ended(p);
}

static enum rc play(struct player *p, struct replay *out, uint32_t audit_steps, struct fault *fault)
{
    while (journal_difference(p->journal) == NULL) {
        enum rc rc = RC_OK;
        switch ((int)journal_next(p->journal)) {
        case JOURNAL_END:
        case JOURNAL_START: /* of the store's closing, after the last step */
        case JOURNAL_ENDS:
        case JOURNAL_STORE_TIME:
            return RC_OK;
        case JOURNAL_TIME:
            journal_hold_time(p->journal);
            break;
        case JOURNAL_REQUEST:
            rc = submit(p, out, fault);
            break;
        case JOURNAL_CANCEL:
            cancel(p, out);
            break;
        case JOURNAL_RELIEF:
            (void)journal_take_value(p->journal); /* the letter */
            sched_relieve(p->sched);
            break;
        case JOURNAL_STEP:
            take_step(p, out, audit_steps);
            break;
        default:
            journal_set_difference(p->journal, "the step is over, the log goes on with '%c'",
                                   (int)journal_next(p->journal));
        }
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc replay_log(struct replay *out, const char *path, uint32_t audit_steps, struct fault *fault)
{
    struct player p = { 0 };
    *out = (struct replay){ 0 };
    enum rc rc = open_player(&p, path, fault);
    if (rc == RC_OK)
        rc = play(&p, out, audit_steps, fault);
    const char *difference = p.journal != NULL ? journal_difference(p.journal) : NULL;
    if (rc == RC_OK && difference != NULL) {
        out->differs = true;
        snprintf(out->text, sizeof out->text, "%s", difference);
    }
    close_player(&p);
    return rc;
}
