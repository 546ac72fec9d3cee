/* SPDX-License-Identifier: MIT */
/* jinja_machine - runs compiled templates; declared in jinja_run.h. One loop over instructions,
 * four stacks in the run's memory: values, scopes (a list), loops (a list), frames of called
 * macros and recursive loops; and captures, texts under construction. The C stack never grows with
 * the template.
 *   M1  every instruction costs a step
 *   M2  a frame remembers the height of the value stack; returning restores it. A loop remembers
 *       heights and scope, so that break and continue may leave anything inside it
 *   M3  variables of a loop's body, a macro, a block live in its scope; set writes the innermost
 *       one, reading looks outwards to run.root, which is indexed by name */
#include "frontend/jinja/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_filters.h"
#include "frontend/jinja/jinja_operators.h"
#include "frontend/jinja/jinja_print.h"

/* --- errors, steps, memory --- */

bool jinja_fail(struct jinja_run *r, const char *fmt, ...)
{
    if (r->rc != RC_OK)
        return false;
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->rc = fault_set(r->fault, RC_INVALID, "template line %u: %s", r->line, text);
    return false;
}

bool jinja_fail_limit(struct jinja_run *r, const char *fmt, ...)
{
    if (r->rc != RC_OK)
        return false;
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->rc = fault_set(r->fault, r->heap.starved ? RC_NO_MEMORY : RC_LIMIT,
                      "template line %u: over a limit: %s", r->line, text);
    return false;
}

bool jinja_fail_undefined(struct jinja_run *r, struct jinja_value v)
{
    must(v.kind == JINJA_UNDEFINED);
    const struct jinja_undefined *u = v.as.undefined;
    if (u->hint != NULL)
        return jinja_fail(r, "UndefinedError: %s", u->hint);
    struct jinja_builder b = { 0 };
    struct jinja_value name;
    if (!jinja_put_repr(r, &b, u->name, false) || !jinja_built(r, &name, &b))
        return false;
    int len = (int)name.as.text->len;
    if (u->unsafe)
        return jinja_fail(r, "SecurityError: access to attribute %.*s of '%s' object is unsafe.",
                          len, name.as.text->bytes, u->owner);
    if (u->owner == NULL)
        return jinja_fail(r, "UndefinedError: %.*s is undefined", len, name.as.text->bytes);
    if (u->name.kind != JINJA_TEXT)
        return jinja_fail(r, "UndefinedError: %s has no element %.*s", u->owner, len,
                          name.as.text->bytes);
    return jinja_fail(r, "UndefinedError: '%s' has no attribute %.*s", u->owner, len,
                      name.as.text->bytes);
}

bool jinja_spend(struct jinja_run *r, uint64_t steps)
{
    if (steps <= r->steps_left) {
        r->steps_left -= steps;
        return true;
    }
    r->steps_left = 0;
    return jinja_fail_limit(r, "the template ran for %llu steps", (unsigned long long)r->steps_max);
}

void *jinja_take(struct jinja_run *r, size_t count, size_t size)
{
    size_t bytes;
    void *p = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes))
        p = jinja_heap_take(&r->heap, bytes);
    if (p == NULL)
        (void)jinja_fail_limit(r, "%zu bytes of memory", r->heap.used_max);
    return p;
}

