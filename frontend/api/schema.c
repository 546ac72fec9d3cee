/* SPDX-License-Identifier: MIT */
/* schema - a table for the fields that are one number or switch, a function for each other one.
 * Ranges are in the table with both ends, so that no number reaches the engine unchecked; the
 * sampler's own check follows and can only agree. */
#include "frontend/api/schema_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"

/* A whole number, also when it is written 4.0. */
static bool whole_number(const json_t *v, int64_t *out)
{
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    double real = json_is_real(v) ? json_real_value(v) : 0.5;
    if (real != floor(real) || !(fabs(real) < 9.0e15))
        return false;
    *out = (int64_t)real;
    return true;
}

enum { SALT_BYTES_MAX = 256 };

/* Fields that are one number or one switch. */
enum field_kind { FIELD_BOOL, FIELD_WHOLE, FIELD_REAL };

/* Which endpoint knows a field. */
enum {
    ON_COMPLETIONS = 1 << API_COMPLETIONS,
    ON_CHAT = 1 << API_CHAT,
    ON_NATIVE = 1 << API_NATIVE,
    ON_OPENAI = ON_COMPLETIONS | ON_CHAT,
    ON_TEXT = ON_OPENAI | ON_NATIVE
};

struct field {
    const char *name;
    enum field_kind kind;
    unsigned on;
    bool above_min, below_max; /* the end itself is out of range */
    double min, max;
    size_t offset;
    size_t bytes;
};

#define AT(member)                                                                                 \
    offsetof(struct completion_params, member), sizeof(((struct completion_params *)0)->member)

static const struct field fields[] = {
    { "temperature", FIELD_REAL, ON_TEXT, false, false, 0, 100, AT(sampling.temperature) },
    { "top_p", FIELD_REAL, ON_TEXT, true, false, 0, 1, AT(sampling.top_p) },
    { "top_k", FIELD_WHOLE, ON_TEXT, false, false, -1, 2147483647, AT(sampling.top_k) },
    { "min_p", FIELD_REAL, ON_TEXT, false, true, 0, 1, AT(sampling.min_p) },
    { "typical_p", FIELD_REAL, ON_TEXT, true, false, 0, 1, AT(sampling.typical_p) },
    { "repetition_penalty", FIELD_REAL, ON_TEXT, true, false, 0, 1e6, AT(sampling.repeat_penalty) },
    { "repeat_penalty", FIELD_REAL, ON_TEXT, true, false, 0, 1e6, AT(sampling.repeat_penalty) },
    { "repeat_last_n", FIELD_WHOLE, ON_TEXT, false, false, -1, 2147483647,
      AT(sampling.repeat_last_n) },
    { "frequency_penalty", FIELD_REAL, ON_TEXT, false, false, -2, 2,
      AT(sampling.frequency_penalty) },
    { "presence_penalty", FIELD_REAL, ON_TEXT, false, false, -2, 2, AT(sampling.presence_penalty) },
    { "max_tokens", FIELD_WHOLE, ON_TEXT, false, false, 0, CTX_TOKENS_MAX, AT(max_tokens) },
    { "n_predict", FIELD_WHOLE, ON_NATIVE, false, false, -1, CTX_TOKENS_MAX, AT(max_tokens) },
    { "max_completion_tokens", FIELD_WHOLE, ON_OPENAI, false, false, 0, CTX_TOKENS_MAX,
      AT(max_tokens) },
    { "min_tokens", FIELD_WHOLE, ON_TEXT, false, false, 0, CTX_TOKENS_MAX, AT(min_tokens) },
    { "n", FIELD_WHOLE, ON_TEXT, false, false, 1, CHOICES_MAX, AT(n) },
    { "logprobs", FIELD_WHOLE, ON_COMPLETIONS, false, false, 0, OUTPUT_TOP_MAX, AT(logprobs) },
    { "logprobs", FIELD_BOOL, ON_CHAT, false, false, 0, 0, AT(chat_logprobs) },
    { "top_logprobs", FIELD_WHOLE, ON_CHAT, false, false, 0, OUTPUT_TOP_MAX, AT(logprobs) },
    { "seed", FIELD_WHOLE, ON_TEXT, false, false, -9.3e18, 9.3e18, AT(seed) },
    { "n_probs", FIELD_WHOLE, ON_NATIVE, false, false, 0, OUTPUT_TOP_MAX, AT(logprobs) },
    { "return_tokens", FIELD_BOOL, ON_NATIVE, false, false, 0, 0, AT(return_tokens) },
    { "return_progress", FIELD_BOOL, ON_TEXT, false, false, 0, 0, AT(return_progress) },
    { "echo", FIELD_BOOL, ON_COMPLETIONS, false, false, 0, 0, AT(echo) },
    { "stream", FIELD_BOOL, ON_TEXT, false, false, 0, 0, AT(stream) },
    { "ignore_eos", FIELD_BOOL, ON_TEXT, false, false, 0, 0, AT(ignore_eos) },
    { "include_stop_str_in_output", FIELD_BOOL, ON_TEXT, false, false, 0, 0,
      AT(include_stop_text) },
};

