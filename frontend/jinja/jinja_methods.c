/* SPDX-License-Identifier: MIT */
/* jinja_methods - see jinja_methods.h. One table of methods: whose, name, parameters, function.
 * What a method is called with is bound by jinja_bind; what a name means is looked up linearly, as
 * the table is short and a template's hot names stand first. */
#include "frontend/jinja/jinja_methods.h"

#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_call.h"
#include "frontend/jinja/jinja_format.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"
#include "frontend/jinja/jinja_strings.h"

/* A call of a method: its object, and its arguments by parameter. */
struct call {
    struct jinja_value self;
    struct jinja_value bound[JINJA_PARAMETERS_MAX];
    const struct jinja_args *args;
    const char *name;
};

typedef bool method_fn(struct jinja_run *r, struct jinja_value *out, const struct call *c);

/* --- texts --- */

static bool text_strip(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *chars = NULL;
    enum jinja_side side = c->name[0] == 'l'   ? JINJA_LEFT
                           : c->name[0] == 'r' ? JINJA_RIGHT
                                               : JINJA_BOTH;
    if (c->bound[0].kind != JINJA_NONE && !jinja_want_text(r, &chars, c->bound[0]))
        return false;
    return jinja_strip(r, out, c->self.as.text, chars, side);
}

static bool text_split(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *separator = NULL;
    int64_t times = -1;
    if (c->bound[0].kind != JINJA_NONE && !jinja_want_text(r, &separator, c->bound[0]))
        return false;
    return jinja_want_int(r, &times, c->bound[1]) &&
           jinja_split(r, out, c->self.as.text, separator, times,
                       c->name[0] == 'r' ? JINJA_RIGHT : JINJA_LEFT);
}

static bool text_splitlines(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    struct jinja_seq *lines;
    if (!jinja_split_lines(r, &lines, c->self.as.text, jinja_is_true(c->bound[0])))
        return false;
    *out = jinja_of_seq(lines);
    return true;
}

/* Bytes of [start:end] in bound[1] and bound[2]; false in *valid: start is behind the end. */
static bool text_bounds(struct jinja_run *r, const struct call *c, size_t *begin, size_t *end,
                        bool *valid)
{
    const struct jinja_text *t = c->self.as.text;
    int64_t count = (int64_t)t->chars, from = 0, to = count;
    if ((c->bound[1].kind != JINJA_NONE && !jinja_want_int(r, &from, c->bound[1])) ||
        (c->bound[2].kind != JINJA_NONE && !jinja_want_int(r, &to, c->bound[2])))
        return false;
    from = from < -count ? 0 : from < 0 ? from + count : from;
    to = to < -count ? 0 : to < 0 ? to + count : to > count ? count : to;
    *valid = from <= to;
    *begin = jinja_offset(t, (size_t)from);
    *end = jinja_offset(t, (size_t)to);
    return jinja_spend(r, t->chars == t->len ? 0 : t->len / 16);
}

static bool has_affix(struct jinja_run *r, bool *out, const struct call *c, struct jinja_value v,
                      size_t begin, size_t end)
{
    bool ends = c->name[0] == 'e';
    if (v.kind != JINJA_TEXT)
        return jinja_fail(r, "TypeError: %s first arg must be str or a tuple of str, not %s",
                          c->name, jinja_type(v));
    struct str whole = { c->self.as.text->bytes + begin, end - begin };
    struct str part = jinja_str(v.as.text);
    *out = *out || (ends ? str_ends(whole, part) : str_starts(whole, part));
    return true;
}

static bool text_affix(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    size_t begin, end;
    bool valid, found = false;
    struct jinja_value v = c->bound[0];
    if (!text_bounds(r, c, &begin, &end, &valid))
        return false;
    if (!valid)
        begin = end;
    if (v.kind == JINJA_SEQ && v.as.seq->flavour == JINJA_TUPLE) {
        for (size_t i = 0; i < v.as.seq->count; i++)
            if (!jinja_spend(r, 1) || !has_affix(r, &found, c, jinja_at(v.as.seq, i), begin, end))
                return false;
    } else if (!has_affix(r, &found, c, v, begin, end)) {
        return false;
    }
    *out = jinja_bool(valid && found);
    return true;
}

