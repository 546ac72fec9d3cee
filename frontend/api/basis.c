/* SPDX-License-Identifier: MIT */
/* basis - see basis.h. What changes no answer is left out: threads, rows, chunks, the KV pool. */
#include "frontend/api/basis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/chat.h"
#include "frontend/engine_store.h"

static json_t *hash_json(struct hash h)
{
    char hex[40];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
    return json_string(hex);
}

json_t *basis_model(const struct api_context *x)
{
    struct engine *e = x->engine;
    const char *template = chat_template_source(x->chat->template);
    struct hash of_template = hash_bytes((struct hash){ 0 }, template, strlen(template));
    return json_pack("{s:s, s:o, s:i, s:I, s:i, s:i, s:o, s:b}", "model", e->name, "digest",
                     hash_json(engine_digest(e)), "act", (int)e->options.act, "ctx_size",
                     (json_int_t)sched_ctx_tokens(e->sched), "kv_type_k", (int)e->options.kv_type_k,
                     "kv_type_v", (int)e->options.kv_type_v, "template", hash_json(of_template),
                     "special", (int)x->special);
}

static json_t *stops_json(const struct completion_params *p)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < p->stop_count; i++)
        if (json_array_append_new(out, json_stringn(p->stops[i].text, p->stops[i].len)) != 0)
            break;
    return out;
}

static json_t *biases_json(const struct sampling *s)
{
    json_t *out = json_object();
    for (uint32_t i = 0; i < s->bias_count; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", (int)s->bias[i].token);
        bool never = isinf(s->bias[i].bias);
        json_t *bias = never ? json_false() : json_real((double)s->bias[i].bias);
        if (json_object_set_new(out, id, bias) != 0)
            break;
    }
    return out;
}

json_t *basis_defaults(const struct completion_params *p)
{
    const struct sampling *s = &p->sampling;
    return json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:I, s:I, s:b, s:i, s:o, s:o}",
                     "temperature", (double)s->temperature, "top_k", (json_int_t)s->top_k, "top_p",
                     (double)s->top_p, "min_p", (double)s->min_p, "typical_p", (double)s->typical_p,
                     "repetition_penalty", (double)s->repeat_penalty, "repeat_last_n",
                     (json_int_t)s->repeat_last_n, "presence_penalty", (double)s->presence_penalty,
                     "frequency_penalty", (double)s->frequency_penalty, "seed", (json_int_t)p->seed,
                     "max_tokens", (json_int_t)p->max_tokens, "ignore_eos", (int)p->ignore_eos,
                     "order", (int)s->order, "stop", stops_json(p), "logit_bias", biases_json(s));
}

json_t *query_basis(const struct api_context *x, json_t *body, struct api_error *error)
{
    (void)body;
    json_t *out =
        json_pack("{s:o, s:o, s:o, s:I, s:I}", "model", basis_model(x), "defaults",
                  basis_defaults(x->defaults), "chat_defaults", basis_defaults(x->chat_defaults),
                  "rows", (json_int_t)x->engine->options.rows_max, "vocab_count",
                  (json_int_t)x->engine->model->vocab_count);
    if (out == NULL)
        api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    return out;
}
