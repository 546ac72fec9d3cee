/* SPDX-License-Identifier: MIT */
/* responses_body - the items of /v1/responses to messages. Calls that follow each other are one
 * assistant's turn, together with the text before them. Nothing is stored, so what refers to a
 * stored answer is refused. */
#include <string.h>

#include "frontend/api/body_work.h"
#include "frontend/api/messages_body.h"

/* Content as text parts; a new reference, NULL for what is none. */
static json_t *text_parts(struct work *w, json_t *content)
{
    size_t i;
    json_t *part, *out;
    if (json_is_string(content))
        return json_incref(content);
    if (!json_is_array(content))
        return NULL;
    out = json_array();
    json_array_foreach(content, i, part)
    {
        json_t *type = get(part, "type"), *text = get(part, "text");
        bool known = is(type, "input_text") || is(type, "output_text") || is(type, "text");
        if (!known || !json_is_string(text)) {
            json_decref(out);
            return NULL;
        }
        append(w, out, json_pack("{s:s, s:O}", "type", "text", "text", text));
    }
    return out;
}

static enum rc add_message(struct work *w, json_t *item)
{
    json_t *role = get(item, "role"), *content = text_parts(w, get(item, "content"));
    if (content == NULL || !json_is_string(role)) {
        json_decref(content);
        return refuse(w, "a message has a role, and content that is text");
    }
    append(w, w->turns, json_pack("{s:O, s:o}", "role", role, "content", content));
    return RC_OK;
}

static enum rc add_call(struct work *w, json_t *item)
{
    json_t *id = get(item, "call_id"), *name = get(item, "name");
    json_t *arguments = get(item, "arguments");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return refuse(w, "a function_call has call_id, name and arguments");
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    json_t *last = json_array_get(w->turns, json_array_size(w->turns) - 1);
    if (!is(get(last, "role"), "assistant")) {
        append(w, w->turns, json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
        last = json_array_get(w->turns, json_array_size(w->turns) - 1);
    }
    if (get(last, "tool_calls") == NULL)
        set(w, last, "tool_calls", json_array());
    append(w, get(last, "tool_calls"), call);
    return RC_OK;
}

static enum rc add_result(struct work *w, json_t *item)
{
    json_t *id = get(item, "call_id"), *output = text_parts(w, get(item, "output"));
    if (!json_is_string(id) || output == NULL) {
        json_decref(output);
        return refuse(w, "a function_call_output has call_id, and output that is text");
    }
    append(w, w->turns,
           json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", output));
    return RC_OK;
}

static enum rc add_item(struct work *w, json_t *item)
{
    json_t *type = get(item, "type");
    if (type == NULL || is(type, "message"))
        return add_message(w, item);
    if (is(type, "function_call"))
        return add_call(w, item);
    if (is(type, "function_call_output"))
        return add_result(w, item);
    if (is(type, "reasoning")) /* of earlier turns: models do not read it again */
        return RC_OK;
    return refuse(w, "only messages, function_call, function_call_output and reasoning");
}

static enum rc add_input(struct work *w, json_t *body)
{
    json_t *instructions = get(body, "instructions"), *input = get(body, "input"), *item;
    if (instructions != NULL)
        append(w, w->turns, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input)) {
        append(w, w->turns, json_pack("{s:s, s:O}", "role", "user", "content", input));
        return RC_OK;
    }
    if (!json_is_array(input) || json_array_size(input) == 0)
        return api_error_set(w->error, 400, "missing_field", "input",
                             "input must be a string or a list of items");
    enum rc rc = RC_OK;
    json_array_foreach(input, w->index, item)
    {
        rc = add_item(w, item);
        if (rc != RC_OK)
            break;
    }
    return rc;
}

static enum rc add_tools(struct work *w, json_t *body, json_t *out)
{
    size_t i;
    json_t *tool, *tools = get(body, "tools");
    if (tools == NULL)
        return RC_OK;
    if (!json_is_array(tools))
        return api_error_set(w->error, 400, "invalid_type", "tools", "tools must be a list");
    json_t *list = json_array();
    json_array_foreach(tools, i, tool)
    {
        if (!is(get(tool, "type"), "function")) {
            json_decref(list);
            return api_error_set(w->error, 400, "not_supported", "tools",
                                 "tools[%zu]: only tools of type function are supported", i);
        }
        json_t *function = json_copy(tool);
        w->starved |= function == NULL || json_object_del(function, "type") != 0;
        append(w, list, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    set(w, out, "tools", list);
    return RC_OK;
}

/* Fields that refer to what is not kept, or ask for what is not there. */
static enum rc check_refused(json_t *body, struct api_error *error)
{
    static const char *const refused[] = { "previous_response_id", "conversation", "prompt",
                                           "background", "top_logprobs" };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        json_t *v = get(body, refused[i]);
        bool asks =
            v != NULL && !json_is_false(v) && !(json_is_integer(v) && json_integer_value(v) == 0);
        if (asks)
            return api_error_set(error, 400, "not_supported", refused[i],
                                 "%s is not supported: answers are not stored, send all items",
                                 refused[i]);
    }
    return RC_OK;
}

enum rc responses_body(json_t **out, json_t *body, struct api_error *error)
{
    static const char *const names[][2] = {
        { "max_tokens", "max_tokens" },
        { "max_output_tokens", "max_tokens" },
        { "temperature", "temperature" },
        { "top_p", "top_p" },
        /* beyond OpenAI's: what its chat completions take, and more */
        { "seed", "seed" },
        { "top_k", "top_k" },
        { "min_p", "min_p" },
        { "typical_p", "typical_p" },
        { "repetition_penalty", "repetition_penalty" },
        { "repeat_last_n", "repeat_last_n" },
        { "presence_penalty", "presence_penalty" },
        { "frequency_penalty", "frequency_penalty" },
        { "stop", "stop" },
        { "logit_bias", "logit_bias" },
        { "ignore_eos", "ignore_eos" },
        { "priority", "priority" },
        { "stream", "stream" },
        { "tool_choice", "tool_choice" },
        { "parallel_tool_calls", "parallel_tool_calls" },
        { "chat_template_kwargs", "chat_template_kwargs" },
    };
    struct work w = { .error = error, .field = "input" };
    *out = NULL;
    if (!json_is_object(body))
        return api_error_kind(error, NULL, "an object", body);
    enum rc rc = check_refused(body, error);
    if (rc != RC_OK)
        return rc;
    json_t *own = json_object();
    w.turns = json_array();
    rc = add_input(&w, body);
    if (rc == RC_OK)
        rc = add_tools(&w, body, own);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (get(body, names[i][0]) != NULL)
            set(&w, own, names[i][1], json_incref(get(body, names[i][0])));
    json_t *effort = get(get(body, "reasoning"), "effort");
    json_t *format = get(get(body, "text"), "format");
    if (effort != NULL)
        set(&w, own, "reasoning_effort", json_incref(effort));
    if (format != NULL)
        set(&w, own, "response_format", json_incref(format));
    set(&w, own, "messages", w.turns);
    if (rc == RC_OK && w.starved)
        rc = api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    if (rc == RC_OK)
        *out = own;
    else
        json_decref(own);
    return rc;
}
