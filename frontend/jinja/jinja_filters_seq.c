/* SPDX-License-Identifier: MIT */
/* jinja_filters_seq - filters of sequences: choosing, ordering, grouping, joining; and the stable
 * sort under them (merges of runs of 1, 2, 4 .. between two arrays). Attributes may be paths
 * ("a.b.0") as in Jinja2; keys are folded to lower case unless case_sensitive. */
#include "frontend/jinja/jinja_filters.h"

#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_methods.h"
#include "frontend/jinja/jinja_operators.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"
#include "frontend/jinja/jinja_strings.h"

#define CALL struct jinja_run *r, struct jinja_value *out, const struct jinja_filter_call *c

static bool is_given(struct jinja_value v)
{
    return v.kind != JINJA_MISSING && v.kind != JINJA_NONE;
}

/* --- keys --- */

/* item.a.b.0 for a path "a.b.0"; fallback replaces what is undefined on the way, when given. */
static bool follow(struct jinja_run *r, struct jinja_value *out, struct jinja_value item,
                   struct jinja_value path, struct jinja_value fallback)
{
    *out = item;
    if (path.kind != JINJA_TEXT) {
        if (is_given(path) && !jinja_item(r, out, item, path))
            return false;
        if (is_given(fallback) && out->kind == JINJA_UNDEFINED)
            *out = fallback;
        return true;
    }
    const struct jinja_text *t = path.as.text;
    for (size_t begin = 0, end; begin <= t->len; begin = end + 1) {
        struct jinja_value name;
        uint64_t index;
        end = jinja_search(t, (struct str){ ".", 1 }, begin, t->len);
        if (end == SIZE_MAX)
            end = t->len;
        if (!jinja_part(r, &name, t, begin, end))
            return false;
        if (str_parse_u64(jinja_str(name.as.text), 0, INT64_MAX, &index))
            name = jinja_int((int64_t)index);
        if (!jinja_item(r, out, *out, name))
            return false;
        if (is_given(fallback) && out->kind == JINJA_UNDEFINED)
            *out = fallback;
    }
    return true;
}

static bool fold(struct jinja_run *r, struct jinja_value *v, struct jinja_value case_sensitive)
{
    if (v->kind != JINJA_TEXT || jinja_is_true(case_sensitive))
        return true;
    return jinja_recase(r, v, v->as.text, JINJA_CASE_LOWER);
}

/* Key of an item for an attribute "a,b": the list of both. */
static bool many_keys(struct jinja_run *r, struct jinja_value *out, struct jinja_value item,
                      const struct jinja_text *paths, struct jinja_value case_sensitive)
{
    struct jinja_value list, none = { .kind = JINJA_MISSING };
    static const struct jinja_text comma = { .bytes = ",", .len = 1, .chars = 1 };
    struct jinja_seq *keys;
    if (!jinja_split(r, &list, paths, &comma, -1, JINJA_LEFT) ||
        !jinja_new_seq(r, &keys, JINJA_LIST, list.as.seq->count))
        return false;
    for (size_t i = 0; i < keys->count; i++)
        if (!follow(r, &keys->items[i], item, list.as.seq->items[i], none) ||
            !fold(r, &keys->items[i], case_sensitive))
            return false;
    *out = jinja_of_seq(keys);
    return true;
}

/* Items with their keys, to be sorted. */
static bool keyed(struct jinja_run *r, struct jinja_pair **out, const struct jinja_seq *items,
                  struct jinja_value attribute, struct jinja_value case_sensitive,
                  struct jinja_value fallback)
{
    struct jinja_pair *pairs = jinja_take(r, items->count, sizeof *pairs);
    *out = pairs;
    if (pairs == NULL)
        return false;
    for (size_t i = 0; i < items->count; i++) {
        pairs[i].value = jinja_at(items, i);
        if (!jinja_spend(r, 1) || !follow(r, &pairs[i].key, pairs[i].value, attribute, fallback) ||
            !fold(r, &pairs[i].key, case_sensitive))
            return false;
    }
    return true;
}

static bool merge(struct jinja_run *r, struct jinja_pair *to, const struct jinja_pair *from,
                  size_t begin, size_t middle, size_t end, bool reverse)
{
    size_t left = begin, right = middle;
    for (size_t i = begin; i < end; i++) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
            int order;
            if (!jinja_spend(r, 1) || !jinja_order(r, &order, from[right].key, from[left].key, "<"))
                return false;
            take_right = reverse ? order == 1 : order == -1;
        }
        to[i] = take_right ? from[right++] : from[left++];
    }
    return true;
}

