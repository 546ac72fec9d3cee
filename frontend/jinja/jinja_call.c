/* SPDX-License-Identifier: MIT */
/* jinja_call - see jinja_call.h. */
#include "frontend/jinja/jinja_call.h"

#include <stdio.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_methods.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"

#define RANGE_ITEMS_MAX 100000

/* --- binding --- */

/* Index of a name among parameters, or their count. */
static size_t find_parameter(const char *parameters, struct str name, size_t *count)
{
    struct str rest = str_of(parameters), word;
    size_t found = SIZE_MAX;
    *count = 0;
    while (rest.len > 0 && str_cut(&rest, ' ', &word)) {
        if (word.text[0] == '*')
            break;
        if (str_equal(word, name))
            found = *count;
        ++*count;
    }
    return found == SIZE_MAX ? *count : found;
}

bool jinja_bind(struct jinja_run *r, struct jinja_value bound[JINJA_PARAMETERS_MAX],
                const struct jinja_args *args, const char *callee, const char *parameters,
                size_t required)
{
    size_t count;
    (void)find_parameter(parameters, (struct str){ "", 0 }, &count);
    must(count <= JINJA_PARAMETERS_MAX);
    for (size_t i = 0; i < JINJA_PARAMETERS_MAX; i++)
        bound[i] = (struct jinja_value){ .kind = JINJA_MISSING };
    if (args->count > count && strchr(parameters, '*') == NULL)
        return jinja_fail(r, "TypeError: %s() takes at most %zu arguments (%zu given)", callee,
                          count, args->count);
    for (size_t i = 0; i < args->count && i < count; i++)
        bound[i] = args->items[i];
    for (size_t i = 0; i < args->named_count; i++) {
        const struct jinja_text *name = args->named[i].key.as.text;
        size_t index = find_parameter(parameters, jinja_str(name), &count);
        if (index == count)
            return jinja_fail(r, "TypeError: %s() got an unexpected keyword argument '%.*s'",
                              callee, (int)name->len, name->bytes);
        if (bound[index].kind != JINJA_MISSING)
            return jinja_fail(r, "TypeError: %s() got multiple values for argument '%.*s'", callee,
                              (int)name->len, name->bytes);
        bound[index] = args->named[i].value;
    }
    for (size_t i = 0; i < required; i++)
        if (bound[i].kind == JINJA_MISSING)
            return jinja_fail(r, "TypeError: %s() is missing a required argument", callee);
    return true;
}

bool jinja_want_int(struct jinja_run *r, int64_t *out, struct jinja_value v)
{
    if (v.kind == JINJA_MISSING || jinja_as_int(out, v))
        return true;
    return jinja_fail(r, "TypeError: '%s' object cannot be interpreted as an integer",
                      jinja_type(v));
}

bool jinja_want_text(struct jinja_run *r, const struct jinja_text **out, struct jinja_value v)
{
    if (v.kind == JINJA_MISSING)
        return true;
    if (v.kind != JINJA_TEXT)
        return jinja_fail(r, "TypeError: must be str, not %s", jinja_type(v));
    *out = v.as.text;
    return true;
}

/* --- global functions --- */

static bool call_range(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args)
{
    struct jinja_value bound[JINJA_PARAMETERS_MAX];
    int64_t start = 0, stop = 0, step = 1;
    if (!jinja_bind(r, bound, args, "range", "start stop step", 1))
        return false;
    bool single = bound[1].kind == JINJA_MISSING;
    if (!jinja_want_int(r, single ? &stop : &start, bound[0]) ||
        !jinja_want_int(r, &stop, bound[1]) || !jinja_want_int(r, &step, bound[2]))
        return false;
    if (step == 0)
        return jinja_fail(r, "ValueError: range() arg 3 must not be zero");
    uint64_t count = 0;
    if (step > 0 && start < stop)
        count = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    else if (step < 0 && start > stop)
        count = ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1;
    if (count > RANGE_ITEMS_MAX)
        return jinja_fail(r,
                          "OverflowError: Range too big. The sandbox blocks ranges larger than "
                          "MAX_RANGE (%d).",
                          RANGE_ITEMS_MAX);
    struct jinja_seq *s = jinja_take(r, 1, sizeof *s);
    if (s == NULL)
        return false;
    *s = (struct jinja_seq){
        .flavour = JINJA_RANGE, .count = (size_t)count, .start = start, .stop = stop, .step = step
    };
    *out = jinja_of_seq(s);
    return true;
}

