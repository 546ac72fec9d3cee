/* SPDX-License-Identifier: MIT */
/* call - a request that needs a helper or the model.
 *
 *   OPENING  a helper reads the body and opens the job; the I/O thread keeps its hands off
 *   WAITING  some of its requests found the scheduler full; first come, first served
 *   RUNNING  events of the scheduler advance it, until `take` says that it has ended
 *
 * A client that leaves takes nothing with it: its job is cancelled, and the call is freed when the
 * last of its requests has ended (call_reap), or when the helper gives it back. A reader that is
 * too slow pauses its own call: tokens wait in the scheduler's record, nothing is formatted. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "frontend/http/server_impl.h"

static void destroy(struct call *call)
{
    struct server *s = call->server;
    if (call->conn != NULL)
        call->conn->call = NULL;
    if (call->job != NULL)
        call->route->dialect->close(call->job);
    json_decref(call->answer);
    text_close(&call->body);
    text_close(&call->frames);
    mem_free(call->choices);
    s->live -= call->places;
    s->waiting_count -= call->state == CALL_WAITING;
    *(call->prev != NULL ? &call->prev->next : &s->calls) = call->next;
    *(call->next != NULL ? &call->next->prev : &s->calls_last) = call->prev;
    s->call_count--;
    mem_free(call);
}

static struct completion *completion_of(const struct call *call)
{
    return call->route->dialect->completion(call->job);
}

/* Asks for the answer again later: the longer the queue, the later. */
static uint32_t retry_after_s(const struct server *s)
{
    const struct histogram *h = &s->metrics.histograms[METRICS_E2E];
    double mean = h->count > 0 ? h->sum / (double)h->count : 1;
    uint32_t rows = s->context.engine->options.rows_max;
    double wait = mean * (double)s->live / (double)(rows > 0 ? rows : 1) / 2;
    return wait < 1 ? 1 : wait > 60 ? 60 : (uint32_t)wait;
}

static void refuse(struct conn *c, const struct route *route, struct api_error *error)
{
    c->server->note.error_code = error->code;
    reply_error(c, route_errors(route), error);
}

void call_start(struct conn *c)
{
    struct server *s = c->server;
    struct api_error error;
    struct call *call = NULL;
    size_t bytes = c->body_text.len;
    if (s->body_bytes <= BODIES_BYTES_MAX)
        call = mem_alloc(sizeof *call);
    if (call == NULL) {
        api_error_set(&error, 503, "overloaded", NULL, "too many long requests at once");
        refuse(c, c->request.route, &error);
        return;
    }
    *call = (struct call){ .server = s,
                           .conn = c,
                           .route = c->request.route,
                           .context = &s->context,
                           .body = c->body_text,
                           .body_bytes = bytes,
                           .began_us = c->request.began_us,
                           .prev = s->calls_last };
    c->body_text = (struct text){ 0 };
    snprintf(call->api.id, sizeof call->api.id, "%012llx%08llx",
             (unsigned long long)(s->boot & 0xffffffffffffu), (unsigned long long)++s->call_number);
    call->api.created = (int64_t)(clock_wall().now_us(NULL) / 1000000u);
    call->api.user = call;
    call->api.timings = true;
    call->api.priority = c->request.priority;
    if (c->request.key > 0) {
        const struct access_key *key = &s->access.keys[c->request.key - 1];
        call->api.tenant = key->tenant;
        call->api.priority = priority_lower(key->priority, c->request.priority);
    }
    *(s->calls_last != NULL ? &s->calls_last->next : &s->calls) = call;
    s->calls_last = call;
    s->call_count++;
    c->call = call;
    c->state = CONN_REPLY;
    helper_post(s->helper, call, call->route->slow ? SIZE_MAX : bytes);
}

/* The model that a request names must be the one that is served. */
static bool check_model(struct call *call, const json_t *body)
{
    const json_t *model = json_object_get(body, "model");
    const char *served = server_model_name(call->server);
    if (!call->server->options.strict_model || !json_is_string(model) ||
        strcmp(json_string_value(model), served) == 0)
        return true;
    api_error_set(&call->error, 404, "model_not_found", "model",
                  "model '%.80s' is not served; '%s' is", json_string_value(model), served);
    return false;
}

void call_work(void *item)
{
    struct call *call = item;
    json_t *body = dialect_read(call->body.len > 0 ? call->body.data : "", call->body.len,
                                "the body", &call->error);
    text_close(&call->body);
    call->refused = true;
    if (body == NULL)
        ;
    else if (!json_is_object(body))
        api_error_kind(&call->error, NULL, "an object", body);
    else if (!check_model(call, body))
        ;
    else if (call->route->query != NULL)
        call->refused = (call->answer = dialect_query(call->route->query, call->context, body,
                                                      &call->error)) == NULL;
    else
        call->refused = dialect_open(call->route->dialect, &call->job, call->context, &call->api,
                                     body, &call->error) != RC_OK;
    json_decref(body);
}

