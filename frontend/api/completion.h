/* SPDX-License-Identifier: MIT */
/* completion - one request: its prompts times n choices, run together, and the body of the answer
 * of /v1/completions. `quire batch` and the server give the same body for the same request. With
 * params.pooling nothing is generated: each prompt has its embedding in `pooled` when it has ended.
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
#include "frontend/api/pooled.h"
#include "frontend/api/schema.h"

struct completion {
    struct engine *engine;
    struct completion_params params;
    struct token_list *prompts; /* [params.prompt_count] */
    struct generation *choices; /* [choice_count] choice = prompt * n + k */
    struct pooled *pooled;      /* [params.prompt_count] of embeddings, else NULL */
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

/* completion_step - generation_step of choice k, but that a choice whose prompt is echoed with its
 * scores waits for them: they come with the first choice. */
bool completion_step(struct completion *c, uint32_t k);

/* completion_take - reads what is new; true when the last choice has ended (failed or not). */
bool completion_take(struct completion *c);

/* completion_ended - the same without reading: for who has read by steps. */
bool completion_ended(struct completion *c);

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

/* completion_timings - llama.cpp's numbers of the first choice. */
json_t *completion_timings(const struct completion *c);

/* completion_report - adds to a body or to the last chunk of a stream what its run was: the seed,
 * and with timings how long it took. */
enum rc completion_report(const struct completion *c, json_t *object, bool timings) ATTR_MUST_USE;

/* completion_progress - with return_progress: {"total", "cache", "processed", "time_ms"} of the
 * first prompt when more of it than *told is there; *none: there is no news. NULL else: no
 * memory. */
json_t *completion_progress(const struct completion *c, uint32_t *told, bool *none);

/* completion_usage - {"prompt_tokens" .., "prompt_tokens_details": {"cached_tokens"}}. */
json_t *completion_usage(const struct completion *c);

uint32_t completion_prompt_tokens(const struct completion *c);
uint32_t completion_cached_tokens(const struct completion *c); /* of these, not computed again */
uint32_t completion_output_tokens(const struct completion *c);
uint64_t completion_output_tokens_max(const struct completion *c); /* what it may become */

void completion_close(struct completion *c);

#endif
