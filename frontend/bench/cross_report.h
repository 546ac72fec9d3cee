/* SPDX-License-Identifier: MIT */
/* cross_report - DIR/report.md: what the rows of a crossover say, for somebody who has read nothing
 * else; and its pictures (cross_plot.h).
 *   errors   RC_IO for what cannot be written */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_REPORT_H
#define QUIRE_FRONTEND_BENCH_CROSS_REPORT_H

#include "frontend/bench/cross_table.h"

/* cross_report_write - done, all: runs that are there, and that the plan has. *drawn: whether the
 * pictures are there. */
enum rc cross_report_write(const struct cross_table *t, const struct cross_file *file,
                           const char *dir, uint32_t done, uint32_t all, bool *drawn,
                           struct fault *fault) ATTR_MUST_USE;

#endif