bool jinja_room(struct jinja_run *r, void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = jinja_heap_grow(&r->heap, old, count * size, wanted * size);
    if (grown == NULL)
        return jinja_fail_limit(r, "%zu bytes of memory", r->heap.used_max);
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

/* --- the value stack --- */

static bool push(struct jinja_run *r, struct jinja_value v)
{
    if (!jinja_room(r, &r->stack, r->stack_count, &r->stack_capacity, sizeof *r->stack))
        return false;
    r->stack[r->stack_count++] = v;
    return true;
}

static struct jinja_value pop(struct jinja_run *r)
{
    must(r->stack_count > 0);
    return r->stack[--r->stack_count];
}

static struct jinja_value *peek(struct jinja_run *r, size_t depth)
{
    must(r->stack_count > depth);
    return &r->stack[r->stack_count - 1 - depth];
}

/* --- variables --- */

static bool new_scope(struct jinja_run *r, struct jinja_scope **out, struct jinja_scope *parent)
{
    struct jinja_scope *s = jinja_take(r, 1, sizeof *s);
    if (s == NULL)
        return false;
    *s = (struct jinja_scope){ .parent = parent };
    *out = s;
    return true;
}

static bool store(struct jinja_run *r, uint32_t name, struct jinja_value v)
{
    struct jinja_scope *s = r->scope;
    if (s == NULL) {
        r->root[name] = v;
        return true;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->slots[i].name == name) {
            s->slots[i].value = v;
            return true;
        }
    }
    size_t capacity = s->capacity;
    if (!jinja_room(r, &s->slots, s->count, &capacity, sizeof *s->slots))
        return false;
    s->capacity = (uint32_t)capacity;
    s->slots[s->count++] = (struct jinja_variable_slot){ name, v };
    return jinja_spend(r, s->count / 8);
}

static bool load(struct jinja_run *r, struct jinja_value *out, uint32_t name)
{
    *out = r->root[name];
    for (const struct jinja_scope *s = r->scope; s != NULL; s = s->parent) {
        if (!jinja_spend(r, 1 + s->count / 8))
            return false;
        for (uint32_t i = 0; i < s->count; i++) {
            if (s->slots[i].name != name)
                continue;
            *out = s->slots[i].value;
            if (out->kind != JINJA_MISSING)
                return true; /* else a parameter whose default has not been computed yet */
            return jinja_new_undefined(r, out, NULL, NULL, jinja_of_text(&r->j->names[name]));
        }
    }
    return true;
}

static bool store_attribute(struct jinja_run *r, uint32_t name, uint32_t attribute)
{
    struct jinja_value space, v = pop(r);
    if (!load(r, &space, name))
        return false;
    if (space.kind != JINJA_SPACE)
        return jinja_fail(r,
                          "TemplateRuntimeError: cannot assign attribute on non-namespace object");
    return jinja_space_set(r, space.as.space, &r->j->names[attribute], v);
}

/* --- output --- */

static struct jinja_builder *output(struct jinja_run *r)
{
    return &r->captures[r->capture_count - 1];
}

static bool begin_capture(struct jinja_run *r)
{
    if (!jinja_room(r, &r->captures, r->capture_count, &r->capture_capacity, sizeof *r->captures))
        return false;
    r->captures[r->capture_count++] = (struct jinja_builder){ 0 };
    return true;
}

/* The captured text onto the stack. */
static bool end_capture(struct jinja_run *r)
{
    struct jinja_value v;
    must(r->capture_count > 1);
    return jinja_built(r, &v, &r->captures[--r->capture_count]) && push(r, v);
}

/* --- building values --- */

static bool make_seq(struct jinja_run *r, enum jinja_flavour flavour, size_t count)
{
    struct jinja_seq *s;
    must(count <= r->stack_count);
    if (!jinja_new_seq(r, &s, flavour, count))
        return false;
    r->stack_count -= count;
    if (count > 0)
        memcpy(s->items, r->stack + r->stack_count, count * sizeof *s->items);
    return push(r, jinja_of_seq(s));
}

static bool make_dict(struct jinja_run *r, size_t count)
{
    struct jinja_value dict;
    must(count <= r->stack_count && count % 2 == 0);
    struct jinja_pair *pairs = jinja_take(r, count / 2, sizeof *pairs);
    if (pairs == NULL)
        return false;
    r->stack_count -= count;
    for (size_t i = 0; i < count / 2; i++)
        pairs[i] = (struct jinja_pair){ r->stack[r->stack_count + 2 * i],
                                        r->stack[r->stack_count + 2 * i + 1] };
    return jinja_new_dict(r, &dict, pairs, count / 2, false) && push(r, dict);
}

