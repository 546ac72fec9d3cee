/* SPDX-License-Identifier: MIT */
/* cmd_batch - `quire batch`: a file of requests in, a file of answers out. What is done is in
 * frontend/batch/batch_job.h; here are the flags, the order of opening, and the exit status. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "frontend/batch/batch_job.h"
#include "frontend/batch/batch_stamp.h"
#include "frontend/batch/batch_tell.h"
#include "frontend/commands.h"
#include "frontend/interrupt.h"
#include "frontend/sampling_options.h"

static const char *const formats[] = { "jsonl", "text", NULL };

#define AT(member) offsetof(struct batch_options, member)
static const struct option rows[] = {
    { "-i --input", OPTION_TEXT, AT(input), 0, 0, "FILE", NULL,
      "requests, one a line; gzip and Zstandard are unpacked; - is stdin" },
    { "-o --output", OPTION_TEXT, AT(output), 0, 0, "FILE", NULL,
      "JSONL file of answers, appended to; a job started again goes on; - is stdout" },
    { "--format", OPTION_CHOICE, AT(format), 0, 0, "KIND", formats,
      "jsonl: OpenAI batch lines or bare bodies; text: each line is a prompt" },
    { "--errors", OPTION_TEXT, AT(errors), 0, 0, "FILE", NULL,
      "rows that tell of failures go there instead" },
    { "--retry-errors", OPTION_FLAG, AT(retry_errors), 0, 0, NULL, NULL,
      "run only the lines again whose rows tell of failures; those rows are replaced" },
    { "--ordered", OPTION_FLAG, AT(ordered), 0, 0, NULL, NULL,
      "rows in the order of the input, not as they are complete" },
    { "--shard", OPTION_TEXT, AT(shard), 0, 0, "I/N", NULL,
      "only every Nth line, from line I on (0 to N - 1): N machines share a job" },
    { "--window", OPTION_U32, AT(window), 1, 65536, "N", NULL,
      "lines read ahead, among which those that share their beginning are put together" },
    { "--check", OPTION_FLAG, AT(check), 0, 0, NULL, NULL,
      "read the input and say what would happen; nothing runs and nothing is written" },
    { "--summary", OPTION_TEXT, AT(summary), 0, 0, "FILE", NULL, "counts and speeds as JSON" },
    { "--grace", OPTION_U32, AT(grace_s), 0, 3600, "SECONDS", NULL,
      "after a first signal, time for the lines that run to end" },
};

/* "1/4" */
static enum rc parse_shard(struct batch_options *o, struct fault *fault)
{
    struct str index, rest;
    if (o->shard == NULL)
        return RC_OK;
    rest = str_of(o->shard);
    if (!str_cut(&rest, '/', &index) || !str_parse_u32(rest, 1, 1u << 20, &o->shard_count) ||
        !str_parse_u32(index, 0, o->shard_count - 1, &o->shard_index))
        return fault_set(fault, RC_USAGE, "--shard %.40s: wanted I/N with I from 0 to N - 1",
                         o->shard);
    return RC_OK;
}

static enum rc check_options(struct batch_options *o, struct fault *fault)
{
    if (o->input == NULL || (o->output == NULL && !o->check))
        return fault_set(fault, RC_USAGE, "%s is missing (see quire batch --help)",
                         o->input == NULL ? "-i" : "-o");
    if (o->retry_errors && (o->output == NULL || strcmp(o->output, "-") == 0))
        return fault_set(fault, RC_USAGE, "--retry-errors needs -o FILE");
    return parse_shard(o, fault);
}

static enum rc open_files(struct batch_job *b, const struct batch_options *o)
{
    enum rc rc = RC_OK;
    if (o->retry_errors)
        rc = batch_file_take_failed(o->output, "-o", &b->retry, &b->fault);
    if (rc == RC_OK && o->retry_errors && o->errors != NULL)
        rc = batch_file_take_failed(o->errors, "--errors", &b->retry, &b->fault);
    if (rc == RC_OK && !o->check)
        rc = batch_file_open(&b->out, o->output, "-o", &b->fault);
    if (rc == RC_OK && !o->check && o->errors != NULL)
        rc = batch_file_open(&b->err, o->errors, "--errors", &b->fault);
    return rc == RC_OK ? batch_job_open_input(b, o->input) : rc;
}

