/* SPDX-License-Identifier: MIT */
/* chat_messages - see chat_messages.h. One pass over the messages, each copied and corrected, then
 * the tools and the system turn, which need the whole list.
 * Text that stands for what a template lacks uses the marks <tool_call> and <tool_response>, which
 * most models have seen and which the parser of calls knows. */
#include "frontend/api/chat_messages.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

#define SHORT_ID_CHARS 9u
#define CALLS_MAX 256u /* in one turn: each result looks for its call among them */

/* A text that grows; full when there was no memory, and empty then. */
struct text {
    char *bytes;
    size_t len, capacity;
    bool full;
};

struct work {
    const struct chat_caps *caps;
    struct fault *fault;
    enum rc rc;
    size_t index;        /* of the message at hand */
    json_t *out;         /* the result */
    json_t *calls;       /* of the last assistant turn that has any, as in the result */
    size_t results_seen; /* since */
    unsigned next_id;    /* for calls without one */
    struct text results; /* in a row, that are to become a user's turn */
};

/* The first failure stays. */
ATTR_COLD ATTR_PRINTF(2, 3) static void refuse(struct work *w, const char *fmt, ...)
{
    if (w->rc != RC_OK)
        return;
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    w->rc = fault_set(w->fault, RC_INVALID, "messages[%zu]%s", w->index, text);
}

static void lack_memory(struct work *w)
{
    if (w->rc == RC_OK)
        w->rc = fault_set(w->fault, RC_NO_MEMORY, "no memory for the messages");
}

/* Sets a member to a value that is handed over; NULL is a lack of memory. */
static void set(struct work *w, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        lack_memory(w);
}

static bool is_text(json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* --- texts --- */

static void text_add(struct text *t, const char *bytes, size_t len)
{
    if (t->full || len == 0)
        return;
    if (len > t->capacity - t->len) {
        size_t capacity = 2 * t->capacity + len + 64;
        char *grown = mem_grow(t->bytes, t->len, capacity);
        if (grown == NULL) {
            t->full = true;
            return;
        }
        t->bytes = grown;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
}

static void text_word(struct text *t, const char *word)
{
    text_add(t, word, strlen(word));
}

static void text_string(struct text *t, json_t *string)
{
    text_add(t, json_string_value(string), json_string_length(string));
}

static int text_append(const char *bytes, size_t len, void *ctx)
{
    text_add(ctx, bytes, len);
    return 0;
}

static void text_dump(struct text *t, json_t *value)
{
    if (json_dump_callback(value, text_append, t, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) != 0)
        t->full = true;
}

/* Between two parts of a text: nothing where the first is empty. */
static void text_part(struct text *t, const char *between)
{
    if (t->len > 0)
        text_word(t, between);
}

/* The text as a JSON string, NULL when there was no memory; the text is empty again. */
static json_t *text_take(struct text *t)
{
    json_t *string = t->full ? NULL : json_stringn(t->bytes == NULL ? "" : t->bytes, t->len);
    mem_free(t->bytes);
    *t = (struct text){ 0 };
    return string;
}

/* --- content --- */

static json_t *part_text(struct work *w, json_t *part, size_t at)
{
    static const char *const kinds[] = { "text", "input_text", "output_text", "refusal" };
    json_t *type = json_object_get(part, "type");
    if (json_is_string(part))
        return part;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!is_text(type, kinds[i]))
            continue;
        json_t *text = json_object_get(part, i == 3 ? "refusal" : "text");
        if (json_is_string(text))
            return text;
        refuse(w, ".content[%zu].text must be a text", at);
        return NULL;
    }
    if (json_is_string(type))
        refuse(w, ".content[%zu]: parts of type '%.40s' are not supported", at,
               json_string_value(type));
    else
        refuse(w, ".content[%zu].type is missing", at);
    return NULL;
}

