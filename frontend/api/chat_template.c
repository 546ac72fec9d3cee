/* SPDX-License-Identifier: MIT */
/* chat_template - see chat_template.h.
 * Probes: each is a conversation whose words are found nowhere else (UserMark, ToolMark ..). A
 * template can do something when it renders that conversation and the word is in the text. Which
 * of two ways it wants (arguments as object or text, tools undefined or null) is the one that
 * renders and looks right. */
#include "frontend/api/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

#define VARIABLES_MAX 64u
#define PROBES_MAX 16u /* renders of a template that is opened */
#define TAIL_MAX 1024u /* bytes that a template may write behind the last turn's text */
#define KWARGS_MAX (VARIABLES_MAX - 12u)

static const char chatml[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* Roles become part of control tokens ("<|user|>"), so these words are as good as the template's.
 * */
static const char *const roles[] = { "system",        "user",        "assistant", "tool",
                                     "developer",     "function",    "ipython",   "model",
                                     "tool_response", "observation", NULL };
static const struct jinja_known known_roles = { "role", roles };

/* What `tools` is when there are none. */
enum no_tools { NO_TOOLS_UNDEFINED, NO_TOOLS_NULL, NO_TOOLS_EMPTY };

struct chat_template {
    struct jinja *jinja;
    char *source;
    json_t *bos, *eos; /* texts, never NULL */
    struct jinja_options options;
    struct chat_caps caps;
    enum no_tools no_tools;
    bool fallback;
    bool starved; /* a probe found no memory */
};

/* --- variables --- */

struct variables {
    struct jinja_variable list[VARIABLES_MAX];
    size_t count;
    json_t *owned[4]; /* values that were made for this render */
    size_t owned_count;
};

static void add(struct variables *v, const char *name, json_t *value, bool trusted)
{
    v->list[v->count++] = (struct jinja_variable){ name, value, trusted };
}

static bool has(json_t *list)
{
    return json_is_array(list) && json_array_size(list) > 0;
}

/* The caller's own variables, which may not replace the conversation. */
static enum rc add_kwargs(struct variables *v, json_t *kwargs, struct fault *fault)
{
    static const char *const reserved[] = { "messages",  "tools",     "documents",
                                            "bos_token", "eos_token", "add_generation_prompt" };
    const char *name;
    json_t *value;
    if (kwargs == NULL || json_is_null(kwargs))
        return RC_OK;
    if (!json_is_object(kwargs))
        return fault_set(fault, RC_INVALID, "chat_template_kwargs must be an object");
    if (json_object_size(kwargs) > KWARGS_MAX)
        return fault_set(fault, RC_INVALID, "chat_template_kwargs has over %u members", KWARGS_MAX);
    json_object_foreach(kwargs, name, value)
    {
        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
            if (strcmp(name, reserved[i]) == 0)
                return fault_set(fault, RC_INVALID,
                                 "chat_template_kwargs.%s: set the request's own field", name);
        add(v, name, value, false);
    }
    return RC_OK;
}

/* Some templates of 2024 take the tools as a text, and the time. */
static enum rc add_old_names(struct variables *v, const struct chat_template *t, json_t *tools,
                             struct fault *fault)
{
    if (!jinja_names(t->jinja, "functions") || !jinja_names(t->jinja, "datetime"))
        return RC_OK;
    static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    struct tm now = { .tm_mday = 1 };
    t->options.calendar.now(t->options.calendar.ctx, &now);
    char text[80];
    snprintf(text, sizeof text, "%s %02d %04d %02d:%02d:%02d", months[(unsigned)now.tm_mon % 12],
             now.tm_mday, now.tm_year + 1900, now.tm_hour, now.tm_min, now.tm_sec);
    json_t *date = json_string(text), *empty = json_array(), *functions = NULL;
    size_t len = json_dumpb(has(tools) ? tools : empty, NULL, 0, 0);
    char *dump = mem_alloc_raw(len + 1);
    if (dump != NULL) {
        json_dumpb(has(tools) ? tools : empty, dump, len, 0);
        functions = json_stringn(dump, len);
    }
    mem_free(dump);
    json_decref(empty);
    v->owned[v->owned_count++] = date;
    v->owned[v->owned_count++] = functions;
    if (date == NULL || functions == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for the template's variables");
    add(v, "datetime", date, true);
    add(v, "functions", functions, false);
    return RC_OK;
}

static void add_tools(struct variables *v, const struct chat_template *t, json_t *tools)
{
    if (has(tools)) {
        add(v, "tools", tools, false);
    } else if (t->no_tools != NO_TOOLS_UNDEFINED) {
        json_t *none = t->no_tools == NO_TOOLS_NULL ? json_null() : json_array();
        v->owned[v->owned_count++] = none;
        if (none != NULL)
            add(v, "tools", none, true);
    }
}

/* Renders messages that are in the template's shape. */
static enum rc render(struct jinja_output *out, const struct chat_template *t, json_t *messages,
                      json_t *tools, const struct chat_request *request, struct fault *fault)
{
    struct variables v = { .count = 0 };
    bool prompt = request->add_generation_prompt && !request->continue_final_message;
    *out = (struct jinja_output){ 0 };
    enum rc rc = add_old_names(&v, t, tools, fault);
    if (rc == RC_OK)
        rc = add_kwargs(&v, request->kwargs, fault);
    if (rc == RC_OK) {
        add(&v, "messages", messages, false);
        add_tools(&v, t, tools);
        if (has(request->documents))
            add(&v, "documents", request->documents, false);
        add(&v, "add_generation_prompt", prompt ? json_true() : json_false(), true);
        add(&v, "bos_token", t->bos, true);
        add(&v, "eos_token", t->eos, true);
        rc = jinja_render(out, t->jinja, v.list, v.count, &t->options, fault);
    }
    for (size_t i = 0; i < v.owned_count; i++)
        json_decref(v.owned[i]);
    return rc;
}

/* --- probes --- */

#define USER "{\"role\":\"user\",\"content\":\"UserMark\"}"
#define CALL(arguments)                                                                            \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"abc123xyz\","              \
    "\"type\":\"function\",\"function\":{\"name\":\"CallMark\",\"arguments\":" arguments "}}]}"
#define RESULT                                                                                     \
    "{\"role\":\"tool\",\"tool_call_id\":\"abc123xyz\",\"name\":\"CallMark\","                     \
    "\"content\":\"ResultMark\"}"
#define OBJECT "{\"ArgMark\":\"ValueMark\"}"
#define TEXT "\"{\\\"ArgMark\\\": \\\"ValueMark\\\"}\""
#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"ToolMark\",\"description\":\"d\","           \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"ArgMark\":{\"type\":\"string\","        \
    "\"description\":\"d\"}},\"required\":[\"ArgMark\"]}}}]"

/* What a probe shows; NULL text: it does not render. */
struct shown {
    struct jinja_output out;
    struct fault fault;
};

static bool shows(const struct shown *s, const char *word)
{
    return s->out.text != NULL && memmem(s->out.text, s->out.len, word, strlen(word)) != NULL;
}

static bool same(const struct shown *a, const struct shown *b)
{
    return a->out.text != NULL && b->out.text != NULL && a->out.len == b->out.len &&
           memcmp(a->out.text, b->out.text, a->out.len) == 0;
}

struct probe {
    const char *messages, *tools, *kwargs;
    bool no_prompt;
};

static struct shown try(struct chat_template *t, struct probe p)
{
    struct shown s = { .fault = { .code = RC_OK } };
    json_t *messages = json_loads(p.messages, 0, NULL);
    json_t *tools = p.tools == NULL ? NULL : json_loads(p.tools, 0, NULL);
    json_t *kwargs = p.kwargs == NULL ? NULL : json_loads(p.kwargs, 0, NULL);
    struct chat_request request = { .kwargs = kwargs, .add_generation_prompt = !p.no_prompt };
    enum rc rc = RC_NO_MEMORY;
    bool made = messages != NULL && (p.tools == NULL) == (tools == NULL) &&
                (p.kwargs == NULL) == (kwargs == NULL);
    if (made)
        rc = render(&s.out, t, messages, tools, &request, &s.fault);
    t->starved |= rc == RC_NO_MEMORY;
    json_decref(messages);
    json_decref(tools);
    json_decref(kwargs);
    return s;
}

static bool try_shows(struct chat_template *t, struct probe p, const char *word)
{
    struct shown s = try(t, p);
    bool found = shows(&s, word);
    jinja_output_close(&s.out);
    return found;
}

/* How to say that there are no tools: undefined as most templates expect, null where that reads
 * differently (model hubs pass null), an empty list where both are refused. */
static void probe_plain(struct chat_template *t, struct fault *warning)
{
    struct probe plain = { .messages = "[" USER "]" };
    struct shown s[3];
    for (int i = 0; i < 3; i++) {
        t->no_tools = (enum no_tools)i;
        s[i] = try(t, plain);
    }
    t->no_tools = NO_TOOLS_UNDEFINED;
    if (shows(&s[NO_TOOLS_NULL], "UserMark") && !same(&s[0], &s[1]))
        t->no_tools = NO_TOOLS_NULL;
    else if (!shows(&s[0], "UserMark") && shows(&s[NO_TOOLS_EMPTY], "UserMark"))
        t->no_tools = NO_TOOLS_EMPTY;
    if (!shows(&s[t->no_tools], "UserMark")) {
        t->caps.parts =
            try_shows(t,
                      (struct probe){ .messages = "[{\"role\":\"user\",\"content\":[{\"type\":"
                                                  "\"text\",\"text\":\"UserMark\"}]}]" },
                      "UserMark");
        if (!t->caps.parts)
            (void)fault_set(warning, RC_INVALID, "the chat template refuses a plain question: %s",
                            s[0].fault.text);
    }
    for (int i = 0; i < 3; i++)
        jinja_output_close(&s[i].out);
}

static void probe_turns(struct chat_template *t)
{
    t->caps.system = try_shows(
        t,
        (struct probe){ .messages = "[{\"role\":\"system\",\"content\":\"SystemMark\"}," USER "]" },
        "SystemMark");
    /* A template that writes any role is no sign that its model knows this one: it must name it. */
    bool named =
        strstr(t->source, "'developer'") != NULL || strstr(t->source, "\"developer\"") != NULL;
    t->caps.developer =
        named &&
        try_shows(
            t,
            (struct probe){
                .messages = "[{\"role\":\"developer\",\"content\":\"DeveloperMark\"}," USER "]" },
            "DeveloperMark");
    struct shown with = try(t, (struct probe){ .messages = "[" USER "]" });
    struct shown without = try(t, (struct probe){ .messages = "[" USER "]", .no_prompt = true });
    struct shown thinks =
        try(t, (struct probe){ .messages = "[" USER "]", .kwargs = "{\"enable_thinking\": true}" });
    struct shown silent = try(
        t, (struct probe){ .messages = "[" USER "]", .kwargs = "{\"enable_thinking\": false}" });
    t->caps.generation_prompt = !same(&with, &without);
    t->caps.thinking =
        shows(&thinks, "UserMark") && shows(&silent, "UserMark") && !same(&thinks, &silent);
    jinja_output_close(&with.out);
    jinja_output_close(&without.out);
    jinja_output_close(&thinks.out);
    jinja_output_close(&silent.out);
}

/* A call without its result, and with it; tools are shown to both. */
static void probe_calls(struct chat_template *t)
{
    const char *tools = t->caps.tools ? TOOLS : NULL;
    struct shown object =
        try(t, (struct probe){ "[" USER "," CALL(OBJECT) "," RESULT "]", tools, NULL, false });
    struct shown text =
        try(t, (struct probe){ "[" USER "," CALL(TEXT) "," RESULT "]", tools, NULL, false });
    if (object.out.text == NULL && text.out.text == NULL) { /* perhaps it is the result */
        object = try(t, (struct probe){ "[" USER "," CALL(OBJECT) "]", tools, NULL, false });
        text = try(t, (struct probe){ "[" USER "," CALL(TEXT) "]", tools, NULL, false });
    }
    /* 'ArgMark' would be an object printed by a template that expects a text, \"ArgMark a text that
     * was written as JSON once more. */
    bool object_good =
        shows(&object, "CallMark") && shows(&object, "ValueMark") && !shows(&object, "'ArgMark'");
    bool text_good =
        shows(&text, "CallMark") && shows(&text, "ValueMark") && !shows(&text, "\\\"ArgMark");
    t->caps.tool_calls = object_good || text_good;
    t->caps.text_arguments = !object_good && text_good;
    t->caps.tool_results = shows(text_good && !object_good ? &text : &object, "ResultMark");
    jinja_output_close(&object.out);
    jinja_output_close(&text.out);
}

#define LONG_ID "call_0123456789_abcdefghij"
#define LONG_CALL(arguments)                                                                       \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" LONG_ID "\","            \
    "\"type\":\"function\",\"function\":{\"name\":\"CallMark\",\"arguments\":" arguments "}}]}"
#define LONG_RESULT                                                                                \
    "{\"role\":\"tool\",\"tool_call_id\":\"" LONG_ID "\",\"name\":\"CallMark\","                   \
    "\"content\":\"ResultMark\"}"

static void probe_ids(struct chat_template *t)
{
    if (!t->caps.tool_calls)
        return;
    const char *tools = t->caps.tools ? TOOLS : NULL;
    struct probe p = { .tools = tools };
    if (t->caps.tool_results)
        p.messages = t->caps.text_arguments ? "[" USER "," LONG_CALL(TEXT) "," LONG_RESULT "]"
                                            : "[" USER "," LONG_CALL(OBJECT) "," LONG_RESULT "]";
    else
        p.messages = t->caps.text_arguments ? "[" USER "," LONG_CALL(TEXT) "]"
                                            : "[" USER "," LONG_CALL(OBJECT) "]";
    t->caps.short_ids = !try_shows(t, p, "CallMark");
}

static void probe_all(struct chat_template *t, struct fault *warning)
{
    t->caps = (struct chat_caps){ 0 };
    probe_plain(t, warning);
    if (t->caps.parts) { /* the other probes are written with texts: assume the most */
        t->caps = (struct chat_caps){ .system = true,
                                      .tools = true,
                                      .tool_calls = true,
                                      .tool_results = true,
                                      .parts = true,
                                      .generation_prompt = true };
        return;
    }
    probe_turns(t);
    t->caps.tools =
        try_shows(t, (struct probe){ .messages = "[" USER "]", .tools = TOOLS }, "ToolMark");
    probe_calls(t);
    probe_ids(t);
}

/* All probes together take no longer than one render may: they are small conversations. */
static void probe(struct chat_template *t, struct fault *warning)
{
    uint64_t steps = t->options.limits.steps;
    t->options.limits.steps = steps / PROBES_MAX;
    probe_all(t, warning);
    t->options.limits.steps = steps;
}

/* --- opening --- */

enum rc chat_template_config_of_model(struct chat_template_config *out,
                                      char bos[CHAT_TOKEN_TEXT_MAX], char eos[CHAT_TOKEN_TEXT_MAX],
                                      const struct gguf *g, const struct tokenizer *t,
                                      struct fault *fault)
{
    struct gguf_text source = { 0 };
    *out = (struct chat_template_config){ .bos = bos, .eos = eos };
    out->options = jinja_options_default();
    const int32_t ids[2] = { tokenizer_bos(t), tokenizer_eos(t) };
    char *const texts[2] = { bos, eos };
    for (int i = 0; i < 2; i++) {
        size_t len = 0;
        if (ids[i] >= 0)
            len = tokenizer_piece(t, ids[i], true, texts[i], CHAT_TOKEN_TEXT_MAX - 1);
        if (len >= CHAT_TOKEN_TEXT_MAX)
            return fault_set(fault, RC_UNSUPPORTED, "token %d has a text of %zu bytes", ids[i],
                             len);
        texts[i][len] = '\0';
    }
    enum rc rc = gguf_get_text(g, "tokenizer.chat_template", &source, fault);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    out->source = (const char *)source.text;
    out->source_len = source.len;
    return rc;
}

static enum rc use(struct chat_template *t, const char *source, size_t len, struct fault *fault)
{
    t->source = mem_copy_text(source, len);
    if (t->source == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for the chat template");
    return jinja_open(&t->jinja, source, len, fault);
}

enum rc chat_template_open(struct chat_template **out, const struct chat_template_config *config,
                           struct fault *warning)
{
    struct fault why = { .code = RC_OK };
    enum rc rc = RC_NO_MEMORY;
    *out = NULL;
    *warning = (struct fault){ .code = RC_OK };
    struct chat_template *t = mem_alloc(sizeof *t);
    if (t == NULL)
        return RC_NO_MEMORY;
    t->options = config->options;
    t->options.known = &known_roles;
    t->bos = json_string(config->bos == NULL ? "" : config->bos);
    t->eos = json_string(config->eos == NULL ? "" : config->eos);
    if (t->bos == NULL || t->eos == NULL)
        goto fail;
    if (config->source != NULL)
        rc = use(t, config->source, config->source_len, &why);
    if (config->source != NULL && rc == RC_NO_MEMORY)
        goto fail;
    if (config->source == NULL || rc != RC_OK) {
        mem_free(t->source);
        t->source = NULL;
        t->fallback = true;
        (void)fault_set(warning, RC_UNSUPPORTED, "ChatML is used instead of the chat template: %s",
                        config->source == NULL ? "the model has none" : why.text);
        rc = use(t, chatml, sizeof chatml - 1, &why);
        if (rc != RC_OK)
            goto fail;
    }
    probe(t, warning);
    if (t->starved)
        goto fail;
    *out = t;
    return RC_OK;
fail:
    chat_template_close(t);
    return RC_NO_MEMORY;
}

void chat_template_close(struct chat_template *t)
{
    if (t == NULL)
        return;
    jinja_close(t->jinja);
    mem_free(t->source);
    json_decref(t->bos);
    json_decref(t->eos);
    mem_free(t);
}

const struct chat_caps *chat_template_caps(const struct chat_template *t)
{
    return &t->caps;
}

const char *chat_template_source(const struct chat_template *t)
{
    return t->source;
}

bool chat_template_is_fallback(const struct chat_template *t)
{
    return t->fallback;
}

/* --- prompts --- */

/* Cuts the output behind the text of the last turn: where it is last found, without blanks around
 * it. */
static enum rc cut_behind(struct jinja_output *out, json_t *content, struct fault *fault)
{
    struct str text = { json_string_value(content), json_string_length(content) };
    struct str bare = str_trim(text);
    size_t at = SIZE_MAX;
    for (size_t tail = 0; tail < TAIL_MAX && bare.len <= out->len - tail; tail++) {
        at = out->len - tail - bare.len;
        if (memcmp(out->text + at, bare.text, bare.len) == 0)
            break;
        at = SIZE_MAX;
        if (tail == out->len)
            break;
    }
    if (at == SIZE_MAX || bare.len == 0)
        return fault_set(fault, RC_INVALID,
                         "continue_final_message: the template does not show the last message");
    size_t end = at + bare.len, behind = (size_t)(text.text + text.len - (bare.text + bare.len));
    if (behind <= out->len - end && memcmp(out->text + end, bare.text + bare.len, behind) == 0)
        end += behind;
    out->len = end;
    out->text[end] = '\0';
    while (out->span_count > 1 && out->spans[out->span_count - 2].end >= end)
        out->span_count--;
    out->spans[out->span_count - 1].end = end;
    return RC_OK;
}

static enum rc check_open_turn(json_t *messages, struct fault *fault)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    json_t *role = json_object_get(last, "role");
    if (!json_is_string(role) || strcmp(json_string_value(role), "assistant") != 0)
        return fault_set(fault, RC_INVALID,
                         "continue_final_message: the last message must be an assistant's");
    return RC_OK;
}

/* The last message's text, in its last part where it has several. */
static json_t *last_text(json_t *messages)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    json_t *content = json_object_get(last, "content");
    if (!json_is_array(content))
        return content;
    return json_object_get(json_array_get(content, json_array_size(content) - 1), "text");
}

static bool begins_with_bos(const struct jinja_output *out, json_t *bos)
{
    size_t len = json_string_length(bos);
    return len > 0 && len <= out->len && memcmp(out->text, json_string_value(bos), len) == 0 &&
           !out->spans[0].user && out->spans[0].end >= len;
}

enum rc chat_template_render(struct chat_prompt *out, const struct chat_template *t,
                             const struct chat_request *request, struct fault *fault)
{
    json_t *messages, *tools = request->tools;
    *out = (struct chat_prompt){ .starts_with_bos = false };
    if (tools != NULL && !json_is_null(tools) && !json_is_array(tools))
        return fault_set(fault, RC_INVALID, "tools must be a list");
    enum rc rc = chat_messages_normalize(&messages, request->messages, tools, &t->caps, fault);
    if (rc != RC_OK)
        return rc;
    if (request->continue_final_message)
        rc = check_open_turn(messages, fault);
    if (rc == RC_OK)
        rc = render(&out->out, t, messages, t->caps.tools ? tools : NULL, request, fault);
    if (rc == RC_OK && request->continue_final_message)
        rc = cut_behind(&out->out, last_text(messages), fault);
    json_decref(messages);
    if (rc != RC_OK) {
        chat_prompt_close(out);
        return rc;
    }
    out->starts_with_bos = begins_with_bos(&out->out, t->bos);
    return RC_OK;
}

void chat_prompt_close(struct chat_prompt *p)
{
    jinja_output_close(&p->out);
    p->starts_with_bos = false;
}
