/* SPDX-License-Identifier: MIT */
/* jinja_filters - see jinja_filters.h: filters of one value (texts, numbers, JSON) and the lookup
 * of all of them. Defaults stand in each function, as Python's signatures have them. */
#include "frontend/jinja/jinja_filters.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_format.h"
#include "frontend/jinja/jinja_operators.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"
#include "frontend/jinja/jinja_strings.h"

#define CALL struct jinja_run *r, struct jinja_value *out, const struct jinja_filter_call *c

/* The text before the "|", whatever the value is. */
static bool in_text(struct jinja_run *r, const struct jinja_text **out,
                    const struct jinja_filter_call *c)
{
    return jinja_to_text(r, out, c->in);
}

/* --- texts --- */

static bool filter_case(CALL)
{
    const struct jinja_text *t;
    if (!in_text(r, &t, c))
        return false;
    if (c->name[0] == 'c')
        return jinja_capitalize(r, out, t);
    return jinja_recase(r, out, t, c->name[0] == 'u' ? JINJA_CASE_UPPER : JINJA_CASE_LOWER);
}

static bool parts_words(uint32_t code)
{
    return jinja_is_blank(code) || (code < 0x80 && code != 0 && strchr("-({[<", (int)code) != NULL);
}

/* Each word begins with a capital; words are parted by blanks, dashes and opening brackets. */
static bool filter_title(CALL)
{
    const struct jinja_text *t;
    struct jinja_builder b = { 0 };
    if (!in_text(r, &t, c))
        return false;
    size_t len, end;
    for (size_t at = 0; at < t->len; at = end) {
        struct jinja_value rest;
        bool between = parts_words(jinja_char(t, at, &len));
        for (end = at + len; end < t->len; end += len)
            if (parts_words(jinja_char(t, end, &len)) != between)
                break;
        (void)jinja_char(t, at, &len);
        size_t first = at + len;
        if (!jinja_put_case(r, &b, t, at, first, JINJA_CASE_UPPER) ||
            !jinja_part(r, &rest, t, first, end) ||
            !jinja_put_case(r, &b, rest.as.text, 0, end - first, JINJA_CASE_LOWER))
            return false;
    }
    return jinja_built(r, out, &b) && jinja_as_markup(r, out, out->as.text, t->markup);
}

static bool filter_trim(CALL)
{
    const struct jinja_text *t, *chars = NULL;
    if (!in_text(r, &t, c) ||
        (c->bound[0].kind != JINJA_NONE && !jinja_want_text(r, &chars, c->bound[0])))
        return false;
    return jinja_strip(r, out, t, chars, JINJA_BOTH);
}

static bool filter_string(CALL)
{
    const struct jinja_text *t;
    if (!in_text(r, &t, c))
        return false;
    *out = jinja_of_text(t);
    return true;
}

static bool filter_safe(CALL)
{
    const struct jinja_text *t;
    return in_text(r, &t, c) && jinja_as_markup(r, out, t, true);
}

static bool filter_escape(CALL)
{
    const struct jinja_text *t;
    if (!in_text(r, &t, c))
        return false;
    if (c->name[0] == 'f') { /* forceescape: markup too */
        struct jinja_value plain;
        if (!jinja_as_markup(r, &plain, t, false))
            return false;
        t = plain.as.text;
    }
    if (!jinja_escape(r, &t, t))
        return false;
    *out = jinja_of_text(t);
    return true;
}

static bool filter_replace(CALL)
{
    const struct jinja_text *t, *from, *to;
    struct jinja_value plain;
    int64_t times = -1;
    if (!in_text(r, &t, c) || !jinja_as_markup(r, &plain, t, false) ||
        !jinja_to_text(r, &from, c->bound[0]) || !jinja_to_text(r, &to, c->bound[1]))
        return false;
    if (c->bound[2].kind != JINJA_NONE && !jinja_want_int(r, &times, c->bound[2]))
        return false;
    return jinja_replace(r, out, plain.as.text, from, to, times);
}

static bool filter_center(CALL)
{
    const struct jinja_text *t;
    int64_t width = 80;
    return in_text(r, &t, c) && jinja_want_int(r, &width, c->bound[0]) &&
           jinja_pad(r, out, t, width, NULL, JINJA_BOTH);
}