/* The content as one text, a new reference. */
static json_t *content_text(struct work *w, json_t *content)
{
    if (content == NULL || json_is_null(content))
        return json_string("");
    if (json_is_string(content))
        return json_incref(content);
    if (!json_is_array(content)) {
        refuse(w, ".content must be a text, null or a list of parts");
        return NULL;
    }
    struct text whole = { 0 };
    for (size_t i = 0; i < json_array_size(content) && w->rc == RC_OK; i++) {
        text_part(&whole, "\n");
        text_string(&whole, part_text(w, json_array_get(content, i), i));
    }
    return text_take(&whole);
}

/* --- calls --- */

/* Nine letters and digits that depend on the id alone. */
static json_t *short_id(json_t *id)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *text = json_string_value(id);
    size_t len = json_string_length(id);
    if (len == SHORT_ID_CHARS && strspn(text, digits) == len)
        return json_incref(id);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    char out[SHORT_ID_CHARS];
    for (size_t i = 0; i < SHORT_ID_CHARS; i++) {
        out[i] = digits[hash % 62];
        hash /= 62;
    }
    return json_stringn(out, sizeof out);
}

static void fix_id(struct work *w, json_t *object, const char *key)
{
    json_t *id = json_object_get(object, key);
    if (json_is_string(id) && w->caps->short_ids)
        set(w, object, key, short_id(id));
}

/* Arguments as an object, or as a text; a text that is no JSON object stays what it is. */
static json_t *fixed_arguments(const struct work *w, json_t *arguments)
{
    if (w->caps->text_arguments) {
        if (json_is_string(arguments))
            return json_incref(arguments);
        struct text dump = { 0 };
        if (arguments == NULL)
            return json_string("{}");
        text_dump(&dump, arguments);
        return text_take(&dump);
    }
    if (!json_is_string(arguments))
        return arguments == NULL ? json_object() : json_incref(arguments);
    if (json_string_length(arguments) == 0)
        return json_object();
    json_t *parsed = json_loadb(json_string_value(arguments), json_string_length(arguments),
                                JSON_ALLOW_NUL, NULL);
    if (json_is_object(parsed))
        return parsed;
    json_decref(parsed);
    return json_incref(arguments);
}

static json_t *fixed_call(struct work *w, json_t *in, size_t at)
{
    json_t *function = json_object_get(in, "function");
    if (!json_is_object(function) || !json_is_string(json_object_get(function, "name"))) {
        refuse(w, ".tool_calls[%zu].function.name is missing", at);
        return NULL;
    }
    json_t *call = json_copy(in);
    function = json_copy(function);
    if (call == NULL || function == NULL) {
        json_decref(call);
        json_decref(function);
        return NULL;
    }
    set(w, function, "arguments", fixed_arguments(w, json_object_get(function, "arguments")));
    set(w, call, "function", function);
    if (!json_is_string(json_object_get(call, "id"))) {
        char id[16];
        snprintf(id, sizeof id, "call%05u", w->next_id++ % 100000);
        set(w, call, "id", json_string(id));
    }
    if (!json_is_string(json_object_get(call, "type")))
        set(w, call, "type", json_string("function"));
    fix_id(w, call, "id");
    return call;
}

/* Calls behind the content, for templates that do not show them. */
static void calls_as_text(struct work *w, json_t *message, json_t *calls)
{
    struct text all = { 0 };
    text_string(&all, json_object_get(message, "content"));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        text_part(&all, "\n");
        text_word(&all, "<tool_call>\n");
        text_dump(&all, json_object_get(json_array_get(calls, i), "function"));
        text_word(&all, "\n</tool_call>");
    }
    set(w, message, "content", text_take(&all));
    json_object_del(message, "tool_calls");
}

