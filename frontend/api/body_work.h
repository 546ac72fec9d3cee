/* SPDX-License-Identifier: MIT */
/* body_work - how another API's body is rewritten, field by field: for messages_body.c and
 * responses_body.c only. A lack of memory is noted once and asked for at the end. */
#ifndef QUIRE_FRONTEND_API_BODY_WORK_H
#define QUIRE_FRONTEND_API_BODY_WORK_H

#include <stdbool.h>
#include <string.h>

#include <jansson.h>

#include "core/attr.h"
#include "frontend/api/schema.h"

struct work {
    json_t *turns;
    struct api_error *error;
    const char *field; /* the list that the items come from */
    size_t index;      /* of the item at hand */
    bool starved;
};

/* A field that is there and not null. */
ATTR_INLINE json_t *get(json_t *object, const char *name)
{
    json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

ATTR_INLINE bool is(json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

/* Both take the value over. */
ATTR_INLINE void set(struct work *w, json_t *object, const char *key, json_t *value)
{
    w->starved |= json_object_set_new(object, key, value) != 0;
}

ATTR_INLINE void append(struct work *w, json_t *list, json_t *value)
{
    w->starved |= json_array_append_new(list, value) != 0;
}

ATTR_INLINE enum rc refuse(struct work *w, const char *what)
{
    return api_error_set(w->error, 400, "invalid_value", w->field, "%s[%zu]: %s", w->field,
                         w->index, what);
}

#endif
