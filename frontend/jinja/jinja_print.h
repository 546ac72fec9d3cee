/* SPDX-License-Identifier: MIT */
/* jinja_print - values as text: str(), repr() and json.dumps() as Python writes them, HTML escapes.
 *   owner    results live in the run
 *   errors   false: the run has failed
 *   origin   what a text holds keeps its marks; the punctuation around it is a user's when the
 *            container came with the variables; numbers and words are the template's
 *   source   the behaviour of CPython 3.11 */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_PRINT_H
#define QUIRE_FRONTEND_JINJA_JINJA_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_text.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;

#define JINJA_FLOAT_TEXT_MAX 40u

/* jinja_float_text - repr of a float: the shortest digits that read back as the same number. */
void jinja_float_text(char out[JINJA_FLOAT_TEXT_MAX], double d);

/* jinja_put_str - str(v). jinja_put_repr - repr(v); ascii: as ascii(v). */
bool jinja_put_str(struct jinja_run *r, struct jinja_builder *b,
                   struct jinja_value v) ATTR_MUST_USE;
bool jinja_put_repr(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                    bool ascii) ATTR_MUST_USE;

/* jinja_to_text - str(v): v itself where it is a text. */
bool jinja_to_text(struct jinja_run *r, const struct jinja_text **out,
                   struct jinja_value v) ATTR_MUST_USE;

struct jinja_json_style {
    bool ascii; /* \u escapes for all that is not ASCII */
    bool sort_keys;
    bool pretty;             /* items on lines of their own */
    struct str indent;       /* of one level, when pretty */
    struct str item, member; /* separators: ", " and ": " */
};

bool jinja_put_json(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                    const struct jinja_json_style *style) ATTR_MUST_USE;

/* jinja_escape - markup of a text: & < > ' and " as entities; markup stays as it is. */
bool jinja_escape(struct jinja_run *r, const struct jinja_text **out,
                  const struct jinja_text *t) ATTR_MUST_USE;

#endif
