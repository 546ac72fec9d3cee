/* SPDX-License-Identifier: MIT */
/* bench_report - rows of `quire bench` on stdout: a table for people (md), csv, one json array, or
 * a json object a row (jsonl). Each row carries the machine's limits and how much of them it
 * reached, the noise of this run, and where it comes from.
 *   owner    the caller; a row is printed when it is there, so that what is done stays when the run
 *            ends early; bench_report_close ends what was begun (a json array) and says, below a
 *            table, where it comes from
 *   thread   the main thread
 *   errors   RC_IO when stdout cannot be written, RC_NO_MEMORY */
#ifndef QUIRE_FRONTEND_BENCH_BENCH_REPORT_H
#define QUIRE_FRONTEND_BENCH_BENCH_REPORT_H

#include <jansson.h>

#include "frontend/bench/bench_run.h"

enum bench_format { BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL };

struct bench_report {
    enum bench_format format;
    bool batched; /* prompts and outputs in one row */
    bool layers;  /* times by layer and stage, too */
    bool chunks;  /* rows differ in their chunk: names say so */
    const struct engine *engine;
    const struct limits_probe *limits;
    json_t *provenance;
    struct bench_noise noise;
    uint32_t rows;  /* printed */
    uint32_t moved; /* of them: the limits moved meanwhile */
};

/* bench_report_open - what stands above the rows. bench_report_close - also when there are none. */
enum rc bench_report_open(struct bench_report *r, struct fault *fault) ATTR_MUST_USE;
enum rc bench_report_row(struct bench_report *r, const struct bench_row *row,
                         struct fault *fault) ATTR_MUST_USE;
enum rc bench_report_close(struct bench_report *r, struct fault *fault) ATTR_MUST_USE;

#endif
