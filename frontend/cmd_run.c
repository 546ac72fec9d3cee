/* SPDX-License-Identifier: MIT */
/* cmd_run - one prompt, continued as it is given: text to stdout as it grows, speed to stderr.
 * The prompt is -p, a file, or stdin; BOS is put before it where the vocabulary asks for one. With
 * --chat it is a question in the model's chat template instead. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/mem.h"
#include "frontend/commands.h"
#include "frontend/api/completion.h"
#include "frontend/chat_session.h"
#include "frontend/engine.h"
#include "frontend/engine_store.h"
#include "frontend/input.h"
#include "frontend/interrupt.h"
#include "frontend/sampling_options.h"
#include "frontend/session.h"

struct run_options {
    const char *prompt;
    const char *file;
    bool json;
    bool chat;
    bool no_chat;
    const char *session;
};

/* A session that the run goes on with, when it has a name. */
struct run_session {
    struct session file;
    char path[SESSION_PATH_BYTES], blocks[SESSION_PATH_BYTES];
    uint32_t shown; /* tokens of this answer that are in the file */
};

#define AT(member) offsetof(struct run_options, member)
static const struct option run_rows[] = {
    { "-p --prompt", OPTION_TEXT, AT(prompt), 0, 0, "TEXT", NULL,
      "the prompt; - or nothing reads it from stdin" },
    { "-f --file", OPTION_TEXT, AT(file), 0, 0, "FILE", NULL, "reads the prompt from a file" },
    { "--json", OPTION_FLAG, AT(json), 0, 0, NULL, NULL,
      "prints one JSON object at the end instead of streaming" },
    { "--chat", OPTION_FLAG, AT(chat), 0, 0, NULL, NULL,
      "the prompt is a question in the model's chat template (quire chat goes on asking)" },
    { "--no-chat", OPTION_FLAG, AT(no_chat), 0, 0, NULL, NULL,
      "the prompt as it is given, which is the default" },
    { "--session", OPTION_TEXT, AT(session), 0, 0, "NAME", NULL,
      "goes on where NAME stopped, with -p or -f as more text if given; kept, token by token, in "
      "$XDG_STATE_HOME/quire or ~/.local/state/quire: NAME.session, and MODEL.blocks unless "
      "--cache-file says another" },
};

static enum rc read_prompt(struct text *out, const struct run_options *o, struct fault *fault)
{
    if (o->prompt != NULL && o->file != NULL)
        return fault_set(fault, RC_USAGE, "-p and -f exclude each other");
    if (o->file != NULL)
        return input_read(out, o->file, "-f", fault);
    if (o->prompt == NULL && o->session != NULL)
        return RC_OK;
    if (o->prompt == NULL || strcmp(o->prompt, "-") == 0)
        return input_read(out, "-", "-p", fault);
    enum rc rc = text_append(out, o->prompt, strlen(o->prompt));
    return rc == RC_OK ? rc : fault_set(fault, rc, "out of memory");
}

/* Adds to the session what has come of the answer; an end-of-text token is none of it. */
static enum rc keep_answer(struct run_session *s, const struct completion *c,
                           const struct engine *e, struct fault *fault)
{
    const struct request *r = c->choices[0].request;
    uint32_t count = request_output_count(r);
    enum rc rc = RC_OK;
    for (; s->shown < count && rc == RC_OK; s->shown++) {
        int32_t id = request_token(r, s->shown);
        if (!tokenizer_is_end(e->tokenizer, id))
            rc = session_append(&s->file, &id, 1, fault);
    }
    return rc;
}

/* Follows the request to its end, showing text as it comes; false when stdout is gone. */
static bool follow(struct completion *c, struct engine *e, bool show, struct run_session *s)
{
    struct generation *g = &c->choices[0];
    size_t shown = 0;
    bool cancelled = false, open = true;
    while (!g->ended) {
        sched_next_event(e->sched, 50000);
        (void)completion_take(c);
        struct fault fault;
        if (s != NULL && keep_answer(s, c, e, &fault) != RC_OK) {
            fprintf(stderr, "warning: %s; what follows is not kept\n", fault.text);
            s = NULL;
        }
        if (show && open && g->text.len > shown) {
            open = fwrite(g->text.data + shown, 1, g->text.len - shown, stdout) > 0 &&
                   fflush(stdout) == 0;
            shown = g->text.len;
        }
        if ((interrupt_signal() != 0 || !open) && !cancelled) {
            completion_cancel(c);
            cancelled = true;
        }
    }
    return open;
}

static double per_second(uint64_t count, uint64_t us)
{
    return us > 0 ? (double)count * 1e6 / (double)us : 0.0;
}