/* The pairs of a sequence of two-item sequences. */
static bool pairs_of_seq(struct jinja_run *r, struct jinja_pair *pairs, const struct jinja_seq *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct jinja_seq *two;
        if (!jinja_spend(r, 1) || !jinja_iterate(r, &two, jinja_at(s, i)))
            return false;
        if (two->count != 2)
            return jinja_fail(r,
                              "ValueError: dictionary update sequence element #%zu has length %zu; "
                              "2 is required",
                              i, two->count);
        pairs[i] = (struct jinja_pair){ jinja_at(two, 0), jinja_at(two, 1) };
    }
    return true;
}

/* dict(mapping or pairs, **named) */
static bool call_dict(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args)
{
    const struct jinja_dict *base = NULL;
    struct jinja_seq *seq = NULL;
    size_t count = 0;
    if (args->count > 1)
        return jinja_fail(r, "TypeError: dict expected at most 1 argument, got %zu", args->count);
    if (args->count == 1 && args->items[0].kind == JINJA_DICT) {
        base = args->items[0].as.dict;
        count = base->count;
    } else if (args->count == 1) {
        if (!jinja_iterate(r, &seq, args->items[0]))
            return false;
        count = seq->count;
    }
    struct jinja_pair *pairs = jinja_take(r, count + args->named_count, sizeof *pairs);
    if (pairs == NULL)
        return false;
    if (base != NULL && count > 0)
        memcpy(pairs, base->pairs, count * sizeof *pairs);
    if (seq != NULL && !pairs_of_seq(r, pairs, seq))
        return false;
    if (args->named_count > 0)
        memcpy(pairs + count, args->named, args->named_count * sizeof *pairs);
    return jinja_spend(r, count) &&
           jinja_new_dict(r, out, pairs, count + args->named_count, base != NULL && base->user);
}

static bool call_namespace(struct jinja_run *r, struct jinja_value *out,
                           const struct jinja_args *args)
{
    struct jinja_value dict;
    struct jinja_space *space = jinja_take(r, 1, sizeof *space);
    if (space == NULL || !call_dict(r, &dict, args))
        return false;
    *space = (struct jinja_space){ 0 };
    for (uint32_t i = 0; i < dict.as.dict->count; i++) {
        const struct jinja_pair *p = &dict.as.dict->pairs[i];
        if (p->key.kind == JINJA_TEXT && !jinja_space_set(r, space, p->key.as.text, p->value))
            return false;
    }
    *out = (struct jinja_value){ .kind = JINJA_SPACE, .as.space = space };
    return true;
}

static bool call_cycler(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args)
{
    struct jinja_seq *s;
    struct jinja_cycler *c = jinja_take(r, 1, sizeof *c);
    if (c == NULL || !jinja_new_seq(r, &s, JINJA_TUPLE, args->count))
        return false;
    if (args->count == 0)
        return jinja_fail(r, "RuntimeError: at least one item has to be provided");
    memcpy(s->items, args->items, args->count * sizeof *s->items);
    *c = (struct jinja_cycler){ .items = jinja_of_seq(s) };
    *out = (struct jinja_value){ .kind = JINJA_CYCLER, .as.cycler = c };
    return true;
}

static bool call_joiner(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args)
{
    struct jinja_value bound[JINJA_PARAMETERS_MAX];
    struct jinja_cycler *c = jinja_take(r, 1, sizeof *c);
    if (c == NULL || !jinja_bind(r, bound, args, "joiner", "sep", 0))
        return false;
    *c = (struct jinja_cycler){ .items = bound[0] };
    if (bound[0].kind == JINJA_MISSING &&
        !jinja_text_of(r, &c->items, (struct str){ ", ", 2 }, false))
        return false;
    *out = (struct jinja_value){ .kind = JINJA_JOINER, .as.cycler = c };
    return true;
}

