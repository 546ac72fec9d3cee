/* SPDX-License-Identifier: MIT */
/* routes - where a request goes, and whether it may: all of it is decided by the head, before any
 * byte of the body is read.
 *   order   Host, Origin, path, method, key, model loaded, media type, class, length of the body */
#include <stdio.h>
#include <string.h>

#include "frontend/http/server_impl.h"

static const struct route routes[] = {
    { .path = "/", .name = "page", .open = true, .early = true, .plain = endpoint_page },
    { .path = "/health",
      .name = "health",
      .open = true,
      .early = true,
      .quiet = true,
      .plain = endpoint_health },
    { .path = "/v1/health",
      .name = "health",
      .open = true,
      .early = true,
      .quiet = true,
      .plain = endpoint_health },
    { .path = "/ping",
      .name = "health",
      .open = true,
      .early = true,
      .quiet = true,
      .plain = endpoint_health },
    { .path = "/metrics",
      .name = "metrics",
      .early = true,
      .quiet = true,
      .plain = endpoint_metrics },
    { .path = "/version", .name = "version", .early = true, .plain = endpoint_version },
    { .path = "/load", .name = "load", .early = true, .quiet = true, .plain = endpoint_load },
    { .path = "/v1/models", .name = "models", .plain = endpoint_models },
    { .path = "/models", .name = "models", .plain = endpoint_models },
    { .path = "/v1/models/", .name = "model", .plain = endpoint_model },
    { .path = "/props", .name = "props", .plain = endpoint_props },
    { .path = "/slots", .name = "slots", .quiet = true, .plain = endpoint_slots },
    { .path = "/tokenizer_info", .name = "tokenizer_info", .plain = endpoint_tokenizer_info },
    { .path = "/v1/completions",
      .name = "completions",
      .post = true,
      .dialect = &dialect_completions },
    { .path = "/completion", .name = "native", .post = true, .dialect = &dialect_native },
    { .path = "/completions", .name = "native", .post = true, .dialect = &dialect_native },
    { .path = "/v1/embeddings",
      .name = "embeddings",
      .post = true,
      .dialect = &dialect_embeddings },
    { .path = "/embeddings", .name = "embeddings", .post = true, .dialect = &dialect_embeddings },
    { .path = "/v1/chat/completions", .name = "chat", .post = true, .dialect = &dialect_chat },
    { .path = "/chat/completions", .name = "chat", .post = true, .dialect = &dialect_chat },
    { .path = "/v1/messages", .name = "messages", .post = true, .dialect = &dialect_messages },
    { .path = "/v1/responses", .name = "responses", .post = true, .dialect = &dialect_responses },
    { .path = "/v1/messages/count_tokens",
      .name = "count_tokens",
      .post = true,
      .query = query_count_tokens,
      .errors = &dialect_messages },
    { .path = "/v1/chat/completions/input_tokens",
      .name = "input_tokens",
      .post = true,
      .query = query_input_tokens },
    { .path = "/apply-template",
      .name = "apply_template",
      .post = true,
      .query = query_apply_template },
    { .path = "/tokenize", .name = "tokenize", .post = true, .query = query_tokenize },
    { .path = "/basis", .name = "basis", .post = true, .slow = true, .query = query_basis },
    { .path = "/detokenize", .name = "detokenize", .post = true, .query = query_detokenize },
};

/* The route of a path and a method; *known: the path leads somewhere, with another method. */
static const struct route *find_route(struct conn *c, const struct http_head *head, bool *known,
                                      bool *known_post)
{
    *known = *known_post = false;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *r = &routes[i];
        struct str path = str_of(r->path);
        bool below = path.len > 1 && path.text[path.len - 1] == '/';
        if (below ? !str_starts(head->path, path) || head->path.len == path.len
                  : !str_equal(head->path, path))
            continue;
        *known = true;
        *known_post = r->post;
        if (r->post != (head->method == HTTP_POST) || head->method > HTTP_POST)
            continue;
        struct str rest = { head->path.text + path.len, head->path.len - path.len };
        if (!below)
            snprintf(c->request.argument, sizeof c->request.argument, "%.*s",
                     (int)(head->query.len < 127 ? head->query.len : 127), head->query.text);
        else if (!http_unescape(c->request.argument, sizeof c->request.argument, rest))
            c->request.argument[0] = '\0'; /* there is nothing of that name */
        return r;
    }
    return NULL;
}

