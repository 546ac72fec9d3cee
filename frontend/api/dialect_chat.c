/* SPDX-License-Identifier: MIT */
/* dialect_chat - /v1/chat/completions: chat_step gives one token at a time, and what it has made
 * grow becomes a chunk:
 *
 *   token -> reasoning, content, calls -> what is behind `sent` -> data: {"choices": [{"delta": ..
 *
 * So a stream has a chunk per token however late it is read. The ids of calls are made of the
 * answer's id: they are the same in a stream and in a body. */
#include "frontend/api/dialect.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/api/chat.h"
#include "frontend/api/sse.h"
#include "frontend/api/token_text.h"

struct chat_sent {
    size_t reasoning, content, arguments; /* bytes; arguments: of the last call */
    uint32_t calls;
    uint32_t tokens; /* whose log-probabilities were sent */
    bool role, finish;
};

struct chat_job {
    struct chat chat;
    const struct api_call *call;
    char id[64];
    struct chat_sent *sent; /* [choices] */
    uint32_t sent_count;    /* of them whose end was sent */
    uint32_t told;          /* tokens of the prompt */
};

static void close_job(void *job)
{
    struct chat_job *c = job;
    mem_free(c->sent);
    chat_close(&c->chat);
    mem_free(c);
}

static enum rc open_job(void **job, const struct api_context *x, const struct api_call *call,
                        json_t *body, struct api_error *error)
{
    struct chat_job *c = mem_alloc(sizeof *c);
    if (c == NULL)
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    enum rc rc = chat_open(&c->chat, x->chat, body, x->chat_defaults, call, error);
    if (rc != RC_OK) {
        mem_free(c);
        return rc;
    }
    snprintf(c->id, sizeof c->id, "chatcmpl-%s", call->id);
    c->call = call;
    c->sent = mem_alloc_array(c->chat.completion.choice_count, sizeof *c->sent);
    *job = c;
    if (c->sent != NULL)
        return RC_OK;
    close_job(c);
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

static struct completion *completion_of(void *job)
{
    return &((struct chat_job *)job)->chat.completion;
}

static json_t *text_json(const struct text *t, size_t from)
{
    return json_stringn(t->len > 0 ? t->data + from : "", t->len - from);
}

/* --- log-probabilities --- */

/* Tokens [from, to) of choice k: {"content": [..]}. */
static json_t *logprobs_json(const struct chat *c, uint32_t k, uint32_t from, uint32_t to)
{
    const struct generation *g = &c->completion.choices[k];
    const struct tokenizer *t = c->model->engine->tokenizer;
    struct text key = { 0 };
    json_t *list = json_array();
    bool failed = list == NULL;
    for (uint32_t i = from; i < to && !failed; i++) {
        uint32_t count = 0;
        const struct token_logprob *top =
            c->completion.params.logprobs > 0 ? request_top(g->request, i, &count) : NULL;
        json_t *entry = token_json(t, request_token(g->request, i), request_logprob(g->request, i),
                                   false, &key);
        json_t *best = json_array();
        for (uint32_t b = 0; b < count && !failed; b++)
            failed = json_array_append_new(
                         best, token_json(t, top[b].token, top[b].logprob, false, &key)) != 0;
        failed |= json_object_set_new(entry, "top_logprobs", best) != 0;
        failed |= json_array_append_new(list, entry) != 0;
    }
    text_close(&key);
    if (!failed)
        return json_pack("{s:o, s:n}", "content", list, "refusal");
    json_decref(list);
    return NULL;
}

/* Tokens of choice k that are text: all but a stop id at the end. */
static uint32_t text_tokens(const struct chat *c, uint32_t k)
{
    const struct generation *g = &c->completion.choices[k];
    uint32_t n = g->token_count;
    for (uint32_t i = 0; n > 0 && i < g->stop_id_count; i++)
        if (g->stop_ids[i] == request_token(g->request, n - 1))
            return n - 1;
    return n;
}

/* --- the body --- */

static json_t *call_json(const struct chat_job *c, uint32_t k, uint32_t i, json_t *arguments)
{
    const struct answer_call *call = &c->chat.choices[k].answer.calls[i];
    const char *dash = strchr(c->id, '-');
    char id[sizeof c->id + 32];
    snprintf(id, sizeof id, "call_%s_%u_%u", dash != NULL ? dash + 1 : c->id, k, i);
    return json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", id, "type", "function", "function", "name",
                     text_json(&call->name, 0), "arguments", arguments);
}

