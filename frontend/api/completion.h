/* SPDX-License-Identifier: MIT */
/* completion - one /v1/completions request: its prompts times n choices, run together, and the body
 * of the answer. `quire batch` and the server give the same body for the same request.
 *   owner    its opener; params are moved in and closed with it
 *   thread   the consumer of the scheduler's events. The requests' user pointer is the completion
 *   errors   struct api_error: 400 with the field, context_length_exceeded with both numbers */
#ifndef QUIRE_FRONTEND_API_COMPLETION_H
#define QUIRE_FRONTEND_API_COMPLETION_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "core/err.h"
#include "core/tokenizer.h"
#include "frontend/engine.h"
#include "frontend/api/generation.h"
#include "frontend/api/schema.h"

struct completion {
    struct engine *engine;
    struct completion_params params;
    struct token_list *prompts; /* [params.prompt_count] */
    struct generation *choices; /* [choice_count] choice = prompt * n + k */
    uint32_t choice_count;
    uint32_t submitted_count;
    uint32_t ended_count;
    enum priority priority; /* the opener's: who it is for, and in which class */
    uint64_t tenant;
    bool cancelled; /* nothing more of it is submitted */
    bool failed;    /* error holds what happened; the rest is being cancelled */
    struct api_error error;
    void *user;
};

/* completion_open - encodes and checks everything; nothing is submitted yet. Takes params over,
 * also when it fails. special: control tokens in prompts are recognized. */
enum rc completion_open(struct completion *c, struct engine *e, struct completion_params *params,
                        bool special, struct api_error *error) ATTR_MUST_USE;

/* completion_submit - what is not yet submitted. RC_FULL: some is left, call again later. */
enum rc completion_submit(struct completion *c) ATTR_MUST_USE;

/* completion_take - reads what is new; true when the last choice has ended (failed or not). */
bool completion_take(struct completion *c);

/* completion_cancel - every choice that runs; with none that does, completion_take is true next. */
void completion_cancel(struct completion *c);

/* completion_fail - what has nothing to do with the requests went wrong: the rest is cancelled. */
void completion_fail(struct completion *c, enum rc rc);

/* completion_say_lost - what every request is told once bytes of the model are gone: a 503. */
void completion_say_lost(struct api_error *error);

/* completion_body - the answer as a new reference; NULL without memory. id is the answer's id. */
json_t *completion_body(const struct completion *c, const char *id, int64_t created);

/* completion_choice - choice k of an answer or of a chunk: tokens [from, to) and what they have
 * added to the text, which is from byte `text_from` on; the prompt before them where echo asks for
 * it and from is 0. finish is NULL when it goes on. A new reference; NULL without memory. */
json_t *completion_choice(const struct completion *c, uint32_t k, uint32_t from, uint32_t to,
                          size_t text_from, const char *finish);

/* completion_timings - llama.cpp's numbers of the first choice; when it has ended. */
json_t *completion_timings(const struct completion *c);

/* completion_usage - {"prompt_tokens" .., "prompt_tokens_details": {"cached_tokens"}}. */
json_t *completion_usage(const struct completion *c);

uint32_t completion_prompt_tokens(const struct completion *c);
uint32_t completion_cached_tokens(const struct completion *c); /* of these, not computed again */
uint32_t completion_output_tokens(const struct completion *c);
uint64_t completion_output_tokens_max(const struct completion *c); /* what it may become */

void completion_close(struct completion *c);

#endif
