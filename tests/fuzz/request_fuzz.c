/* SPDX-License-Identifier: MIT */
/* request_fuzz - a JSON body is parameters for every API, or an error that can be written as JSON.
 */
#include <stdlib.h>

#include "core/must.h"
#include "frontend/api/messages_body.h"
#include "frontend/api/schema.h"

typedef enum rc open_fn(struct completion_params *, json_t *, const struct completion_params *,
                        uint32_t, struct api_error *);
typedef enum rc translate_fn(json_t **, json_t *, struct api_error *);

/* What is refused can be told. */
static void check_error(const struct api_error *error)
{
    must(error->status >= 400 && error->code != NULL && error->message[0] != '\0');
    json_t *out = api_error_json(error);
    char *text = json_dumps(out, JSON_COMPACT);
    must(out != NULL && text != NULL);
    free(text);
    json_decref(out);
}

static void try_body(json_t *body, open_fn *open, uint32_t most)
{
    struct completion_params p, defaults = completion_params_default();
    struct api_error error;
    if (open(&p, body, &defaults, 512, &error) != RC_OK) {
        check_error(&error);
        return;
    }
    must(p.n >= 1 && p.prompt_count * p.n <= most);
    completion_params_close(&p);
}

/* Another API's body, and then what it has become. */
static void try_translation(json_t *body, translate_fn *translate)
{
    struct api_error error;
    json_t *out;
    if (translate(&out, body, &error) != RC_OK) {
        check_error(&error);
        return;
    }
    try_body(out, chat_params_open, CHOICES_MAX);
    json_decref(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_error_t where;
    json_t *body = json_loadb((const char *)data, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (body == NULL)
        return 0;
    try_body(body, completion_params_open, CHOICES_MAX);
    try_body(body, chat_params_open, CHOICES_MAX);
    try_body(body, native_params_open, CHOICES_MAX);
    try_body(body, embedding_params_open, EMBEDDINGS_MAX);
    try_translation(body, messages_body);
    try_translation(body, responses_body);
    json_decref(body);
    return 0;
}
