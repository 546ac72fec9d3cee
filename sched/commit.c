/* SPDX-License-Identifier: MIT */
/* commit - what a step has computed becomes known: positions, log-probabilities, tokens,
 * finishes. Only here do tokens grow, so a step that failed has changed nothing but blocks,
 * which go with its requests. */
#include "core/must.h"
#include "sched/record.h"

/* What the model thought of the prompt's token at this index. */
ATTR_NOINLINE static void commit_score(struct request *r, uint32_t index,
                                       const struct batch_result *result)
{
    r->prompt_logprobs[index] = result->logprob;
    if (r->prompt_tops == NULL)
        return;
    must(result->top_count <= r->params.top_count);
    for (uint32_t i = 0; i < result->top_count; i++)
        r->prompt_tops[(size_t)index * r->params.top_count + i] = result->top[i];
    r->prompt_top_counts[index] = (uint8_t)result->top_count;
}

/* Results of one row of r. */
static void commit_output(struct sched *s, struct request *r, const struct batch_span *span,
                          const struct batch_output *o, const struct batch_result *result)
{
    const struct request_params *params = &r->params;
    uint32_t position = span->pos_begin + (o->row - span->row_begin);
    if (o->target >= 0)
        commit_score(r, position + 1, result);
    if (o->logits)
        params->on_logits(params->on_logits_ctx, position, result->logits);
    if (!o->sample)
        return;
    must(result->token >= 0 && (uint32_t)result->token < s->executor.limits.vocab_count);
    event_token(r, result, s->now_us);
    r->seq.known++;
}

/* Hidden states of r's rows; *at goes on to those of the next span. */
ATTR_NOINLINE static void commit_hidden(struct sched *s, struct request *r, const struct batch *b,
                                        const struct batch_span *span, uint32_t *at)
{
    for (; *at < b->hidden_count && b->hidden[*at] < span->row_begin + span->row_count; ++*at)
        r->params.on_hidden(r->params.on_hidden_ctx,
                            span->pos_begin + b->hidden[*at] - span->row_begin,
                            s->executor.hidden(s->executor.ctx, *at));
}

static bool is_stop(const struct request_params *params, int32_t token)
{
    for (uint32_t i = 0; i < params->stop_id_count; i++)
        if (params->stop_ids[i] == token)
            return true;
    return false;
}

/* Why r ends here, FINISH_NONE when it goes on. */
static enum finish finish_of(const struct request *r)
{
    const struct sequence *seq = &r->seq;
    uint32_t done = seq->known - r->params.prompt_count;
    if (done > 0 && seq->computed + 1 == seq->known &&
        is_stop(&r->params, r->tokens[seq->known - 1]))
        return FINISH_STOP;
    if (done == r->output_max && seq->computed + (done > 0) == seq->known)
        return FINISH_LENGTH;
    return FINISH_NONE;
}

/* A token, or a block's worth of them beyond what it had before it was last let in. */
static void note_progress(struct request *r, uint32_t rows, uint64_t now_us)
{
    struct sequence *seq = &r->seq;
    uint32_t prompt_count = r->params.prompt_count;
    if (r->params.progress && seq->computed <= prompt_count)
        event_progress(r, seq->computed);
    if (seq->scored < prompt_count && seq->scored < seq->computed)
        seq->scored = seq->computed < prompt_count ? seq->computed : prompt_count;
    if (seq->computed >= seq->base + KV_BLOCK_TOKENS || sequence_decodes(r))
        seq->gained = true;
    if (seq->turn_ready_us == 0) {
        seq->turn_rows += rows;
        seq->turn_ready_us = sequence_decodes(r) ? now_us : 0;
    }
    if (seq->computed > seq->most)
        seq->most = seq->computed;
}

static void commit_failure(struct sched *s, const struct plan *plan, enum rc rc)
{
    for (uint32_t i = 0; i < plan->batch.span_count; i++)
        sequence_finish(s, plan->span_requests[i], FINISH_ERROR, rc);
}

void commit_step(struct sched *s, const struct plan *plan, enum rc rc)
{
    if (rc != RC_OK) {
        commit_failure(s, plan, rc);
        return;
    }
    const struct batch *b = &plan->batch;
    const struct batch_output *output = b->outputs, *outputs_end = output + b->output_count;
    const struct batch_result *result = s->results;
    for (uint32_t i = 0, shown = 0; i < b->span_count; i++) {
        const struct batch_span *span = &b->spans[i];
        struct request *r = plan->span_requests[i];
        struct sequence *seq = &r->seq;
        seq->computed = span->pos_begin + span->row_count;
        prefix_commit(&seq->table, s->pool, seq->written_from, seq->computed);
        if (shown < b->hidden_count)
            commit_hidden(s, r, b, span, &shown);
        uint32_t row_end = span->row_begin + span->row_count;
        for (; output < outputs_end && output->row < row_end; output++, result++)
            commit_output(s, r, span, output, result);
        note_progress(r, span->row_count, s->now_us);
        enum finish finish = finish_of(r);
        if (finish == FINISH_LENGTH && r->params.pin)
            sequence_pin(s, r);
        else if (finish != FINISH_NONE)
            sequence_finish(s, r, finish, RC_OK);
    }
    count_up(&s->counters.rows, b->row_count);
    count_up(&s->counters.decode_tokens, plan->decode_rows);
    count_up(&s->counters.prefill_tokens, plan->prefill_rows);
}