/* They would change the answer, and nothing here does what they ask for. */
static const char *const refused[] = {
    "suffix",          "grammar",        "json_schema",         "guided_json",
    "guided_regex",    "guided_choice",  "guided_grammar",      "structured_outputs",
    "mirostat",        "dry_multiplier", "xtc_probability",     "dynatemp_range",
    "top_n_sigma",     "lora",           "post_sampling_probs", "response_fields",
    "adaptive_target",
};

static enum rc say_range(struct api_error *e, const struct field *f)
{
    return api_error_set(e, 400, "invalid_value", f->name, "%s must be %s %.10g and %s %.10g",
                         f->name, f->above_min ? "above" : "at least", f->min,
                         f->below_max ? "below" : "at most", f->max);
}

static enum rc take_field(struct completion_params *p, const struct field *f, const json_t *v,
                          struct api_error *e)
{
    void *at = (char *)p + f->offset;
    if (f->kind == FIELD_BOOL) {
        if (!json_is_boolean(v))
            return api_error_kind(e, f->name, "true or false", v);
        *(bool *)at = json_is_true(v);
        return RC_OK;
    }
    int64_t whole = 0;
    double real;
    if (f->kind == FIELD_WHOLE) {
        if (!whole_number(v, &whole))
            return api_error_kind(e, f->name, "a whole number", v);
        real = (double)whole;
    } else {
        if (!json_is_number(v))
            return api_error_kind(e, f->name, "a number", v);
        real = json_number_value(v);
    }
    bool low = f->above_min ? !(real > f->min) : !(real >= f->min);
    bool high = f->below_max ? !(real < f->max) : !(real <= f->max);
    if (low || high)
        return say_range(e, f);
    if (f->kind == FIELD_REAL)
        *(float *)at = (float)real;
    else if (f->bytes == sizeof(int64_t))
        *(int64_t *)at = whole;
    else
        *(int32_t *)at = (int32_t)whole;
    return RC_OK;
}

static enum rc take_stop_text(struct completion_params *p, const json_t *v, struct api_error *e)
{
    if (!json_is_string(v))
        return api_error_kind(e, "stop", "a string or a list of strings", v);
    size_t len = json_string_length(v);
    if (len == 0 || len > STOP_TEXT_BYTES_MAX)
        return api_error_set(e, 400, "invalid_value", "stop", "stop: a stop text has 1 to %u bytes",
                             STOP_TEXT_BYTES_MAX);
    if (p->stop_count == STOP_TEXTS_MAX)
        return api_error_set(e, 400, "invalid_value", "stop", "stop: at most %u stop texts",
                             STOP_TEXTS_MAX);
    p->stops[p->stop_count++] = (struct stop_text){ json_string_value(v), len };
    return RC_OK;
}

static enum rc take_stop(struct completion_params *p, const json_t *v, struct api_error *e)
{
    p->stop_count = 0;
    if (!json_is_array(v))
        return take_stop_text(p, v, e);
    enum rc rc = RC_OK;
    for (size_t i = 0; i < json_array_size(v) && rc == RC_OK; i++)
        rc = take_stop_text(p, json_array_get(v, i), e);
    return rc;
}

