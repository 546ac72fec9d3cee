/* SPDX-License-Identifier: MIT */
/* sampling_options - the table, and TOKEN+BIAS texts taken apart.
 * The defaults are neutral (temperature 1, no filter, seed 0), so that a prompt has the same answer
 * in run and batch, today and tomorrow; -s -1 draws a random seed and says which. */
#include "frontend/sampling_options.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "core/mem.h"
#include "core/str.h"

#define AT(member) offsetof(struct sampling_options, member)

static const char *const orders[] = { "vllm", "llama.cpp", NULL };

const struct option sampling_option_rows[] = {
    { "-n --predict --n-predict --max-tokens", OPTION_I32, AT(predict), -1, CTX_TOKENS_MAX, "N",
      NULL, "tokens to generate at most; -1 = to the end of the context; not given: 128; in serve "
      "and OpenAI batch lines as there: 16, in chats no limit" },
    { "--temp --temperature", OPTION_F32, AT(temperature), 0, 100, "T", NULL,
      "temperature; 0 = greedy" },
    { "--top-k", OPTION_I32, AT(top_k), -1, 2147483647, "K", NULL,
      "keep the K likeliest; 0 = off" },
    { "--top-p", OPTION_F32, AT(top_p), 0, 1, "P", NULL,
      "keep the likeliest up to mass P; 1 = off" },
    { "--min-p", OPTION_F32, AT(min_p), 0, 1, "P", NULL,
      "drop what is less likely than P times the likeliest; 0 = off" },
    { "--typical --typical-p", OPTION_F32, AT(typical_p), 0, 1, "P", NULL,
      "locally typical sampling; 1 = off" },
    { "--repeat-penalty --repetition-penalty", OPTION_F32, AT(repeat_penalty), 0, 1000, "R", NULL,
      "divides the logits of tokens seen; 1 = off" },
    { "--repeat-last-n", OPTION_I32, AT(repeat_last_n), -1, 2147483647, "N", NULL,
      "how far back that looks, prompt included; -1 = everything, 0 = off" },
    { "--presence-penalty", OPTION_F32, AT(presence_penalty), -2, 2, "A", NULL,
      "taken from the logits of tokens in the output; 0 = off" },
    { "--frequency-penalty", OPTION_F32, AT(frequency_penalty), -2, 2, "F", NULL,
      "the same for each time they occurred; 0 = off" },
    { "-s --seed", OPTION_I64, AT(seed), 0, 0, "N", NULL, "seed of the draws; -1 = a random one" },
    { "--sampling-order", OPTION_CHOICE, AT(order), 0, 0, "ORDER", orders,
      "order of the filters: vllm (temperature first) or llama.cpp (last)" },
    { "--logit-bias", OPTION_TEXTS, AT(biases), 0, 0, "ID+BIAS", NULL,
      "adds to a token's logit: 15043+1, 15043-2.5, 15043-inf; may be repeated" },
    { "--stop", OPTION_TEXTS, AT(stops), 0, 0, "TEXT", NULL,
      "ends the answer before this text; may be repeated" },
    { "--ignore-eos", OPTION_FLAG, AT(ignore_eos), 0, 0, NULL, NULL,
      "end-of-turn tokens do not end the answer" },
    { "--no-special", OPTION_FLAG, AT(no_special), 0, 0, NULL, NULL,
      "control tokens written in a prompt (<|im_start|>) are ordinary text" },
};
const size_t sampling_option_count = sizeof sampling_option_rows / sizeof sampling_option_rows[0];

struct sampling_options sampling_options_default(void)
{
    struct sampling s = sampling_default();
    return (struct sampling_options){ .predict = -2,
                                      .temperature = s.temperature,
                                      .top_p = s.top_p,
                                      .typical_p = s.typical_p,
                                      .repeat_penalty = s.repeat_penalty,
                                      .repeat_last_n = s.repeat_last_n };
}

static enum rc take_bias(struct logit_bias *out, const char *text, uint32_t vocab_count,
                         struct fault *fault)
{
    size_t digits = strspn(text, "0123456789");
    uint32_t id;
    double bias;
    const char *rest = text + digits;
    bool good = str_parse_u32((struct str){ text, digits }, 0, vocab_count - 1, &id);
    if (strcmp(rest, "-inf") == 0)
        bias = (double)-INFINITY;
    else
        good =
            good && (*rest == '+' || *rest == '-') && str_parse_f64(str_of(rest), -1e9, 1e9, &bias);
    if (!good)
        return fault_set(fault, RC_USAGE,
                         "--logit-bias takes ID+BIAS or ID-BIAS with an id below %u, not '%.60s'",
                         vocab_count, text);
    *out = (struct logit_bias){ (int32_t)id, (float)bias };
    return RC_OK;
}

enum rc sampling_options_apply(struct sampling_options *o, struct completion_params *out,
                               uint32_t vocab_count, struct fault *fault)
{
    if (o->seed == -1) {
        uint32_t random = 0;
        (void)!getrandom(&random, sizeof random, 0);
        o->seed = random;
        fprintf(stderr, "seed %u\n", random);
    }
    if (o->predict != -2)
        out->max_tokens = o->predict;
    out->seed = o->seed;
    out->ignore_eos = o->ignore_eos;
    out->bias = mem_alloc_array(o->biases.count, sizeof *out->bias);
    if (out->bias == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    out->sampling = (struct sampling){ .temperature = o->temperature,
                                       .top_k = o->top_k > 0 ? (uint32_t)o->top_k : 0,
                                       .top_p = o->top_p,
                                       .min_p = o->min_p,
                                       .typical_p = o->typical_p,
                                       .repeat_penalty = o->repeat_penalty,
                                       .frequency_penalty = o->frequency_penalty,
                                       .presence_penalty = o->presence_penalty,
                                       .repeat_last_n = o->repeat_last_n,
                                       .seed = (uint64_t)o->seed,
                                       .order = (enum sampling_order)o->order,
                                       .bias = out->bias,
                                       .bias_count = o->biases.count };
    for (uint32_t i = 0; i < o->biases.count; i++) {
        enum rc rc = take_bias(&out->bias[i], o->biases.items[i], vocab_count, fault);
        if (rc != RC_OK)
            return rc;
    }
    if (o->stops.count > STOP_TEXTS_MAX)
        return fault_set(fault, RC_USAGE, "--stop: at most %u stop texts", STOP_TEXTS_MAX);
    for (uint32_t i = 0; i < o->stops.count; i++)
        out->stops[i] = (struct stop_text){ o->stops.items[i], strlen(o->stops.items[i]) };
    out->stop_count = o->stops.count;
    enum rc rc = sampling_check(&out->sampling, vocab_count, fault);
    if (rc != RC_OK)
        fault->code = RC_USAGE;
    return rc == RC_OK ? RC_OK : RC_USAGE;
}