static bool text_find(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *t = c->self.as.text, *part = NULL;
    size_t begin, end, at = SIZE_MAX;
    bool valid, last = c->name[0] == 'r', must_be = strstr(c->name, "index") != NULL;
    if (!jinja_want_text(r, &part, c->bound[0]) || !text_bounds(r, c, &begin, &end, &valid))
        return false;
    if (valid && !last)
        at = jinja_search(t, jinja_str(part), begin, end);
    if (valid && last && !jinja_search_last(r, &at, t, jinja_str(part), begin, end))
        return false;
    if (at == SIZE_MAX && must_be)
        return jinja_fail(r, "ValueError: substring not found");
    *out = jinja_int(at == SIZE_MAX ? -1 : (int64_t)jinja_count_chars(t->bytes, at));
    return jinja_spend(r, t->len / 16);
}

static bool text_count(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *t = c->self.as.text, *part = NULL;
    size_t begin, end, count = 0;
    bool valid;
    if (!jinja_want_text(r, &part, c->bound[0]) || !text_bounds(r, c, &begin, &end, &valid))
        return false;
    if (valid && part->len == 0)
        count = jinja_count_chars(t->bytes + begin, end - begin) + 1;
    while (valid && part->len > 0) {
        size_t at = jinja_search(t, jinja_str(part), begin, end);
        if (at == SIZE_MAX)
            break;
        count++;
        begin = at + part->len;
    }
    *out = jinja_int((int64_t)count);
    return jinja_spend(r, t->len / 8);
}

static bool text_replace(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *from = NULL, *to = NULL;
    int64_t times = -1;
    return jinja_want_text(r, &from, c->bound[0]) && jinja_want_text(r, &to, c->bound[1]) &&
           jinja_want_int(r, &times, c->bound[2]) &&
           jinja_replace(r, out, c->self.as.text, from, to, times);
}

static bool text_case(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *t = c->self.as.text;
    switch (c->name[0]) {
    case 'u':
        return jinja_recase(r, out, t, JINJA_CASE_UPPER);
    case 't':
        return jinja_titlecase(r, out, t);
    case 's':
        return jinja_swapcase(r, out, t);
    case 'c':
        if (c->name[2] == 'p')
            return jinja_capitalize(r, out, t);
        return jinja_recase(r, out, t, JINJA_CASE_FOLD);
    default:
        return jinja_recase(r, out, t, JINJA_CASE_LOWER);
    }
}

static bool text_join(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    struct jinja_seq *items;
    return jinja_iterate(r, &items, c->bound[0]) && jinja_join(r, out, c->self.as.text, items);
}

static bool text_format(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    return jinja_format_braces(r, out, c->self.as.text, c->args);
}

static bool text_format_map(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    if (c->bound[0].kind != JINJA_DICT)
        return jinja_fail(r, "TypeError: format_map() takes a mapping, not %s",
                          jinja_type(c->bound[0]));
    const struct jinja_dict *d = c->bound[0].as.dict;
    struct jinja_args args = { 0 };
    struct jinja_pair *named = jinja_take(r, d->count, sizeof *named);
    if (named == NULL || !jinja_spend(r, d->count))
        return false;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->pairs[i].key.kind == JINJA_TEXT)
            named[args.named_count++] = d->pairs[i];
    args.named = named;
    return jinja_format_braces(r, out, c->self.as.text, &args);
}

static bool text_pad(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *fill = NULL;
    int64_t width = 0;
    enum jinja_side side = c->name[0] == 'l'   ? JINJA_LEFT
                           : c->name[0] == 'r' ? JINJA_RIGHT
                                               : JINJA_BOTH;
    return jinja_want_int(r, &width, c->bound[0]) && jinja_want_text(r, &fill, c->bound[1]) &&
           jinja_pad(r, out, c->self.as.text, width, fill, side);
}

