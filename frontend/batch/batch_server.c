/* SPDX-License-Identifier: MIT */
/* batch_server - a line is one POST on a connection of its own; as many are open as the server runs
 * at once, and half as many more, so that it always has one to begin. The server that is full
 * (429) or not ready (503) says when to come back; the line is put back and goes first then. A
 * connection that breaks ends the job: what was asked may or may not have been answered, and the
 * next start asks again. */
#include "frontend/batch/batch_server.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/api/basis.h"
#include "frontend/api/sse.h"
#include "frontend/batch/batch_stamp.h"
#include "frontend/interrupt.h"

enum { IN_FLIGHT_MAX = 256, RETRY_S_MAX = 120 };

/* One exchange: a request that is sent and its answer as it comes. */
struct exchange {
    struct text request, answer;
    struct http_client client; /* fd -1 while nothing is under way */
    bool starved;
    json_t *body; /* of the answer, once it is whole */
};

static void take_answer(void *ctx, const char *data, size_t len)
{
    struct exchange *x = ctx;
    x->starved |= text_append(&x->answer, data, len) != RC_OK;
}

/* id: as the row has it, so that the server's log can be read beside the rows. */
static void begin(const struct batch_server *w, struct exchange *x, const char *target, uint64_t id)
{
    char headers[sizeof w->headers + 40];
    snprintf(headers, sizeof headers, "%sX-Request-Id: req_%llu\r\n", w->headers,
             (unsigned long long)id);
    x->answer.len = 0;
    http_client_post(&x->client, &w->url, target, headers, x->request.data, x->request.len,
                     take_answer, x);
}

static void close_exchange(struct exchange *x)
{
    http_client_close(&x->client);
    text_close(&x->request);
    text_close(&x->answer);
    json_decref(x->body);
}

static bool is_later(uint32_t status)
{
    return status == 429 || (status >= 502 && status <= 504);
}

/* The server or what is in front of it cannot take it now. */
static void wait_for_it(struct batch_server *w, struct batch_job *b, const struct exchange *x)
{
    uint32_t seconds = 1;
    if (!str_parse_u32(http_client_field(&x->client, "Retry-After"), 1, RETRY_S_MAX, &seconds))
        seconds = 1;
    w->resume_us = clock_now_us(&b->clock) + seconds * UINT64_C(1000000);
    if (!w->told_full && !b->quiet)
        fprintf(stderr, "the server is busy (status %u): waiting for it\n", x->client.status);
    w->told_full = true;
}

/* What came back is whole: its body, or why the job cannot go on. */
static enum rc read_answer(struct batch_job *b, struct exchange *x)
{
    const struct http_client *c = &x->client;
    json_error_t where;
    if (c->state == HTTP_FAILED)
        return fault_set(&b->fault, RC_STOPPED, "the server is gone: %s", c->why);
    if (x->starved)
        return fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    if (c->status == 401 || c->status == 403)
        return fault_set(&b->fault, RC_STOPPED, "the server refuses this client (status %u)%s",
                         c->status, c->status == 401 ? ": --api-key" : "");
    x->body =
        json_loadb(x->answer.len > 0 ? x->answer.data : "", x->answer.len, JSON_ALLOW_NUL, &where);
    if (!json_is_object(x->body))
        return fault_set(&b->fault, RC_STOPPED, "the server's answer (status %u) is no JSON: %.80s",
                         c->status, where.text);
    return RC_OK;
}

/* --- lines --- */

/* Adds what the body lacks. */
static int fill(json_t *body, json_t *fields)
{
    const char *key;
    json_t *value;
    json_object_foreach(fields, key, value)
    {
        json_t *own = json_object_get(body, key);
        if ((own == NULL || json_is_null(own)) && json_object_set(body, key, value) != 0)
            return -1;
    }
    return 0;
}

/* Longest answer that a body asks for, as far as it says it. */
static uint64_t answer_max(const json_t *body, uint64_t otherwise)
{
    static const char *const names[] = { "max_tokens", "max_completion_tokens",
                                         "max_output_tokens" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *v = json_object_get(body, names[i]);
        if (json_is_integer(v) && json_integer_value(v) >= 0)
            return (uint64_t)json_integer_value(v);
    }
    return otherwise;
}

static enum rc open_line(struct batch_job *b, struct batch_line *line, struct api_error *error)
{
    struct batch_server *w = b->with;
    struct batch_row *row = &line->row;
    struct exchange *x = mem_alloc(sizeof *x);
    bool chat = row->dialect != &dialect_completions;
    json_t *fields = chat ? w->chat : row->bare ? w->bare : w->line;
    json_t *body = json_copy(row->body);
    bool failed = x == NULL || body == NULL ||
                  fill(body, row->dialect != &dialect_embeddings ? fields : NULL) != 0 ||
                  json_append(&x->request, json_incref(body)) != RC_OK;
    json_decref(body);
    if (failed) {
        if (x != NULL)
            text_close(&x->request);
        mem_free(x);
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    }
    x->client.fd = -1;
    line->work = x;
    line->head = x->request.data;
    line->head_bytes = x->request.len;
    line->answer_max = answer_max(row->body, chat ? w->chat_answer_max : w->answer_max);
    return RC_OK;
}