/* What a body means that does not say everything. */
struct defaults {
    struct completion_params bare, line, chat;
};

static enum rc open_defaults(struct defaults *d, struct batch_job *b,
                             struct sampling_options *sampling)
{
    d->bare = completion_params_default();
    d->bare.max_tokens = 128;
    enum rc rc =
        sampling_options_apply(sampling, &d->bare, b->engine->model->vocab_count, &b->fault);
    d->line = d->chat = d->bare;
    if (sampling->predict == -2) {
        d->line.max_tokens = completion_params_default().max_tokens;
        d->chat.max_tokens = -1;
    }
    return rc;
}

static enum rc run(struct batch_job *b, const struct batch_options *o,
                   struct sampling_options *sampling)
{
    struct defaults d = { 0 };
    struct chat_model chat = { 0 };
    struct fault warning = { 0 };
    enum rc rc = open_defaults(&d, b, sampling);
    if (rc == RC_OK && chat_model_open(&chat, b->engine, NULL, &warning) != RC_OK)
        rc = fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    b->bare = (struct api_context){ .engine = b->engine,
                                    .defaults = &d.bare,
                                    .chat_defaults = &d.chat,
                                    .chat = &chat,
                                    .special = !sampling->no_special };
    b->line = b->bare;
    b->line.defaults = &d.line;
    b->run_max = b->engine->options.rows_max * 2 + 2;
    b->line_max = b->run_max + o->window;
    b->lines = mem_alloc_array(b->line_max, sizeof *b->lines);
    if (rc == RC_OK && b->lines == NULL)
        rc = fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    if (rc == RC_OK && !o->check)
        rc = batch_stamp_check(b, o->output, sampling);
    if (rc == RC_OK)
        rc = batch_job_run(b);
    chat_model_close(&chat);
    completion_params_close(&d.bare);
    return rc;
}

static int report(struct batch_job *b, const struct batch_options *o, enum rc rc)
{
    uint64_t failed = b->counts.failed + b->out.failed_count + b->err.failed_count;
    if (rc != RC_OK && rc != RC_STOPPED)
        return engine_complain("batch", &b->fault);
    if (o->check)
        batch_tell_check(b);
    else
        batch_tell_end(b, rc == RC_STOPPED);
    enum rc written = batch_summary(b, o->summary, rc == RC_STOPPED, &b->fault);
    if (written != RC_OK)
        return engine_complain("batch", &b->fault);
    return rc_exit_status(rc == RC_OK && failed > 0 ? RC_PARTIAL : rc);
}

int cmd_batch(int argc, char **argv)
{
    struct batch_options o = { .window = 64, .grace_s = 5 };
    struct engine_options options = engine_options_default();
    struct sampling_options sampling = sampling_options_default();
    options.rows_max = options.chunk_tokens = 0; /* the engine chooses */
    struct option_group groups[] = {
        { "files", rows, sizeof rows / sizeof rows[0], &o },
        { "generation, where a line does not say it", sampling_option_rows, sampling_option_count,
          &sampling },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = {
        "batch",
        "-m MODEL -i IN.jsonl -o OUT.jsonl",
        "Answers a file of requests, several at a time; can be stopped at any "
        "moment and started again.",
        groups,
        3,
        NULL,
        0,
        0
    };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct engine e;
    struct batch_job b = { .options = &o, .engine = &e, .in.fd = -1, .out.fd = -1, .err.fd = -1 };
    b.tty = isatty(STDERR_FILENO) == 1;
    struct engine_needs needs = { .thread = true,
                                  .requests_max =
                                      engine_rows_most(&options) * 2 + 2 + EMBEDDINGS_MAX };
    enum rc rc = check_options(&o, &b.fault);
    if (rc == RC_OK)
        rc = open_files(&b, &o);
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &b.fault)) == RC_OK) {
        rc = run(&b, &o, &sampling);
        status = report(&b, &o, rc);
        batch_job_close(&b);
        engine_close(&e);
        return status;
    }
    status = engine_complain("batch", &b.fault);
    batch_job_close(&b);
    return status;
}
