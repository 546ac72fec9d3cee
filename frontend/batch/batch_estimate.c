/* SPDX-License-Identifier: MIT */
/* batch_estimate - see batch_estimate.h. Prompts are measured by requests that only compute one,
 * answers by requests with a prompt of one token. The amount doubles until it takes half a second,
 * so that a slow machine is done with a few steps. Every prompt is another one: the prefix cache
 * has nothing to give. */
#include "frontend/batch/batch_estimate.h"

#include "core/rng.h"

enum { ENOUGH_US = 500000, PROMPT_TOKENS = 64, OUTPUT_TOKENS_MAX = 64 };

/* So many requests at once; *us from the first submission to the last end. */
static enum rc run(struct engine *e, struct rng *rng, uint32_t count, uint32_t prompt_tokens,
                   uint32_t output_tokens, uint64_t *us, struct fault *fault)
{
    int32_t prompt[PROMPT_TOKENS];
    uint32_t live = 0;
    enum rc rc = RC_OK;
    uint64_t begun_us = clock_now_us(&e->clock);
    for (uint32_t k = 0; k < count && rc == RC_OK; k++) {
        struct request *r;
        for (uint32_t i = 0; i < prompt_tokens; i++)
            prompt[i] = (int32_t)rng_below(rng, e->model->vocab_count);
        struct request_params p = { .prompt = prompt,
                                    .prompt_count = prompt_tokens,
                                    .max_tokens = output_tokens,
                                    .sampling = sampling_default(),
                                    .priority = PRIORITY_BATCH };
        rc = sched_submit(&r, e->sched, &p, fault);
        live += rc == RC_OK;
    }
    while (live > 0) {
        struct request *r = sched_next_event(e->sched, 100000);
        if (r == NULL || request_finish(r) == FINISH_NONE)
            continue;
        if (request_finish(r) == FINISH_ERROR)
            rc = fault_set(fault, request_error(r), "the model run failed");
        sched_release(e->sched, r);
        live--;
    }
    *us = clock_now_us(&e->clock) - begun_us + 1;
    return rc;
}

enum rc batch_estimate_measure(struct batch_speed *out, struct engine *e, uint32_t rows,
                               struct fault *fault)
{
    struct rng rng = rng_seeded(1);
    uint32_t context = sched_ctx_tokens(e->sched);
    uint32_t prompt = context / 2 < PROMPT_TOKENS ? context / 2 : PROMPT_TOKENS;
    uint32_t most = context / 2 < OUTPUT_TOKENS_MAX ? context / 2 : OUTPUT_TOKENS_MAX;
    uint64_t us = 0;
    enum rc rc = RC_OK;
    *out = (struct batch_speed){ .rows = rows, .measured = true };
    uint32_t count = 1;
    for (; rc == RC_OK && us < ENOUGH_US; count = count * 2 < rows ? count * 2 : rows) {
        rc = run(e, &rng, count, prompt, 0, &us, fault);
        out->prompt_tps = (double)count * prompt * 1e6 / (double)us;
        if (count == rows)
            break;
    }
    us = 0;
    for (uint32_t tokens = 2; rc == RC_OK && us < ENOUGH_US; tokens *= 2) {
        uint32_t wanted = tokens < most ? tokens : most;
        rc = run(e, &rng, rows, 1, wanted, &us, fault);
        out->output_tps = (double)rows * wanted * 1e6 / (double)us;
        if (wanted == most)
            break;
    }
    return rc;
}
