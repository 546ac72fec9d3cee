/* SPDX-License-Identifier: MIT */
/* request - making, counting and freeing of records. A record is one allocation made by the
 * submitter's thread, arrays behind it, sized for the longest answer the request can have; the step
 * path allocates nothing. Large arrays are untouched until tokens arrive, so a long limit costs
 * address space, not memory.
 *
 *   [request][stop mask][tokens][block table][bias][logprobs][tops][top counts][scores] */
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "sched/record.h"

/* Cuts arrays from one allocation; with base NULL it only adds up. All counts are under 2^26 and
 * sizes under 2^8, so nothing wraps. */
struct carve {
    char *base;
    size_t used;
};

static void *carve_take(struct carve *c, bool wanted, size_t count, size_t size)
{
    if (!wanted)
        return NULL;
    size_t at = c->used;
    c->used = (at + count * size + 15) & ~(size_t)15;
    return c->base != NULL ? c->base + at : NULL;
}

static void carve_arrays(struct request *r, struct carve *c, const struct request_params *p,
                         uint32_t output_max, uint32_t vocab_count)
{
    uint32_t tokens = p->prompt_count + output_max;
    bool masked = p->min_tokens > 0 && p->stop_id_count > 0;
    bool top = p->top_count > 0;
    uint32_t capacity = kv_blocks_for(tokens);
    carve_take(c, true, 1, sizeof *r);
    r->stop_mask = carve_take(c, masked, (vocab_count + 63) / 64, sizeof(uint64_t));
    r->tokens = carve_take(c, true, tokens, sizeof(int32_t));
    r->seq.table = (struct block_table){
        .blocks = carve_take(c, true, capacity, sizeof(uint32_t)),
        .capacity = capacity,
    };
    r->params.sampling.bias =
        carve_take(c, true, p->sampling.bias_count, sizeof(struct logit_bias));
    r->logprobs = carve_take(c, p->logprobs || top, output_max, sizeof(float));
    r->tops = carve_take(c, top, (size_t)output_max * p->top_count, sizeof(struct token_logprob));
    r->top_counts = carve_take(c, top, output_max, sizeof(uint8_t));
    r->prompt_logprobs = carve_take(c, p->prompt_logprobs, p->prompt_count, sizeof(float));
    r->prompt_tops =
        carve_take(c, top && p->prompt_logprobs, (size_t)p->prompt_count * p->top_count,
                   sizeof(struct token_logprob));
    r->prompt_top_counts =
        carve_take(c, top && p->prompt_logprobs, p->prompt_count, sizeof(uint8_t));
}

/* Bits of all tokens but the stop ids; false when none is left. */
static bool fill_stop_mask(uint64_t *mask, const struct request_params *p, uint32_t vocab_count)
{
    uint32_t words = (vocab_count + 63) / 64;
    memset(mask, 0xff, words * sizeof *mask);
    if (vocab_count % 64 != 0)
        mask[words - 1] = ((uint64_t)1 << vocab_count % 64) - 1;
    for (uint32_t i = 0; i < p->stop_id_count; i++)
        mask[p->stop_ids[i] / 64] &= ~((uint64_t)1 << p->stop_ids[i] % 64);
    for (uint32_t i = 0; i < words; i++)
        if (mask[i] != 0)
            return true;
    return false;
}

static enum rc check_tokens(const struct request_params *p, uint32_t vocab_count,
                            struct fault *fault)
{
    for (uint32_t i = 0; i < p->prompt_count; i++)
        if (p->prompt[i] < 0 || (uint32_t)p->prompt[i] >= vocab_count)
            return fault_set(fault, RC_INVALID, "prompt: token %d at index %u is not in 0..%u",
                             p->prompt[i], i, vocab_count - 1);
    if (p->stop_id_count > STOP_IDS_MAX)
        return fault_set(fault, RC_INVALID, "stop_ids: %u given, at most %u", p->stop_id_count,
                         STOP_IDS_MAX);
    for (uint32_t i = 0; i < p->stop_id_count; i++)
        if (p->stop_ids[i] < 0 || (uint32_t)p->stop_ids[i] >= vocab_count)
            return fault_set(fault, RC_INVALID, "stop_ids: token %d is not in 0..%u",
                             p->stop_ids[i], vocab_count - 1);
    return RC_OK;
}

static enum rc check_pin(const struct sched *s, const struct request_params *p, struct fault *fault)
{
    if (s->config.no_prefix_cache)
        return fault_set(fault, RC_INVALID, "pin: there is no prefix cache");
    if (s->pin_tokens == 0)
        return fault_set(fault, RC_LIMIT, "pin: 0 tokens are kept for pins");
    if (p->max_tokens > 0)
        return fault_set(fault, RC_INVALID, "pin: max_tokens is %u, not 0", p->max_tokens);
    if (p->prompt_count < KV_BLOCK_TOKENS)
        return fault_set(fault, RC_INVALID, "pin: %u tokens, blocks have %u", p->prompt_count,
                         KV_BLOCK_TOKENS);
    return RC_OK;
}

