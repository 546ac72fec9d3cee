/* SPDX-License-Identifier: MIT */
/* provenance - where a figure comes from: program, machine, model, command. A JSON object that is
 * merged into every row, and lines under a table for people.
 *   owner    the caller frees the object with json_decref
 *   thread   the main thread
 *   errors   NULL when memory is out */
#ifndef QUIRE_FRONTEND_BENCH_PROVENANCE_H
#define QUIRE_FRONTEND_BENCH_PROVENANCE_H

#include <jansson.h>

#include "frontend/engine.h"

/* The command's words, from the program's name on. */
struct provenance_words {
    int argc;
    char **argv;
};

/* provenance_new - time, version, commit, cpu, threads, isa, act, caches, model with digest and
 * size, command. Reads the model's files whole, for the digest, unless they are streamed: then it
 * is null. */
json_t *provenance_new(struct engine *e, const struct provenance_words *words);

/* provenance_print - the same for people, on stdout. */
void provenance_print(const json_t *provenance);

#endif
