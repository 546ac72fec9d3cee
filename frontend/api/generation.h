/* SPDX-License-Identifier: MIT */
/* generation - the text of one request as it grows: tokens from the scheduler, whole characters
 * from the detokenizer, stop texts, and how it ended. Every command and endpoint reads its answers
 * here.
 *   owner    its opener; the request is released by generation_close
 *   thread   the consumer of the scheduler's events
 *   errors   a request that failed, here or in the executor, ends as FINISH_ERROR with `error` */
#ifndef QUIRE_FRONTEND_API_GENERATION_H
#define QUIRE_FRONTEND_API_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/detok.h"
#include "core/err.h"
#include "frontend/api/schema.h"
#include "frontend/api/stop.h"
#include "sched/sched.h"

struct generation {
    struct sched *sched;
    struct request *request; /* NULL until submitted */
    struct detok detok;
    struct stop stop;
    struct text text;  /* what may be shown; only grows */
    struct text piece; /* scratch: what the last token completed */
    uint32_t *offsets; /* [token_count] characters of text before each token, stop texts included */
    size_t offset_bytes;
    uint32_t chars;
    uint32_t token_count; /* taken so far: the completion's length */
    int32_t stop_ids[STOP_IDS_MAX];
    uint32_t stop_id_count;
    uint32_t min_tokens; /* a stop text that ends in these is none */
    bool include_stop_text;
    bool closed; /* generation_finish */
    bool ended;
    enum finish finish; /* when ended: STOP also for a stop text */
    enum rc error;      /* when finish is ERROR */
};

/* generation_open - stop texts and stop ids come from p. */
enum rc generation_open(struct generation *g, const struct tokenizer *t,
                        const struct completion_params *p, const struct request_params *r,
                        struct fault *fault) ATTR_MUST_USE;

/* generation_begin - of a request that has been submitted to s. */
void generation_begin(struct generation *g, struct sched *s, struct request *r);

/* generation_step - at most one token of what the request has by now, or its end; false when there
 * is nothing new. A stop text cancels the request. */
bool generation_step(struct generation *g);

/* generation_take - everything that the request has by now; sets ended after the last of it. A
 * stop text cancels the request. */
void generation_take(struct generation *g);

/* generation_cancel - the end still comes. */
void generation_cancel(struct generation *g);

/* generation_finish - enough: nothing more is read, and it ends as STOP. */
void generation_finish(struct generation *g);

/* generation_close - waits for nothing: the request must have ended, or the scheduler be gone soon.
 * */
void generation_close(struct generation *g);

/* finish_text - "stop" or "length"; the others by name. */
const char *finish_text(enum finish finish);

#endif
