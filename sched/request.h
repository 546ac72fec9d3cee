/* SPDX-License-Identifier: MIT */
/* request - one prompt and how it is to be continued, and the growing answer. A request is written
 * by the scheduler thread and read by the thread that submitted it: tokens are published with one
 * release store each, so that a reader takes them at its own pace and never blocks the scheduler.
 * Exactly one terminal state is published, last of all.
 *   owner    the scheduler's slab; the submitter holds it from sched_submit until sched_release
 *   thread   accessors below: the submitter's */
#ifndef QUIRE_SCHED_REQUEST_H
#define QUIRE_SCHED_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/batch.h"
#include "core/err.h"
#include "core/limits.h"
#include "core/sampling.h"
#include "core/str.h"

enum finish {
    FINISH_NONE, /* still queued or running */
    /* a stop id (EOS among them) was chosen; it is the last token of the output */
    FINISH_STOP,
    FINISH_LENGTH, /* max_tokens or the context limit was reached */
    FINISH_CANCELLED,
    FINISH_ERROR,   /* the executor failed: request_error says how */
    FINISH_EXPIRED, /* its deadline has passed */
};

/* Classes share the machine by weight, 8 : 4 : 1; nobody starves. Spare requests use only what
 * nobody else can use, and wait for ever if that is nothing. */
enum priority { PRIORITY_NORMAL, PRIORITY_INTERACTIVE, PRIORITY_BATCH, PRIORITY_SPARE };

/* priority_parse - a class by its name: normal, interactive, batch or spare. priority_lower - the
 * one of two that gives way to the other. */
bool priority_parse(struct str name, enum priority *out);
enum priority priority_lower(enum priority a, enum priority b);

struct request_params {
    /* Every step looks at these, and at the first of sampling: they stand in one cache line. */
    uint32_t prompt_count;  /* >= 1 */
    uint32_t max_tokens;    /* output tokens; 0 = only compute the prompt (scores, logits) */
    uint32_t min_tokens;    /* stop ids are forbidden before that many */
    uint32_t top_count;     /* top log-probabilities per token, <= OUTPUT_TOP_MAX */
    uint32_t stop_id_count; /* of stop_ids */
    bool logprobs;          /* log-probability of each output token */
    bool prompt_logprobs;   /* and of each prompt token but the first */
    bool progress;          /* an event for each piece of the prompt that has been computed */
    /* With max_tokens 0: when the prompt is computed, its whole blocks stay where they are,
     * whatever else needs memory, until request_cancel or the deadline; sched_config.pin_tokens. */
    bool pin;
    struct sampling sampling; /* its bias list is copied */

    const int32_t *prompt; /* copied by sched_submit */
    int32_t stop_ids[STOP_IDS_MAX];
    uint64_t cache_salt; /* requests share cached prefixes within one salt; 0 = the common one */
    enum priority priority;
    /* whose it is: tenants of a class get equal shares; 0 = nobody's in particular */
    uint64_t tenant;
    uint64_t ttft_us; /* wished time to the first token, from the submission: orders requests of one
                           * tenant; when it is missed the request goes on as batch. 0 = no wish */
    uint64_t deadline_us; /* after that, from the submission, it ends wherever it is. 0 = never */
    /* When set: called on the scheduler thread with the logits [vocab] after each prompt
     * position. */
    void (*on_logits)(void *ctx, uint32_t position, const float *logits);
    void *on_logits_ctx;
    /* When set: called there with the last hidden state, after the norm, of each prompt position
     * from hidden_from on, ascending, each once; NULL in a replay. */
    void (*on_hidden)(void *ctx, uint32_t position, const float *hidden);
    void *on_hidden_ctx;
    uint32_t hidden_from; /* below prompt_count */
    void *user;           /* the submitter's own */
};

struct request;

/* Progress so far. Tokens [0, request_output_count) are readable. */
uint32_t request_output_count(const struct request *r);
int32_t request_token(const struct request *r, uint32_t index);

/* Log-probability of output token index, and its top list (count in *top_count); when asked for. */
float request_logprob(const struct request *r, uint32_t index);
const struct token_logprob *request_top(const struct request *r, uint32_t index,
                                        uint32_t *top_count);

/* Log-probability of prompt token index >= 1: readable from the first output token or the finish
 * on. */
float request_prompt_logprob(const struct request *r, uint32_t index);

/* And the top list of that place, when both were asked for; readable from then on, too. */
const struct token_logprob *request_prompt_top(const struct request *r, uint32_t index,
                                               uint32_t *top_count);

/* FINISH_NONE until all tokens are published */
enum finish request_finish(const struct request *r);
enum rc request_error(const struct request *r);
bool request_pinned(const struct request *r); /* its blocks were pinned; there was an event */
void *request_user(const struct request *r);
uint32_t request_choice(const struct request *r); /* its place among the choices of one prompt */
uint32_t request_prompt_count(const struct request *r);

/* Prompt tokens that are computed or taken over by now; with params.progress. */
uint32_t request_progress(const struct request *r);

/* Prompt tokens taken from the prefix cache; final with the first output token or the finish. */
uint32_t request_cached_count(const struct request *r);

/* Times on the scheduler's clock, 0 while not reached. */
struct request_times {
    uint64_t arrival_us, admitted_us, first_token_us, finished_us;
};
struct request_times request_times_get(const struct request *r);

/* request_cancel - any thread; takes effect at the next step boundary. The terminal event still
 * comes. */
void request_cancel(struct request *r);

#endif
