/* SPDX-License-Identifier: MIT */
/* jinja_value - see jinja_value.h. Equality and order walk containers with a stack of their own:
 *   V1  a walk is at most JINJA_NEST_MAX deep, whatever the values are
 *   V2  each item looked at is paid for with a step
 *   V3  a dict's pairs are in order of insertion; beyond PAIRS_PLAIN of them an open-addressing
 *       table finds keys, and every probe costs a step, so that chosen collisions run out of steps
 *       */
#include "frontend/jinja/jinja_value.h"

#include <math.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_run.h"

#define PAIRS_PLAIN 8u

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){ .kind = JINJA_NONE };
}

struct jinja_value jinja_bool(bool b)
{
    return (struct jinja_value){ .kind = JINJA_BOOL, .as.boolean = b };
}

struct jinja_value jinja_int(int64_t i)
{
    return (struct jinja_value){ .kind = JINJA_INT, .as.integer = i };
}

struct jinja_value jinja_float(double d)
{
    return (struct jinja_value){ .kind = JINJA_FLOAT, .as.real = d };
}

struct jinja_value jinja_of_text(const struct jinja_text *t)
{
    return (struct jinja_value){ .kind = JINJA_TEXT, .as.text = t };
}

struct jinja_value jinja_of_seq(struct jinja_seq *s)
{
    return (struct jinja_value){ .kind = JINJA_SEQ, .as.seq = s };
}

bool jinja_new_seq(struct jinja_run *r, struct jinja_seq **out, enum jinja_flavour flavour,
                   size_t count)
{
    struct jinja_seq *s = jinja_take(r, 1, sizeof *s);
    if (s == NULL || !jinja_spend(r, count / 8))
        return false;
    *s = (struct jinja_seq){ .flavour = flavour, .count = count };
    s->items = jinja_take(r, count, sizeof *s->items);
    *out = s;
    return s->items != NULL;
}

bool jinja_new_undefined(struct jinja_run *r, struct jinja_value *out, const char *hint,
                         const char *owner, struct jinja_value name)
{
    struct jinja_undefined *u = jinja_take(r, 1, sizeof *u);
    if (u == NULL)
        return false;
    *u = (struct jinja_undefined){ .hint = hint, .owner = owner, .name = name };
    *out = (struct jinja_value){ .kind = JINJA_UNDEFINED, .as.undefined = u };
    return true;
}

struct str jinja_str(const struct jinja_text *t)
{
    return (struct str){ t->bytes, t->len };
}

bool jinja_text_is(struct jinja_value v, const char *zero_terminated)
{
    return v.kind == JINJA_TEXT && str_equal(jinja_str(v.as.text), str_of(zero_terminated));
}

struct jinja_value jinja_at(const struct jinja_seq *s, size_t i)
{
    must(i < s->count);
    if (s->items == NULL)
        return jinja_int(s->start + (int64_t)i * s->step);
    return s->items[i];
}

bool jinja_is_number(struct jinja_value v)
{
    return v.kind == JINJA_BOOL || v.kind == JINJA_INT || v.kind == JINJA_FLOAT;
}

bool jinja_as_int(int64_t *out, struct jinja_value v)
{
    if (v.kind == JINJA_INT)
        *out = v.as.integer;
    else if (v.kind == JINJA_BOOL)
        *out = v.as.boolean;
    else
        return false;
    return true;
}

double jinja_as_double(struct jinja_value v)
{
    int64_t i = 0;
    return jinja_as_int(&i, v) ? (double)i : v.as.real;
}

bool jinja_is_true(struct jinja_value v)
{
    switch ((int)v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.as.boolean;
    case JINJA_INT:
        return v.as.integer != 0;
    case JINJA_FLOAT:
        return v.as.real != 0.0;
    case JINJA_TEXT:
        return v.as.text->len > 0;
    case JINJA_SEQ:
        return v.as.seq->count > 0 || v.as.seq->flavour == JINJA_GENERATOR;
    case JINJA_DICT:
        return v.as.dict->count > 0;
    default:
        return true;
    }
}