static json_t *message_json(const struct chat_job *c, uint32_t k)
{
    const struct answer *a = &c->chat.choices[k].answer;
    bool none = a->content.len == 0 && a->call_count > 0;
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content",
                                none ? json_null() : text_json(&a->content, 0));
    bool failed = message == NULL;
    if (a->reasoning.len > 0)
        failed |= json_object_set_new(message, "reasoning_content", text_json(&a->reasoning, 0));
    if (a->call_count > 0) {
        json_t *calls = json_array();
        for (uint32_t i = 0; i < a->call_count; i++)
            failed |= json_array_append_new(
                calls, call_json(c, k, i, text_json(&a->calls[i].arguments, 0)));
        failed |= json_object_set_new(message, "tool_calls", calls);
    }
    if (!failed)
        return message;
    json_decref(message);
    return NULL;
}

static json_t *body_of(const void *job)
{
    const struct chat_job *c = job;
    const struct completion *run = &c->chat.completion;
    json_t *choices = json_array();
    bool failed = choices == NULL;
    for (uint32_t k = 0; k < run->choice_count && !failed; k++) {
        json_t *logprobs = run->params.logprobs < 0
                               ? json_null()
                               : logprobs_json(&c->chat, k, 0, text_tokens(&c->chat, k));
        json_t *choice =
            json_pack("{s:i, s:o, s:o, s:s}", "index", (int)k, "message", message_json(c, k),
                      "logprobs", logprobs, "finish_reason", chat_finish(&c->chat, k));
        failed = json_array_append_new(choices, choice) != 0;
    }
    if (failed) {
        json_decref(choices);
        return NULL;
    }
    json_t *body =
        json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", c->id, "object", "chat.completion",
                  "created", (json_int_t)c->call->created, "model", c->chat.model->engine->name,
                  "choices", choices, "usage", completion_usage(run));
    if (body == NULL || completion_report(run, body, c->call->timings) == RC_OK)
        return body;
    json_decref(body);
    return NULL;
}

/* --- the stream --- */

/* What a chunk may carry beside its choices. */
enum { WITH_USAGE = 1, WITH_REPORT = 2 };

/* A chunk with these choices. */
static json_t *chunk_json(const struct chat_job *c, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", c->id, "object", "chat.completion.chunk",
                     "created", (json_int_t)c->call->created, "model", c->chat.model->engine->name,
                     "choices", choices);
}

static enum rc put_chunk(const struct chat_job *c, struct text *out, json_t *choices, unsigned with)
{
    const struct completion *run = &c->chat.completion;
    json_t *chunk = chunk_json(c, choices);
    bool failed = chunk == NULL;
    if ((with & WITH_USAGE) != 0)
        failed |= json_object_set_new(chunk, "usage", completion_usage(run)) != 0;
    if (!failed && (with & WITH_REPORT) != 0)
        failed = completion_report(run, chunk, c->call->timings) != RC_OK;
    if (!failed)
        return sse_append(out, NULL, chunk);
    json_decref(chunk);
    return RC_NO_MEMORY;
}

/* How far the prompt is, before anything of the answer. */
static enum rc put_progress(struct chat_job *c, struct text *out)
{
    bool none;
    json_t *progress = completion_progress(&c->chat.completion, &c->told, &none);
    if (none)
        return RC_OK;
    json_t *chunk = chunk_json(c, json_array());
    if (json_object_set_new(chunk, "prompt_progress", progress) == 0)
        return sse_append(out, NULL, chunk);
    json_decref(chunk);
    return RC_NO_MEMORY;
}

/* One delta of choice k, with the log-probabilities that are due; takes the reference. */
static enum rc put_delta(struct chat_job *c, uint32_t k, json_t *delta, const char *finish,
                         struct text *out)
{
    const struct completion_params *p = &c->chat.completion.params;
    struct chat_sent *sent = &c->sent[k];
    uint32_t to = p->logprobs >= 0 ? text_tokens(&c->chat, k) : 0;
    bool role = json_object_get(delta, "role") != NULL;
    json_t *logprobs =
        to > sent->tokens && !role ? logprobs_json(&c->chat, k, sent->tokens, to) : json_null();
    if (!role && to > sent->tokens)
        sent->tokens = to;
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)k, "delta", delta, "logprobs",
                               logprobs, "finish_reason", finish);
    bool last = finish != NULL && ++c->sent_count == c->chat.completion.choice_count;
    unsigned with =
        (p->continuous_usage ? WITH_USAGE : 0u) | (last && !p->include_usage ? WITH_REPORT : 0u);
    return put_chunk(c, out, json_pack("[o]", choice), with);
}