static bool box(struct jinja_run *r, enum jinja_kind kind, const struct jinja_text *name)
{
    struct jinja_boxed *b = jinja_take(r, 1, sizeof *b);
    if (b == NULL)
        return false;
    *b = (struct jinja_boxed){ name, pop(r) };
    return push(r, (struct jinja_value){ .kind = kind, .as.boxed = b });
}

static bool unpack(struct jinja_run *r, size_t count)
{
    struct jinja_seq *s;
    struct jinja_value v = pop(r);
    if (!jinja_is_iterable(v))
        return jinja_fail(r, "TypeError: cannot unpack non-iterable %s object", jinja_type(v));
    if (!jinja_iterate(r, &s, v))
        return false;
    if (s->count < count)
        return jinja_fail(r, "ValueError: not enough values to unpack (expected %zu, got %zu)",
                          count, s->count);
    if (s->count > count)
        return jinja_fail(r, "ValueError: too many values to unpack (expected %zu)", count);
    for (size_t i = count; i-- > 0;)
        if (!push(r, jinja_at(s, i)))
            return false;
    return true;
}

/* --- arguments --- */

/* Counts of an argument: how many positional and named ones it stands for. */
static bool count_argument(struct jinja_run *r, struct jinja_value *v, size_t *items, size_t *named)
{
    struct jinja_seq *s;
    if (v->kind == JINJA_SPREAD) {
        if (!jinja_iterate(r, &s, v->as.boxed->value))
            return false;
        struct jinja_boxed *b = jinja_take(r, 1, sizeof *b);
        if (b == NULL)
            return false;
        *b = (struct jinja_boxed){ NULL,
                                   jinja_of_seq(s) }; /* iterated once: it may be a generator */
        v->as.boxed = b;
        *items += s->count;
    } else if (v->kind == JINJA_SPREAD_PAIRS) {
        struct jinja_value d = v->as.boxed->value;
        if (d.kind != JINJA_DICT)
            return jinja_fail(r, "TypeError: argument after ** must be a mapping, not %s",
                              jinja_type(d));
        *named += d.as.dict->count;
    } else if (v->kind == JINJA_KEYWORD) {
        ++*named;
    } else {
        ++*items;
    }
    return true;
}

static bool add_named(struct jinja_run *r, struct jinja_pair *named, size_t *count,
                      struct jinja_value name, struct jinja_value v)
{
    if (name.kind != JINJA_TEXT)
        return jinja_fail(r, "TypeError: keywords must be strings");
    for (size_t i = 0; i < *count; i++)
        if (str_equal(jinja_str(named[i].key.as.text), jinja_str(name.as.text)))
            return jinja_fail(r, "TypeError: got multiple values for keyword argument '%.*s'",
                              (int)name.as.text->len, name.as.text->bytes);
    named[(*count)++] = (struct jinja_pair){ name, v };
    return jinja_spend(r, *count);
}

static bool spread(struct jinja_run *r, struct jinja_value *items, struct jinja_args *a,
                   struct jinja_pair *named, struct jinja_value v)
{
    if (v.kind == JINJA_SPREAD) {
        const struct jinja_seq *s = v.as.boxed->value.as.seq;
        for (size_t i = 0; i < s->count; i++)
            items[a->count++] = jinja_at(s, i);
        return jinja_spend(r, s->count);
    }
    if (v.kind == JINJA_SPREAD_PAIRS) {
        const struct jinja_dict *d = v.as.boxed->value.as.dict;
        for (uint32_t i = 0; i < d->count; i++)
            if (!add_named(r, named, &a->named_count, d->pairs[i].key, d->pairs[i].value))
                return false;
        return true;
    }
    if (v.kind == JINJA_KEYWORD)
        return add_named(r, named, &a->named_count, jinja_of_text(v.as.boxed->name),
                         v.as.boxed->value);
    items[a->count++] = v;
    return true;
}

