/* SPDX-License-Identifier: MIT */
/* preempt - who gives way when a running sequence needs a block and none is free. The youngest
 * goes back to the queue; what it has said so far stays said. Its blocks are evicted from the
 * tail as they are needed: written to the store first, when there is one and moving them is
 * cheaper than computing them again. When its turn comes it takes over what is left, reads what
 * was written, and computes the rest, to the same bits. The oldest is never the victim of
 * anybody, and the whole pool holds any request that was accepted, so the oldest always finishes
 * and so, in turn, does everyone. */
#include "core/must.h"
#include "sched/record.h"

void preempt(struct sched *s, struct request *victim)
{
    must_note("preempt: order, computed", (long)victim->seq.order, (long)victim->seq.computed);
    sequence_wait(s, victim);
    count_up(&s->counters.preemptions, 1);
}

/* The last of the running list behind needy, of those that have got something since they were
 * let in if there are any: nobody goes twice without having moved, while somebody else can. */
static struct request *victim_behind(const struct sched *s, uint32_t needy)
{
    for (uint32_t i = s->running_count; i-- > needy + 1;)
        if (s->running[i]->seq.gained)
            return s->running[i];
    return s->running[s->running_count - 1];
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