struct speed {
    uint64_t prompt_us, output_us;
    double prompt_tps, output_tps;
};

/* Prefill ends with the first token; decoding is the rest. */
static struct speed speed_of(const struct completion *c)
{
    const struct generation *g = &c->choices[0];
    struct request_times t = request_times_get(g->request);
    struct speed s = { 0 };
    if (t.first_token_us > t.admitted_us)
        s.prompt_us = t.first_token_us - t.admitted_us;
    if (g->token_count > 1 && t.finished_us > t.first_token_us)
        s.output_us = t.finished_us - t.first_token_us;
    s.prompt_tps = per_second(c->prompts[0].count, s.prompt_us);
    s.output_tps = g->token_count > 1 ? per_second(g->token_count - 1, s.output_us) : 0.0;
    return s;
}

static bool print_json(const struct completion *c, const struct sampling_options *o)
{
    const struct generation *g = &c->choices[0];
    struct speed s = speed_of(c);
    json_t *out =
        json_pack("{s:s%, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "text",
                  g->text.data != NULL ? g->text.data : "", g->text.len, "finish_reason",
                  finish_text(g->finish), "prompt_tokens", (json_int_t)c->prompts[0].count,
                  "completion_tokens", (json_int_t)g->token_count, "seed", (json_int_t)o->seed,
                  "prompt_ms", (double)s.prompt_us / 1e3, "prompt_per_second", s.prompt_tps,
                  "predicted_ms", (double)s.output_us / 1e3, "predicted_per_second", s.output_tps);
    bool good = out != NULL &&
                json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(out);
    return good;
}

static int report(const struct completion *c, const struct engine *e, const struct run_options *run,
                  const struct sampling_options *sampling, bool open)
{
    const struct generation *g = &c->choices[0];
    if (g->finish == FINISH_ERROR) {
        fprintf(stderr, "quire run: %s\n", c->error.message);
        return g->error == RC_CORRUPT ? rc_exit_status(RC_CORRUPT) : 1;
    }
    if (run->json)
        open = print_json(c, sampling);
    else if (open)
        open = putchar('\n') != EOF && fflush(stdout) == 0;
    struct speed s = speed_of(c);
    if (!e->options.quiet)
        fprintf(stderr, "\nprompt %zu tokens, %.1f/s; answer %u tokens, %.1f/s; %s\n",
                c->prompts[0].count, s.prompt_tps, g->token_count, s.output_tps,
                finish_text(g->finish));
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    if (!open)
        fprintf(stderr, "quire run: stdout cannot be written\n");
    return open ? 0 : 1;
}

/* The session's tokens and those of the new text, which is added to it. */
static enum rc session_prompt(struct prompt *out, struct run_session *s, const struct engine *e,
                              const struct text *text, bool special, struct fault *fault)
{
    struct token_list *all = &s->file.tokens;
    size_t before = all->count;
    unsigned flags = (before == 0 ? TOKENIZE_BOS : 0u) | (special ? TOKENIZE_SPECIAL : 0u);
    if (text->len > 0 || before == 0) {
        enum rc rc = tokenizer_encode(e->tokenizer, text->data, text->len, flags, all);
        if (rc != RC_OK)
            return fault_set(fault, rc, "the prompt: %s", rc_text(rc));
    }
    *out = (struct prompt){ .ids = all->ids, .id_count = (uint32_t)all->count };
    uint32_t added = (uint32_t)(all->count - before);
    enum rc rc = session_append(&s->file, all->ids + before, added, fault);
    *all = (struct token_list){ 0 }; /* the prompt's now */
    return rc;
}

/* The request, with the engine open. */
static int run_prompt(struct engine *e, const struct run_options *run,
                      struct sampling_options *sampling, const struct text *prompt,
                      struct run_session *session)
{
    struct fault fault;
    struct api_error error;
    struct completion_params p = completion_params_default();
    p.max_tokens = 128;
    if (sampling_options_apply(sampling, &p, e->model->vocab_count, &fault) != RC_OK) {
        completion_params_close(&p);
        return engine_complain("run", &fault);
    }
    p.prompts = mem_alloc(sizeof *p.prompts);
    if (p.prompts == NULL) {
        completion_params_close(&p);
        fault_set(&fault, RC_NO_MEMORY, "out of memory");
        return engine_complain("run", &fault);
    }
    p.prompts[0] = (struct prompt){ .text = prompt->data, .len = prompt->len };
    p.prompt_count = 1;
    if (session != NULL &&
        session_prompt(&p.prompts[0], session, e, prompt, !sampling->no_special, &fault) != RC_OK) {
        completion_params_close(&p);
        return engine_complain("run", &fault);
    }
    struct completion c;
    if (completion_open(&c, e, &p, !sampling->no_special, &error) != RC_OK) {
        fprintf(stderr, "quire run: %s\n", error.message);
        return error.status == 400 ? rc_exit_status(RC_USAGE) : 1;
    }
    int status;
    if (completion_submit(&c) != RC_OK) {
        fprintf(stderr, "quire run: %s\n", c.error.message);
        status = 1;
    } else {
        bool open = follow(&c, e, !run->json, session);
        status = report(&c, e, run, sampling, open);
    }
    completion_close(&c);
    return status;
}

