/* SPDX-License-Identifier: MIT */
/* fairness - what one user sees of another, on real time.
 *     fairness -m MODEL [--seconds S] [--flood-tokens N] [--jsonl] [flags of the engine]
 * Two questions, each answered by the same run without and with the others:
 *     flood   a tenant asks a short prompt every second; another has 64 long prompts in the queue.
 *             Time to first token of the first one, and what it may be: twice that of an idle
 *             machine and a chunk (the longest step of the flood)
 *     spare   two interactive users ask and read without a pause; spare jobs are in the queue.
 *             Time between two tokens of the users; rounds with and without jobs take turns
 * Times to first token are the scheduler's, from submission to commit; times between tokens are the
 * client thread's, from event to event. Prompts are random tokens, so nothing is shared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "frontend/engine.h"

enum { SLOTS = 96, FLOOD = 64, JOBS = 16, SAMPLES_MAX = 100000, PROMPT_MAX = 8192, ROUNDS = 4 };

struct flags {
    uint32_t seconds, flood_tokens;
    bool jsonl;
};

#define AT(member) offsetof(struct flags, member)
static const struct option flag_rows[] = {
    { "--seconds", OPTION_U32, AT(seconds), 4, 600, "S", NULL, "length of each of the four runs" },
    { "--flood-tokens", OPTION_U32, AT(flood_tokens), 1, PROMPT_MAX, "N", NULL,
      "tokens of each prompt of the flood" },
    { "--jsonl", OPTION_FLAG, AT(jsonl), 0, 0, NULL, NULL, "one JSON object a row" },
};

struct samples {
    uint32_t us[SAMPLES_MAX];
    uint32_t count;
};

/* A request in flight, and where its times go; NULL: nobody wants them. */
struct slot {
    struct request *request;
    struct samples *first, *gaps;
    uint32_t seen;
    uint64_t last_us;
};

struct bench {
    struct engine *engine;
    struct rng rng;
    struct slot slots[SLOTS];
    uint32_t live;
    uint32_t step_us_max;
    uint64_t job_tokens;
};

static void note(struct samples *s, uint64_t us)
{
    if (s->count < SAMPLES_MAX)
        s->us[s->count++] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double ms_at(struct samples *s, uint32_t percent)
{
    if (s->count == 0)
        return 0.0;
    qsort(s->us, s->count, sizeof s->us[0], by_size);
    return (double)s->us[(uint64_t)(s->count - 1) * percent / 100] / 1e3;
}

static void die(const struct fault *fault)
{
    fprintf(stderr, "fairness: %s\n", fault->text);
    exit(1);
}

static struct slot *submit(struct bench *b, struct request_params p, struct samples *first,
                           struct samples *gaps)
{
    static int32_t prompt[PROMPT_MAX];
    uint32_t at = 0;
    while (at < SLOTS && b->slots[at].request != NULL)
        at++;
    if (at == SLOTS)
        return NULL;
    for (uint32_t i = 0; i < p.prompt_count; i++)
        prompt[i] = (int32_t)rng_below(&b->rng, b->engine->model->vocab_count);
    struct slot *slot = &b->slots[at];
    *slot = (struct slot){ .first = first, .gaps = gaps };
    p.prompt = prompt;
    p.sampling = sampling_default();
    p.user = slot;
    struct fault fault;
    if (sched_submit(&slot->request, b->engine->sched, &p, &fault) != RC_OK)
        die(&fault);
    b->live++;
    return slot;
}

/* Takes one event, if one comes in time. */
static void take_event(struct bench *b, uint64_t timeout_us)
{
    struct request *r = sched_next_event(b->engine->sched, timeout_us);
    if (r == NULL)
        return;
    struct slot *slot = request_user(r);
    uint64_t now_us = clock_now_us(&b->engine->clock);
    uint32_t count = request_output_count(r);
    for (; slot->seen < count; slot->seen++) {
        if (slot->seen > 0 && slot->gaps != NULL)
            note(slot->gaps, now_us - slot->last_us);
        b->job_tokens += slot->gaps == NULL;
        slot->last_us = now_us;
    }
    struct sched_stats st = sched_stats_get(b->engine->sched);
    b->step_us_max = st.step_us > b->step_us_max ? st.step_us : b->step_us_max;
    if (request_finish(r) == FINISH_NONE)
        return;
    struct request_times t = request_times_get(r);
    if (slot->first != NULL && t.first_token_us > 0)
        note(slot->first, t.first_token_us - t.arrival_us);
    sched_release(b->engine->sched, r);
    slot->request = NULL;
    b->live--;
}

static void end_all(struct bench *b)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (b->slots[i].request != NULL)
            request_cancel(b->slots[i].request);
    while (b->live > 0)
        take_event(b, 1000000);
}

static void print_head(const struct bench *b, const char *run)
{
    char line[256], cpu[128] = "unknown";
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL)
        if (sscanf(line, "model name : %127[^\n\"]", cpu) == 1)
            break;
    if (info != NULL)
        fclose(info);
    printf("{\"run\": \"%s\", \"cpu\": \"%s\", \"model\": \"%s\", \"threads\": %u, "
           "\"itl_ms\": %u, ",
           run, cpu, b->engine->name, b->engine->options.threads, b->engine->options.itl_ms);
}