bool jinja_sort_pairs(struct jinja_run *r, struct jinja_pair *pairs, size_t count, bool reverse)
{
    struct jinja_pair *from = pairs, *to = jinja_take(r, count, sizeof *to);
    if (to == NULL)
        return false;
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * run) {
            size_t middle = begin + run < count ? begin + run : count;
            size_t end = middle + run < count ? middle + run : count;
            if (!merge(r, to, from, begin, middle, end, reverse))
                return false;
        }
        struct jinja_pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != pairs)
        memcpy(pairs, from, count * sizeof *pairs);
    return true;
}

static bool list_of_values(struct jinja_run *r, struct jinja_value *out,
                           const struct jinja_pair *pairs, size_t count)
{
    struct jinja_seq *s;
    if (!jinja_new_seq(r, &s, JINJA_LIST, count))
        return false;
    for (size_t i = 0; i < count; i++)
        s->items[i] = pairs[i].value;
    *out = jinja_of_seq(s);
    return true;
}

/* --- ordering --- */

static bool filter_sort(CALL)
{
    struct jinja_seq *items;
    struct jinja_pair *pairs;
    struct jinja_value none = { .kind = JINJA_MISSING }, attribute = c->bound[2];
    if (!jinja_iterate(r, &items, c->in))
        return false;
    bool many = attribute.kind == JINJA_TEXT &&
                memchr(attribute.as.text->bytes, ',', attribute.as.text->len) != NULL;
    if (!keyed(r, &pairs, items, many ? none : attribute, many ? jinja_bool(true) : c->bound[1],
               none))
        return false;
    for (size_t i = 0; many && i < items->count; i++)
        if (!many_keys(r, &pairs[i].key, pairs[i].value, attribute.as.text, c->bound[1]))
            return false;
    return jinja_sort_pairs(r, pairs, items->count, jinja_is_true(c->bound[0])) &&
           list_of_values(r, out, pairs, items->count);
}

static bool filter_dictsort(CALL)
{
    const struct jinja_text *by = NULL;
    struct jinja_value view;
    if (!jinja_want_text(r, &by, c->bound[1]))
        return false;
    bool by_value = by != NULL && str_equal(jinja_str(by), str_of("value"));
    if (by != NULL && !by_value && !str_equal(jinja_str(by), str_of("key")))
        return jinja_fail(r,
                          "FilterArgumentError: You can only sort by either \"key\" or \"value\"");
    if (c->in.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, c->in);
    if (c->in.kind != JINJA_DICT)
        return jinja_fail(r, "AttributeError: '%s' object has no attribute 'items'",
                          jinja_type(c->in));
    if (!jinja_dict_view(r, &view, c->in.as.dict, JINJA_ITEMS))
        return false;
    size_t count = view.as.seq->count;
    struct jinja_pair *pairs = jinja_take(r, count, sizeof *pairs);
    if (pairs == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        pairs[i].value = view.as.seq->items[i];
        pairs[i].key = jinja_at(pairs[i].value.as.seq, by_value);
        if (!fold(r, &pairs[i].key, c->bound[0]))
            return false;
    }
    return jinja_sort_pairs(r, pairs, count, jinja_is_true(c->bound[2])) &&
           list_of_values(r, out, pairs, count);
}

static bool filter_extreme(CALL)
{
    struct jinja_seq *items;
    struct jinja_pair *pairs;
    struct jinja_value none = { .kind = JINJA_MISSING };
    bool smallest = c->name[1] == 'i';
    if (!jinja_iterate(r, &items, c->in))
        return false;
    if (items->count == 0)
        return jinja_new_undefined(r, out, "No aggregated item, sequence was empty.", NULL, none);
    if (!keyed(r, &pairs, items, c->bound[1], c->bound[0], none))
        return false;
    size_t best = 0;
    for (size_t i = 1; i < items->count; i++) {
        int order;
        if (!jinja_order(r, &order, pairs[i].key, pairs[best].key, smallest ? "<" : ">"))
            return false;
        if (smallest ? order == -1 : order == 1)
            best = i;
    }
    *out = pairs[best].value;
    return true;
}

