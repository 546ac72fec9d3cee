/* SPDX-License-Identifier: MIT */
/* batch_engine - see batch_engine.h. A line's request is a job of its dialect; several choices of
 * one line may find the scheduler full in between, and are submitted later. */
#include "frontend/batch/batch_engine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/mem.h"
#include "frontend/api/basis.h"
#include "frontend/batch/batch_stamp.h"

/* Of a line: constant while its job lives. */
struct engine_line {
    struct api_call call;
    void *job; /* the dialect's */
    struct completion *run;
};

static enum rc open_line(struct batch_job *b, struct batch_line *line, struct api_error *error)
{
    const struct batch_engine *w = b->with;
    const struct batch_row *row = &line->row;
    struct engine_line *own = mem_alloc(sizeof *own);
    if (own == NULL)
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    own->call = (struct api_call){ .created = (int64_t)time(NULL),
                                   .priority = PRIORITY_BATCH,
                                   .user = line };
    snprintf(own->call.id, sizeof own->call.id, "%llu", (unsigned long long)row->line);
    enum rc rc = dialect_open(row->dialect, &own->job, row->bare ? &w->bare : &w->line, &own->call,
                              row->body, error);
    if (rc != RC_OK) {
        mem_free(own);
        return rc;
    }
    own->run = row->dialect->completion(own->job);
    line->work = own;
    line->head = own->run->prompts[0].ids;
    line->head_bytes = own->run->prompts[0].count * sizeof own->run->prompts[0].ids[0];
    line->answer_max = (uint64_t)own->run->params.max_tokens; /* -1: more than any */
    line->prompt_tokens = completion_prompt_tokens(own->run);
    line->output_tokens_max = completion_output_tokens_max(own->run);
    return RC_OK;
}

static enum rc start_line(struct batch_job *b, struct batch_line *line)
{
    struct engine_line *own = line->work;
    (void)b;
    enum rc rc = completion_submit(own->run);
    if (rc == RC_OK || rc == RC_FULL)
        return rc;
    return dialect_take(line->row.dialect, own->job, NULL) ? RC_END
                                                           : RC_OK; /* what runs of it ends yet */
}

static enum rc next_line(struct batch_job *b, uint64_t wait_us, struct batch_line **out)
{
    struct batch_engine *w = b->with;
    *out = NULL;
    for (struct request *r; (r = sched_next_event(w->engine.sched, wait_us)) != NULL;) {
        struct batch_line *line = ((struct completion *)request_user(r))->user;
        struct engine_line *own = line->work;
        if (dialect_take(line->row.dialect, own->job, NULL)) {
            *out = line;
            return RC_OK;
        }
        wait_us = 0;
    }
    return RC_OK;
}

static json_t *row_of_line(struct batch_job *b, struct batch_line *line)
{
    struct engine_line *own = line->work;
    struct completion *c = own->run;
    if (c->failed)
        return batch_row_error(&line->row, &c->error);
    b->counts.prompt_tokens += completion_prompt_tokens(c);
    b->counts.cached_tokens += completion_cached_tokens(c);
    b->counts.output_tokens += completion_output_tokens(c);
    return batch_row_answer(&line->row, dialect_body(line->row.dialect, own->job));
}

static bool cancel_line(struct batch_job *b, struct batch_line *line)
{
    struct engine_line *own = line->work;
    (void)b;
    completion_cancel(own->run);
    return dialect_take(line->row.dialect, own->job, NULL);
}

static void close_line(struct batch_job *b, struct batch_line *line)
{
    struct engine_line *own = line->work;
    (void)b;
    line->row.dialect->close(own->job);
    mem_free(own);
}

static const struct batch_way way = { open_line,   start_line,  next_line,
                                      row_of_line, cancel_line, close_line };

/* What a body means that does not say everything. */
static enum rc open_defaults(struct batch_engine *w, struct batch_job *b,
                             struct sampling_options *sampling)
{
    enum rc rc = batch_job_defaults(b, sampling, w->engine.model->vocab_count, &w->bare_defaults,
                                    &w->line_defaults, &w->chat_defaults);
    struct fault warning;
    if (rc == RC_OK && chat_model_open(&w->chat, &w->engine, NULL, &warning) != RC_OK)
        rc = fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    w->bare = (struct api_context){ .engine = &w->engine,
                                    .defaults = &w->bare_defaults,
                                    .chat_defaults = &w->chat_defaults,
                                    .chat = &w->chat,
                                    .special = !sampling->no_special };
    w->line = w->bare;
    w->line.defaults = &w->line_defaults;
    return rc;
}

enum rc batch_engine_open(struct batch_engine *w, struct batch_job *b,
                          const struct engine_options *options, struct sampling_options *sampling)
{
    *w = (struct batch_engine){ 0 };
    struct engine_needs needs = { .thread = true,
                                  .requests_max =
                                      engine_rows_most(options) * 2 + 2 + EMBEDDINGS_MAX };
    enum rc rc = engine_open(&w->engine, options, &needs, &b->fault);
    if (rc != RC_OK)
        return rc;
    b->way = &way;
    b->with = w;
    memcpy(b->model, w->engine.name, sizeof b->model);
    b->run_max = w->engine.options.rows_max * 2 + 2;
    rc = open_defaults(w, b, sampling);
    if (rc == RC_OK && !b->options->check) {
        b->stamp = batch_stamp_make(basis_model(&w->bare), &w->bare_defaults, sampling,
                                    b->options->format);
        if (b->stamp == NULL)
            rc = fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    }
    if (rc != RC_OK)
        batch_engine_close(w);
    return rc;
}

void batch_engine_close(struct batch_engine *w)
{
    chat_model_close(&w->chat);
    completion_params_close(&w->bare_defaults);
    engine_close(&w->engine);
}
