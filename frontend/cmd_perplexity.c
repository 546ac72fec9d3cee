/* SPDX-License-Identifier: MIT */
/* cmd_perplexity - exp of the mean negative log-probability of a text's tokens.
 *
 *   text -> tokens -> windows of -c tokens -> requests that only score
 *
 * Windows do not overlap, unless --stride says by how much each moves on: then only tokens that no
 * window before has scored count, so that all but the first ones see at least -c - stride tokens.
 * The first token of a window has nothing before it and is not scored. Where the vocabulary asks
 * for BOS each window begins with one (it is that first token), else with a token of the text. A
 * last window that is shorter is scored too. Sums are float64, in the order of the text whatever
 * window ends first.
 *
 * With --save-base whole distributions go to a file, and with --base they are compared with it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/mem.h"
#include "frontend/commands.h"
#include "frontend/engine.h"
#include "frontend/input.h"
#include "frontend/interrupt.h"
#include "frontend/score_base.h"

struct perplexity_options {
    const char *file, *save_base, *base;
    uint32_t stride;
    bool json;
    bool special;
};

#define AT(member) offsetof(struct perplexity_options, member)
static const struct option perplexity_rows[] = {
    { "-f --file", OPTION_TEXT, AT(file), 0, 0, "FILE", NULL, "the text; - is stdin" },
    { "--stride --ppl-stride", OPTION_U32, AT(stride), 1, UINT32_MAX, "N", NULL,
      "windows move on by N tokens and overlap; default: they do not" },
    { "--save-base", OPTION_TEXT, AT(save_base), 0, 0, "FILE", NULL,
      "keep the distributions at every position, for --base" },
    { "--base", OPTION_TEXT, AT(base), 0, 0, "FILE", NULL,
      "divergence from distributions that --save-base kept" },
    { "--json", OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "prints one JSON object" },
    { "--special", OPTION_FLAG, AT(special), 0, 0, NULL, NULL,
      "control tokens written in the text are recognized" },
};

struct scoring;

/* One request: tokens [from, from + count) of the text, of which the last `scored` count. */
struct window {
    struct scoring *scoring;
    size_t from;
    uint32_t count, scored;
    uint32_t index; /* of its first scored token among all of them */
};

struct scoring {
    struct engine *engine;
    const struct token_list *tokens;
    int32_t *prompt; /* [ctx] scratch */
    struct window *windows;
    double *nll;                    /* [scored_count] */
    struct divergence *divergences; /* [scored_count], with --base */
    struct score_base *save, *base;
    uint32_t ctx, stride, window_count, scored_count, begun, ended;
    bool bos;
};

/* Tokens of the text that a window holds. */
static uint32_t text_share(const struct scoring *s)
{
    return s->ctx - s->bos;
}

/* Cuts the text into windows: how many, and what each scores. windows NULL: only counts. */
static void cut_windows(struct scoring *s)
{
    size_t scored_to = s->bos ? 0 : 1; /* tokens below need no scoring any more */
    uint32_t index = 0, count = 0;
    for (size_t from = 0; scored_to < s->tokens->count; from += s->stride, count++) {
        size_t left = s->tokens->count - from, to;
        uint32_t held = left < text_share(s) ? (uint32_t)left : text_share(s);
        /* Without BOS the first token of a window that begins where the last one ended has nothing
         * before it. */
        if (!s->bos && scored_to == from)
            scored_to++;
        to = from + held;
        uint32_t scored = to > scored_to ? (uint32_t)(to - scored_to) : 0;
        if (s->windows != NULL)
            s->windows[count] = (struct window){ s, from, held, scored, index };
        index += scored;
        scored_to = to > scored_to ? to : scored_to;
    }
    s->window_count = count;
    s->scored_count = index;
}

