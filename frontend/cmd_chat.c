/* SPDX-License-Identifier: MIT */
/* cmd_chat - a conversation with the model in its own template. Without a question (-p, -f) each
 * line of stdin is one: at a terminal until Ctrl-D or /exit, from a file until its end. A line that
 * ends with a backslash goes on in the next one. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/str.h"
#include "frontend/chat_session.h"
#include "frontend/commands.h"
#include "frontend/input.h"
#include "frontend/interrupt.h"
#include "frontend/sampling_options.h"

struct question_options {
    const char *prompt;
    const char *file;
};

#define AT(member) offsetof(struct question_options, member)
static const struct option question_rows[] = {
    { "-p --prompt", OPTION_TEXT, AT(prompt), 0, 0, "TEXT", NULL,
      "one question; without it every line of stdin is one" },
    { "-f --file", OPTION_TEXT, AT(file), 0, 0, "FILE", NULL, "reads one question from a file" },
};

/* One question, up to a line end without a backslash before it; false at the end of stdin. */
static bool read_question(struct text *out, bool at_terminal)
{
    out->len = 0;
    if (at_terminal)
        fprintf(stderr, "> ");
    for (int byte; (byte = getc(stdin)) != EOF;) {
        char c = (char)byte;
        if (c == '\n' && (out->len == 0 || out->data[out->len - 1] != '\\'))
            return text_append(out, "", 0) == RC_OK;
        if (c == '\n') {
            out->data[out->len - 1] = c;
            if (at_terminal)
                fprintf(stderr, ". ");
        } else if (out->len == BODY_BYTES_MAX || text_append(out, &c, 1) != RC_OK) {
            return false;
        }
    }
    return out->len > 0;
}

/* A line that is no question; *ended: the conversation is over. */
static bool obey(struct chat_session *s, struct str line, bool *ended)
{
    *ended = str_equal(line, str_of("/exit")) || str_equal(line, str_of("/quit"));
    if (str_equal(line, str_of("/clear"))) {
        *ended = chat_session_clear(s) != RC_OK;
        return true;
    }
    if (str_equal(line, str_of("/help"))) {
        fprintf(stderr, "/clear  begin anew\n/exit   leave (as does Ctrl-D)\n"
                        "a line that ends with \\ goes on in the next one\n");
        return true;
    }
    return *ended || line.len == 0;
}

/* What to do about the end of a turn: an answer that is not there, at a terminal, is no reason to
 * leave. */
static int status_of(enum rc rc)
{
    if (rc == RC_CANCELLED)
        return 128 + interrupt_signal();
    return rc == RC_OK ? 0 : 1;
}

static int converse(struct chat_session *s)
{
    struct text question = { 0 };
    bool at_terminal = isatty(STDIN_FILENO) != 0, ended = false;
    enum rc rc = RC_OK, worst = RC_OK;
    while (!ended && rc != RC_CANCELLED && rc != RC_IO && rc != RC_NO_MEMORY &&
           read_question(&question, at_terminal)) {
        if (obey(s, str_trim((struct str){ question.data, question.len }), &ended))
            continue;
        rc = chat_session_ask(s, question.data, question.len);
        worst = rc != RC_OK && !(at_terminal && rc == RC_INVALID) ? rc : worst;
    }
    text_close(&question);
    if (worst == RC_OK && interrupt_signal() != 0)
        worst = RC_CANCELLED;
    return status_of(worst);
}

static int chat(struct engine *e, const struct question_options *q, const struct chat_options *o,
                struct sampling_options *sampling, const struct text *question)
{
    struct fault fault = { .code = RC_OK };
    struct chat_session s = { 0 };
    struct completion_params defaults = completion_params_default();
    defaults.max_tokens = -1;
    enum rc rc = sampling_options_apply(sampling, &defaults, e->model->vocab_count, &fault);
    if (rc == RC_OK)
        rc = chat_session_open(&s, "chat", e, o, &defaults, &fault);
    int status;
    if (rc != RC_OK)
        status = engine_complain("chat", &fault);
    else if (q->prompt != NULL || q->file != NULL)
        status = status_of(chat_session_ask(&s, question->data, question->len));
    else
        status = converse(&s);
    completion_params_close(&defaults);
    chat_session_close(&s);
    return status;
}

static enum rc read_option(struct text *out, const struct question_options *q, struct fault *fault)
{
    if (q->prompt != NULL && q->file != NULL)
        return fault_set(fault, RC_USAGE, "-p and -f exclude each other");
    if (q->file != NULL)
        return input_read(out, q->file, "-f", fault);
    const char *text = q->prompt != NULL ? q->prompt : "";
    enum rc rc = text_append(out, text, strlen(text));
    return rc == RC_OK ? rc : fault_set(fault, rc, "out of memory");
}

int cmd_chat(int argc, char **argv)
{
    struct question_options question = { 0 };
    struct chat_options chat_options = { 0 };
    struct engine_options options = engine_options_default();
    struct sampling_options sampling = sampling_options_default();
    options.rows_max = 1;
    options.chunk_tokens = 0; /* the engine chooses */
    struct option_group groups[] = {
        { "conversation", question_rows, sizeof question_rows / sizeof question_rows[0],
          &question },
        { "template", chat_option_rows, chat_option_count, &chat_options },
        { "generation", sampling_option_rows, sampling_option_count, &sampling },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { "chat",
                              "-m MODEL [-p TEXT | -f FILE]",
                              "talks with the model in its own chat template",
                              groups,
                              sizeof groups / sizeof groups[0],
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    struct text text = { 0 };
    struct engine e;
    struct engine_needs needs = { .thread = true, .requests_max = 4 };
    enum rc rc = read_option(&text, &question, &fault);
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &fault)) == RC_OK) {
        status = chat(&e, &question, &chat_options, &sampling, &text);
        engine_close(&e);
    }
    text_close(&text);
    if (rc != RC_OK)
        return interrupt_signal() != 0 ? 128 + interrupt_signal() : engine_complain("chat", &fault);
    return status;
}
