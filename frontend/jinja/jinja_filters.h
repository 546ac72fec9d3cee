/* SPDX-License-Identifier: MIT */
/* jinja_filters - what stands behind "|" and "is": filters, tests, and their tables.
 *   owner    results live in the run
 *   errors   false: the run has failed
 *   lazy     Jinja2's generators are computed at once here; the value still is a generator: it has
 *            no length, is always true and can be read once
 *   limits   filters that call filters (map) at most JINJA_NATIVE_DEPTH_MAX inside each other */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_FILTERS_H
#define QUIRE_FRONTEND_JINJA_JINJA_FILTERS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_call.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;
struct jinja_args;

#define JINJA_NATIVE_DEPTH_MAX 8u
#define JINJA_UNKNOWN (-1)

/* A filter being called: what stands before the "|", and the arguments by parameter. */
struct jinja_filter_call {
    struct jinja_value in;
    struct jinja_value bound[JINJA_PARAMETERS_MAX];
    const struct jinja_args *args;
    const char *name;
};

typedef bool jinja_filter_fn(struct jinja_run *r, struct jinja_value *out,
                             const struct jinja_filter_call *c);

struct jinja_filter {
    const char *name;
    const char *parameters; /* "*": the filter sorts its arguments itself */
    size_t required;
    jinja_filter_fn *call;
};

/* The filters of jinja_filters_seq.c, which work on sequences. */
extern const struct jinja_filter jinja_seq_filters[];
extern const size_t jinja_seq_filter_count;

/* jinja_filter_id, jinja_test_id - number of a name, JINJA_UNKNOWN when there is none. */
int jinja_filter_id(struct str name);
int jinja_test_id(struct str name);

/* jinja_filter - in|name(args), or the error for an unknown name. */
bool jinja_filter(struct jinja_run *r, struct jinja_value *out, struct str name,
                  struct jinja_value in, const struct jinja_args *args) ATTR_MUST_USE;
bool jinja_filter_by_id(struct jinja_run *r, struct jinja_value *out, int id, struct jinja_value in,
                        const struct jinja_args *args) ATTR_MUST_USE;
bool jinja_test(struct jinja_run *r, bool *out, struct str name, struct jinja_value in,
                const struct jinja_args *args) ATTR_MUST_USE;
bool jinja_test_by_id(struct jinja_run *r, bool *out, int id, struct jinja_value in,
                      const struct jinja_args *args) ATTR_MUST_USE;

#endif