const char *jinja_type(struct jinja_value v)
{
    static const char *const seqs[] = { "list",        "tuple",      "range",    "dict_keys",
                                        "dict_values", "dict_items", "generator" };
    static const char *const kinds[] = { [JINJA_MISSING] = "missing",
                                         [JINJA_UNDEFINED] = "Undefined",
                                         [JINJA_NONE] = "NoneType",
                                         [JINJA_BOOL] = "bool",
                                         [JINJA_INT] = "int",
                                         [JINJA_FLOAT] = "float",
                                         [JINJA_TEXT] = "str",
                                         [JINJA_SEQ] = "list",
                                         [JINJA_DICT] = "dict",
                                         [JINJA_SPACE] = "Namespace",
                                         [JINJA_MACRO] = "Macro",
                                         [JINJA_FUNCTION] = "function",
                                         [JINJA_METHOD] = "method",
                                         [JINJA_LOOP] = "LoopContext",
                                         [JINJA_CYCLER] = "Cycler",
                                         [JINJA_JOINER] = "Joiner",
                                         [JINJA_KEYWORD] = "keyword",
                                         [JINJA_SPREAD] = "arguments",
                                         [JINJA_SPREAD_PAIRS] = "arguments" };
    if (v.kind == JINJA_SEQ)
        return seqs[v.as.seq->flavour];
    if (v.kind == JINJA_TEXT && v.as.text->markup)
        return "Markup";
    return kinds[v.kind];
}

const char *jinja_owner(struct jinja_value v)
{
    static const char *const seqs[] = { "list object",        "tuple object",
                                        "range object",       "dict_keys object",
                                        "dict_values object", "dict_items object",
                                        "generator object" };
    switch ((int)v.kind) {
    case JINJA_NONE:
        return "None";
    case JINJA_BOOL:
        return "bool object";
    case JINJA_INT:
        return "int object";
    case JINJA_FLOAT:
        return "float object";
    case JINJA_TEXT:
        return v.as.text->markup ? "markupsafe.Markup object" : "str object";
    case JINJA_SEQ:
        return seqs[v.as.seq->flavour];
    case JINJA_DICT:
        return "dict object";
    case JINJA_SPACE:
        return "jinja2.utils.Namespace object";
    case JINJA_MACRO:
        return "jinja2.runtime.Macro object";
    case JINJA_LOOP:
        return "jinja2.runtime.LoopContext object";
    case JINJA_CYCLER:
        return "jinja2.utils.Cycler object";
    case JINJA_JOINER:
        return "jinja2.utils.Joiner object";
    default:
        return "function object";
    }
}

/* --- dicts --- */

static bool is_tuple(struct jinja_value v)
{
    return v.kind == JINJA_SEQ && v.as.seq->flavour == JINJA_TUPLE;
}

static bool is_key(struct jinja_value v)
{
    return v.kind != JINJA_DICT && (v.kind != JINJA_SEQ || is_tuple(v));
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

/* Equal keys have equal hashes: 1, 1.0 and true are one key. */
static uint64_t hash_key(struct jinja_value v)
{
    int64_t i = 0;
    if (v.kind == JINJA_TEXT) {
        uint64_t h = 0xcbf29ce484222325u;
        for (size_t k = 0; k < v.as.text->len; k++)
            h = (h ^ (unsigned char)v.as.text->bytes[k]) * 0x100000001b3u;
        return mix(h);
    }
    if (jinja_as_int(&i, v))
        return mix((uint64_t)i);
    if (v.kind == JINJA_FLOAT && fabs(v.as.real) < 9e18 && v.as.real == floor(v.as.real))
        return mix((uint64_t)(int64_t)v.as.real);
    uint64_t bits = 0;
    if (v.kind == JINJA_FLOAT)
        memcpy(&bits, &v.as.real, sizeof bits);
    return mix(bits + v.kind);
}

/* Equality of two values that are no containers. */
static bool same_scalar(struct jinja_value a, struct jinja_value b)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        int64_t x, y;
        if (jinja_as_int(&x, a) && jinja_as_int(&y, b))
            return x == y;
        return jinja_as_double(a) == jinja_as_double(b);
    }
    if (a.kind != b.kind)
        return false;
    switch ((int)a.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_TEXT:
        return str_equal(jinja_str(a.as.text), jinja_str(b.as.text));
    case JINJA_FUNCTION:
        return a.as.function == b.as.function;
    default:
        return a.as.space == b.as.space; /* the same object */
    }
}

static bool find_plain(struct jinja_run *r, const struct jinja_pair **out,
                       const struct jinja_dict *d, struct jinja_value key)
{
    *out = NULL;
    for (uint32_t i = 0; i < d->count && *out == NULL; i++)
        if (same_scalar(d->pairs[i].key, key))
            *out = &d->pairs[i];
    return jinja_spend(r, 1);
}

