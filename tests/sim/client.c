/* SPDX-License-Identifier: MIT */
/* client - requests as their submitters see them. What each must receive follows from the model
 * alone: the tokens are worked out here a second time, from the prompt, and compared one by one
 * as they come. */
#include "core/mem.h"
#include "tests/sim/world.h"

#define GROUP_MAX 6u

/* Prompts begin like one of a few texts and go on by themselves, so that prefixes are shared.
 * The first text repeats itself, so that equal blocks follow different ones. */
static void draw_prompt(struct world *w, struct client *c, uint32_t count)
{
    uint32_t vocab_count = w->symbolic.limits.vocab_count;
    uint32_t document = world_draw(w, 1, w->habits.documents);
    uint32_t shared = world_draw(w, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = document == 1 ? i % KV_BLOCK_TOKENS : i;
        c->prompt[i] = (int32_t)(i < shared ? symbolic_extend(document, (int32_t)at) % vocab_count
                                            : rng_below(&w->rng, vocab_count));
    }
}

static void draw_mask(struct client *c, uint32_t vocab_count)
{
    for (uint32_t t = 0; t < vocab_count; t++) {
        uint64_t bit = (uint64_t)1 << t % 64;
        c->mask[t / 64] |= bit;
        for (uint32_t i = 0; i < c->params.stop_id_count; i++)
            if (c->params.stop_ids[i] == (int32_t)t)
                c->mask[t / 64] &= ~bit;
    }
}

static void on_logits(void *ctx, uint32_t position, const float *logits)
{
    struct client *c = ctx;
    if (position != c->scored)
        c->scored = UINT32_MAX / 2; /* found at the finish */
    c->scored++;
    c->score_hash = symbolic_extend(c->score_hash, c->prompt[position]);
    if (logits[1] != symbolic_logprob(c->score_hash, 1))
        c->scored = UINT32_MAX / 2;
}

static void draw_fairness(struct world *w, struct request_params *p)
{
    p->tenant = world_draw(w, 0, w->habits.tenants);
    if (world_chance(w, w->habits.classes))
        p->priority = (enum priority)world_draw(w, PRIORITY_NORMAL, PRIORITY_SPARE);
    if (world_chance(w, w->habits.hurry))
        p->ttft_us = world_draw(w, 1, 300000);
    if (world_chance(w, w->habits.hurry))
        p->deadline_us = world_draw(w, 1, 1000000);
}

static void draw_params(struct world *w, struct client *c)
{
    uint32_t vocab_count = w->symbolic.limits.vocab_count;
    struct request_params *p = &c->params;
    *p = (struct request_params){ .user = c, .sampling = sampling_default() };
    p->prompt_count = world_draw(w, 1, w->habits.prompt_max);
    p->prompt = c->prompt;
    uint32_t output_max = world_chance(w, w->habits.brief) ? 8 : w->habits.output_max;
    p->max_tokens = world_chance(w, 30) ? 0 : world_draw(w, 1, output_max);
    p->sampling.seed = world_draw(w, 0, 3);
    p->cache_salt = world_chance(w, 100);
    draw_fairness(w, p);
    p->stop_id_count = world_chance(w, w->habits.stops) ? world_draw(w, 1, 2) : 0;
    for (uint32_t i = 0; i < p->stop_id_count; i++)
        p->stop_ids[i] = (int32_t)world_draw(w, 0, vocab_count - 1);
    p->min_tokens = world_chance(w, 300) ? world_draw(w, 1, 40) : 0;
    if (!world_chance(w, w->habits.extras))
        return;
    p->logprobs = world_chance(w, 500);
    p->prompt_logprobs = world_chance(w, 500);
    p->top_count = world_draw(w, 0, 3);
    if (world_chance(w, 300)) {
        p->on_logits = on_logits;
        p->on_logits_ctx = c;
    }
}

/* Free places for a group; as many as there are. */
static uint32_t free_clients(struct world *w, struct client **out, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < w->config.requests_max && found < count; i++)
        if (w->clients[i].request == NULL)
            out[found++] = &w->clients[i];
    return found;
}

/* Of its prompt, whole blocks. */
static uint32_t pin_tokens(const struct request_params *p)
{
    return p->pin ? p->prompt_count / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS : 0;
}

