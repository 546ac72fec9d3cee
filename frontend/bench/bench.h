/* SPDX-License-Identifier: MIT */
/* bench - the kinds of measurement that `quire bench NAME` has beside its table; each is one
 * bench_NAME.c. argv begins with the name; the exit status comes back. */
#ifndef QUIRE_FRONTEND_BENCH_BENCH_H
#define QUIRE_FRONTEND_BENCH_BENCH_H

int bench_crossover(int argc, char **argv); /* from how many users on batching wins */
int bench_fused(int argc, char **argv); /* products over packed weights, and over a buffer */
int bench_serve(int argc, char **argv); /* load for a server, ours or another's */

#endif
