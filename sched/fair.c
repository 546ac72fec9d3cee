/* SPDX-License-Identifier: MIT */
/* fair - the order of admission:
 *
 *   1 the elder: the oldest that waits becomes it when its patience is over, if there is none,
 *     and unless one runs that is older and as impatient, and would have to give way.
 *     One at a time, so that a long queue of one tenant or class does not pass for urgent; all
 *     in turn, so that every wait has a bound
 *   2 who was preempted, unless the next new one is of a better class, or of a tenant that has used
 *     less
 *   3 the class that has used least for its weight (8 : 4 : 1), in it the tenant that has used
 *     least, of its requests the one that wishes its first token earliest, then the oldest
 *   4 spare requests, when nobody else waits
 *
 * Used is measured: each step's microseconds are shared out by rows, by keys read, and by blocks
 * held, so a long context costs its owner what it costs the machine. A class or a tenant that
 * comes back after a pause starts from the least of those that are active: idle time is not
 * saved up. */
#include "sched/fair.h"

#include "core/must.h"
#include "sched/record.h"

#define WEIGHT_UNIT 8u /* used_us of a class grows by WEIGHT_UNIT / weight for each microsecond */

static const uint8_t class_weight[CLASSES] = { 8, 4, 1, 1 };

enum fair_class fair_class_of(enum priority priority)
{
    switch (priority) {
    case PRIORITY_INTERACTIVE:
        return CLASS_INTERACTIVE;
    case PRIORITY_BATCH:
        return CLASS_BATCH;
    case PRIORITY_SPARE:
        return CLASS_SPARE;
    case PRIORITY_NORMAL:
        break;
    }
    return CLASS_NORMAL;
}

uint32_t fair_rank(const struct request *r)
{
    return r->seq.elder ? 0 : 1 + (uint32_t)r->seq.class;
}

/* But for spare requests. */
static uint32_t live_of(const struct tenant *t)
{
    return t->live[CLASS_INTERACTIVE] + t->live[CLASS_NORMAL] + t->live[CLASS_BATCH];
}

/* The account of a tenant: its own, one that nobody needs now, or a shared one. */
static uint32_t tenant_of(struct fair *f, uint64_t id)
{
    uint32_t idle = TENANTS_MAX;
    for (uint32_t i = 0; i < f->tenant_count; i++) {
        const struct tenant *t = &f->tenants[i];
        if (t->id == id)
            return i;
        if (live_of(t) + t->live[CLASS_SPARE] == 0)
            idle = i;
    }
    if (f->tenant_count < TENANTS_MAX)
        idle = f->tenant_count++;
    else if (idle == TENANTS_MAX)
        return (uint32_t)(id % TENANTS_MAX);
    f->tenants[idle] = (struct tenant){ .id = id };
    return idle;
}

static void lift(uint64_t *used_us, uint64_t least_us)
{
    if (least_us != UINT64_MAX && *used_us < least_us)
        *used_us = least_us;
}

/* Counts r in its class; the first one starts from the least of those that are active. */
static void join_class(struct fair *f, struct request *r)
{
    enum fair_class c = r->seq.class;
    struct tenant *t = &f->tenants[r->seq.tenant];
    uint64_t least_us = UINT64_MAX;
    for (uint32_t i = 0; i < f->tenant_count && t->live[c] == 0; i++)
        if (f->tenants[i].live[c] > 0 && f->tenants[i].used_us[c] < least_us)
            least_us = f->tenants[i].used_us[c];
    if (t->live[c]++ == 0)
        lift(&t->used_us[c], least_us);
    least_us = UINT64_MAX;
    for (uint32_t i = 0; i < CLASSES; i++)
        if (f->live[i] > 0 && f->used_us[i] < least_us)
            least_us = f->used_us[i];
    if (f->live[c]++ == 0)
        lift(&f->used_us[c], least_us);
}

static void quit_class(struct fair *f, const struct request *r)
{
    struct tenant *t = &f->tenants[r->seq.tenant];
    must(t->live[r->seq.class] > 0 && f->live[r->seq.class] > 0);
    t->live[r->seq.class]--;
    f->live[r->seq.class]--;
}

