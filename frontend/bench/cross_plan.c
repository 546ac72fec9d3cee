/* SPDX-License-Identifier: MIT */
/* cross_plan - see cross_plan.h. Sizes at scale 1 suit a model that computes some hundred prompt
 * tokens a second; a slower one gets shorter texts rather than fewer rounds, because intervals come
 * from rounds. Forecasts know three speeds and no queue; they are good to about a third. */
#include "frontend/bench/cross_plan.h"

#include <math.h>

#include "core/limits.h"
#include "core/must.h"
#include "core/rng.h"

const struct rung_text rung_texts[RUNGS] = {
    { "A", "one at a time",
      "contiguous cache, first come first served, keeps its last conversation" },
    { "B", "in blocks", "the same loop over paged blocks, in order" },
    { "C", "shuffled", "blocks in disorder, as a pool's become" },
    { "D", "scheduler", "the scheduler with one place" },
    { "E", "batching", "all users in one step" },
    { "F", "prefix cache", "beginnings that were computed once are taken over" },
    { "G", "shared reads", "common blocks are read once a step: what quire serves with" },
};

const uint32_t open_loads[OPEN_LOADS] = { 30, 60, 90 };

static const struct workload full_sizes[WORKLOADS] = {
    { "short", "short questions, nothing shared", 0, 1, 64, 32, 0, 0, 8 },
    { "chat", "chats of eight turns behind one system prompt", 64, 8, 20, 8, 0, 0, 2 },
    { "document", "questions about one document", 512, 1, 24, 24, 0, 0, 16 },
    { "mixed", "one long prompt amid four chats", 0, 1, 32, 32, 384, 8, 10 },
};

static uint32_t scaled(uint32_t tokens, double scale)
{
    if (tokens == 0)
        return 0;
    double result = round(tokens * scale);
    return result < 2 ? 2 : (uint32_t)result;
}

/* What everybody shares is whole blocks: parts of blocks are copied, not shared. */
static uint32_t scaled_head(uint32_t tokens, double scale)
{
    uint32_t blocks = (uint32_t)round(tokens * scale / KV_BLOCK_TOKENS);
    return tokens == 0 ? 0 : (blocks > 0 ? blocks : 1) * KV_BLOCK_TOKENS;
}

void cross_plan_open(struct cross_plan *p, const struct cross_shape *shape)
{
    static const uint32_t full[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 }, few[] = { 1, 2, 4, 8, 16 };
    const bool quick = shape->quick;
    const double scale = shape->scale;
    *p = (struct cross_plan){ .shape = *shape, .open_rounds = (shape->rounds + 1) / 2 };
    p->user_count = quick ? sizeof few / sizeof *few : sizeof full / sizeof *full;
    p->user_count = shape->user_count > 0 ? shape->user_count : p->user_count;
    for (uint32_t i = 0; i < p->user_count; i++)
        p->users[i] = shape->user_count > 0 ? shape->users[i] : quick ? few[i] : full[i];
    p->workload_count = quick ? 2 : WORKLOADS;
    for (uint32_t i = 0; i < p->workload_count; i++) {
        struct workload *w = &p->workloads[i];
        *w = full_sizes[i];
        w->head = scaled_head(w->head, scale);
        w->text = scaled(w->text, scale);
        w->answer = scaled(w->answer, scale);
        w->long_text = scaled(w->long_text, scale);
        w->long_answer = scaled(w->long_answer, scale);
        if (quick && w->turns == 1)
            w->sessions_min = 4;
    }
}

bool session_is_long(const struct workload *w, uint32_t index)
{
    return w->long_text > 0 && index % 5 == 2;
}

uint32_t session_text(const struct workload *w, uint32_t index)
{
    return session_is_long(w, index) ? w->long_text : w->text;
}

uint32_t session_answer(const struct workload *w, uint32_t index)
{
    return session_is_long(w, index) ? w->long_answer : w->answer;
}

uint32_t session_tokens(const struct workload *w, uint32_t index)
{
    return w->head + w->turns * (session_text(w, index) + session_answer(w, index));
}

uint32_t workload_tokens(const struct workload *w)
{
    uint32_t usual = session_tokens(w, 0), longest = session_tokens(w, 2);
    return longest > usual ? longest : usual;
}

/* Of all turns of a session: the text before each of them, and its own. */
static double prompt_tokens(const struct workload *w, uint32_t index)
{
    double turn = session_text(w, index) + session_answer(w, index);
    return w->turns * (w->head + session_text(w, index) + turn * (w->turns - 1) / 2.0);
}

double workload_shared(const struct workload *w)
{
    double fresh = (double)w->turns * session_text(w, 0);
    bool alone = w->head == 0 && w->turns == 1;
    return alone ? 0 : 1 - fresh / prompt_tokens(w, 0);
}

/* ---- runs ---- */