/* Fields that are accepted only while they ask for nothing special. */
static enum rc check_refused(const struct completion_params *p, const json_t *body,
                             struct api_error *e)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const json_t *v = schema_get(body, refused[i]);
        bool asks = v != NULL && !json_is_false(v) &&
                    !(json_is_string(v) && json_string_length(v) == 0) &&
                    !(json_is_array(v) && json_array_size(v) == 0) &&
                    !(json_is_number(v) && json_number_value(v) <= 0.0);
        if (asks)
            return api_error_set(e, 400, "not_supported", refused[i], "%s is not supported",
                                 refused[i]);
    }
    const json_t *best_of = schema_get(body, "best_of"),
                 *format = schema_get(body, "response_format");
    if (best_of != NULL && json_integer_value(best_of) != p->n)
        return api_error_set(e, 400, "not_supported", "best_of", "best_of must be equal to n (%u)",
                             p->n);
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format != NULL && (type == NULL || strcmp(type, "text") != 0))
        return api_error_set(e, 400, "not_supported", "response_format",
                             "response_format: only {\"type\": \"text\"} is supported");
    const json_t *echo = schema_get(body, "echo");
    if (p->kind != API_COMPLETIONS && json_is_true(echo))
        return api_error_set(e, 400, "not_supported", "echo", "echo is for /v1/completions");
    if (p->max_tokens >= 0 && p->min_tokens > p->max_tokens)
        return api_error_set(e, 400, "invalid_value", "min_tokens",
                             "min_tokens %u is more than max_tokens %lld", p->min_tokens,
                             (long long)p->max_tokens);
    return RC_OK;
}

static enum rc take_stream_options(struct completion_params *p, const json_t *v,
                                   struct api_error *e)
{
    if (!json_is_object(v))
        return api_error_kind(e, "stream_options", "an object", v);
    struct {
        const char *name;
        bool *out;
    } switches[] = { { "include_usage", &p->include_usage },
                     { "continuous_usage_stats", &p->continuous_usage } };
    for (int i = 0; i < 2; i++) {
        const json_t *on = schema_get(v, switches[i].name);
        char name[48];
        snprintf(name, sizeof name, "stream_options.%s", switches[i].name);
        if (on != NULL && !json_is_boolean(on))
            return api_error_kind(e, name, "true or false", on);
        *switches[i].out = json_is_true(on);
    }
    return RC_OK;
}

/* top_logprobs are asked for together with logprobs only. */
static enum rc settle_chat_logprobs(struct completion_params *p, struct api_error *e)
{
    if (!p->chat_logprobs && p->logprobs > 0)
        return api_error_set(e, 400, "invalid_value", "top_logprobs",
                             "top_logprobs needs logprobs: true");
    p->logprobs = !p->chat_logprobs ? -1 : p->logprobs < 0 ? 0 : p->logprobs;
    return RC_OK;
}

/* A class by its name, or a number as vLLM has it: lower ones go first. */
static enum rc take_priority(struct completion_params *p, const json_t *v, struct api_error *e)
{
    const char *name = json_string_value(v);
    json_int_t number = json_integer_value(v);
    if (json_is_integer(v)) {
        p->priority = number < 0   ? PRIORITY_INTERACTIVE
                      : number > 0 ? PRIORITY_BATCH
                                   : PRIORITY_NORMAL;
        return RC_OK;
    }
    if (name != NULL && priority_parse(str_of(name), &p->priority))
        return RC_OK;
    return api_error_set(e, 400, name != NULL ? "invalid_value" : "invalid_type", "priority",
                         "priority must be interactive, normal, batch, spare or a whole number");
}

/* 31 bits: any reader of JSON gets them back as they are. */
static int64_t draw_seed(void)
{
    uint32_t bits = 0;
    (void)!getrandom(&bits, sizeof bits, 0);
    return bits >> 1;
}

/* A name that only its users know: prefixes are shared among those who give the same. */
static enum rc take_salt(struct completion_params *p, const json_t *v, struct api_error *e)
{
    if (!json_is_string(v))
        return api_error_kind(e, "cache_salt", "a string", v);
    if (json_string_length(v) == 0 || json_string_length(v) > SALT_BYTES_MAX)
        return api_error_set(e, 400, "invalid_value", "cache_salt", "cache_salt: 1 to %u bytes",
                             SALT_BYTES_MAX);
    p->cache_salt =
        hash_bytes((struct hash){ 0 }, json_string_value(v), json_string_length(v)).a | 1;
    return RC_OK;
}

/* Names of llama.cpp's filters in the order in which they run here; one that a list leaves out is
 * switched off. */