static enum rc start_line(struct batch_job *b, struct batch_line *line)
{
    struct batch_server *w = b->with;
    if (clock_now_us(&b->clock) < w->resume_us)
        return RC_FULL;
    begin(w, line->work, line->row.url, line->row.line);
    return RC_OK;
}

/* A line whose exchange has ended: *out, or put back. */
static enum rc end_exchange(struct batch_job *b, struct batch_line *line, struct batch_line **out)
{
    struct batch_server *w = b->with;
    struct exchange *x = line->work;
    if (x->client.state == HTTP_DONE && is_later(x->client.status)) {
        wait_for_it(w, b, x);
        http_client_close(&x->client);
        batch_job_put_back(b, line);
        return RC_OK;
    }
    enum rc rc = read_answer(b, x);
    http_client_close(&x->client);
    w->told_full = false;
    *out = rc == RC_OK ? line : NULL;
    return rc;
}

static enum rc next_line(struct batch_job *b, uint64_t wait_us, struct batch_line **out)
{
    struct pollfd fds[IN_FLIGHT_MAX];
    struct batch_line *lines[IN_FLIGHT_MAX];
    nfds_t count = 0;
    int wait_ms = (int)(wait_us / 1000);
    *out = NULL;
    for (uint32_t i = 0; i < b->line_max && count < b->run_max; i++) {
        struct batch_line *line = &b->lines[i];
        struct exchange *x = line->work;
        if (line->state != LINE_RUNNING || line == b->pending)
            continue;
        if (x->client.state != HTTP_BUSY)
            wait_ms = 0;
        fds[count] = (struct pollfd){ x->client.fd, http_client_wants(&x->client), 0 };
        lines[count++] = line;
    }
    if (poll(fds, count, wait_ms) < 0 && errno != EINTR)
        return fault_set_errno(&b->fault, RC_IO, "poll");
    for (nfds_t i = 0; i < count; i++) {
        struct exchange *x = lines[i]->work;
        if (fds[i].revents != 0)
            (void)http_client_step(&x->client);
        if (x->client.state == HTTP_BUSY)
            continue;
        enum rc rc = end_exchange(b, lines[i], out);
        if (rc != RC_OK || *out != NULL)
            return rc;
    }
    return RC_OK;
}

static uint64_t number(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return json_is_integer(v) ? (uint64_t)json_integer_value(v) : 0;
}

static json_t *row_of_line(struct batch_job *b, struct batch_line *line)
{
    struct exchange *x = line->work;
    json_t *body = x->body;
    x->body = NULL;
    const json_t *usage = json_object_get(body, "usage");
    const json_t *input = json_object_get(usage, "prompt_tokens_details");
    if (input == NULL)
        input = json_object_get(usage, "input_tokens_details");
    b->counts.prompt_tokens += number(usage, "prompt_tokens") + number(usage, "input_tokens");
    b->counts.output_tokens += number(usage, "completion_tokens") + number(usage, "output_tokens");
    b->counts.cached_tokens += number(input, "cached_tokens");
    json_object_del(body, "timings"); /* not in files that are compared */
    return batch_row_reply(&line->row, (int)x->client.status, body);
}

/* The server notices that we have gone. */
static bool cancel_line(struct batch_job *b, struct batch_line *line)
{
    struct exchange *x = line->work;
    (void)b;
    http_client_close(&x->client);
    return true;
}

static void close_line(struct batch_job *b, struct batch_line *line)
{
    (void)b;
    close_exchange(line->work);
    mem_free(line->work);
}

static const struct batch_way way = { open_line,   start_line,  next_line,
                                      row_of_line, cancel_line, close_line };

/* --- the server --- */

/* One exchange to its end, as long as it takes, or until a signal. */
static enum rc exchange_now(struct batch_server *w, struct batch_job *b, struct exchange *x,
                            const char *target)
{
    begin(w, x, target, 0);
    while (x->client.state == HTTP_BUSY) {
        struct pollfd fd = { x->client.fd, http_client_wants(&x->client), 0 };
        if (interrupt_signal() != 0)
            return fault_set(&b->fault, RC_STOPPED, "a signal came");
        if (poll(&fd, 1, 100) > 0)
            (void)http_client_step(&x->client);
    }
    return RC_OK;
}

/* What the server is. One that is loading says so. */
static enum rc ask_basis(struct batch_server *w, struct batch_job *b)
{
    struct exchange x = { .client.fd = -1 };
    enum rc rc = text_append(&x.request, "{}", 2);
    if (rc != RC_OK)
        return fault_set(&b->fault, rc, "out of memory");
    for (bool again = true; rc == RC_OK && again;) {
        rc = exchange_now(w, b, &x, "/basis");
        again = rc == RC_OK && x.client.state == HTTP_DONE && is_later(x.client.status);
        if (again) {
            wait_for_it(w, b, &x);
            while (clock_now_us(&b->clock) < w->resume_us && interrupt_signal() == 0)
                (void)poll(NULL, 0, 50);
        } else if (rc == RC_OK) {
            rc = read_answer(b, &x);
        }
        http_client_close(&x.client);
    }
    if (x.client.status == 401 || x.client.status == 403)
        rc = b->fault.code = RC_USAGE;
    if (rc == RC_OK &&
        (x.client.status != 200 || !json_is_object(json_object_get(x.body, "model"))))
        rc = fault_set(&b->fault, RC_USAGE, "--server %.100s is no quire server that takes jobs",
                       b->options->server);
    w->basis = json_incref(x.body);
    close_exchange(&x);
    return rc;
}