/* A callback of the scheduler: logits after a position of the window. */
static void take_logits(void *ctx, uint32_t position, const float *logits)
{
    const struct window *w = ctx;
    struct scoring *s = w->scoring;
    uint32_t begin = s->bos + w->count - w->scored; /* prompt position of the first scored token */
    if (position + 1 < begin || position + 1 >= s->bos + w->count)
        return;
    uint32_t index = w->index + position + 1 - begin;
    int32_t target = s->tokens->ids[w->from + position + 1 - s->bos];
    if (s->save != NULL)
        score_base_put(s->save, index, logits);
    if (s->base != NULL)
        s->divergences[index] = score_base_compare(s->base, index, logits, target);
}

static enum rc submit_window(struct scoring *s, struct fault *fault)
{
    struct window *w = &s->windows[s->begun];
    if (s->bos)
        s->prompt[0] = tokenizer_bos(s->engine->tokenizer);
    memcpy(s->prompt + s->bos, s->tokens->ids + w->from, w->count * sizeof *s->prompt);
    bool whole = s->save != NULL || s->base != NULL;
    struct request_params p = { .prompt = s->prompt,
                                .prompt_count = w->count + s->bos,
                                .sampling = sampling_default(),
                                .prompt_logprobs = true,
                                .on_logits = whole ? take_logits : NULL,
                                .on_logits_ctx = w,
                                .user = w };
    struct request *r;
    enum rc rc = sched_submit(&r, s->engine->sched, &p, fault);
    s->begun += rc == RC_OK;
    return rc;
}

static enum rc take_window(struct scoring *s, struct request *r, struct fault *fault)
{
    const struct window *w = request_user(r);
    if (request_finish(r) == FINISH_NONE)
        return RC_OK;
    if (request_finish(r) == FINISH_ERROR)
        return fault_set(fault, request_error(r), "the model run failed: %s",
                         rc_text(request_error(r)));
    uint32_t begin = request_prompt_count(r) - w->scored;
    for (uint32_t i = 0; i < w->scored; i++)
        s->nll[w->index + i] = -(double)request_prompt_logprob(r, begin + i);
    s->ended++;
    sched_release(s->engine->sched, r);
    return RC_OK;
}

static enum rc score_windows(struct scoring *s, struct fault *fault)
{
    while (s->ended < s->window_count) {
        if (interrupt_signal() != 0)
            return fault_set(fault, RC_CANCELLED, "interrupted");
        enum rc rc = RC_OK;
        while (rc == RC_OK && s->begun < s->window_count)
            rc = submit_window(s, fault);
        if (rc != RC_OK && rc != RC_FULL)
            return rc;
        sched_step(s->engine->sched);
        struct request *r;
        while ((r = sched_next_event(s->engine->sched, 0)) != NULL)
            if ((rc = take_window(s, r, fault)) != RC_OK)
                return rc;
        if (s->engine->options.verbose > 0)
            fprintf(stderr, "\r%u of %u windows", s->ended, s->window_count);
    }
    return RC_OK;
}

/* Mean of values and its standard error. */
struct mean {
    double mean, error;
};