/* Numbers of the scheduler for the log line. */
static void note_completion(struct call *call)
{
    struct completion *completion = completion_of(call);
    struct request_note *note = &call->server->note;
    *note = (struct request_note){ .generated = true,
                                   .choices = call->choice_count,
                                   .prompt_tokens = completion_prompt_tokens(completion),
                                   .output_tokens = completion_output_tokens(completion) };
    if (completion->failed)
        note->error_code = completion->error.code;
    if (completion->submitted_count == 0)
        return;
    const struct generation *g = &completion->choices[0];
    struct request_times t = request_times_get(g->request);
    note->cached_tokens = request_cached_count(g->request);
    note->finish = finish_text(g->finish);
    if (t.admitted_us > t.arrival_us)
        note->queue_us = t.admitted_us - t.arrival_us;
    if (t.first_token_us > call->began_us)
        note->first_token_us = t.first_token_us - call->began_us;
}

/* Tokens that came since the last look. */
static void count_tokens(struct call *call)
{
    struct completion *completion = completion_of(call);
    struct metrics *m = &call->server->metrics;
    uint64_t now = server_now_us(call->server);
    for (uint32_t k = 0; k < completion->submitted_count; k++) {
        struct call_choice *seen = &call->choices[k];
        uint32_t count = completion->choices[k].token_count, more = count - seen->tokens;
        if (more == 0)
            continue;
        uint32_t gaps = more;
        if (seen->tokens == 0) {
            metrics_observe(m, METRICS_TTFT, (double)(now - call->began_us) / 1e6);
            gaps--;
            seen->last_us = now;
        }
        for (uint32_t i = 0; i < gaps; i++)
            metrics_observe(m, METRICS_ITL, (double)(now - seen->last_us) / 1e6 / gaps);
        m->output_tokens += more;
        *seen = (struct call_choice){ count, now };
    }
}

static double seconds(uint64_t from, uint64_t to)
{
    return from != 0 && to > from ? (double)(to - from) / 1e6 : 0;
}

/* All has ended: each choice counts once. */
static void count_end(struct call *call)
{
    struct completion *completion = completion_of(call);
    struct metrics *m = &call->server->metrics;
    for (uint32_t k = 0; k < completion->submitted_count; k++) {
        const struct generation *g = &completion->choices[k];
        struct request_times t = request_times_get(g->request);
        uint64_t *ends[] = { [FINISH_NONE] = &m->failed,      [FINISH_STOP] = &m->stopped,
                             [FINISH_LENGTH] = &m->by_length, [FINISH_CANCELLED] = &m->cancelled,
                             [FINISH_ERROR] = &m->failed,     [FINISH_EXPIRED] = &m->cancelled };
        ++*ends[g->finish];
        m->prompt_tokens += request_prompt_count(g->request);
        m->cached_tokens += request_cached_count(g->request);
        metrics_observe(m, METRICS_PROMPT_TOKENS, request_prompt_count(g->request));
        metrics_observe(m, METRICS_OUTPUT_TOKENS, g->token_count);
        metrics_observe(m, METRICS_E2E, seconds(t.arrival_us, t.finished_us));
        if (t.admitted_us != 0)
            metrics_observe(m, METRICS_QUEUE, seconds(t.arrival_us, t.admitted_us));
        if (t.first_token_us != 0) {
            metrics_observe(m, METRICS_PREFILL, seconds(t.admitted_us, t.first_token_us));
            metrics_observe(m, METRICS_DECODE, seconds(t.first_token_us, t.finished_us));
        }
    }
}

/* The whole answer at once; the stream had its own end. */
static void reply_whole(struct call *call)
{
    struct conn *c = call->conn;
    const struct dialect *dialect = call->route->dialect;
    struct completion *completion = completion_of(call);
    json_t *body = completion->failed ? NULL : dialect_body(dialect, call->job);
    if (body != NULL) {
        reply_json(c, 200, body);
        return;
    }
    if (!completion->failed)
        api_error_set(&completion->error, 500, "out_of_memory", NULL, "out of memory");
    reply_error(c, dialect, &completion->error);
}

/* The client has gone, or does not care any more: nothing is formatted. */
static void reap(struct call *call)
{
    if (!dialect_take(call->route->dialect, call->job, NULL))
        return;
    count_tokens(call);
    count_end(call);
    destroy(call);
}

void call_advance(struct call *call)
{
    must(call->state != CALL_OPENING);
    if (call->conn == NULL) {
        reap(call);
        return;
    }
    if (call->streaming && !http_conn_may_write(call->conn))
        return;
    call->frames.len = 0;
    struct text *frames = call->streaming ? &call->frames : NULL;
    bool ended = dialect_take(call->route->dialect, call->job, frames);
    count_tokens(call);
    call->busy = true; /* a connection that breaks here leaves the call to us */
    if (call->frames.len > 0) {
        call->sent_us = call->server->now_us;
        http_conn_stream(call->conn, call->frames.data, call->frames.len);
    }
    if (ended) {
        count_end(call);
        note_completion(call);
        struct conn *c = call->conn;
        if (c != NULL && call->streaming) {
            c->call = NULL;
            http_conn_stream_end(c);
        } else if (c != NULL) {
            c->call = NULL;
            reply_whole(call);
        }
        call->conn = NULL;
        destroy(call);
        if (c != NULL)
            server_conn_next(c);
        return;
    }
    call->busy = false;
    if (call->conn == NULL)
        reap(call);
}

