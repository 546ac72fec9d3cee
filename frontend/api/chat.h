/* SPDX-License-Identifier: MIT */
/* chat - one conversation to be continued, in OpenAI's shape: template, tokens, choices run
 * together, and their texts taken apart. Every API that speaks of messages, and the command line,
 * go through here.
 *   owner    its opener; the body is kept
 *   thread   chat_model: read-only after opening. chat: the consumer of the scheduler's events
 *   errors   struct api_error: 400 with the field; what the template refuses names messages */
#ifndef QUIRE_FRONTEND_API_CHAT_H
#define QUIRE_FRONTEND_API_CHAT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "frontend/api/answer.h"
#include "frontend/api/chat_template.h"
#include "frontend/api/completion.h"
#include "frontend/api/dialect.h"

/* A model that chats: what its template says about prompts and answers, found once. */
struct chat_model {
    struct engine *engine;
    struct chat_template *template;
    struct answer_style style;
    int32_t mark_ids[ANSWER_MARKS_MAX]; /* control tokens that an answer is read with */
    uint32_t mark_id_count;
};

/* chat_model_open - warning as chat_template_open's. */
enum rc chat_model_open(struct chat_model *m, struct engine *e, const char *template_source,
                        struct fault *warning) ATTR_MUST_USE;
void chat_model_close(struct chat_model *m);

struct chat_choice {
    struct answer answer;
    size_t read; /* bytes of the generation's text that the answer has */
    bool ended;
};

struct chat {
    const struct chat_model *model;
    struct completion completion; /* one prompt, n choices */
    struct chat_choice *choices;
    json_t *body;
};

/* chat_open - everything is checked, nothing submitted. call: who asks; NULL on a command line.
 * defaults: of a chat, max_tokens -1. */
enum rc chat_open(struct chat *c, const struct chat_model *m, json_t *body,
                  const struct completion_params *defaults, const struct api_call *call,
                  struct api_error *error) ATTR_MUST_USE;

/* chat_submit - as completion_submit. */
enum rc chat_submit(struct chat *c) ATTR_MUST_USE;

/* chat_step - at most one more token of choice k, or its end; false when there is nothing new. */
bool chat_step(struct chat *c, uint32_t k);

/* chat_take - all there is; true when the last choice has ended (failed or not). */
bool chat_take(struct chat *c);

void chat_cancel(struct chat *c);
void chat_close(struct chat *c);

/* chat_finish - "stop", "length" or "tool_calls". */
const char *chat_finish(const struct chat *c, uint32_t k);

/* chat_prompt_of - the prompt that a body asks for, rendered only: its text and its ids. */
enum rc chat_prompt_of(struct chat_prompt *text, struct token_list *ids, const struct chat_model *m,
                       json_t *body, struct api_error *error) ATTR_MUST_USE;

#endif
