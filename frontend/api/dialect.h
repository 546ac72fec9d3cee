/* SPDX-License-Identifier: MIT */
/* dialect - the seam between a server and what a request means. A dialect (completions, chat,
 * messages, responses) turns a body into a job, and the job's growing answer into frames of a
 * stream or one body. It knows no sockets, headers, pings or queues; a server knows no fields.
 *
 *   open (helper thread) -> completion_submit -> take, take, ... true -> body -> close
 *
 * Jobs are opened and read through dialect_open, dialect_take, dialect_body and dialect_query: JSON
 * is made by a library that may keep a failed allocation to itself, so these ask whether there was
 * one, and an answer that may lack something is an error.
 *
 *   owner    the server owns a job from open to close; contexts and calls outlive it
 *   thread   open and queries: any, several at once. The rest: the consumer of the scheduler's
 *            events
 *   errors   open: the whole answer is the error's. Later: completion.failed and completion.error,
 *            which a streaming take writes as its last frames */
#ifndef QUIRE_FRONTEND_API_DIALECT_H
#define QUIRE_FRONTEND_API_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "core/detok.h"
#include "core/err.h"
#include "frontend/api/completion.h"
#include "frontend/api/schema.h"
#include "frontend/engine.h"

struct chat_model;

/* What all calls share: constant while a server runs. */
struct api_context {
    struct engine *engine;
    const struct completion_params *defaults;      /* where a body does not say it */
    const struct completion_params *chat_defaults; /* the same for conversations */
    const struct chat_model *chat;
    bool special; /* control tokens in plain prompts are recognized; never in conversations */
};

/* One call: constant from open to close. */
struct api_call {
    char id[40];            /* unique, without a prefix: "cmpl-" and the like are the dialect's */
    int64_t created;        /* seconds since 1970 */
    enum priority priority; /* the best class it may have */
    uint64_t tenant;
    bool timings; /* the body says how long it took: not in files that are compared */
    void *user;   /* open puts it into completion.user */
};

struct dialect {
    const char *name; /* in log lines: "chat" */
    const char *ping; /* a frame that means nothing, for silences in a stream: ":\n\n" */
    /* Checks and encodes everything, submits nothing. The body is borrowed: keep a reference. */
    enum rc (*open)(void **job, const struct api_context *x, const struct api_call *call,
                    json_t *body, struct api_error *error);
    /* What runs: for submission, cancelling, params.stream, numbers of log lines. One for a job. */
    struct completion *(*completion)(void *job);
    /* Reads what is new; true when all of it has ended (failed or not), once. With frames: appends
     * complete frames, all the last ones when it returns true: every token is read by a step that
     * writes what it has changed, because the scheduler goes on meanwhile. Without memory it fails
     * the completion. */
    bool (*take)(void *job, struct text *frames);
    /* After take was true without a failure: the answer as a new reference; NULL without memory. */
    json_t *(*body)(const void *job);
    /* The body of an answer that is an error; NULL without memory. */
    json_t *(*error_body)(const struct api_error *error);
    /* All requests of the completion have ended, or none was submitted. */
    void (*close)(void *job);
    const char *starved; /* the last frames of a stream that has no memory for its last frames */
};

enum rc dialect_open(const struct dialect *d, void **job, const struct api_context *x,
                     const struct api_call *call, json_t *body, struct api_error *error)
    ATTR_MUST_USE;
bool dialect_take(const struct dialect *d, void *job, struct text *frames) ATTR_MUST_USE;
json_t *dialect_body(const struct dialect *d, const void *job);

/* api_query - a question that runs no model: tokenize, apply-template, count_tokens. The body's
 * answer, or NULL with the error. */
typedef json_t *api_query(const struct api_context *x, json_t *body, struct api_error *error);
json_t *dialect_query(api_query *query, const struct api_context *x, json_t *body,
                      struct api_error *error);

/* dialect_read - a body's or line's JSON, of any type. NULL: error says at which byte it is none,
 * or that there was no memory. */
json_t *dialect_read(const char *text, size_t len, const char *what, struct api_error *error);

extern const struct dialect dialect_completions; /* /v1/completions */
extern const struct dialect dialect_chat;        /* /v1/chat/completions */
extern const struct dialect dialect_messages;    /* /v1/messages */
extern const struct dialect dialect_responses;   /* /v1/responses */
extern const struct dialect dialect_native;      /* /completion, as llama.cpp has it */
/* /v1/embeddings: no stream (params.stream is false whatever a body says); open, submit, take and
 * body as for the others, for lines of a batch too. */
extern const struct dialect dialect_embeddings;

api_query query_tokenize, query_detokenize, query_apply_template, query_count_tokens,
    query_input_tokens, query_basis;

#endif