bool jinja_find(struct jinja_run *r, const struct jinja_pair **out, const struct jinja_dict *d,
                struct jinja_value key)
{
    *out = NULL;
    if (!is_key(key))
        return jinja_fail(r, "TypeError: unhashable type: '%s'", jinja_type(key));
    if (is_tuple(key))
        return true; /* no dict has one */
    if (d->slot_count == 0)
        return find_plain(r, out, d, key);
    uint64_t probes = 0;
    for (uint64_t at = hash_key(key);; at++) {
        uint32_t slot = d->slots[at & (d->slot_count - 1)];
        if (slot == 0)
            break;
        probes++;
        if (same_scalar(d->pairs[slot - 1].key, key)) {
            *out = &d->pairs[slot - 1];
            break;
        }
    }
    return jinja_spend(r, probes);
}

const struct jinja_pair *jinja_find_text(const struct jinja_dict *d, struct str key)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->pairs[i].key.kind == JINJA_TEXT &&
            str_equal(jinja_str(d->pairs[i].key.as.text), key))
            return &d->pairs[i];
    return NULL;
}

/* A table for count pairs, all free. */
static bool open_slots(struct jinja_run *r, struct jinja_dict *d, size_t count)
{
    if (count <= PAIRS_PLAIN)
        return true;
    uint32_t slots = 2 * PAIRS_PLAIN;
    while (slots < 2 * count)
        slots *= 2;
    d->slots = jinja_take(r, slots, sizeof *d->slots);
    if (d->slots == NULL)
        return false;
    memset(d->slots, 0, slots * sizeof *d->slots);
    d->slot_count = slots;
    return true;
}

static void note_slot(struct jinja_dict *d, uint32_t index)
{
    if (d->slot_count == 0)
        return;
    uint64_t at = hash_key(d->pairs[index].key);
    while (d->slots[at & (d->slot_count - 1)] != 0)
        at++;
    d->slots[at & (d->slot_count - 1)] = index + 1;
}

bool jinja_new_dict(struct jinja_run *r, struct jinja_value *out, struct jinja_pair *pairs,
                    size_t count, bool user)
{
    struct jinja_dict *d = jinja_take(r, 1, sizeof *d);
    if (d == NULL)
        return false;
    if (count > UINT32_MAX / 4)
        return jinja_fail_limit(r, "a dict of %zu items", count);
    *d = (struct jinja_dict){ .user = user, .pairs = pairs };
    if (!open_slots(r, d, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct jinja_pair *known;
        if (is_tuple(pairs[i].key))
            return jinja_fail(r, "TypeError: tuples as keys are not supported");
        if (!jinja_find(r, &known, d, pairs[i].key))
            return false;
        if (known != NULL) {
            d->pairs[known - d->pairs].value = pairs[i].value;
            continue;
        }
        d->pairs[d->count] = pairs[i];
        note_slot(d, d->count++);
    }
    *out = (struct jinja_value){ .kind = JINJA_DICT, .as.dict = d };
    return true;
}

/* --- namespaces --- */

const struct jinja_value *jinja_space_get(const struct jinja_space *s, struct str name)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (str_equal(jinja_str(s->pairs[i].key.as.text), name))
            return &s->pairs[i].value;
    return NULL;
}

bool jinja_space_set(struct jinja_run *r, struct jinja_space *s, const struct jinja_text *name,
                     struct jinja_value v)
{
    if (!jinja_spend(r, s->count))
        return false;
    for (uint32_t i = 0; i < s->count; i++) {
        if (str_equal(jinja_str(s->pairs[i].key.as.text), jinja_str(name))) {
            s->pairs[i].value = v;
            return true;
        }
    }
    size_t capacity = s->capacity;
    if (!jinja_room(r, &s->pairs, s->count, &capacity, sizeof *s->pairs))
        return false;
    s->capacity = (uint32_t)capacity;
    s->pairs[s->count++] = (struct jinja_pair){ jinja_of_text(name), v };
    return true;
}

/* --- equality and order --- */

/* Two containers that are being compared, up to item `next`. */
struct pairing {
    struct jinja_value a, b;
    size_t next;
};

static bool comparable_seqs(const struct jinja_seq *a, const struct jinja_seq *b)
{
    return a->flavour == b->flavour && a->count == b->count &&
           (a == b || (a->flavour != JINJA_GENERATOR && a->flavour != JINJA_VALUES));
}

