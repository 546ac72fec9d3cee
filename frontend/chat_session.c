/* SPDX-License-Identifier: MIT */
/* chat_session - a question becomes a body of chat completions, and goes the way of any other. */
#include "frontend/chat_session.h"

#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "frontend/input.h"
#include "frontend/interrupt.h"

#define AT(member) offsetof(struct chat_options, member)
static const char *const thinking[] = { "auto", "on", "off", NULL };

const struct option chat_option_rows[] = {
    { "--chat-template", OPTION_TEXT, AT(template), 0, 0, "FILE", NULL,
      "a chat template instead of the model's own" },
    { "--system", OPTION_TEXT, AT(system), 0, 0, "TEXT", NULL, "what the system's turn says" },
    { "--think", OPTION_CHOICE, AT(think), 0, 0, "WHEN", thinking,
      "whether the model thinks before it answers, where its template leaves the choice: auto, on, "
      "off" },
};
const size_t chat_option_count = sizeof chat_option_rows / sizeof chat_option_rows[0];

static enum rc add_turn(struct chat_session *s, const char *role, const char *text, size_t len)
{
    json_t *turn = json_pack("{s:s, s:s%}", "role", role, "content", text, len);
    return json_array_append_new(s->messages, turn) == 0 ? RC_OK : RC_NO_MEMORY;
}

enum rc chat_session_clear(struct chat_session *s)
{
    const char *system = s->options.system;
    if (json_array_clear(s->messages) != 0)
        return RC_NO_MEMORY;
    return system != NULL ? add_turn(s, "system", system, strlen(system)) : RC_OK;
}

enum rc chat_session_model(struct chat_model *m, struct engine *e, const char *path,
                           struct fault *fault)
{
    struct text source = { 0 };
    struct fault warning = { .code = RC_OK };
    enum rc rc = path != NULL ? input_read(&source, path, "--chat-template", fault) : RC_OK;
    if (rc != RC_OK)
        return rc;
    rc = chat_model_open(m, e, source.data, &warning);
    text_close(&source);
    if (rc != RC_OK)
        return fault_set(fault, rc, "%s", warning.text);
    if (warning.code != RC_OK)
        fprintf(stderr, "warning: %s\n", warning.text);
    return RC_OK;
}

enum rc chat_session_open(struct chat_session *s, const char *command, struct engine *e,
                          const struct chat_options *options, struct completion_params *defaults,
                          struct fault *fault)
{
    *s = (struct chat_session){ .defaults = *defaults, .options = *options, .command = command };
    *defaults = (struct completion_params){ 0 };
    if (options->system != NULL && !utf8_valid(options->system, strlen(options->system)))
        return fault_set(fault, RC_USAGE, "--system is not UTF-8");
    enum rc rc = chat_session_model(&s->model, e, options->template, fault);
    if (rc != RC_OK)
        return rc;
    s->messages = json_array();
    if (s->messages == NULL || chat_session_clear(s) != RC_OK)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    return RC_OK;
}

void chat_session_close(struct chat_session *s)
{
    json_decref(s->messages);
    chat_model_close(&s->model);
    completion_params_close(&s->defaults);
}

/* --- one turn --- */

static json_t *body_of(const struct chat_session *s)
{
    json_t *body = json_pack("{s:O}", "messages", s->messages);
    if (s->options.think > 0 &&
        json_object_set_new(body, "enable_thinking", json_boolean(s->options.think == 1)) != 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* What is new of a text; false when nobody takes it. */
static bool show(const struct text *text, size_t *shown, FILE *to)
{
    size_t from = *shown;
    *shown = text->len;
    return text->len == from ||
           (fwrite(text->data + from, 1, text->len - from, to) > 0 && fflush(to) == 0);
}

/* To the end of the answer; false when stdout is gone. */
static bool follow(struct chat *c, struct sched *sched)
{
    const struct answer *a = &c->choices[0].answer;
    size_t thought = 0, content = 0;
    bool open = true, cancelled = false, ended = false;
    while (!ended) {
        (void)sched_next_event(sched, 50000);
        ended = chat_take(c);
        (void)show(&a->reasoning, &thought, stderr);
        if (thought > 0 && a->content.len > 0 && content == 0)
            fprintf(stderr, "\n\n");
        open = open && show(&a->content, &content, stdout);
        if ((interrupt_signal() != 0 || !open) && !cancelled) {
            chat_cancel(c);
            cancelled = true;
        }
    }
    return open && putchar('\n') != EOF && fflush(stdout) == 0;
}

static void print_speed(const struct chat *c)
{
    const struct generation *g = &c->completion.choices[0];
    struct request_times t = request_times_get(g->request);
    uint32_t cached = request_cached_count(g->request), prompt = request_prompt_count(g->request);
    double prefill_s = (double)(t.first_token_us - t.admitted_us) / 1e6;
    double decode_s = (double)(t.finished_us - t.first_token_us) / 1e6;
    bool timed = t.first_token_us > t.admitted_us && t.finished_us > t.first_token_us;
    fprintf(stderr, "prompt %u tokens, %u of them known, %.1f/s; answer %u tokens, %.1f/s; %s\n",
            prompt, cached, timed ? (prompt - cached) / prefill_s : 0.0, g->token_count,
            timed ? (g->token_count - 1) / decode_s : 0.0, chat_finish(c, 0));
}

static enum rc run(struct chat_session *s, json_t *body)
{
    struct chat c;
    struct api_error error;
    const struct engine *e = s->model.engine;
    enum rc rc = chat_open(&c, &s->model, body, &s->defaults, NULL, &error);
    if (rc != RC_OK) {
        fprintf(stderr, "quire %s: %s\n", s->command, error.message);
        return rc;
    }
    rc = chat_submit(&c);
    if (rc == RC_OK && !follow(&c, e->sched))
        rc = fault_set(NULL, RC_IO, "stdout");
    const struct text *answer = &c.choices[0].answer.content;
    if (c.completion.failed) {
        fprintf(stderr, "quire %s: %s\n", s->command, c.completion.error.message);
        rc = RC_INVALID;
    } else if (rc == RC_OK && interrupt_signal() != 0) {
        rc = RC_CANCELLED;
    } else if (rc == RC_OK) {
        rc = add_turn(s, "assistant", answer->data != NULL ? answer->data : "", answer->len);
        if (!e->options.quiet)
            print_speed(&c);
    }
    chat_close(&c);
    return rc;
}

enum rc chat_session_ask(struct chat_session *s, const char *question, size_t len)
{
    if (!utf8_valid(question, len)) {
        fprintf(stderr, "quire %s: the question is not UTF-8\n", s->command);
        return RC_INVALID;
    }
    size_t before = json_array_size(s->messages);
    enum rc rc = add_turn(s, "user", question, len);
    json_t *body = rc == RC_OK ? body_of(s) : NULL;
    if (body == NULL)
        return RC_NO_MEMORY;
    rc = run(s, body);
    json_decref(body);
    while (rc != RC_OK && json_array_size(s->messages) > before)
        (void)json_array_remove(s->messages, json_array_size(s->messages) - 1);
    return rc;
}