static enum rc put_text(struct chat_job *c, uint32_t k, const char *key, const struct text *text,
                        size_t *sent, struct text *out)
{
    if (text->len == *sent)
        return RC_OK;
    json_t *delta = json_pack("{s:o}", key, text_json(text, *sent));
    *sent = text->len;
    return put_delta(c, k, delta, NULL, out);
}

/* A call's head once, then its arguments as they come. */
static enum rc put_calls(struct chat_job *c, uint32_t k, struct text *out)
{
    const struct answer *a = &c->chat.choices[k].answer;
    struct chat_sent *sent = &c->sent[k];
    enum rc rc = RC_OK;
    for (uint32_t i = sent->calls > 0 ? sent->calls - 1 : 0; i < a->call_count && rc == RC_OK;
         i++) {
        const struct text *arguments = &a->calls[i].arguments;
        if (i == sent->calls) {
            json_t *head = call_json(c, k, i, json_string(""));
            rc = json_object_set_new(head, "index", json_integer(i)) == 0 ? RC_OK : RC_NO_MEMORY;
            sent->calls = i + 1;
            sent->arguments = 0;
            if (rc == RC_OK)
                rc = put_delta(c, k, json_pack("{s:[o]}", "tool_calls", head), NULL, out);
            else
                json_decref(head);
        }
        if (rc != RC_OK || arguments->len == sent->arguments)
            continue;
        json_t *delta = json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", (int)i, "function",
                                  "arguments", text_json(arguments, sent->arguments));
        sent->arguments = arguments->len;
        rc = put_delta(c, k, delta, NULL, out);
    }
    return rc;
}

static enum rc put_new(struct chat_job *c, uint32_t k, struct text *out)
{
    const struct answer *a = &c->chat.choices[k].answer;
    const struct generation *g = &c->chat.completion.choices[k];
    struct chat_sent *sent = &c->sent[k];
    enum rc rc = RC_OK;
    if (!sent->role && g->finish != FINISH_ERROR) {
        sent->role = true;
        rc =
            put_delta(c, k, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, out);
    }
    if (rc == RC_OK)
        rc = put_text(c, k, "reasoning_content", &a->reasoning, &sent->reasoning, out);
    if (rc == RC_OK)
        rc = put_text(c, k, "content", &a->content, &sent->content, out);
    if (rc == RC_OK)
        rc = put_calls(c, k, out);
    if (rc == RC_OK && c->chat.choices[k].ended && !sent->finish && g->finish != FINISH_ERROR) {
        sent->finish = true;
        rc = put_delta(c, k, json_object(), chat_finish(&c->chat, k), out);
    }
    return rc;
}

static json_t *error_body(const struct api_error *error)
{
    return json_pack("{s:o}", "error", api_error_json(error));
}

static enum rc put_end(struct chat_job *c, struct text *out)
{
    const struct completion *run = &c->chat.completion;
    enum rc rc = RC_OK;
    if (run->failed)
        rc = sse_append(out, NULL, error_body(&run->error));
    else if (run->params.include_usage)
        rc = put_chunk(c, out, json_array(), WITH_USAGE | WITH_REPORT);
    return rc == RC_OK ? text_append(out, "data: [DONE]\n\n", 14) : rc;
}

static bool take(void *job, struct text *frames)
{
    struct chat_job *c = job;
    struct completion *run = &c->chat.completion;
    enum rc rc = frames != NULL && !run->failed ? put_progress(c, frames) : RC_OK;
    for (uint32_t k = 0; frames != NULL && k < run->submitted_count; k++)
        while (rc == RC_OK && !run->failed && chat_step(&c->chat, k))
            rc = put_new(c, k, frames);
    bool ended = frames != NULL && !run->failed ? completion_ended(run) : chat_take(&c->chat);
    if (rc == RC_OK && ended && frames != NULL)
        rc = put_end(c, frames);
    if (rc != RC_OK)
        completion_fail(run, rc);
    return ended;
}

const struct dialect dialect_chat = {
    .name = "chat",
    .ping = ":\n\n",
    .open = open_job,
    .completion = completion_of,
    .take = take,
    .body = body_of,
    .error_body = error_body,
    .close = close_job,
    .starved = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
               "\"param\":null,\"code\":\"out_of_memory\"}}\n\n"
               "data: [DONE]\n\n",
};