static bool text_zfill(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    int64_t width = 0;
    return jinja_want_int(r, &width, c->bound[0]) && jinja_zfill(r, out, c->self.as.text, width);
}

static bool text_expandtabs(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    int64_t width = 8;
    return jinja_want_int(r, &width, c->bound[0]) &&
           jinja_expand_tabs(r, out, c->self.as.text, width);
}

static bool text_partition(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *separator = NULL;
    return jinja_want_text(r, &separator, c->bound[0]) &&
           jinja_partition(r, out, c->self.as.text, separator,
                           c->name[0] == 'r' ? JINJA_RIGHT : JINJA_LEFT);
}

static bool text_remove(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_text *t = c->self.as.text, *part = NULL;
    bool suffix = c->name[6] == 's';
    if (!jinja_want_text(r, &part, c->bound[0]))
        return false;
    if (suffix && str_ends(jinja_str(t), jinja_str(part)))
        return jinja_part(r, out, t, 0, t->len - part->len);
    if (!suffix && str_starts(jinja_str(t), jinja_str(part)))
        return jinja_part(r, out, t, part->len, t->len);
    *out = c->self;
    return true;
}

static bool text_is(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    *out = jinja_bool(jinja_text_kind(c->self.as.text, c->name + 2));
    return jinja_spend(r, c->self.as.text->len / 4);
}

/* --- lists and dicts --- */

static bool seq_index(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_seq *s = c->self.as.seq;
    int64_t count = (int64_t)s->count, from = 0, to = count;
    if (!jinja_want_int(r, &from, c->bound[1]) || !jinja_want_int(r, &to, c->bound[2]))
        return false;
    from = from < -count ? 0 : from < 0 ? from + count : from;
    to = to < 0 ? to + count : to > count ? count : to;
    for (int64_t i = from; i < to; i++) {
        bool same;
        if (!jinja_spend(r, 1) || !jinja_equal(r, &same, jinja_at(s, (size_t)i), c->bound[0]))
            return false;
        if (same) {
            *out = jinja_int(i);
            return true;
        }
    }
    return jinja_fail(r, "ValueError: value is not in %s", jinja_type(c->self));
}

static bool seq_count(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_seq *s = c->self.as.seq;
    int64_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        bool same;
        if (!jinja_spend(r, 1) || !jinja_equal(r, &same, jinja_at(s, i), c->bound[0]))
            return false;
        count += same;
    }
    *out = jinja_int(count);
    return true;
}

static bool any_copy(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    *out = c->self; /* nothing can change it */
    return jinja_spend(r, 1);
}

static bool dict_get(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    const struct jinja_pair *p;
    if (!jinja_find(r, &p, c->self.as.dict, c->bound[0]))
        return false;
    *out = p != NULL ? p->value : c->bound[1].kind == JINJA_MISSING ? jinja_none() : c->bound[1];
    return true;
}

static bool dict_view(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    enum jinja_flavour flavour = c->name[0] == 'k'   ? JINJA_KEYS
                                 : c->name[0] == 'v' ? JINJA_VALUES
                                                     : JINJA_ITEMS;
    return jinja_dict_view(r, out, c->self.as.dict, flavour);
}

bool jinja_dict_view(struct jinja_run *r, struct jinja_value *out, const struct jinja_dict *d,
                     enum jinja_flavour flavour)
{
    struct jinja_seq *view, *pair;
    if (!jinja_new_seq(r, &view, flavour, d->count) || !jinja_spend(r, d->count))
        return false;
    view->user = d->user;
    for (uint32_t i = 0; i < d->count; i++) {
        const struct jinja_pair *p = &d->pairs[i];
        if (flavour == JINJA_KEYS || flavour == JINJA_VALUES) {
            view->items[i] = flavour == JINJA_KEYS ? p->key : p->value;
            continue;
        }
        if (!jinja_new_seq(r, &pair, JINJA_TUPLE, 2))
            return false;
        pair->items[0] = p->key;
        pair->items[1] = p->value;
        pair->user = d->user;
        view->items[i] = jinja_of_seq(pair);
    }
    *out = jinja_of_seq(view);
    return true;
}