/* Takes count arguments off the stack. Plain ones stay readable in place until the next push. */
static bool take_arguments(struct jinja_run *r, struct jinja_args *a, size_t count)
{
    size_t items = 0, named_count = 0;
    must(count <= r->stack_count);
    struct jinja_value *values = r->stack + r->stack_count - count;
    bool plain = true;
    *a = (struct jinja_args){ .items = values, .count = count };
    for (size_t i = 0; i < count; i++) {
        plain &= values[i].kind < JINJA_KEYWORD;
        if (!count_argument(r, &values[i], &items, &named_count))
            return false;
    }
    if (!plain) {
        struct jinja_value *flat = jinja_take(r, items, sizeof *flat);
        struct jinja_pair *named = jinja_take(r, named_count, sizeof *named);
        if (flat == NULL || named == NULL)
            return false;
        *a = (struct jinja_args){ .items = flat, .named = named };
        for (size_t i = 0; i < count; i++)
            if (!spread(r, flat, a, named, values[i]))
                return false;
    }
    r->stack_count -= count;
    return true;
}

/* --- macros --- */

static bool push_frame(struct jinja_run *r, enum jinja_frame_kind kind, const struct jinja_op *back)
{
    if (r->frame_count >= r->options->limits.depth)
        return jinja_fail_limit(r, "macros or loops inside each other over %u deep",
                                r->options->limits.depth);
    if (!jinja_room(r, &r->frames, r->frame_count, &r->frame_capacity, sizeof *r->frames))
        return false;
    r->frames[r->frame_count++] = (struct jinja_frame){ .kind = kind,
                                                        .back = back,
                                                        .scope = r->scope,
                                                        .loop = r->loop,
                                                        .stack_count = r->stack_count };
    return begin_capture(r);
}

/* Back from a frame with its text; the instruction to go on with. */
static const struct jinja_op *pop_frame(struct jinja_run *r)
{
    must(r->frame_count > 0);
    const struct jinja_frame *f = &r->frames[--r->frame_count];
    r->scope = f->scope;
    r->loop = f->loop;
    r->stack_count = f->stack_count;
    return end_capture(r) ? f->back : NULL;
}

/* The named argument of a name, taken out of them; NULL: none. */
static const struct jinja_pair *take_named(struct jinja_pair *named, size_t *count, struct str name)
{
    for (size_t i = 0; i < *count; i++) {
        if (!str_equal(jinja_str(named[i].key.as.text), name))
            continue;
        struct jinja_pair found = named[i];
        memmove(named + i, named + i + 1, (*count - i - 1) * sizeof *named);
        named[--*count] = found;
        return &named[*count];
    }
    return NULL;
}

static bool bind_rest(struct jinja_run *r, const struct jinja_macro *m,
                      const struct jinja_args *args, struct jinja_pair *named, size_t named_count)
{
    struct jinja_value v;
    struct str name = m->name == JINJA_NAMELESS ? str_of("None") : jinja_str(&r->j->names[m->name]);
    const char *quote = m->name == JINJA_NAMELESS ? "" : "'";
    if (m->has_kwargs) {
        if (!jinja_new_dict(r, &v, named, named_count, false) || !store(r, JINJA_NAME_KWARGS, v))
            return false;
    } else if (named_count > 0) {
        const struct jinja_text *first = named[0].key.as.text;
        if (take_named(named, &named_count, str_of("caller")) != NULL)
            return jinja_fail(r,
                              "TypeError: macro %s%.*s%s was invoked with two values for the "
                              "special caller argument. This is most likely a bug.",
                              quote, (int)name.len, name.text, quote);
        return jinja_fail(r, "TypeError: macro %s%.*s%s takes no keyword argument '%.*s'", quote,
                          (int)name.len, name.text, quote, (int)first->len, first->bytes);
    }
    size_t extra = args->count > m->parameter_count ? args->count - m->parameter_count : 0;
    if (!m->has_varargs && extra > 0)
        return jinja_fail(r, "TypeError: macro %s%.*s%s takes not more than %u argument(s)", quote,
                          (int)name.len, name.text, quote, m->parameter_count);
    if (!m->has_varargs)
        return true;
    struct jinja_seq *s;
    if (!jinja_new_seq(r, &s, JINJA_TUPLE, extra))
        return false;
    if (extra > 0)
        memcpy(s->items, args->items + m->parameter_count, extra * sizeof *s->items);
    return store(r, JINJA_NAME_VARARGS, jinja_of_seq(s));
}

