/* SPDX-License-Identifier: MIT */
/* dialect_embeddings - /v1/embeddings: a completion that generates nothing; its prompts' hidden
 * states are pooled as they are computed, in the same steps as everybody's rows. */
#include <string.h>

#include "core/mem.h"
#include "frontend/api/dialect.h"

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

static enum rc open_job(void **out, const struct api_context *x, const struct api_call *call,
                        json_t *body, struct api_error *error)
{
    struct completion *c = mem_alloc(sizeof *c);
    if (c == NULL)
        return no_memory(error);
    struct completion_params p, defaults = *x->defaults;
    defaults.pooling = pooled_default(x->engine->gguf, x->engine->model);
    enum rc rc = embedding_params_open(&p, body, &defaults, x->engine->model->vocab_count, error);
    if (rc == RC_OK)
        rc = completion_open(c, x->engine, &p, x->special, error);
    if (rc != RC_OK) {
        mem_free(c);
        return rc;
    }
    c->user = call->user;
    *out = c;
    return RC_OK;
}

static struct completion *completion_of(void *job)
{
    return job;
}

static bool take(void *job, struct text *frames)
{
    (void)frames; /* there is no stream of these */
    return completion_take(job);
}

/* Little-endian floats in base64, as clients ask for them. */
static json_t *base64_json(const float *v, uint32_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = (size_t)count * sizeof *v, len = (bytes + 2) / 3 * 4;
    const unsigned char *in = (const unsigned char *)v;
    char *text = mem_alloc_raw(len);
    if (text == NULL)
        return NULL;
    for (size_t at = 0, to = 0; at < bytes; at += 3, to += 4) {
        size_t left = bytes - at;
        uint32_t bits = (uint32_t)in[at] << 16 | (left > 1 ? (uint32_t)in[at + 1] << 8 : 0) |
                        (left > 2 ? in[at + 2] : 0);
        for (uint32_t i = 0; i < 4; i++)
            text[to + i] = i <= left ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
    json_t *out = json_stringn(text, len);
    mem_free(text);
    return out;
}

static json_t *floats_json(const float *v, uint32_t count)
{
    json_t *list = json_array();
    bool failed = list == NULL;
    for (uint32_t i = 0; i < count && !failed; i++)
        failed = json_array_append_new(list, json_real((double)v[i])) != 0;
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* Rows of {"object", "index", "embedding"}; NULL without memory. */
static json_t *data_json(const struct completion *c)
{
    uint32_t width = c->engine->model->width;
    float *v = mem_alloc_array(width, sizeof *v);
    json_t *list = json_array();
    bool failed = v == NULL || list == NULL;
    for (uint32_t k = 0; k < c->choice_count && !failed; k++) {
        pooled_vector(&c->pooled[k], v);
        json_t *vector = c->params.base64 ? base64_json(v, width) : floats_json(v, width);
        failed = json_array_append_new(list, json_pack("{s:s, s:i, s:o}", "object", "embedding",
                                                       "index", (int)k, "embedding", vector)) != 0;
    }
    mem_free(v);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *body_of(const void *job)
{
    const struct completion *c = job;
    json_int_t tokens = completion_prompt_tokens(c);
    return json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data_json(c),
                     "model", c->engine->name, "usage", "prompt_tokens", tokens, "total_tokens",
                     tokens);
}

static json_t *error_body(const struct api_error *error)
{
    return json_pack("{s:o}", "error", api_error_json(error));
}

static void close_job(void *job)
{
    completion_close(job);
    mem_free(job);
}

const struct dialect dialect_embeddings = {
    .name = "embeddings",
    .ping = "",
    .open = open_job,
    .completion = completion_of,
    .take = take,
    .body = body_of,
    .error_body = error_body,
    .close = close_job,
    .starved = "",
};
