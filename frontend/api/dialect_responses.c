/* SPDX-License-Identifier: MIT */
/* dialect_responses - OpenAI's /v1/responses, without any store: its body becomes one of chat
 * completions (responses_body.c), the answer goes out as output items.
 *
 *   response.created  response.in_progress
 *   (response.output_item.added  response.content_part.added  ..delta ..  ..done
 *    response.content_part.done  response.output_item.done) for each of thought, text, calls
 *   response.completed, .incomplete or .failed
 *
 * Each event says its type in its data too, and has a number of its own. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/api/chat.h"
#include "frontend/api/chat_blocks.h"
#include "frontend/api/dialect.h"
#include "frontend/api/messages_body.h"
#include "frontend/api/sse.h"

struct responses_job {
    struct chat chat;
    struct chat_blocks blocks;
    json_t *asked; /* the body, parts of which the answer repeats */
    json_t *items; /* that are done */
    char id[48];   /* without a prefix */
    int64_t created;
    int64_t number; /* of the next event */
    bool started;
};

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

static void close_job(void *job)
{
    struct responses_job *r = job;
    chat_close(&r->chat);
    json_decref(r->asked);
    json_decref(r->items);
    mem_free(r);
}

static enum rc open_job(void **job, const struct api_context *x, const struct api_call *call,
                        json_t *body, struct api_error *error)
{
    json_t *own;
    enum rc rc = responses_body(&own, body, error);
    if (rc != RC_OK)
        return rc;
    struct responses_job *r = mem_alloc(sizeof *r);
    rc = r != NULL ? chat_open(&r->chat, x->chat, own, x->chat_defaults, call, error)
                   : no_memory(error);
    json_decref(own);
    if (rc != RC_OK) {
        const json_t *front = json_object_get(body, "instructions");
        bool none = front == NULL || json_is_null(front);
        api_error_retell(error, "input", none ? NULL : "instructions");
        api_error_rename(error, "max_tokens", "max_output_tokens");
        api_error_rename(error, "response_format", "text.format");
        api_error_rename(error, "reasoning_effort", "reasoning.effort");
        mem_free(r);
        return rc;
    }
    snprintf(r->id, sizeof r->id, "%s", call->id);
    r->created = call->created;
    r->asked = json_incref(body);
    r->items = json_array();
    *job = r;
    if (r->items != NULL)
        return RC_OK;
    close_job(r);
    return no_memory(error);
}

static struct completion *completion_of(void *job)
{
    return &((struct responses_job *)job)->chat.completion;
}

/* --- the answer's parts --- */

static json_t *string_json(struct str s)
{
    return json_stringn(s.len > 0 ? s.text : "", s.len);
}

static const char *item_prefix(enum block_kind kind)
{
    return kind == BLOCK_CALL ? "fc" : kind == BLOCK_THOUGHT ? "rs" : "msg";
}

static void item_id(const struct responses_job *r, char id[64])
{
    snprintf(id, 64, "%s_%s_%u", item_prefix(r->blocks.open), r->id, r->blocks.index);
}

static json_t *part_json(const struct responses_job *r, struct str text)
{
    if (r->blocks.open == BLOCK_THOUGHT)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", string_json(text));
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", string_json(text),
                     "annotations", "logprobs");
}

/* What is cut off is the last item, which closes when all has ended. */
static const char *item_status(const struct responses_job *r)
{
    const struct chat_choice *choice = &r->chat.choices[0];
    bool cut = choice->ended && chat_blocks_last(&r->blocks, &choice->answer) &&
               strcmp(chat_finish(&r->chat, 0), "length") == 0;
    return cut ? "incomplete" : "completed";
}

/* The item at hand; without text it has just begun. */
static json_t *item_json(const struct responses_job *r, const struct str *text)
{
    const struct chat_blocks *b = &r->blocks;
    const char *status = text != NULL ? item_status(r) : "in_progress";
    struct str shown = text != NULL ? *text : str_of(NULL);
    char id[64], call_id[64];
    item_id(r, id);
    json_t *parts = text != NULL && b->open != BLOCK_CALL ? json_pack("[o]", part_json(r, shown))
                                                          : json_array();
    if (b->open == BLOCK_TEXT)
        return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status,
                         "role", "assistant", "content", parts);
    if (b->open == BLOCK_THOUGHT)
        return json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", id, "type", "reasoning", "status",
                         status, "summary", "content", parts);
    json_decref(parts);
    const struct text *name = &r->chat.choices[0].answer.calls[b->calls - 1].name;
    snprintf(call_id, sizeof call_id, "call_%s_%u", r->id, b->calls - 1);
    return json_pack("{s:s, s:s, s:s, s:s, s:s%, s:o}", "id", id, "type", "function_call", "status",
                     status, "call_id", call_id, "name", name->data, name->len, "arguments",
                     string_json(shown));
}