/* The indentation of indent() and tojson(): a text, or a number of blanks. */
static bool indentation(struct jinja_run *r, const struct jinja_text **out, struct jinja_value v)
{
    int64_t width = 0;
    if (v.kind == JINJA_TEXT) {
        *out = v.as.text;
        return true;
    }
    if (!jinja_want_int(r, &width, v))
        return false;
    static const struct jinja_text blank = { .bytes = " ", .len = 1, .chars = 1 };
    struct jinja_builder b = { 0 };
    struct jinja_value text;
    if (!jinja_put_times(r, &b, &blank, width < 0 ? 0 : (size_t)width) ||
        !jinja_built(r, &text, &b))
        return false;
    *out = text.as.text;
    return true;
}

static bool filter_indent(CALL)
{
    const struct jinja_text *t, *indent;
    struct jinja_value width = c->bound[0].kind == JINJA_MISSING ? jinja_int(4) : c->bound[0];
    struct jinja_value ended;
    struct jinja_seq *lines;
    struct jinja_builder whole = { 0 }, b = { 0 };
    bool first = jinja_is_true(c->bound[1]), blank = jinja_is_true(c->bound[2]);
    if (c->in.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, c->in);
    if (c->in.kind == JINJA_SEQ && c->in.as.seq->flavour == JINJA_LIST)
        return jinja_fail(r, "AttributeError: 'list' object has no attribute 'splitlines'");
    if (c->in.kind != JINJA_TEXT)
        return jinja_fail(r, "TypeError: unsupported operand type(s) for +=: '%s' and 'str'",
                          jinja_type(c->in));
    t = c->in.as.text;
    if (!indentation(r, &indent, width) || !jinja_put_text(r, &whole, t) ||
        !jinja_put_word(r, &whole, "\n", false) || !jinja_built(r, &ended, &whole) ||
        !jinja_split_lines(r, &lines, ended.as.text, false))
        return false;
    for (size_t i = 0; i < lines->count; i++) {
        const struct jinja_text *line = lines->items[i].as.text;
        bool indented = i == 0 ? first : blank || line->len > 0;
        if ((i > 0 && !jinja_put_word(r, &b, "\n", false)) ||
            (indented && !jinja_put_text(r, &b, indent)) || !jinja_put_text(r, &b, line))
            return false;
    }
    return jinja_built(r, out, &b) && jinja_as_markup(r, out, out->as.text, t->markup);
}

static bool filter_truncate(CALL)
{
    const struct jinja_text *t, *end = NULL;
    size_t items;
    static const struct jinja_text dots = { .bytes = "...", .len = 3, .chars = 3 };
    int64_t length = 255, leeway = 5;
    struct jinja_value head = jinja_none();
    if (!in_text(r, &t, c) || !jinja_want_int(r, &length, c->bound[0]) ||
        !jinja_want_text(r, &end, c->bound[2]) ||
        (c->bound[3].kind != JINJA_NONE && !jinja_want_int(r, &leeway, c->bound[3])))
        return false;
    if (end == NULL)
        end = &dots;
    if (length < (int64_t)end->chars || leeway < 0)
        return jinja_fail(r, "AssertionError: expected length >= %zu, got %" PRId64, end->chars,
                          length);
    if (c->in.kind != JINJA_TEXT && !jinja_length(r, &items, c->in))
        return false;
    if (c->in.kind != JINJA_TEXT) {
        *out = c->in;
        return (int64_t)items - length <= leeway ||
               jinja_fail(r, "TypeError: can only truncate str, not %s", jinja_type(c->in));
    }
    if ((int64_t)t->chars <= length || (int64_t)t->chars - length <= leeway) {
        *out = jinja_of_text(t);
        return true;
    }
    size_t cut = jinja_offset(t, (size_t)length - end->chars);
    if (!jinja_is_true(c->bound[1])) {
        size_t blank;
        if (!jinja_search_last(r, &blank, t, (struct str){ " ", 1 }, 0, cut))
            return false;
        cut = blank == SIZE_MAX ? cut : blank;
    }
    return jinja_part(r, &head, t, 0, cut) &&
           jinja_arithmetic(r, out, JINJA_OP_ADD, head, jinja_of_text(end));
}

static bool filter_wordcount(CALL)
{
    const struct jinja_text *t;
    if (!in_text(r, &t, c))
        return false;
    int64_t words = 0;
    bool inside = false;
    size_t len;
    for (size_t at = 0; at < t->len; at += len) {
        bool word = jinja_is_word(jinja_char(t, at, &len));
        words += word && !inside;
        inside = word;
    }
    *out = jinja_int(words);
    return jinja_spend(r, t->len / 4);
}

