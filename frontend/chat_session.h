/* SPDX-License-Identifier: MIT */
/* chat_session - a conversation on the command line: questions in, answers shown as they grow.
 * The answer goes to stdout, what the model thinks before it and the speed to stderr. Every turn
 * sends the whole conversation; the prefix cache has all of it but the new question.
 *   owner    the command
 *   thread   the main thread, beside the scheduler's
 *   errors   RC_INVALID: a question that cannot be answered, said on stderr; the conversation is as
 *            it was before. RC_CANCELLED: a signal came */
#ifndef QUIRE_FRONTEND_CHAT_SESSION_H
#define QUIRE_FRONTEND_CHAT_SESSION_H

#include <jansson.h>

#include "frontend/api/chat.h"
#include "frontend/options.h"

/* The flags of chats. */
struct chat_options {
    const char *template; /* file with a template instead of the model's */
    const char *system;   /* what the system's turn says; NULL: none */
    uint32_t think;       /* 0 = as the template does, 1 = yes, 2 = no */
};

/* The first row, --chat-template, is for every command that knows conversations. */
extern const struct option chat_option_rows[];
extern const size_t chat_option_count;

struct chat_session {
    struct chat_model model;
    struct completion_params defaults;
    struct chat_options options;
    json_t *messages;
    const char *command; /* how errors begin */
};

/* chat_session_model - the model with its own template, or with that of a file; what the template
 * lacks is said on stderr, and is no reason not to go on. */
enum rc chat_session_model(struct chat_model *m, struct engine *e, const char *path,
                           struct fault *fault) ATTR_MUST_USE;

/* chat_session_open - takes defaults over. */
enum rc chat_session_open(struct chat_session *s, const char *command, struct engine *e,
                          const struct chat_options *options, struct completion_params *defaults,
                          struct fault *fault) ATTR_MUST_USE;

/* chat_session_ask - one turn. */
enum rc chat_session_ask(struct chat_session *s, const char *question, size_t len) ATTR_MUST_USE;

/* chat_session_clear - only the system's turn is left. */
enum rc chat_session_clear(struct chat_session *s) ATTR_MUST_USE;
void chat_session_close(struct chat_session *s);

#endif