/* Whether two values can be equal by what they are; *inside: their items decide. */
static bool alike(struct jinja_value a, struct jinja_value b, bool *inside)
{
    *inside = false;
    if (a.kind == JINJA_SEQ && b.kind == JINJA_SEQ) {
        *inside = a.as.seq != b.as.seq;
        return comparable_seqs(a.as.seq, b.as.seq);
    }
    if (a.kind == JINJA_DICT && b.kind == JINJA_DICT) {
        *inside = a.as.dict != b.as.dict;
        return a.as.dict->count == b.as.dict->count;
    }
    return same_scalar(a, b);
}

/* The next two items of a pairing; *more false when there are none, *same false when b lacks a
 * key. */
static bool next_items(struct jinja_run *r, struct pairing *p, struct pairing *items, bool *more,
                       bool *same)
{
    *more = true;
    if (p->a.kind == JINJA_SEQ) {
        if (p->next == p->a.as.seq->count) {
            *more = false;
            return true;
        }
        items->a = jinja_at(p->a.as.seq, p->next);
        items->b = jinja_at(p->b.as.seq, p->next++);
        return true;
    }
    if (p->next == p->a.as.dict->count) {
        *more = false;
        return true;
    }
    const struct jinja_pair *mine = &p->a.as.dict->pairs[p->next++], *other;
    if (!jinja_find(r, &other, p->b.as.dict, mine->key))
        return false;
    *same = other != NULL;
    if (*same)
        *items = (struct pairing){ mine->value, other->value, 0 };
    return true;
}

static bool equal_inside(struct jinja_run *r, bool *out, struct jinja_value a, struct jinja_value b)
{
    struct pairing stack[JINJA_NEST_MAX];
    size_t depth = 0;
    stack[depth++] = (struct pairing){ a, b, 0 };
    *out = true;
    while (depth > 0 && *out) {
        struct pairing items = { 0 };
        bool more, inside;
        if (!jinja_spend(r, 1) || !next_items(r, &stack[depth - 1], &items, &more, out))
            return false;
        if (!more) {
            depth--;
            continue;
        }
        if (!*out)
            return true;
        *out = alike(items.a, items.b, &inside);
        if (!*out || !inside)
            continue;
        if (depth == JINJA_NEST_MAX)
            return jinja_fail_limit(r, "values nested over %u deep", JINJA_NEST_MAX);
        items.next = 0;
        stack[depth++] = items;
    }
    return true;
}

bool jinja_equal(struct jinja_run *r, bool *out, struct jinja_value a, struct jinja_value b)
{
    bool inside;
    *out = alike(a, b, &inside);
    if (!*out || !inside)
        return jinja_spend(r, a.kind == JINJA_TEXT ? a.as.text->len / 32 : 0);
    return equal_inside(r, out, a, b);
}

static int order_texts(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n == 0 ? 0 : memcmp(a.text, b.text, n);
    if (c == 0)
        c = (a.len > b.len) - (a.len < b.len);
    return (c > 0) - (c < 0);
}

