/* SPDX-License-Identifier: MIT */
/* sequence - where a request is, and the only code that moves it:
 *
 *              submit              admit
 *      NEW ------------> WAITING ---------> RUNNING
 *       |                 |   ^               |  |
 *       | cancel          |   |    preempt    |  | stop, length, cancel, error
 *       |          cancel |   +---------------+  |
 *       +---------------> +-------> DONE <-------+-- PINNED: from RUNNING, by the end of a prompt
 *                                                    that is to stay; left by cancel or deadline
 *
 * Blocks are held in RUNNING and PINNED alone. DONE is entered once, publishes the finish and lets
 * go of the record. */
#include <string.h>

#include "core/must.h"
#include "sched/record.h"

static void set_state(struct request *r, enum seq_state to)
{
    static const bool legal[SEQ_STATES][SEQ_STATES] = {
        [SEQ_NEW] = { [SEQ_WAITING] = true, [SEQ_DONE] = true },
        [SEQ_WAITING] = { [SEQ_RUNNING] = true, [SEQ_DONE] = true },
        [SEQ_RUNNING] = { [SEQ_WAITING] = true, [SEQ_PINNED] = true, [SEQ_DONE] = true },
        [SEQ_PINNED] = { [SEQ_DONE] = true },
    };
    must(r->magic == REQUEST_MAGIC);
    must(legal[r->seq.state][to]);
    r->seq.state = to;
}

static bool is_timed(const struct request *r)
{
    return r->params.ttft_us > 0 || r->params.deadline_us > 0;
}

struct prefix_view sequence_view(const struct request *r)
{
    const struct sequence *seq = &r->seq;
    uint32_t reuse_max = seq->known - 1, from = reuse_max;
    if (sequence_scores(r))
        from = seq->scored; /* the rest is computed for its logits */
    else if (r->params.on_hidden != NULL && seq->scored < r->params.prompt_count)
        from = seq->scored > r->params.hidden_from ? seq->scored : r->params.hidden_from;
    bool own = from < reuse_max;
    return (struct prefix_view){
        .salt = r->salt,
        .tokens = r->tokens,
        .known = seq->known,
        .reuse_max = own ? from : reuse_max,
        .publish = !own,
    };
}

bool sequence_before(const struct request *a, const struct request *b)
{
    uint32_t rank_a = fair_rank(a), rank_b = fair_rank(b);
    return rank_a != rank_b ? rank_a < rank_b : a->seq.order < b->seq.order;
}

static struct queue *queue_of(struct sched *s, const struct request *r)
{
    return r->seq.class == CLASS_SPARE ? &s->spare : &s->waiting;
}

static void leave_waiting(struct sched *s, struct request *r)
{
    queue_remove(queue_of(s, r), r);
    fair_remove(s, r);
    r->seq.waited_us += s->now_us - r->seq.waits_since_us;
}

static void running_insert(struct sched *s, struct request *r)
{
    must(s->running_count < s->config.rows_max);
    uint32_t at = s->running_count;
    while (at > 0 && sequence_before(r, s->running[at - 1]))
        at--;
    memmove(&s->running[at + 1], &s->running[at], (s->running_count - at) * sizeof *s->running);
    s->running[at] = r;
    s->running_count++;
}

static void running_remove(struct sched *s, const struct request *r)
{
    uint32_t at = s->running_count;
    do
        must(at > 0);
    while (s->running[--at] != r);
    s->running_count--;
    memmove(&s->running[at], &s->running[at + 1], (s->running_count - at) * sizeof *s->running);
}

/* Leaves the running list with all its blocks but so many. */
static void leave_running(struct sched *s, struct request *r, uint32_t keep_blocks)
{
    running_remove(s, r);
    s->fair.tenants[r->seq.tenant].running--;
    table_truncate(&r->seq.table, s->pool, keep_blocks);
    r->seq.computed = keep_blocks * KV_BLOCK_TOKENS;
}

static void leave_pinned(struct sched *s, struct request *r)
{
    queue_remove(&s->pinned, r);
    s->blocks_pinned -= r->seq.table.count;
    table_truncate(&r->seq.table, s->pool, 0);
}

void sequence_wait(struct sched *s, struct request *r)
{
    if (r->seq.state == SEQ_RUNNING) {
        table_park(&r->seq.table, s->pool);
        leave_running(s, r, 0);
        r->seq.again = true;
    } else {
        fair_enter(s, r);
        s->timed += is_timed(r);
    }
    set_state(r, SEQ_WAITING);
    r->seq.waits_since_us = s->now_us;
    queue_insert(queue_of(s, r), r);
    fair_push(s, r);
}

void sequence_admit(struct sched *s, struct request *r)
{
    must(kv_blocks_for(r->seq.known) <= r->seq.table.count);
    leave_waiting(s, r);
    set_state(r, SEQ_RUNNING);
    r->seq.gained = false;
    r->seq.base = r->seq.most;
    r->seq.turns++;
    r->seq.turn_begin_us = s->now_us;
    r->seq.turn_ready_us = r->seq.turn_rows = 0;
    s->fair.tenants[r->seq.tenant].running++;
    running_insert(s, r);
    if (atomic_load_explicit(&r->admitted_us, memory_order_relaxed) == 0)
        atomic_store_explicit(&r->admitted_us, s->now_us, memory_order_relaxed);
}

void sequence_pin(struct sched *s, struct request *r)
{
    leave_running(s, r, sequence_pin_blocks(r));
    fair_leave(s, r);
    set_state(r, SEQ_PINNED);
    queue_insert(&s->pinned, r);
    s->blocks_pinned += r->seq.table.count;
    event_pinned(r, s->now_us);
}

void sequence_finish(struct sched *s, struct request *r, enum finish finish, enum rc error)
{
    must(finish != FINISH_NONE);
    if (r->seq.state == SEQ_RUNNING)
        leave_running(s, r, 0);
    else if (r->seq.state == SEQ_WAITING)
        leave_waiting(s, r);
    else if (r->seq.state == SEQ_PINNED)
        leave_pinned(s, r);
    if (r->seq.state == SEQ_RUNNING || r->seq.state == SEQ_WAITING)
        fair_leave(s, r);
    if (r->seq.state != SEQ_NEW)
        s->timed -= is_timed(r);
    set_state(r, SEQ_DONE);
    if (finish == FINISH_STOP || finish == FINISH_LENGTH)
        lengths_note(&s->lengths, r->seq.known - r->params.prompt_count);
    struct counters *c = &s->counters;
    count_up(finish == FINISH_CANCELLED ? &c->cancelled
             : finish == FINISH_ERROR   ? &c->failed
             : finish == FINISH_EXPIRED ? &c->expired
                                        : &c->finished,
             1);
    event_finish(r, finish, error, s->now_us);
    request_drop(r);
}
