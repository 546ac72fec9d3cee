/* SPDX-License-Identifier: MIT */
/* batch_job - a file of requests on its way to a file of answers: a bounded window of lines, sorted
 * so that prompts with the same beginning meet in the prefix cache and long answers start early.
 *
 *   line_reader -> batch_row -> dialect -> window -> scheduler
 *                     |            |                   |  events, in any order
 *                     '-- error row --> batch_file <---'  a row as soon as it is complete, or in
 *                                                         the order of the input
 *
 * What is in flight is bounded by the window, so memory does not depend on the length of the input.
 * A line that was answered before is skipped: by its custom_id, or by its number when it has none.
 *   owner    cmd_batch
 *   thread   main; the scheduler has its own
 *   errors   RC_STOPPED when a signal came or the disk is full: what is written stays, the job goes
 *            on when it is started again; RC_IO, RC_NO_MEMORY with the fault */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_JOB_H
#define QUIRE_FRONTEND_BATCH_BATCH_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/chat.h"
#include "frontend/api/dialect.h"
#include "frontend/batch/batch_file.h"
#include "frontend/batch/batch_row.h"
#include "frontend/batch/line_reader.h"
#include "frontend/engine.h"

struct batch_options {
    const char *input, *output, *errors, *summary;
    uint32_t format; /* enum batch_format */
    uint32_t window; /* lines read ahead of those that run */
    uint32_t grace_s;
    const char *shard; /* "i/N" */
    uint32_t shard_index, shard_count;
    bool ordered, retry_errors, check;
};

enum line_state { LINE_FREE, LINE_WAITING, LINE_RUNNING, LINE_DONE };

/* A line in flight. */
struct batch_line {
    enum line_state state;
    struct batch_row row;
    struct api_call call;
    void *job; /* the dialect's; NULL for a line that is only an error */
    struct completion *run;
    json_t *answer;  /* its output row, with --ordered kept for its turn */
    uint64_t bytes;  /* of its line */
    uint64_t order;  /* among the lines that get a row */
    uint32_t waited; /* times that others were taken first */
};

struct batch_counts {
    uint64_t ok, failed, skipped, others; /* others: lines of other shards */
    uint64_t prompt_tokens, cached_tokens, output_tokens;
    uint64_t skipped_bytes, done_bytes;
};

struct batch_job {
    const struct batch_options *options;
    struct engine *engine;
    struct api_context bare, line; /* differ in what max_tokens is when nobody says it */
    struct line_reader in;
    struct batch_file out, err; /* err.fd -1: failures go to out */
    struct key_set seen;        /* custom_ids of this input so far */
    struct key_set retry;       /* with --retry-errors: the only lines that count */
    struct batch_line *lines;   /* [line_max] */
    uint32_t line_max, run_max, live_count, run_count;
    struct batch_line *pending; /* not wholly submitted: the scheduler was full */
    struct token_list last;     /* beginning of the prompt that was taken last */
    uint64_t waiting_bytes, order_next, order_written;
    bool input_ended;
    uint64_t input_bytes; /* 0 when not known */
    struct batch_counts counts;
    uint64_t started_us, told_us;
    bool tty;
    struct fault fault;
};

/* batch_job_open_input - opens -i and looks at it. */
enum rc batch_job_open_input(struct batch_job *b, const char *path) ATTR_MUST_USE;

/* batch_job_run - to the end of the input, or until a signal. With options.check nothing is
 * submitted and nothing written. */
enum rc batch_job_run(struct batch_job *b) ATTR_MUST_USE;

/* batch_job_close - what batch_job_open_input and the owner's fields hold. */
void batch_job_close(struct batch_job *b);

/* batch_window.c: batch_window_next - the waiting line to submit next; NULL when there is none. */
struct batch_line *batch_window_next(struct batch_job *b);

#endif
