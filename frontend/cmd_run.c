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
#include "frontend/input.h"
#include "frontend/interrupt.h"
#include "frontend/sampling_options.h"

struct run_options {
    const char *prompt;
    const char *file;
    bool json;
    bool chat;
    bool no_chat;
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
};

static enum rc read_prompt(struct text *out, const struct run_options *o, struct fault *fault)
{
    if (o->prompt != NULL && o->file != NULL)
        return fault_set(fault, RC_USAGE, "-p and -f exclude each other");
    if (o->file != NULL)
        return input_read(out, o->file, "-f", fault);
    if (o->prompt == NULL || strcmp(o->prompt, "-") == 0)
        return input_read(out, "-", "-p", fault);
    enum rc rc = text_append(out, o->prompt, strlen(o->prompt));
    return rc == RC_OK ? rc : fault_set(fault, rc, "out of memory");
}

/* Follows the request to its end, showing text as it comes; false when stdout is gone. */
static bool follow(struct completion *c, struct engine *e, bool show)
{
    struct generation *g = &c->choices[0];
    size_t shown = 0;
    bool cancelled = false, open = true;
    while (!g->ended) {
        sched_next_event(e->sched, 50000);
        (void)completion_take(c);
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
        return 1;
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

/* The request, with the engine open. */
static int run_prompt(struct engine *e, const struct run_options *run,
                      struct sampling_options *sampling, const struct text *prompt)
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
        bool open = follow(&c, e, !run->json);
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
    return RC_OK;
}

int cmd_run(int argc, char **argv)
{
    struct run_options run = { 0 };
    struct chat_options chat = { 0 };
    struct engine_options options = engine_options_default();
    struct sampling_options sampling = sampling_options_default();
    options.rows_max = 1;
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
    struct engine e;
    enum rc rc = check_chat(&run, &fault);
    if (rc == RC_OK)
        rc = read_prompt(&prompt, &run, &fault);
    struct engine_needs needs = { .thread = true, .requests_max = 4 };
    if (rc == RC_OK)
        rc = engine_open(&e, &options, &needs, &fault);
    if (rc != RC_OK) {
        text_close(&prompt);
        return interrupt_signal() != 0 ? 128 + interrupt_signal() : engine_complain("run", &fault);
    }
    status = run.chat ? run_chat(&e, &chat, &sampling, &prompt)
                      : run_prompt(&e, &run, &sampling, &prompt);
    engine_close(&e);
    text_close(&prompt);
    return status;
}
