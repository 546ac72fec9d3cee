/* SPDX-License-Identifier: MIT */
/* batch_stamp - see batch_stamp.h. What may change between two runs of a job is left out: threads,
 * rows, chunks, KV pool. They change no answer. */
#include "frontend/batch/batch_stamp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "frontend/api/schema.h"

static json_t *texts_json(const struct option_texts *t)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < t->count; i++)
        if (json_array_append_new(out, json_string(t->items[i])) != 0)
            break;
    return out;
}

/* Everything that an answer depends on and a line does not say. */
static json_t *make_stamp(const struct batch_job *b, const struct sampling_options *s)
{
    const struct engine_options *o = &b->engine->options;
    const struct sampling *p = &b->bare.defaults->sampling;
    struct hash digest = gguf_digest(b->engine->gguf);
    char hex[40];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)digest.a,
             (unsigned long long)digest.b);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:I, s:i, s:f, s:i, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:i, s:b, s:b, s:o, s:o}",
        "model", b->engine->name, "digest", hex, "act", (int)o->act, "ctx_size",
        (int)sched_ctx_tokens(b->engine->sched), "format", (int)b->options->format, "seed",
        (json_int_t)s->seed, "predict", (int)s->predict, "temperature", (double)p->temperature,
        "top_k", (int)s->top_k, "top_p", (double)s->top_p, "min_p", (double)s->min_p, "typical_p",
        (double)s->typical_p, "repeat_penalty", (double)s->repeat_penalty, "presence_penalty",
        (double)s->presence_penalty, "frequency_penalty", (double)s->frequency_penalty,
        "repeat_last_n", (int)s->repeat_last_n, "ignore_eos", s->ignore_eos, "no_special",
        s->no_special, "stop", texts_json(&s->stops), "logit_bias", texts_json(&s->biases));
}

/* A short value as text. */
static const char *shown(const json_t *value, char *out, size_t cap)
{
    size_t len = value != NULL ? json_dumpb(value, out, cap - 1, JSON_ENCODE_ANY) : 0;
    if (len == 0 || len >= cap)
        return value == NULL ? "nothing" : "something long";
    out[len] = '\0';
    return out;
}

static enum rc compare(struct batch_job *b, const char *path, const json_t *old, json_t *now)
{
    const char *key;
    json_t *value;
    char before[40], after[40];
    json_object_foreach(now, key, value)
    {
        const json_t *was = json_object_get(old, key);
        if (!json_equal(was, value))
            return fault_set(&b->fault, RC_USAGE,
                             "this job was begun with %s %s, now it is %s: give another -o, or "
                             "remove %.80s to mix them",
                             key, shown(was, before, sizeof before),
                             shown(value, after, sizeof after), path);
    }
    return RC_OK;
}

enum rc batch_stamp_check(struct batch_job *b, const char *output, const struct sampling_options *s)
{
    char path[4096];
    if (!b->out.regular)
        return RC_OK;
    int n = snprintf(path, sizeof path, "%s.job", output);
    if (n < 0 || (size_t)n >= sizeof path)
        return fault_set(&b->fault, RC_USAGE, "-o: the name is too long");
    json_t *now = make_stamp(b, s), *old = NULL;
    if (now == NULL)
        return fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    enum rc rc = RC_OK;
    if (access(path, F_OK) == 0) {
        old = json_load_file(path, 0, NULL);
        rc = old != NULL
                 ? compare(b, path, old, now)
                 : fault_set(&b->fault, RC_USAGE,
                             "%.100s is unreadable: remove it to go on without the check", path);
    } else if (json_dump_file(now, path, JSON_INDENT(1)) != 0) {
        unlink(path);
        rc = fault_set_errno(&b->fault, RC_IO, "%.100s cannot be written", path);
    }
    json_decref(old);
    json_decref(now);
    return rc;
}