const struct dialect *route_errors(const struct route *route)
{
    if (route == NULL)
        return NULL;
    return route->errors != NULL ? route->errors : route->dialect;
}

static void refuse(struct conn *c, int status, const char *code, const char *message)
{
    struct api_error error;
    api_error_set(&error, status, code, NULL, "%s", message);
    reply_error(c, route_errors(c->request.route), &error);
}

/* The client's own id if it is printable and not too long, else one of ours. */
static void take_request_id(struct conn *c, const struct http_head *head)
{
    struct server *s = c->server;
    struct str id = http_field_get(head, "x-request-id");
    bool good = id.len > 0 && id.len <= CONN_REQUEST_ID_MAX;
    for (size_t i = 0; i < id.len && good; i++)
        good = id.text[i] > ' ' && id.text[i] < 0x7f;
    if (good)
        snprintf(c->request.id, sizeof c->request.id, "%.*s", (int)id.len, id.text);
    else
        snprintf(c->request.id, sizeof c->request.id, "req-%012llx%08llx",
                 (unsigned long long)(s->boot >> 16), (unsigned long long)++s->request_number);
}

/* Host and Origin; false when it has been refused. */
static bool check_names(struct conn *c, const struct http_head *head)
{
    const struct access *a = &c->server->access;
    if (c->server->options.unix_socket == NULL && !access_host_allowed(a, head->host)) {
        refuse(c, 403, "host_not_allowed",
               "the Host field names a machine that is not this one; --allow-host allows it");
        return false;
    }
    struct str origin = http_field_get(head, "origin");
    if (origin.len == 0)
        return true;
    enum access_origin kind = access_origin_check(a, origin, head->host);
    if (kind == ORIGIN_REFUSED || origin.len > CONN_CORS_BYTES_MAX) {
        refuse(c, 403, "origin_not_allowed",
               "requests from pages elsewhere are refused; --cors-origin allows them");
        return false;
    }
    if (kind == ORIGIN_ALLOWED)
        snprintf(c->request.origin, sizeof c->request.origin, "%.*s", (int)origin.len, origin.text);
    return true;
}

/* What is still to come of a refused request is not read as if it were the next one. */
static void end_if_body(struct conn *c, const struct http_head *head)
{
    if (head->chunked || head->length > 0)
        c->request.keep_alive = false;
}

static bool check_key(struct conn *c, const struct http_head *head, const struct route *route)
{
    const struct access *a = &c->server->access;
    if (a->key_count == 0 || route->open)
        return true;
    struct str shown = http_field_get(head, "authorization");
    static const char scheme[] = "bearer ";
    size_t len = sizeof scheme - 1;
    if (shown.len > len && http_text_equal((struct str){ shown.text, len }, scheme))
        shown = str_trim((struct str){ shown.text + len, shown.len - len });
    else
        shown = http_field_get(head, "x-api-key");
    c->request.key = access_find_key(a, shown);
    if (c->request.key != 0)
        return true;
    refuse(c, 401, "invalid_api_key",
           shown.len == 0 ? "an API key is needed: Authorization: Bearer KEY"
                          : "this API key is not known here");
    return false;
}

/* Anything that could be JSON: many clients say nothing, or what their library says for them. */
static bool check_media(struct conn *c, const struct http_head *head)
{
    struct str type = http_field_get(head, "content-type"), kind = { 0 };
    struct str coding = http_field_get(head, "content-encoding");
    str_cut(&type, ';', &kind);
    kind = str_trim(kind);
    static const char form[] = "multipart/";
    size_t len = sizeof form - 1;
    if ((kind.len >= len && http_text_equal((struct str){ kind.text, len }, form)) ||
        (coding.len > 0 && !http_text_equal(coding, "identity"))) {
        refuse(c, 415, "unsupported_media_type", "the body must be JSON, and not be compressed");
        return false;
    }
    return true;
}

