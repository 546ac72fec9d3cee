/* SPDX-License-Identifier: MIT */
/* jinja - chat templates: the Jinja language as models carry it, compiled once, rendered per
 * request.
 *   meaning  that of Jinja2 in its immutable sandbox with trim_blocks, lstrip_blocks and loop
 *            controls, and with what model hubs add: tojson as json.dumps, raise_exception,
 *            strftime_now, {% generation %}
 *   owner    the opener; a render's output belongs to its caller
 *   thread   a struct jinja is read-only after jinja_open, so that any number of threads may render
 *   errors   "template line N: Kind: message" in the fault. RC_INVALID: the template does not
 *            parse, or refuses its input (raise_exception gives "TemplateError: ...");
 *            RC_UNSUPPORTED: include, import, extends, block; RC_LIMIT: one of struct
 *            jinja_limits; RC_NO_MEMORY
 *   limits   no template and no request can use more than struct jinja_limits; nothing recurses
 *   source   behaviour of Jinja2 3.1 and Python's str, repr and json.dumps */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_H
#define QUIRE_FRONTEND_JINJA_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <jansson.h>

#include "core/attr.h"
#include "core/err.h"
#include "core/span.h"

struct jinja;

/* jinja_open - compiles the source (UTF-8, TEMPLATE_BYTES_MAX), which is copied. */
enum rc jinja_open(struct jinja **out, const char *source, size_t len,
                   struct fault *fault) ATTR_MUST_USE;
void jinja_close(struct jinja *j);

/* A variable of the template. Text in value is what users wrote, unless trusted. The JSON is read
 * during the render only. */
struct jinja_variable {
    const char *name;
    json_t *value;
    bool trusted;
};

struct jinja_limits {
    uint64_t steps;      /* elementary steps: instructions, and bytes and items that they touch */
    size_t memory_bytes; /* of one render, all of it */
    size_t text_bytes;   /* of one text, the output included */
    uint32_t depth;      /* macros and recursive loops inside each other */
};

/* The local time, as a seam: strftime_now asks for it. */
struct jinja_calendar {
    void *ctx;
    void (*now)(void *ctx, struct tm *out);
};

/* Members of user data whose text is trusted when it is one of a few words: a role such as "user"
 * is part of a control token in many templates. */
struct jinja_known {
    const char *key;
    const char *const *words; /* NULL after the last */
};

struct jinja_options {
    struct jinja_limits limits;
    struct jinja_calendar calendar;
    const struct jinja_known *known; /* may be NULL */
};

/* jinja_options_default - the limits of core/limits.h, the system's clock, nothing known. */
struct jinja_options jinja_options_default(void);

struct jinja_output {
    char *text; /* zero-terminated, may hold zeros */
    size_t len;
    struct text_span *spans; /* in order, neighbours differ; the last one ends at len */
    size_t span_count;
    uint64_t steps;      /* used */
    size_t memory_bytes; /* used, at the most */
};

/* jinja_render - out is filled on RC_OK, else zero. Of two variables with one name the later
 * counts. */
enum rc jinja_render(struct jinja_output *out, const struct jinja *j,
                     const struct jinja_variable *variables, size_t variable_count,
                     const struct jinja_options *options, struct fault *fault) ATTR_MUST_USE;
void jinja_output_close(struct jinja_output *out);

/* jinja_names - whether the template mentions a name (or attribute) anywhere. */
bool jinja_names(const struct jinja *j, const char *name);

#endif