/* What must be said to a pin that fits as a request. */
static enum rc pin_answer(const struct world *w, const struct request_params *p)
{
    uint64_t all = pin_tokens(p), own = all;
    uint32_t most = w->config.pin_tenant_tokens;
    if (w->config.no_prefix_cache || p->prompt_count < KV_BLOCK_TOKENS)
        return RC_INVALID;
    for (uint32_t i = 0; i < w->config.requests_max; i++) {
        const struct client *o = &w->clients[i];
        if (o->request == NULL || request_finish(o->request) != FINISH_NONE)
            continue;
        all += pin_tokens(&o->params);
        own += o->params.tenant == p->tenant ? pin_tokens(&o->params) : 0;
    }
    return all > w->config.pin_tokens || (most > 0 && own > most) ? RC_LIMIT : RC_OK;
}

/* What the scheduler must answer to count requests like c. */
static bool check_answer(struct world *w, const struct client *c, uint32_t count, enum rc rc,
                         bool memory_fails)
{
    const struct request_params *p = &c->params;
    bool fits = (uint64_t)p->prompt_count + (p->max_tokens > 0) <= sched_ctx_tokens(w->sched);
    if (rc == RC_FULL && w->live + w->notices + count > w->config.requests_max)
        return true;
    if (rc == RC_NO_MEMORY && memory_fails)
        return true;
    enum rc right = !fits ? RC_LIMIT : p->pin ? pin_answer(w, p) : RC_OK;
    if (rc != right)
        return world_broken(w, "submit answered", rc, right);
    return true;
}

/* Choice i of the group that c describes was accepted as r. */
static void accept(struct world *w, struct client *to, const struct client *c, uint32_t i,
                   struct request *r)
{
    if (to != c)
        *to = *c;
    to->params.sampling.choice = i;
    if (i > 0) {
        to->params.prompt_logprobs = false;
        to->params.on_logits = NULL;
    }
    uint32_t room = sched_ctx_tokens(w->sched) - c->params.prompt_count;
    to->output_max = c->params.max_tokens < room ? c->params.max_tokens : room;
    to->hash = SYMBOLIC_EMPTY;
    for (uint32_t t = 0; t < c->params.prompt_count; t++)
        to->hash = symbolic_extend(to->hash, c->prompt[t]);
    to->order = w->order_next++;
    to->request = r;
    w->live++;
}

bool client_arrive(struct world *w)
{
    static struct client overflow; /* a request that finds no place: its answer is RC_FULL */
    struct client *places[GROUP_MAX];
    struct request *r[GROUP_MAX];
    uint32_t count = world_chance(w, w->habits.groups) ? world_draw(w, 2, GROUP_MAX) : 1;
    struct client *c = free_clients(w, places, count) == count ? places[0] : &overflow;
    *c = (struct client){ .score_hash = SYMBOLIC_EMPTY, .alone = count == 1 };
    draw_params(w, c);
    if (w->habits.pins > 0 && c->alone && world_chance(w, w->habits.pins)) {
        c->params.pin = true;
        c->params.max_tokens = 0;
    }
    draw_prompt(w, c, c->params.prompt_count);
    draw_mask(c, w->symbolic.limits.vocab_count);
    bool memory_fails = world_chance(w, w->habits.fail_memory);
    mem_fail_after(memory_fails ? world_draw(w, 1, count) : 0);
    enum rc rc = sched_submit_group(r, count, w->sched, &c->params, NULL);
    mem_fail_after(0);
    if (!check_answer(w, c, count, rc, memory_fails))
        return false;
    if (w->symbolic.log != NULL)
        fprintf(w->options->log, "submit %llu: %u x prompt %u max %u: %s\n",
                (unsigned long long)w->order_next, count, c->params.prompt_count,
                c->params.max_tokens, rc_text(rc));
    for (uint32_t i = 0; rc == RC_OK && i < count; i++)
        accept(w, places[i], c, i, r[i]);
    return true;
}

void client_cancel_one(struct world *w)
{
    uint32_t at = world_draw(w, 0, w->config.requests_max - 1);
    struct client *c = &w->clients[at];
    if (c->request == NULL || c->cancelled)
        return;
    request_cancel(c->request);
    c->cancelled = true;
    w->cancelled = c;
    w->notices++;
    if (w->symbolic.log != NULL)
        fprintf(w->options->log, "cancel %llu\n", (unsigned long long)c->order);
}

void client_cancel_pins(struct world *w)
{
    for (uint32_t i = 0; i < w->config.requests_max; i++)
        if (w->clients[i].request != NULL && w->clients[i].params.pin) {
            request_cancel(w->clients[i].request);
            w->clients[i].cancelled = true;
        }
}