/* Arguments into the macro's scope, which is the current one. */
static bool bind_macro(struct jinja_run *r, const struct jinja_macro *m,
                       const struct jinja_args *args)
{
    size_t named_count = args->named_count;
    struct jinja_pair *named = jinja_take(r, named_count, sizeof *named);
    if (named == NULL)
        return false;
    if (named_count > 0)
        memcpy(named, args->named, named_count * sizeof *named);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        struct jinja_value v = { .kind = JINJA_MISSING };
        if (i < args->count) {
            v = args->items[i];
        } else {
            const struct jinja_pair *p =
                take_named(named, &named_count, jinja_str(&r->j->names[m->parameters[i]]));
            if (p != NULL)
                v = p->value;
        }
        if (!store(r, m->parameters[i], v) || !jinja_spend(r, 1 + named_count / 8))
            return false;
    }
    if (m->has_caller && !m->own_caller) {
        const struct jinja_pair *p = take_named(named, &named_count, str_of("caller"));
        struct jinja_value caller = { .kind = JINJA_MISSING };
        if (p != NULL)
            caller = p->value;
        else if (!jinja_new_undefined(r, &caller, "No caller defined", NULL, caller))
            return false;
        if (!store(r, JINJA_NAME_CALLER, caller))
            return false;
    }
    return bind_rest(r, m, args, named, named_count);
}

static bool make_macro(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_macro_value *v = jinja_take(r, 1, sizeof *v);
    if (v == NULL)
        return false;
    *v = (struct jinja_macro_value){ .macro = &r->j->macros[op->a],
                                     .scope = r->scope,
                                     .entry = (uint32_t)(op - r->j->ops) + 1 };
    return push(r, (struct jinja_value){ .kind = JINJA_MACRO, .as.macro = v });
}

static const struct jinja_op *call_macro(struct jinja_run *r, const struct jinja_op *back,
                                         const struct jinja_macro_value *v,
                                         const struct jinja_args *args)
{
    struct jinja_scope *scope;
    if (!push_frame(r, JINJA_FRAME_MACRO, back) || !new_scope(r, &scope, v->scope))
        return NULL;
    r->scope = scope;
    r->loop = NULL;
    return bind_macro(r, v->macro, args) ? r->j->ops + v->entry : NULL;
}

/* A parameter without a value: its default follows. Else behind it. */
static const struct jinja_op *default_parameter(struct jinja_run *r, const struct jinja_op *op)
{
    must(r->scope != NULL);
    for (uint32_t i = 0; i < r->scope->count; i++)
        if (r->scope->slots[i].name == (uint32_t)op->a)
            return r->scope->slots[i].value.kind == JINJA_MISSING ? op + 1 : op + op->b;
    must(false); /* bind_macro has stored every parameter */
    return NULL;
}

/* --- loops --- */

static bool begin_loop(struct jinja_run *r, const struct jinja_op *op, struct jinja_value v,
                       uint32_t depth0)
{
    struct jinja_loop *l = jinja_take(r, 1, sizeof *l);
    if (l == NULL)
        return false;
    *l = (struct jinja_loop){ .outer = r->loop,
                              .depth0 = depth0,
                              .head = op,
                              .next_op = op + 1,
                              .testing = (op->b & JINJA_FOR_AHEAD) && (op->b & JINJA_FOR_TEST),
                              .stack_count = r->stack_count,
                              .capture_count = r->capture_count };
    if (!jinja_iterate(r, &l->items, v) || !new_scope(r, &l->scope, r->scope))
        return false;
    if (l->testing) { /* the items that pass take the place of all */
        struct jinja_seq *copy;
        if (!jinja_new_seq(r, &copy, JINJA_LIST, l->items->count))
            return false;
        for (size_t i = 0; i < copy->count; i++)
            copy->items[i] = jinja_at(l->items, i);
        if (!jinja_spend(r, copy->count))
            return false;
        l->items = copy;
    }
    r->loop = l;
    r->scope = l->scope;
    return true;
}

