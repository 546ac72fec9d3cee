/* SPDX-License-Identifier: MIT */
/* preempt - who gives way when a running sequence needs a block and none is free: of the worst
 * class behind it, whoever has least to compute again for each block that is won. Who is about to
 * end, and so gives all its blocks back anyway, goes after the others; who has not moved since it
 * was let in goes only when there is nobody else. What it has said so far stays said. Its blocks
 * are evicted from the tail as they are needed: written to the store first, when there is one and
 * moving them is cheaper than computing them again. When its turn comes it takes over what is left,
 * reads what was written, and computes the rest, to the same bits. Victims stand behind the needy
 * one in class and age: the oldest is never the victim of anybody, and the whole pool holds any
 * request that was accepted, so the oldest always finishes and so, in turn, does everyone. */
#include "core/must.h"
#include "sched/record.h"

#define ENDS_TOKENS 8u /* who has no more than that to say is about to end */

void preempt(struct sched *s, struct request *victim)
{
    must_note("preempt: order, computed", (long)victim->seq.order, (long)victim->seq.computed);
    sequence_wait(s, victim);
    count_up(&s->counters.preemptions, 1);
}

/* What preempting somebody gives and costs. */
struct offer {
    uint32_t blocks;
    uint64_t work; /* to be done again */
    bool ends;
};

static struct offer offer_of(const struct sched *s, const struct request *v)
{
    const struct sequence *seq = &v->seq;
    uint32_t lost, blocks = table_sole(&seq->table, s->pool, &lost);
    uint32_t done = seq->known - v->params.prompt_count;
    if (lost > seq->computed)
        lost = seq->computed;
    return (struct offer){
        .blocks = blocks,
        .work = cost_work(seq->computed - lost, lost), /* the tail goes first */
        .ends = sequence_decodes(v) && v->output_max - done <= ENDS_TOKENS,
    };
}

/* Work for each block; no block at all is the worst price. */
static bool cheaper(const struct offer *a, const struct offer *b)
{
    if (a->ends != b->ends)
        return b->ends;
    if (a->blocks == 0 || b->blocks == 0)
        return a->blocks > b->blocks;
    return a->work * b->blocks < b->work * a->blocks;
}

/* Of the running list behind needy; the youngest among equals. */
static struct request *victim_behind(const struct sched *s, uint32_t needy)
{
    struct request *best = NULL;
    struct offer least = { 0 };
    for (uint32_t i = s->running_count; i-- > needy + 1;) {
        struct request *v = s->running[i];
        if (best != NULL && fair_rank(v) < fair_rank(best))
            break;
        if (!v->seq.gained)
            continue;
        struct offer offer = offer_of(s, v);
        if (best == NULL || cheaper(&offer, &least)) {
            best = v;
            least = offer;
        }
    }
    return best != NULL ? best : s->running[s->running_count - 1];
}

/* make_room - running[needy] wants a block and none is to be had.
 *   RC_OK     try again: something can be evicted now
 *   RC_AGAIN  blocks are on their way to the store: leave it out of this step
 *   RC_FULL   it was itself the last of the running list, and has left it */
enum rc make_room(struct sched *s, uint32_t needy)
{
    if (store_save(s->pool, SAVES_AT_ONCE) > 0) {
        s->io_waits++;
        return RC_AGAIN;
    }
    if (store_give_up(s->pool))
        return RC_OK;
    must(needy < s->running_count);
    struct request *victim = victim_behind(s, needy);
    bool itself = victim == s->running[needy];
    if (itself && s->running_count == 1) { /* alone, it has the whole pool */
        must(store_busy(s->pool));         /* but for what is still being moved */
        s->io_waits++;
        return RC_AGAIN;
    }
    preempt(s, victim);
    s->preempted++;
    return itself ? RC_FULL : RC_OK;
}

/* preempt_chaos - a preemption without need, so that tests and users can see that it changes no
 * answer. */
void preempt_chaos(struct sched *s)
{
    uint32_t every = s->config.chaos_preempt_steps;
    if (every == 0 || s->step % every != 0 || s->running_count < 2)
        return;
    preempt(s, s->running[s->running_count - 1]);
    s->preempted++;
}

/* alloc_chaos - an allocation that fails without need; never for one that runs alone, whom the
 * whole pool is promised. */
bool alloc_chaos(struct sched *s)
{
    uint32_t every = s->config.chaos_alloc;
    return every > 0 && s->running_count > 1 && ++s->allocs % every == 0;
}
