/* SPDX-License-Identifier: MIT */
/* chat - body -> chat_request -> prompt -> ids -> completion -> answers.
 * The numbers of a request are schema.c's; what is here is the conversation and how its answer is
 * to be read. A tool_choice that forces a call would need output under a constraint, so it is
 * refused; "none" leaves the tools out of the prompt, which is the only way to be sure. */
#include "frontend/api/chat.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

/* --- the model --- */

enum rc chat_model_open(struct chat_model *m, struct engine *e, const char *template_source,
                        struct fault *warning)
{
    struct chat_template_config config;
    char bos[CHAT_TOKEN_TEXT_MAX], eos[CHAT_TOKEN_TEXT_MAX];
    *m = (struct chat_model){ .engine = e };
    enum rc rc = chat_template_config_of_model(&config, bos, eos, e->gguf, e->tokenizer, warning);
    if (rc != RC_OK)
        return rc;
    if (template_source != NULL) {
        config.source = template_source;
        config.source_len = strlen(template_source);
    }
    rc = chat_template_open(&m->template, &config, warning);
    if (rc != RC_OK)
        return fault_set(warning, rc, "no memory for the chat template");
    m->style = answer_style_of(chat_template_source(m->template));
    m->mark_id_count = answer_style_ids(&m->style, e->tokenizer, m->mark_ids);
    return RC_OK;
}

void chat_model_close(struct chat_model *m)
{
    chat_template_close(m->template);
    *m = (struct chat_model){ 0 };
}

/* --- the body --- */

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

/* An absent or null field is NULL. */
static json_t *get(json_t *body, const char *name)
{
    json_t *v = json_object_get(body, name);
    return json_is_null(v) ? NULL : v;
}

static enum rc read_switch(json_t *body, const char *name, bool *out, struct api_error *error)
{
    json_t *v = get(body, name);
    if (v == NULL)
        return RC_OK;
    if (!json_is_boolean(v))
        return api_error_set(error, 400, "invalid_type", name, "%s must be true or false", name);
    *out = json_is_true(v);
    return RC_OK;
}

static enum rc check_tools(json_t *tools, struct api_error *error)
{
    size_t i;
    json_t *tool;
    if (tools != NULL && !json_is_array(tools))
        return api_error_set(error, 400, "invalid_type", "tools", "tools must be a list");
    json_array_foreach(tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        json_t *name = json_object_get(json_object_get(tool, "function"), "name");
        if (type != NULL && strcmp(type, "function") != 0)
            return api_error_set(error, 400, "not_supported", "tools",
                                 "tools[%zu]: only tools of type function are supported", i);
        if (!json_is_string(name) || json_string_length(name) == 0)
            return api_error_set(error, 400, "invalid_value", "tools",
                                 "tools[%zu].function.name is missing", i);
    }
    return RC_OK;
}

/* The tools that the model is to see: NULL when it must not call any. */
static enum rc read_tools(json_t *body, json_t **out, struct api_error *error)
{
    json_t *tools = get(body, "tools"), *choice = get(body, "tool_choice");
    const char *word = json_string_value(choice);
    if (get(body, "functions") != NULL || get(body, "function_call") != NULL)
        return api_error_set(error, 400, "not_supported", "functions",
                             "functions are not supported: use tools");
    enum rc rc = check_tools(tools, error);
    if (rc != RC_OK)
        return rc;
    bool none = word != NULL && strcmp(word, "none") == 0;
    if (choice != NULL && !none && (word == NULL || strcmp(word, "auto") != 0))
        return api_error_set(error, 400, "not_supported", "tool_choice",
                             "tool_choice: only \"auto\" and \"none\" are supported");
    *out = none || json_array_size(tools) == 0 ? NULL : tools;
    return RC_OK;
}

