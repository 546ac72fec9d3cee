/* SPDX-License-Identifier: MIT */
/* planning - what planning a step costs beside computing it, in the real engine.
 *     planning -m MODEL [--steps N] [flags of the engine; --max-rows 64 if not given]
 * So many sequences as --max-rows says decode at once, while as many wait in the queue; then N
 * steps are run. Inside the clock, beside the executor's: inbox, deadlines, admission, the plan
 * with its block tables; the scheduler's own clock, in microseconds. The commit is not in it. */
#include <stdio.h>

#include "core/mem.h"
#include "core/rng.h"
#include "frontend/engine.h"

struct flags {
    uint32_t steps;
};

static const struct option flag_rows[] = {
    { "--steps", OPTION_U32, offsetof(struct flags, steps), 1, 100000, "N", NULL,
      "decode steps that are counted" },
};

static bool submit_one(struct engine *e, struct rng *rng, uint32_t max_tokens, struct fault *fault)
{
    int32_t prompt[64];
    for (uint32_t i = 0; i < 64; i++)
        prompt[i] = (int32_t)rng_below(rng, e->model->vocab_count);
    struct request_params p = { .prompt = prompt, .prompt_count = 64, .max_tokens = max_tokens };
    p.sampling = sampling_default();
    struct request *r;
    return sched_submit(&r, e->sched, &p, fault) == RC_OK;
}

static void measure(struct engine *e, uint32_t steps)
{
    uint32_t rows = e->options.rows_max;
    struct sched_stats begin;
    do {
        sched_step(e->sched);
        begin = sched_stats_get(e->sched);
    } while (begin.prefill_tokens < (uint64_t)rows * 64);
    for (uint32_t i = 0; i < steps; i++)
        sched_step(e->sched);
    struct sched_stats end = sched_stats_get(e->sched);
    double count = (double)(end.steps - begin.steps);
    printf("%u sequences, %.0f steps: planning %.1f us a step, computing %.1f us, %.1f rows\n",
           rows, count, (double)(end.plan_us - begin.plan_us) / count,
           (double)(end.engine_us - begin.engine_us) / count,
           (double)(end.rows - begin.rows) / count);
}

int main(int argc, char **argv)
{
    struct flags flags = { .steps = 100 };
    struct engine_options options = engine_options_default();
    options.rows_max = 64;
    options.quiet = true;
    struct option_group groups[] = {
        { "planning", flag_rows, 1, &flags },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { .command = "planning",
                              .usage = "-m MODEL",
                              .purpose = "What planning a step costs.",
                              .groups = groups,
                              .group_count = 2 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    struct engine_needs needs = { .requests_max = 2 * options.rows_max };
    struct engine e;
    struct fault fault;
    if (engine_open(&e, &options, &needs, &fault) != RC_OK)
        return engine_complain("planning", &fault);
    struct rng rng = rng_seeded(1);
    bool good = true;
    for (uint32_t i = 0; good && i < needs.requests_max; i++)
        good = submit_one(&e, &rng, flags.steps + 200, &fault);
    if (good)
        measure(&e, flags.steps);
    engine_close(&e);
    return good ? 0 : engine_complain("planning", &fault);
}