static bool call_raise(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args)
{
    struct jinja_value bound[JINJA_PARAMETERS_MAX];
    const struct jinja_text *message;
    (void)out;
    if (!jinja_bind(r, bound, args, "raise_exception", "message", 1) ||
        !jinja_to_text(r, &message, bound[0]))
        return false;
    return jinja_fail(r, "TemplateError: %.*s", (int)message->len, message->bytes);
}

/* --- strftime_now --- */

static const char *const weekdays[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
static const char *const months[] = { "January",   "February", "March",    "April",
                                      "May",       "June",     "July",     "August",
                                      "September", "October",  "November", "December" };

/* ISO 8601 week and its year. */
static int iso_week(const struct tm *t, int *year)
{
    int weekday = (t->tm_wday + 6) % 7; /* 0 = Monday */
    int week = (t->tm_yday - weekday + 10) / 7;
    *year = t->tm_year + 1900;
    if (week < 1) {
        int y = --*year;
        bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
        return (t->tm_yday + 365 + leap - weekday + 10) / 7;
    }
    if (week == 53) {
        bool leap = (*year % 4 == 0 && *year % 100 != 0) || *year % 400 == 0;
        if (t->tm_yday - weekday + 3 >= 365 + leap) {
            ++*year;
            return 1;
        }
    }
    return week;
}

/* One directive; pad is the usual padding, 0 for none. False when there is no such directive. */
static bool put_directive(char *o, size_t cap, const struct tm *t, char c, int unpadded)
{
    int hour12 = t->tm_hour % 12 == 0 ? 12 : t->tm_hour % 12, iso_year;
    int two = unpadded ? 1 : 2, three = unpadded ? 1 : 3, year = t->tm_year + 1900;
    const char *weekday = weekdays[(unsigned)t->tm_wday % 7],
               *month = months[(unsigned)t->tm_mon % 12];
    struct {
        char c;
        int width, value;
        char fill;
    } numbers[] = {
        { 'Y', unpadded ? 1 : 4, year, '0' },
        { 'y', two, year % 100, '0' },
        { 'C', two, year / 100, '0' },
        { 'm', two, t->tm_mon + 1, '0' },
        { 'd', two, t->tm_mday, '0' },
        { 'e', two, t->tm_mday, ' ' },
        { 'H', two, t->tm_hour, '0' },
        { 'k', two, t->tm_hour, ' ' },
        { 'I', two, hour12, '0' },
        { 'l', two, hour12, ' ' },
        { 'M', two, t->tm_min, '0' },
        { 'S', two, t->tm_sec, '0' },
        { 'j', three, t->tm_yday + 1, '0' },
        { 'f', 6, 0, '0' },
        { 'u', 1, t->tm_wday == 0 ? 7 : t->tm_wday, '0' },
        { 'w', 1, t->tm_wday, '0' },
        { 'U', two, (t->tm_yday + 7 - t->tm_wday) / 7, '0' },
        { 'W', two, (t->tm_yday + 7 - (t->tm_wday + 6) % 7) / 7, '0' },
        { 'V', two, iso_week(t, &iso_year), '0' },
        { 'G', 4, iso_year, '0' },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].c != c)
            continue;
        if (numbers[i].fill == '0')
            snprintf(o, cap, "%0*d", numbers[i].width, numbers[i].value);
        else
            snprintf(o, cap, "%*d", numbers[i].width, numbers[i].value);
        return true;
    }
    if (c == 'A' || c == 'B')
        snprintf(o, cap, "%s", c == 'A' ? weekday : month);
    else if (c == 'a' || c == 'b' || c == 'h')
        snprintf(o, cap, "%.3s", c == 'a' ? weekday : month);
    else if (c == 'p')
        snprintf(o, cap, "%s", t->tm_hour < 12 ? "AM" : "PM");
    else if (c == 'n' || c == 't' || c == '%')
        snprintf(o, cap, "%c", c == 'n' ? '\n' : c == 't' ? '\t' : '%');
    else if (c == 'z' || c == 'Z')
        *o = '\0'; /* the hubs' clock knows no zone */
    else
        return false;
    return true;
}

