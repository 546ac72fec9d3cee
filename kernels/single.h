/* SPDX-License-Identifier: MIT */
/* single - one sequence at a time through an executor, without scheduler and pool: the loop that
 * paging and batching are measured against. It keeps the keys and values of its last conversation:
 * of a prompt that begins like it only the rest is computed.
 *   owner    one thread, worker 0 of the executor
 *   errors   RC_LIMIT for what the context cannot hold; else those of the executor
 *   layout   single_open has a cache of its own, contiguous by layer and head; single_over takes
 *            any block table, so that paging is measured with the very same loop and kernels */
#ifndef QUIRE_KERNELS_SINGLE_H
#define QUIRE_KERNELS_SINGLE_H

#include "core/executor.h"
#include "kernels/exec_cpu.h"

struct single {
    struct executor executor;
    struct sampling sampling; /* greedy at first; the caller's to change between calls */
    /* Before positions [begin, end) are computed, tokens [0, end) known: may extend the table. May
     * be NULL. */
    enum rc (*grow)(void *ctx, const int32_t *tokens, uint32_t begin, uint32_t end);
    void *grow_ctx;

    const uint32_t *blocks; /* block table: entry i holds positions 32 i .. 32 i + 31 */
    uint32_t chunk_tokens;  /* of a prompt, in a step */
    int32_t *tokens;        /* [ctx] prompt and output */
    uint32_t prompt_count, known;
    uint32_t computed; /* tokens whose keys and values are there */
    struct batch_result result;
    /* of single_open */
    struct exec_cpu *exec;
    uint32_t *identity;
    void *map;
    size_t map_bytes;
};

/* single_open - with an executor and a contiguous cache for config->ctx_max tokens of its own;
 * config's fields kv_base to kv_contiguous are filled in here. */
enum rc single_open(struct single *s, const struct model *m, struct workers *w,
                    const struct exec_cpu_config *config, struct fault *fault) ATTR_MUST_USE;

/* single_over - over somebody else's executor, cache and block table. */
enum rc single_over(struct single *s, struct executor executor, const uint32_t *blocks,
                    struct fault *fault) ATTR_MUST_USE;

/* single_close - takes half-opened ones. */
void single_close(struct single *s);

/* single_ask - takes a prompt of count tokens: *token is the first of its answer. single_next - the
 * one after the last one. */
enum rc single_ask(struct single *s, const int32_t *prompt, uint32_t count,
                   int32_t *token) ATTR_MUST_USE;
enum rc single_next(struct single *s, int32_t *token) ATTR_MUST_USE;

#endif