static struct mean mean_of(const double *values, uint32_t count)
{
    double sum = 0, squares = 0, n = (double)count;
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    double mean = sum / n, variance = n > 1 ? (squares - n * mean * mean) / (n - 1) : 0.0;
    return (struct mean){ mean, variance > 0 ? sqrt(variance / n) : 0.0 };
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What --base is asked for. */
struct comparison {
    struct mean kl, same_top, log_ratio, shift;
    double kl_median, kl_99, kl_max, base_perplexity, shift_rms;
};

static enum rc compare_all(const struct scoring *s, struct comparison *out, struct fault *fault)
{
    uint32_t n = s->scored_count;
    double *v = mem_alloc_array(n, sizeof *v), squares = 0;
    if (v == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        v[i] = s->divergences[i].same_top ? 1.0 : 0.0;
    out->same_top = mean_of(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = s->divergences[i].base_nll;
    out->base_perplexity = exp(mean_of(v, n).mean);
    for (uint32_t i = 0; i < n; i++)
        v[i] = s->nll[i] - s->divergences[i].base_nll;
    out->log_ratio = mean_of(v, n);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = s->divergences[i].shift;
        squares += v[i] * v[i];
    }
    out->shift = mean_of(v, n);
    out->shift_rms = sqrt(squares / n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = s->divergences[i].kl;
    out->kl = mean_of(v, n);
    qsort(v, n, sizeof *v, compare_doubles);
    out->kl_median = v[n / 2];
    out->kl_99 = v[(uint32_t)((uint64_t)n * 99 / 100)];
    out->kl_max = v[n - 1];
    mem_free(v);
    return RC_OK;
}

static void print_comparison(const struct comparison *c)
{
    printf("KL divergence     %.6f +- %.6f nats; median %.6f, 99 %% below %.6f, largest %.6f\n"
           "same best token   %.3f +- %.3f %%\n"
           "perplexity ratio  %.6f +- %.6f (base %.6f)\n"
           "shift of p        %+.4f +- %.4f %%; rms %.4f %%\n",
           c->kl.mean, c->kl.error, c->kl_median, c->kl_99, c->kl_max, 100 * c->same_top.mean,
           100 * c->same_top.error, exp(c->log_ratio.mean),
           exp(c->log_ratio.mean) * c->log_ratio.error, c->base_perplexity, 100 * c->shift.mean,
           100 * c->shift.error, 100 * c->shift_rms);
}

static json_t *comparison_json(const struct comparison *c)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "kl_mean",
                     c->kl.mean, "kl_stderr", c->kl.error, "kl_median", c->kl_median, "kl_99",
                     c->kl_99, "kl_max", c->kl_max, "same_top", c->same_top.mean, "same_top_stderr",
                     c->same_top.error, "perplexity_ratio", exp(c->log_ratio.mean),
                     "base_perplexity", c->base_perplexity, "p_shift_mean", c->shift.mean,
                     "p_shift_rms", c->shift_rms);
}

static enum rc print_json(const struct scoring *s, const struct mean *nll,
                          const struct comparison *c, struct fault *fault)
{
    json_t *out =
        json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:i, s:i, s:i, s:s}", "perplexity",
                  exp(nll->mean), "nll_mean", nll->mean, "nll_stderr", nll->error, "nll_sum",
                  nll->mean * s->scored_count, "tokens_scored", (json_int_t)s->scored_count,
                  "tokens", (json_int_t)s->tokens->count, "chunks", (int)s->window_count, "n_ctx",
                  (int)s->ctx, "stride", (int)s->stride, "model", s->engine->name);
    bool good = out != NULL;
    if (good && s->base != NULL)
        good = json_object_set_new(out, "base", comparison_json(c)) == 0;
    good = good && json_dumpf(out, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(out);
    return good ? RC_OK : fault_set(fault, RC_IO, "the result cannot be written");
}

static enum rc print_result(const struct scoring *s, bool json, struct fault *fault)
{
    struct mean nll = mean_of(s->nll, s->scored_count);
    struct comparison c = { 0 };
    enum rc rc = s->base != NULL ? compare_all(s, &c, fault) : RC_OK;
    if (rc != RC_OK)
        return rc;
    if (json) {
        rc = print_json(s, &nll, &c, fault);
    } else {
        printf("perplexity %.6f +- %.6f over %u tokens in %u windows of %u\n", exp(nll.mean),
               exp(nll.mean) * nll.error, s->scored_count, s->window_count, s->ctx);
        if (s->base != NULL)
            print_comparison(&c);
    }
    if (rc != RC_OK)
        return rc;
    return fflush(stdout) == 0 ? RC_OK : fault_set_errno(fault, RC_IO, "stdout cannot be written");
}

