/* SPDX-License-Identifier: MIT */
/* engine_store - the block file behind an engine's KV pool, and the knobs that make things fail, as
 * the flags say.
 *   owner    whoever opens the pool: the scheduler thread
 *   errors   RC_USAGE (flags), RC_IO, RC_NO_FIT (the disk): all at start. Later nothing of it fails
 *            a request */
#ifndef QUIRE_FRONTEND_ENGINE_STORE_H
#define QUIRE_FRONTEND_ENGINE_STORE_H

#include <stdint.h>

#include "core/err.h"
#include "core/hash.h"

struct engine;

/* --chaos preempt=N,alloc=N,io=N; 0 = off. */
struct chaos {
    uint32_t preempt, alloc, io;
};

/* chaos_parse - text may be NULL. */
enum rc chaos_parse(struct chaos *out, const char *text, struct fault *fault) ATTR_MUST_USE;

/* engine_store_open - between the pool and its first use; nothing without
 * --swap or --cache-file. A file that cannot be used leaves a warning. */
enum rc engine_store_open(struct engine *e, uint32_t chaos_io, struct fault *fault) ATTR_MUST_USE;

/* engine_digest - of the model's files: reads them whole when it is first asked for. */
struct hash engine_digest(struct engine *e);

/* engine_store_print - the start line; engine_store_report - writes what is left, and with
 * -v says what was done; before the pool is closed. On stderr. */
void engine_store_print(const struct engine *e);
void engine_store_report(struct engine *e);

#endif