static enum rc take_samplers(struct completion_params *p, const json_t *v, struct api_error *e)
{
    static const char *const names[] = { "penalties", "top_k", "typ_p",
                                         "top_p",     "min_p", "temperature" };
    enum { COUNT = sizeof names / sizeof names[0] };
    bool on[COUNT] = { false };
    size_t from = 0;
    if (!json_is_array(v))
        return api_error_kind(e, "samplers", "a list of names", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        if (name == NULL)
            return api_error_kind(e, "samplers", "a list of names", json_array_get(v, i));
        if (strcmp(name, "dry") == 0 || strcmp(name, "xtc") == 0 ||
            strcmp(name, "top_n_sigma") == 0)
            continue; /* what they do is off, or refused by its own field */
        if (strcmp(name, "typical_p") == 0)
            name = "typ_p";
        size_t at = from;
        while (at < COUNT && strcmp(name, names[at]) != 0)
            at++;
        if (at == COUNT)
            return api_error_set(e, 400, "not_supported", "samplers",
                                 "samplers: '%.40s' is unknown or not in the order penalties, "
                                 "top_k, typ_p, top_p, min_p, temperature",
                                 name);
        on[at] = true;
        from = at + 1;
    }
    struct sampling *s = &p->sampling;
    s->order = SAMPLING_ORDER_LLAMA_CPP;
    if (!on[0]) {
        s->repeat_penalty = 1;
        s->frequency_penalty = s->presence_penalty = 0;
    }
    s->top_k = on[1] ? s->top_k : 0;
    s->typical_p = on[2] ? s->typical_p : 1;
    s->top_p = on[3] ? s->top_p : 1;
    s->min_p = on[4] ? s->min_p : 0;
    s->temperature = on[5] ? s->temperature : 1;
    return RC_OK;
}

static enum rc take_stops(struct completion_params *p, uint32_t vocab_count, struct api_error *e)
{
    const json_t *v;
    enum rc rc = RC_OK;
    if ((v = schema_get(p->body, "stop")) != NULL)
        rc = take_stop(p, v, e);
    if (rc == RC_OK && (v = schema_get(p->body, "stop_token_ids")) != NULL)
        rc = schema_take_stop_ids(p, v, vocab_count, e);
    return rc;
}

/* What says how an answer is to be generated. */
static enum rc take_text_fields(struct completion_params *p, uint32_t vocab_count,
                                struct api_error *e)
{
    const json_t *v;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && rc == RC_OK; i++)
        if ((fields[i].on >> p->kind & 1u) != 0 &&
            (v = schema_get(p->body, fields[i].name)) != NULL)
            rc = take_field(p, &fields[i], v, e);
    if (rc == RC_OK && p->kind == API_CHAT)
        rc = settle_chat_logprobs(p, e);
    if (p->kind == API_NATIVE && p->logprobs == 0)
        p->logprobs = -1;
    if (rc == RC_OK && (int32_t)p->sampling.top_k < 0)
        p->sampling.top_k = 0;
    if (rc == RC_OK)
        rc = take_stops(p, vocab_count, e);
    if (rc == RC_OK && (v = schema_get(p->body, "stream_options")) != NULL)
        rc = take_stream_options(p, v, e);
    if (rc == RC_OK && schema_get(p->body, "logit_bias") != NULL)
        rc = schema_take_bias(p, json_object_get(p->body, "logit_bias"), vocab_count, e);
    if (rc == RC_OK && (v = schema_get(p->body, "samplers")) != NULL)
        rc = take_samplers(p, v, e);
    return rc == RC_OK ? check_refused(p, p->body, e) : rc;
}

/* What says how a prompt becomes an embedding. */
static enum rc take_embedding_fields(struct completion_params *p, struct api_error *e)
{
    const json_t *v = schema_get(p->body, "encoding_format");
    const char *word = json_string_value(v);
    if (v != NULL && word == NULL)
        return api_error_kind(e, "encoding_format", "a string", v);
    p->base64 = word != NULL && strcmp(word, "base64") == 0;
    if (word != NULL && !p->base64 && strcmp(word, "float") != 0)
        return api_error_set(e, 400, "invalid_value", "encoding_format",
                             "encoding_format must be float or base64");
    if (schema_get(p->body, "dimensions") != NULL)
        return api_error_set(e, 400, "not_supported", "dimensions",
                             "dimensions is not supported: embeddings are as wide as the model");
    v = schema_get(p->body, "pooling");
    word = json_string_value(v);
    if (v == NULL)
        return RC_OK;
    if (word == NULL)
        return api_error_kind(e, "pooling", "a string", v);
    p->pooling = strcmp(word, "mean") == 0   ? POOLING_MEAN
                 : strcmp(word, "last") == 0 ? POOLING_LAST
                                             : POOLING_NONE;
    return p->pooling != POOLING_NONE
               ? RC_OK
               : api_error_set(e, 400, "invalid_value", "pooling", "pooling must be mean or last");
}

