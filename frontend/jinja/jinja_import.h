/* SPDX-License-Identifier: MIT */
/* jinja_import - JSON values as values of a run.
 *   owner    texts point into the JSON, which must outlive the run
 *   errors   false: the run has failed
 *   limits   JINJA_NEST_MAX containers inside each other */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_IMPORT_H
#define QUIRE_FRONTEND_JINJA_JINJA_IMPORT_H

#include <stdbool.h>

#include <jansson.h>

#include "core/attr.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;

/* jinja_import - user: whether texts are what users wrote (members of options.known apart). */
bool jinja_import(struct jinja_run *r, struct jinja_value *out, json_t *json,
                  bool user) ATTR_MUST_USE;

#endif
