/* SPDX-License-Identifier: MIT */
/* batch_job - a file of requests on its way to a file of answers: a bounded window of lines, sorted
 * so that prompts with the same beginning meet in the prefix cache and long answers start early.
 *
 *   line_reader -> batch_row -> batch_way -> window -> batch_way
 *                     |            |                   |  ends, in any order
 *                     '-- error row --> batch_file <---'  a row as soon as it is complete, or in
 *                                                         the order of the input
 *
 * What is in flight is bounded by the window, so memory does not depend on the length of the input.
 * A line that was answered before is skipped: by its custom_id, or by its number when it has none.
 *   owner    cmd_batch
 *   thread   main; the scheduler has its own
 *   errors   RC_STOPPED when a signal came, the disk is full or the server is gone: what is written
 *            stays, the job goes on when it is started again; RC_IO, RC_NO_MEMORY with the fault */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_JOB_H
#define QUIRE_FRONTEND_BATCH_BATCH_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/detok.h"
#include "frontend/batch/batch_file.h"
#include "frontend/batch/batch_row.h"
#include "frontend/batch/batch_way.h"
#include "frontend/batch/line_reader.h"
#include "frontend/sampling_options.h"

struct batch_options {
    const char *input, *output, *errors, *summary;
    const char *server, *api_key; /* where lines are answered; NULL: here */
    uint32_t format;              /* enum batch_format */
    uint32_t window;              /* lines read ahead of those that run */
    uint32_t grace_s;
    const char *shard; /* "i/N" */
    uint32_t shard_index, shard_count;
    float tokens_per_second; /* of --check; 0: measured */
    bool ordered, retry_errors, check;
};

#define BATCH_WAITED_MAX (UINT32_MAX / 2) /* of a line that goes before all others */

enum line_state { LINE_FREE, LINE_WAITING, LINE_RUNNING, LINE_DONE };

/* A line in flight. */
struct batch_line {
    enum line_state state;
    struct batch_row row;
    void *work;       /* the way's; NULL for a line that is only an error */
    const void *head; /* the beginning of its prompt, in tokens or characters: */
    size_t head_bytes;
    uint64_t answer_max;                       /* longest choice that it may have, in tokens */
    uint64_t prompt_tokens, output_tokens_max; /* where they are known before it has run */
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
    const struct batch_way *way;
    void *with;     /* the way's own */
    char model[96]; /* what answers call it */
    json_t *stamp;  /* what answers depend on (batch_stamp.h) */
    bool quiet;
    struct clock clock;
    struct line_reader in;
    struct batch_file out, err; /* err.fd -1: failures go to out */
    struct key_set seen;        /* custom_ids of this input so far */
    struct key_set retry;       /* with --retry-errors: the only lines that count */
    struct batch_line *lines;   /* [line_max] */
    uint32_t line_max, run_max, live_count, run_count;
    struct batch_line *pending; /* not wholly submitted: the scheduler was full */
    struct text last;           /* beginning of the prompt that was taken last */
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

/* batch_job_defaults - what a body means that does not say everything: a bare one, an OpenAI line,
 * and a chat, which share one list of biases (of bare). */
enum rc batch_job_defaults(struct batch_job *b, struct sampling_options *sampling,
                           uint32_t vocab_count, struct completion_params *bare,
                           struct completion_params *line,
                           struct completion_params *chat) ATTR_MUST_USE;

/* batch_job_put_back - a line that runs is to be started again, before all others. For ways. */
void batch_job_put_back(struct batch_job *b, struct batch_line *line);

/* batch_job_run - to the end of the input, or until a signal. With options.check nothing is
 * started and nothing written. */
enum rc batch_job_run(struct batch_job *b) ATTR_MUST_USE;

/* batch_job_close - what batch_job_open_input and the owner's fields hold. */
void batch_job_close(struct batch_job *b);

/* batch_window.c: batch_window_next - the waiting line to submit next; NULL when there is none. */
struct batch_line *batch_window_next(struct batch_job *b);

#endif