static bool filter_format(CALL)
{
    if (c->args->count > 0 && c->args->named_count > 0)
        return jinja_fail(r, "FilterArgumentError: can't handle positional and keyword arguments "
                             "at the same time");
    const struct jinja_text *t;
    struct jinja_value values;
    if (!in_text(r, &t, c))
        return false;
    if (c->args->named_count > 0) {
        struct jinja_pair *pairs = jinja_take(r, c->args->named_count, sizeof *pairs);
        if (pairs == NULL)
            return false;
        memcpy(pairs, c->args->named, c->args->named_count * sizeof *pairs);
        if (!jinja_new_dict(r, &values, pairs, c->args->named_count, false))
            return false;
    } else {
        struct jinja_seq *s;
        if (!jinja_new_seq(r, &s, JINJA_TUPLE, c->args->count))
            return false;
        if (s->count > 0)
            memcpy(s->items, c->args->items, s->count * sizeof *s->items);
        values = jinja_of_seq(s);
    }
    return jinja_format_percent(r, out, t, values);
}

static bool put_quoted(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                       bool query)
{
    const struct jinja_text *t;
    if (!jinja_to_text(r, &t, v))
        return false;
    for (size_t i = 0; i < t->len; i++) {
        unsigned char byte = (unsigned char)t->bytes[i];
        static const char hex[] = "0123456789ABCDEF";
        char text[3] = { '%', hex[byte >> 4], hex[byte & 15] };
        bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                     (byte >= 'A' && byte <= 'Z') || (byte != 0 && strchr("_.-~", byte) != NULL) ||
                     (byte == '/' && !query);
        bool single = plain || (query && byte == ' ');
        if (single)
            text[0] = plain ? (char)byte : '+';
        if (!jinja_spend(r, 1) || !jinja_put(r, b, text, single ? 1 : 3, jinja_user_at(t, i)))
            return false;
    }
    return true;
}

static bool filter_urlencode(CALL)
{
    struct jinja_builder b = { 0 };
    struct jinja_seq *items;
    struct jinja_value v = c->in;
    if (v.kind == JINJA_TEXT || !jinja_is_iterable(v))
        return put_quoted(r, &b, v, false) && jinja_built(r, out, &b);
    if (v.kind == JINJA_DICT) {
        for (uint32_t i = 0; i < v.as.dict->count; i++)
            if ((i > 0 && !jinja_put_word(r, &b, "&", false)) ||
                !put_quoted(r, &b, v.as.dict->pairs[i].key, true) ||
                !jinja_put_word(r, &b, "=", false) ||
                !put_quoted(r, &b, v.as.dict->pairs[i].value, true))
                return false;
        return jinja_built(r, out, &b);
    }
    if (!jinja_iterate(r, &items, v))
        return false;
    for (size_t i = 0; i < items->count; i++) {
        struct jinja_seq *two;
        if (!jinja_iterate(r, &two, jinja_at(items, i)))
            return false;
        if (two->count != 2)
            return jinja_fail(r, "ValueError: expected pairs of values");
        if ((i > 0 && !jinja_put_word(r, &b, "&", false)) ||
            !put_quoted(r, &b, jinja_at(two, 0), true) || !jinja_put_word(r, &b, "=", false) ||
            !put_quoted(r, &b, jinja_at(two, 1), true))
            return false;
    }
    return jinja_built(r, out, &b);
}

static bool filter_xmlattr(CALL)
{
    struct jinja_builder b = { 0 };
    if (c->in.kind != JINJA_DICT)
        return jinja_fail(r, "TypeError: xmlattr needs a mapping, not %s", jinja_type(c->in));
    const struct jinja_dict *d = c->in.as.dict;
    bool blank = c->bound[0].kind == JINJA_MISSING || jinja_is_true(c->bound[0]);
    for (uint32_t i = 0; i < d->count; i++) {
        const struct jinja_text *key, *value;
        struct jinja_value v = d->pairs[i].value;
        if (v.kind == JINJA_NONE || v.kind == JINJA_UNDEFINED)
            continue;
        if (!jinja_to_text(r, &key, d->pairs[i].key) || !jinja_to_text(r, &value, v) ||
            !jinja_escape(r, &key, key) || !jinja_escape(r, &value, value))
            return false;
        for (size_t k = 0; k < key->len; k++)
            if (strchr(" \t\n\r\f\v/>=", key->bytes[k]) != NULL)
                return jinja_fail(r, "ValueError: Invalid character in attribute name");
        if (((blank || b.len > 0) && !jinja_put_word(r, &b, " ", false)) ||
            !jinja_put_text(r, &b, key) || !jinja_put_word(r, &b, "=\"", false) ||
            !jinja_put_text(r, &b, value) || !jinja_put_word(r, &b, "\"", false))
            return false;
    }
    return jinja_built(r, out, &b);
}