/* --- loops and cyclers --- */

static bool loop_cycle(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    if (c->args->count == 0)
        return jinja_fail(r, "TypeError: no items for cycling given");
    *out = c->args->items[c->self.as.loop->index0 % c->args->count];
    return true;
}

static bool loop_changed(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    struct jinja_seq *now;
    bool same = false;
    if (!jinja_new_seq(r, &now, JINJA_TUPLE, c->args->count))
        return false;
    if (c->args->count > 0)
        memcpy(now->items, c->args->items, c->args->count * sizeof *now->items);
    struct jinja_loop *l = c->self.as.loop;
    if (l->changed.kind != JINJA_MISSING && !jinja_equal(r, &same, l->changed, jinja_of_seq(now)))
        return false;
    l->changed = jinja_of_seq(now);
    *out = jinja_bool(!same);
    return true;
}

static bool cycler_next(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    struct jinja_cycler *cycler = c->self.as.cycler;
    *out = jinja_at(cycler->items.as.seq, cycler->at);
    cycler->at = (cycler->at + 1) % cycler->items.as.seq->count;
    return jinja_spend(r, 1);
}

static bool cycler_reset(struct jinja_run *r, struct jinja_value *out, const struct call *c)
{
    c->self.as.cycler->at = 0;
    *out = jinja_none();
    return jinja_spend(r, 1);
}

/* --- the table --- */

enum whose { TEXT = 1, LIST = 2, TUPLE = 4, DICT = 8, LOOP = 16, CYCLER = 32 };

static const struct {
    unsigned whose;
    const char *name;
    const char *parameters;
    size_t required;
    method_fn *call; /* NULL: it would change its object */
} methods[] = {
    { DICT, "get", "key default", 1, dict_get },
    { DICT, "items", "", 0, dict_view },
    { DICT, "keys", "", 0, dict_view },
    { DICT, "values", "", 0, dict_view },
    { DICT | LIST, "copy", "", 0, any_copy },
    { DICT | LIST, "clear", "*", 0, NULL },
    { DICT | LIST, "pop", "*", 0, NULL },
    { DICT, "popitem", "*", 0, NULL },
    { DICT, "setdefault", "*", 0, NULL },
    { DICT, "update", "*", 0, NULL },
    { LIST, "append", "*", 0, NULL },
    { LIST, "extend", "*", 0, NULL },
    { LIST, "insert", "*", 0, NULL },
    { LIST, "remove", "*", 0, NULL },
    { LIST, "reverse", "*", 0, NULL },
    { LIST, "sort", "*", 0, NULL },
    { LIST | TUPLE, "index", "value start stop", 1, seq_index },
    { LIST | TUPLE, "count", "value", 1, seq_count },
    { LOOP, "cycle", "*", 0, loop_cycle },
    { LOOP, "changed", "*", 0, loop_changed },
    { CYCLER, "next", "", 0, cycler_next },
    { CYCLER, "reset", "", 0, cycler_reset },
    { TEXT, "split", "sep maxsplit", 0, text_split },
    { TEXT, "strip", "chars", 0, text_strip },
    { TEXT, "lstrip", "chars", 0, text_strip },
    { TEXT, "rstrip", "chars", 0, text_strip },
    { TEXT, "startswith", "prefix start end", 1, text_affix },
    { TEXT, "endswith", "suffix start end", 1, text_affix },
    { TEXT, "replace", "old new count", 2, text_replace },
    { TEXT, "upper", "", 0, text_case },
    { TEXT, "lower", "", 0, text_case },
    { TEXT, "title", "", 0, text_case },
    { TEXT, "capitalize", "", 0, text_case },
    { TEXT, "swapcase", "", 0, text_case },
    { TEXT, "casefold", "", 0, text_case },
    { TEXT, "join", "iterable", 1, text_join },
    { TEXT, "format", "*", 0, text_format },
    { TEXT, "format_map", "mapping", 1, text_format_map },
    { TEXT, "rsplit", "sep maxsplit", 0, text_split },
    { TEXT, "splitlines", "keepends", 0, text_splitlines },
    { TEXT, "find", "sub start end", 1, text_find },
    { TEXT, "rfind", "sub start end", 1, text_find },
    { TEXT, "index", "sub start end", 1, text_find },
    { TEXT, "rindex", "sub start end", 1, text_find },
    { TEXT, "count", "sub start end", 1, text_count },
    { TEXT, "partition", "sep", 1, text_partition },
    { TEXT, "rpartition", "sep", 1, text_partition },
    { TEXT, "removeprefix", "prefix", 1, text_remove },
    { TEXT, "removesuffix", "suffix", 1, text_remove },
    { TEXT, "center", "width fillchar", 1, text_pad },
    { TEXT, "ljust", "width fillchar", 1, text_pad },
    { TEXT, "rjust", "width fillchar", 1, text_pad },
    { TEXT, "zfill", "width", 1, text_zfill },
    { TEXT, "expandtabs", "tabsize", 0, text_expandtabs },
    { TEXT, "isalpha", "", 0, text_is },
    { TEXT, "isalnum", "", 0, text_is },
    { TEXT, "isdigit", "", 0, text_is },
    { TEXT, "isdecimal", "", 0, text_is },
    { TEXT, "isnumeric", "", 0, text_is },
    { TEXT, "isspace", "", 0, text_is },
    { TEXT, "islower", "", 0, text_is },
    { TEXT, "isupper", "", 0, text_is },
    { TEXT, "istitle", "", 0, text_is },
    { TEXT, "isprintable", "", 0, text_is },
    { TEXT, "isascii", "", 0, text_is },
    { TEXT, "isidentifier", "", 0, text_is },
};

