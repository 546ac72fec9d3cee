/* SPDX-License-Identifier: MIT */
/* jinja_call - arguments of a call matched to parameters, and the functions every template knows:
 * range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
 *   owner    results live in the run
 *   errors   false: the run has failed
 *   limits   JINJA_PARAMETERS_MAX; ranges RANGE_ITEMS_MAX long, as in Jinja2's sandbox */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_CALL_H
#define QUIRE_FRONTEND_JINJA_JINJA_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;
struct jinja_args;

#define JINJA_PARAMETERS_MAX 8u

/* jinja_bind - values by parameter; JINJA_MISSING where none was given.
 *   parameters   names with a blank between; "*" at the end: more positional ones are allowed,
 *                which the callee finds in args itself
 *   required     how many of them must be given */
bool jinja_bind(struct jinja_run *r, struct jinja_value bound[JINJA_PARAMETERS_MAX],
                const struct jinja_args *args, const char *callee, const char *parameters,
                size_t required) ATTR_MUST_USE;

/* Bound values as C types; MISSING leaves *out as it is. */
bool jinja_want_int(struct jinja_run *r, int64_t *out, struct jinja_value v) ATTR_MUST_USE;
bool jinja_want_text(struct jinja_run *r, const struct jinja_text **out,
                     struct jinja_value v) ATTR_MUST_USE;

/* jinja_global - the function of a name; false when there is none. */
bool jinja_global(struct jinja_value *out, struct str name);

#endif
