/* SPDX-License-Identifier: MIT */
/* dialect - see dialect.h: what holds for all of them when memory runs out. */
#include "frontend/api/dialect.h"

#include <string.h>

#include "core/mem.h"

static enum rc no_memory(struct api_error *error)
{
    return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
}

json_t *dialect_read(const char *text, size_t len, const char *what, struct api_error *error)
{
    json_error_t where;
    uint64_t before = mem_failures();
    json_t *out = json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (mem_failures() != before) {
        json_decref(out); /* a text that could not grow may lack a character */
        (void)no_memory(error);
        return NULL;
    }
    if (out == NULL)
        api_error_set(error, 400, "invalid_json", NULL, "%s is no JSON: %.100s (byte %d)", what,
                      where.text, where.position);
    return out;
}

enum rc dialect_open(const struct dialect *d, void **job, const struct api_context *x,
                     const struct api_call *call, json_t *body, struct api_error *error)
{
    uint64_t before = mem_failures();
    enum rc rc = d->open(job, x, call, body, error);
    if (mem_failures() == before)
        return rc;
    if (rc == RC_OK)
        d->close(*job);
    return no_memory(error);
}

bool dialect_take(const struct dialect *d, void *job, struct text *frames)
{
    size_t len = frames != NULL ? frames->len : 0;
    uint64_t before = mem_failures();
    bool ended = d->take(job, frames);
    if (mem_failures() == before)
        return ended;
    completion_fail(d->completion(job), RC_NO_MEMORY);
    if (frames == NULL)
        return ended;
    frames->len = len;
    if (ended) /* should this fail too, the stream just ends: without what a whole one ends with */
        (void)!text_append(frames, d->starved, strlen(d->starved));
    return ended;
}

json_t *dialect_body(const struct dialect *d, const void *job)
{
    uint64_t before = mem_failures();
    json_t *out = d->body(job);
    if (mem_failures() == before)
        return out;
    json_decref(out);
    return NULL;
}

json_t *dialect_query(api_query *query, const struct api_context *x, json_t *body,
                      struct api_error *error)
{
    uint64_t before = mem_failures();
    json_t *out = query(x, body, error);
    if (mem_failures() == before)
        return out;
    json_decref(out);
    (void)no_memory(error);
    return NULL;
}
