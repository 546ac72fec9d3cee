/* SPDX-License-Identifier: MIT */
/* batch_stamp - what a job was begun with, in OUT.job beside its output: a job that is started
 * again with another model or other options would mix two kinds of answers in one file.
 *   thread   the job's
 *   errors   RC_USAGE with the first thing that differs; RC_IO */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_STAMP_H
#define QUIRE_FRONTEND_BATCH_BATCH_STAMP_H

#include "frontend/batch/batch_job.h"
#include "frontend/sampling_options.h"

/* batch_stamp_make - everything that an answer depends on and a line does not say, from the model's
 * part (frontend/api/basis.h), whose reference it takes, and what the flags say. NULL without
 * memory. */
json_t *batch_stamp_make(json_t *model, const struct completion_params *bare,
                         const struct sampling_options *s, uint32_t format);

/* batch_stamp_check - compares b->stamp with the one that is there, or writes it when there is
 * none. Only for output that is a file. */
enum rc batch_stamp_check(struct batch_job *b, const char *output) ATTR_MUST_USE;

#endif
