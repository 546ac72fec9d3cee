/* SPDX-License-Identifier: MIT */
/* completion_body - the answer's JSON: choices, logprobs, usage.
 * The number of the chosen token is the same float in token_logprobs and in top_logprobs. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"
#include "frontend/api/completion.h"
#include "frontend/api/token_text.h"

struct lists {
    const struct tokenizer *tokenizer;
    struct text key; /* scratch */
    json_t *tokens, *logprobs, *tops, *offsets;
    bool failed;
};

/* One token: its own number, NULL for the first of a prompt, and the best beside it. */
static void add_token(struct lists *l, int32_t id, const float *logprob,
                      const struct token_logprob *top, uint32_t top_count, uint32_t offset)
{
    json_t *best = logprob != NULL ? json_object() : json_null();
    for (uint32_t i = 0; logprob != NULL && i < top_count; i++) {
        l->failed |= !token_text(l->tokenizer, top[i].token, &l->key);
        if (!l->failed && json_object_getn(best, l->key.data, l->key.len) == NULL)
            json_object_setn_new(best, l->key.data, l->key.len, logprob_json(top[i].logprob));
    }
    l->failed |= !token_text(l->tokenizer, id, &l->key);
    if (!l->failed && logprob != NULL && json_object_getn(best, l->key.data, l->key.len) == NULL)
        json_object_setn_new(best, l->key.data, l->key.len, logprob_json(*logprob));
    json_array_append_new(l->tops, best);
    if (l->failed)
        return;
    json_array_append_new(l->tokens, json_stringn(l->key.data, l->key.len));
    json_array_append_new(l->logprobs, logprob != NULL ? logprob_json(*logprob) : json_null());
    json_array_append_new(l->offsets, json_integer(offset));
}

/* Characters of the prompt, of which the offsets of an echoed answer begin. */
static uint32_t count_prompt(struct lists *l, const struct token_list *prompt)
{
    struct detok d;
    struct text text = { 0 };
    uint32_t chars = 0;
    detok_open(&d, l->tokenizer, false, false);
    for (uint32_t i = 0; i < prompt->count; i++)
        l->failed |= detok_push(&d, prompt->ids[i], &text) != RC_OK;
    for (size_t i = 0; i < text.len; i++)
        chars += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    text_close(&text);
    return chars;
}

/* Prompt tokens with their numbers; returns the characters of the prompt. */
static uint32_t add_prompt(struct lists *l, const struct generation *g,
                           const struct token_list *prompt, bool tops)
{
    struct detok d;
    struct text text = { 0 };
    uint32_t chars = 0;
    size_t counted = 0;
    detok_open(&d, l->tokenizer, false, false);
    for (uint32_t i = 0; i < prompt->count; i++) {
        float logprob = i > 0 ? request_prompt_logprob(g->request, i) : 0.0f;
        uint32_t top_count = 0;
        const struct token_logprob *top =
            i > 0 && tops ? request_prompt_top(g->request, i, &top_count) : NULL;
        add_token(l, prompt->ids[i], i > 0 ? &logprob : NULL, top, top_count, chars);
        l->failed |= detok_push(&d, prompt->ids[i], &text) != RC_OK;
        for (; counted < text.len; counted++)
            chars += ((unsigned char)text.data[counted] & 0xc0) != 0x80;
    }
    text_close(&text);
    return chars;
}

static json_t *logprobs_json(const struct completion *c, uint32_t k, uint32_t from, uint32_t to)
{
    if (c->params.logprobs < 0)
        return json_null();
    const struct generation *g = &c->choices[k];
    const struct generation *first = &c->choices[k - k % c->params.n]; /* it has the scores */
    struct lists l = { .tokenizer = c->engine->tokenizer,
                       .tokens = json_array(),
                       .logprobs = json_array(),
                       .tops = json_array(),
                       .offsets = json_array() };
    uint32_t base = 0;
    if (c->params.echo && from == 0)
        base = add_prompt(&l, first, &c->prompts[k / c->params.n], c->params.logprobs > 0);
    else if (c->params.echo)
        base = count_prompt(&l, &c->prompts[k / c->params.n]);
    for (uint32_t i = from; i < to; i++) {
        uint32_t top_count = 0;
        float logprob = request_logprob(g->request, i);
        const struct token_logprob *top =
            c->params.logprobs > 0 ? request_top(g->request, i, &top_count) : NULL;
        add_token(&l, request_token(g->request, i), &logprob, top, top_count, base + g->offsets[i]);
    }
    text_close(&l.key);
    json_t *out = json_pack("{s:o, s:o, s:o, s:o}", "tokens", l.tokens, "token_logprobs",
                            l.logprobs, "top_logprobs", l.tops, "text_offset", l.offsets);
    if (!l.failed)
        return out;
    json_decref(out);
    return NULL;
}

