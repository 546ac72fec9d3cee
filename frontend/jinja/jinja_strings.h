/* SPDX-License-Identifier: MIT */
/* jinja_strings - what Python's str can do, for methods and filters alike.
 *   owner    results live in the run; parts share the bytes of their whole
 *   errors   false: the run has failed
 *   origin   every byte of a result keeps the origin of the byte that it comes from */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_STRINGS_H
#define QUIRE_FRONTEND_JINJA_JINJA_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_text.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;

enum jinja_side { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 };

/* jinja_strip - without the characters of chars (NULL: blanks) at these ends. */
bool jinja_strip(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                 const struct jinja_text *chars, enum jinja_side side) ATTR_MUST_USE;

/* jinja_split - list of parts. separator NULL: runs of blanks. times < 0: no limit. side
 * JINJA_RIGHT: the limit counts from the end. */
bool jinja_split(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                 const struct jinja_text *separator, int64_t times,
                 enum jinja_side side) ATTR_MUST_USE;
bool jinja_split_lines(struct jinja_run *r, struct jinja_seq **out, const struct jinja_text *t,
                       bool keep_ends) ATTR_MUST_USE;

/* jinja_partition - (before, separator, behind) at its first (JINJA_LEFT) or last place. */
bool jinja_partition(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                     const struct jinja_text *separator, enum jinja_side side) ATTR_MUST_USE;

/* jinja_replace - times < 0: every place. */
bool jinja_replace(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                   const struct jinja_text *from, const struct jinja_text *to,
                   int64_t times) ATTR_MUST_USE;

bool jinja_recase(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                  enum jinja_case how) ATTR_MUST_USE;
bool jinja_capitalize(struct jinja_run *r, struct jinja_value *out,
                      const struct jinja_text *t) ATTR_MUST_USE;
bool jinja_titlecase(struct jinja_run *r, struct jinja_value *out,
                     const struct jinja_text *t) ATTR_MUST_USE;
bool jinja_swapcase(struct jinja_run *r, struct jinja_value *out,
                    const struct jinja_text *t) ATTR_MUST_USE;

/* jinja_pad - to width characters; side: where the text goes, JINJA_BOTH the middle. */
bool jinja_pad(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
               int64_t width, const struct jinja_text *fill, enum jinja_side side) ATTR_MUST_USE;
bool jinja_zfill(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                 int64_t width) ATTR_MUST_USE;
bool jinja_expand_tabs(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                       int64_t width) ATTR_MUST_USE;

/* jinja_join - items must be texts. */
bool jinja_join(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *separator,
                const struct jinja_seq *items) ATTR_MUST_USE;

/* jinja_text_kind - isalpha, isdigit .. by name ("alpha", "digit" ..). */
bool jinja_text_kind(const struct jinja_text *t, const char *kind);

#endif
