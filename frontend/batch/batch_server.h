/* SPDX-License-Identifier: MIT */
/* batch_server - lines answered by a `quire serve` that runs already, in the rows that its users
 * leave free (X-Quire-Class: spare). What the flags say and a line does not is sent along, so that
 * the rows are those of a run with an engine of its own, whatever the server was started with.
 *   owner    cmd_batch
 *   thread   main
 *   errors   RC_STOPPED when the server is gone: the job goes on when it is started again. RC_USAGE
 *            when it is no quire, does not let us in, or cannot be told what the flags ask for */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_SERVER_H
#define QUIRE_FRONTEND_BATCH_BATCH_SERVER_H

#include "frontend/batch/batch_job.h"
#include "frontend/http/http_client.h"
#include "frontend/sampling_options.h"

struct batch_server {
    struct http_url url;
    char headers[512];
    json_t *basis;              /* what the server says of itself */
    json_t *bare, *line, *chat; /* fields for bodies that lack them, where the server's differ */
    uint64_t answer_max, chat_answer_max; /* of lines that do not say it */
    uint64_t resume_us;                   /* it was full: nothing is sent before that */
    bool told_full;
};

/* batch_server_open - asks the server what it is, waits while it loads, and becomes the way of a
 * job. */
enum rc batch_server_open(struct batch_server *w, struct batch_job *b,
                          struct sampling_options *sampling) ATTR_MUST_USE;

void batch_server_close(struct batch_server *w);

#endif
