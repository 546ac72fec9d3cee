/* SPDX-License-Identifier: MIT */
/* messages_body - bodies of other APIs brought into the shape of chat completions.
 *   owner    *out is a new reference; its parts may be shared with the body
 *   thread   any, no state
 *   errors   400 with the field; what would change the answer and is not supported is refused
 *   source   Anthropic's API reference (messages); OpenAI's (responses) */
#ifndef QUIRE_FRONTEND_API_MESSAGES_BODY_H
#define QUIRE_FRONTEND_API_MESSAGES_BODY_H

#include <jansson.h>

#include "frontend/api/schema.h"

/* messages_body - of /v1/messages. responses_body - of /v1/responses. */
enum rc messages_body(json_t **out, json_t *body, struct api_error *error) ATTR_MUST_USE;
enum rc responses_body(json_t **out, json_t *body, struct api_error *error) ATTR_MUST_USE;

#endif