static json_t *usage_json(const struct responses_job *r)
{
    const struct completion *run = &r->chat.completion;
    json_int_t input = completion_prompt_tokens(run), output = completion_output_tokens(run);
    json_int_t cached =
        run->submitted_count > 0 ? request_cached_count(run->choices[0].request) : 0;
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", input,
                     "input_tokens_details", "cached_tokens", cached, "output_tokens", output,
                     "output_tokens_details", "reasoning_tokens", 0, "total_tokens",
                     input + output);
}

static json_t *asked(const struct responses_job *r, const char *name, json_t *otherwise)
{
    json_t *v = json_object_get(r->asked, name);
    if (v == NULL || json_is_null(v))
        return otherwise;
    json_decref(otherwise);
    return json_incref(v);
}

static const char *end_status(const struct responses_job *r)
{
    if (r->chat.completion.failed)
        return "failed";
    return strcmp(chat_finish(&r->chat, 0), "length") == 0 ? "incomplete" : "completed";
}

static json_t *error_body(const struct api_error *error)
{
    return json_pack("{s:o}", "error", api_error_json(error));
}

static json_t *response_json(const struct responses_job *r, const char *status)
{
    const struct completion *run = &r->chat.completion;
    const struct sampling *s = &run->params.sampling;
    bool running = strcmp(status, "in_progress") == 0, failed = strcmp(status, "failed") == 0;
    char id[64];
    snprintf(id, sizeof id, "resp_%s", r->id);
    json_t *out =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:O, s:o, s:n, s:b}", "id", id, "object", "response",
                  "created_at", (json_int_t)r->created, "status", status, "model",
                  r->chat.model->engine->name, "output", r->items, "usage",
                  running ? json_null() : usage_json(r), "previous_response_id", "store", 0);
    struct {
        const char *name;
        json_t *value;
    } more[] = {
        { "error",
          failed ? json_pack("{s:s, s:s}", "code", "server_error", "message", run->error.message)
                 : json_null() },
        { "incomplete_details", strcmp(status, "incomplete") == 0
                                    ? json_pack("{s:s}", "reason", "max_output_tokens")
                                    : json_null() },
        { "temperature", json_real((double)s->temperature) },
        { "top_p", json_real((double)s->top_p) },
        { "instructions", asked(r, "instructions", json_null()) },
        { "max_output_tokens", asked(r, "max_output_tokens", json_null()) },
        { "metadata", asked(r, "metadata", json_object()) },
        { "parallel_tool_calls", asked(r, "parallel_tool_calls", json_true()) },
        { "reasoning", asked(r, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")) },
        { "text", asked(r, "text", json_pack("{s:{s:s}}", "format", "type", "text")) },
        { "tool_choice", asked(r, "tool_choice", json_string("auto")) },
        { "tools", asked(r, "tools", json_array()) },
        { "truncation", json_string("disabled") },
    };
    bool starved = out == NULL;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        starved |= json_object_set_new(out, more[i].name, more[i].value) != 0;
    if (!starved)
        return out;
    json_decref(out);
    return NULL;
}

/* --- the stream --- */

/* Adds type and number and, for an event of an item, where it belongs. */
static enum rc put(struct responses_job *r, struct text *frames, const char *name, bool of_part,
                   json_t *data)
{
    char id[64];
    bool starved = data == NULL;
    item_id(r, id);
    if (of_part) {
        starved |= json_object_set_new(data, "item_id", json_string(id)) != 0;
        if (r->blocks.open != BLOCK_CALL)
            starved |= json_object_set_new(data, "content_index", json_integer(0)) != 0;
    }
    if (json_object_get(data, "response") == NULL)
        starved |= json_object_set_new(data, "output_index", json_integer(r->blocks.index)) != 0;
    starved |= json_object_set_new(data, "type", json_string(name)) != 0;
    starved |= json_object_set_new(data, "sequence_number", json_integer(r->number++)) != 0;
    if (starved) {
        json_decref(data);
        return RC_NO_MEMORY;
    }
    return sse_append(frames, name, data);
}

static enum rc put_response(struct responses_job *r, struct text *frames, const char *event,
                            const char *status)
{
    return put(r, frames, event, false, json_pack("{s:o}", "response", response_json(r, status)));
}

/* Names of the events of a kind of item: more, and all of it. */
static const char *const growth[][2] = {
    [BLOCK_THOUGHT] = { "response.reasoning_text.delta", "response.reasoning_text.done" },
    [BLOCK_TEXT] = { "response.output_text.delta", "response.output_text.done" },
    [BLOCK_CALL] = { "response.function_call_arguments.delta",
                     "response.function_call_arguments.done" },
};

static enum rc put_open(struct responses_job *r, struct text *frames)
{
    enum rc rc = put(r, frames, "response.output_item.added", false,
                     json_pack("{s:o}", "item", item_json(r, NULL)));
    if (rc != RC_OK || r->blocks.open == BLOCK_CALL)
        return rc;
    return put(r, frames, "response.content_part.added", true,
               json_pack("{s:o}", "part", part_json(r, str_of(NULL))));
}

static enum rc put_grow(struct responses_job *r, struct str grown, struct text *frames)
{
    json_t *data = json_pack("{s:o}", "delta", string_json(grown));
    if (r->blocks.open == BLOCK_TEXT && json_object_set_new(data, "logprobs", json_array()) != 0) {
        json_decref(data);
        return RC_NO_MEMORY;
    }
    return put(r, frames, growth[r->blocks.open][0], true, data);
}

static enum rc put_close(struct responses_job *r, struct text *frames)
{
    enum block_kind kind = r->blocks.open;
    struct str all = chat_blocks_text(&r->blocks, &r->chat.choices[0].answer);
    json_t *item = item_json(r, &all);
    json_t *data = json_pack("{s:o}", kind == BLOCK_CALL ? "arguments" : "text", string_json(all));
    if (kind == BLOCK_TEXT && json_object_set_new(data, "logprobs", json_array()) != 0) {
        json_decref(data);
        data = NULL;
    }
    if (kind == BLOCK_CALL && json_object_set(data, "name", json_object_get(item, "name")) != 0) {
        json_decref(data);
        data = NULL;
    }
    enum rc rc = put(r, frames, growth[kind][1], true, data);
    if (rc == RC_OK && kind != BLOCK_CALL)
        rc = put(r, frames, "response.content_part.done", true,
                 json_pack("{s:o}", "part", part_json(r, all)));
    if (rc == RC_OK && json_array_append(r->items, item) != 0)
        rc = RC_NO_MEMORY;
    if (rc == RC_OK)
        rc = put(r, frames, "response.output_item.done", false, json_pack("{s:O}", "item", item));
    json_decref(item);
    return rc;
}

static enum rc put_start(struct responses_job *r, struct text *frames)
{
    r->started = true;
    enum rc rc = put_response(r, frames, "response.created", "in_progress");
    return rc == RC_OK ? put_response(r, frames, "response.in_progress", "in_progress") : rc;
}

static enum rc put_blocks(struct responses_job *r, struct text *frames)
{
    const struct chat_choice *choice = &r->chat.choices[0];
    struct str grown;
    enum block_event event;
    enum rc rc = r->started ? RC_OK : put_start(r, frames);
    while (rc == RC_OK && (event = chat_blocks_next(&r->blocks, &choice->answer, choice->ended,
                                                    &grown)) != BLOCK_QUIET)
        rc = event == BLOCK_OPEN   ? put_open(r, frames)
             : event == BLOCK_GROW ? put_grow(r, grown, frames)
                                   : put_close(r, frames);
    return rc;
}

static enum rc put_end(struct responses_job *r, struct text *frames)
{
    const char *status = end_status(r);
    char event[32];
    snprintf(event, sizeof event, "response.%s", status);
    enum rc rc = r->started ? RC_OK : put_start(r, frames);
    return rc == RC_OK ? put_response(r, frames, event, status) : rc;
}

static bool take(void *job, struct text *frames)
{
    struct responses_job *r = job;
    struct completion *run = &r->chat.completion;
    enum rc rc = RC_OK;
    while (frames != NULL && rc == RC_OK && run->submitted_count > 0 && chat_step(&r->chat, 0))
        if (run->choices[0].finish != FINISH_ERROR)
            rc = put_blocks(r, frames);
    bool ended = frames != NULL && !run->failed ? completion_ended(run) : chat_take(&r->chat);
    if (rc == RC_OK && ended && frames != NULL)
        rc = put_end(r, frames);
    if (rc != RC_OK)
        completion_fail(run, rc);
    return ended;
}

/* The items of a whole answer are made as a stream makes them, and nobody reads the events. */
static json_t *body_of(const void *job)
{
    struct responses_job *r = (struct responses_job *)(uintptr_t)job;
    struct text frames = { 0 };
    enum rc rc = put_blocks(r, &frames);
    text_close(&frames);
    return rc == RC_OK ? response_json(r, end_status(r)) : NULL;
}

const struct dialect dialect_responses = {
    .name = "responses",
    .ping = ":\n\n",
    .open = open_job,
    .completion = completion_of,
    .take = take,
    .body = body_of,
    .error_body = error_body,
    .close = close_job,
    .starved = "event: error\ndata: {\"type\":\"error\",\"code\":\"out_of_memory\",\"message\":"
               "\"out of memory\",\"param\":null}\n\n",
};