static int order_numbers(struct jinja_value a, struct jinja_value b)
{
    int64_t i, k;
    if (jinja_as_int(&i, a) && jinja_as_int(&k, b))
        return (i > k) - (i < k);
    double x = jinja_as_double(a), y = jinja_as_double(b);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

/* Index of the first items that differ, or the shorter count. */
static bool first_difference(struct jinja_run *r, size_t *out, const struct jinja_seq *a,
                             const struct jinja_seq *b)
{
    size_t n = a->count < b->count ? a->count : b->count;
    for (*out = 0; *out < n; ++*out) {
        bool same;
        if (!jinja_spend(r, 1) || !jinja_equal(r, &same, jinja_at(a, *out), jinja_at(b, *out)))
            return false;
        if (!same)
            break;
    }
    return true;
}

bool jinja_order(struct jinja_run *r, int *out, struct jinja_value a, struct jinja_value b,
                 const char *symbol)
{
    for (uint32_t depth = 0; depth < JINJA_NEST_MAX; depth++) {
        if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
            return jinja_fail_undefined(r, a.kind == JINJA_UNDEFINED ? a : b);
        if (jinja_is_number(a) && jinja_is_number(b)) {
            *out = order_numbers(a, b);
            return true;
        }
        if (a.kind == JINJA_TEXT && b.kind == JINJA_TEXT) {
            *out = order_texts(jinja_str(a.as.text), jinja_str(b.as.text));
            return jinja_spend(r, a.as.text->len / 32);
        }
        bool seqs = a.kind == JINJA_SEQ && b.kind == JINJA_SEQ &&
                    a.as.seq->flavour == b.as.seq->flavour && a.as.seq->flavour <= JINJA_TUPLE;
        if (!seqs)
            return jinja_fail(r, "TypeError: '%s' not supported between instances of '%s' and '%s'",
                              symbol, jinja_type(a), jinja_type(b));
        size_t at;
        const struct jinja_seq *x = a.as.seq, *y = b.as.seq;
        if (!first_difference(r, &at, x, y))
            return false;
        if (at == x->count || at == y->count) {
            *out = (x->count > y->count) - (x->count < y->count);
            return true;
        }
        a = jinja_at(x, at);
        b = jinja_at(y, at);
    }
    return jinja_fail_limit(r, "values nested over %u deep", JINJA_NEST_MAX);
}

/* --- containers --- */

bool jinja_contains(struct jinja_run *r, bool *out, struct jinja_value container,
                    struct jinja_value item)
{
    *out = false;
    if (container.kind == JINJA_TEXT) {
        if (item.kind != JINJA_TEXT)
            return jinja_fail(r, "TypeError: 'in <string>' requires string as left operand, not %s",
                              jinja_type(item));
        const struct jinja_text *t = container.as.text;
        *out = jinja_search(t, jinja_str(item.as.text), 0, t->len) != SIZE_MAX;
        return jinja_spend(r, t->len / 16);
    }
    if (container.kind == JINJA_DICT) {
        const struct jinja_pair *found;
        if (!jinja_find(r, &found, container.as.dict, item))
            return false;
        *out = found != NULL;
        return true;
    }
    if (!jinja_is_iterable(container))
        return jinja_fail(r, "TypeError: argument of type '%s' is not iterable",
                          jinja_type(container));
    struct jinja_seq *s;
    if (!jinja_iterate(r, &s, container))
        return false;
    for (size_t i = 0; i < s->count && !*out; i++)
        if (!jinja_spend(r, 1) || !jinja_equal(r, out, jinja_at(s, i), item))
            return false;
    return true;
}

bool jinja_length(struct jinja_run *r, size_t *out, struct jinja_value v)
{
    switch ((int)v.kind) {
    case JINJA_UNDEFINED:
        *out = 0;
        return true;
    case JINJA_TEXT:
        *out = v.as.text->chars;
        return true;
    case JINJA_DICT:
        *out = v.as.dict->count;
        return true;
    case JINJA_LOOP:
        *out = v.as.loop->items->count;
        return true;
    case JINJA_SEQ:
        *out = v.as.seq->count;
        if (v.as.seq->flavour != JINJA_GENERATOR)
            return true;
        break;
    default:
        break;
    }
    return jinja_fail(r, "TypeError: object of type '%s' has no len()", jinja_type(v));
}

bool jinja_is_iterable(struct jinja_value v)
{
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_TEXT || v.kind == JINJA_SEQ ||
           v.kind == JINJA_DICT;
}

static bool iterate_text(struct jinja_run *r, struct jinja_seq **out, const struct jinja_text *t)
{
    if (!jinja_new_seq(r, out, JINJA_LIST, t->chars) || !jinja_spend(r, t->chars))
        return false;
    size_t at = 0;
    for (size_t i = 0; i < t->chars; i++) {
        size_t len;
        (void)jinja_char(t, at, &len);
        if (!jinja_part(r, &(*out)->items[i], t, at, at + len))
            return false;
        at += len;
    }
    return true;
}

bool jinja_iterate(struct jinja_run *r, struct jinja_seq **out, struct jinja_value v)
{
    if (v.kind == JINJA_TEXT)
        return iterate_text(r, out, v.as.text);
    if (v.kind == JINJA_DICT) {
        const struct jinja_dict *d = v.as.dict;
        if (!jinja_new_seq(r, out, JINJA_LIST, d->count))
            return false;
        for (uint32_t i = 0; i < d->count; i++)
            (*out)->items[i] = d->pairs[i].key;
        return true;
    }
    if (v.kind == JINJA_UNDEFINED)
        return jinja_new_seq(r, out, JINJA_LIST, 0);
    if (v.kind != JINJA_SEQ)
        return jinja_fail(r, "TypeError: '%s' object is not iterable", jinja_type(v));
    *out = v.as.seq;
    if (v.as.seq->flavour != JINJA_GENERATOR)
        return true;
    struct jinja_seq *rest = jinja_take(r, 1, sizeof *rest);
    if (rest == NULL)
        return false;
    *rest = *v.as.seq;
    rest->flavour = JINJA_LIST;
    v.as.seq->count = 0;
    *out = rest;
    return true;
}
