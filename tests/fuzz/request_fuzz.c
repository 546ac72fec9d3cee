/* SPDX-License-Identifier: MIT */
/* request_fuzz - a JSON body is parameters, or an error that can be written as JSON. */
#include <stdlib.h>

#include "core/must.h"
#include "frontend/api/schema.h"

static void try_body(json_t *body, bool chat)
{
    struct completion_params p, defaults = completion_params_default();
    struct api_error error;
    enum rc rc = chat ? chat_params_open(&p, body, &defaults, 512, &error)
                      : completion_params_open(&p, body, &defaults, 512, &error);
    if (rc == RC_OK) {
        must(p.n >= 1 && p.prompt_count * p.n <= CHOICES_MAX);
        completion_params_close(&p);
        return;
    }
    must(error.status >= 400 && error.code != NULL && error.message[0] != '\0');
    json_t *out = api_error_json(&error);
    char *text = json_dumps(out, JSON_COMPACT);
    must(out != NULL && text != NULL);
    free(text);
    json_decref(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_error_t where;
    json_t *body = json_loadb((const char *)data, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (body == NULL)
        return 0;
    try_body(body, false);
    try_body(body, true);
    json_decref(body);
    return 0;
}