static void fix_calls(struct work *w, json_t *message)
{
    json_t *in = json_object_get(message, "tool_calls");
    if (in == NULL || json_is_null(in) || (json_is_array(in) && json_array_size(in) == 0)) {
        json_object_del(message, "tool_calls");
        return;
    }
    if (!json_is_array(in)) {
        refuse(w, ".tool_calls must be a list");
        return;
    }
    if (json_array_size(in) > CALLS_MAX) {
        refuse(w, ".tool_calls has over %u calls", CALLS_MAX);
        return;
    }
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(in) && w->rc == RC_OK; i++)
        if (json_array_append_new(calls, fixed_call(w, json_array_get(in, i), i)) != 0)
            lack_memory(w);
    json_decref(w->calls);
    w->calls = json_incref(calls);
    w->results_seen = 0;
    if (w->caps->tool_calls) {
        set(w, message, "tool_calls", calls);
        return;
    }
    calls_as_text(w, message, calls);
    json_decref(calls);
}

/* --- results --- */

/* The call that a result answers: by id, else by its place. */
static json_t *answered_call(const struct work *w, json_t *id)
{
    for (size_t i = 0; i < json_array_size(w->calls); i++) {
        json_t *call = json_array_get(w->calls, i);
        if (json_is_string(id) ? json_equal(json_object_get(call, "id"), id) : i == w->results_seen)
            return call;
    }
    return NULL;
}

static void fix_result(struct work *w, json_t *message)
{
    fix_id(w, message, "tool_call_id");
    json_t *call = answered_call(w, json_object_get(message, "tool_call_id"));
    json_t *name = json_object_get(json_object_get(call, "function"), "name");
    w->results_seen++;
    if (call != NULL && !json_is_string(json_object_get(message, "tool_call_id")))
        set(w, message, "tool_call_id", json_incref(json_object_get(call, "id")));
    if (name != NULL && !json_is_string(json_object_get(message, "name")))
        set(w, message, "name", json_incref(name));
}

/* --- the list --- */

static void append_turn(struct work *w, json_t *list, const char *role, json_t *content)
{
    json_t *turn = json_object();
    set(w, turn, "role", json_string(role));
    set(w, turn, "content", content);
    if (json_array_append_new(list, turn) != 0)
        lack_memory(w);
}

/* Results in a row are one user's turn, for templates without a turn for them. */
static void append_results(struct work *w)
{
    if (w->results.len > 0 || w->results.full)
        append_turn(w, w->out, "user", text_take(&w->results));
}

static void add_result(struct work *w, json_t *content)
{
    text_part(&w->results, "\n");
    text_word(&w->results, "<tool_response>\n");
    text_string(&w->results, content);
    text_word(&w->results, "\n</tool_response>");
}

/* Who speaks, in words that the template knows. */
static const char *fixed_role(const struct work *w, const char *role)
{
    if (strcmp(role, "developer") == 0 && !w->caps->developer)
        return "system";
    return strcmp(role, "function") == 0 ? "tool" : role;
}

static void append_message(struct work *w, json_t *in)
{
    json_t *role = json_object_get(in, "role"), *reasoning = json_object_get(in, "reasoning");
    if (!json_is_object(in) || !json_is_string(role)) {
        refuse(w, json_is_object(in) ? ".role must be a text" : " must be an object");
        return;
    }
    json_t *content = json_object_get(in, "content");
    if (is_text(role, "user") && (content == NULL || json_is_null(content))) {
        refuse(w, ".content is missing");
        return;
    }
    json_t *message = json_copy(in), *text = content_text(w, content);
    if (message == NULL || text == NULL) {
        lack_memory(w);
        json_decref(message);
        json_decref(text);
        return;
    }
    const char *who = fixed_role(w, json_string_value(role));
    set(w, message, "role", json_string(who));
    set(w, message, "content", text);
    if (json_is_string(reasoning) && !json_is_string(json_object_get(in, "reasoning_content")))
        set(w, message, "reasoning_content", json_incref(reasoning));
    fix_calls(w, message);
    bool result = strcmp(who, "tool") == 0;
    if (result)
        fix_result(w, message);
    if (result && !w->caps->tool_results) {
        add_result(w, json_object_get(message, "content"));
        json_decref(message);
        return;
    }
    append_results(w);
    if (json_array_append_new(w->out, message) != 0)
        lack_memory(w);
}