/* The prompt as a question in the model's template. */
static int run_chat(struct engine *e, const struct chat_options *options,
                    struct sampling_options *sampling, const struct text *prompt)
{
    struct fault fault = { .code = RC_OK };
    struct chat_session s = { 0 };
    struct completion_params p = completion_params_default();
    p.max_tokens = 128;
    enum rc rc = sampling_options_apply(sampling, &p, e->model->vocab_count, &fault);
    if (rc == RC_OK)
        rc = chat_session_open(&s, "run", e, options, &p, &fault);
    int status = rc != RC_OK ? engine_complain("run", &fault) : 0;
    if (rc == RC_OK)
        rc = chat_session_ask(&s, prompt->data, prompt->len);
    if (status == 0 && rc != RC_OK)
        status = rc == RC_CANCELLED ? 128 + interrupt_signal() : 1;
    completion_params_close(&p);
    chat_session_close(&s);
    return status;
}

static enum rc check_chat(const struct run_options *run, struct fault *fault)
{
    if (run->chat && run->no_chat)
        return fault_set(fault, RC_USAGE, "--chat and --no-chat exclude each other");
    if (run->chat && run->json)
        return fault_set(fault, RC_USAGE, "--chat and --json exclude each other");
    if (run->chat && run->session != NULL)
        return fault_set(fault, RC_USAGE, "--chat and --session exclude each other");
    return RC_OK;
}

/* Where the session is, before the engine is opened: its blocks are the engine's. */
static enum rc find_session(struct run_session *s, const struct run_options *run,
                            struct engine_options *options, struct fault *fault)
{
    if (run->session == NULL || options->model == NULL)
        return RC_OK;
    enum rc rc = session_paths(s->path, s->blocks, run->session, options->model, fault);
    if (rc == RC_OK && options->cache_file == NULL && options->swap == NULL &&
        !options->no_prefix_cache && options->log_events == NULL)
        options->cache_file = s->blocks;
    return rc;
}

static int run_session_prompt(struct engine *e, const struct run_options *run,
                              struct sampling_options *sampling, const struct text *prompt,
                              struct run_session *s)
{
    struct fault fault;
    if (session_open(&s->file, s->path, engine_digest(e), e->model->vocab_count, &fault) != RC_OK)
        return engine_complain("run", &fault);
    int status = run_prompt(e, run, sampling, prompt, s);
    session_close(&s->file);
    return status;
}

int cmd_run(int argc, char **argv)
{
    struct run_options run = { 0 };
    struct chat_options chat = { 0 };
    struct engine_options options = engine_options_default();
    struct sampling_options sampling = sampling_options_default();
    options.rows_max = 1;
    options.chunk_tokens = 0; /* the engine chooses */
    struct option_group groups[] = {
        { "prompt", run_rows, sizeof run_rows / sizeof run_rows[0], &run },
        { "chat", chat_option_rows, chat_option_count, &chat },
        { "generation", sampling_option_rows, sampling_option_count, &sampling },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { "run",
                              "-m MODEL [-p TEXT | -f FILE | < FILE]",
                              "Continues one prompt and streams the text to stdout.",
                              groups,
                              4,
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    struct text prompt = { 0 };
    struct run_session session = { .file.fd = -1 };
    struct engine e;
    enum rc rc = check_chat(&run, &fault);
    if (rc == RC_OK)
        rc = find_session(&session, &run, &options, &fault);
    if (rc == RC_OK)
        rc = read_prompt(&prompt, &run, &fault);
    struct engine_needs needs = { .thread = true, .requests_max = 4 };
    if (rc == RC_OK)
        rc = engine_open(&e, &options, &needs, &fault);
    if (rc != RC_OK) {
        text_close(&prompt);
        return interrupt_signal() != 0 ? 128 + interrupt_signal() : engine_complain("run", &fault);
    }
    if (run.session != NULL)
        status = run_session_prompt(&e, &run, &sampling, &prompt, &session);
    else
        status = run.chat ? run_chat(&e, &chat, &sampling, &prompt)
                          : run_prompt(&e, &run, &sampling, &prompt, NULL);
    engine_close(&e);
    text_close(&prompt);
    return status;
}
