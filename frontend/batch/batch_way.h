/* SPDX-License-Identifier: MIT */
/* batch_way - how the lines of a job are answered: by an engine in this process (batch_engine), or
 * by a server that runs already (batch_server). Both give the same rows.
 *
 *   open -> start (RC_FULL: again) ... next -> row -> close
 *
 *   owner    the job calls; what a way keeps of a line is in line->work
 *   thread   the job's
 *   errors   open: the line's own, which is its row. start, next: the job's, in b->fault */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_WAY_H
#define QUIRE_FRONTEND_BATCH_BATCH_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "core/err.h"
#include "frontend/api/schema.h"

struct batch_job;
struct batch_line;

struct batch_way {
    /* Makes the request of a line whose row is good; sets what the window goes by. */
    enum rc (*open)(struct batch_job *b, struct batch_line *line, struct api_error *error);
    /* RC_FULL: not now. RC_END: it has ended already. */
    enum rc (*start)(struct batch_job *b, struct batch_line *line);
    /* A line that has ended, or NULL after wait_us. A line may also have been put back. */
    enum rc (*next)(struct batch_job *b, uint64_t wait_us, struct batch_line **out);
    /* The row of a line that has ended, which is counted; NULL without memory. */
    json_t *(*row)(struct batch_job *b, struct batch_line *line);
    /* Gives up what runs. True: it has ended already; else next will bring it. */
    bool (*cancel)(struct batch_job *b, struct batch_line *line);
    /* Frees what it has of a line that has ended, or was never started. */
    void (*close)(struct batch_job *b, struct batch_line *line);
};

#endif