/* A short prompt each second for so many of them; the first two are not counted. */
static void ask_each_second(struct bench *b, uint32_t seconds, struct samples *first)
{
    uint64_t next_us = clock_now_us(&b->engine->clock) + 1000000;
    for (uint32_t second = 0; second < seconds; second++, next_us += 1000000) {
        for (uint64_t now_us; (now_us = clock_now_us(&b->engine->clock)) < next_us;)
            take_event(b, next_us - now_us);
        struct request_params p = { .prompt_count = 64, .max_tokens = 8, .tenant = 2 };
        if (second == 2)
            b->step_us_max = 0;
        submit(b, p, second < 2 ? NULL : first, NULL);
    }
}

static void run_flood(struct bench *b, const struct flags *flags)
{
    static struct samples solo, flood;
    ask_each_second(b, flags->seconds, &solo);
    end_all(b);
    struct request_params p = { .prompt_count = flags->flood_tokens, .max_tokens = 64 };
    p.tenant = 1;
    for (uint32_t i = 0; i < FLOOD; i++)
        submit(b, p, NULL, NULL);
    ask_each_second(b, flags->seconds, &flood);
    double chunk = b->step_us_max / 1e3;
    end_all(b);
    double bound = 2 * ms_at(&solo, 50) + chunk;
    if (flags->jsonl)
        print_head(b, "flood");
    if (flags->jsonl)
        printf("\"asked\": %u, \"alone_ms\": [%.1f, %.1f], \"flood_ms\": [%.1f, %.1f], "
               "\"longest_step_ms\": %.1f, \"bound_ms\": %.1f}\n",
               flood.count, ms_at(&solo, 50), ms_at(&solo, 100), ms_at(&flood, 50),
               ms_at(&flood, 100), chunk, bound);
    else
        printf("first token of a short prompt, ms   median   longest\n"
               "  alone                           %8.1f  %8.1f\n"
               "  beside 64 prompts of another    %8.1f  %8.1f   (%u asked; twice alone and the "
               "longest step: %.1f)\n",
               ms_at(&solo, 50), ms_at(&solo, 100), ms_at(&flood, 50), ms_at(&flood, 100),
               flood.count, bound);
}

/* Two users who ask and read without a pause, beside so many spare jobs. */
static void talk(struct bench *b, uint64_t us, uint32_t jobs, struct samples *gaps)
{
    struct request_params user = { .prompt_count = 32, .max_tokens = 64 };
    struct request_params job = { .prompt_count = 64, .max_tokens = 64 };
    user.priority = PRIORITY_INTERACTIVE;
    job.priority = PRIORITY_SPARE;
    struct slot *users[2] = { NULL, NULL };
    for (uint64_t end_us = clock_now_us(&b->engine->clock) + us;
         clock_now_us(&b->engine->clock) < end_us;) {
        for (uint32_t i = 0; i < 2; i++)
            if (users[i] == NULL || users[i]->request == NULL)
                users[i] = submit(b, user, NULL, gaps);
        while (b->live < 2 + jobs)
            submit(b, job, NULL, NULL);
        take_event(b, 100000);
    }
    end_all(b);
}

static void run_spare(struct bench *b, const struct flags *flags)
{
    static struct samples alone, beside;
    uint64_t round_us = (uint64_t)flags->seconds * 1000000 / ROUNDS, tokens = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        talk(b, round_us, 0, &alone);
        b->job_tokens = 0;
        talk(b, round_us, JOBS, &beside);
        tokens += b->job_tokens;
    }
    double ratio = ms_at(&beside, 95) / ms_at(&alone, 95);
    if (flags->jsonl)
        print_head(b, "spare");
    if (flags->jsonl)
        printf("\"gaps\": %u, \"alone_ms\": [%.2f, %.2f], \"beside_ms\": [%.2f, %.2f], "
               "\"p95_ratio\": %.3f, \"job_tokens\": %llu}\n",
               beside.count, ms_at(&alone, 50), ms_at(&alone, 95), ms_at(&beside, 50),
               ms_at(&beside, 95), ratio, (unsigned long long)tokens);
    else
        printf("between two tokens of a user, ms    median       p95\n"
               "  two users                       %8.2f  %8.2f\n"
               "  beside spare jobs               %8.2f  %8.2f   (%.3f; jobs got %llu tokens)\n",
               ms_at(&alone, 50), ms_at(&alone, 95), ms_at(&beside, 50), ms_at(&beside, 95), ratio,
               (unsigned long long)tokens);
}

int main(int argc, char **argv)
{
    struct flags flags = { .seconds = 16, .flood_tokens = 1500 };
    struct engine_options options = engine_options_default();
    options.itl_ms = 100;
    options.quiet = true;
    struct option_group groups[] = {
        { "fairness", flag_rows, sizeof flag_rows / sizeof flag_rows[0], &flags },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { .command = "fairness",
                              .usage = "-m MODEL",
                              .purpose = "What one user sees of another.",
                              .groups = groups,
                              .group_count = 2 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    struct engine_needs needs = { .thread = true, .requests_max = SLOTS };
    static struct bench b;
    struct engine e;
    struct fault fault;
    if (engine_open(&e, &options, &needs, &fault) != RC_OK)
        return engine_complain("fairness", &fault);
    b = (struct bench){ .engine = &e, .rng = rng_seeded(1) };
    if (flags.flood_tokens + 64 > sched_ctx_tokens(e.sched)) {
        fprintf(stderr, "fairness: -c is under --flood-tokens and 64 more\n");
        engine_close(&e);
        return 2;
    }
    run_flood(&b, &flags);
    run_spare(&b, &flags);
    engine_close(&e);
    return 0;
}