static enum rc open_scoring(struct scoring *s, const struct perplexity_options *o,
                            struct fault *fault)
{
    s->bos = tokenizer_adds_bos(s->engine->tokenizer) && tokenizer_bos(s->engine->tokenizer) >= 0;
    if (s->ctx < 2)
        return fault_set(fault, RC_USAGE, "-c must be at least 2");
    s->stride = o->stride != 0 ? o->stride : text_share(s);
    if (s->stride > text_share(s))
        return fault_set(fault, RC_USAGE, "--stride %u leaves tokens out: at most %u with -c %u",
                         s->stride, text_share(s), s->ctx);
    if (s->tokens->count + s->bos < 2)
        return fault_set(fault, RC_USAGE, "-f: a text of %zu tokens has nothing to score",
                         s->tokens->count);
    cut_windows(s);
    s->prompt = mem_alloc_array(s->ctx, sizeof *s->prompt);
    s->windows = mem_alloc_array(s->window_count, sizeof *s->windows);
    s->nll = mem_alloc_array(s->scored_count, sizeof *s->nll);
    s->divergences =
        o->base != NULL ? mem_alloc_array(s->scored_count, sizeof *s->divergences) : NULL;
    if (s->prompt == NULL || s->windows == NULL || s->nll == NULL ||
        (o->base != NULL && s->divergences == NULL))
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    cut_windows(s);
    struct score_base_subject subject = { s->engine->model->vocab_count, s->scored_count,
                                          s->tokens };
    enum rc rc = RC_OK;
    if (o->base != NULL)
        rc = score_base_open(&s->base, o->base, &subject, fault);
    if (rc == RC_OK && o->save_base != NULL)
        rc = score_base_create(&s->save, o->save_base, &subject, fault);
    return rc;
}

static enum rc score_text(struct engine *e, const struct text *text,
                          const struct perplexity_options *o, struct fault *fault)
{
    struct token_list tokens = { 0 };
    struct scoring s = { .engine = e, .tokens = &tokens, .ctx = sched_ctx_tokens(e->sched) };
    enum rc rc = tokenizer_encode(e->tokenizer, text->data, text->len,
                                  o->special ? TOKENIZE_SPECIAL : 0u, &tokens);
    if (rc != RC_OK)
        rc = fault_set(fault, rc, "the text cannot be tokenized: %s", rc_text(rc));
    if (rc == RC_OK)
        rc = open_scoring(&s, o, fault);
    if (rc == RC_OK)
        rc = score_windows(&s, fault);
    if (rc == RC_OK && s.save != NULL)
        rc = score_base_finish(s.save, fault);
    if (rc == RC_OK)
        rc = print_result(&s, o->json, fault);
    score_base_close(s.save);
    score_base_close(s.base);
    mem_free(s.divergences);
    mem_free(s.nll);
    mem_free(s.windows);
    mem_free(s.prompt);
    token_list_close(&tokens);
    return rc;
}

int cmd_perplexity(int argc, char **argv)
{
    struct perplexity_options o = { 0 };
    struct engine_options options = engine_options_default();
    options.ctx_tokens = 512;
    options.rows_max = 4;
    struct option_group groups[] = {
        { "text", perplexity_rows, sizeof perplexity_rows / sizeof perplexity_rows[0], &o },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { "perplexity",
                              "-m MODEL -f FILE",
                              "Scores a text in chunks of the context size.",
                              groups,
                              2,
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    struct text text = { 0 };
    struct engine e;
    enum rc rc;
    if (o.file == NULL)
        rc = fault_set(&fault, RC_USAGE, "-f FILE is missing");
    else
        rc = input_read(&text, o.file, "-f", &fault);
    struct engine_needs needs = { .requests_max = options.rows_max * 2,
                                  .outputs_max = options.chunk_tokens };
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &fault)) == RC_OK) {
        rc = score_text(&e, &text, &o, &fault);
        if (rc == RC_INVALID || rc == RC_LIMIT)
            rc = fault.code = RC_USAGE;
        engine_close(&e);
    }
    text_close(&text);
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    return rc == RC_OK ? 0 : engine_complain("perplexity", &fault);
}
