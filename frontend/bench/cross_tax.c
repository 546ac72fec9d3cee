/* SPDX-License-Identifier: MIT */
/* cross_tax - see cross_tax.h. */
#include "frontend/bench/cross_tax.h"

#include "core/mem.h"
#include "core/must.h"
#include "core/rng.h"
#include "frontend/interrupt.h"

struct taxed {
    struct cross_rig *rig;
    struct sched *sched;
    struct request *request;
    const int32_t *prompt;
    uint32_t prompt_tokens, output_tokens, round;
};

/* Steps the scheduler until request has count tokens. */
static enum rc step_sched(struct taxed *t, uint32_t count, int32_t *token)
{
    while (request_output_count(t->request) < count) {
        if (request_finish(t->request) != FINISH_NONE)
            return RC_IO;
        (void)sched_step(t->sched);
        (void)sched_next_event(t->sched, 0);
    }
    *token = request_token(t->request, count - 1);
    return RC_OK;
}

static enum rc begin_sched(struct taxed *t, int32_t *token, struct fault *fault)
{
    struct request_params p = { .prompt = t->prompt,
                                .prompt_count = t->prompt_tokens,
                                .max_tokens = t->output_tokens + 1,
                                .sampling = sampling_default(),
                                .cache_salt = t->rig->salt };
    p.sampling.temperature = 0;
    enum rc rc = sched_submit(&t->request, t->sched, &p, fault);
    return rc == RC_OK ? step_sched(t, 1, token) : rc;
}

/* Token number count (1, 2, ..) of a rung's answer. */
static enum rc next_token(struct taxed *t, uint32_t rung, uint32_t count, int32_t *token,
                          struct fault *fault)
{
    struct single *loop = &t->rig->loops[rung];
    if (rung == RUNG_D)
        return count == 1 ? begin_sched(t, token, fault) : step_sched(t, count, token);
    if (count > 1)
        return single_next(loop, token);
    loop->computed = 0;
    return single_ask(loop, t->prompt, t->prompt_tokens, token);
}

/* Token number count by every rung, the first of them another one each time. */
static enum rc run_token(struct taxed *t, uint32_t count, double ms[TAX_RUNGS], struct fault *fault)
{
    struct clock clock = clock_real();
    int32_t tokens[TAX_RUNGS];
    for (uint32_t i = 0; i < TAX_RUNGS; i++) {
        uint32_t rung = (i + count + t->round) % TAX_RUNGS;
        uint64_t begun_us = clock_now_us(&clock);
        enum rc rc = next_token(t, rung, count, &tokens[rung], fault);
        ms[rung] = (double)(clock_now_us(&clock) - begun_us) / 1e3;
        if (rc != RC_OK)
            return fault->text[0] != '\0' ? rc : fault_set(fault, rc, "%s", rc_text(rc));
    }
    for (uint32_t i = 1; i < TAX_RUNGS; i++)
        if (tokens[i] != tokens[0])
            return fault_set(fault, RC_CORRUPT,
                             "rung %s says token %d where rung A says %d, at place %u",
                             rung_texts[i].letter, tokens[i], tokens[0], count);
    return interrupt_signal() == 0 ? RC_OK : fault_set(fault, RC_CANCELLED, "interrupted");
}

/* Tokens [begin, end). */
static enum rc run_part(struct taxed *t, uint32_t begin, uint32_t end, double out[TAX_RUNGS],
                        struct fault *fault)
{
    struct quantiles times[TAX_RUNGS] = { 0 };
    double ms[TAX_RUNGS];
    enum rc rc = RC_OK;
    for (uint32_t count = begin; count < end && rc == RC_OK; count++) {
        rc = run_token(t, count, ms, fault);
        for (uint32_t i = 0; i < TAX_RUNGS && rc == RC_OK; i++)
            if (quantiles_add(&times[i], ms[i]) != RC_OK)
                rc = fault_set(fault, RC_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < TAX_RUNGS; i++) {
        out[i] = quantiles_median(&times[i]);
        quantiles_close(&times[i]);
    }
    return rc;
}

enum rc cross_tax_run(struct cross_rig *rig, uint32_t prompt_tokens, uint32_t output_tokens,
                      uint32_t round, struct cross_tax *out, struct fault *fault)
{
    struct taxed t = {
        .rig = rig, .prompt_tokens = prompt_tokens, .output_tokens = output_tokens, .round = round
    };
    struct rng rng = rng_seeded(rig->seed);
    int32_t *prompt = mem_alloc_array(prompt_tokens, sizeof *prompt);
    must(output_tokens % TAX_PARTS == 0);
    *out = (struct cross_tax){ 0 };
    *fault = (struct fault){ 0 };
    if (prompt == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < prompt_tokens; i++)
        prompt[i] = (int32_t)rng_below(&rng, rig->engine->model->vocab_count);
    t.prompt = prompt;
    enum rc rc = cross_open_sched(&t.sched, rig, RUNG_D, 1, fault);
    if (rc == RC_OK)
        rc = run_token(&t, 1, out->prompt_ms, fault);
    for (uint32_t p = 0, part = output_tokens / TAX_PARTS; p < TAX_PARTS && rc == RC_OK; p++)
        rc = run_part(&t, 2 + p * part, 2 + (p + 1) * part, out->token_ms[p], fault);
    sched_close(t.sched);
    mem_free(prompt);
    return rc;
}