static bool filter_reverse(CALL)
{
    struct jinja_seq *items, *s;
    if (c->in.kind == JINJA_TEXT) {
        struct jinja_value bounds[3] = { jinja_none(), jinja_none(), jinja_int(-1) };
        return jinja_slice(r, out, c->in, bounds);
    }
    bool sized = c->in.kind == JINJA_SEQ && c->in.as.seq->flavour != JINJA_GENERATOR;
    if (!jinja_iterate(r, &items, c->in) ||
        !jinja_new_seq(r, &s, sized || c->in.kind == JINJA_DICT ? JINJA_GENERATOR : JINJA_LIST,
                       items->count))
        return false;
    for (size_t i = 0; i < s->count; i++)
        s->items[i] = jinja_at(items, s->count - 1 - i);
    *out = jinja_of_seq(s);
    return true;
}

static bool filter_unique(CALL)
{
    struct jinja_seq *items, *s;
    struct jinja_pair *pairs;
    struct jinja_value none = { .kind = JINJA_MISSING }, seen;
    if (!jinja_iterate(r, &items, c->in) ||
        !keyed(r, &pairs, items, c->bound[1], c->bound[0], none))
        return false;
    /* The keys of a dict are unique and in order of their first place. */
    struct jinja_pair *firsts = jinja_take(r, items->count, sizeof *firsts);
    if (firsts == NULL)
        return false;
    if (items->count > 0)
        memcpy(firsts, pairs, items->count * sizeof *firsts);
    if (!jinja_new_dict(r, &seen, firsts, items->count, false) ||
        !jinja_new_seq(r, &s, JINJA_GENERATOR, seen.as.dict->count))
        return false;
    size_t next = 0;
    for (size_t i = 0; i < items->count; i++) {
        bool same = false;
        if (next < s->count && !jinja_equal(r, &same, pairs[i].key, seen.as.dict->pairs[next].key))
            return false;
        if (same)
            s->items[next++] = jinja_at(items, i);
    }
    must(next == s->count);
    *out = jinja_of_seq(s);
    return true;
}

/* --- choosing --- */

/* Items to choose from: what is false counts as empty, none too. */
static bool choices(struct jinja_run *r, struct jinja_seq **out, struct jinja_value v)
{
    if (!jinja_is_true(v))
        return jinja_new_seq(r, out, JINJA_LIST, 0);
    return jinja_iterate(r, out, v);
}

/* map(attribute=.., default=..) or map(filter, arguments..) */
static bool filter_map(CALL)
{
    struct jinja_seq *items, *s;
    struct jinja_value bound[JINJA_PARAMETERS_MAX];
    struct jinja_args rest = *c->args;
    const struct jinja_text *name = NULL;
    bool by_attribute = rest.count == 0 && rest.named_count > 0;
    if (by_attribute) {
        if (!jinja_bind(r, bound, &rest, "map", "attribute default", 1))
            return false;
    } else {
        if (rest.count == 0)
            return jinja_fail(r, "FilterArgumentError: map requires a filter argument");
        if (!jinja_want_text(r, &name, rest.items[0]))
            return false;
        rest.items++;
        rest.count--;
    }
    if (!choices(r, &items, c->in) || !jinja_new_seq(r, &s, JINJA_GENERATOR, items->count))
        return false;
    for (size_t i = 0; i < s->count; i++) {
        struct jinja_value item = jinja_at(items, i);
        if (!jinja_spend(r, 1))
            return false;
        if (!(by_attribute ? follow(r, &s->items[i], item, bound[0], bound[1])
                           : jinja_filter(r, &s->items[i], jinja_str(name), item, &rest)))
            return false;
    }
    *out = jinja_of_seq(s);
    return true;
}

/* select, reject, selectattr, rejectattr: ([attribute], [test, arguments..]) */
static bool filter_select(CALL)
{
    struct jinja_seq *items, *s;
    struct jinja_args rest = *c->args;
    struct jinja_value attribute = { .kind = JINJA_MISSING }, none = { .kind = JINJA_MISSING };
    const struct jinja_text *test = NULL;
    bool wanted = c->name[0] == 's';
    if (strstr(c->name, "attr") != NULL) {
        if (rest.count == 0)
            return jinja_fail(r, "FilterArgumentError: Missing parameter for attribute name");
        attribute = *rest.items++;
        rest.count--;
    }
    if (rest.count > 0) {
        if (!jinja_want_text(r, &test, rest.items[0]))
            return false;
        rest.items++;
        rest.count--;
    }
    if (!choices(r, &items, c->in) || !jinja_new_seq(r, &s, JINJA_GENERATOR, items->count))
        return false;
    s->count = 0;
    for (size_t i = 0; i < items->count; i++) {
        struct jinja_value item = jinja_at(items, i), v;
        if (!jinja_spend(r, 1) || !follow(r, &v, item, attribute, none))
            return false;
        bool passes = jinja_is_true(v);
        if (test != NULL && !jinja_test(r, &passes, jinja_str(test), v, &rest))
            return false;
        if (passes == wanted)
            s->items[s->count++] = item;
    }
    *out = jinja_of_seq(s);
    return true;
}

