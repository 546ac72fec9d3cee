/* SPDX-License-Identifier: MIT */
/* cmd_serve - the HTTP endpoint: listens, loads the model, serves until it is told to stop. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "frontend/chat_session.h"
#include "frontend/commands.h"
#include "frontend/http/server.h"
#include "frontend/interrupt.h"
#include "frontend/sampling_options.h"

/* Prompt tokens in a step: with half of 128, gaps between tokens are half as long beside other
 * prompts, at the same throughput (bench/README.md). */
#define SERVE_CHUNK 64u

struct serving {
    struct engine_options options;
    struct engine_needs needs;
    struct sampling_options sampling;
    struct chat_options chat_options;
    const char *alias;
    struct engine engine;
    struct chat_model chat;
    struct completion_params defaults, chat_defaults;
    bool engine_open;
};

/* What a request that does not say it gets: the flags, and OpenAI's own 16 tokens. */
static enum rc take_defaults(struct serving *v, struct fault *fault)
{
    bool random = v->sampling.seed == -1; /* each request its own, not one for all */
    v->sampling.seed = random ? 0 : v->sampling.seed;
    v->defaults = completion_params_default();
    enum rc rc =
        sampling_options_apply(&v->sampling, &v->defaults, v->engine.model->vocab_count, fault);
    v->defaults.seed = random ? -1 : v->defaults.seed;
    v->chat_defaults = v->defaults;
    if (v->sampling.predict == -2)
        v->chat_defaults.max_tokens = -1;
    return rc;
}

/* The server's loading thread. */
static enum rc load(void *ctx, struct api_context *out, struct fault *fault)
{
    struct serving *v = ctx;
    enum rc rc = engine_open(&v->engine, &v->options, &v->needs, fault);
    v->engine_open = rc == RC_OK;
    if (rc == RC_OK && v->alias != NULL)
        snprintf(v->engine.name, sizeof v->engine.name, "%s", v->alias);
    if (rc == RC_OK)
        rc = take_defaults(v, fault);
    if (rc == RC_OK)
        rc = chat_session_model(&v->chat, &v->engine, v->chat_options.template, fault);
    if (rc == RC_OK)
        *out = (struct api_context){ .engine = &v->engine,
                                     .defaults = &v->defaults,
                                     .chat_defaults = &v->chat_defaults,
                                     .chat = &v->chat,
                                     .special = !v->sampling.no_special };
    return rc;
}

/* Names go into JSON, log lines and metrics. */
static enum rc check_alias(const char *alias, struct fault *fault)
{
    for (const char *p = alias; p != NULL && *p != '\0'; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '\\')
            return fault_set(fault, RC_USAGE,
                             "-a takes printable characters without blanks and quotes");
    if (alias != NULL && (alias[0] == '\0' || strlen(alias) > 95))
        return fault_set(fault, RC_USAGE, "-a takes a name of 1 to 95 characters");
    return RC_OK;
}

/* A file descriptor for each connection, and some for everything else. */
static void raise_file_limit(uint32_t connections)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + 64)
        return;
    limit.rlim_cur = limit.rlim_max < connections + 64 ? limit.rlim_max : connections + 64;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < connections + 64)
        fprintf(stderr, "warning: --max-connections %u, but only %llu files may be open\n",
                connections, (unsigned long long)limit.rlim_cur);
}

static int serve(struct serving *v, const struct server_options *options)
{
    struct fault fault;
    struct server *server = NULL;
    struct server_load loading = { load, v };
    enum rc rc = check_alias(options->alias, &fault);
    if (rc == RC_OK)
        rc = server_open(&server, options, &fault);
    if (rc == RC_OK) {
        if (!v->options.quiet)
            fprintf(stderr, "listening %s\n", server_url(server));
        v->needs.on_events = server_wake;
        v->needs.on_events_ctx = server;
        rc = server_run(server, &loading, &fault);
    }
    chat_model_close(&v->chat);
    if (v->engine_open)
        engine_close(&v->engine); /* its thread wakes the server to its end */
    server_close(server);
    completion_params_close(&v->defaults);
    return rc == RC_OK ? 0 : engine_complain("serve", &fault);
}

int cmd_serve(int argc, char **argv)
{
    struct serving v = { .options = engine_options_default(),
                         .sampling = sampling_options_default() };
    struct server_options options = server_options_default();
    v.sampling.seed = -1;
    v.options.rows_max = v.options.chunk_tokens = 0; /* the engine chooses */
    struct option_group groups[] = {
        { "server", server_option_rows, server_option_count, &options },
        { "generation, where a request does not say it", sampling_option_rows,
          sampling_option_count, &v.sampling },
        { "conversations", chat_option_rows, 1, &v.chat_options },
        { "engine", engine_option_rows, engine_option_count, &v.options },
    };
    struct option_set set = { "serve",
                              "-m MODEL [--host ADDRESS] [--port N] [--api-key KEY]",
                              "Serves an OpenAI-compatible HTTP API to several people at once.",
                              groups,
                              sizeof groups / sizeof groups[0],
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    raise_file_limit(options.connections);
    v.alias = options.alias;
    /* What was released may still be under way: room for as much again. Prompts that are to be
     * scored need an output for each of their rows. */
    v.needs =
        (struct engine_needs){ .thread = true,
                               .chunk_tokens = SERVE_CHUNK,
                               .outputs_max = 64,
                               .requests_max = (engine_rows_most(&v.options) + options.queue) * 2 +
                                               EMBEDDINGS_MAX };
    return serve(&v, &options);
}
