/* SPDX-License-Identifier: MIT */
/* messages_body - Anthropic's turns to OpenAI's:
 *
 *   system                         a system turn in front
 *   user:      tool_result ..      a tool turn each, before the user's text
 *   assistant: text, tool_use ..   one turn with content and tool_calls; thinking is its reasoning;
 *                                  the last one is gone on with when it is text
 */
#include "frontend/api/messages_body.h"

#include <string.h>

#include "core/str.h"
#include "frontend/api/body_work.h"

static enum rc add_result(struct work *w, json_t *block)
{
    json_t *id = get(block, "tool_use_id"), *content = get(block, "content");
    if (!json_is_string(id))
        return refuse(w, "a tool_result has no tool_use_id");
    append(w, w->turns,
           json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content",
                     content != NULL ? json_incref(content) : json_string("")));
    return RC_OK;
}

static enum rc add_call(struct work *w, json_t *calls, json_t *block)
{
    json_t *id = get(block, "id"), *name = get(block, "name"), *input = get(block, "input");
    if (!json_is_string(id) || !json_is_string(name))
        return refuse(w, "a tool_use has no id or no name");
    append(w, calls,
           json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", input != NULL ? json_incref(input) : json_object()));
    return RC_OK;
}

/* One block of a turn: its text goes to parts, the rest where it belongs. */
static enum rc add_block(struct work *w, json_t *block, json_t *turn, json_t *parts, json_t *calls)
{
    json_t *type = get(block, "type"), *text = get(block, "text");
    json_t *thinking = get(block, "thinking");
    if (is(type, "text") && json_is_string(text)) {
        append(w, parts, json_pack("{s:s, s:O}", "type", "text", "text", text));
        return RC_OK;
    }
    if (is(type, "tool_result"))
        return add_result(w, block);
    if (is(type, "tool_use"))
        return add_call(w, calls, block);
    if (is(type, "thinking") && json_is_string(thinking)) {
        set(w, turn, "reasoning_content", json_incref(thinking));
        return RC_OK;
    }
    if (is(type, "redacted_thinking"))
        return RC_OK;
    return refuse(w, "only blocks of text, thinking, tool_use and tool_result are supported");
}

static enum rc add_blocks(struct work *w, json_t *role, json_t *blocks)
{
    size_t i;
    json_t *block, *turn = json_object(), *parts = json_array(), *calls = json_array();
    enum rc rc = RC_OK;
    w->starved |= turn == NULL || parts == NULL || calls == NULL;
    json_array_foreach(blocks, i, block)
    {
        rc = add_block(w, block, turn, parts, calls);
        if (rc != RC_OK)
            break;
    }
    set(w, turn, "role", json_incref(role));
    if (json_array_size(calls) > 0)
        set(w, turn, "tool_calls", json_incref(calls));
    bool empty = json_array_size(parts) == 0;
    bool spoken = !empty || json_array_size(calls) > 0 || is(role, "assistant");
    set(w, turn, "content", empty ? json_string("") : json_incref(parts));
    if (rc == RC_OK && spoken)
        append(w, w->turns, json_incref(turn));
    json_decref(turn);
    json_decref(parts);
    json_decref(calls);
    return rc;
}

static enum rc add_message(struct work *w, json_t *message)
{
    json_t *role = get(message, "role"), *content = get(message, "content");
    if (!is(role, "user") && !is(role, "assistant") && !is(role, "system"))
        return refuse(w, "role must be user or assistant");
    if (json_is_array(content))
        return add_blocks(w, role, content);
    if (!json_is_string(content))
        return refuse(w, "content must be a string or a list of blocks");
    append(w, w->turns, json_pack("{s:O, s:O}", "role", role, "content", content));
    return RC_OK;
}

static enum rc add_messages(struct work *w, json_t *body)
{
    json_t *system = get(body, "system"), *messages = get(body, "messages"), *message;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return api_error_set(w->error, 400, "missing_field", "messages",
                             "messages must be a list with at least one turn");
    if (system != NULL)
        append(w, w->turns, json_pack("{s:s, s:O}", "role", "system", "content", system));
    enum rc rc = RC_OK;
    json_array_foreach(messages, w->index, message)
    {
        rc = add_message(w, message);
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
        json_t *type = get(tool, "type"), *schema = get(tool, "input_schema");
        json_t *about = get(tool, "description"), *name = get(tool, "name");
        if ((type != NULL && !is(type, "custom")) || !json_is_string(name)) {
            json_decref(list);
            return api_error_set(w->error, 400, "not_supported", "tools",
                                 "tools[%zu]: only tools with a name and an input_schema", i);
        }
        append(w, list,
               json_pack("{s:s, s:{s:O, s:o, s:o}}", "type", "function", "function", "name", name,
                         "description", about != NULL ? json_incref(about) : json_string(""),
                         "parameters", schema != NULL ? json_incref(schema) : json_object()));
    }
    set(w, out, "tools", list);
    return RC_OK;
}

static enum rc add_choice(struct work *w, json_t *body, json_t *out)
{
    json_t *choice = get(body, "tool_choice"), *type = get(choice, "type");
    if (choice == NULL)
        return RC_OK;
    if (!is(type, "auto") && !is(type, "none"))
        return api_error_set(w->error, 400, "not_supported", "tool_choice",
                             "tool_choice: only the types auto and none are supported");
    set(w, out, "tool_choice", json_incref(type));
    json_t *one = get(choice, "disable_parallel_tool_use");
    if (json_is_true(one))
        set(w, out, "parallel_tool_calls", json_false());
    return RC_OK;
}

/* Whether the model is to think aloud. */
static enum rc add_thinking(struct work *w, json_t *body, json_t *out)
{
    json_t *thinking = get(body, "thinking"), *type = get(thinking, "type");
    if (thinking == NULL)
        return RC_OK;
    bool off = is(type, "disabled");
    if (!off && !is(type, "enabled") && !is(type, "adaptive"))
        return api_error_set(w->error, 400, "invalid_value", "thinking",
                             "thinking.type must be enabled, adaptive or disabled");
    set(w, out, "enable_thinking", off ? json_false() : json_true());
    return RC_OK;
}

/* Text of an assistant at the end is the beginning of the answer. */
static void add_prefill(struct work *w, json_t *out)
{
    json_t *last = json_array_get(w->turns, json_array_size(w->turns) - 1);
    json_t *text = get(last, "content");
    if (json_is_array(text))
        text = get(json_array_get(text, json_array_size(text) - 1), "text");
    struct str said = { json_string_value(text), json_string_length(text) };
    bool blank = str_trim(said).len == 0;
    if (is(get(last, "role"), "assistant") && get(last, "tool_calls") == NULL && !blank)
        set(w, out, "continue_final_message", json_true());
}

enum rc messages_body(json_t **out, json_t *body, struct api_error *error)
{
    static const char *const same[] = { "max_tokens", "temperature", "top_p",
                                        "top_k",      "stream",      "chat_template_kwargs" };
    struct work w = { .error = error, .field = "messages" };
    *out = NULL;
    if (!json_is_object(body))
        return api_error_kind(error, NULL, "an object", body);
    json_t *own = json_object();
    w.turns = json_array();
    enum rc rc = add_messages(&w, body);
    if (rc == RC_OK)
        rc = add_tools(&w, body, own);
    if (rc == RC_OK)
        rc = add_choice(&w, body, own);
    if (rc == RC_OK)
        rc = add_thinking(&w, body, own);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (get(body, same[i]) != NULL)
            set(&w, own, same[i], json_incref(get(body, same[i])));
    if (get(body, "stop_sequences") != NULL)
        set(&w, own, "stop", json_incref(get(body, "stop_sequences")));
    add_prefill(&w, own);
    set(&w, own, "messages", w.turns);
    if (rc == RC_OK && w.starved)
        rc = api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    if (rc == RC_OK)
        *out = own;
    else
        json_decref(own);
    return rc;
}
