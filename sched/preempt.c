/* SPDX-License-Identifier: MIT */
/* preempt - who gives way when a running sequence needs a block and none is free. The youngest
 * goes back to the queue and computes its tokens again later, to the same bits; what it has said
 * so far stays said. The oldest is never the victim of anybody, and the whole pool holds any
 * request that was accepted, so the oldest always finishes and so, in turn, does everyone. */
#include "core/must.h"
#include "sched/record.h"

static void preempt(struct sched *s, struct request *victim)
{
    must_note("preempt: order, computed", (long)victim->seq.order, (long)victim->seq.computed);
    sequence_wait(s, victim);
    s->preempted++;
    count_up(&s->counters.preemptions, 1);
}

/* preempt_for - RC_OK: some blocks were freed, needy still runs. RC_FULL: needy itself was the
 * youngest and has left the running list. */
enum rc preempt_for(struct sched *s, const struct request *needy)
{
    must(s->running_count > 0);
    struct request *victim = s->running[s->running_count - 1];
    must(victim != needy || s->running_count > 1); /* alone, it has the whole pool */
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