/* Directives that stand for several others. */
static const char *compound(char c)
{
    return c == 'F'               ? "%Y-%m-%d"
           : c == 'T' || c == 'X' ? "%H:%M:%S"
           : c == 'R'             ? "%H:%M"
           : c == 'D' || c == 'x' ? "%m/%d/%y"
           : c == 'c'             ? "%a %b %e %H:%M:%S %Y"
           : c == 'r'             ? "%I:%M:%S %p"
                                  : NULL;
}

static bool put_time(struct jinja_run *r, struct jinja_builder *b, const struct tm *t,
                     struct str format, bool user)
{
    char text[64];
    for (size_t i = 0; i < format.len; i++) {
        size_t percent = i;
        if (format.text[i] != '%' || i + 1 == format.len) {
            if (!jinja_put(r, b, format.text + i, 1, user))
                return false;
            continue;
        }
        bool unpadded = format.text[++i] == '-' && i + 1 < format.len;
        i += unpadded;
        if (!put_directive(text, sizeof text, t, format.text[i], unpadded)) {
            if (!jinja_put(r, b, format.text + percent, i - percent + 1, user))
                return false;
        } else if (!jinja_put_word(r, b, text, false)) {
            return false;
        }
    }
    return true;
}

/* Compound directives first, so that put_time knows only simple ones. */
static bool call_strftime(struct jinja_run *r, struct jinja_value *out,
                          const struct jinja_args *args)
{
    struct jinja_value bound[JINJA_PARAMETERS_MAX], expanded;
    static const struct jinja_text empty = { .bytes = "" };
    const struct jinja_text *format = &empty;
    struct jinja_builder simple = { 0 }, b = { 0 };
    if (!jinja_bind(r, bound, args, "strftime_now", "format", 1) ||
        !jinja_want_text(r, &format, bound[0]))
        return false;
    bool user = jinja_any_user(format);
    for (size_t i = 0; i < format->len; i++) {
        bool pair = format->bytes[i] == '%' && i + 1 < format->len;
        const char *whole = pair ? compound(format->bytes[i + 1]) : NULL;
        if (!(whole != NULL ? jinja_put_word(r, &simple, whole, user)
                            : jinja_put(r, &simple, format->bytes + i, 1u + pair, user)))
            return false;
        i += pair;
    }
    struct tm now = { .tm_mday = 1 };
    r->options->calendar.now(r->options->calendar.ctx, &now);
    return jinja_built(r, &expanded, &simple) &&
           put_time(r, &b, &now, jinja_str(expanded.as.text), user) && jinja_built(r, out, &b);
}

/* --- dispatch --- */

typedef bool global_fn(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args);

static const struct {
    const char *name;
    global_fn *call;
} globals[] = {
    { "range", call_range },           { "dict", call_dict },     { "namespace", call_namespace },
    { "cycler", call_cycler },         { "joiner", call_joiner }, { "raise_exception", call_raise },
    { "strftime_now", call_strftime },
};

bool jinja_global(struct jinja_value *out, struct str name)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (str_equal(name, str_of(globals[i].name))) {
            *out = (struct jinja_value){ .kind = JINJA_FUNCTION, .as.function = (int)i };
            return true;
        }
    }
    return false;
}

static bool call_join(struct jinja_run *r, struct jinja_value *out, struct jinja_cycler *c)
{
    if (c->at++ > 0) {
        *out = c->items;
        return true;
    }
    return jinja_text_of(r, out, (struct str){ "", 0 }, false);
}

bool jinja_call_builtin(struct jinja_run *r, struct jinja_value *out, struct jinja_value callee,
                        const struct jinja_args *args)
{
    switch ((int)callee.kind) {
    case JINJA_FUNCTION:
        return globals[callee.as.function].call(r, out, args);
    case JINJA_METHOD:
        return jinja_call_method(r, out, callee.as.method, args);
    case JINJA_JOINER:
        return call_join(r, out, callee.as.cycler);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(r, callee);
    default:
        return jinja_fail(r, "TypeError: '%s' object is not callable", jinja_type(callee));
    }
}