/* Whoever asks may step back behind others, and nobody can step forward: see call_start. */
static bool check_class(struct conn *c, const struct http_head *head)
{
    struct str name = http_field_get(head, "x-quire-class");
    c->request.priority = PRIORITY_INTERACTIVE;
    if (name.len == 0 || priority_parse(name, &c->request.priority))
        return true;
    refuse(c, 400, "invalid_class", "X-Quire-Class must be interactive, normal, batch or spare");
    return false;
}

static void answer_options(struct conn *c, bool known, bool post)
{
    struct reply r = { .status = 204, .allow = post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS" };
    if (!known)
        r.allow = "GET, HEAD, POST, OPTIONS";
    http_conn_reply(c, &r);
}

static void refuse_method(struct conn *c, bool post)
{
    struct api_error error;
    api_error_set(&error, 405, "method_not_allowed", NULL, "this path wants %s",
                  post ? "POST" : "GET");
    json_t *body = json_pack("{s:o}", "error", api_error_json(&error));
    c->server->note.error_code = error.code;
    c->allow = post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
    reply_json(c, 405, body);
}

/* 503 before the model is there and after it is going, or gone: then nothing is computed. */
static bool check_ready(struct conn *c, const struct route *route)
{
    const struct server *s = c->server;
    if (route->post && server_model_lost(s)) {
        struct api_error error;
        completion_say_lost(&error);
        reply_error(c, route_errors(route), &error);
        return false;
    }
    if (s->ready || route->early)
        return true;
    refuse(c, 503, "loading", "the model is being loaded");
    return false;
}

static void take_body_length(struct conn *c, const struct http_head *head)
{
    struct server *s = c->server;
    int status = http_body_open(&c->body, head, s->options.body_bytes);
    if (status != 200) {
        c->request.keep_alive = false;
        struct api_error error;
        api_error_set(&error, status, "body_too_large", NULL,
                      "the body has more than the %llu bytes of --max-body",
                      (unsigned long long)s->options.body_bytes);
        reply_error(c, route_errors(c->request.route), &error);
        return;
    }
    c->state = CONN_BODY;
    if (c->body.state == HTTP_BODY_DONE)
        routes_take_body(c);
    else if (head->expect_continue)
        http_conn_continue(c);
}

void routes_take_head(struct conn *c, const struct http_head *head)
{
    struct conn_request *q = &c->request;
    bool known, post;
    c->state = CONN_REPLY;
    q->http_1_0 = head->http_1_0;
    q->keep_alive = head->keep_alive && !c->server->draining && !c->half_closed;
    q->head_only = head->method == HTTP_HEAD;
    take_request_id(c, head);
    const struct route *route = find_route(c, head, &known, &post);
    q->route = route;
    bool body = route != NULL && route->post;
    if (!body)
        end_if_body(c, head);
    bool keep = q->keep_alive;
    if (body) /* until it is sure that the body will be read */
        end_if_body(c, head);
    if (!check_names(c, head))
        return;
    if (head->method == HTTP_OPTIONS) {
        answer_options(c, known, post);
    } else if (route == NULL && known) {
        refuse_method(c, post);
    } else if (route == NULL) {
        refuse(c, 404, "unknown_url",
               "there is nothing under this path; /v1/models, "
               "/v1/completions, /v1/chat/completions are");
    } else if (check_key(c, head, route) && check_ready(c, route)) {
        if (!body) {
            route->plain(c);
        } else if (check_media(c, head) && check_class(c, head)) {
            q->keep_alive = keep;
            take_body_length(c, head);
        }
    }
}

void routes_take_body(struct conn *c)
{
    c->state = CONN_REPLY;
    if (c->server->draining) {
        refuse(c, 503, "draining", "the server is shutting down");
        return;
    }
    call_start(c);
}