static enum rc check_params(const struct sched *s, const struct request_params *p,
                            struct fault *fault)
{
    uint32_t vocab_count = s->executor.limits.vocab_count;
    if (p->prompt_count == 0)
        return fault_set(fault, RC_INVALID, "prompt: no token");
    uint64_t least = (uint64_t)p->prompt_count + (p->max_tokens > 0);
    if (least > s->ctx_tokens)
        return fault_set(
            fault, RC_LIMIT,
            "prompt of %u tokens%s is over the limit of %u (context %u, KV pool %u tokens)",
            p->prompt_count, p->max_tokens > 0 ? " and one more" : "", s->ctx_tokens,
            s->config.ctx_tokens, kvpool_block_count(s->pool) * KV_BLOCK_TOKENS);
    enum rc rc = check_tokens(p, vocab_count, fault);
    if (rc != RC_OK)
        return rc;
    if (p->top_count > OUTPUT_TOP_MAX)
        return fault_set(fault, RC_INVALID, "top log-probabilities: %u given, at most %u",
                         p->top_count, OUTPUT_TOP_MAX);
    if (p->on_hidden != NULL && s->executor.hidden == NULL)
        return fault_set(fault, RC_INVALID, "hidden states are not to be had here");
    if (p->on_hidden != NULL && p->hidden_from >= p->prompt_count)
        return fault_set(fault, RC_INVALID, "hidden states from position %u of a prompt of %u",
                         p->hidden_from, p->prompt_count);
    rc = p->pin ? check_pin(s, p, fault) : RC_OK;
    return rc == RC_OK ? sampling_check(&p->sampling, vocab_count, fault) : rc;
}

static uint32_t output_max_of(const struct sched *s, const struct request_params *p)
{
    uint32_t room = s->ctx_tokens - p->prompt_count;
    return p->max_tokens < room ? p->max_tokens : room;
}

/* Copies what the caller may change or free after the call. */
static void copy_params(struct request *r, const struct request_params *p)
{
    const struct logit_bias *bias = r->params.sampling.bias;
    r->params = *p;
    memcpy(r->tokens, p->prompt, p->prompt_count * sizeof *r->tokens);
    r->params.prompt = r->tokens;
    if (p->sampling.bias_count > 0)
        memcpy((void *)(uintptr_t)bias, p->sampling.bias, p->sampling.bias_count * sizeof *bias);
    r->params.sampling.bias = bias;
}

/* A time from now, UINT64_MAX for never. */
static uint64_t wish(uint64_t now_us, uint64_t after_us)
{
    return after_us > 0 && after_us < UINT64_MAX - now_us ? now_us + after_us : UINT64_MAX;
}

enum rc request_make(struct request **out, struct sched *s, const struct request_params *p,
                     struct fault *fault)
{
    *out = NULL;
    enum rc rc = check_params(s, p, fault);
    if (rc != RC_OK)
        return rc;
    uint32_t vocab_count = s->executor.limits.vocab_count;
    uint32_t output_max = output_max_of(s, p);
    struct request sizes = { 0 };
    struct carve c = { 0 };
    carve_arrays(&sizes, &c, p, output_max, vocab_count);
    struct request *r = mem_alloc_raw(c.used);
    if (r == NULL)
        return fault_set(fault, RC_NO_MEMORY, "request: out of memory for %zu bytes", c.used);
    *r = (struct request){ .magic = REQUEST_MAGIC, .sched = s, .output_max = output_max };
    c = (struct carve){ .base = (char *)r };
    carve_arrays(r, &c, p, output_max, vocab_count);
    copy_params(r, p);
    if (r->stop_mask != NULL && !fill_stop_mask(r->stop_mask, p, vocab_count)) {
        mem_free(r);
        return fault_set(fault, RC_INVALID, "min_tokens: the stop ids are the whole vocabulary");
    }
    r->seq.known = p->prompt_count;
    r->salt = p->cache_salt;
    uint64_t now_us = clock_now_us(&s->clock);
    atomic_init(&r->arrival_us, now_us);
    r->seq.first_by_us = wish(now_us, p->ttft_us);
    r->seq.end_by_us = wish(now_us, p->deadline_us);
    atomic_init(&r->refs, 2);
    *out = r;
    return RC_OK;
}

void request_free(struct request *r)
{
    must(r->magic == REQUEST_MAGIC);
    r->magic = 0;
    mem_free(r);
}

void request_ref(struct request *r)
{
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
}

void request_drop(struct request *r)
{
    uint32_t before = atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    struct sched *s = r->sched;
    pthread_mutex_lock(&s->registry_lock);
    *(r->registry_prev != NULL ? &r->registry_prev->registry_next : &s->registry) =
        r->registry_next;
    if (r->registry_next != NULL)
        r->registry_next->registry_prev = r->registry_prev;
    s->registry_count--;
    pthread_mutex_unlock(&s->registry_lock);
    request_free(r);
}

void request_cancel(struct request *r)
{
    must(r->magic == REQUEST_MAGIC);
    if (atomic_exchange_explicit(&r->cancel, true, memory_order_relaxed))
        return;
    request_ref(r);
    enum rc rc = ring_push(r->sched->inbox, r);
    must(rc == RC_OK); /* two entries for every record: itself and one notice */
}

void *request_user(const struct request *r)
{
    return r->params.user;
}

uint32_t request_choice(const struct request *r)
{
    return r->params.sampling.choice;
}

uint32_t request_prompt_count(const struct request *r)
{
    return r->params.prompt_count;
}