/* chat_template_kwargs, with the fields that stand for one of them. A new object. */
static enum rc read_kwargs(const struct chat_model *m, json_t *body, json_t **out,
                           struct api_error *error)
{
    json_t *kwargs = get(body, "chat_template_kwargs"), *effort = get(body, "reasoning_effort");
    json_t *thinking = get(body, "enable_thinking");
    if (kwargs != NULL && !json_is_object(kwargs))
        return api_error_set(error, 400, "invalid_type", "chat_template_kwargs",
                             "chat_template_kwargs must be an object");
    if (effort != NULL && !json_is_string(effort))
        return api_error_set(error, 400, "invalid_type", "reasoning_effort",
                             "reasoning_effort must be a string");
    bool on = true;
    enum rc rc = read_switch(body, "enable_thinking", &on, error);
    if (rc != RC_OK)
        return rc;
    *out = kwargs != NULL ? json_copy(kwargs) : json_object();
    bool bad = *out == NULL;
    bool none = effort != NULL && strcmp(json_string_value(effort), "none") == 0;
    if (!bad && thinking == NULL && none && chat_template_caps(m->template)->thinking)
        thinking = json_false();
    if (!bad && thinking != NULL && json_object_get(kwargs, "enable_thinking") == NULL)
        bad = json_object_set(*out, "enable_thinking", thinking) != 0;
    if (!bad && effort != NULL && json_object_get(kwargs, "reasoning_effort") == NULL)
        bad = json_object_set(*out, "reasoning_effort", effort) != 0;
    return bad ? no_memory(error) : RC_OK;
}

/* What is asked for, beside the numbers. */
struct wishes {
    struct chat_request request; /* kwargs are owned */
    bool parallel;
    bool reasoning_in_text;
};

static enum rc read_turn_ends(json_t *body, struct chat_request *r, struct api_error *error)
{
    bool prompt_given = get(body, "add_generation_prompt") != NULL;
    r->add_generation_prompt = true;
    enum rc rc = read_switch(body, "add_generation_prompt", &r->add_generation_prompt, error);
    if (rc == RC_OK)
        rc = read_switch(body, "continue_final_message", &r->continue_final_message, error);
    if (rc == RC_OK && r->continue_final_message && prompt_given && r->add_generation_prompt)
        return api_error_set(error, 400, "invalid_value", "continue_final_message",
                             "continue_final_message and add_generation_prompt exclude each other");
    return rc;
}

static enum rc read_wishes(const struct chat_model *m, json_t *body, struct wishes *w,
                           struct api_error *error)
{
    json_t *format = get(body, "reasoning_format");
    const char *word = json_string_value(format);
    *w = (struct wishes){ .parallel = true };
    w->request.messages = get(body, "messages");
    w->request.documents = get(body, "documents");
    if (get(body, "chat_template") != NULL)
        return api_error_set(error, 400, "not_supported", "chat_template",
                             "chat_template is not supported: the server's own is used");
    if (w->request.messages == NULL)
        return api_error_set(error, 400, "missing_field", "messages", "messages is missing");
    enum rc rc = read_tools(body, &w->request.tools, error);
    if (rc == RC_OK)
        rc = read_switch(body, "parallel_tool_calls", &w->parallel, error);
    if (rc == RC_OK)
        rc = read_turn_ends(body, &w->request, error);
    if (rc != RC_OK)
        return rc;
    w->reasoning_in_text = word != NULL && strcmp(word, "none") == 0;
    if (format != NULL && !w->reasoning_in_text &&
        (word == NULL || (strcmp(word, "auto") != 0 && strcmp(word, "deepseek") != 0)))
        return api_error_set(error, 400, "invalid_value", "reasoning_format",
                             "reasoning_format must be none, auto or deepseek");
    return read_kwargs(m, body, &w->request.kwargs, error);
}

/* --- the prompt --- */

static enum rc render(struct chat_prompt *out, struct token_list *ids, const struct chat_model *m,
                      const struct chat_request *request, struct api_error *error)
{
    struct fault fault;
    *out = (struct chat_prompt){ 0 };
    enum rc rc = chat_template_render(out, m->template, request, &fault);
    if (rc == RC_NO_MEMORY)
        return no_memory(error);
    if (rc != RC_OK)
        return api_error_set(error, 400, "invalid_value", "messages", "%s", fault.text);
    rc = tokenizer_encode_spans(m->engine->tokenizer, out->out.text, out->out.spans,
                                out->out.span_count, ids);
    if (rc == RC_OK && ids->count > 0)
        return RC_OK;
    chat_prompt_close(out);
    if (rc == RC_NO_MEMORY)
        return no_memory(error);
    return api_error_set(error, 400, "invalid_value", "messages", "messages: %s",
                         rc == RC_OK ? "the prompt is empty" : rc_text(rc));
}

