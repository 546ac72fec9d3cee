/* SPDX-License-Identifier: MIT */
/* symbolic - an executor without floats: a KV slot holds a hash of the token prefix it stands for,
 * and the next token is a function of that hash. A wrong table, a missed copy, a block reused too
 * early or filled by two writers ends in a wrong hash, and is reported at the step that did it.
 *   owner    one thread, the scheduler's
 *   errors   violation.code != RC_OK: the first broken rule, in words */
#ifndef QUIRE_TESTS_SIM_SYMBOLIC_H
#define QUIRE_TESTS_SIM_SYMBOLIC_H

#include <stdio.h>

#include "core/executor.h"

struct slot {
    uint64_t hash; /* of the prefix that ends here */
    int64_t token; /* no padding: blocks are compared and copied as bytes */
};

struct symbolic {
    struct executor_limits limits;
    uint32_t block_count;
    struct slot *slots;         /* [block][32] */
    uint64_t *writer;           /* [block] (step + 1) << 32 | span: who writes it in this step */
    float *logits;              /* [outputs_max][vocab_count] */
    struct token_logprob *tops; /* [outputs_max][OUTPUT_TOP_MAX] */
    uint64_t *row_hashes;
    uint64_t *now_us; /* virtual clock, moved by each step; may be NULL */
    /* what a step takes on that clock: rows up to knee_rows are hidden behind step_us */
    uint32_t step_us, row_us, knee_rows;
    /* a power of two less one: steps with none of these bits look at whole tables, and rows at
     * whole prefixes (they take turns) */
    uint32_t verify_mask;
    bool fail_next; /* the next run writes rubbish and fails */
    uint64_t steps, rows;
    FILE *log; /* plans in words, or NULL */
    struct fault violation;
};

enum rc symbolic_open(struct symbolic *x, uint32_t block_count,
                      const struct executor_limits *limits) ATTR_MUST_USE;
void symbolic_close(struct symbolic *x);
struct executor symbolic_executor(struct symbolic *x);

/* The model: prefix hash after one more token, the token it continues with, and
 * log-probabilities. */
#define SYMBOLIC_EMPTY 0x9e3779b97f4a7c15u
static inline uint64_t symbolic_extend(uint64_t hash, int32_t token)
{
    hash = (hash ^ ((uint64_t)(uint32_t)token + 0x632be59bd9b4e019u)) * 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 32);
}

static inline int32_t symbolic_next(uint64_t hash, const struct sampling *sampling,
                                    const uint64_t *mask, uint32_t vocab_count)
{
    uint64_t key = symbolic_extend(hash ^ sampling->seed, (int32_t)sampling->choice);
    uint32_t token = (uint32_t)((key >> 32) * vocab_count >> 32);
    while (mask != NULL && (mask[token / 64] >> token % 64 & 1) == 0)
        token = token + 1 < vocab_count ? token + 1 : 0;
    return (int32_t)token;
}

static inline float symbolic_logprob(uint64_t hash, int32_t token)
{
    return -(float)(symbolic_extend(hash, token) >> 44) / 4096.0f;
}

#endif
