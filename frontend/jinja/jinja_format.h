/* SPDX-License-Identifier: MIT */
/* jinja_format - Python's two ways of formatting: "%5.2f" % x and "{:>5.2f}".format(x).
 *   owner    results live in the run
 *   errors   false: the run has failed
 *   limits   precision FORMAT_PRECISION_MAX; no fields inside a field's specification
 *   source   Python's format specification mini-language and printf-style formatting */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_FORMAT_H
#define QUIRE_FRONTEND_JINJA_JINJA_FORMAT_H

#include <stdbool.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_text.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;
struct jinja_args;

/* jinja_format_percent - format % value: a tuple holds several values, a dict named ones. */
bool jinja_format_percent(struct jinja_run *r, struct jinja_value *out,
                          const struct jinja_text *format, struct jinja_value value) ATTR_MUST_USE;

/* jinja_format_braces - format.format(*items, **named). */
bool jinja_format_braces(struct jinja_run *r, struct jinja_value *out,
                         const struct jinja_text *format,
                         const struct jinja_args *args) ATTR_MUST_USE;

#endif