static unsigned owner_bit(struct jinja_value v)
{
    switch ((int)v.kind) {
    case JINJA_TEXT:
        return TEXT;
    case JINJA_DICT:
        return DICT;
    case JINJA_LOOP:
        return LOOP;
    case JINJA_CYCLER:
        return CYCLER;
    case JINJA_SEQ:
        return v.as.seq->flavour == JINJA_LIST    ? LIST
               : v.as.seq->flavour <= JINJA_RANGE ? TUPLE
                                                  : 0;
    default:
        return 0;
    }
}

/* --- attributes that are values --- */

static bool loop_number(int64_t *out, const struct jinja_loop *l, struct str name)
{
    int64_t index0 = (int64_t)l->index0, length = (int64_t)l->items->count;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        { "index0", index0 },
        { "index", index0 + 1 },
        { "length", length },
        { "revindex", length - index0 },
        { "revindex0", length - index0 - 1 },
        { "depth", (int64_t)l->depth0 + 1 },
        { "depth0", l->depth0 },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (str_equal(name, str_of(numbers[i].name))) {
            *out = numbers[i].value;
            return true;
        }
    }
    return false;
}

/* An item beside the current one, or undefined. */
static enum jinja_attribute loop_neighbour(struct jinja_run *r, struct jinja_value *out,
                                           const struct jinja_loop *l, bool previous)
{
    bool there = previous ? l->index0 > 0 : l->next < l->items->count;
    if (there) {
        *out = previous ? l->before : jinja_at(l->items, l->next);
        return JINJA_ATTRIBUTE_FOUND;
    }
    const char *hint = previous ? "there is no previous item" : "there is no next item";
    return jinja_new_undefined(r, out, hint, NULL, jinja_none()) ? JINJA_ATTRIBUTE_FOUND
                                                                 : JINJA_ATTRIBUTE_FAILED;
}

