/* SPDX-License-Identifier: MIT */
/* cross_plot - the pictures of the crossover report: a gnuplot script with its data inside, and
 * gnuplot run over it. Without gnuplot the script is there all the same.
 *   files   DIR/plot.gp, and what it draws: throughput.svg, completion.svg, tax.svg
 *   errors  RC_IO for what cannot be written; no gnuplot is no error */
#ifndef QUIRE_FRONTEND_BENCH_CROSS_PLOT_H
#define QUIRE_FRONTEND_BENCH_CROSS_PLOT_H

#include <stdio.h>

#include "frontend/bench/cross_table.h"

/* cross_plot_write - *drawn: whether the pictures are there now. */
enum rc cross_plot_write(const struct cross_table *t, const char *dir, bool *drawn,
                         struct fault *fault) ATTR_MUST_USE;

/* cross_open_output - DIR/NAME for writing, as the report's files are. NULL with the fault. */
FILE *cross_open_output(const char *dir, const char *name, struct fault *fault);

#endif
