/* SPDX-License-Identifier: MIT */
/* dialect_native - /completion as llama.cpp has it: its names, its answer, its stream. A chunk has
 * one token of one choice, the last one of a choice has `stop`: true and what came before left out.
 * With several choices the body is a list. Nothing in it says which slot ran it: there are none. */
#include <string.h>

#include "core/mem.h"
#include "frontend/api/dialect.h"
#include "frontend/api/sse.h"
#include "frontend/api/token_text.h"

struct native_sent {
    size_t text_bytes;
    uint32_t tokens;
};

struct native_job {
    struct completion completion;
    const struct api_call *call;
    struct native_sent *sent; /* [choice_count] */
    uint32_t told;            /* tokens of the prompt */
};

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

static void close_job(void *p)
{
    struct native_job *job = p;
    completion_close(&job->completion);
    mem_free(job->sent);
    mem_free(job);
}

/* Without n_predict an answer goes as far as the context. */
static enum rc open_job(void **out, const struct api_context *x, const struct api_call *call,
                        json_t *body, struct api_error *error)
{
    struct completion_params p, defaults = *x->defaults;
    struct native_job *job = mem_alloc(sizeof *job);
    if (job == NULL)
        return no_memory(error);
    defaults.max_tokens = x->chat_defaults->max_tokens;
    enum rc rc = native_params_open(&p, body, &defaults, x->engine->model->vocab_count, error);
    if (rc == RC_OK)
        rc = completion_open(&job->completion, x->engine, &p, x->special, error);
    if (rc != RC_OK) {
        mem_free(job);
        return rc;
    }
    job->call = call;
    job->completion.user = call->user;
    job->sent = mem_alloc_array(job->completion.choice_count, sizeof *job->sent);
    *out = job;
    if (job->sent != NULL)
        return RC_OK;
    close_job(job);
    return no_memory(error);
}

static struct completion *completion_of(void *job)
{
    return &((struct native_job *)job)->completion;
}

/* --- parts --- */