/* --- numbers --- */

static bool filter_abs(CALL)
{
    if (!jinja_is_number(c->in))
        return jinja_fail(r, "TypeError: bad operand type for abs(): '%s'", jinja_type(c->in));
    return jinja_sign(r, out, c->in,
                      c->in.kind == JINJA_FLOAT ? signbit(c->in.as.real) != 0
                                                : jinja_as_double(c->in) < 0);
}

/* A text as Python's float() reads it, underscores apart. */
static bool read_float(double *out, struct str s)
{
    s = str_trim(s);
    struct str bare = s;
    if (bare.len > 0 && (bare.text[0] == '-' || bare.text[0] == '+')) {
        bare.text++;
        bare.len--;
    }
    bool negative = s.len > 0 && s.text[0] == '-';
    static const char *const words[] = { "inf", "infinity", "nan" };
    for (size_t i = 0; i < 3; i++) {
        if (bare.len == strlen(words[i]) && strncasecmp(bare.text, words[i], bare.len) == 0) {
            double d = i < 2 ? (double)INFINITY : (double)NAN;
            *out = negative ? -d : d;
            return true;
        }
    }
    if (bare.len > 0 && (bare.text[0] == '-' || bare.text[0] == '+'))
        return false;
    if (!str_parse_f64(bare, -1.7e308, 1.7e308, out))
        return false;
    if (negative)
        *out = -*out;
    return true;
}

static bool read_integer(int64_t *out, struct str s, int64_t base)
{
    char text[72];
    s = str_trim(s);
    bool negative = s.len > 0 && s.text[0] == '-';
    if (s.len > 0 && (s.text[0] == '-' || s.text[0] == '+')) {
        s.text++;
        s.len--;
    }
    bool prefixed = s.len > 2 && s.text[0] == '0';
    char p = prefixed ? (char)(s.text[1] | 0x20) : '\0';
    if ((p == 'x' && base == 16) || (p == 'o' && base == 8) || (p == 'b' && base == 2)) {
        s.text += 2;
        s.len -= 2;
    }
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        bool digits = i > 0 && i + 1 < s.len && s.text[i - 1] != '_' && s.text[i + 1] != '_';
        if (s.text[i] == '_' && digits)
            continue;
        if (n == sizeof text - 1 || !((s.text[i] >= '0' && s.text[i] <= '9') ||
                                      ((s.text[i] | 0x20) >= 'a' && (s.text[i] | 0x20) <= 'z')))
            return false;
        text[n++] = s.text[i];
    }
    text[n] = '\0';
    char *end;
    unsigned long long magnitude = strtoull(text, &end, (int)base);
    if (n == 0 || *end != '\0' || magnitude > INT64_MAX)
        return false;
    *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

static bool filter_int(CALL)
{
    int64_t base = 10, i;
    double d;
    if (!jinja_want_int(r, &base, c->bound[1]))
        return false;
    if (c->in.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, c->in);
    bool number = c->in.kind == JINJA_FLOAT;
    if (number)
        d = c->in.as.real;
    if (jinja_as_int(&i, c->in)) {
        *out = jinja_int(i);
    } else if (c->in.kind == JINJA_TEXT && base >= 2 && base <= 36 &&
               read_integer(&i, jinja_str(c->in.as.text), base)) {
        *out = jinja_int(i);
    } else if ((number || (c->in.kind == JINJA_TEXT && read_float(&d, jinja_str(c->in.as.text)))) &&
               fabs(d) < 9.2e18) {
        *out = jinja_int((int64_t)d);
    } else {
        *out = c->bound[0].kind == JINJA_MISSING ? jinja_int(0) : c->bound[0];
    }
    return true;
}

static bool filter_float(CALL)
{
    double d;
    if (c->in.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, c->in);
    if (jinja_is_number(c->in))
        *out = jinja_float(jinja_as_double(c->in));
    else if (c->in.kind == JINJA_TEXT && read_float(&d, jinja_str(c->in.as.text)))
        *out = jinja_float(d);
    else
        *out = c->bound[0].kind == JINJA_MISSING ? jinja_float(0.0) : c->bound[0];
    return true;
}

