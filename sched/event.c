/* SPDX-License-Identifier: MIT */
/* event - what a request tells its submitter, and how often.
 *
 * A request is in the event ring at most once, so the ring, as large as the number of records,
 * never overflows, and a slow reader costs nobody anything. One atomic word holds both "in the
 * ring" and the finish:
 *   E1  the scheduler sets QUEUED (with the finish, when it is the last) in one exchange, and
 *       pushes if it was clear. After the finish it never touches the word again
 *   E2  the consumer clears QUEUED when it takes the request from the ring, then reads everything
 *   E3  a consumer that sees the finish sees QUEUED as it was set with it. Clear: no entry will
 *       ever come, sched_release drops the record. Set: one entry is under way, and taking it drops
 *       the record
 * Tokens: each is written, then output_count is stored with release. */
#include "core/must.h"
#include "sched/record.h"

static void push(struct request *r)
{
    enum rc rc = ring_push(r->sched->events, r);
    must(rc == RC_OK); /* an entry for every record */
    r->sched->published = true;
}

/* E1. */
ATTR_INLINE void publish(struct request *r, uint32_t bits)
{
    uint32_t before =
        atomic_fetch_or_explicit(&r->event, EVENT_QUEUED | bits, memory_order_acq_rel);
    must(before >> EVENT_FINISH_AT == 0);
    if ((before & EVENT_QUEUED) == 0)
        push(r);
}

void event_token(struct request *r, const struct batch_result *result, uint64_t now_us)
{
    uint32_t index = atomic_load_explicit(&r->output_count, memory_order_relaxed);
    must(index < r->output_max);
    r->tokens[r->params.prompt_count + index] = result->token;
    if (r->logprobs != NULL)
        r->logprobs[index] = result->logprob;
    if (r->tops != NULL) {
        uint32_t top = result->top_count;
        must(top <= r->params.top_count);
        for (uint32_t i = 0; i < top; i++)
            r->tops[(size_t)index * r->params.top_count + i] = result->top[i];
        r->top_counts[index] = (uint8_t)top;
    }
    if (index == 0)
        atomic_store_explicit(&r->first_token_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&r->output_count, index + 1, memory_order_release);
    publish(r, 0);
}

void event_progress(struct request *r, uint32_t computed)
{
    atomic_store_explicit(&r->progress, computed, memory_order_relaxed);
    publish(r, 0);
}

void event_pinned(struct request *r, uint64_t now_us)
{
    atomic_store_explicit(&r->first_token_us, now_us, memory_order_relaxed);
    publish(r, 0);
}

void event_finish(struct request *r, enum finish finish, enum rc error, uint64_t now_us)
{
    r->error = error;
    atomic_store_explicit(&r->finished_us, now_us, memory_order_relaxed);
    publish(r, (uint32_t)finish << EVENT_FINISH_AT);
}

struct request *sched_next_event(struct sched *s, uint64_t timeout_us)
{
    must(s->magic == SCHED_MAGIC);
    for (bool waited = false;; waited = true) {
        struct request *r;
        while ((r = ring_pop(s->events)) != NULL) {
            atomic_fetch_and_explicit(&r->event, ~EVENT_QUEUED, memory_order_acq_rel); /* E2 */
            if (!r->released)
                return r;
            request_drop(r); /* E3, the late entry */
        }
        if (waited || timeout_us == 0)
            return NULL;
        ring_wait(s->events, timeout_us);
    }
}

void sched_release(struct sched *s, struct request *r)
{
    must(r->magic == REQUEST_MAGIC && r->sched == s);
    must(!r->released);
    must(request_finish(r) != FINISH_NONE);
    r->released = true;
    if ((atomic_load_explicit(&r->event, memory_order_acquire) & EVENT_QUEUED) == 0)
        request_drop(r);
}

enum finish request_finish(const struct request *r)
{
    return (enum finish)(atomic_load_explicit(&r->event, memory_order_acquire) >> EVENT_FINISH_AT);
}

uint32_t request_output_count(const struct request *r)
{
    return atomic_load_explicit(&r->output_count, memory_order_acquire);
}

int32_t request_token(const struct request *r, uint32_t index)
{
    must(index < request_output_count(r));
    return r->tokens[r->params.prompt_count + index];
}

uint32_t request_progress(const struct request *r)
{
    return atomic_load_explicit(&r->progress, memory_order_relaxed);
}

bool request_pinned(const struct request *r)
{
    return r->params.pin && atomic_load_explicit(&r->first_token_us, memory_order_relaxed) > 0;
}

uint32_t request_cached_count(const struct request *r)
{
    return atomic_load_explicit(&r->cached_count, memory_order_relaxed);
}

float request_logprob(const struct request *r, uint32_t index)
{
    must(r->logprobs != NULL && index < request_output_count(r));
    return r->logprobs[index];
}

const struct token_logprob *request_top(const struct request *r, uint32_t index,
                                        uint32_t *top_count)
{
    must(r->tops != NULL && index < request_output_count(r));
    *top_count = r->top_counts[index];
    return &r->tops[(size_t)index * r->params.top_count];
}

float request_prompt_logprob(const struct request *r, uint32_t index)
{
    must(r->prompt_logprobs != NULL && index > 0 && index < r->params.prompt_count);
    return r->prompt_logprobs[index];
}

const struct token_logprob *request_prompt_top(const struct request *r, uint32_t index,
                                               uint32_t *top_count)
{
    must(r->prompt_tops != NULL && index > 0 && index < r->params.prompt_count);
    *top_count = r->prompt_top_counts[index];
    return &r->prompt_tops[(size_t)index * r->params.top_count];
}

enum rc request_error(const struct request *r)
{
    return request_finish(r) == FINISH_ERROR ? r->error : RC_OK;
}

struct request_times request_times_get(const struct request *r)
{
    return (struct request_times){
        .arrival_us = atomic_load_explicit(&r->arrival_us, memory_order_relaxed),
        .admitted_us = atomic_load_explicit(&r->admitted_us, memory_order_relaxed),
        .first_token_us = atomic_load_explicit(&r->first_token_us, memory_order_relaxed),
        .finished_us = atomic_load_explicit(&r->finished_us, memory_order_relaxed),
    };
}
