/* SPDX-License-Identifier: MIT */
/* jinja_methods - attributes and methods of texts, lists, dicts, loops, macros and cyclers.
 *   owner    results live in the run
 *   errors   false: the run has failed
 *   refused  what would change a list or dict, as the immutable sandbox of model hubs does */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_METHODS_H
#define QUIRE_FRONTEND_JINJA_JINJA_METHODS_H

#include <stdbool.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;
struct jinja_args;

enum jinja_attribute {
    JINJA_ATTRIBUTE_FOUND,
    JINJA_ATTRIBUTE_NONE,
    JINJA_ATTRIBUTE_UNSAFE,
    JINJA_ATTRIBUTE_FAILED /* the run has failed */
};

/* jinja_find_attribute - the attribute's value, or the method bound to v. */
enum jinja_attribute jinja_find_attribute(struct jinja_run *r, struct jinja_value *out,
                                          struct jinja_value v, struct str name) ATTR_MUST_USE;

bool jinja_call_method(struct jinja_run *r, struct jinja_value *out, const struct jinja_method *m,
                       const struct jinja_args *args) ATTR_MUST_USE;

/* jinja_dict_view - keys, values or items of a dict. */
bool jinja_dict_view(struct jinja_run *r, struct jinja_value *out, const struct jinja_dict *d,
                     enum jinja_flavour flavour) ATTR_MUST_USE;

#endif
