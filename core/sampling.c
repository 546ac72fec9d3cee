/* SPDX-License-Identifier: MIT */
/* sampling - neutral values and ranges of the sampling parameters.
 * Every comparison is written so that NaN fails it. */
#include "core/sampling.h"

#include <math.h>

#include "core/limits.h"

struct sampling sampling_default(void)
{
    return (struct sampling){ .temperature = 1.0f,
                              .top_p = 1.0f,
                              .typical_p = 1.0f,
                              .repeat_penalty = 1.0f,
                              .repeat_last_n = -1,
                              .order = SAMPLING_ORDER_VLLM };
}

static enum rc check_bias(const struct sampling *s, uint32_t vocab_count, struct fault *fault)
{
    if (s->bias_count > LOGIT_BIAS_MAX)
        return fault_set(fault, RC_INVALID, "logit_bias: at most %u entries, not %u",
                         LOGIT_BIAS_MAX, s->bias_count);
    for (uint32_t i = 0; i < s->bias_count; i++) {
        const struct logit_bias *b = &s->bias[i];
        if (b->token < 0 || (uint32_t)b->token >= vocab_count)
            return fault_set(fault, RC_INVALID,
                             "logit_bias: token %d is not in the vocabulary of %u", b->token,
                             vocab_count);
        if (!(b->bias < INFINITY))
            return fault_set(fault, RC_INVALID, "logit_bias: the bias of token %d is not a number",
                             b->token);
    }
    return RC_OK;
}

enum rc sampling_check(const struct sampling *s, uint32_t vocab_count, struct fault *fault)
{
    if (!(s->temperature >= 0.0f && s->temperature <= 100.0f))
        return fault_set(fault, RC_INVALID, "temperature must be from 0 to 100");
    if (!(s->top_p > 0.0f && s->top_p <= 1.0f))
        return fault_set(fault, RC_INVALID, "top_p must be above 0 and at most 1");
    if (!(s->min_p >= 0.0f && s->min_p < 1.0f))
        return fault_set(fault, RC_INVALID, "min_p must be at least 0 and below 1");
    if (!(s->typical_p > 0.0f && s->typical_p <= 1.0f))
        return fault_set(fault, RC_INVALID, "typical_p must be above 0 and at most 1");
    if (!(s->repeat_penalty > 0.0f && s->repeat_penalty < INFINITY))
        return fault_set(fault, RC_INVALID, "repetition_penalty must be above 0");
    if (!(s->frequency_penalty >= -2.0f && s->frequency_penalty <= 2.0f))
        return fault_set(fault, RC_INVALID, "frequency_penalty must be from -2 to 2");
    if (!(s->presence_penalty >= -2.0f && s->presence_penalty <= 2.0f))
        return fault_set(fault, RC_INVALID, "presence_penalty must be from -2 to 2");
    if (s->repeat_last_n < -1)
        return fault_set(fault, RC_INVALID, "repeat_last_n must be at least -1");
    if (s->order != SAMPLING_ORDER_VLLM && s->order != SAMPLING_ORDER_LLAMA_CPP)
        return fault_set(fault, RC_INVALID, "order of the samplers is not known");
    return check_bias(s, vocab_count, fault);
}