static enum rc take_body(struct completion_params *p, uint32_t vocab_count, struct api_error *e)
{
    const json_t *v;
    bool text = p->kind != API_EMBEDDINGS;
    enum rc rc = text ? take_text_fields(p, vocab_count, e) : take_embedding_fields(p, e);
    if (rc == RC_OK && p->kind != API_CHAT)
        rc = schema_take_prompt(p, vocab_count, e);
    if (rc == RC_OK && (v = schema_get(p->body, "priority")) != NULL)
        rc = take_priority(p, v, e);
    if (rc == RC_OK && (v = schema_get(p->body, "cache_salt")) != NULL)
        rc = take_salt(p, v, e);
    if (p->seed == -1)
        p->seed = draw_seed();
    p->sampling.seed = (uint64_t)p->seed;
    struct fault fault;
    if (rc == RC_OK && sampling_check(&p->sampling, vocab_count, &fault) != RC_OK)
        rc = api_error_set(e, 400, "invalid_value", NULL, "%s", fault.text);
    return rc;
}

struct completion_params completion_params_default(void)
{
    return (struct completion_params){
        .prompt_field = "prompt",
        .sampling = sampling_default(),
        .n = 1,
        .max_tokens = 16,
        .logprobs = -1,
    };
}

static enum rc open_params(struct completion_params *out, json_t *body, enum api_kind kind,
                           const struct completion_params *defaults, uint32_t vocab_count,
                           struct api_error *error)
{
    static const char *const prompt_fields[] = { "prompt", "messages", "prompt", "input" };
    *out = *defaults;
    out->kind = kind;
    out->prompt_field = prompt_fields[kind];
    if (kind == API_NATIVE)
        out->sampling.order = SAMPLING_ORDER_LLAMA_CPP;
    if (kind == API_EMBEDDINGS) {
        out->n = 1;
        out->max_tokens = out->min_tokens = 0;
        out->logprobs = -1;
    } else {
        out->pooling = POOLING_NONE;
    }
    out->body = NULL;
    out->prompts = NULL;
    out->prompt_count = 0;
    out->bias = NULL;
    if (!json_is_object(body))
        return api_error_kind(error, NULL, "an object", body);
    enum rc rc = schema_copy_bias(out, error);
    if (rc == RC_OK) {
        out->body = json_incref(body);
        rc = take_body(out, vocab_count, error);
    }
    if (rc != RC_OK)
        completion_params_close(out);
    return rc;
}

enum rc completion_params_open(struct completion_params *out, json_t *body,
                               const struct completion_params *defaults, uint32_t vocab_count,
                               struct api_error *error)
{
    return open_params(out, body, API_COMPLETIONS, defaults, vocab_count, error);
}

enum rc chat_params_open(struct completion_params *out, json_t *body,
                         const struct completion_params *defaults, uint32_t vocab_count,
                         struct api_error *error)
{
    return open_params(out, body, API_CHAT, defaults, vocab_count, error);
}

enum rc native_params_open(struct completion_params *out, json_t *body,
                           const struct completion_params *defaults, uint32_t vocab_count,
                           struct api_error *error)
{
    return open_params(out, body, API_NATIVE, defaults, vocab_count, error);
}

enum rc embedding_params_open(struct completion_params *out, json_t *body,
                              const struct completion_params *defaults, uint32_t vocab_count,
                              struct api_error *error)
{
    return open_params(out, body, API_EMBEDDINGS, defaults, vocab_count, error);
}

void completion_params_close(struct completion_params *p)
{
    for (uint32_t i = 0; p->prompts != NULL && i < p->prompt_count; i++)
        mem_free(p->prompts[i].ids);
    mem_free(p->prompts);
    mem_free(p->bias);
    json_decref(p->body);
    *p = (struct completion_params){ 0 };
}
