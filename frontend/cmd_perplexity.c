/* SPDX-License-Identifier: MIT */
/* cmd_perplexity - exp of the mean negative log-probability of a text's tokens.
 *
 *   text -> tokens -> chunks of -c tokens that do not overlap -> requests that only score
 *
 * The first token of a chunk has nothing before it and is not scored. Where the vocabulary asks for
 * BOS each chunk begins with one (it is that first token), else with a token of the text. A last
 * chunk that is shorter is scored too. Sums are float64, in the order of the text whatever chunk
 * ends first. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/mem.h"
#include "frontend/commands.h"
#include "frontend/engine.h"
#include "frontend/input.h"
#include "frontend/interrupt.h"

struct perplexity_options {
    const char *file;
    bool json;
    bool special;
};

#define AT(member) offsetof(struct perplexity_options, member)
static const struct option perplexity_rows[] = {
    { "-f --file", OPTION_TEXT, AT(file), 0, 0, "FILE", NULL, "the text; - is stdin" },
    { "--json", OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "prints one JSON object" },
    { "--special", OPTION_FLAG, AT(special), 0, 0, NULL, NULL,
      "control tokens written in the text are recognized" },
};

struct score {
    double sum, sum_squares; /* of -ln p */
    uint64_t count;
};

struct scoring {
    struct engine *engine;
    const struct token_list *tokens;
    int32_t *chunk;       /* [ctx] scratch */
    struct score *scores; /* [chunk_count] */
    uint32_t ctx, chunk_count, begun, ended;
    bool bos;
};

/* Tokens of the text that a chunk holds. */
static uint32_t text_share(const struct scoring *s)
{
    return s->ctx - s->bos;
}

static enum rc submit_chunk(struct scoring *s, struct fault *fault)
{
    size_t from = (size_t)s->begun * text_share(s), left = s->tokens->count - from;
    uint32_t share = left < text_share(s) ? (uint32_t)left : text_share(s);
    if (s->bos)
        s->chunk[0] = tokenizer_bos(s->engine->tokenizer);
    memcpy(s->chunk + s->bos, s->tokens->ids + from, share * sizeof *s->chunk);
    struct request_params p = { .prompt = s->chunk,
                                .prompt_count = share + s->bos,
                                .sampling = sampling_default(),
                                .prompt_logprobs = true,
                                .user = &s->scores[s->begun] };
    struct request *r;
    enum rc rc = sched_submit(&r, s->engine->sched, &p, fault);
    s->begun += rc == RC_OK;
    return rc;
}

static enum rc take_chunk(struct scoring *s, struct request *r, struct fault *fault)
{
    struct score *out = request_user(r);
    if (request_finish(r) == FINISH_NONE)
        return RC_OK;
    if (request_finish(r) == FINISH_ERROR)
        return fault_set(fault, request_error(r), "the model run failed: %s",
                         rc_text(request_error(r)));
    for (uint32_t i = 1; i < request_prompt_count(r); i++) {
        double nll = -(double)request_prompt_logprob(r, i);
        out->sum += nll;
        out->sum_squares += nll * nll;
        out->count++;
    }
    s->ended++;
    sched_release(s->engine->sched, r);
    return RC_OK;
}

static enum rc score_chunks(struct scoring *s, struct fault *fault)
{
    while (s->ended < s->chunk_count) {
        if (interrupt_signal() != 0)
            return fault_set(fault, RC_CANCELLED, "interrupted");
        enum rc rc = RC_OK;
        while (rc == RC_OK && s->begun < s->chunk_count)
            rc = submit_chunk(s, fault);
        if (rc != RC_OK && rc != RC_FULL)
            return rc;
        sched_step(s->engine->sched);
        struct request *r;
        while ((r = sched_next_event(s->engine->sched, 0)) != NULL)
            if ((rc = take_chunk(s, r, fault)) != RC_OK)
                return rc;
        if (s->engine->options.verbose > 0)
            fprintf(stderr, "\r%u of %u chunks", s->ended, s->chunk_count);
    }
    return RC_OK;
}

static enum rc print_result(const struct scoring *s, bool json, struct fault *fault)
{
    struct score all = { 0 };
    for (uint32_t i = 0; i < s->chunk_count; i++) {
        all.sum += s->scores[i].sum;
        all.sum_squares += s->scores[i].sum_squares;
        all.count += s->scores[i].count;
    }
    double n = (double)all.count, mean = all.sum / n;
    double variance = n > 1 ? (all.sum_squares - n * mean * mean) / (n - 1) : 0.0;
    double error = variance > 0 ? sqrt(variance / n) : 0.0, perplexity = exp(mean);
    if (!json) {
        printf("perplexity %.6f +- %.6f over %llu tokens in %u chunks of %u\n", perplexity,
               perplexity * error, (unsigned long long)all.count, s->chunk_count, s->ctx);
    } else {
        json_t *out =
            json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:i, s:i, s:s}", "perplexity", perplexity,
                      "nll_mean", mean, "nll_stderr", error, "nll_sum", all.sum, "tokens_scored",
                      (json_int_t)all.count, "tokens", (json_int_t)s->tokens->count, "chunks",
                      (int)s->chunk_count, "n_ctx", (int)s->ctx, "model", s->engine->name);
        if (out == NULL || json_dumpf(out, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF) {
            json_decref(out);
            return fault_set(fault, RC_IO, "the result cannot be written");
        }
        json_decref(out);
    }
    return fflush(stdout) == 0 ? RC_OK : fault_set_errno(fault, RC_IO, "stdout cannot be written");
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
    s.bos = tokenizer_adds_bos(e->tokenizer) && tokenizer_bos(e->tokenizer) >= 0;
    if (rc == RC_OK && s.ctx < 2)
        rc = fault_set(fault, RC_USAGE, "-c must be at least 2");
    if (rc == RC_OK && tokens.count + s.bos < 2)
        rc = fault_set(fault, RC_USAGE, "-f: a text of %zu tokens has nothing to score",
                       tokens.count);
    if (rc == RC_OK) {
        s.chunk_count = (uint32_t)((tokens.count + text_share(&s) - 1) / text_share(&s));
        s.chunk = mem_alloc_array(s.ctx, sizeof *s.chunk);
        s.scores = mem_alloc_array(s.chunk_count, sizeof *s.scores);
        if (s.chunk == NULL || s.scores == NULL)
            rc = fault_set(fault, RC_NO_MEMORY, "out of memory");
    }
    if (rc == RC_OK)
        rc = score_chunks(&s, fault);
    if (rc == RC_OK)
        rc = print_result(&s, o->json, fault);
    mem_free(s.chunk);
    mem_free(s.scores);
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