/* The fields of ours that are not the server's as well. */
static json_t *differing(const struct completion_params *p, const json_t *server, uint32_t context)
{
    json_t *out = basis_defaults(p);
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(out, next, key, value)
    {
        if (json_equal(value, json_object_get(server, key)))
            json_object_del(out, key);
        else if (strcmp(key, "max_tokens") == 0 && p->max_tokens < 0)
            json_object_set_new(out, key, json_integer(context)); /* no answer is longer */
    }
    return out;
}

/* What the flags ask for must be what the server does, or what a body can say. */
static enum rc check_flags(struct batch_server *w, struct batch_job *b,
                           const struct sampling_options *sampling,
                           const struct completion_params *bare)
{
    const json_t *model = json_object_get(w->basis, "model");
    const json_t *theirs = json_object_get(w->basis, "defaults");
    uint64_t order = number(theirs, "order");
    if (order != (uint64_t)bare->sampling.order)
        return fault_set(&b->fault, RC_USAGE, "--sampling-order must be that of the server: %s",
                         order == SAMPLING_ORDER_VLLM ? "vllm" : "llama.cpp");
    if (json_is_true(json_object_get(model, "special")) == sampling->no_special)
        return fault_set(&b->fault, RC_USAGE, "--no-special must be as the server has it: %s",
                         sampling->no_special ? "it is off there" : "it is on there");
    for (uint32_t i = 0; i < bare->sampling.bias_count; i++)
        if (bare->bias[i].bias > 100 || (bare->bias[i].bias < -100 && !isinf(bare->bias[i].bias)))
            return fault_set(&b->fault, RC_USAGE,
                             "--logit-bias: a server takes -100 to 100, or -inf");
    return RC_OK;
}

static enum rc take_basis(struct batch_server *w, struct batch_job *b,
                          struct sampling_options *sampling)
{
    json_t *model = json_object_get(w->basis, "model");
    const json_t *theirs = json_object_get(w->basis, "defaults");
    const json_t *chats = json_object_get(w->basis, "chat_defaults");
    uint32_t context = (uint32_t)number(model, "ctx_size");
    uint64_t rows = number(w->basis, "rows"), most = rows + rows / 2 + 1;
    struct completion_params bare = { 0 }, line, chat;
    enum rc rc = batch_job_defaults(b, sampling, (uint32_t)number(w->basis, "vocab_count"), &bare,
                                    &line, &chat);
    if (rc == RC_OK)
        rc = check_flags(w, b, sampling, &bare);
    if (rc == RC_OK) {
        w->bare = differing(&bare, theirs, context);
        w->line = differing(&line, theirs, context);
        w->chat = differing(&chat, chats, context);
        w->answer_max = (uint64_t)line.max_tokens;
        w->chat_answer_max = (uint64_t)chat.max_tokens;
        b->run_max = (uint32_t)(most < IN_FLIGHT_MAX ? most : IN_FLIGHT_MAX);
        const char *name = json_string_value(json_object_get(model, "model"));
        snprintf(b->model, sizeof b->model, "%s", name != NULL ? name : "");
        b->stamp = batch_stamp_make(json_copy(model), &bare, sampling, b->options->format);
        if (w->bare == NULL || w->line == NULL || w->chat == NULL || b->stamp == NULL)
            rc = fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    }
    completion_params_close(&bare);
    return rc;
}

enum rc batch_server_open(struct batch_server *w, struct batch_job *b,
                          struct sampling_options *sampling)
{
    const char *key = b->options->api_key;
    *w = (struct batch_server){ 0 };
    enum rc rc = http_url_parse(&w->url, b->options->server, &b->fault);
    int len = snprintf(w->headers, sizeof w->headers, "X-Quire-Class: spare\r\n%s%.300s%s",
                       key != NULL ? "Authorization: Bearer " : "", key != NULL ? key : "",
                       key != NULL ? "\r\n" : "");
    if (rc == RC_OK && (len < 0 || (key != NULL && (strlen(key) > 300 || strpbrk(key, "\r\n")))))
        rc = fault_set(&b->fault, RC_USAGE, "--api-key: no server takes such a key");
    if (rc == RC_OK)
        rc = ask_basis(w, b);
    if (rc == RC_OK)
        rc = take_basis(w, b, sampling);
    b->way = &way;
    b->with = w;
    if (rc != RC_OK)
        batch_server_close(w);
    return rc;
}

void batch_server_close(struct batch_server *w)
{
    json_decref(w->basis);
    json_decref(w->bare);
    json_decref(w->line);
    json_decref(w->chat);
}
