/* SPDX-License-Identifier: MIT */
/* sse - server-sent events as text: one line of JSON each, so that any reader can split at lines.
 *   thread   any, no state
 *   errors   RC_NO_MEMORY, also for a NULL json */
#ifndef QUIRE_FRONTEND_API_SSE_H
#define QUIRE_FRONTEND_API_SSE_H

#include <jansson.h>

#include "core/attr.h"
#include "core/detok.h"
#include "core/err.h"

/* sse_append - "data: {..}\n\n", with "event: name\n" before it unless name is NULL. Takes the
 * reference. */
enum rc sse_append(struct text *out, const char *name, json_t *json) ATTR_MUST_USE;

/* json_append - the JSON in one line. Takes the reference. */
enum rc json_append(struct text *out, json_t *json) ATTR_MUST_USE;

#endif
