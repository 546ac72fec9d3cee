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
    atomic_store_explicit(&c->waiting, s->waiting.count, memory_order_relaxed);
    atomic_store_explicit(&c->blocks_free, kvpool_free_count(s->pool), memory_order_relaxed);
    atomic_store_explicit(&c->free_rows, cost_free_rows(&s->cost), memory_order_relaxed);
    atomic_store_explicit(&c->blocks_cached, kvpool_cached_count(s->pool), memory_order_relaxed);
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
        READ(preemptions),
        READ(cached_tokens),
        READ(io_waits),
        READ(running),
        READ(waiting),
        READ(blocks_free),
        READ(step_us),
        READ(free_rows),
        READ(blocks_cached),
        .blocks_total = kvpool_block_count(s->pool),
    };
#undef READ
}

static bool audit_queue(const struct sched *s, struct fault *fault)
{
    uint32_t count = 0;
    const struct request *before = NULL;
    for (const struct request *r = s->waiting.head; r != NULL; before = r, r = r->seq.next) {
        if (r->seq.state != SEQ_WAITING || r->seq.prev != before || r->seq.table.count != 0) {
            fault_set(fault, RC_CORRUPT, "queue: entry %u has state %d, %u blocks", count,
                      (int)r->seq.state, r->seq.table.count);
            return false;
        }
        if (before != NULL && before->seq.order >= r->seq.order) {
            fault_set(fault, RC_CORRUPT, "queue: entry %u is older than the one before", count);
            return false;
        }
        count++;
    }
    if (count != s->waiting.count || before != s->waiting.tail) {
        fault_set(fault, RC_CORRUPT, "queue: %u entries, %u counted", count, s->waiting.count);
        return false;
    }
    return true;
}

static bool audit_running(struct sched *s, struct fault *fault)
{
    for (uint32_t i = 0; i < s->running_count; i++) {
        const struct request *r = s->running[i];
        const struct sequence *seq = &r->seq;
        uint32_t outputs = atomic_load_explicit(&r->output_count, memory_order_relaxed);
        if (seq->state != SEQ_RUNNING || (i > 0 && s->running[i - 1]->seq.order >= seq->order)) {
            fault_set(fault, RC_CORRUPT, "running: entry %u is out of order or state", i);
            return false;
        }
        if (seq->known != r->params.prompt_count + outputs || seq->computed > seq->known ||
            seq->known > s->ctx_tokens || kv_blocks_for(seq->computed) > seq->table.count) {
            fault_set(fault, RC_CORRUPT, "running: %u known, %u computed, %u blocks", seq->known,
                      seq->computed, seq->table.count);
            return false;
        }
        if (!kvpool_audit_table(s->pool, &seq->table, r->tokens, seq->computed, fault))
            return false;
    }
    return true;
}

enum rc sched_audit(struct sched *s, struct fault *fault)
{
    must(s->magic == SCHED_MAGIC);
    kvpool_audit_begin(s->pool);
    bool whole =
        audit_queue(s, fault) && audit_running(s, fault) && kvpool_audit_end(s->pool, fault);
    return whole ? RC_OK : RC_CORRUPT;
}