void fair_enter(struct sched *s, struct request *r)
{
    r->seq.tenant = (uint8_t)tenant_of(&s->fair, r->params.tenant);
    r->seq.class = fair_class_of(r->params.priority);
    join_class(&s->fair, r);
}

void fair_leave(struct sched *s, struct request *r)
{
    quit_class(&s->fair, r);
    if (s->fair.elder == r)
        s->fair.elder = NULL;
}

/* Whether a is served before b of the same tenant and class. */
static bool earlier(const struct request *a, const struct request *b)
{
    if (a->seq.first_by_us != b->seq.first_by_us)
        return a->seq.first_by_us < b->seq.first_by_us;
    return a->seq.order < b->seq.order;
}

void fair_push(struct sched *s, struct request *r)
{
    struct sequence *seq = &r->seq;
    struct fair *f = &s->fair;
    if (seq->again) {
        seq->fair_prev = NULL;
        seq->fair_next = f->paused;
        if (f->paused != NULL)
            f->paused->seq.fair_prev = r;
        f->paused = r;
        return;
    }
    struct tenant *t = &f->tenants[seq->tenant];
    /* most come in the order in which they are served */
    struct request *after = t->tail[seq->class];
    while (after != NULL && earlier(r, after))
        after = after->seq.fair_prev;
    seq->fair_prev = after;
    seq->fair_next = after != NULL ? after->seq.fair_next : t->head[seq->class];
    *(after != NULL ? &after->seq.fair_next : &t->head[seq->class]) = r;
    *(seq->fair_next != NULL ? &seq->fair_next->seq.fair_prev : &t->tail[seq->class]) = r;
    f->fresh[seq->class]++;
}

void fair_remove(struct sched *s, struct request *r)
{
    struct sequence *seq = &r->seq;
    struct fair *f = &s->fair;
    struct tenant *t = &f->tenants[seq->tenant];
    struct request **head = seq->again ? &f->paused : &t->head[seq->class];
    *(seq->fair_prev != NULL ? &seq->fair_prev->seq.fair_next : head) = seq->fair_next;
    if (seq->fair_next != NULL)
        seq->fair_next->seq.fair_prev = seq->fair_prev;
    else if (!seq->again)
        t->tail[seq->class] = seq->fair_prev;
    f->fresh[seq->class] -= !seq->again;
    seq->fair_prev = seq->fair_next = NULL;
}

void fair_demote(struct sched *s, struct request *r)
{
    fair_remove(s, r);
    quit_class(&s->fair, r);
    r->seq.class = CLASS_BATCH;
    r->seq.first_by_us = UINT64_MAX;
    join_class(&s->fair, r);
    fair_push(s, r);
}

static struct request *best_paused(const struct fair *f)
{
    struct request *best = f->paused;
    for (struct request *r = best; r != NULL; r = r->seq.fair_next) {
        uint32_t rank = fair_rank(r), least = fair_rank(best);
        if (rank < least || (rank == least && r->seq.order < best->seq.order))
            best = r;
    }
    return best;
}

/* Whether a has used less, or as much and has less running. */
static bool less_served(const struct tenant *a, const struct tenant *b, enum fair_class c)
{
    return a->used_us[c] != b->used_us[c] ? a->used_us[c] < b->used_us[c] : a->running < b->running;
}

static struct request *best_fresh(const struct fair *f)
{
    enum fair_class best_class = CLASSES;
    for (enum fair_class c = CLASS_INTERACTIVE; c < CLASS_SPARE; c++)
        if (f->fresh[c] > 0 && (best_class == CLASSES || f->used_us[c] < f->used_us[best_class]))
            best_class = c;
    if (best_class == CLASSES)
        best_class = CLASS_SPARE;
    const struct tenant *best = NULL;
    for (uint32_t i = 0; f->fresh[best_class] > 0 && i < f->tenant_count; i++) {
        const struct tenant *t = &f->tenants[i];
        if (t->head[best_class] != NULL && (best == NULL || less_served(t, best, best_class)))
            best = t;
    }
    return best != NULL ? best->head[best_class] : NULL;
}