/* Token index against the model. */
static bool check_token(struct world *w, struct client *c, uint32_t index)
{
    const struct request_params *p = &c->params;
    const uint64_t *mask = index < p->min_tokens && p->stop_id_count > 0 ? c->mask : NULL;
    int32_t expected = symbolic_next(c->hash, &p->sampling, mask, w->symbolic.limits.vocab_count);
    int32_t token = request_token(c->request, index);
    if (token != expected)
        return world_broken(w, "P1: a token differs from the model's", c->order, index);
    if (p->logprobs && request_logprob(c->request, index) != symbolic_logprob(c->hash, token))
        return world_broken(w, "P1: a log-probability differs", c->order, index);
    if (p->top_count > 0) {
        uint32_t count;
        const struct token_logprob *top = request_top(c->request, index, &count);
        uint32_t vocab_count = w->symbolic.limits.vocab_count;
        if (count != (p->top_count < vocab_count ? p->top_count : vocab_count) ||
            top[count - 1].logprob != symbolic_logprob(c->hash, top[count - 1].token))
            return world_broken(w, "P1: a top list differs", c->order, index);
    }
    c->hash = symbolic_extend(c->hash, token);
    c->last = token;
    return true;
}

static bool is_stop(const struct request_params *p, int32_t token)
{
    for (uint32_t i = 0; i < p->stop_id_count; i++)
        if (p->stop_ids[i] == token)
            return true;
    return false;
}

/* Scores of the prompt, when the whole prompt was computed. */
static bool check_scores(struct world *w, const struct client *c)
{
    uint64_t hash = symbolic_extend(SYMBOLIC_EMPTY, c->prompt[0]);
    for (uint32_t i = 1; c->params.prompt_logprobs && i < c->params.prompt_count; i++) {
        if (request_prompt_logprob(c->request, i) != symbolic_logprob(hash, c->prompt[i]))
            return world_broken(w, "P1: a prompt score differs", c->order, i);
        hash = symbolic_extend(hash, c->prompt[i]);
    }
    if (c->params.on_logits != NULL && c->scored != c->params.prompt_count)
        return world_broken(w, "logits of the prompt: calls", c->scored, c->params.prompt_count);
    return true;
}

static bool check_finish(struct world *w, const struct client *c, enum finish finish)
{
    bool stopped = c->seen > 0 && is_stop(&c->params, c->last);
    bool right = false;
    switch (finish) {
    case FINISH_STOP:
        right = stopped && check_scores(w, c);
        break;
    case FINISH_LENGTH:
        right = !stopped && c->seen == c->output_max && !c->params.pin && check_scores(w, c);
        break;
    case FINISH_CANCELLED:
        right = c->cancelled && !stopped;
        break;
    case FINISH_ERROR:
        right = w->failures > 0 && request_error(c->request) == RC_IO;
        break;
    case FINISH_EXPIRED: {
        struct request_times t = request_times_get(c->request);
        right = c->params.deadline_us > 0 && t.finished_us - t.arrival_us >= c->params.deadline_us;
        break;
    }
    case FINISH_NONE:
    default:
        break;
    }
    if (!right)
        return world_broken(w, "I9: a request ended wrongly", c->order, finish);
    return true;
}

static bool read_one(struct world *w, struct client *c)
{
    /* before the count: a finish is the last word */
    enum finish finish = request_finish(c->request);
    uint32_t count = request_output_count(c->request);
    if (count < c->seen || count > c->output_max)
        return world_broken(w, "output count", count, c->output_max);
    for (; c->seen < count; c->seen++) {
        if (c->seen > 0 && is_stop(&c->params, c->last))
            return world_broken(w, "a token after the stop", c->order, c->seen);
        if (!check_token(w, c, c->seen))
            return false;
    }
    w->pinned += !c->pinned && request_pinned(c->request);
    c->pinned = request_pinned(c->request);
    if (finish == FINISH_NONE)
        return true;
    if (!check_finish(w, c, finish))
        return false;
    uint32_t cached = request_cached_count(c->request);
    if (cached >= c->params.prompt_count || (w->config.no_prefix_cache && c->alone && cached > 0))
        return world_broken(w, "tokens from the cache", c->order, cached);
    sched_release(w->sched, c->request);
    c->request = NULL;
    w->live--;
    return true;
}

/* Choices of a group share one user pointer, the first one's. */
static struct client *client_of(struct world *w, const struct request *r)
{
    struct client *c = request_user(r);
    if (c->request == r)
        return c;
    for (uint32_t i = 0; i < w->config.requests_max; i++)
        if (w->clients[i].request == r)
            return &w->clients[i];
    return NULL;
}

bool client_read_all(struct world *w)
{
    struct request *r;
    while ((r = sched_next_event(w->sched, 0)) != NULL) {
        struct client *c = client_of(w, r);
        if (c == NULL)
            return world_broken(w, "I9: an event after the release", 0, 0);
        if (!read_one(w, c))
            return false;
    }
    return true;
}
