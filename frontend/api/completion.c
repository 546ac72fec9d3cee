/* SPDX-License-Identifier: MIT */
/* completion - a body becomes prompts x n requests, and their ends become one answer.
 * Everything that can be wrong is found by completion_open, so that a request with several prompts
 * either starts as a whole or not at all. The choices of a prompt are submitted as one group: it
 * is computed once. Submitting may stop at a full scheduler and go on later, at the next prompt. */
#include "frontend/api/completion.h"

#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/must.h"

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

static enum rc encode_prompt(struct completion *c, uint32_t index, bool special,
                             struct api_error *error)
{
    const struct prompt *p = &c->params.prompts[index];
    const char *field = c->params.prompt_field;
    struct token_list *ids = &c->prompts[index];
    if (p->text != NULL) {
        enum rc rc = engine_encode(c->engine, p->text, p->len, special, ids);
        if (rc == RC_NO_MEMORY)
            return no_memory(error);
        if (rc != RC_OK)
            return api_error_set(error, 400, "invalid_value", field, "%s: %s", field, rc_text(rc));
    } else {
        ids->ids = mem_alloc_array(p->id_count, sizeof *ids->ids);
        if (ids->ids == NULL)
            return no_memory(error);
        memcpy(ids->ids, p->ids, p->id_count * sizeof *ids->ids);
        ids->count = ids->capacity = p->id_count;
    }
    if (ids->count == 0)
        return api_error_set(error, 400, "invalid_value", field, "%s: has no tokens", field);
    uint32_t most = sched_ctx_tokens(c->engine->sched);
    if (ids->count + (c->params.max_tokens != 0) <= most)
        return RC_OK;
    enum rc rc = api_error_set(error, 400, "context_length_exceeded", field,
                               "the prompt has %zu tokens%s, the limit is %u: shorten it, or raise "
                               "-c and --kv-tokens",
                               ids->count,
                               c->params.max_tokens != 0 ? " and one more is asked for" : "", most);
    error->prompt_tokens = (uint32_t)ids->count;
    error->context_tokens = most;
    return rc;
}

static enum rc check_stop_ids(const struct completion *c, struct api_error *error)
{
    const struct completion_params *p = &c->params;
    uint32_t own = p->ignore_eos ? 0 : c->engine->end_id_count;
    if (p->stop_id_count + own > STOP_IDS_MAX)
        return api_error_set(error, 400, "invalid_value", "stop_token_ids",
                             "stop_token_ids: at most %u beside the model's own %u",
                             STOP_IDS_MAX - own, own);
    return RC_OK;
}

/* Prefixes are shared among requests of one salt and one tenant; without a salt, among all. */
static uint64_t salt_of(const struct completion *c)
{
    const uint64_t parts[] = { c->params.cache_salt, c->tenant };
    return c->params.cache_salt != 0 ? hash_bytes((struct hash){ 0 }, parts, sizeof parts).a | 1
                                     : 0;
}

/* The scheduler's view of choice k. */
static struct request_params request_of(const struct completion *c, uint32_t k)
{
    const struct completion_params *p = &c->params;
    const struct token_list *prompt = &c->prompts[k / p->n];
    uint32_t room = sched_ctx_tokens(c->engine->sched) - (uint32_t)prompt->count;
    struct request_params r = {
        .prompt = prompt->ids,
        .prompt_count = (uint32_t)prompt->count,
        .max_tokens = p->max_tokens < 0 || p->max_tokens > room ? room : (uint32_t)p->max_tokens,
        .min_tokens = p->min_tokens,
        .sampling = p->sampling,
        .stop_id_count = p->stop_id_count,
        .cache_salt = salt_of(c),
        .top_count = p->logprobs > 0 ? (uint32_t)p->logprobs : 0,
        .logprobs = p->logprobs >= 0,
        .prompt_logprobs = p->logprobs >= 0 && p->echo,
        .progress = p->return_progress && p->stream && k == 0,
        .user = (void *)(uintptr_t)c,
        .priority = c->priority,
        .tenant = c->tenant,
    };
    r.sampling.choice = k % p->n;
    if (p->pooling != POOLING_NONE) {
        r.on_hidden = pooled_add;
        r.on_hidden_ctx = &c->pooled[k];
        r.hidden_from = p->pooling == POOLING_LAST ? r.prompt_count - 1 : 0;
    }
    memcpy(r.stop_ids, p->stop_ids, sizeof r.stop_ids);
    for (uint32_t i = 0; !p->ignore_eos && i < c->engine->end_id_count; i++)
        r.stop_ids[r.stop_id_count++] = c->engine->end_ids[i];
    return r;
}

static enum rc open_choices(struct completion *c, struct api_error *error)
{
    for (uint32_t k = 0; k < c->params.prompt_count * c->params.n; k++) {
        struct request_params r = request_of(c, k);
        struct fault fault;
        enum rc rc = generation_open(&c->choices[k], c->engine->tokenizer, &c->params, &r, &fault);
        if (rc == RC_NO_MEMORY)
            return no_memory(error);
        if (rc != RC_OK)
            return api_error_set(error, 400, "invalid_value", "stop", "%s", fault.text);
        c->choice_count++;
    }
    return RC_OK;
}

