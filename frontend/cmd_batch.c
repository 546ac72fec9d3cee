/* SPDX-License-Identifier: MIT */
/* cmd_batch - `quire batch`: a file of requests in, a file of answers out. What is done is in
 * frontend/batch/batch_job.h; here are the flags, the order of opening, and the exit status. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "frontend/batch/batch_engine.h"
#include "frontend/batch/batch_estimate.h"
#include "frontend/batch/batch_server.h"
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
    { "--server", OPTION_TEXT, AT(server), 0, 0, "URL", NULL,
      "a quire server, unix:PATH or http://HOST:PORT: lines run in the rows that its users leave "
      "free; instead of -m" },
    { "--api-key", OPTION_TEXT, AT(api_key), 0, 0, "KEY", NULL, "what that server wants to see" },
    { "--check", OPTION_FLAG, AT(check), 0, 0, NULL, NULL,
      "read the input and say what would happen and how long it would take; nothing of it runs "
      "and nothing is written" },
    { "--tokens-per-second", OPTION_F32, AT(tokens_per_second), 0, 1e9, "N", NULL,
      "speed that --check goes by, prompt and generated tokens alike; 0 = measure it" },
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
    if (o->check && o->server != NULL)
        return fault_set(fault, RC_USAGE,
                         "--check needs a model of its own: give -m, not --server");
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

/* What --check tells in the end. */
static enum rc check(struct batch_job *b, const struct batch_options *o, struct engine *e)
{
    struct batch_speed speed = { .prompt_tps = (double)o->tokens_per_second,
                                 .output_tps = (double)o->tokens_per_second };
    uint32_t at_once = e->options.rows_max;
    if (b->counts.ok < at_once)
        at_once = b->counts.ok > 0 ? (uint32_t)b->counts.ok : 1;
    enum rc rc = RC_OK;
    if (o->tokens_per_second <= 0)
        rc = batch_estimate_measure(&speed, e, at_once, &b->fault);
    if (rc == RC_OK)
        batch_tell_check(b, &speed);
    return rc;
}

static enum rc run(struct batch_job *b, const struct batch_options *o)
{
    b->line_max = b->run_max + o->window;
    b->lines = mem_alloc_array(b->line_max, sizeof *b->lines);
    if (b->lines == NULL)
        return fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    enum rc rc = RC_OK;
    if (!o->check)
        rc = batch_stamp_check(b, o->output);
    return rc == RC_OK ? batch_job_run(b) : rc;
}

/* With an engine of our own, and in a server. */
static enum rc run_here(struct batch_job *b, const struct batch_options *o,
                        const struct engine_options *options, struct sampling_options *sampling)
{
    struct batch_engine w;
    enum rc rc = batch_engine_open(&w, b, options, sampling);
    if (rc != RC_OK)
        return rc;
    rc = run(b, o);
    if (rc == RC_OK && o->check)
        rc = check(b, o, &w.engine);
    batch_engine_close(&w);
    return rc;
}

static enum rc run_there(struct batch_job *b, const struct batch_options *o,
                         struct sampling_options *sampling)
{
    struct batch_server w;
    enum rc rc = batch_server_open(&w, b, sampling);
    if (rc != RC_OK)
        return rc;
    rc = run(b, o);
    batch_server_close(&w);
    return rc;
}

static int report(struct batch_job *b, const struct batch_options *o, enum rc rc)
{
    uint64_t failed = b->counts.failed + b->out.failed_count + b->err.failed_count;
    if (rc != RC_OK && rc != RC_STOPPED)
        return engine_complain("batch", &b->fault);
    if (!o->check)
        batch_tell_end(b, rc == RC_STOPPED);
    enum rc written = batch_summary(b, o->summary, rc == RC_STOPPED, &b->fault);
    if (written != RC_OK)
        return engine_complain("batch", &b->fault);
    return rc_exit_status(rc == RC_OK && failed > 0 ? RC_PARTIAL : rc);
}

/* With a server nothing of an engine is ours to set but how much we say. */
static enum rc check_engine_flags(const struct engine_options *options, struct engine_options none,
                                  struct fault *fault)
{
    none.quiet = options->quiet;
    none.verbose = options->verbose;
    const struct option *other =
        options_differ(engine_option_rows, engine_option_count, options, &none);
    if (other == NULL)
        return RC_OK;
    return fault_set(fault, RC_USAGE, "%s is for an engine here: with --server, the server has it",
                     other->names);
}

int cmd_batch(int argc, char **argv)
{
    struct batch_options o = { .window = 64, .grace_s = 5 };
    struct engine_options options = engine_options_default();
    struct sampling_options sampling = sampling_options_default();
    options.rows_max = options.chunk_tokens = 0; /* the engine chooses */
    const struct engine_options none = options;
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
    struct batch_job b = { .options = &o, .in.fd = -1, .out.fd = -1, .err.fd = -1 };
    b.tty = isatty(STDERR_FILENO) == 1;
    b.quiet = options.quiet;
    b.clock = clock_real();
    b.started_us = clock_now_us(&b.clock);
    enum rc rc = check_options(&o, &b.fault);
    if (rc == RC_OK && o.server != NULL)
        rc = check_engine_flags(&options, none, &b.fault);
    if (rc == RC_OK)
        rc = open_files(&b, &o);
    if (rc == RC_OK)
        rc =
            o.server != NULL ? run_there(&b, &o, &sampling) : run_here(&b, &o, &options, &sampling);
    status = report(&b, &o, rc);
    batch_job_close(&b);
    return status;
}