static enum jinja_attribute loop_attribute(struct jinja_run *r, struct jinja_value *out,
                                           const struct jinja_loop *l, struct str name)
{
    int64_t number;
    if (loop_number(&number, l, name))
        *out = jinja_int(number);
    else if (str_equal(name, str_of("first")))
        *out = jinja_bool(l->index0 == 0);
    else if (str_equal(name, str_of("last")))
        *out = jinja_bool(l->next == l->items->count);
    else if (str_equal(name, str_of("previtem")))
        return loop_neighbour(r, out, l, true);
    else if (str_equal(name, str_of("nextitem")))
        return loop_neighbour(r, out, l, false);
    else
        return JINJA_ATTRIBUTE_NONE;
    return JINJA_ATTRIBUTE_FOUND;
}

static enum jinja_attribute macro_attribute(struct jinja_run *r, struct jinja_value *out,
                                            const struct jinja_macro *m, struct str name)
{
    if (str_equal(name, str_of("name"))) {
        *out = m->name == JINJA_NAMELESS ? jinja_none() : jinja_of_text(&r->j->names[m->name]);
        return JINJA_ATTRIBUTE_FOUND;
    }
    if (!str_equal(name, str_of("arguments")))
        return JINJA_ATTRIBUTE_NONE;
    struct jinja_seq *s;
    if (!jinja_new_seq(r, &s, JINJA_TUPLE, m->parameter_count))
        return JINJA_ATTRIBUTE_FAILED;
    for (uint32_t i = 0; i < m->parameter_count; i++)
        s->items[i] = jinja_of_text(&r->j->names[m->parameters[i]]);
    *out = jinja_of_seq(s);
    return JINJA_ATTRIBUTE_FOUND;
}

enum jinja_attribute jinja_find_attribute(struct jinja_run *r, struct jinja_value *out,
                                          struct jinja_value v, struct str name)
{
    enum jinja_attribute found = JINJA_ATTRIBUTE_NONE;
    if (v.kind == JINJA_LOOP)
        found = loop_attribute(r, out, v.as.loop, name);
    else if (v.kind == JINJA_MACRO)
        found = macro_attribute(r, out, v.as.macro->macro, name);
    if (v.kind == JINJA_CYCLER && str_equal(name, str_of("current"))) {
        *out = jinja_at(v.as.cycler->items.as.seq, v.as.cycler->at);
        found = JINJA_ATTRIBUTE_FOUND;
    }
    bool group = v.kind == JINJA_SEQ && v.as.seq->group;
    if (group && (str_equal(name, str_of("grouper")) || str_equal(name, str_of("list")))) {
        *out = jinja_at(v.as.seq, name.text[0] == 'l');
        found = JINJA_ATTRIBUTE_FOUND;
    }
    unsigned bit = owner_bit(v);
    if (found != JINJA_ATTRIBUTE_NONE || bit == 0)
        return found;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if ((methods[i].whose & bit) == 0 || !str_equal(name, str_of(methods[i].name)))
            continue;
        if (methods[i].call == NULL)
            return JINJA_ATTRIBUTE_UNSAFE;
        struct jinja_method *m = jinja_take(r, 1, sizeof *m);
        if (m == NULL)
            return JINJA_ATTRIBUTE_FAILED;
        *m = (struct jinja_method){ v, (int)i };
        *out = (struct jinja_value){ .kind = JINJA_METHOD, .as.method = m };
        return JINJA_ATTRIBUTE_FOUND;
    }
    return JINJA_ATTRIBUTE_NONE;
}

bool jinja_call_method(struct jinja_run *r, struct jinja_value *out, const struct jinja_method *m,
                       const struct jinja_args *args)
{
    must(methods[m->id].call != NULL);
    struct call c = { .self = m->self, .args = args, .name = methods[m->id].name };
    const char *parameters = methods[m->id].parameters;
    if (parameters[0] != '*' &&
        !jinja_bind(r, c.bound, args, c.name, parameters, methods[m->id].required))
        return false;
    return methods[m->id].call(r, out, &c);
}
