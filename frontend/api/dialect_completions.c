/* SPDX-License-Identifier: MIT */
/* dialect_completions - /v1/completions: the body as batch gives it, and the same answer in pieces.
 * A stream has one chunk for each token, then one with the finish reason for each choice, then the
 * usage if it was asked for, then [DONE]. Nothing is sent before the first token, so that a client
 * may take the first chunk for it. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/api/dialect.h"
#include "frontend/api/sse.h"

/* What has been sent of a choice. */
struct sent {
    size_t text_bytes;
    uint32_t tokens;
    bool begun, ended;
};

struct text_job {
    struct completion completion;
    const struct api_call *call;
    struct sent *sent;   /* [choice_count] */
    uint32_t sent_count; /* of them whose end was sent */
    uint32_t told;       /* tokens of the prompt */
};

static enum rc open_job(void **out, const struct api_context *x, const struct api_call *call,
                        json_t *body, struct api_error *error)
{
    struct completion_params p;
    struct text_job *job = mem_alloc(sizeof *job);
    if (job == NULL)
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    enum rc rc =
        completion_params_open(&p, body, x->defaults, x->engine->model->vocab_count, error);
    if (rc == RC_OK)
        rc = completion_open(&job->completion, x->engine, &p, x->special, error);
    if (rc != RC_OK) {
        mem_free(job);
        return rc;
    }
    job->sent = mem_alloc_array(job->completion.choice_count, sizeof *job->sent);
    if (job->sent == NULL) {
        completion_close(&job->completion);
        mem_free(job);
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    }
    job->call = call;
    job->completion.user = call->user;
    *out = job;
    return RC_OK;
}

static struct completion *completion_of(void *job)
{
    return &((struct text_job *)job)->completion;
}

static void id_of(const struct text_job *job, char out[48])
{
    snprintf(out, 48, "cmpl-%s", job->call->id);
}

/* What a chunk may carry beside its choices. */
enum { WITH_USAGE = 1, WITH_REPORT = 2 };

/* A chunk with these choices. */
static enum rc put_chunk(const struct text_job *job, json_t *choices, unsigned with,
                         struct text *frames)
{
    const struct completion *c = &job->completion;
    char id[48];
    id_of(job, id);
    json_t *chunk = json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", id, "object", "text_completion",
                              "created", (json_int_t)job->call->created, "model",
                              job->completion.engine->name, "choices", choices);
    bool failed = chunk == NULL;
    if ((with & WITH_USAGE) != 0)
        failed |= json_object_set_new(chunk, "usage", completion_usage(c)) != 0;
    if (!failed && (with & WITH_REPORT) != 0)
        failed = completion_report(c, chunk, job->call->timings) != RC_OK;
    if (!failed)
        return sse_append(frames, NULL, chunk);
    json_decref(chunk);
    return RC_NO_MEMORY;
}

static enum rc put_choice(const struct text_job *job, json_t *choice, bool last,
                          struct text *frames)
{
    const struct completion_params *p = &job->completion.params;
    unsigned with =
        (p->continuous_usage ? WITH_USAGE : 0u) | (last && !p->include_usage ? WITH_REPORT : 0u);
    return put_chunk(job, json_pack("[o]", choice), with, frames);
}

/* How far the prompt is, before anything of the answer. */
static enum rc put_progress(struct text_job *job, struct text *frames)
{
    bool none;
    json_t *progress = completion_progress(&job->completion, &job->told, &none);
    if (none)
        return RC_OK;
    char id[48];
    id_of(job, id);
    return sse_append(frames, NULL,
                      json_pack("{s:s, s:s, s:I, s:s, s:[], s:o}", "id", id, "object",
                                "text_completion", "created", (json_int_t)job->call->created,
                                "model", job->completion.engine->name, "choices", "prompt_progress",
                                progress));
}

/* What the last step of choice k has added. Without log-probabilities a token that completes no
 * character is no chunk; with them each token is one. */
static enum rc put_new(struct text_job *job, uint32_t k, struct text *frames)
{
    struct completion *c = &job->completion;
    const struct generation *g = &c->choices[k];
    struct sent *sent = &job->sent[k];
    bool token = c->params.logprobs >= 0 && g->token_count > sent->tokens;
    bool ends = g->ended && g->finish != FINISH_ERROR && !sent->ended;
    bool echo = c->params.echo && !sent->begun;
    if (!token && !ends && !echo && g->text.len == sent->text_bytes)
        return RC_OK;
    uint32_t from = sent->tokens;
    size_t text_from = sent->text_bytes;
    bool alone = ends && from == g->token_count && text_from == g->text.len && !echo;
    sent->tokens = g->token_count;
    sent->text_bytes = g->text.len;
    sent->begun = true;
    enum rc rc = RC_OK;
    if (!alone)
        rc = put_choice(job, completion_choice(c, k, from, g->token_count, text_from, NULL), false,
                        frames);
    if (rc != RC_OK || !ends)
        return rc;
    sent->ended = true;
    job->sent_count++;
    json_t *last = json_pack("{s:s, s:i, s:n, s:s}", "text", "", "index", (int)k, "logprobs",
                             "finish_reason", finish_text(g->finish));
    return put_choice(job, last, job->sent_count == c->choice_count, frames);
}

static json_t *error_body(const struct api_error *error)
{
    return json_pack("{s:o}", "error", api_error_json(error));
}

static enum rc put_end(struct text_job *job, struct text *frames)
{
    struct completion *c = &job->completion;
    enum rc rc = RC_OK;
    if (c->failed)
        rc = sse_append(frames, NULL, error_body(&c->error));
    else if (c->params.include_usage)
        rc = put_chunk(job, json_array(), WITH_USAGE | WITH_REPORT, frames);
    return rc == RC_OK ? text_append(frames, "data: [DONE]\n\n", 14) : rc;
}

static bool take(void *p, struct text *frames)
{
    struct text_job *job = p;
    struct completion *c = &job->completion;
    enum rc rc = frames != NULL && !c->failed ? put_progress(job, frames) : RC_OK;
    for (uint32_t k = 0; frames != NULL && k < c->submitted_count; k++)
        while (rc == RC_OK && !c->failed && completion_step(c, k))
            rc = put_new(job, k, frames);
    bool ended = frames != NULL && !c->failed ? completion_ended(c) : completion_take(c);
    if (rc == RC_OK && ended && frames != NULL)
        rc = put_end(job, frames);
    if (rc != RC_OK)
        completion_fail(c, rc);
    return ended;
}

static json_t *body_of(const void *p)
{
    const struct text_job *job = p;
    char id[48];
    id_of(job, id);
    json_t *body = completion_body(&job->completion, id, job->call->created);
    if (body == NULL || completion_report(&job->completion, body, job->call->timings) == RC_OK)
        return body;
    json_decref(body);
    return NULL;
}

static void close_job(void *p)
{
    struct text_job *job = p;
    completion_close(&job->completion);
    mem_free(job->sent);
    mem_free(job);
}

const struct dialect dialect_completions = {
    .name = "completions",
    .ping = ":\n\n",
    .open = open_job,
    .completion = completion_of,
    .take = take,
    .body = body_of,
    .error_body = error_body,
    .close = close_job,
    .starved = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
               "\"param\":null,\"code\":\"out_of_memory\"}}\n\n"
               "data: [DONE]\n\n",
};
