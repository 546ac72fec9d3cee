/* SPDX-License-Identifier: MIT */
/* token_text - tokens and their numbers as JSON shows them. Parts of a character are shown with
 * U+FFFD, and so is a zero byte in a token: many readers of JSON, ours among them, take none in a
 * name. -inf is written as -9999.
 *   thread   any, no state
 *   errors   false, RC_NO_MEMORY or NULL: no memory */
#ifndef QUIRE_FRONTEND_API_TOKEN_TEXT_H
#define QUIRE_FRONTEND_API_TOKEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/attr.h"
#include "core/detok.h"
#include "core/err.h"

/* text_append_valid - bytes as valid UTF-8. */
enum rc text_append_valid(struct text *out, const char *bytes, size_t len) ATTR_MUST_USE;

/* token_text - the text of one token, fit for the name of a JSON member; replaces what out holds.
 */
bool token_text(const struct tokenizer *t, int32_t id, struct text *out);

/* token_piece_json - a token as a string, or as a list of its bytes where they are no text. */
json_t *token_piece_json(const struct tokenizer *t, int32_t id);

json_t *logprob_json(float value);

/* token_json - {"token", "logprob", "bytes"}, and "id" where a dialect has it; key is scratch. */
json_t *token_json(const struct tokenizer *t, int32_t id, float logprob, bool with_id,
                   struct text *key);

#endif
