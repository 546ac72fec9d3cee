/* SPDX-License-Identifier: MIT */
/* cross_file - the rows of `quire bench crossover`, one JSON object a line, appended as they are
 * measured: what is there is not measured again. A kill may cost the line that was being written,
 * and nothing else.
 *   rows    "row" says what it is: plan, limits, tax, run; "plan" names the configuration that it
 *           belongs to. Several configurations may be in one file
 *   owner   the opener
 *   errors  RC_IO, RC_CORRUPT with the number of the line */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_FILE_H
#define QUIRE_FRONTEND_BENCH_CROSS_FILE_H

#include <stdint.h>

#include <jansson.h>

#include "core/err.h"
#include "frontend/bench/cross_plan.h"

struct cross_file {
    int fd;
    json_t *rows; /* array, those of this configuration alone */
    char plan[40];
};

/* cross_file_open - makes the file when there is none, reads the rows of this plan. */
enum rc cross_file_open(struct cross_file *f, const char *path, const char *plan,
                        struct fault *fault) ATTR_MUST_USE;
void cross_file_close(struct cross_file *f);

/* cross_file_add - takes row over (NULL is RC_NO_MEMORY), gives it "row", "plan" and "key", and
 * writes it. */
enum rc cross_file_add(struct cross_file *f, const char *kind, const char *key, json_t *row,
                       struct fault *fault) ATTR_MUST_USE;

/* cross_file_find - the row of that kind and key, NULL when it is not there yet. */
const json_t *cross_file_find(const struct cross_file *f, const char *kind, const char *key);

#endif
