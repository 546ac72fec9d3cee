/* SPDX-License-Identifier: MIT */
/* logprob - see logprob.h. The top list is kept sorted while the logits pass by once: almost every
 * one of them fails the comparison with the last entry, so the list costs one comparison a token.
 * */
#include "kernels/logprob.h"

#include <math.h>

#include "core/must.h"
#include "kernels/mathd.h"

void logprob_open(struct logprob *l, const struct vec_peak *peaks, uint32_t peak_count)
{
    must(peak_count > 0);
    double max = (double)-INFINITY, sum = 0;
    for (uint32_t i = 0; i < peak_count; i++)
        max = (double)peaks[i].max > max ? (double)peaks[i].max : max;
    for (uint32_t i = 0; i < peak_count; i++)
        sum += (double)peaks[i].sum * mathd_exp((double)peaks[i].max - max);
    l->max = max;
    l->log_sum = mathd_log(sum);
}

float logprob_of(const struct logprob *l, float logit)
{
    return (float)((double)logit - l->max - l->log_sum);
}

uint32_t logprob_top(const struct logprob *l, const float *logits, uint32_t vocab_count,
                     uint32_t count, struct token_logprob *top)
{
    must(count <= OUTPUT_TOP_MAX);
    uint32_t held = 0;
    float last = -INFINITY; /* logit of the last entry when the list is full */
    for (uint32_t i = 0; i < vocab_count && count > 0; i++) {
        float logit = logits[i];
        if (logit != logit || (held == count && !(logit > last)))
            continue;
        uint32_t at = held < count ? held++ : held - 1;
        for (; at > 0 && logits[top[at - 1].token] < logit; at--)
            top[at] = top[at - 1];
        top[at].token = (int32_t)i;
        if (held == count)
            last = logits[top[held - 1].token];
    }
    for (uint32_t i = 0; i < held; i++)
        top[i].logprob = logprob_of(l, logits[top[i].token]);
    return held;
}
