/* SPDX-License-Identifier: MIT */
/* cross_tax - what paging and scheduling cost one user: the same conversation by A, B, C and D (see
 * cross_plan.h), step by step in turn, so that whatever the host does hits all of them alike.
 *   clock   a step of each: prompt to first token, then every further token. Of each part of the
 *           answer the median token counts, so that a step during which the host was away does not
 *   errors  RC_CORRUPT when their texts differ */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_TAX_H
#define QUIRE_FRONTEND_BENCH_CROSS_TAX_H

#include "frontend/bench/cross_serve.h"

enum { TAX_RUNGS = 4, TAX_PARTS = 16 };

struct cross_tax {
    double prompt_ms[TAX_RUNGS];
    double token_ms[TAX_PARTS][TAX_RUNGS]; /* medians of output_tokens / TAX_PARTS tokens each */
};

/* cross_tax_run - output_tokens, behind the first one: a multiple of TAX_PARTS. The order of the
 * four turns with every token, and its beginning with the round. */
enum rc cross_tax_run(struct cross_rig *rig, uint32_t prompt_tokens, uint32_t output_tokens,
                      uint32_t round, struct cross_tax *out, struct fault *fault) ATTR_MUST_USE;

#endif
