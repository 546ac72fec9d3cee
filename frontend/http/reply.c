/* SPDX-License-Identifier: MIT */
/* reply - answers that are JSON, and the lines about them in the log. */
#include <string.h>

#include "frontend/api/sse.h"
#include "frontend/http/server_impl.h"

/* Headers that go with a status. */
static struct reply reply_of(struct server *s, int status)
{
    struct reply r = { .status = status, .type = "application/json" };
    if (status == 429 || status == 503)
        r.retry_after_s = s->retry_after_s > 0 ? s->retry_after_s : 1;
    s->retry_after_s = 0;
    r.no_retry = status == 500 || status == 501;
    return r;
}

void reply_json(struct conn *c, int status, json_t *body)
{
    struct text text = { 0 };
    struct reply r = reply_of(c->server, status);
    r.allow = c->allow;
    c->allow = NULL;
    if (json_append(&text, body) != RC_OK) {
        static const char failed[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                                     "\"server_error\",\"param\":null,\"code\":\"out_of_memory\"}}";
        r.status = 500;
        r.body = failed;
        r.len = sizeof failed - 1;
    } else {
        r.body = text.data;
        r.len = text.len;
    }
    http_conn_reply(c, &r);
    text_close(&text);
}

void reply_error(struct conn *c, const struct dialect *dialect, const struct api_error *error)
{
    c->server->note.error_code = error->code;
    json_t *body = dialect != NULL ? dialect->error_body(error)
                                   : json_pack("{s:o}", "error", api_error_json(error));
    reply_json(c, error->status, body);
}

void reply_refusal(struct conn *c, int status, const char *why)
{
    struct api_error error;
    c->request.keep_alive = false; /* where the next request would begin is not known */
    api_error_set(&error, status,
                  status == 413   ? "body_too_large"
                  : status == 503 ? "overloaded"
                                  : "bad_request",
                  NULL, "%s", why);
    reply_error(c, NULL, &error);
}

static void put_generation(struct log_line *line, const struct request_note *n)
{
    log_u64(line, "prompt_tokens", n->prompt_tokens);
    log_u64(line, "cached_tokens", n->cached_tokens);
    log_u64(line, "output_tokens", n->output_tokens);
    if (n->choices > 1)
        log_u64(line, "choices", n->choices);
    log_f64(line, "queue_ms", (double)n->queue_us / 1e3);
    log_f64(line, "first_token_ms", (double)n->first_token_us / 1e3);
    if (n->finish != NULL)
        log_str(line, "finish", str_of(n->finish));
}

/* Names, numbers and codes of our own: nothing that a person wrote but the request id. */
void server_note_reply(struct conn *c, int status)
{
    struct server *s = c->server;
    const struct conn_request *q = &c->request;
    bool quiet = q->route != NULL && q->route->quiet && status < 400;
    struct log_line line;
    metrics_note_status(&s->metrics, status);
    log_begin(&line, &s->log, quiet ? LOG_DEBUG : LOG_INFO, "request");
    log_str(&line, "id", str_of(q->id));
    log_str(&line, "route", str_of(q->route != NULL ? q->route->name : "none"));
    log_u64(&line, "status", (uint64_t)status);
    if (s->note.error_code != NULL)
        log_str(&line, "error", str_of(s->note.error_code));
    if (s->note.generated)
        put_generation(&line, &s->note);
    log_f64(&line, "total_ms",
            q->began_us != 0 ? (double)(server_now_us(s) - q->began_us) / 1e3 : 0);
    log_str(&line, "peer", str_of(c->peer));
    log_end(&line);
    s->note = (struct request_note){ 0 };
}