/* An iteration begins with this item. */
static bool begin_iteration(struct jinja_run *r, struct jinja_loop *l, struct jinja_value item)
{
    l->index0 = l->started ? l->index0 + 1 : 0;
    l->started = true;
    l->before = l->current;
    l->current = item;
    return store(r, JINJA_NAME_LOOP, (struct jinja_value){ .kind = JINJA_LOOP, .as.loop = l });
}

static const struct jinja_op *next_item(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_loop *l = r->loop;
    r->stack_count = l->stack_count;
    r->capture_count = l->capture_count;
    r->scope = l->scope;
    l->scope->count = 0;
    if (l->next == l->items->count && l->testing) {
        l->testing = false;
        l->tested = true;
        l->items->count = l->kept;
        l->next = 0;
    }
    if (l->next == l->items->count)
        return op + op->a;
    struct jinja_value item = jinja_at(l->items, l->next++);
    bool decided = l->tested || (l->head->b & JINJA_FOR_TEST) == 0;
    if (decided && !begin_iteration(r, l, item))
        return NULL;
    return push(r, item) ? op + 1 : NULL;
}

/* The loop's test of an item: on with the body, or with the next item. */
static const struct jinja_op *choose_item(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_loop *l = r->loop;
    bool passes = jinja_is_true(pop(r));
    struct jinja_value item = jinja_at(l->items, l->next - 1);
    if (l->testing) {
        if (passes)
            l->items->items[l->kept++] = item;
        return op + op->a;
    }
    if (!passes)
        return op + op->a;
    return begin_iteration(r, l, item) ? op + 1 : NULL;
}

static const struct jinja_op *end_loop(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_loop *l = r->loop;
    r->stack_count = l->stack_count;
    r->capture_count = l->capture_count;
    r->scope = l->scope->parent;
    r->loop = l->outer;
    return l->completed ? op + op->a : op + 1;
}

static const struct jinja_op *call_loop(struct jinja_run *r, const struct jinja_op *back,
                                        struct jinja_loop *l, const struct jinja_args *args)
{
    if ((l->head->b & JINJA_FOR_RECURSIVE) == 0) {
        (void)jinja_fail(r, "TypeError: The loop must have the 'recursive' marker to be called "
                            "recursively.");
        return NULL;
    }
    if (args->count != 1 || args->named_count > 0) {
        (void)jinja_fail(r, "TypeError: loop() takes one argument");
        return NULL;
    }
    if (!push_frame(r, JINJA_FRAME_LOOP, back))
        return NULL;
    r->frames[r->frame_count - 1].head = l->head;
    r->scope = l->scope->parent;
    return begin_loop(r, l->head, args->items[0], l->depth0 + 1) ? l->next_op : NULL;
}

/* The end of a recursive loop, called or not. */
static const struct jinja_op *return_loop(struct jinja_run *r, const struct jinja_op *op)
{
    const struct jinja_frame *f = r->frame_count == 0 ? NULL : &r->frames[r->frame_count - 1];
    if (f == NULL || f->kind != JINJA_FRAME_LOOP || f->head != op + op->a)
        return op + 1;
    return pop_frame(r);
}

/* --- calls --- */

static const struct jinja_op *call(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_args args;
    struct jinja_value result;
    if (!take_arguments(r, &args, (size_t)op->a))
        return NULL;
    struct jinja_value callee = pop(r);
    if (callee.kind == JINJA_MACRO)
        return call_macro(r, op + 1, callee.as.macro, &args);
    if (callee.kind == JINJA_LOOP)
        return call_loop(r, op + 1, callee.as.loop, &args);
    return jinja_call_builtin(r, &result, callee, &args) && push(r, result) ? op + 1 : NULL;
}

static bool fail_unknown(struct jinja_run *r, const struct jinja_op *op)
{
    const struct jinja_text *name = r->j->constants[-1 - op->b].as.text;
    return jinja_fail(r, "TemplateRuntimeError: No %s named '%.*s' found.",
                      op->code == JINJA_OP_FILTER ? "filter" : "test", (int)name->len, name->bytes);
}