static json_t *ids_json(const struct generation *g, uint32_t from)
{
    json_t *list = json_array();
    bool failed = list == NULL;
    for (uint32_t i = from; i < g->token_count && !failed; i++)
        failed = json_array_append_new(list, json_integer(request_token(g->request, i))) != 0;
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* Tokens [from, token_count) of choice k, each with the best beside it. */
static json_t *probabilities_json(const struct completion *c, uint32_t k, uint32_t from)
{
    const struct generation *g = &c->choices[k];
    const struct tokenizer *t = c->engine->tokenizer;
    struct text key = { 0 };
    json_t *list = json_array();
    bool failed = list == NULL;
    for (uint32_t i = from; i < g->token_count && !failed; i++) {
        uint32_t count = 0;
        const struct token_logprob *top = request_top(g->request, i, &count);
        json_t *best = json_array();
        for (uint32_t b = 0; b < count && !failed; b++)
            failed = json_array_append_new(
                         best, token_json(t, top[b].token, top[b].logprob, true, &key)) != 0;
        json_t *entry =
            token_json(t, request_token(g->request, i), request_logprob(g->request, i), true, &key);
        failed |= json_object_set_new(entry, "top_logprobs", best) != 0;
        failed |= json_array_append_new(list, entry) != 0;
    }
    text_close(&key);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *settings_json(const struct completion *c)
{
    const struct completion_params *p = &c->params;
    const struct sampling *s = &p->sampling;
    json_t *stops = json_array();
    bool failed = stops == NULL;
    for (uint32_t i = 0; i < p->stop_count && !failed; i++)
        failed = json_array_append_new(stops, json_stringn(p->stops[i].text, p->stops[i].len)) != 0;
    if (failed) {
        json_decref(stops);
        return NULL;
    }
    return json_pack(
        "{s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:I, s:I, s:b, s:b, s:i, s:I, s:o}",
        "seed", (json_int_t)p->seed, "temperature", (double)s->temperature, "top_k",
        (json_int_t)s->top_k, "top_p", (double)s->top_p, "min_p", (double)s->min_p, "typical_p",
        (double)s->typical_p, "repeat_penalty", (double)s->repeat_penalty, "repeat_last_n",
        (int)s->repeat_last_n, "frequency_penalty", (double)s->frequency_penalty,
        "presence_penalty", (double)s->presence_penalty, "n_predict", (json_int_t)p->max_tokens,
        "max_tokens", (json_int_t)p->max_tokens, "ignore_eos", (int)p->ignore_eos, "stream",
        (int)p->stream, "n_probs", p->logprobs > 0 ? (int)p->logprobs : 0, "n_ctx",
        (json_int_t)sched_ctx_tokens(c->engine->sched), "stop", stops);
}

/* The prompt as it was given: text, or its ids. */
static json_t *prompt_json(const struct completion *c, uint32_t k)
{
    const struct prompt *p = &c->params.prompts[k / c->params.n];
    if (p->text != NULL)
        return json_stringn(p->text, p->len);
    json_t *list = json_array();
    bool failed = list == NULL;
    for (uint32_t i = 0; i < p->id_count && !failed; i++)
        failed = json_array_append_new(list, json_integer(p->ids[i])) != 0;
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static const char *stop_type(const struct generation *g)
{
    if (g->finish == FINISH_LENGTH)
        return "limit";
    return g->stop.hit ? "word" : "eos";
}

/* What a chunk and the end of choice k have in common; the text from byte `text_from` on. */
static json_t *piece_json(const struct completion *c, uint32_t k, size_t text_from, json_t *tokens,
                          bool stop)
{
    const struct generation *g = &c->choices[k];
    const char *text = g->text.len > text_from ? g->text.data + text_from : "";
    size_t len = g->text.len > text_from ? g->text.len - text_from : 0;
    return json_pack("{s:i, s:s%, s:o, s:b, s:i, s:I, s:I}", "index", (int)k, "content", text, len,
                     "tokens", tokens, "stop", (int)stop, "id_slot", -1, "tokens_predicted",
                     (json_int_t)g->token_count, "tokens_evaluated",
                     (json_int_t)c->prompts[k / c->params.n].count);
}

/* The end of choice k; in a stream the text has been sent. */
static json_t *end_json(const struct native_job *job, uint32_t k, bool stream)
{
    const struct completion *c = &job->completion;
    const struct generation *g = &c->choices[k];
    bool wanted = !stream && c->params.return_tokens;
    json_t *tokens = wanted ? ids_json(g, 0) : json_array();
    json_t *out = piece_json(c, k, stream ? g->text.len : 0, tokens, true);
    json_t *more = json_pack(
        "{s:s, s:o, s:o, s:b, s:b, s:s, s:s%, s:I}", "model", c->engine->name, "prompt",
        prompt_json(c, k), "generation_settings", settings_json(c), "has_new_line",
        (int)(g->text.len > 0 && memchr(g->text.data, '\n', g->text.len) != NULL), "truncated", 0,
        "stop_type", stop_type(g), "stopping_word", g->stop.hit ? g->stop.hit_text : "",
        g->stop.hit ? g->stop.hit_len : (size_t)0, "tokens_cached",
        (json_int_t)(c->prompts[k / c->params.n].count + g->token_count));
    bool failed = out == NULL || more == NULL || json_object_update_new(out, more) != 0;
    if (!failed && !stream && c->params.logprobs > 0)
        failed =
            json_object_set_new(out, "completion_probabilities", probabilities_json(c, k, 0)) != 0;
    if (!failed)
        failed = completion_report(c, out, job->call->timings) != RC_OK;
    if (!failed)
        return out;
    if (out == NULL)
        json_decref(more);
    json_decref(out);
    return NULL;
}

/* --- the stream --- */

static enum rc put_new(struct native_job *job, uint32_t k, struct text *frames)
{
    const struct completion *c = &job->completion;
    const struct generation *g = &c->choices[k];
    struct native_sent *sent = &job->sent[k];
    bool shows = c->params.return_tokens || c->params.logprobs > 0;
    bool token = shows && g->token_count > sent->tokens;
    enum rc rc = RC_OK;
    if (token || g->text.len > sent->text_bytes) {
        json_t *chunk = piece_json(c, k, sent->text_bytes, ids_json(g, sent->tokens), false);
        if (c->params.logprobs > 0 &&
            json_object_set_new(chunk, "completion_probabilities",
                                probabilities_json(c, k, sent->tokens)) != 0) {
            json_decref(chunk);
            return RC_NO_MEMORY;
        }
        sent->tokens = g->token_count;
        sent->text_bytes = g->text.len;
        rc = sse_append(frames, NULL, chunk);
    }
    if (rc == RC_OK && g->ended && g->finish != FINISH_ERROR)
        rc = sse_append(frames, NULL, end_json(job, k, true));
    return rc;
}

static enum rc put_progress(struct native_job *job, struct text *frames)
{
    bool none;
    json_t *progress = completion_progress(&job->completion, &job->told, &none);
    if (none)
        return RC_OK;
    json_t *chunk = piece_json(&job->completion, 0, 0, json_array(), false);
    if (json_object_set_new(chunk, "prompt_progress", progress) == 0)
        return sse_append(frames, NULL, chunk);
    json_decref(chunk);
    return RC_NO_MEMORY;
}

static json_t *error_body(const struct api_error *error)
{
    return json_pack("{s:o}", "error", api_error_json(error));
}

static bool take(void *p, struct text *frames)
{
    struct native_job *job = p;
    struct completion *c = &job->completion;
    enum rc rc = frames != NULL && !c->failed ? put_progress(job, frames) : RC_OK;
    for (uint32_t k = 0; frames != NULL && k < c->submitted_count; k++)
        while (rc == RC_OK && !c->failed && completion_step(c, k))
            rc = put_new(job, k, frames);
    bool ended = frames != NULL && !c->failed ? completion_ended(c) : completion_take(c);
    if (rc == RC_OK && ended && frames != NULL && c->failed)
        rc = sse_append(frames, NULL, error_body(&c->error));
    if (rc != RC_OK)
        completion_fail(c, rc);
    return ended;
}

static json_t *body_of(const void *p)
{
    const struct native_job *job = p;
    const struct completion *c = &job->completion;
    if (c->choice_count == 1)
        return end_json(job, 0, false);
    json_t *list = json_array();
    bool failed = list == NULL;
    for (uint32_t k = 0; k < c->choice_count && !failed; k++)
        failed = json_array_append_new(list, end_json(job, k, false)) != 0;
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

const struct dialect dialect_native = {
    .name = "native",
    .ping = ":\n\n",
    .open = open_job,
    .completion = completion_of,
    .take = take,
    .body = body_of,
    .error_body = error_body,
    .close = close_job,
    .starved = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
               "\"param\":null,\"code\":\"out_of_memory\"}}\n\n",
};
