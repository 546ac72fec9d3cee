/* SPDX-License-Identifier: MIT */
/* chat_template - a model's chat template in use: from a conversation in OpenAI's shape to the
 * text of the prompt.
 *   owner    the opener; a prompt belongs to its caller
 *   thread   read-only after chat_template_open: any number of threads may render
 *   errors   RC_INVALID: the messages, with their field, or what the template itself refuses
 *            ("template line 3: TemplateError: ..."); RC_LIMIT; RC_NO_MEMORY
 *   probing  opening renders a few small conversations, to learn what the template can do */
#ifndef QUIRE_FRONTEND_API_CHAT_TEMPLATE_H
#define QUIRE_FRONTEND_API_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "core/attr.h"
#include "core/err.h"
#include "core/gguf.h"
#include "core/tokenizer.h"
#include "frontend/api/chat_messages.h"
#include "frontend/jinja/jinja.h"

struct chat_template;

struct chat_template_config {
    const char *source; /* NULL: the model has none */
    size_t source_len;
    const char *bos, *eos; /* texts of these tokens; NULL: none */
    struct jinja_options options;
};

/* chat_template_config_of_model - what the model file says; the texts of the tokens go to bos and
 * eos, which must live as long as the config. */
#define CHAT_TOKEN_TEXT_MAX 256u
enum rc chat_template_config_of_model(struct chat_template_config *out,
                                      char bos[CHAT_TOKEN_TEXT_MAX], char eos[CHAT_TOKEN_TEXT_MAX],
                                      const struct gguf *g, const struct tokenizer *t,
                                      struct fault *fault) ATTR_MUST_USE;

/* chat_template_open - a missing template, or one that does not parse, is replaced by ChatML; one
 * that refuses even a plain question is kept. Each of these is said in *warning, whose code is
 * RC_OK when there is nothing to say. Fails only for lack of memory. */
enum rc chat_template_open(struct chat_template **out, const struct chat_template_config *config,
                           struct fault *warning) ATTR_MUST_USE;
void chat_template_close(struct chat_template *t);

const struct chat_caps *chat_template_caps(const struct chat_template *t);
const char *chat_template_source(const struct chat_template *t); /* zero-terminated, in use */
bool chat_template_is_fallback(const struct chat_template *t);

struct chat_request {
    json_t *messages;
    json_t *tools;     /* NULL, null or empty: none */
    json_t *documents; /* alike */
    json_t *kwargs;    /* chat_template_kwargs: an object, or NULL */
    bool add_generation_prompt;
    bool continue_final_message; /* the last turn, an assistant's, is open: no mark of its end */
};

struct chat_prompt {
    struct jinja_output out; /* text and spans; see jinja.h for what they mean */
    bool starts_with_bos;    /* the template has written it: the tokenizer must not add another */
};

enum rc chat_template_render(struct chat_prompt *out, const struct chat_template *t,
                             const struct chat_request *request, struct fault *fault) ATTR_MUST_USE;
void chat_prompt_close(struct chat_prompt *p);

#endif
