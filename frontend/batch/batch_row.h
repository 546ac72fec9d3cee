/* SPDX-License-Identifier: MIT */
/* batch_row - one line of a batch job in, one row out.
 * In:  {"prompt": ...}, {"messages": ...}, {"input": ...}  a bare body, custom_id allowed
 *      {"custom_id", "method", "url", "body": {...}}       an OpenAI batch line
 *      any text, with BATCH_TEXT                           a prompt
 * Out: {"id", "custom_id", "line", "response": {"status_code", "request_id", "body"}, "error"}
 *      error is null, or {"code", "message"} when status_code is not 200
 *   owner    the caller
 *   thread   any
 *   errors   struct api_error with the status that the row gets */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_ROW_H
#define QUIRE_FRONTEND_BATCH_BATCH_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "frontend/api/dialect.h"
#include "frontend/api/schema.h"

enum batch_format { BATCH_JSONL, BATCH_TEXT };

struct batch_row {
    uint64_t line;
    json_t *root;                  /* NULL when the line is no JSON */
    json_t *custom_id;             /* a string in root, or NULL */
    json_t *body;                  /* in root */
    const char *url;               /* as the table in batch_row.c writes it */
    const struct dialect *dialect; /* what the body means */
    bool bare;                     /* the line is the body */
};

/* batch_row_open - also after an error the row is what batch_row_error takes. */
enum rc batch_row_open(struct batch_row *r, uint64_t line, enum batch_format format,
                       const char *text, size_t len, struct api_error *error) ATTR_MUST_USE;
void batch_row_close(struct batch_row *r);

/* batch_row_answer / batch_row_error - the output row as a new reference; NULL without memory. body
 * is taken over. */
json_t *batch_row_answer(const struct batch_row *r, json_t *body);
json_t *batch_row_error(const struct batch_row *r, const struct api_error *error);

/* batch_row_reply - the same from a server's answer: its status and body, which is taken over. */
json_t *batch_row_reply(const struct batch_row *r, int status, json_t *body);

/* batch_row_failed - whether an output row tells of a failure. */
bool batch_row_failed(const json_t *row);

#endif