enum rc completion_open(struct completion *c, struct engine *e, struct completion_params *params,
                        bool special, struct api_error *error)
{
    *c = (struct completion){ .engine = e, .params = *params, .priority = params->priority };
    *params = (struct completion_params){ 0 };
    c->prompts = mem_alloc_array(c->params.prompt_count, sizeof *c->prompts);
    c->choices = mem_alloc_array((size_t)c->params.prompt_count * c->params.n, sizeof *c->choices);
    enum rc rc = c->prompts == NULL || c->choices == NULL ? no_memory(error) : RC_OK;
    if (rc == RC_OK && c->params.pooling != POOLING_NONE &&
        pooled_open(&c->pooled, c->params.prompt_count, e->model->width) != RC_OK)
        rc = no_memory(error);
    for (uint32_t i = 0; i < c->params.prompt_count && rc == RC_OK; i++)
        rc = encode_prompt(c, i, special, error);
    if (rc == RC_OK)
        rc = check_stop_ids(c, error);
    if (rc == RC_OK)
        rc = open_choices(c, error);
    if (rc != RC_OK)
        completion_close(c);
    return rc;
}

enum rc completion_submit(struct completion *c)
{
    while (!c->failed && !c->cancelled && c->submitted_count < c->choice_count) {
        struct request_params r = request_of(c, c->submitted_count);
        struct request *group[CHOICES_MAX];
        struct fault fault;
        enum rc rc = sched_submit_group(group, c->params.n, c->engine->sched, &r, &fault);
        if (rc == RC_FULL)
            return rc;
        if (rc != RC_OK) {
            bool ours = rc == RC_INVALID || rc == RC_LIMIT;
            c->failed = true;
            completion_cancel(c);
            return api_error_set(&c->error, ours ? 400 : 500,
                                 ours ? "invalid_value" : "server_error", NULL, "%s", fault.text);
        }
        for (uint32_t i = 0; i < c->params.n; i++)
            generation_begin(&c->choices[c->submitted_count++], c->engine->sched, group[i]);
    }
    return RC_OK;
}

bool completion_step(struct completion *c, uint32_t k)
{
    const struct generation *first = &c->choices[k - k % c->params.n];
    bool scored = first->token_count > 0 || first->ended;
    if (c->params.echo && c->params.logprobs >= 0 && k % c->params.n > 0 && !scored)
        return false;
    return generation_step(&c->choices[k]);
}

void completion_fail(struct completion *c, enum rc rc)
{
    if (c->failed)
        return;
    c->failed = true;
    if (rc == RC_CORRUPT)
        completion_say_lost(&c->error);
    else
        api_error_set(&c->error, 500, "server_error", NULL, "the model run failed: %s",
                      rc_text(rc));
    completion_cancel(c);
}

void completion_say_lost(struct api_error *error)
{
    api_error_set(error, 503, "model_lost", NULL,
                  "bytes of the model file are gone: put it back whole, and start again");
}

bool completion_take(struct completion *c)
{
    for (uint32_t k = 0; k < c->submitted_count; k++)
        generation_take(&c->choices[k]);
    return completion_ended(c);
}

bool completion_ended(struct completion *c)
{
    c->ended_count = 0;
    for (uint32_t k = 0; k < c->submitted_count; k++) {
        c->ended_count += c->choices[k].ended;
        if (c->choices[k].finish == FINISH_ERROR)
            completion_fail(c, c->choices[k].error);
    }
    return c->ended_count == c->submitted_count &&
           (c->failed || c->cancelled || c->submitted_count == c->choice_count);
}

void completion_cancel(struct completion *c)
{
    c->cancelled = true;
    for (uint32_t k = 0; k < c->submitted_count; k++)
        generation_cancel(&c->choices[k]);
}

uint32_t completion_prompt_tokens(const struct completion *c)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < c->params.prompt_count; i++)
        sum += c->prompts[i].count;
    return (uint32_t)sum;
}

uint32_t completion_output_tokens(const struct completion *c)
{
    uint32_t sum = 0;
    for (uint32_t k = 0; k < c->choice_count; k++)
        sum += c->choices[k].token_count;
    return sum;
}

uint64_t completion_output_tokens_max(const struct completion *c)
{
    uint64_t sum = 0, context = sched_ctx_tokens(c->engine->sched);
    for (uint32_t i = 0; i < c->params.prompt_count; i++) {
        uint64_t left = context - c->prompts[i].count, wanted = (uint64_t)c->params.max_tokens;
        sum += (wanted < left ? wanted : left) * c->params.n; /* -1 is more than any */
    }
    return sum;
}

void completion_close(struct completion *c)
{
    for (uint32_t k = 0; k < c->choice_count; k++)
        generation_close(&c->choices[k]);
    for (uint32_t i = 0; c->prompts != NULL && i < c->params.prompt_count; i++)
        token_list_close(&c->prompts[i]);
    pooled_close(c->pooled);
    mem_free(c->choices);
    mem_free(c->prompts);
    completion_params_close(&c->params);
    *c = (struct completion){ 0 };
}