enum rc chat_prompt_of(struct chat_prompt *text, struct token_list *ids, const struct chat_model *m,
                       json_t *body, struct api_error *error)
{
    struct wishes w;
    if (!json_is_object(body))
        return api_error_kind(error, NULL, "an object", body);
    enum rc rc = read_wishes(m, body, &w, error);
    if (rc == RC_OK)
        rc = render(text, ids, m, &w.request, error);
    json_decref(w.request.kwargs);
    return rc;
}

/* Where the last `word` of a text begins, SIZE_MAX = nowhere. */
static size_t find_last(const char *text, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (size_t at = len >= n ? len - n + 1 : 0; at > 0; at--)
        if (memcmp(text + at - 1, word, n) == 0)
            return at - 1;
    return SIZE_MAX;
}

/* Whether the answer begins inside a thought: the template has opened one, or the turn that is to
 * be continued has. */
static bool is_in_thought(const struct chat_model *m, const struct chat_request *r,
                          const struct chat_prompt *prompt)
{
    const struct answer_style *s = &m->style;
    if (s->think_open == NULL)
        return false;
    struct str text = str_trim((struct str){ prompt->out.text, prompt->out.len });
    if (!r->continue_final_message)
        return str_ends(text, str_of(s->think_open));
    json_t *turn = json_array_get(r->messages, json_array_size(r->messages) - 1);
    json_t *content = json_object_get(turn, "content");
    const char *own = json_string_value(content);
    if (own == NULL)
        return false;
    size_t open = find_last(own, json_string_length(content), s->think_open);
    size_t close = find_last(own, json_string_length(content), s->think_close);
    return open != SIZE_MAX && (close == SIZE_MAX || close < open);
}

/* --- the run --- */

/* Opens the completion that answers the rendered prompt. */
static enum rc open_completion(struct chat *c, struct completion_params *p, struct token_list *ids,
                               struct api_error *error)
{
    p->shown_ids = c->model->mark_ids;
    p->shown_id_count = c->model->mark_id_count;
    p->prompts = mem_alloc(sizeof *p->prompts);
    if (p->prompts == NULL)
        return no_memory(error);
    p->prompts[0] = (struct prompt){ .ids = ids->ids, .id_count = (uint32_t)ids->count };
    p->prompt_count = 1;
    *ids = (struct token_list){ 0 };
    return completion_open(&c->completion, c->model->engine, p, true, error);
}

static enum rc open_choices(struct chat *c, const struct answer_config *config,
                            struct api_error *error)
{
    c->choices = mem_alloc_array(c->completion.choice_count, sizeof *c->choices);
    if (c->choices == NULL)
        return no_memory(error);
    for (uint32_t k = 0; k < c->completion.choice_count; k++)
        answer_open(&c->choices[k].answer, config);
    return RC_OK;
}

enum rc chat_open(struct chat *c, const struct chat_model *m, json_t *body,
                  const struct completion_params *defaults, const struct api_call *call,
                  struct api_error *error)
{
    struct completion_params p;
    struct wishes w = { .parallel = true };
    struct token_list ids = { 0 };
    struct chat_prompt prompt = { 0 };
    *c = (struct chat){ .model = m };
    enum rc rc = chat_params_open(&p, body, defaults, m->engine->model->vocab_count, error);
    if (rc != RC_OK)
        return rc;
    c->body = json_incref(body);
    rc = read_wishes(m, body, &w, error);
    if (rc == RC_OK)
        rc = render(&prompt, &ids, m, &w.request, error);
    struct answer_config config = { .style = m->style,
                                    .tools = w.request.tools,
                                    .one_call = !w.parallel,
                                    .thinks = !w.reasoning_in_text };
    if (rc == RC_OK) {
        config.in_thought = is_in_thought(m, &w.request, &prompt);
        rc = open_completion(c, &p, &ids, error);
    }
    if (rc == RC_OK)
        rc = open_choices(c, &config, error);
    if (rc == RC_OK && call != NULL)
        c->completion.user = call->user;
    completion_params_close(&p);
    chat_prompt_close(&prompt);
    token_list_close(&ids);
    json_decref(w.request.kwargs);
    if (rc != RC_OK)
        chat_close(c);
    return rc;
}

