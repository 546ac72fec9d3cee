/* SPDX-License-Identifier: MIT */
/* admit - waiting requests begin to run, in the order of fair.c; nobody passes the one whose turn
 * it is. It gets the blocks of all tokens it knows at once (table_acquire; there is no other
 * arithmetic of admission), and is let in only if the blocks will do until the running ones end, as
 * far as that can be foreseen: else it would soon be preempted, or preempt. With nobody running it
 * is always let in.
 *
 * When there is no place or no block for the one whose turn it is, somebody who runs may have to
 * give way: a spare request always; else one that has moved on since it was let in, and is of a
 * worse class, or of a tenant that has used as much while the other has nothing running at all.
 * One of these a step, before anything is planned. */
#include "core/must.h"
#include "sched/record.h"

/* a request that did not fit is looked up again after so many steps at most */
#define LOOKS 64u        /* waiting requests whose deadlines are looked at in a step */
#define SLICE_US 100000u /* a request is not put off for another tenant's before it ran so long */
#define RETRY_STEPS 16u

static struct forecast_item item_of(const struct sched *s, const struct request *r, uint32_t own)
{
    uint32_t done = r->seq.known - r->params.prompt_count;
    return (struct forecast_item){
        .left = lengths_left(&s->lengths, done, r->output_max),
        .open = (uint16_t)(r->seq.known % KV_BLOCK_TOKENS),
        .own = (uint16_t)own,
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
    if (!fits || (s->running_count > 0 && !foreseen(s, r, need)) || alloc_chaos(s) ||
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

/* Whether one more may run, as far as places go. */
static bool has_place(const struct sched *s)
{
    uint32_t count = s->running_count, calm = s->config.rows_calm;
    if (calm == 0 || count < calm || count >= s->config.rows_max)
        return count < s->config.rows_max;
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < count; i++)
        pairs += s->running[i]->seq.known;
    uint64_t us = cost_us(&s->cost, count + 1, pairs + pairs / count);
    return us > 0 && us <= s->read_us;
}

void admit_waiting(struct sched *s)
{
    struct request *r;
    while (has_place(s) && (r = fair_pick(s)) != NULL)
        if (!admit_one(s, r) && !room_for_first(s))
            break;
}

/* Tokens that v would compute again if it made room for r now: what it has, unless its blocks
 * are likely to stay cached meanwhile. */
static uint32_t would_lose(const struct sched *s, const struct request *v, uint64_t need)
{
    uint32_t free = kvpool_free_count(s->pool);
    uint64_t lost = KV_BLOCK_TOKENS + (need > free ? (need - free) * KV_BLOCK_TOKENS : 0);
    return s->config.no_prefix_cache || lost > v->seq.computed ? v->seq.computed : (uint32_t)lost;
}

/* Whether v, who runs, gives way to r, who waits and needs so many blocks. */
static bool gives_way(const struct sched *s, const struct request *v, const struct request *r,
                      uint64_t need)
{
    uint32_t rank_v = fair_rank(v), rank_r = fair_rank(r);
    if (v->seq.class == CLASS_SPARE && rank_v > rank_r)
        return true;
    if (!v->seq.gained || rank_v < rank_r || rank_v == 0)
        return false;
    if (rank_v > rank_r)
        return true;
    /* Between tenants of a class: one that has less than its part of the places and has not used
     * more, from one that has more than that. Never before a slice is over, nor before what would
     * be lost is at most half of what was done. */
    uint64_t ran_us = s->now_us - v->seq.turn_begin_us;
    uint64_t prompt_us =
        v->seq.turn_ready_us > 0 ? v->seq.turn_ready_us - v->seq.turn_begin_us : ran_us;
    uint64_t lost_us = prompt_us * would_lose(s, v, need) / (v->seq.turn_rows + 1);
    uint32_t part = fair_part(s);
    return s->fair.tenants[r->seq.tenant].running < part &&
           s->fair.tenants[v->seq.tenant].running > part &&
           fair_used_us(s, v) >= fair_used_us(s, r) && ran_us >= SLICE_US && ran_us >= 2 * lost_us;
}

/* The last of the running list that gives way to r; of other tenants none that has nothing else
 * running, when kind. */
static struct request *who_gives_way(const struct sched *s, const struct request *r, uint64_t need,
                                     bool kind)
{
    for (uint32_t i = s->running_count; i-- > 0;) {
        struct request *v = s->running[i];
        bool only = s->fair.tenants[v->seq.tenant].running == 1 && v->seq.class != CLASS_SPARE &&
                    v->seq.tenant != r->seq.tenant;
        if (!(kind && only) && gives_way(s, v, r, need))
            return v;
    }
    return NULL;
}

void admit_yield(struct sched *s)
{
    struct request *r = fair_pick(s);
    if (r == NULL || s->running_count == 0)
        return;
    bool worse = fair_rank(s->running[s->running_count - 1]) > fair_rank(r);
    bool less = s->fair.tenants[r->seq.tenant].running < fair_part(s);
    if (!worse && !less)
        return;
    bool full = !has_place(s);
    uint64_t need = kv_blocks_for(r->seq.known);
    if (!full && !still_blocked(s, r)) {
        struct prefix_view view = sequence_view(r);
        need = table_need(&r->seq.table, s->pool, &view);
        if (need <= kvpool_available_count(s->pool))
            return;
    }
    struct request *v = who_gives_way(s, r, need, true);
    if (v == NULL)
        v = who_gives_way(s, r, need, false);
    if (v != NULL)
        preempt(s, v);
}

/* Looks at some of a queue, waiting or pinned, on from where it stopped last time. */
static void expire_some(struct sched *s, struct queue *q)
{
    uint32_t looks = q->count < LOOKS ? q->count : LOOKS;
    for (; looks > 0; looks--) {
        struct request *r = q->cursor != NULL ? q->cursor : q->head;
        if (r == NULL)
            return;
        q->cursor = r->seq.next;
        if (s->now_us >= r->seq.end_by_us)
            sequence_finish(s, r, FINISH_EXPIRED, RC_OK);
        else if (r->seq.state == SEQ_WAITING && s->now_us >= r->seq.first_by_us &&
                 r->seq.class < CLASS_BATCH && !r->seq.elder)
            fair_demote(s, r);
    }
}

void admit_expire(struct sched *s)
{
    if (s->timed == 0)
        return;
    for (uint32_t i = s->running_count; i-- > 0;)
        if (s->now_us >= s->running[i]->seq.end_by_us)
            sequence_finish(s, s->running[i], FINISH_EXPIRED, RC_OK);
    expire_some(s, &s->waiting);
    expire_some(s, &s->spare);
    expire_some(s, &s->pinned);
}
