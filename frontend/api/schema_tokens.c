/* SPDX-License-Identifier: MIT */
/* schema_tokens - fields that may name tokens: prompts, stop_token_ids, logit_bias. An id is in the
 * vocabulary, or the request is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "frontend/api/schema_impl.h"

static enum rc take_id(int32_t *out, const char *field, const json_t *v, uint32_t vocab_count,
                       struct api_error *e)
{
    if (!json_is_integer(v))
        return api_error_kind(e, field, "token ids", v);
    json_int_t id = json_integer_value(v);
    if (id < 0 || id >= (json_int_t)vocab_count)
        return api_error_set(e, 400, "invalid_value", field,
                             "%s: token %lld is not in the vocabulary of %u", field, (long long)id,
                             vocab_count);
    *out = (int32_t)id;
    return RC_OK;
}

enum rc schema_take_stop_ids(struct completion_params *p, const json_t *v, uint32_t vocab_count,
                             struct api_error *e)
{
    if (!json_is_array(v))
        return api_error_kind(e, "stop_token_ids", "a list of token ids", v);
    if (json_array_size(v) > STOP_IDS_MAX)
        return api_error_set(e, 400, "invalid_value", "stop_token_ids",
                             "stop_token_ids: at most %u ids", STOP_IDS_MAX);
    enum rc rc = RC_OK;
    p->stop_id_count = 0;
    for (size_t i = 0; i < json_array_size(v) && rc == RC_OK; i++)
        rc = take_id(&p->stop_ids[p->stop_id_count++], "stop_token_ids", json_array_get(v, i),
                     vocab_count, e);
    return rc;
}

static enum rc add_bias(struct completion_params *p, const char *key, const json_t *v,
                        uint32_t vocab_count, struct api_error *e)
{
    uint32_t id;
    if (!str_parse_u32(str_of(key), 0, vocab_count - 1, &id))
        return api_error_set(e, 400, "invalid_value", "logit_bias",
                             "logit_bias: '%.40s' is no token id below %u", key, vocab_count);
    float bias = -INFINITY; /* false: never */
    if (json_is_number(v))
        bias = (float)fmax(-100.0, fmin(100.0, json_number_value(v)));
    else if (!json_is_false(v))
        return api_error_kind(e, "logit_bias", "a map of token ids to numbers from -100 to 100", v);
    p->bias[p->sampling.bias_count++] = (struct logit_bias){ (int32_t)id, bias };
    return RC_OK;
}

/* {"id": bias}, or [[id, bias]] as llama.cpp takes it. */
enum rc schema_take_bias(struct completion_params *p, json_t *v, uint32_t vocab_count,
                         struct api_error *e)
{
    if (!json_is_object(v) && !json_is_array(v))
        return api_error_kind(e, "logit_bias", "a map of token ids to numbers from -100 to 100", v);
    size_t count = json_is_object(v) ? json_object_size(v) : json_array_size(v);
    if (count > LOGIT_BIAS_MAX)
        return api_error_set(e, 400, "invalid_value", "logit_bias",
                             "logit_bias: at most %u entries", LOGIT_BIAS_MAX);
    mem_free(p->bias);
    p->bias = mem_alloc_array(count, sizeof *p->bias);
    p->sampling.bias = p->bias;
    p->sampling.bias_count = 0;
    if (p->bias == NULL)
        return api_error_set(e, 500, "out_of_memory", NULL, "out of memory");
    enum rc rc = RC_OK;
    if (json_is_object(v)) {
        for (void *it = json_object_iter(v); it != NULL && rc == RC_OK;
             it = json_object_iter_next(v, it))
            rc = add_bias(p, json_object_iter_key(it), json_object_iter_value(it), vocab_count, e);
        return rc;
    }
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        const json_t *pair = json_array_get(v, i);
        char key[24];
        if (!json_is_integer(json_array_get(pair, 0)) || json_array_size(pair) != 2)
            return api_error_kind(e, "logit_bias", "a list of [token id, number]", pair);
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_array_get(pair, 0)));
        rc = add_bias(p, key, json_array_get(pair, 1), vocab_count, e);
    }
    return rc;
}

static enum rc take_id_prompt(struct prompt *out, const char *field, const json_t *v,
                              uint32_t vocab_count, struct api_error *e)
{
    size_t count = json_array_size(v);
    if (count == 0)
        return api_error_set(e, 400, "invalid_value", field, "%s: an empty list", field);
    out->ids = mem_alloc_array(count, sizeof *out->ids);
    if (out->ids == NULL)
        return api_error_set(e, 500, "out_of_memory", NULL, "out of memory");
    out->id_count = (uint32_t)count;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = take_id(&out->ids[i], field, json_array_get(v, i), vocab_count, e);
    return rc;
}

static enum rc take_one_prompt(struct prompt *out, const char *field, const json_t *v,
                               uint32_t vocab_count, struct api_error *e)
{
    if (json_is_array(v))
        return take_id_prompt(out, field, v, vocab_count, e);
    if (!json_is_string(v))
        return api_error_kind(e, field,
                              "a string, a list of strings, of token ids or of such lists", v);
    *out = (struct prompt){ .text = json_string_value(v), .len = json_string_length(v) };
    return RC_OK;
}

enum rc schema_take_prompt(struct completion_params *p, uint32_t vocab_count, struct api_error *e)
{
    const char *field = p->prompt_field;
    const json_t *v = schema_get(p->body, field);
    if (v == NULL)
        return api_error_set(e, 400, "missing_field", field, "%s is missing", field);
    const json_t *first = json_array_get(v, 0);
    bool several = json_is_string(first) || json_is_array(first);
    size_t count = several ? json_array_size(v) : 1;
    if (p->kind == API_EMBEDDINGS && count > EMBEDDINGS_MAX)
        return api_error_set(e, 400, "invalid_value", field, "%s: %zu are more than %u at once",
                             field, count, EMBEDDINGS_MAX);
    if (p->kind != API_EMBEDDINGS && count * p->n > CHOICES_MAX)
        return api_error_set(e, 400, "invalid_value", field,
                             "%s: %zu prompts times n %u are more than %u choices", field, count,
                             p->n, CHOICES_MAX);
    p->prompts = mem_alloc_array(count, sizeof *p->prompts);
    if (p->prompts == NULL)
        return api_error_set(e, 500, "out_of_memory", NULL, "out of memory");
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        p->prompt_count++;
        rc = take_one_prompt(&p->prompts[i], field, several ? json_array_get(v, i) : v, vocab_count,
                             e);
    }
    return rc;
}

enum rc schema_copy_bias(struct completion_params *p, struct api_error *e)
{
    const struct logit_bias *from = p->sampling.bias;
    p->bias = NULL;
    if (p->sampling.bias_count == 0)
        return RC_OK;
    p->bias = mem_alloc_array(p->sampling.bias_count, sizeof *p->bias);
    if (p->bias == NULL)
        return api_error_set(e, 500, "out_of_memory", NULL, "out of memory");
    memcpy(p->bias, from, p->sampling.bias_count * sizeof *from);
    p->sampling.bias = p->bias;
    return RC_OK;
}