static uint32_t sessions_of(const struct workload *w, uint32_t users)
{
    uint32_t rounds = w->turns > 1 ? 1 : 2; /* a chat has turns enough */
    uint32_t sessions = users * rounds;
    if (w->long_text > 0)
        sessions = (sessions + 4) / 5 * 5;
    return sessions > w->sessions_min ? sessions : w->sessions_min;
}

/* Fewer would be a matter of luck. */
static uint32_t open_sessions(const struct cross_plan *p, const struct workload *w)
{
    return sessions_of(w, (w->turns > 1 ? 8 : 16) / (p->shape.quick ? 2 : 1));
}

/* Rungs at one load: the ones to compare, all of them at one user. The order turns from round to
 * round and from load to load. */
static uint32_t add_rungs(const struct cross_run *like, uint32_t turn, struct cross_run *out)
{
    static const enum rung compared[] = { RUNG_A, RUNG_E, RUNG_F, RUNG_G };
    bool all = !like->open && like->load == 1;
    uint32_t count = all ? RUNGS + 1u : sizeof compared / sizeof *compared;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = (i + turn) % count;
        out[i] = *like;
        out[i].again = k == RUNGS;
        out[i].rung = !all ? compared[k] : k < RUNGS ? k : RUNG_A;
    }
    return count;
}

uint32_t cross_plan_runs(const struct cross_plan *p, struct cross_run runs[CROSS_RUNS_MAX])
{
    uint32_t count = 0;
    for (uint32_t round = 0; round < p->shape.rounds; round++)
        for (uint32_t w = 0; w < p->workload_count; w++)
            for (uint32_t u = 0; u < p->user_count; u++) {
                struct cross_run like = { .workload = w, .round = round, .load = p->users[u] };
                like.sessions = sessions_of(&p->workloads[w], like.load);
                count += add_rungs(&like, round + u, runs + count);
                must(count <= CROSS_RUNS_MAX - RUNGS - 1);
            }
    for (uint32_t round = 0; round < p->open_rounds; round++)
        for (uint32_t w = 0; w < p->workload_count; w++)
            for (uint32_t u = 0; u < OPEN_LOADS; u++) {
                struct cross_run like = { .workload = w, .round = round, .open = true };
                like.load = open_loads[u];
                like.sessions = open_sessions(p, &p->workloads[w]);
                count += add_rungs(&like, round + u, runs + count);
                must(count <= CROSS_RUNS_MAX - RUNGS - 1);
            }
    return count;
}

/* ---- arrivals ---- */

void cross_arrivals(uint64_t seed, uint32_t round, double sessions_s, uint32_t count,
                    uint64_t *due_us)
{
    double at_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        at_us += -log(1 - rng_unit_at(seed, round, i)) / sessions_s * 1e6;
        due_us[i] = (uint64_t)at_us;
    }
}

/* ---- forecast ---- */

/* One row a step gives one_s, sixteen give many_s; between them and beyond by the logarithm. */
static double tokens_s(const struct cross_speeds *s, double rows)
{
    double share = log2(rows < 1 ? 1 : rows > 32 ? 32 : rows) / 4;
    return s->one_s + (s->many_s - s->one_s) * (share > 1 ? 1 : share);
}

double cross_run_seconds(const struct cross_plan *p, const struct cross_run *run,
                         const struct cross_speeds *speeds)
{
    const struct workload *w = &p->workloads[run->workload];
    bool one = run->rung < RUNG_E;
    double rows = one ? 1 : run->open ? 4 : run->load, fresh = 0, answers = 0;
    rows = rows < run->sessions ? rows : run->sessions;
    for (uint32_t i = 0; i < run->sessions; i++) {
        double new_text = (double)w->turns * session_text(w, i);
        bool cached = run->rung != RUNG_E && run->rung != RUNG_D;
        bool kept = cached && (run->rung >= RUNG_F || run->load == 1);
        fresh += kept ? new_text : prompt_tokens(w, i) - (cached ? (double)w->turns * w->head : 0);
        answers += (double)w->turns * session_answer(w, i);
    }
    return (fresh + w->head) / speeds->prompt_s + answers / tokens_s(speeds, rows);
}

void cross_plan_fit(struct cross_plan *p, const struct cross_speeds *speeds, double seconds)
{
    struct cross_run runs[CROSS_RUNS_MAX];
    for (;;) {
        uint32_t count = cross_plan_runs(p, runs);
        p->seconds = 0;
        for (uint32_t i = 0; i < count; i++)
            p->seconds += cross_run_seconds(p, &runs[i], speeds);
        if (p->seconds <= seconds)
            return;
        struct cross_shape less = p->shape;
        if (less.scale > 0.5 || (less.rounds <= 3 && less.scale > 0.25))
            less.scale *= 0.9;
        else if (less.rounds > 3)
            less.rounds--;
        else
            return;
        cross_plan_open(p, &less);
    }
}