static bool call_filter(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_args args;
    struct jinja_value out;
    if (op->b < 0)
        return fail_unknown(r, op);
    if (!take_arguments(r, &args, (size_t)op->a))
        return false;
    struct jinja_value in = pop(r);
    return jinja_filter_by_id(r, &out, op->b, in, &args) && push(r, out);
}

static bool call_test(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_args args;
    bool out;
    if (op->b < 0)
        return fail_unknown(r, op);
    if (!take_arguments(r, &args, (size_t)op->a))
        return false;
    struct jinja_value in = pop(r);
    return jinja_test_by_id(r, &out, op->b, in, &args) && push(r, jinja_bool(out));
}

/* --- operators on the stack --- */

static bool binary(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_value b = pop(r), a = pop(r), out;
    return jinja_arithmetic(r, &out, op->code, a, b) && push(r, out);
}

static bool unary(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_value v = pop(r), out;
    if (op->code == JINJA_OP_NOT)
        return push(r, jinja_bool(!jinja_is_true(v)));
    return jinja_sign(r, &out, v, op->code == JINJA_OP_NEG) && push(r, out);
}

static bool compare(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_value b = pop(r), a = pop(r);
    bool out;
    return jinja_compare(r, &out, (enum jinja_comparison)op->b, a, b) && push(r, jinja_bool(out));
}

static const struct jinja_op *compare_chain(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_value b = pop(r), a = pop(r);
    bool holds;
    if (!jinja_compare(r, &holds, (enum jinja_comparison)op->b, a, b) ||
        !push(r, holds ? b : jinja_bool(false)))
        return NULL;
    return holds ? op + 1 : op + op->a;
}

static bool concat(struct jinja_run *r, size_t count)
{
    struct jinja_value out;
    must(count <= r->stack_count);
    if (!jinja_concat(r, &out, r->stack + r->stack_count - count, count))
        return false;
    r->stack_count -= count;
    return push(r, out);
}

static bool member(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_value v = pop(r), out;
    return jinja_member(r, &out, v, &r->j->names[op->a]) && push(r, out);
}

static bool item(struct jinja_run *r)
{
    struct jinja_value key = pop(r), v = pop(r), out;
    return jinja_item(r, &out, v, key) && push(r, out);
}

static bool slice(struct jinja_run *r)
{
    struct jinja_value out, bounds[3] = { *peek(r, 2), *peek(r, 1), *peek(r, 0) };
    r->stack_count -= 3;
    struct jinja_value v = pop(r);
    return jinja_slice(r, &out, v, bounds) && push(r, out);
}

/* --- the loop --- */