uint64_t fair_used_us(const struct sched *s, const struct request *r)
{
    return s->fair.tenants[r->seq.tenant].used_us[r->seq.class];
}

static bool impatient(const struct sched *s, const struct request *r)
{
    const struct sequence *seq = &r->seq;
    uint64_t now_us = seq->state == SEQ_WAITING ? s->now_us - seq->waits_since_us : 0;
    return seq->waited_us + now_us > s->config.patience_us;
}

/* Whether one runs that is older than r and has lost its patience: it must not give way to a
 * younger elder again. */
static bool older_runs(const struct sched *s, const struct request *r)
{
    for (uint32_t i = 0; i < s->running_count; i++) {
        const struct request *o = s->running[i];
        if (o->seq.class != CLASS_SPARE && o->seq.order < r->seq.order && impatient(s, o))
            return true;
    }
    return false;
}

/* The elder, when it waits. */
static struct request *waiting_elder(struct sched *s)
{
    struct fair *f = &s->fair;
    struct request *oldest = s->waiting.head;
    if (f->elder == NULL && oldest != NULL && impatient(s, oldest) && !older_runs(s, oldest)) {
        oldest->seq.elder = true;
        f->elder = oldest;
    }
    return f->elder != NULL && f->elder->seq.state == SEQ_WAITING ? f->elder : NULL;
}

struct request *fair_pick(struct sched *s)
{
    struct request *elder = waiting_elder(s);
    if (elder != NULL)
        return elder;
    struct request *paused = best_paused(&s->fair), *fresh = best_fresh(&s->fair);
    if (paused == NULL || fresh == NULL)
        return paused != NULL ? paused : fresh;
    uint32_t rank_paused = fair_rank(paused), rank_fresh = fair_rank(fresh);
    if (rank_paused != rank_fresh)
        return rank_paused < rank_fresh ? paused : fresh;
    uint64_t used_paused = fair_used_us(s, paused), used_fresh = fair_used_us(s, fresh);
    if (used_paused == used_fresh)
        return s->fair.tenants[fresh->seq.tenant].running == 0 ? fresh : paused;
    return used_paused < used_fresh ? paused : fresh;
}

uint32_t fair_part(const struct sched *s)
{
    uint32_t tenants = 0;
    for (uint32_t i = 0; i < s->fair.tenant_count; i++)
        tenants += live_of(&s->fair.tenants[i]) > 0;
    uint32_t places = s->config.rows_calm > 0 ? s->config.rows_calm : s->config.rows_max;
    if (places < s->running_count)
        places = s->running_count;
    uint32_t part = tenants > 0 ? places / tenants : places;
    return part > 0 ? part : 1;
}

static bool same_account(const struct share *a, const struct share *b)
{
    return a->tenant == b->tenant && a->class == b->class;
}

void fair_charge(struct sched *s, const struct plan *plan, uint64_t us)
{
    const struct batch *b = &plan->batch;
    struct fair *f = &s->fair;
    uint64_t charged = 0;
    int64_t sum = 0;
    double unit_us = (double)us / (double)plan->weight;
    for (uint32_t i = 0; i < b->span_count; i++) {
        const struct share *own = &plan->shares[i];
        enum fair_class c = own->class;
        sum += own->weight;
        if (i + 1 < b->span_count && same_account(own, own + 1))
            continue; /* charged together */
        /* Up to here rounded down, less what was charged before: the shares add up to us. */
        uint64_t upto = i + 1 < b->span_count ? (uint64_t)(int64_t)((double)sum * unit_us) : us;
        uint64_t share = upto < us ? upto - charged : us - charged;
        charged += share;
        f->tenants[own->tenant].used_us[c] += share;
        f->used_us[c] += share * WEIGHT_UNIT / class_weight[c];
    }
    f->charged_us += charged;
}
