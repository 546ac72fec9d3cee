/* SPDX-License-Identifier: MIT */
/* api_error - what is wrong with a request, as every way of answering tells it.
 *   owner    the caller; nothing is allocated but by api_error_json
 *   thread   any
 *   source   OpenAI API reference: error objects, with the counts that llama.cpp adds */
#ifndef QUIRE_FRONTEND_API_API_ERROR_H
#define QUIRE_FRONTEND_API_API_ERROR_H

#include <stdint.h>

#include <jansson.h>

#include "core/attr.h"
#include "core/err.h"

struct api_error {
    int status;              /* HTTP status */
    const char *type;        /* "invalid_request_error" */
    const char *code;        /* "invalid_value", "context_length_exceeded" */
    char param[48];          /* the field, "" when there is none */
    char message[240];       /* one line */
    uint32_t prompt_tokens;  /* with context_length_exceeded: the prompt's, */
    uint32_t context_tokens; /* and the limit */
};

/* api_error_set - fills e; the message as printf does. Always RC_INVALID. */
enum rc api_error_set(struct api_error *e, int status, const char *code, const char *param,
                      const char *fmt, ...) ATTR_PRINTF(5, 6);

/* api_error_kind - "field must be right, not a list", by what v is; NULL: the body must be. */
enum rc api_error_kind(struct api_error *e, const char *field, const char *right, const json_t *v);

/* For a body that was rewritten: api_error_rename - what is said of field `from` is said of `to`.
 * api_error_retell - what is said of messages[i] is said of to[i]; with `first` it is said of that
 * field for i = 0, a turn that was put in front, and of to[i - 1] else. */
void api_error_rename(struct api_error *e, const char *from, const char *to);
void api_error_retell(struct api_error *e, const char *to, const char *first);

/* api_error_json - {"message","type","param","code"} as a new reference; NULL without memory. */
json_t *api_error_json(const struct api_error *e);

#endif
