/* SPDX-License-Identifier: MIT */
/* stats - counters that any thread may read, and the audit of the scheduler's own lists. */
#include "core/must.h"
#include "kvpool/audit.h"
#include "sched/record.h"

/* Gauges, once a step. */
void stats_publish(struct sched *s)
{
    struct counters *c = &s->counters;
    atomic_store_explicit(&c->running, s->running_count, memory_order_relaxed);
    atomic_store_explicit(&c->waiting, s->waiting.count + s->spare.count, memory_order_relaxed);
    atomic_store_explicit(&c->blocks_free, kvpool_free_count(s->pool), memory_order_relaxed);
    atomic_store_explicit(&c->free_rows, cost_free_rows(&s->cost), memory_order_relaxed);
    atomic_store_explicit(&c->blocks_cached, kvpool_cached_count(s->pool), memory_order_relaxed);
    atomic_store_explicit(&c->pins, s->pinned.count, memory_order_relaxed);
    atomic_store_explicit(&c->blocks_pinned, s->blocks_pinned, memory_order_relaxed);
}

struct sched_stats sched_stats_get(const struct sched *s)
{
    const struct counters *c = &s->counters;
#define READ(field) .field = atomic_load_explicit(&c->field, memory_order_relaxed)
    return (struct sched_stats){
        READ(steps),
        READ(rows),
        READ(prefill_tokens),
        READ(decode_tokens),
        READ(submitted),
        READ(refused),
        READ(finished),
        READ(cancelled),
        READ(failed),
        READ(expired),
        READ(engine_us),
        READ(preemptions),
        READ(plan_us),
        READ(cached_tokens),
        READ(io_waits),
        READ(running),
        READ(waiting),
        READ(blocks_free),
        READ(step_us),
        READ(free_rows),
        READ(blocks_cached),
        READ(relieved_blocks),
        READ(pins),
        READ(blocks_pinned),
        .blocks_total = kvpool_block_count(s->pool),
    };
#undef READ
}

static bool wrong(struct fault *fault, const char *rule, uint64_t a, uint64_t b)
{
    fault_set(fault, RC_CORRUPT, "%s (%llu, %llu)", rule, (unsigned long long)a,
              (unsigned long long)b);
    return false;
}

static bool audit_queue(const struct queue *q, bool spare, struct fault *fault)
{
    uint32_t count = 0;
    bool cursor = q->cursor == NULL;
    const struct request *before = NULL;
    for (const struct request *r = q->head; r != NULL; before = r, r = r->seq.next) {
        if (r->seq.state != SEQ_WAITING || r->seq.prev != before || r->seq.table.count != 0 ||
            (r->seq.class == CLASS_SPARE) != spare)
            return wrong(fault, "queue: state of an entry", count, r->seq.state);
        if (before != NULL && before->seq.order >= r->seq.order)
            return wrong(fault, "queue: an entry is older than the one before", count, 0);
        cursor = cursor || q->cursor == r;
        count++;
    }
    if (!cursor || count != q->count || before != q->tail)
        return wrong(fault, "queue: entries and count", count, q->count);
    return true;
}

static bool audit_running(struct sched *s, struct fault *fault)
{
    for (uint32_t i = 0; i < s->running_count; i++) {
        const struct request *r = s->running[i];
        const struct sequence *seq = &r->seq;
        uint32_t outputs = atomic_load_explicit(&r->output_count, memory_order_relaxed);
        if (seq->state != SEQ_RUNNING || (i > 0 && !sequence_before(s->running[i - 1], r)))
            return wrong(fault, "running: order or state of an entry", i, seq->state);
        if (seq->known != r->params.prompt_count + outputs || seq->computed > seq->known ||
            seq->known > s->ctx_tokens || kv_blocks_for(seq->computed) > seq->table.count)
            return wrong(fault, "running: known, computed", seq->known, seq->computed);
        if (!kvpool_audit_table(s->pool, &seq->table, r->tokens, seq->computed, fault))
            return false;
    }
    return true;
}

/* I13, and that whoever waits is found where its turn is looked for. */
static bool audit_fair(const struct sched *s, struct fault *fault)
{
    const struct fair *f = &s->fair;
    uint32_t live[CLASSES] = { 0 }, waiting = 0, all = 0, running = 0;
    for (uint32_t i = 0; i < f->tenant_count; i++) {
        const struct tenant *t = &f->tenants[i];
        running += t->running;
        for (uint32_t c = 0; c < CLASSES; c++) {
            live[c] += t->live[c];
            const struct request *before = NULL;
            for (const struct request *r = t->head[c]; r != NULL; r = r->seq.fair_next) {
                if (r->seq.fair_prev != before || r->seq.class != c || r->seq.tenant != i ||
                    r->seq.again)
                    return wrong(fault, "fair: a tenant's queue is torn", i, c);
                waiting++;
                before = r;
            }
            if (before != t->tail[c])
                return wrong(fault, "fair: a tenant's queue has another end", i, c);
        }
    }
    uint32_t elders = 0;
    for (const struct request *r = s->waiting.head; r != NULL; r = r->seq.next)
        elders += r->seq.elder;
    for (uint32_t i = 0; i < s->running_count; i++)
        elders += s->running[i]->seq.elder;
    if (elders != (f->elder != NULL) || (f->elder != NULL && !f->elder->seq.elder))
        return wrong(fault, "fair: elders", elders, f->elder != NULL);
    for (const struct request *r = f->paused; r != NULL; r = r->seq.fair_next)
        waiting += r->seq.again;
    for (uint32_t c = 0; c < CLASSES; c++) {
        all += live[c];
        if (live[c] != f->live[c])
            return wrong(fault, "fair: live requests of a class", live[c], f->live[c]);
    }
    if (waiting != s->waiting.count + s->spare.count || all != waiting + s->running_count ||
        running != s->running_count)
        return wrong(fault, "fair: waiting requests", waiting, s->waiting.count + s->spare.count);
    uint64_t engine_us = atomic_load_explicit(&s->counters.engine_us, memory_order_relaxed);
    if (f->charged_us != engine_us)
        return wrong(fault, "I13: charged and measured time", f->charged_us, engine_us);
    return true;
}

/* Pinned prompts hold their whole blocks, and no more of them than pins may. */
static bool audit_pinned(struct sched *s, struct fault *fault)
{
    uint32_t blocks = 0, count = 0;
    for (const struct request *r = s->pinned.head; r != NULL; r = r->seq.next, count++) {
        const struct sequence *seq = &r->seq;
        blocks += seq->table.count;
        if (seq->state != SEQ_PINNED || seq->table.count != sequence_pin_blocks(r) ||
            seq->computed != seq->table.count * KV_BLOCK_TOKENS)
            return wrong(fault, "pinned: state and blocks of an entry", seq->state,
                         seq->table.count);
        if (!kvpool_audit_table(s->pool, &seq->table, r->tokens, seq->computed, fault))
            return false;
    }
    if (count != s->pinned.count || blocks != s->blocks_pinned ||
        blocks > kv_blocks_for(s->config.pin_tokens))
        return wrong(fault, "pinned: blocks and limit", blocks, s->config.pin_tokens);
    return true;
}

enum rc sched_audit(struct sched *s, struct fault *fault)
{
    must(s->magic == SCHED_MAGIC);
    kvpool_audit_begin(s->pool);
    bool whole = audit_queue(&s->waiting, false, fault) && audit_queue(&s->spare, true, fault) &&
                 audit_fair(s, fault) && audit_running(s, fault) && audit_pinned(s, fault) &&
                 kvpool_audit_end(s->pool, fault);
    return whole ? RC_OK : RC_CORRUPT;
}