/* The prompt again, in front of the answer. */
static enum rc append_prompt(const struct completion *c, uint32_t index, struct text *out)
{
    const struct prompt *p = &c->params.prompts[index];
    if (p->text != NULL)
        return text_append_valid(out, p->text, p->len);
    struct detok d;
    detok_open(&d, c->engine->tokenizer, false, false);
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < p->id_count && rc == RC_OK; i++)
        rc = detok_push(&d, p->ids[i], out);
    return rc == RC_OK ? detok_flush(&d, out) : rc;
}

json_t *completion_choice(const struct completion *c, uint32_t k, uint32_t from, uint32_t to,
                          size_t text_from, const char *finish)
{
    const struct generation *g = &c->choices[k];
    struct text text = { 0 };
    enum rc rc = text_append(&text, "", 0);
    if (rc == RC_OK && c->params.echo && from == 0)
        rc = append_prompt(c, k / c->params.n, &text);
    if (rc == RC_OK && g->text.len > text_from)
        rc = text_append(&text, g->text.data + text_from, g->text.len - text_from);
    json_t *logprobs = rc == RC_OK ? logprobs_json(c, k, from, to) : NULL;
    json_t *out = NULL;
    if (logprobs != NULL)
        out = json_pack("{s:o, s:i, s:o, s:s?}", "text", json_stringn(text.data, text.len), "index",
                        (int)k, "logprobs", logprobs, "finish_reason", finish);
    text_close(&text);
    return out;
}

uint32_t completion_cached_tokens(const struct completion *c)
{
    uint32_t cached = 0;
    for (uint32_t k = 0; k < c->submitted_count; k += c->params.n)
        cached += request_cached_count(c->choices[k].request);
    return cached;
}

static double per_second(uint32_t count, double ms)
{
    return ms > 0 ? count * 1e3 / ms : 0;
}

json_t *completion_timings(const struct completion *c)
{
    const struct generation *g = &c->choices[0];
    struct request_times t = request_times_get(g->request);
    uint32_t cached = request_cached_count(g->request);
    uint32_t computed = request_prompt_count(g->request) - cached;
    uint64_t first = t.first_token_us != 0 ? t.first_token_us : t.finished_us; /* or no token */
    first = first > t.admitted_us ? first : t.admitted_us;
    uint64_t last = t.finished_us > first ? t.finished_us : first;
    double prompt_ms = (double)(first - t.admitted_us) / 1e3, ms = (double)(last - first) / 1e3;
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f}", "cache_n", (json_int_t)cached,
                     "prompt_n", (json_int_t)computed, "prompt_ms", prompt_ms, "prompt_per_second",
                     per_second(computed, prompt_ms), "predicted_n", (json_int_t)g->token_count,
                     "predicted_ms", ms, "predicted_per_second",
                     per_second(g->token_count > 0 ? g->token_count - 1 : 0, ms));
}

enum rc completion_report(const struct completion *c, json_t *object, bool timings)
{
    if (json_object_set_new(object, "seed", json_integer(c->params.seed)) != 0 ||
        (timings && json_object_set_new(object, "timings", completion_timings(c)) != 0))
        return RC_NO_MEMORY;
    return RC_OK;
}

json_t *completion_progress(const struct completion *c, uint32_t *told, bool *none)
{
    const struct request *r = c->submitted_count > 0 ? c->choices[0].request : NULL;
    uint32_t done = r != NULL && c->params.return_progress ? request_progress(r) : 0;
    *none = done <= *told;
    if (*none)
        return NULL;
    *told = done;
    uint64_t begun_us = request_times_get(r).admitted_us, now_us = clock_now_us(&c->engine->clock);
    return json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)request_prompt_count(r), "cache",
                     (json_int_t)request_cached_count(r), "processed", (json_int_t)done, "time_ms",
                     (json_int_t)(now_us > begun_us ? (now_us - begun_us) / 1000 : 0));
}

json_t *completion_usage(const struct completion *c)
{
    json_int_t prompt = completion_prompt_tokens(c), output = completion_output_tokens(c);
    json_int_t cached = completion_cached_tokens(c);
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens",
                     output, "total_tokens", prompt + output, "prompt_tokens_details",
                     "cached_tokens", cached);
}

json_t *completion_body(const struct completion *c, const char *id, int64_t created)
{
    json_t *choices = json_array();
    for (uint32_t k = 0; k < c->choice_count; k++) {
        const struct generation *g = &c->choices[k];
        json_t *choice = completion_choice(c, k, 0, g->token_count, 0, finish_text(g->finish));
        if (json_array_append_new(choices, choice) != 0) {
            json_decref(choices);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", id, "object", "text_completion",
                     "created", (json_int_t)created, "model", c->engine->name, "choices", choices,
                     "usage", completion_usage(c));
}
