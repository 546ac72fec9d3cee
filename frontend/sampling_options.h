/* SPDX-License-Identifier: MIT */
/* sampling_options - the flags that say how answers are generated, the same in run and batch, and
 * what they mean as defaults of a request.
 *   owner    the command; sampling_options_apply allocates the bias list in the params it fills
 *   thread   the main thread
 *   errors   RC_USAGE with the flag's name */
#ifndef QUIRE_FRONTEND_SAMPLING_OPTIONS_H
#define QUIRE_FRONTEND_SAMPLING_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/options.h"
#include "frontend/api/schema.h"

struct sampling_options {
    int32_t predict; /* -n: -1 = to the end of the context, -2 = not given */
    float temperature;
    int32_t top_k;
    float top_p, min_p, typical_p;
    float repeat_penalty, presence_penalty, frequency_penalty;
    int32_t repeat_last_n;
    int64_t seed; /* -1: a random one */
    uint32_t order;
    bool ignore_eos;
    bool no_special;
    struct option_texts stops;
    struct option_texts biases;
};

extern const struct option sampling_option_rows[];
extern const size_t sampling_option_count;

struct sampling_options sampling_options_default(void);

/* sampling_options_apply - draws the seed when it is to be random. max_tokens stays as it is when
 * -n was not given. */
enum rc sampling_options_apply(struct sampling_options *o, struct completion_params *out,
                               uint32_t vocab_count, struct fault *fault) ATTR_MUST_USE;

#endif
