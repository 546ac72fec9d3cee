/* SPDX-License-Identifier: MIT */
/* admit - waiting requests begin to run, first come first served; nobody passes the first one
 * that does not fit. It gets the blocks of all tokens it knows at once (table_acquire; there is
 * no other arithmetic of admission), and is let in only if the blocks will do until the running
 * ones end, as far as that can be foreseen: else it would soon be preempted, or preempt. With
 * nobody running it is always let in. */
#include "core/must.h"
#include "sched/record.h"

/* a request that did not fit is looked up again after so many steps at most */
#define RETRY_STEPS 16u

static struct forecast_item item_of(const struct sched *s, const struct request *r, uint32_t own)
{
    uint32_t done = r->seq.known - r->params.prompt_count;
    return (struct forecast_item){
        .left = lengths_left(&s->lengths, done, r->output_max),
        .open = r->seq.known % KV_BLOCK_TOKENS,
        .own = own,
    };
}

/* Whether the running ones and r get along, when r uses need of the blocks that are available. */
static bool foreseen(struct sched *s, const struct request *r, uint64_t need)
{
    uint32_t available = kvpool_available_count(s->pool), count = 0;
    for (; count < s->running_count; count++)
        s->forecast[count] = item_of(s, s->running[count], s->running[count]->seq.table.own);
    s->forecast[count++] = item_of(s, r, (uint32_t)need);
    return forecast_fits(s->forecast, count, available - need);
}

/* Whether nothing has changed since r was found not to fit. */
static bool still_blocked(const struct sched *s, const struct request *r)
{
    const struct blocked *b = &s->blocked;
    return b->order == r->seq.order && s->step < b->until_step && s->running_count > 0 &&
           s->running_count >= b->running && kvpool_available_count(s->pool) <= b->available;
}

static bool admit_one(struct sched *s, struct request *r)
{
    struct prefix_view view = sequence_view(r);
    struct block_table *t = &r->seq.table;
    if (still_blocked(s, r))
        return false;
    uint64_t need = table_need(t, s->pool, &view);
    bool fits = need <= kvpool_available_count(s->pool);
    if (!fits || (s->running_count > 0 && !foreseen(s, r, need)) ||
        table_acquire(t, s->pool, &view) != RC_OK) {
        s->blocked = (struct blocked){
            .order = r->seq.order,
            .until_step = s->step + RETRY_STEPS,
            .available = kvpool_available_count(s->pool),
            .running = s->running_count,
        };
        return false;
    }
    sequence_admit(s, r);
    return true;
}

/* Whether the first in the queue, which does not fit, may fit after what this sets going: with
 * nobody running, only blocks that preempted requests would miss can be in its way. */
static bool room_for_first(struct sched *s)
{
    if (store_save(s->pool, SAVES_AT_ONCE) == 0 && s->running_count == 0 && store_give_up(s->pool))
        return true;
    s->io_waits += s->running_count == 0 && store_busy(s->pool);
    return false;
}

void admit_waiting(struct sched *s)
{
    while (s->waiting.head != NULL && s->running_count < s->config.rows_max)
        if (!admit_one(s, s->waiting.head) && !room_for_first(s))
            break;
}
