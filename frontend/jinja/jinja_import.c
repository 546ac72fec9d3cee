/* SPDX-License-Identifier: MIT */
/* jinja_import - see jinja_import.h. A stack of containers being filled, no recursion. */
#include "frontend/jinja/jinja_import.h"

#include <string.h>

#include "frontend/jinja/jinja_run.h"

#define STEPS_A_BYTE 16u  /* that what the caller gives adds to the limit of steps */
#define MEMORY_A_BYTE 32u /* and of memory */
#define BYTES_A_VALUE 16u /* that every value counts at least */

/* Long conversations may take longer: what is imported raises the limits of the run. */
static void raise_limits(struct jinja_run *r, size_t bytes)
{
    r->steps_max += STEPS_A_BYTE * (bytes + BYTES_A_VALUE);
    r->steps_left += STEPS_A_BYTE * (bytes + BYTES_A_VALUE);
    r->heap.used_max += MEMORY_A_BYTE * (bytes + BYTES_A_VALUE);
}

/* A container on its way from JSON. */
struct level {
    json_t *json;
    void *iter; /* of an object */
    struct jinja_seq *seq;
    struct jinja_pair *pairs;
    size_t next, count;
    struct jinja_value *slot; /* where the finished dict goes */
};

static bool is_known(const struct jinja_run *r, struct str key, struct str text)
{
    const struct jinja_known *k = r->options->known;
    if (k == NULL || !str_equal(key, str_of(k->key)))
        return false;
    for (size_t i = 0; k->words[i] != NULL; i++)
        if (str_equal(text, str_of(k->words[i])))
            return true;
    return false;
}

static bool import_scalar(struct jinja_run *r, struct jinja_value *out, json_t *json, bool user)
{
    raise_limits(r, json_string_length(json));
    switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jinja_bool(json_is_true(json));
        return true;
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = jinja_float(json_real_value(json));
        return true;
    case JSON_STRING:
        return jinja_text_of(
            r, out, (struct str){ json_string_value(json), json_string_length(json) }, user);
    case JSON_NULL:
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    *out = jinja_none();
    return true;
}

static bool enter(struct jinja_run *r, struct level *stack, size_t *depth, json_t *json, bool user,
                  struct jinja_value *slot)
{
    raise_limits(r, 0);
    if (*depth == JINJA_NEST_MAX)
        return jinja_fail_limit(r, "variables nested over %u deep", JINJA_NEST_MAX);
    struct level l = { .json = json, .slot = slot };
    if (json_is_array(json)) {
        l.count = json_array_size(json);
        if (!jinja_new_seq(r, &l.seq, JINJA_LIST, l.count))
            return false;
        l.seq->user = user;
        *slot = jinja_of_seq(l.seq);
    } else {
        l.count = json_object_size(json);
        l.iter = json_object_iter(json);
        l.pairs = jinja_take(r, l.count, sizeof *l.pairs);
        if (l.pairs == NULL)
            return false;
    }
    stack[(*depth)++] = l;
    return true;
}

static bool leave(struct jinja_run *r, const struct level *l, bool user)
{
    if (l->seq != NULL)
        return true;
    return jinja_new_dict(r, l->slot, l->pairs, l->count, user);
}

/* The next child of a container, and where its value goes. */
static bool next_child(struct jinja_run *r, struct level *l, json_t **child, bool *user,
                       struct jinja_value **slot)
{
    if (l->seq != NULL) {
        *child = json_array_get(l->json, l->next);
        *slot = &l->seq->items[l->next++];
        return true;
    }
    struct jinja_pair *p = &l->pairs[l->next++];
    struct str key = { json_object_iter_key(l->iter), json_object_iter_key_len(l->iter) };
    *child = json_object_iter_value(l->iter);
    *slot = &p->value;
    l->iter = json_object_iter_next(l->json, l->iter);
    bool key_user = *user;
    raise_limits(r, key.len);
    if (*user && json_is_string(*child))
        *user = !is_known(r, key,
                          (struct str){ json_string_value(*child), json_string_length(*child) });
    return jinja_text_of(r, &p->key, key, key_user);
}

bool jinja_import(struct jinja_run *r, struct jinja_value *out, json_t *json, bool user)
{
    struct level stack[JINJA_NEST_MAX];
    size_t depth = 0;
    if (!json_is_array(json) && !json_is_object(json))
        return import_scalar(r, out, json, user);
    if (!enter(r, stack, &depth, json, user, out))
        return false;
    while (depth > 0) {
        struct level *l = &stack[depth - 1];
        if (l->next == l->count) {
            depth--;
            if (!leave(r, l, user))
                return false;
            continue;
        }
        json_t *child;
        struct jinja_value *slot;
        bool child_user = user;
        if (!next_child(r, l, &child, &child_user, &slot))
            return false;
        bool container = json_is_array(child) || json_is_object(child);
        if (!(container ? enter(r, stack, &depth, child, user, slot)
                        : import_scalar(r, slot, child, child_user)))
            return false;
    }
    return true;
}