/* --- the whole list --- */

/* A description of the tools at the end of the first system turn, or as one. */
static void tools_as_text(struct work *w, json_t *tools)
{
    struct text all = { 0 };
    json_t *first = json_array_get(w->out, 0);
    bool has_system = is_text(json_object_get(first, "role"), "system");
    if (has_system)
        text_string(&all, json_object_get(first, "content"));
    text_part(&all, "\n\n");
    text_word(&all, "You may call functions. Each line below describes one, as JSON:");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        text_word(&all, "\n");
        text_dump(&all, json_array_get(tools, i));
    }
    text_word(&all, "\nTo call one, answer with its name and arguments like this:\n<tool_call>\n"
                    "{\"name\": \"...\", \"arguments\": {...}}\n</tool_call>");
    if (has_system) {
        set(w, first, "content", text_take(&all));
        return;
    }
    json_t *list = json_array();
    append_turn(w, list, "system", text_take(&all));
    if (json_array_extend(list, w->out) != 0)
        lack_memory(w);
    json_decref(w->out);
    w->out = list;
}

/* System turns in front of the first user turn's text; a new turn where there is none. */
static void merge_system(struct work *w)
{
    struct text system = { 0 };
    json_t *list = json_array(), *user = NULL;
    for (size_t i = 0; i < json_array_size(w->out); i++) {
        json_t *message = json_array_get(w->out, i), *role = json_object_get(message, "role");
        if (is_text(role, "system")) {
            text_part(&system, "\n\n");
            text_string(&system, json_object_get(message, "content"));
            continue;
        }
        if (user == NULL && is_text(role, "user"))
            user = message;
        if (json_array_append(list, message) != 0)
            lack_memory(w);
    }
    if (system.len > 0 && user != NULL) {
        json_t *content = json_object_get(user, "content");
        text_word(&system, json_string_length(content) > 0 ? "\n\n" : "");
        text_string(&system, content);
        set(w, user, "content", text_take(&system));
    } else if (system.len > 0) {
        json_t *rest = list;
        list = json_array();
        append_turn(w, list, "user", text_take(&system));
        if (json_array_extend(list, rest) != 0)
            lack_memory(w);
        json_decref(rest);
    } else if (system.full) {
        lack_memory(w);
    }
    mem_free(system.bytes);
    json_decref(w->out);
    w->out = list;
}

/* Content as a list of one part. */
static void wrap_content(struct work *w)
{
    for (size_t i = 0; i < json_array_size(w->out) && w->rc == RC_OK; i++) {
        json_t *message = json_array_get(w->out, i), *part = json_object(), *list = json_array();
        set(w, part, "type", json_string("text"));
        set(w, part, "text", json_incref(json_object_get(message, "content")));
        if (json_array_append_new(list, part) != 0)
            lack_memory(w);
        set(w, message, "content", list);
    }
}

enum rc chat_messages_normalize(json_t **out, json_t *messages, json_t *tools,
                                const struct chat_caps *caps, struct fault *fault)
{
    struct work w = { .caps = caps, .fault = fault, .rc = RC_OK };
    *out = NULL;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return fault_set(fault, RC_INVALID, "messages must be a list of at least one message");
    w.out = json_array();
    if (w.out == NULL)
        lack_memory(&w);
    for (; w.index < json_array_size(messages) && w.rc == RC_OK; w.index++)
        append_message(&w, json_array_get(messages, w.index));
    if (w.rc == RC_OK)
        append_results(&w);
    if (w.rc == RC_OK && !caps->tools && json_array_size(tools) > 0)
        tools_as_text(&w, tools);
    if (w.rc == RC_OK && !caps->system)
        merge_system(&w);
    if (w.rc == RC_OK && caps->parts)
        wrap_content(&w);
    mem_free(w.results.bytes);
    json_decref(w.calls);
    if (w.rc != RC_OK) {
        json_decref(w.out);
        return w.rc;
    }
    *out = w.out;
    return RC_OK;
}
