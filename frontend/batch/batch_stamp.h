/* SPDX-License-Identifier: MIT */
/* batch_stamp - what a job was begun with, in OUT.job beside its output: a job that is started
 * again with another model or other options would mix two kinds of answers in one file.
 *   thread   the job's
 *   errors   RC_USAGE with the first thing that differs; RC_IO */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_STAMP_H
#define QUIRE_FRONTEND_BATCH_BATCH_STAMP_H

#include "frontend/batch/batch_job.h"
#include "frontend/sampling_options.h"

/* batch_stamp_check - compares with the stamp that is there, or writes it when there is none. Only
 * for output that is a file. */
enum rc batch_stamp_check(struct batch_job *b, const char *output,
                          const struct sampling_options *s) ATTR_MUST_USE;

#endif
