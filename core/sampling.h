/* SPDX-License-Identifier: MIT */
/* sampling - how a request wants its next token chosen: plain data, shared by frontend, sched and
 * kernels. The sampler itself is kernels/sample.c.
 *   owner    the request; the scheduler hands out const pointers for one step
 *   source   order and formulae: docs/SAMPLING.md */
#ifndef QUIRE_CORE_SAMPLING_H
#define QUIRE_CORE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token */
};

enum sampling_order {
    SAMPLING_ORDER_VLLM = 0,     /* penalties, temperature, min-p, top-k, top-p, typical */
    SAMPLING_ORDER_LLAMA_CPP = 1 /* penalties, top-k, typical, top-p, min-p, temperature */
};

struct sampling {
    uint64_t seed;           /* keys the generator with choice and position */
    uint32_t choice;         /* index of this choice when n > 1 */
    float temperature;       /* below 1e-5: greedy, lowest id wins ties, no random draw */
    uint32_t top_k;          /* 0 = off */
    float top_p;             /* (0, 1]; 1 = off */
    float min_p;             /* [0, 1); 0 = off */
    float typical_p;         /* (0, 1]; 1 = off */
    float repeat_penalty;    /* > 0; 1 = off */
    float frequency_penalty; /* [-2, 2]; 0 = off; over output tokens */
    float presence_penalty;  /* [-2, 2]; 0 = off; over output tokens */
    int32_t repeat_last_n;   /* window of it, prompt included; -1 = everything, 0 = off */
    enum sampling_order order;
    const struct logit_bias *bias;
    uint32_t bias_count; /* <= LOGIT_BIAS_MAX */
};

/* sampling_default - neutral values: temperature 1, everything else off. */
struct sampling sampling_default(void);

/* sampling_check - RC_OK, or RC_INVALID naming the field and its range. */
enum rc sampling_check(const struct sampling *s, uint32_t vocab_count,
                       struct fault *fault) ATTR_MUST_USE;

#endif
