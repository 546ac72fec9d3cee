/* SPDX-License-Identifier: MIT */
/* schema - what a request may say, in one table: the JSON bodies of /v1/completions,
 * /v1/chat/completions, llama.cpp's /completion and /v1/embeddings to parameters.
 * Null is absent, an unknown field is ignored, a known field with a wrong value is an error that
 * names it, and what would change the answer but is not supported is refused, never dropped.
 *   owner    the caller of completion_params_open; texts point into the body, which is kept
 *   thread   any; a struct belongs to one
 *   errors   struct api_error with the HTTP status and the field
 *   source   OpenAI API reference (completions, embeddings), with the extra fields of vLLM and
 *            llama.cpp */
#ifndef QUIRE_FRONTEND_API_SCHEMA_H
#define QUIRE_FRONTEND_API_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/limits.h"
#include "core/sampling.h"
#include "frontend/api/api_error.h"
#include "sched/request.h"

struct prompt {
    const char *text; /* NULL: ids */
    size_t len;
    int32_t *ids;
    uint32_t id_count;
};

struct stop_text {
    const char *text;
    size_t len;
};

/* Whose fields a body has. */
enum api_kind { API_COMPLETIONS, API_CHAT, API_NATIVE, API_EMBEDDINGS };

/* What becomes of the hidden states of a prompt: an embedding is their mean or the last one. */
enum pooling { POOLING_NONE, POOLING_MEAN, POOLING_LAST };

struct completion_params {
    enum api_kind kind;
    const char *prompt_field; /* what errors call the prompt */
    struct sampling sampling; /* its bias points at bias */
    struct logit_bias *bias;
    struct prompt *prompts;
    uint32_t prompt_count;
    uint32_t n;         /* choices of each prompt */
    int64_t max_tokens; /* -1: as far as the context goes */
    uint32_t min_tokens;
    int32_t logprobs;       /* -1: none, else how many of the best beside the chosen token */
    int64_t seed;           /* -1 until one has been drawn */
    enum priority priority; /* which class it asks for */
    uint64_t cache_salt;    /* of its user, beside the key's: 0 = the common one */
    enum pooling pooling;   /* embeddings: no answer is generated */
    bool base64;            /* embeddings are written so */
    bool chat_logprobs;
    bool return_tokens;    /* native: ids beside the text */
    bool return_progress;  /* a stream tells how far the prompt is */
    bool continuous_usage; /* stream_options: usage in every chunk */
    bool echo, stream, include_usage, ignore_eos, include_stop_text;
    struct stop_text stops[STOP_TEXTS_MAX];
    uint32_t stop_count;
    int32_t stop_ids[STOP_IDS_MAX];
    uint32_t stop_id_count;
    const int32_t *shown_ids; /* control tokens that are written out; not from the body */
    uint32_t shown_id_count;
    json_t *body; /* a reference that keeps texts alive; NULL when they belong to somebody else */
};

/* completion_params_default - neutral sampling, one choice, 16 tokens, seed 0, no prompt. */
struct completion_params completion_params_default(void);

/* completion_params_open - defaults, then what the body says. After an error nothing is held. */
enum rc completion_params_open(struct completion_params *out, json_t *body,
                               const struct completion_params *defaults, uint32_t vocab_count,
                               struct api_error *error) ATTR_MUST_USE;

/* chat_params_open - the same for a chat, whose prompt comes from elsewhere: prompt_count is 0.
 * native_params_open - for llama.cpp's names, and its order of the samplers.
 * embedding_params_open - for input, encoding_format, pooling; what pools by default comes with the
 * defaults. */
enum rc chat_params_open(struct completion_params *out, json_t *body,
                         const struct completion_params *defaults, uint32_t vocab_count,
                         struct api_error *error) ATTR_MUST_USE;
enum rc native_params_open(struct completion_params *out, json_t *body,
                           const struct completion_params *defaults, uint32_t vocab_count,
                           struct api_error *error) ATTR_MUST_USE;
enum rc embedding_params_open(struct completion_params *out, json_t *body,
                              const struct completion_params *defaults, uint32_t vocab_count,
                              struct api_error *error) ATTR_MUST_USE;

/* completion_params_close - zeroed and half-filled ones too. */
void completion_params_close(struct completion_params *p);

#endif
