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

static void preempt(struct sched *s, struct request *victim)
{
    must_note("preempt: order, computed", (long)victim->seq.order, (long)victim->seq.computed);
    sequence_wait(s, victim);
    s->preempted++;
    count_up(&s->counters.preemptions, 1);
}

/* make_room - needy wants a block and none is to be had.
 *   RC_OK     try again: something can be evicted now
 *   RC_AGAIN  blocks are on their way to the store: leave needy out of this step
 *   RC_FULL   needy itself was the youngest and has left the running list */
enum rc make_room(struct sched *s, const struct request *needy)
{
    if (store_save(s->pool, SAVES_AT_ONCE) > 0) {
        s->io_waits++;
        return RC_AGAIN;
    }
    if (store_give_up(s->pool))
        return RC_OK;
    must(s->running_count > 0);
    struct request *victim = s->running[s->running_count - 1];
    if (victim == needy && s->running_count == 1) { /* alone, it has the whole pool */
        must(store_busy(s->pool));                  /* but for what is still being moved */
        s->io_waits++;
        return RC_AGAIN;
    }
    preempt(s, victim);
    return victim == needy ? RC_FULL : RC_OK;
}

/* preempt_chaos - a preemption without need, so that tests and users can see that it changes no
 * answer. */
void preempt_chaos(struct sched *s)
{
    uint32_t every = s->config.chaos_preempt_steps;
    if (every > 0 && s->step % every == 0 && s->running_count > 1)
        preempt(s, s->running[s->running_count - 1]);
}