static bool filter_first(CALL)
{
    struct jinja_value none = { .kind = JINJA_MISSING };
    bool last = c->name[0] == 'l';
    if (last && c->in.kind == JINJA_SEQ && c->in.as.seq->flavour == JINJA_GENERATOR)
        return jinja_fail(r, "TypeError: 'generator' object is not reversible");
    if (c->in.kind == JINJA_TEXT && c->in.as.text->len > 0) /* no list of all characters */
        return jinja_item(r, out, c->in, jinja_int(last ? -1 : 0));
    struct jinja_seq *items;
    if (!jinja_iterate(r, &items, c->in))
        return false;
    if (items->count == 0)
        return jinja_new_undefined(r, out,
                                   last ? "No last item, sequence was empty."
                                        : "No first item, sequence was empty.",
                                   NULL, none);
    *out = jinja_at(items, last ? items->count - 1 : 0);
    return true;
}

/* --- making sequences and texts --- */

static bool filter_list(CALL)
{
    struct jinja_seq *items, *s;
    if (!jinja_iterate(r, &items, c->in) || !jinja_new_seq(r, &s, JINJA_LIST, items->count))
        return false;
    s->user = items->user;
    for (size_t i = 0; i < s->count; i++)
        s->items[i] = jinja_at(items, i);
    *out = jinja_of_seq(s);
    return true;
}

static bool filter_items(CALL)
{
    struct jinja_seq *none;
    if (c->in.kind == JINJA_UNDEFINED) {
        if (!jinja_new_seq(r, &none, JINJA_GENERATOR, 0))
            return false;
        *out = jinja_of_seq(none);
        return true;
    }
    if (c->in.kind != JINJA_DICT)
        return jinja_fail(r, "TypeError: Can only get item pairs from a mapping.");
    if (!jinja_dict_view(r, out, c->in.as.dict, JINJA_ITEMS))
        return false;
    out->as.seq->flavour = JINJA_GENERATOR;
    return true;
}

static bool filter_join(CALL)
{
    struct jinja_seq *items;
    const struct jinja_text *separator = NULL;
    struct jinja_builder b = { 0 };
    struct jinja_value none = { .kind = JINJA_MISSING };
    if (c->bound[0].kind != JINJA_MISSING && !jinja_to_text(r, &separator, c->bound[0]))
        return false;
    if (!jinja_iterate(r, &items, c->in))
        return false;
    for (size_t i = 0; i < items->count; i++) {
        struct jinja_value v;
        if (!jinja_spend(r, 1) || !follow(r, &v, jinja_at(items, i), c->bound[1], none))
            return false;
        if ((i > 0 && separator != NULL && !jinja_put_text(r, &b, separator)) ||
            !jinja_put_str(r, &b, v))
            return false;
    }
    return jinja_built(r, out, &b);
}

static bool filter_sum(CALL)
{
    struct jinja_seq *items;
    struct jinja_value none = { .kind = JINJA_MISSING };
    *out = c->bound[1].kind == JINJA_MISSING ? jinja_int(0) : c->bound[1];
    if (!jinja_iterate(r, &items, c->in))
        return false;
    if (out->kind == JINJA_TEXT)
        return jinja_fail(r, "TypeError: sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items->count; i++) {
        struct jinja_value v;
        if (!jinja_spend(r, 1) || !follow(r, &v, jinja_at(items, i), c->bound[0], none) ||
            !jinja_arithmetic(r, out, JINJA_OP_ADD, *out, v))
            return false;
    }
    return true;
}

/* Part begin .. end of items, filled up to count. */
static bool chunk(struct jinja_run *r, struct jinja_value *out, const struct jinja_seq *items,
                  size_t begin, size_t end, size_t count, struct jinja_value fill)
{
    struct jinja_seq *s;
    if (!jinja_spend(r, count) || !jinja_new_seq(r, &s, JINJA_LIST, count))
        return false;
    for (size_t i = 0; i < count; i++)
        s->items[i] = begin + i < end ? jinja_at(items, begin + i) : fill;
    *out = jinja_of_seq(s);
    return true;
}

