/* SPDX-License-Identifier: MIT */
/* logprob - log-probabilities of one row of logits, from the peaks of its stretches.
 *   numerics  log-sum-exp = max + ln(sum over stretches, left to right, of sum_i * exp(max_i -
 *             max)) in double: the same whatever worker reduced which stretch
 *   thread    any, no state */
#ifndef QUIRE_KERNELS_LOGPROB_H
#define QUIRE_KERNELS_LOGPROB_H

#include <stdint.h>

#include "core/batch.h"
#include "kernels/vec.h"

struct logprob {
    double max;     /* largest logit */
    double log_sum; /* ln(sum of exp(logit - max)) */
};

/* logprob_open - from the peaks of the stretches, in order. */
void logprob_open(struct logprob *l, const struct vec_peak *peaks, uint32_t peak_count);

/* logprob_of - natural log of the probability of a token with this logit. */
float logprob_of(const struct logprob *l, float logit);

/* logprob_top - the count tokens with the largest logits, best first, lowest id first among equals;
 * returns how many there are (NaN never is one). */
uint32_t logprob_top(const struct logprob *l, const float *logits, uint32_t vocab_count,
                     uint32_t count, struct token_logprob *top);

#endif