enum rc chat_submit(struct chat *c)
{
    return completion_submit(&c->completion);
}

/* What the generation has shown since goes to the answer. */
static enum rc read_text(struct chat_choice *choice, const struct generation *g)
{
    size_t from = choice->read;
    choice->read = g->text.len;
    if (choice->read == from)
        return RC_OK;
    return answer_push(&choice->answer, g->text.data + from, choice->read - from);
}

bool chat_step(struct chat *c, uint32_t k)
{
    struct generation *g = &c->completion.choices[k];
    struct chat_choice *choice = &c->choices[k];
    if (!generation_step(g))
        return false;
    enum rc rc = read_text(choice, g);
    if (rc == RC_OK && g->ended && !choice->ended) {
        choice->ended = true;
        rc = answer_end(&choice->answer, g->finish != FINISH_STOP);
    }
    if (rc != RC_OK) {
        g->error = rc;
        g->finish = g->ended ? FINISH_ERROR : g->finish;
    }
    if ((rc != RC_OK || choice->answer.done) && !g->ended)
        generation_finish(g);
    return true;
}

bool chat_take(struct chat *c)
{
    for (uint32_t k = 0; k < c->completion.submitted_count; k++)
        while (chat_step(c, k))
            continue;
    return completion_take(&c->completion);
}

void chat_cancel(struct chat *c)
{
    completion_cancel(&c->completion);
}

void chat_close(struct chat *c)
{
    for (uint32_t k = 0; c->choices != NULL && k < c->completion.choice_count; k++)
        answer_close(&c->choices[k].answer);
    mem_free(c->choices);
    completion_close(&c->completion);
    json_decref(c->body);
    *c = (struct chat){ 0 };
}

const char *chat_finish(const struct chat *c, uint32_t k)
{
    const struct answer *a = &c->choices[k].answer;
    const struct generation *g = &c->completion.choices[k];
    if (a->done || (a->call_count > 0 && g->finish == FINISH_STOP))
        return "tool_calls";
    return finish_text(g->finish);
}

json_t *query_apply_template(const struct api_context *x, json_t *body, struct api_error *error)
{
    struct chat_prompt prompt;
    struct token_list ids = { 0 };
    json_t *out = NULL;
    if (!json_is_object(body)) {
        (void)api_error_kind(error, NULL, "an object", body);
        return NULL;
    }
    if (chat_prompt_of(&prompt, &ids, x->chat, body, error) == RC_OK) {
        json_t *list = json_array();
        bool starved = list == NULL;
        for (size_t i = 0; i < ids.count && !starved; i++)
            starved = json_array_append_new(list, json_integer(ids.ids[i])) != 0;
        out = starved ? NULL
                      : json_pack("{s:s%, s:O}", "prompt", prompt.out.text, prompt.out.len,
                                  "tokens", list);
        json_decref(list);
        if (out == NULL)
            (void)no_memory(error);
        chat_prompt_close(&prompt);
    }
    token_list_close(&ids);
    return out;
}

json_t *query_input_tokens(const struct api_context *x, json_t *body, struct api_error *error)
{
    struct chat_prompt prompt = { 0 };
    struct token_list ids = { 0 };
    json_t *out = NULL;
    if (chat_prompt_of(&prompt, &ids, x->chat, body, error) == RC_OK) {
        out = json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens",
                        (json_int_t)ids.count);
        if (out == NULL)
            (void)no_memory(error);
    }
    chat_prompt_close(&prompt);
    token_list_close(&ids);
    return out;
}
