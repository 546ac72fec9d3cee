/* SPDX-License-Identifier: MIT */
/* single - prompts go in chunks as wide as the executor takes, then every step is one row. The
 * contiguous cache:
 *
 *   layer 0  head 0  [keys 0..31][values 0..31][keys 32..63] ... up to the context
 *            head 1  ...
 *   layer 1  ...
 *
 * Keys stay in tiles of 32, because lanes of the kernels are keys; from tile to tile it is one run.
 * Kernels know tables alone, so the loop has one where entry i is i: what reading it costs is in
 * its own time too, and is counted apart (bench/README.md). Its memory is mapped and advised like
 * the pool's, so that they differ in nothing but the order of bytes. */
#include "kernels/single.h"

#include <string.h>
#include <sys/mman.h>

#include "core/mem.h"
#include "core/must.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static uint32_t blocks_for(uint32_t tokens)
{
    return (tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static enum rc map_cache(struct single *s, struct exec_cpu_config *c, struct fault *fault)
{
    size_t bytes;
    if (__builtin_mul_overflow(c->kv_block_bytes, (size_t)c->kv_block_count, &bytes) ||
        bytes > SIZE_MAX / 2)
        return fault_set(fault, RC_NO_FIT, "a cache of %u tokens is too large", c->ctx_max);
    s->map_bytes = bytes + HUGE_PAGE_BYTES;
    s->map = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->map == MAP_FAILED) {
        s->map = NULL;
        return fault_set_errno(fault, RC_NO_FIT, "a cache of %zu MiB", bytes >> 20);
    }
    uintptr_t first = (uintptr_t)s->map;
    c->kv_base = (char *)s->map + (HUGE_PAGE_BYTES - first % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    (void)madvise(c->kv_base, bytes, MADV_HUGEPAGE);
    return RC_OK;
}

enum rc single_over(struct single *s, struct executor executor, const uint32_t *blocks,
                    struct fault *fault)
{
    *s = (struct single){ .executor = executor, .blocks = blocks };
    s->sampling = sampling_default();
    s->sampling.temperature = 0;
    s->chunk_tokens = executor.limits.rows_max;
    s->tokens = mem_alloc_array(executor.limits.ctx_max, sizeof *s->tokens);
    if (s->tokens == NULL)
        return fault_set(fault, RC_NO_MEMORY, "single sequence: out of memory");
    return RC_OK;
}

enum rc single_open(struct single *s, const struct model *m, struct workers *w,
                    const struct exec_cpu_config *config, struct fault *fault)
{
    struct exec_cpu_config c = *config;
    struct single own = { 0 };
    *s = own;
    c.kv_block_count = blocks_for(c.ctx_max);
    c.kv_contiguous = true;
    enum rc rc = exec_cpu_block_bytes(&c.kv_block_bytes, m, c.kv_types, fault);
    if (rc == RC_OK)
        rc = map_cache(&own, &c, fault);
    if (rc == RC_OK)
        rc = exec_cpu_open(&own.exec, m, w, &c, fault);
    own.identity = mem_alloc_array(c.kv_block_count, sizeof *own.identity);
    if (rc == RC_OK && own.identity == NULL)
        rc = fault_set(fault, RC_NO_MEMORY, "single sequence: out of memory");
    if (rc != RC_OK) {
        single_close(&own);
        return rc;
    }
    for (uint32_t i = 0; i < c.kv_block_count; i++)
        own.identity[i] = i;
    rc = single_over(s, exec_cpu_executor(own.exec), own.identity, fault);
    s->exec = own.exec;
    s->identity = own.identity;
    s->map = own.map;
    s->map_bytes = own.map_bytes;
    if (rc != RC_OK)
        single_close(s);
    return rc;
}

void single_close(struct single *s)
{
    exec_cpu_close(s->exec);
    mem_free(s->identity);
    mem_free(s->tokens);
    if (s->map != NULL)
        must(munmap(s->map, s->map_bytes) == 0);
    *s = (struct single){ 0 };
}

/* The next rows of what is known; the token after them in *token unless it is NULL. */
static enum rc compute(struct single *s, uint32_t rows, int32_t *token)
{
    uint32_t begin = s->computed, end = begin + rows;
    enum rc rc = s->grow != NULL ? s->grow(s->grow_ctx, s->tokens, begin, end) : RC_OK;
    if (rc != RC_OK)
        return rc;
    struct batch_span span = {
        .row_count = rows, .pos_begin = begin, .table_count = blocks_for(end), .table = s->blocks
    };
    struct batch_output output = { .row = rows - 1,
                                   .sample = true,
                                   .target = -1,
                                   .sampling = &s->sampling,
                                   .history = s->tokens,
                                   .history_count = end,
                                   .prompt_count = s->prompt_count };
    struct batch b = { .tokens = s->tokens + begin,
                       .row_count = rows,
                       .spans = &span,
                       .span_count = 1,
                       .outputs = &output,
                       .output_count = token != NULL };
    rc = s->executor.run(s->executor.ctx, &b, &s->result);
    if (rc != RC_OK)
        return rc;
    s->computed = end;
    if (token != NULL)
        *token = s->result.token;
    return RC_OK;
}

/* What both begin with. */
static uint32_t common_tokens(const int32_t *a, const int32_t *b, uint32_t most)
{
    uint32_t n = 0;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

enum rc single_ask(struct single *s, const int32_t *prompt, uint32_t count, int32_t *token)
{
    if (count == 0 || count >= s->executor.limits.ctx_max)
        return RC_LIMIT;
    uint32_t kept = s->computed < count ? s->computed : count - 1;
    kept = common_tokens(s->tokens, prompt, kept);
    memcpy(s->tokens + kept, prompt + kept, (count - kept) * sizeof *prompt);
    s->computed = kept;
    s->known = s->prompt_count = count;
    enum rc rc = RC_OK;
    while (rc == RC_OK && count - s->computed > s->chunk_tokens)
        rc = compute(s, s->chunk_tokens, NULL);
    if (rc == RC_OK)
        rc = compute(s, count - s->computed, token);
    if (rc == RC_OK)
        s->tokens[s->known++] = *token;
    return rc;
}

enum rc single_next(struct single *s, int32_t *token)
{
    must(s->computed + 1 == s->known);
    if (s->known == s->executor.limits.ctx_max)
        return RC_LIMIT;
    enum rc rc = compute(s, 1, token);
    if (rc == RC_OK)
        s->tokens[s->known++] = *token;
    return rc;
}
