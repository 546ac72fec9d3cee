/* SPDX-License-Identifier: MIT */
/* batch_tell - what people are told of a job: a line while it runs, one at its end, a summary as
 * JSON, and what --check has found.
 *   thread   the job's */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_TELL_H
#define QUIRE_FRONTEND_BATCH_BATCH_TELL_H

#include <stdbool.h>

#include "frontend/batch/batch_estimate.h"
#include "frontend/batch/batch_job.h"

/* batch_tell - the progress line, now and then; last: for the last time. Quiet jobs say nothing. */
void batch_tell(struct batch_job *b, bool last);

/* batch_tell_end - the last line: all rows of the job, earlier runs included. */
void batch_tell_end(const struct batch_job *b, bool stopped);

/* batch_tell_check - what --check has found, and how long that takes at a speed. */
void batch_tell_check(const struct batch_job *b, const struct batch_speed *speed);

/* batch_summary - the same as JSON in a file; NULL path: nothing. */
enum rc batch_summary(const struct batch_job *b, const char *path, bool stopped,
                      struct fault *fault) ATTR_MUST_USE;

#endif
