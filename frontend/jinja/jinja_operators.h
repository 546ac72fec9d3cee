/* SPDX-License-Identifier: MIT */
/* jinja_operators - arithmetic, joining, comparison, members, items and slices.
 *   owner    results live in the run
 *   errors   false: the run has failed, with the error that Python or Jinja2 would raise
 *   limits   whole numbers have 64 bits: beyond them "OverflowError" */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_OPERATORS_H
#define QUIRE_FRONTEND_JINJA_JINJA_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_code.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;

/* jinja_arithmetic - code is JINJA_OP_ADD .. JINJA_OP_POW. */
bool jinja_arithmetic(struct jinja_run *r, struct jinja_value *out, enum jinja_opcode code,
                      struct jinja_value a, struct jinja_value b) ATTR_MUST_USE;

/* jinja_sign - -v or +v. */
bool jinja_sign(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                bool negative) ATTR_MUST_USE;

bool jinja_compare(struct jinja_run *r, bool *out, enum jinja_comparison how, struct jinja_value a,
                   struct jinja_value b) ATTR_MUST_USE;

/* jinja_concat - a ~ b ~ ..: their texts, one behind the other. */
bool jinja_concat(struct jinja_run *r, struct jinja_value *out, const struct jinja_value *values,
                  size_t count) ATTR_MUST_USE;

/* jinja_member - v.name: a method or attribute first, then an item. jinja_item - v[key]: the other
 * way round. jinja_attribute - no items. All give undefined where there is nothing. */
bool jinja_member(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                  const struct jinja_text *name) ATTR_MUST_USE;
bool jinja_attribute(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                     const struct jinja_text *name) ATTR_MUST_USE;
bool jinja_item(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                struct jinja_value key) ATTR_MUST_USE;

/* jinja_slice - v[start:stop:step], none for what is not given. */
bool jinja_slice(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                 const struct jinja_value bounds[3]) ATTR_MUST_USE;

#endif
