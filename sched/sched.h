/* SPDX-License-Identifier: MIT */
/* sched - continuous batching: who runs in the next step, with how many tokens, in which blocks.
 *   owner    one scheduler thread calls sched_step or sched_run; it owns sequences and pool
 *            metadata
 *   thread   sched_submit, request_cancel, sched_stop: any. sched_next_event, sched_release: one
 *            consumer
 *   full     more than requests_max live requests: sched_submit says RC_FULL. A request lives from
 *            its submission until its release
 *   refusal  what can never fit is refused by sched_submit with numbers (RC_LIMIT), never queued */
#ifndef QUIRE_SCHED_SCHED_H
#define QUIRE_SCHED_SCHED_H

#include "core/clock.h"
#include "core/executor.h"
#include "kvpool/pool.h"
#include "sched/request.h"

struct sched;
struct journal;

struct sched_config {
    uint32_t ctx_tokens; /* -c: tokens a request may have, prompt and output */
    uint32_t rows_max;   /* --max-rows: sequences that run at once */
    /* More than so many only while weights are read from disk as a step computes, and computing
     * for one more takes no longer than that (executor_pace); 0 = rows_max */
    uint32_t rows_calm;
    uint32_t chunk_tokens;        /* --chunk: prefill tokens a sequence may get in a step */
    uint32_t step_prefill_tokens; /* prefill tokens of all sequences in a step; 0 = chunk_tokens */
    uint32_t itl_us;       /* --itl-ms: while tokens stream, prompts get what lets a step end in
                                   * this time; 0 = step_prefill_tokens in every step */
    uint32_t requests_max; /* live requests, queued ones included */
    uint64_t patience_us;  /* who waits longer goes before everybody; 0 = half a minute */
    bool no_prefix_cache;  /* --no-prefix-cache: no request takes over what another computed */
    /* What pinned prompts may hold together, kept from the pool that requests are promised; 0 =
     * nothing is pinned. And those of one tenant; 0 = all of it */
    uint32_t pin_tokens, pin_tenant_tokens;
    struct journal *journal; /* --log-events: what the scheduler is given goes there; or NULL */
    /* --chaos preempt=N: every N steps the youngest gives way; alloc=N: every Nth time that a
     * running sequence wants a block, or a waiting one would begin beside others, none is to be
     * had. 0 = off */
    uint32_t chaos_preempt_steps;
    uint32_t chaos_alloc;
    uint32_t audit_steps; /* --audit N: sched_audit after every N steps, must() pass; 0 = off */
    /* When set: called on the scheduler thread after a step that left events, for a consumer that
     * waits elsewhere than in sched_next_event. */
    void (*on_events)(void *ctx);
    void *on_events_ctx;
};

struct sched_stats {
    uint64_t steps, rows, prefill_tokens, decode_tokens;
    uint64_t submitted, refused, finished, cancelled, failed, expired, preemptions;
    uint64_t cached_tokens;   /* prompt tokens taken from the prefix cache */
    uint64_t relieved_blocks; /* cached blocks given back because memory was short */
    uint64_t io_waits;        /* rows put off until the store had moved a block */
    uint64_t engine_us;       /* all steps, failed ones included */
    uint64_t plan_us;         /* what planning them took beside that */
    uint32_t running, waiting;
    uint32_t step_us;   /* of the last step */
    uint32_t free_rows; /* rows that would be nearly free, as far as is known */
    uint32_t blocks_free, blocks_cached, blocks_total;
    uint32_t pins;          /* requests that hold their prompts */
    uint32_t blocks_pinned; /* by them; shared ones count for each */
};

enum rc sched_open(struct sched **out, const struct sched_config *config, struct kvpool *pool,
                   struct executor executor, struct clock clock, struct fault *fault) ATTR_MUST_USE;

/* sched_close - no thread is inside any other call; every request that is left goes with it,
 * released or not. */
void sched_close(struct sched *s);

/* sched_ctx_tokens - tokens a request may have: what -c, the executor and the pool allow, the
 * least of them. */
uint32_t sched_ctx_tokens(const struct sched *s);

/* sched_submit - copies params and queues the request; RC_FULL, RC_LIMIT (it can never fit, or a
 * pin is over the limit), RC_INVALID or RC_NO_MEMORY else. */
enum rc sched_submit(struct request **out, struct sched *s, const struct request_params *params,
                     struct fault *fault) ATTR_MUST_USE;

/* sched_submit_group - count requests of one prompt, choices sampling.choice, + 1, ...: all or
 * none. The prompt is computed once; each is scheduled, preempted, cancelled and released by
 * itself. Scores of the prompt come with the first one. */
enum rc sched_submit_group(struct request **out, uint32_t count, struct sched *s,
                           const struct request_params *params, struct fault *fault) ATTR_MUST_USE;

/* sched_step - one plan, run and commit; false when there was nothing to do. */
bool sched_step(struct sched *s);

/* sched_run - steps until sched_stop; sleeps when there is nothing to do. sched_stop - any
 * thread, signal safe. */
void sched_run(struct sched *s);
void sched_stop(struct sched *s);

/* sched_relieve - memory is short: at the next step boundary a part of the cached blocks is given
 * back (kvpool_relieve). Any thread. */
void sched_relieve(struct sched *s);

/* sched_next_event - a request that has new tokens or its terminal state; NULL after timeout_us
 * without one. A request is in the event queue at most once: read everything it has. */
struct request *sched_next_event(struct sched *s, uint64_t timeout_us);

/* sched_release - the consumer is done with a finished request. */
void sched_release(struct sched *s, struct request *r);

/* any thread; counters may be one step apart */
struct sched_stats sched_stats_get(const struct sched *s);

/* sched_audit - recomputes every invariant of scheduler and pool from scratch, on the scheduler
 * thread between two steps: RC_OK, or RC_CORRUPT with the rule that is broken. */
enum rc sched_audit(struct sched *s, struct fault *fault) ATTR_MUST_USE;

#endif
