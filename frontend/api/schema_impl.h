/* SPDX-License-Identifier: MIT */
/* schema_impl - what the files of the schema share. Nobody else includes it. */
#ifndef QUIRE_FRONTEND_API_SCHEMA_IMPL_H
#define QUIRE_FRONTEND_API_SCHEMA_IMPL_H

#include "core/attr.h"
#include "frontend/api/schema.h"

/* An absent or null field is NULL. */
ATTR_INLINE const json_t *schema_get(const json_t *body, const char *name)
{
    const json_t *v = json_object_get(body, name);
    return json_is_null(v) ? NULL : v;
}

/* schema_tokens.c. copy_bias: a list of its own instead of the defaults'. */
enum rc schema_take_prompt(struct completion_params *p, uint32_t vocab_count, struct api_error *e);
enum rc schema_take_stop_ids(struct completion_params *p, const json_t *v, uint32_t vocab_count,
                             struct api_error *e);
enum rc schema_take_bias(struct completion_params *p, json_t *v, uint32_t vocab_count,
                         struct api_error *e);
enum rc schema_copy_bias(struct completion_params *p, struct api_error *e);

#endif