/* round(d, precision): the decimal nearest to the exact value, as Python does it. */
static double round_decimal(double d, int64_t precision)
{
    char text[400];
    if (isnan(d) || isinf(d) || precision > 300)
        return d;
    if (precision < 0) {
        double unit = pow(10, (double)-precision);
        return isinf(unit) ? 0.0 : rint(d / unit) * unit;
    }
    if (precision > 22 && fabs(d) > 1e30)
        return d;
    int n = snprintf(text, sizeof text, "%.*f", (int)precision, d);
    return n < 0 || (size_t)n >= sizeof text ? d : strtod(text, NULL);
}

static bool filter_round(CALL)
{
    int64_t precision = 0, whole;
    const struct jinja_text *method = NULL;
    if (!jinja_want_int(r, &precision, c->bound[0]) || !jinja_want_text(r, &method, c->bound[1]))
        return false;
    struct str m = method == NULL ? str_of("common") : jinja_str(method);
    bool ceiling = str_equal(m, str_of("ceil")), floors = str_equal(m, str_of("floor"));
    if (!ceiling && !floors && !str_equal(m, str_of("common")))
        return jinja_fail(r, "FilterArgumentError: method must be common, ceil or floor");
    if (!jinja_is_number(c->in))
        return jinja_fail(r, "TypeError: type %s doesn't define __round__ method",
                          jinja_type(c->in));
    double d = jinja_as_double(c->in);
    if (ceiling || floors) {
        double unit = pow(10, (double)precision);
        *out = jinja_float((ceiling ? ceil(d * unit) : floor(d * unit)) / unit);
    } else if (jinja_as_int(&whole, c->in) && precision >= 0) {
        *out = jinja_int(whole);
    } else {
        if (!jinja_spend(r, 4 * JINJA_DECIMAL_STEPS)) /* to 300 digits and back */
            return false;
        d = round_decimal(d, precision);
        *out = c->in.kind == JINJA_FLOAT || fabs(d) > 9e18 ? jinja_float(d) : jinja_int((int64_t)d);
    }
    return true;
}

static bool filter_filesize(CALL)
{
    static const char prefixes[] = "kMGTPEZY";
    bool binary = jinja_is_true(c->bound[0]);
    double base = binary ? 1024 : 1000, unit = base, bytes;
    char text[400];
    if (!jinja_is_number(c->in) &&
        !(c->in.kind == JINJA_TEXT && read_float(&bytes, jinja_str(c->in.as.text))))
        return jinja_fail(r, "TypeError: filesizeformat needs a number, not %s", jinja_type(c->in));
    if (jinja_is_number(c->in))
        bytes = jinja_as_double(c->in);
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        size_t i = 0;
        for (; i < 7 && bytes >= unit * base; i++)
            unit *= base;
        char prefix = binary && i == 0 ? 'K' : prefixes[i];
        snprintf(text, sizeof text, "%.1f %c%sB", bytes / unit, prefix, binary ? "i" : "");
    }
    struct jinja_builder b = { 0 };
    return jinja_spend(r, 4 * JINJA_DECIMAL_STEPS) && jinja_put_word(r, &b, text, false) &&
           jinja_built(r, out, &b);
}

/* --- any value --- */

static bool filter_default(CALL)
{
    bool replace =
        c->in.kind == JINJA_UNDEFINED || (jinja_is_true(c->bound[1]) && !jinja_is_true(c->in));
    *out = replace ? c->bound[0] : c->in;
    if (out->kind == JINJA_MISSING)
        return jinja_text_of(r, out, (struct str){ "", 0 }, false);
    return true;
}

static bool filter_length(CALL)
{
    size_t length;
    if (!jinja_length(r, &length, c->in))
        return false;
    *out = jinja_int((int64_t)length);
    return true;
}

static bool filter_attr(CALL)
{
    const struct jinja_text *name;
    if (!jinja_to_text(r, &name, c->bound[0]))
        return false;
    return jinja_attribute(r, out, c->in, name);
}

static bool json_separators(struct jinja_run *r, struct jinja_json_style *style,
                            struct jinja_value v)
{
    style->item = str_of(style->pretty ? "," : ", ");
    style->member = str_of(": ");
    if (v.kind == JINJA_MISSING || v.kind == JINJA_NONE)
        return true;
    struct jinja_seq *two;
    const struct jinja_text *item = NULL, *member = NULL;
    if (!jinja_iterate(r, &two, v))
        return false;
    if (two->count != 2)
        return jinja_fail(r, "ValueError: separators must be two texts");
    if (!jinja_want_text(r, &item, jinja_at(two, 0)) ||
        !jinja_want_text(r, &member, jinja_at(two, 1)))
        return false;
    style->item = jinja_str(item);
    style->member = jinja_str(member);
    return true;
}

