/* SPDX-License-Identifier: MIT */
/* api_rig - see api_rig.h. Bodies are closed before they are answered, as a server may do. */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "frontend/api/sse.h"
#include "tests/unit/api_rig.h"

#define CTX_TOKENS 1024u
#define STEPS_MAX 4096

void api_rig_open(struct api_rig *r, const char *template_source)
{
    struct fault warning;
    *r = (struct api_rig){ .defaults = completion_params_default() };
    json_set_alloc_funcs(mem_foreign_alloc, mem_foreign_free); /* they fail on demand, too */
    replay_rig_open(&r->replay, CTX_TOKENS, 16);
    assert_int_equal(chat_model_open(&r->chat, &r->replay.engine, template_source, &warning),
                     RC_OK);
    assert_int_equal(warning.code != RC_OK, template_source == NULL);
    r->chat_defaults = r->defaults;
    r->chat_defaults.max_tokens = -1;
    r->call = (struct api_call){ .id = "0123abcd", .created = 7, .user = r };
    r->context = (struct api_context){ .engine = &r->replay.engine,
                                       .defaults = &r->defaults,
                                       .chat_defaults = &r->chat_defaults,
                                       .chat = &r->chat };
}

void api_rig_close(struct api_rig *r)
{
    text_close(&r->frames);
    json_decref(r->json);
    chat_model_close(&r->chat);
    replay_rig_close(&r->replay);
}

static enum rc open_job(struct api_rig *r, void **job, const struct dialect *d, const char *body)
{
    json_error_t where;
    json_t *json = json_loads(body, JSON_ALLOW_NUL, &where);
    if (json == NULL)
        fail_msg("%s in %s", where.text, body);
    enum rc rc = dialect_open(d, job, &r->context, &r->call, json, &r->error);
    json_decref(json);
    return rc;
}

/* Runs to the end; every frame is whole. */
static void run(struct api_rig *r, const struct dialect *d, void *job, struct text *frames)
{
    struct completion *c = d->completion(job);
    assert_ptr_equal(c->user, r);
    assert_int_equal(completion_submit(c), RC_OK);
    for (int i = 0; !dialect_take(d, job, frames); i++) {
        assert_true(i < STEPS_MAX);
        sched_step(r->replay.engine.sched);
        while (sched_next_event(r->replay.engine.sched, 0) != NULL)
            continue;
    }
    if (frames != NULL)
        assert_memory_equal(frames->data + frames->len - 2, "\n\n", 2);
}

static void set_json(struct api_rig *r, json_t *json)
{
    json_decref(r->json);
    r->json = json;
    assert_non_null(json);
}

json_t *api_rig_body(struct api_rig *r, const struct dialect *d, const char *body)
{
    void *job;
    if (open_job(r, &job, d, body) != RC_OK)
        fail_msg("%s: %s", body, r->error.message);
    run(r, d, job, NULL);
    if (d->completion(job)->failed)
        fail_msg("%s: %s", body, d->completion(job)->error.message);
    set_json(r, dialect_body(d, job));
    d->close(job);
    return r->json;
}

json_t *api_rig_error(struct api_rig *r, const struct dialect *d, const char *body)
{
    void *job;
    r->error = (struct api_error){ .status = 0 };
    assert_int_equal(open_job(r, &job, d, body), RC_INVALID);
    assert_int_equal(r->error.status, 400);
    set_json(r, d->error_body(&r->error));
    return r->json;
}

const char *api_rig_stream(struct api_rig *r, const struct dialect *d, const char *body)
{
    void *job;
    if (open_job(r, &job, d, body) != RC_OK)
        fail_msg("%s: %s", body, r->error.message);
    assert_true(d->completion(job)->params.stream);
    r->frames.len = 0;
    run(r, d, job, &r->frames);
    d->close(job);
    return r->frames.data;
}

/* The frames of the stream, or the body as text. */
static enum rc answer(struct api_rig *r, const struct dialect *d, const char *body)
{
    void *job;
    struct sched *sched = r->replay.engine.sched;
    json_t *json = dialect_read(body, strlen(body), "it", &r->error);
    if (json == NULL)
        return RC_INVALID;
    enum rc rc = dialect_open(d, &job, &r->context, &r->call, json, &r->error);
    json_decref(json);
    if (rc != RC_OK)
        return rc;
    struct completion *c = d->completion(job);
    bool stream = c->params.stream;
    (void)!completion_submit(c);
    for (int i = 0; !dialect_take(d, job, stream ? &r->frames : NULL); i++) {
        assert_true(i < STEPS_MAX);
        sched_step(sched);
        while (sched_next_event(sched, 0) != NULL)
            continue;
    }
    if (!stream && !c->failed)
        rc = json_append(&r->frames, dialect_body(d, job));
    if (c->failed)
        rc = RC_INVALID;
    r->error = c->error;
    if (rc != RC_OK && r->error.status == 0)
        api_error_set(&r->error, 500, "out_of_memory", NULL, "out of memory");
    bool told = !stream || (r->frames.len > 0 && strstr(r->frames.data, "out of memory") != NULL);
    assert_true(rc == RC_OK || told); /* a stream that is over says so */
    d->close(job);
    return rc;
}

/* Runs with the n-th allocation failing; false when there was none such. */
static bool starve_once(struct api_rig *r, const struct dialect *d, const char *body, uint64_t n)
{
    uint64_t before = mem_failures();
    text_close(&r->frames);
    size_t live = mem_live_bytes();
    r->error = (struct api_error){ .status = 0 };
    mem_fail_after(n);
    enum rc rc = answer(r, d, body);
    mem_fail_after(0);
    bool starved = mem_failures() != before;
    if (starved && rc == RC_OK)
        fail_msg("allocation %llu: an answer as if nothing were", (unsigned long long)n);
    if (!starved)
        return false;
    assert_int_equal(r->error.status, 500);
    text_close(&r->frames);
    assert_int_equal(mem_live_bytes(), live);
    return true;
}

unsigned api_rig_starve(struct api_rig *r, const struct dialect *d, const char *body)
{
    unsigned n = 1;
    while (starve_once(r, d, body, n))
        n++;
    assert_int_equal(r->error.status, 0);
    assert_true(r->frames.len > 0);
    return n - 1;
}

json_t *api_rig_event(const char **at, char name[64])
{
    int used = 0;
    name[0] = '\0';
    if (sscanf(*at, "event: %63[a-z_.]\n%n", name, &used) == 1)
        *at += used;
    if (**at == '\0')
        return NULL;
    assert_memory_equal(*at, "data: ", 6);
    const char *line = *at + 6, *end = strchr(line, '\n');
    assert_non_null(end);
    assert_int_equal(end[1], '\n');
    *at = end + 2;
    if (strncmp(line, "[DONE]\n", 7) == 0)
        return NULL;
    json_t *json = json_loadb(line, (size_t)(end - line), 0, NULL);
    if (json == NULL)
        fail_msg("no JSON: %.*s", (int)(end - line), line);
    return json;
}
