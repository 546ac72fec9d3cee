/* SPDX-License-Identifier: MIT */
/* api_error - see api_error.h. A type follows from the status: a code is all that one chooses. */
#include "frontend/api/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"

/* Messages quote what came in, and may cut it: what is no UTF-8 becomes '?'. */
static void keep_utf8(char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        struct utf8_step step = utf8_decode(text, left);
        if (step.state != UTF8_OK)
            memset(text, '?', step.len);
        text += step.len;
        left -= step.len;
    }
}

enum rc api_error_set(struct api_error *e, int status, const char *code, const char *param,
                      const char *fmt, ...)
{
    struct fault f;
    char raw[sizeof f.text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    enum rc rc = fault_set(&f, RC_INVALID, "%s", raw);
    *e = (struct api_error){ .status = status, .code = code };
    e->type = status == 401   ? "authentication_error"
              : status == 403 ? "permission_error"
              : status == 404 ? "not_found_error"
              : status == 429 ? "rate_limit_error"
              : status == 501 ? "not_supported_error"
              : status == 503 ? "unavailable_error"
              : status >= 500 ? "server_error"
                              : "invalid_request_error";
    snprintf(e->param, sizeof e->param, "%s", param != NULL ? param : "");
    memcpy(e->message, f.text, sizeof e->message);
    keep_utf8(e->message);
    return rc;
}

void api_error_rename(struct api_error *e, const char *from, const char *to)
{
    char rest[sizeof e->message];
    size_t len = strlen(from);
    if (strcmp(e->param, from) != 0)
        return;
    snprintf(e->param, sizeof e->param, "%s", to);
    if (strncmp(e->message, from, len) != 0)
        return;
    memcpy(rest, e->message + len, sizeof rest - len);
    snprintf(e->message, sizeof e->message, "%s%.*s", to, (int)(sizeof rest - 1 - strlen(to)),
             rest);
}

void api_error_retell(struct api_error *e, const char *to, const char *first)
{
    char rest[sizeof e->message], turn[48];
    unsigned i = 0;
    int used = 0;
    if (strcmp(e->param, "messages") != 0)
        return;
    if (sscanf(e->message, "messages[%u]%n", &i, &used) != 1 || used == 0) {
        api_error_rename(e, "messages", to);
        return;
    }
    memcpy(rest, e->message + used, sizeof rest - (size_t)used);
    bool front = first != NULL && i == 0;
    snprintf(e->param, sizeof e->param, "%s", front ? first : to);
    if (front)
        snprintf(turn, sizeof turn, "%s", first);
    else
        snprintf(turn, sizeof turn, "%s[%u]", to, i - (first != NULL));
    snprintf(e->message, sizeof e->message, "%s%.*s", turn, (int)(sizeof rest - 1 - strlen(turn)),
             rest);
}

json_t *api_error_json(const struct api_error *e)
{
    json_t *param = e->param[0] != '\0' ? json_string(e->param) : json_null();
    json_t *out = json_pack("{s:s%, s:s, s:o, s:s}", "message", e->message, strlen(e->message),
                            "type", e->type, "param", param, "code", e->code);
    if (out != NULL && e->context_tokens != 0) {
        json_object_set_new(out, "n_prompt_tokens", json_integer(e->prompt_tokens));
        json_object_set_new(out, "n_ctx", json_integer(e->context_tokens));
    }
    return out;
}

static const char *kind_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

enum rc api_error_kind(struct api_error *e, const char *field, const char *right, const json_t *v)
{
    return api_error_set(e, 400, "invalid_type", field, "%s must be %s, not %s",
                         field != NULL ? field : "the body", right, kind_name(v));
}