static bool filter_tojson(CALL)
{
    struct jinja_json_style style = { .ascii = jinja_is_true(c->bound[0]),
                                      .sort_keys = jinja_is_true(c->bound[3]) };
    const struct jinja_text *indent = NULL;
    struct jinja_builder b = { 0 };
    if (c->bound[1].kind != JINJA_MISSING && c->bound[1].kind != JINJA_NONE) {
        style.pretty = true;
        if (!indentation(r, &indent, c->bound[1]))
            return false;
        style.indent = jinja_str(indent);
    }
    return json_separators(r, &style, c->bound[2]) && jinja_put_json(r, &b, c->in, &style) &&
           jinja_built(r, out, &b);
}

/* --- the table --- */

static const struct jinja_filter filters[] = {
    { "tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson },
    { "length", "", 0, filter_length },
    { "count", "", 0, filter_length },
    { "trim", "chars", 0, filter_trim },
    { "string", "", 0, filter_string },
    { "default", "default_value boolean", 0, filter_default },
    { "d", "default_value boolean", 0, filter_default },
    { "safe", "", 0, filter_safe },
    { "escape", "", 0, filter_escape },
    { "e", "", 0, filter_escape },
    { "forceescape", "", 0, filter_escape },
    { "lower", "", 0, filter_case },
    { "upper", "", 0, filter_case },
    { "capitalize", "", 0, filter_case },
    { "title", "", 0, filter_title },
    { "replace", "old new count", 2, filter_replace },
    { "indent", "width first blank", 0, filter_indent },
    { "int", "default base", 0, filter_int },
    { "float", "default", 0, filter_float },
    { "abs", "", 0, filter_abs },
    { "round", "precision method", 0, filter_round },
    { "attr", "name", 1, filter_attr },
    { "center", "width", 0, filter_center },
    { "format", "*", 0, filter_format },
    { "truncate", "length killwords end leeway", 0, filter_truncate },
    { "wordcount", "", 0, filter_wordcount },
    { "urlencode", "", 0, filter_urlencode },
    { "xmlattr", "autospace", 0, filter_xmlattr },
    { "filesizeformat", "binary", 0, filter_filesize },
};

#define FILTER_COUNT (sizeof filters / sizeof filters[0])

int jinja_filter_id(struct str name)
{
    for (size_t i = 0; i < FILTER_COUNT; i++)
        if (str_equal(name, str_of(filters[i].name)))
            return (int)i;
    for (size_t i = 0; i < jinja_seq_filter_count; i++)
        if (str_equal(name, str_of(jinja_seq_filters[i].name)))
            return (int)(FILTER_COUNT + i);
    return JINJA_UNKNOWN;
}

bool jinja_filter_by_id(struct jinja_run *r, struct jinja_value *out, int id, struct jinja_value in,
                        const struct jinja_args *args)
{
    must(id >= 0 && (size_t)id < FILTER_COUNT + jinja_seq_filter_count);
    const struct jinja_filter *f =
        (size_t)id < FILTER_COUNT ? &filters[id] : &jinja_seq_filters[(size_t)id - FILTER_COUNT];
    struct jinja_filter_call c = { .in = in, .args = args, .name = f->name };
    if (f->parameters[0] != '*' &&
        !jinja_bind(r, c.bound, args, f->name, f->parameters, f->required))
        return false;
    if (r->native_depth == JINJA_NATIVE_DEPTH_MAX)
        return jinja_fail_limit(r, "filters inside filters over %u deep", JINJA_NATIVE_DEPTH_MAX);
    r->native_depth++;
    bool ok = f->call(r, out, &c);
    r->native_depth--;
    return ok;
}

bool jinja_filter(struct jinja_run *r, struct jinja_value *out, struct str name,
                  struct jinja_value in, const struct jinja_args *args)
{
    int id = jinja_filter_id(name);
    if (id == JINJA_UNKNOWN)
        return jinja_fail(r, "TemplateRuntimeError: No filter named '%.*s'.", (int)name.len,
                          name.text);
    return jinja_filter_by_id(r, out, id, in, args);
}
