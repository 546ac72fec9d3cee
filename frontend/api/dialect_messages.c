/* SPDX-License-Identifier: MIT */
/* dialect_messages - Anthropic's /v1/messages: its body becomes one of chat completions
 * (messages_body.c), the answer goes out as content blocks.
 *
 *   message_start  (content_block_start  content_block_delta ..  content_block_stop) ..
 *   message_delta  message_stop
 *
 * Tokens that the prefix cache had are counted apart from the other input tokens, as there. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/api/chat.h"
#include "frontend/api/chat_blocks.h"
#include "frontend/api/dialect.h"
#include "frontend/api/messages_body.h"
#include "frontend/api/sse.h"

struct messages_job {
    struct chat chat;
    struct chat_blocks blocks;
    char id[48];
    bool started;
};

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

static void close_job(void *job)
{
    chat_close(&((struct messages_job *)job)->chat);
    mem_free(job);
}

/* An error of the chat that a body has become, in the words of the body. */
static void retell(struct api_error *error, const json_t *body)
{
    const json_t *system = json_object_get(body, "system");
    bool front = system != NULL && !json_is_null(system);
    api_error_retell(error, "messages", front ? "system" : NULL);
    api_error_rename(error, "stop", "stop_sequences");
}

static enum rc open_job(void **job, const struct api_context *x, const struct api_call *call,
                        json_t *body, struct api_error *error)
{
    json_t *own;
    enum rc rc = messages_body(&own, body, error);
    if (rc != RC_OK)
        return rc;
    struct messages_job *m = mem_alloc(sizeof *m);
    rc = m != NULL ? chat_open(&m->chat, x->chat, own, x->chat_defaults, call, error)
                   : no_memory(error);
    json_decref(own);
    if (rc != RC_OK) {
        retell(error, body);
        mem_free(m);
        return rc;
    }
    snprintf(m->id, sizeof m->id, "msg_%s", call->id);
    *job = m;
    return RC_OK;
}

static struct completion *completion_of(void *job)
{
    return &((struct messages_job *)job)->chat.completion;
}

static json_t *usage_json(const struct messages_job *m)
{
    const struct completion *run = &m->chat.completion;
    const struct generation *g = &run->choices[0];
    json_int_t cached = g->request != NULL ? request_cached_count(g->request) : 0;
    return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens",
                     (json_int_t)completion_prompt_tokens(run) - cached,
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", cached,
                     "output_tokens", (json_int_t)completion_output_tokens(run));
}

static const char *stop_reason(const struct messages_job *m)
{
    const char *finish = chat_finish(&m->chat, 0);
    if (strcmp(finish, "tool_calls") == 0)
        return "tool_use";
    if (strcmp(finish, "length") == 0)
        return "max_tokens";
    return m->chat.completion.choices[0].stop.hit ? "stop_sequence" : "end_turn";
}

static json_t *stop_sequence(const struct messages_job *m)
{
    const struct stop *s = &m->chat.completion.choices[0].stop;
    return s->hit ? json_stringn(s->hit_text, s->hit_len) : json_null();
}

static json_t *string_json(struct str s)
{
    return json_stringn(s.len > 0 ? s.text : "", s.len);
}

static json_t *call_head(const struct messages_job *m, uint32_t i, json_t *input)
{
    const struct text *name = &m->chat.choices[0].answer.calls[i].name;
    char id[64];
    snprintf(id, sizeof id, "toolu_%s_%u", m->id + strlen("msg_"), i);
    return json_pack("{s:s, s:s, s:s%, s:o}", "type", "tool_use", "id", id, "name", name->data,
                     name->len, "input", input);
}

/* --- the body --- */

/* Arguments as an object; what is no JSON is kept under a name of its own. */
static json_t *input_json(const struct text *arguments)
{
    json_t *v = json_loadb(arguments->data, arguments->len, JSON_ALLOW_NUL, NULL);
    if (json_is_object(v))
        return v;
    json_decref(v);
    return json_pack("{s:s%}", "raw_arguments", arguments->data, arguments->len);
}

static json_t *message_json(const struct messages_job *m, json_t *content, json_t *reason,
                            json_t *sequence)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", m->id, "type", "message",
                     "role", "assistant", "model", m->chat.model->engine->name, "content", content,
                     "stop_reason", reason, "stop_sequence", sequence, "usage", usage_json(m));
}

static json_t *body_of(const void *job)
{
    const struct messages_job *m = job;
    const struct answer *a = &m->chat.choices[0].answer;
    json_t *content = json_array();
    bool failed = content == NULL;
    if (a->reasoning.len > 0)
        failed |= json_array_append_new(content, json_pack("{s:s, s:s%, s:s}", "type", "thinking",
                                                           "thinking", a->reasoning.data,
                                                           a->reasoning.len, "signature", ""));
    if (a->content.len > 0)
        failed |= json_array_append_new(content, json_pack("{s:s, s:s%}", "type", "text", "text",
                                                           a->content.data, a->content.len));
    for (uint32_t i = 0; i < a->call_count; i++)
        failed |=
            json_array_append_new(content, call_head(m, i, input_json(&a->calls[i].arguments)));
    if (!failed)
        return message_json(m, content, json_string(stop_reason(m)), stop_sequence(m));
    json_decref(content);
    return NULL;
}