static bool filter_batch(CALL)
{
    struct jinja_seq *items, *s;
    int64_t size = 0;
    if (!jinja_want_int(r, &size, c->bound[0]) || !jinja_iterate(r, &items, c->in))
        return false;
    if (size <= 0)
        return jinja_fail(r, "ValueError: batch needs a size of at least 1");
    size_t full = (size_t)size, chunks = items->count / full + (items->count % full != 0);
    if (!jinja_new_seq(r, &s, JINJA_GENERATOR, chunks))
        return false;
    for (size_t i = 0; i < chunks; i++) {
        size_t begin = i * full, count = items->count - begin;
        if (count > full || is_given(c->bound[1]))
            count = full;
        if (!chunk(r, &s->items[i], items, begin, items->count, count, c->bound[1]))
            return false;
    }
    *out = jinja_of_seq(s);
    return true;
}

static bool filter_slice(CALL)
{
    struct jinja_seq *items, *s;
    int64_t slices = 0;
    if (!jinja_want_int(r, &slices, c->bound[0]) || !jinja_iterate(r, &items, c->in))
        return false;
    if (slices <= 0)
        return jinja_fail(r, "ZeroDivisionError: integer division or modulo by zero");
    size_t n = (size_t)slices;
    if (!jinja_spend(r, n) || !jinja_new_seq(r, &s, JINJA_GENERATOR, n))
        return false;
    size_t each = items->count / n, extra = items->count % n, begin = 0;
    for (size_t i = 0; i < n; i++) {
        size_t count = each + (i < extra);
        bool filled = is_given(c->bound[1]) && i >= extra;
        if (!chunk(r, &s->items[i], items, begin, begin + count, count + filled, c->bound[1]))
            return false;
        begin += count;
    }
    *out = jinja_of_seq(s);
    return true;
}

/* Pairs with equal keys beside each other -> (key, [values]) each. */
static bool groups_of(struct jinja_run *r, struct jinja_value *out, const struct jinja_pair *pairs,
                      size_t count, const struct jinja_filter_call *c)
{
    struct jinja_seq *groups;
    if (!jinja_new_seq(r, &groups, JINJA_LIST, count))
        return false;
    groups->count = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        bool same = true;
        for (end = begin + 1; end < count; end++) {
            if (!jinja_equal(r, &same, pairs[begin].key, pairs[end].key))
                return false;
            if (!same)
                break;
        }
        struct jinja_seq *group;
        if (!jinja_new_seq(r, &group, JINJA_TUPLE, 2) ||
            !list_of_values(r, &group->items[1], pairs + begin, end - begin) ||
            !follow(r, &group->items[0], pairs[begin].value, c->bound[0], c->bound[1]))
            return false;
        group->group = true;
        groups->items[groups->count++] = jinja_of_seq(group);
    }
    *out = jinja_of_seq(groups);
    return true;
}

static bool filter_groupby(CALL)
{
    struct jinja_seq *items;
    struct jinja_pair *pairs;
    return jinja_iterate(r, &items, c->in) &&
           keyed(r, &pairs, items, c->bound[0], c->bound[2], c->bound[1]) &&
           jinja_sort_pairs(r, pairs, items->count, false) &&
           groups_of(r, out, pairs, items->count, c);
}

const struct jinja_filter jinja_seq_filters[] = {
    { "join", "d attribute", 0, filter_join },
    { "list", "", 0, filter_list },
    { "items", "", 0, filter_items },
    { "map", "*", 0, filter_map },
    { "select", "*", 0, filter_select },
    { "reject", "*", 0, filter_select },
    { "selectattr", "*", 0, filter_select },
    { "rejectattr", "*", 0, filter_select },
    { "first", "", 0, filter_first },
    { "last", "", 0, filter_first },
    { "sort", "reverse case_sensitive attribute", 0, filter_sort },
    { "dictsort", "case_sensitive by reverse", 0, filter_dictsort },
    { "reverse", "", 0, filter_reverse },
    { "unique", "case_sensitive attribute", 0, filter_unique },
    { "min", "case_sensitive attribute", 0, filter_extreme },
    { "max", "case_sensitive attribute", 0, filter_extreme },
    { "sum", "attribute start", 0, filter_sum },
    { "batch", "linecount fill_with", 1, filter_batch },
    { "slice", "slices fill_with", 1, filter_slice },
    { "groupby", "attribute default case_sensitive", 1, filter_groupby },
};
const size_t jinja_seq_filter_count = sizeof jinja_seq_filters / sizeof jinja_seq_filters[0];