static void set_state(struct call *call, enum call_state state)
{
    call->server->waiting_count += (state == CALL_WAITING) - (call->state == CALL_WAITING);
    call->state = state;
}

/* Submits what can be; false when the scheduler is full. */
static bool submit(struct call *call)
{
    struct completion *completion = completion_of(call);
    enum rc rc = completion_submit(completion);
    if (rc == RC_FULL) {
        set_state(call, CALL_WAITING);
        return false;
    }
    set_state(call, CALL_RUNNING);
    if (rc == RC_OK && call->stream && call->conn != NULL) {
        call->streaming = true;
        call->sent_us = call->server->now_us;
        call->busy = true;
        http_conn_stream_begin(call->conn, "text/event-stream");
        call->busy = false;
    }
    call_advance(call); /* refused after all, or the client has gone meanwhile */
    return true;
}

void call_retry_waiting(struct server *s)
{
    for (struct call *call = s->calls, *next; call != NULL && s->waiting_count > 0; call = next) {
        next = call->next;
        if (call->state == CALL_WAITING && !submit(call))
            return;
    }
}

/* Inputs of an embeddings request that count as one request: they generate nothing. */
enum { EMBEDDINGS_PER_PLACE = 32 };

static uint32_t places_of(const struct completion *c)
{
    if (c->params.pooling == POOLING_NONE)
        return c->choice_count;
    return (c->choice_count + EMBEDDINGS_PER_PLACE - 1) / EMBEDDINGS_PER_PLACE;
}

/* Whether there is room for its requests: all of them begin, or none. */
static bool admit(struct call *call, struct api_error *error)
{
    struct server *s = call->server;
    struct completion *completion = completion_of(call);
    /* The lowest of what the key may have, the head asks for and the body asks for. */
    completion->priority = priority_lower(call->api.priority, completion->params.priority);
    /* Jobs in free slots may fill half of the queue: there is always room for people. */
    uint32_t queue = s->options.queue;
    uint32_t room = s->context.engine->options.rows_max +
                    (completion->priority == PRIORITY_SPARE ? queue / 2 : queue);
    if (s->draining) {
        api_error_set(error, 503, "draining", NULL, "the server is shutting down");
        return false;
    }
    uint32_t places = places_of(completion);
    if (s->live > 0 && s->live + places > room) {
        api_error_set(error, 429, "queue_full", NULL,
                      "%u requests run or wait and this one asks for %u more, at most %u may: try "
                      "again later",
                      s->live, places, room);
        return false;
    }
    call->choices = mem_alloc_array(completion->choice_count, sizeof *call->choices);
    if (call->choices == NULL) {
        api_error_set(error, 503, "out_of_memory", NULL, "out of memory");
        return false;
    }
    completion->tenant = call->api.tenant;
    call->choice_count = completion->choice_count;
    call->places = places;
    s->live += places;
    return true;
}

void call_opened(struct call *call)
{
    struct server *s = call->server;
    struct conn *c = call->conn;
    struct api_error error;
    s->body_bytes -= call->body_bytes;
    if (c == NULL) {
        destroy(call);
        return;
    }
    if (!call->refused && call->job != NULL && admit(call, &error)) {
        call->stream = completion_of(call)->params.stream;
        set_state(call, CALL_WAITING);
        if (s->waiting_count == 1)
            (void)submit(call);
        return;
    }
    const struct route *route = call->route;
    json_t *answer = call->answer;
    if (call->refused)
        error = call->error;
    call->answer = NULL;
    destroy(call);
    if (answer != NULL) {
        reply_json(c, 200, answer);
    } else {
        s->retry_after_s = retry_after_s(s);
        refuse(c, route, &error);
    }
    server_conn_next(c);
}

void call_leave(struct call *call)
{
    call->conn = NULL;
    if (call->state == CALL_OPENING)
        return;
    completion_cancel(completion_of(call));
    if (!call->busy)
        reap(call);
}

void call_tick(struct call *call)
{
    uint64_t silence = (uint64_t)call->server->options.ping_s * 1000000u;
    if (!call->streaming || call->conn == NULL || silence == 0 ||
        call->server->now_us < call->sent_us + silence || http_conn_unsent(call->conn) > 0)
        return;
    const char *ping = call->route->dialect->ping;
    call->sent_us = call->server->now_us;
    http_conn_stream(call->conn, ping, strlen(ping));
}
