/* SPDX-License-Identifier: MIT */
/* batch_row - ids are made from the line number, so that a row is the same however often it is
 * computed. A line that is wrong in several ways gets the first complaint in the order: JSON,
 * shape, custom_id, method, url, body. */
#include "frontend/batch/batch_row.h"

#include <stdio.h>
#include <string.h>

/* What a line may ask for, and the field by which a bare body is known. */
static const struct route {
    const char *url, *field;
    const struct dialect *dialect;
} routes[] = {
    { "/v1/completions", "prompt", &dialect_completions },
    { "/v1/chat/completions", "messages", &dialect_chat },
    { "/v1/responses", "input", &dialect_responses },
    { "/v1/embeddings", NULL, &dialect_embeddings }, /* bare, it would look like the one before */
};
#define ROUTE_COUNT (sizeof routes / sizeof routes[0])

static enum rc check_bare(struct batch_row *r, struct api_error *error)
{
    r->body = r->root;
    r->bare = true;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (routes[i].field != NULL && json_object_get(r->root, routes[i].field) != NULL) {
            r->url = routes[i].url;
            r->dialect = routes[i].dialect;
            return RC_OK;
        }
    }
    return api_error_set(error, 400, "missing_field", "prompt",
                         "line %llu has no url, prompt, messages or input",
                         (unsigned long long)r->line);
}

static enum rc check_url(struct batch_row *r, const json_t *url, struct api_error *error)
{
    if (!json_is_string(url))
        return api_error_set(error, 400, url == NULL ? "missing_field" : "invalid_type", "url",
                             "line %llu: url must be a string", (unsigned long long)r->line);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (strcmp(json_string_value(url), routes[i].url) == 0) {
            r->url = routes[i].url;
            r->dialect = routes[i].dialect;
            return RC_OK;
        }
    }
    return api_error_set(error, 404, "unknown_url", "url",
                         "line %llu: url '%.60s' is not served; /v1/completions, "
                         "/v1/chat/completions, /v1/responses and /v1/embeddings are",
                         (unsigned long long)r->line, json_string_value(url));
}

static enum rc check_line(struct batch_row *r, struct api_error *error)
{
    const json_t *id = json_object_get(r->root, "custom_id");
    const json_t *url = json_object_get(r->root, "url");
    const json_t *method = json_object_get(r->root, "method");
    r->body = json_object_get(r->root, "body");
    if (json_is_string(id))
        r->custom_id = json_object_get(r->root, "custom_id");
    if (!json_is_object(r->root))
        return api_error_set(error, 400, "invalid_type", NULL, "line %llu must be an object",
                             (unsigned long long)r->line);
    if (id != NULL && !json_is_null(id) && !json_is_string(id))
        return api_error_set(error, 400, "invalid_type", "custom_id",
                             "line %llu: custom_id must be a string", (unsigned long long)r->line);
    if (url == NULL && r->body == NULL && method == NULL)
        return check_bare(r, error);
    if (r->custom_id == NULL)
        return api_error_set(error, 400, "missing_field", "custom_id", "line %llu has no custom_id",
                             (unsigned long long)r->line);
    if (method != NULL &&
        (!json_is_string(method) || strcmp(json_string_value(method), "POST") != 0))
        return api_error_set(error, 405, "method_not_allowed", "method",
                             "line %llu: method must be POST", (unsigned long long)r->line);
    enum rc rc = check_url(r, url, error);
    if (rc != RC_OK)
        return rc;
    if (!json_is_object(r->body))
        return api_error_set(error, 400, r->body == NULL ? "missing_field" : "invalid_type", "body",
                             "line %llu: body must be an object", (unsigned long long)r->line);
    return RC_OK;
}

/* A line of plain text is a prompt. */
static enum rc open_text(struct batch_row *r, const char *text, size_t len, struct api_error *error)
{
    if (len > 0 && text[len - 1] == '\r')
        len--;
    r->root = json_pack("{s:o}", "prompt", json_stringn(text, len));
    if (r->root == NULL)
        return api_error_set(error, 400, "invalid_text", NULL, "line %llu is no UTF-8 text",
                             (unsigned long long)r->line);
    return check_bare(r, error);
}

enum rc batch_row_open(struct batch_row *r, uint64_t line, enum batch_format format,
                       const char *text, size_t len, struct api_error *error)
{
    char what[40];
    *r = (struct batch_row){ .line = line };
    if (format == BATCH_TEXT)
        return open_text(r, text, len, error);
    snprintf(what, sizeof what, "line %llu", (unsigned long long)line);
    r->root = dialect_read(text, len, what, error);
    return r->root != NULL ? check_line(r, error) : RC_INVALID;
}

void batch_row_close(struct batch_row *r)
{
    json_decref(r->root);
    *r = (struct batch_row){ 0 };
}

static json_t *row_json(const struct batch_row *r, int status, json_t *body, json_t *error)
{
    char id[40], request_id[40];
    snprintf(id, sizeof id, "batch_req_%llu", (unsigned long long)r->line);
    snprintf(request_id, sizeof request_id, "req_%llu", (unsigned long long)r->line);
    json_t *custom_id = r->custom_id != NULL ? json_incref(r->custom_id) : json_null();
    return json_pack("{s:s, s:o, s:I, s:{s:i, s:s, s:o}, s:o}", "id", id, "custom_id", custom_id,
                     "line", (json_int_t)r->line, "response", "status_code", status, "request_id",
                     request_id, "body", body, "error", error);
}

json_t *batch_row_answer(const struct batch_row *r, json_t *body)
{
    return row_json(r, 200, body, json_null());
}

json_t *batch_row_error(const struct batch_row *r, const struct api_error *error)
{
    json_t *body = r->dialect != NULL ? r->dialect->error_body(error)
                                      : json_pack("{s:o}", "error", api_error_json(error));
    json_t *brief = json_pack("{s:s, s:s}", "code", error->code, "message", error->message);
    return row_json(r, error->status, body, brief);
}

json_t *batch_row_reply(const struct batch_row *r, int status, json_t *body)
{
    if (status == 200)
        return batch_row_answer(r, body);
    const json_t *error = json_object_get(body, "error");
    json_t *code = json_object_get(error, "code"), *message = json_object_get(error, "message");
    json_t *brief = json_pack("{s:o, s:o}", "code", code != NULL ? json_incref(code) : json_null(),
                              "message", message != NULL ? json_incref(message) : json_null());
    return row_json(r, status, body, brief);
}

bool batch_row_failed(const json_t *row)
{
    const json_t *response = json_object_get(row, "response");
    return json_integer_value(json_object_get(response, "status_code")) != 200;
}