/* Instructions that only work on the stack; all others go through run_control. */
static bool run_plain(struct jinja_run *r, const struct jinja_op *op)
{
    struct jinja_value v;
    switch ((int)op->code) {
    case JINJA_OP_TEXT:
        return jinja_put_text(r, output(r), r->j->constants[op->a].as.text);
    case JINJA_OP_OUTPUT:
        return jinja_put_str(r, output(r), pop(r));
    case JINJA_OP_CONST:
        return push(r, r->j->constants[op->a]);
    case JINJA_OP_UNDEFINED:
        return jinja_new_undefined(r, &v, r->j->constants[op->a].as.text->bytes, NULL,
                                   jinja_none()) &&
               push(r, v);
    case JINJA_OP_LOAD:
        return load(r, &v, (uint32_t)op->a) && push(r, v);
    case JINJA_OP_STORE:
        return store(r, (uint32_t)op->a, pop(r));
    case JINJA_OP_STORE_ATTR:
        return store_attribute(r, (uint32_t)op->a, (uint32_t)op->b);
    case JINJA_OP_GETATTR:
        return member(r, op);
    case JINJA_OP_GETITEM:
        return item(r);
    case JINJA_OP_SLICE:
        return slice(r);
    case JINJA_OP_LIST:
        return make_seq(r, JINJA_LIST, (size_t)op->a);
    case JINJA_OP_TUPLE:
        return make_seq(r, JINJA_TUPLE, (size_t)op->a);
    case JINJA_OP_DICT:
        return make_dict(r, (size_t)op->a);
    case JINJA_OP_KEYWORD:
        return box(r, JINJA_KEYWORD, r->j->constants[op->a].as.text);
    case JINJA_OP_SPREAD:
        return box(r, JINJA_SPREAD, NULL);
    case JINJA_OP_SPREAD_PAIRS:
        return box(r, JINJA_SPREAD_PAIRS, NULL);
    case JINJA_OP_FILTER:
        return call_filter(r, op);
    case JINJA_OP_TEST:
        return call_test(r, op);
    case JINJA_OP_NOT:
    case JINJA_OP_NEG:
    case JINJA_OP_POS:
        return unary(r, op);
    case JINJA_OP_CONCAT:
        return concat(r, (size_t)op->a);
    case JINJA_OP_COMPARE:
        return compare(r, op);
    case JINJA_OP_UNPACK:
        return unpack(r, (size_t)op->a);
    case JINJA_OP_SCOPE:
        return new_scope(r, &r->scope, r->scope);
    case JINJA_OP_UNSCOPE:
        must(r->scope != NULL);
        r->scope = r->scope->parent;
        return true;
    case JINJA_OP_CAPTURE:
        return begin_capture(r);
    case JINJA_OP_CAPTURED:
        return end_capture(r);
    default:
        return binary(r, op);
    }
}

/* Jumps, loops and calls: the next instruction, NULL when the run has failed. */
static const struct jinja_op *run_control(struct jinja_run *r, const struct jinja_op *op)
{
    bool jumps;
    switch ((int)op->code) {
    case JINJA_OP_JUMP:
        return op + op->a;
    case JINJA_OP_JUMP_FALSE:
        return jinja_is_true(pop(r)) ? op + 1 : op + op->a;
    case JINJA_OP_JUMP_FALSE_KEEP:
    case JINJA_OP_JUMP_TRUE_KEEP:
        jumps = jinja_is_true(*peek(r, 0)) == (op->code == JINJA_OP_JUMP_TRUE_KEEP);
        r->stack_count -= !jumps;
        return jumps ? op + op->a : op + 1;
    case JINJA_OP_COMPARE_CHAIN:
        return compare_chain(r, op);
    case JINJA_OP_CALL:
        return call(r, op);
    case JINJA_OP_FOR:
        return begin_loop(r, op, pop(r), 0) ? op + 1 : NULL;
    case JINJA_OP_NEXT:
        return next_item(r, op);
    case JINJA_OP_TESTED:
        return r->loop->tested ? op + op->a : op + 1;
    case JINJA_OP_CHOOSE:
        return choose_item(r, op);
    case JINJA_OP_AGAIN:
        r->loop->completed = true;
        return op + op->a;
    case JINJA_OP_FOR_EXIT:
        return end_loop(r, op);
    case JINJA_OP_LOOP_RETURN:
        return return_loop(r, op);
    case JINJA_OP_BREAK:
        return r->loop->head + r->loop->head->a;
    case JINJA_OP_CONTINUE:
        return r->loop->next_op;
    case JINJA_OP_MACRO:
        return make_macro(r, op) ? op + op->b : NULL;
    case JINJA_OP_DEFAULT:
        return default_parameter(r, op);
    case JINJA_OP_RETURN:
        return pop_frame(r);
    default:
        return run_plain(r, op) ? op + 1 : NULL;
    }
}

bool jinja_execute(struct jinja_run *r)
{
    const struct jinja_op *op = r->j->ops;
    if (!begin_capture(r))
        return false;
    while (op != NULL && op->code != JINJA_OP_END) {
        r->line = op->line;
        op = jinja_spend(r, 1) ? run_control(r, op) : NULL;
    }
    must((op == NULL) == (r->rc != RC_OK));
    return op != NULL;
}