/* --- the stream --- */

static enum rc put(struct text *frames, const char *name, json_t *data)
{
    if (data != NULL && json_object_set_new(data, "type", json_string(name)) != 0) {
        json_decref(data);
        data = NULL;
    }
    return sse_append(frames, name, data);
}

static enum rc put_start(struct messages_job *m, struct text *frames)
{
    m->started = true;
    return put(
        frames, "message_start",
        json_pack("{s:o}", "message", message_json(m, json_array(), json_null(), json_null())));
}

static json_t *empty_block(const struct messages_job *m)
{
    const struct chat_blocks *b = &m->blocks;
    if (b->open == BLOCK_CALL)
        return call_head(m, b->calls - 1, json_object());
    if (b->open == BLOCK_THOUGHT)
        return json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "");
    return json_pack("{s:s, s:s}", "type", "text", "text", "");
}

static enum rc put_block_event(const struct messages_job *m, enum block_event event,
                               struct str grown, struct text *frames)
{
    static const char *const deltas[][2] = {
        [BLOCK_THOUGHT] = { "thinking_delta", "thinking" },
        [BLOCK_TEXT] = { "text_delta", "text" },
        [BLOCK_CALL] = { "input_json_delta", "partial_json" },
    };
    const struct chat_blocks *b = &m->blocks;
    json_int_t index = b->index;
    if (event == BLOCK_OPEN)
        return put(frames, "content_block_start",
                   json_pack("{s:I, s:o}", "index", index, "content_block", empty_block(m)));
    if (event == BLOCK_CLOSE)
        return put(frames, "content_block_stop", json_pack("{s:I}", "index", index));
    return put(frames, "content_block_delta",
               json_pack("{s:I, s:{s:s, s:o}}", "index", index, "delta", "type", deltas[b->open][0],
                         deltas[b->open][1], string_json(grown)));
}

static enum rc put_blocks(struct messages_job *m, struct text *frames)
{
    const struct chat_choice *choice = &m->chat.choices[0];
    struct str grown;
    enum block_event event;
    enum rc rc = m->started ? RC_OK : put_start(m, frames);
    while (rc == RC_OK && (event = chat_blocks_next(&m->blocks, &choice->answer, choice->ended,
                                                    &grown)) != BLOCK_QUIET)
        rc = put_block_event(m, event, grown, frames);
    return rc;
}

static json_t *error_body(const struct api_error *error)
{
    const char *type = error->status == 503   ? "overloaded_error"
                       : error->status >= 500 ? "api_error"
                                              : error->type;
    return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", type, "message",
                     error->message);
}

static enum rc put_end(struct messages_job *m, struct text *frames)
{
    const struct completion *run = &m->chat.completion;
    if (run->failed)
        return sse_append(frames, "error", error_body(&run->error));
    enum rc rc = put(frames, "message_delta",
                     json_pack("{s:{s:s, s:o}, s:o}", "delta", "stop_reason", stop_reason(m),
                               "stop_sequence", stop_sequence(m), "usage", usage_json(m)));
    return rc == RC_OK ? put(frames, "message_stop", json_object()) : rc;
}

static bool take(void *job, struct text *frames)
{
    struct messages_job *m = job;
    struct completion *run = &m->chat.completion;
    enum rc rc = RC_OK;
    while (frames != NULL && rc == RC_OK && run->submitted_count > 0 && chat_step(&m->chat, 0))
        if (run->choices[0].finish != FINISH_ERROR)
            rc = put_blocks(m, frames);
    bool ended = frames != NULL && !run->failed ? completion_ended(run) : chat_take(&m->chat);
    if (rc == RC_OK && ended && frames != NULL)
        rc = put_end(m, frames);
    if (rc != RC_OK)
        completion_fail(run, rc);
    return ended;
}

const struct dialect dialect_messages = {
    .name = "messages",
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .open = open_job,
    .completion = completion_of,
    .take = take,
    .body = body_of,
    .error_body = error_body,
    .close = close_job,
    .starved = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
               "\"message\":\"out of memory\"}}\n\n",
};

json_t *query_count_tokens(const struct api_context *x, json_t *body, struct api_error *error)
{
    struct chat_prompt prompt = { 0 };
    struct token_list ids = { 0 };
    json_t *own, *out = NULL;
    if (messages_body(&own, body, error) != RC_OK)
        return NULL;
    if (chat_prompt_of(&prompt, &ids, x->chat, own, error) == RC_OK) {
        out = json_pack("{s:I}", "input_tokens", (json_int_t)ids.count);
        if (out == NULL)
            (void)no_memory(error);
    } else {
        retell(error, body);
    }
    chat_prompt_close(&prompt);
    token_list_close(&ids);
    json_decref(own);
    return out;
}
