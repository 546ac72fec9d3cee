/* SPDX-License-Identifier: MIT */
/* batch_engine - lines answered by the engine of this process, through the dialects of the server.
 *   owner    cmd_batch opens it between engine and job
 *   thread   main
 *   errors   those of engine_open, with the text */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_ENGINE_H
#define QUIRE_FRONTEND_BATCH_BATCH_ENGINE_H

#include "frontend/api/chat.h"
#include "frontend/api/dialect.h"
#include "frontend/batch/batch_job.h"
#include "frontend/engine.h"
#include "frontend/sampling_options.h"

struct batch_engine {
    struct engine engine;
    struct chat_model chat;
    struct completion_params bare_defaults, line_defaults, chat_defaults;
    struct api_context bare, line; /* differ in what max_tokens is when nobody says it */
};

/* batch_engine_open - loads the model and becomes the way of a job. */
enum rc batch_engine_open(struct batch_engine *w, struct batch_job *b,
                          const struct engine_options *options,
                          struct sampling_options *sampling) ATTR_MUST_USE;

/* batch_engine_close - no line is left. */
void batch_engine_close(struct batch_engine *w);

#endif
