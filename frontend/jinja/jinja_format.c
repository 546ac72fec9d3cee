/* SPDX-License-Identifier: MIT */
/* jinja_format - see jinja_format.h. Both ways end in one struct spec and one writer:
 *   text   [fill] text [fill]
 *   number [fill] sign prefix [zeros] digits [fill] */
#include "frontend/jinja/jinja_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_operators.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"

#define FORMAT_PRECISION_MAX 400
#define NUMBER_TEXT_MAX 900u /* 309 digits with separators, a point, the precision, a sign */

struct spec {
    uint32_t fill;
    char align; /* '<' '>' '^' '=', or 0: the type's own */
    char sign;  /* '-' '+' ' ' */
    bool alternate;
    char grouping; /* ',' '_' or 0 */
    size_t width;
    int precision; /* -1: none */
    char type;     /* 0: none */
    bool given;    /* there is any specification at all */
    bool markup;   /* the format is markup: what goes into it is escaped */
};

static const struct spec plain_spec = { .fill = ' ', .sign = '-', .precision = -1 };

/* --- writing --- */

static bool put_fill(struct jinja_run *r, struct jinja_builder *b, uint32_t code, size_t count)
{
    if (count > r->text_bytes_max)
        return jinja_fail_limit(r, "a text of over %zu bytes", r->text_bytes_max);
    for (size_t i = 0; i < count; i++)
        if (!jinja_put_code(r, b, code, false) || !jinja_spend(r, 1))
            return false;
    return true;
}

static bool put_padded_text(struct jinja_run *r, struct jinja_builder *b,
                            const struct jinja_text *t, const struct spec *s)
{
    if (s->markup && !jinja_escape(r, &t, t))
        return false;
    size_t end = t->len, chars = t->chars;
    if (s->precision >= 0 && (size_t)s->precision < chars) {
        chars = (size_t)s->precision;
        end = jinja_offset(t, chars);
    }
    size_t pad = s->width > chars ? s->width - chars : 0;
    size_t before = s->align == '>' ? pad : s->align == '^' ? pad / 2 : 0;
    return put_fill(r, b, s->fill, before) && jinja_put_part(r, b, t, 0, end) &&
           put_fill(r, b, s->fill, pad - before);
}

/* Separators between groups of digits of the whole part. */
static void group_digits(char *text, size_t cap, const struct spec *s)
{
    char copy[NUMBER_TEXT_MAX];
    size_t whole = strspn(text, "0123456789abcdefABCDEF"), len = strlen(text), n = 0;
    bool decimal = s->type != 'x' && s->type != 'X' && s->type != 'b' && s->type != 'o';
    if (decimal)
        whole = strspn(text, "0123456789");
    size_t group = decimal ? 3 : 4;
    must(len + whole / group + 1 <= cap);
    memcpy(copy, text, len + 1);
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && i < whole && (whole - i) % group == 0)
            text[n++] = s->grouping;
        text[n++] = copy[i];
    }
    text[n] = '\0';
}

static bool put_padded_number(struct jinja_run *r, struct jinja_builder *b, bool negative,
                              const char *prefix, char *digits, const struct spec *s)
{
    char head[4] = "";
    if (negative || s->sign != '-')
        snprintf(head, sizeof head, "%c", negative ? '-' : s->sign);
    snprintf(head + strlen(head), sizeof head - strlen(head), "%s", prefix);
    if (s->grouping != 0)
        group_digits(digits, NUMBER_TEXT_MAX, s);
    size_t used = strlen(head) + strlen(digits);
    size_t pad = s->width > used ? s->width - used : 0;
    char align = s->align == 0 ? '>' : s->align;
    size_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    size_t inside = align == '=' ? pad : 0;
    return put_fill(r, b, s->fill, before) && jinja_put_word(r, b, head, false) &&
           put_fill(r, b, s->fill, inside) && jinja_put_word(r, b, digits, false) &&
           put_fill(r, b, s->fill, pad - before - inside);
}

static void binary_digits(char *out, uint64_t magnitude)
{
    int top = 63;
    while (top > 0 && (magnitude >> top & 1) == 0)
        top--;
    for (; top >= 0; top--)
        *out++ = (char)('0' + (magnitude >> top & 1));
    *out = '\0';
}

static bool put_integer(struct jinja_run *r, struct jinja_builder *b, int64_t i,
                        const struct spec *s)
{
    char digits[NUMBER_TEXT_MAX];
    const char *prefix = "";
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    if (s->type == 'c')
        return jinja_put_code(r, b, magnitude > 0x10ffff ? UTF8_REPLACEMENT : (uint32_t)magnitude,
                              false);
    if (s->type == 'x')
        snprintf(digits, sizeof digits, "%" PRIx64, magnitude);
    else if (s->type == 'X')
        snprintf(digits, sizeof digits, "%" PRIX64, magnitude);
    else if (s->type == 'o')
        snprintf(digits, sizeof digits, "%" PRIo64, magnitude);
    else if (s->type == 'b')
        binary_digits(digits, magnitude);
    else
        snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    if (s->alternate)
        prefix = s->type == 'x'   ? "0x"
                 : s->type == 'X' ? "0X"
                 : s->type == 'o' ? "0o"
                 : s->type == 'b' ? "0b"
                                  : "";
    return put_padded_number(r, b, i < 0, prefix, digits, s);
}

static void float_digits(char *out, size_t cap, double d, const struct spec *s)
{
    int precision = s->precision < 0 ? 6 : s->precision;
    char type = s->type == '%' ? 'f' : s->type;
    if (s->type == '%')
        d *= 100;
    bool alternate = s->alternate;
    if (type == 'e')
        snprintf(out, cap, alternate ? "%#.*e" : "%.*e", precision, d);
    else if (type == 'E')
        snprintf(out, cap, alternate ? "%#.*E" : "%.*E", precision, d);
    else if (type == 'f')
        snprintf(out, cap, alternate ? "%#.*f" : "%.*f", precision, d);
    else if (type == 'F')
        snprintf(out, cap, alternate ? "%#.*F" : "%.*F", precision, d);
    else if (type == 'G')
        snprintf(out, cap, alternate ? "%#.*G" : "%.*G", precision, d);
    else
        snprintf(out, cap, alternate ? "%#.*g" : "%.*g", precision, d);
    if (s->type == '%')
        snprintf(out + strlen(out), cap - strlen(out), "%%");
}

/* No type letter: like g, but never a whole number without its ".0". */
static void float_plain(char *out, size_t cap, double d, const struct spec *s)
{
    if (s->precision < 0) {
        char text[JINJA_FLOAT_TEXT_MAX];
        jinja_float_text(text, d);
        snprintf(out, cap, "%s", text);
        return;
    }
    struct spec g = *s;
    g.type = 'g';
    if (g.precision == 0)
        g.precision = 1;
    float_digits(out, cap, d, &g);
    if (strpbrk(out, ".en") == NULL)
        snprintf(out + strlen(out), cap - strlen(out), ".0");
}

static bool put_float(struct jinja_run *r, struct jinja_builder *b, double d, const struct spec *s)
{
    char digits[NUMBER_TEXT_MAX];
    double magnitude = fabs(d);
    if (s->type == 0)
        float_plain(digits, sizeof digits, magnitude, s);
    else
        float_digits(digits, sizeof digits, magnitude, s);
    return jinja_spend(r, JINJA_DECIMAL_STEPS + strlen(digits)) &&
           put_padded_number(r, b, signbit(d) && !isnan(d), "", digits, s);
}

/* --- specifications of format() --- */

static bool is_align(uint32_t c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool read_number(size_t *out, const char **p, const char *end)
{
    *out = 0;
    bool any = false;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
        any = true;
        if (*out < (1u << 30))
            *out = *out * 10 + (size_t)(**p - '0');
    }
    return any;
}

static bool read_spec(struct jinja_run *r, struct spec *s, const struct jinja_text *t, size_t begin,
                      size_t stop)
{
    const char *p = t->bytes + begin, *end = t->bytes + stop;
    *s = plain_spec;
    s->given = begin < stop;
    s->markup = t->markup;
    size_t len = 1, number;
    uint32_t first = begin < stop ? jinja_char(t, begin, &len) : 0;
    if (begin + len < stop && is_align((unsigned char)p[len])) {
        s->fill = first;
        s->align = p[len];
        p += len + 1;
    } else if (is_align(first)) {
        s->align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' '))
        s->sign = *p++;
    if (p < end && *p == '#') {
        s->alternate = true;
        p++;
    }
    if (p < end && *p == '0') {
        if (s->align == 0) {
            s->align = '=';
            s->fill = '0';
        }
        p++;
    }
    read_number(&s->width, &p, end);
    if (p < end && (*p == ',' || *p == '_'))
        s->grouping = *p++;
    if (p < end && *p == '.') {
        p++;
        if (!read_number(&number, &p, end))
            return jinja_fail(r, "ValueError: Format specifier missing precision");
        if (number > FORMAT_PRECISION_MAX)
            return jinja_fail_limit(r, "a precision of over %d digits", FORMAT_PRECISION_MAX);
        s->precision = (int)number;
    }
    if (p < end)
        s->type = *p++;
    if (p < end)
        return jinja_fail(r, "ValueError: Invalid format specifier");
    return true;
}

static bool put_formatted(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                          const struct spec *s)
{
    int64_t i;
    const char *real = "eEfFgG%", *whole = "dbcoxXn";
    bool integer = jinja_as_int(&i, v) && (s->type == 0 || strchr(whole, s->type) != NULL);
    if (v.kind == JINJA_BOOL && !s->given)
        integer = false;
    if (s->given && !jinja_is_number(v) && v.kind != JINJA_TEXT)
        return jinja_fail(r, "TypeError: unsupported format string passed to %s.__format__",
                          jinja_type(v));
    if (integer && s->precision >= 0)
        return jinja_fail(r, "ValueError: Precision not allowed in integer format specifier");
    if (integer)
        return put_integer(r, b, i, s);
    if ((v.kind == JINJA_FLOAT && s->type == 0) ||
        (jinja_is_number(v) && s->type != 0 && strchr(real, s->type) != NULL))
        return put_float(r, b, jinja_as_double(v), s);
    if (s->type != 0 && (s->type != 's' || v.kind != JINJA_TEXT))
        return jinja_fail(r, "ValueError: Unknown format code '%c' for object of type '%s'",
                          s->type, jinja_type(v));
    const struct jinja_text *t;
    if (!jinja_to_text(r, &t, v))
        return false;
    return put_padded_text(r, b, t, s);
}

/* --- format() --- */

/* Fields are numbered by hand or not at all. */
struct numbering {
    size_t next;
    bool automatic, manual;
};

struct field {
    size_t name_begin, name_end, spec_begin, spec_end;
    char conversion; /* 'r' 's' 'a' or 0 */
};

static bool read_field(struct jinja_run *r, struct field *f, const struct jinja_text *t, size_t at,
                       size_t *next)
{
    const char *close = memchr(t->bytes + at, '}', t->len - at);
    if (close == NULL)
        return jinja_fail(r, "ValueError: expected '}' before end of string");
    size_t end = (size_t)(close - t->bytes);
    if (memchr(t->bytes + at, '{', end - at) != NULL)
        return jinja_fail(r, "ValueError: fields inside a field are not supported");
    *f = (struct field){ .name_begin = at, .name_end = end, .spec_begin = end, .spec_end = end };
    const char *colon = memchr(t->bytes + at, ':', end - at);
    if (colon != NULL) {
        f->name_end = (size_t)(colon - t->bytes);
        f->spec_begin = f->name_end + 1;
    }
    if (f->name_end >= at + 2 && t->bytes[f->name_end - 2] == '!') {
        f->conversion = t->bytes[f->name_end - 1];
        f->name_end -= 2;
    }
    *next = end + 1;
    return true;
}

/* The first part of a field's name: an argument by number, by name, or the next one. */
static bool field_argument(struct jinja_run *r, struct jinja_value *out,
                           const struct jinja_args *args, struct str name,
                           struct numbering *numbering)
{
    uint64_t index = numbering->next;
    if (name.len == 0) {
        numbering->next++;
        numbering->automatic = true;
    } else if (str_parse_u64(name, 0, UINT32_MAX, &index)) {
        numbering->manual = true;
    } else {
        for (size_t i = 0; i < args->named_count; i++) {
            if (str_equal(jinja_str(args->named[i].key.as.text), name)) {
                *out = args->named[i].value;
                return true;
            }
        }
        return jinja_fail(r, "KeyError: '%.*s'", (int)name.len, name.text);
    }
    if (numbering->manual && numbering->automatic)
        return jinja_fail(r, "ValueError: cannot switch from manual field specification to "
                             "automatic field numbering");
    if (index >= args->count)
        return jinja_fail(
            r, "IndexError: Replacement index %" PRIu64 " out of range for positional args tuple",
            index);
    *out = args->items[index];
    return true;
}

/* name.attribute[item].. */
static bool field_value(struct jinja_run *r, struct jinja_value *out, const struct jinja_args *args,
                        const struct jinja_text *t, const struct field *f,
                        struct numbering *numbering)
{
    size_t at = f->name_begin, end = f->name_end, stop = at;
    while (stop < end && t->bytes[stop] != '.' && t->bytes[stop] != '[')
        stop++;
    if (!field_argument(r, out, args, (struct str){ t->bytes + at, stop - at }, numbering))
        return false;
    for (at = stop; at < end; at = stop) {
        bool item = t->bytes[at] == '[';
        for (stop = ++at; stop < end; stop++)
            if (item ? t->bytes[stop] == ']' : t->bytes[stop] == '.' || t->bytes[stop] == '[')
                break;
        struct jinja_value name;
        uint64_t index;
        if (!jinja_part(r, &name, t, at, stop))
            return false;
        if (item && str_parse_u64(jinja_str(name.as.text), 0, INT64_MAX, &index))
            name = jinja_int((int64_t)index);
        if (!(item ? jinja_item(r, out, *out, name) : jinja_member(r, out, *out, name.as.text)))
            return false;
        stop += item && stop < end;
    }
    return true;
}

static bool put_field(struct jinja_run *r, struct jinja_builder *b, const struct jinja_args *args,
                      const struct jinja_text *t, const struct field *f,
                      struct numbering *numbering)
{
    struct jinja_value v;
    struct spec s;
    if (!field_value(r, &v, args, t, f, numbering) ||
        !read_spec(r, &s, t, f->spec_begin, f->spec_end))
        return false;
    if (f->conversion == 'r' || f->conversion == 'a') {
        struct jinja_builder repr = { 0 };
        if (!jinja_put_repr(r, &repr, v, f->conversion == 'a') || !jinja_built(r, &v, &repr))
            return false;
    } else if (f->conversion == 's') {
        const struct jinja_text *text;
        if (!jinja_to_text(r, &text, v))
            return false;
        v = jinja_of_text(text);
    } else if (f->conversion != 0) {
        return jinja_fail(r, "ValueError: Unknown conversion specifier %c", f->conversion);
    }
    return put_formatted(r, b, v, &s);
}

bool jinja_format_braces(struct jinja_run *r, struct jinja_value *out,
                         const struct jinja_text *format, const struct jinja_args *args)
{
    struct jinja_builder b = { 0 };
    struct numbering numbering = { 0 };
    size_t next;
    for (size_t at = 0; at < format->len; at = next) {
        for (next = at; next < format->len; next++)
            if (format->bytes[next] == '{' || format->bytes[next] == '}')
                break;
        if (!jinja_put_part(r, &b, format, at, next))
            return false;
        if (next == format->len)
            break;
        bool doubled = next + 1 < format->len && format->bytes[next + 1] == format->bytes[next];
        if (doubled) {
            if (!jinja_put_part(r, &b, format, next, next + 1))
                return false;
            next += 2;
            continue;
        }
        if (format->bytes[next] == '}')
            return jinja_fail(r, "ValueError: Single '}' encountered in format string");
        struct field f = { 0 };
        if (!read_field(r, &f, format, next + 1, &next) ||
            !put_field(r, &b, args, format, &f, &numbering))
            return false;
    }
    return jinja_built(r, out, &b) && jinja_as_markup(r, out, out->as.text, format->markup);
}

/* --- % --- */

/* Where the values of a % come from. */
struct source {
    struct jinja_value value; /* right of the operator */
    size_t next;              /* item of a tuple */
    bool named;               /* by %(name)s */
    bool markup;              /* the format is */
};

static bool is_tuple(struct jinja_value v)
{
    return v.kind == JINJA_SEQ && v.as.seq->flavour == JINJA_TUPLE;
}

static bool next_value(struct jinja_run *r, struct jinja_value *out, struct source *s)
{
    size_t count = is_tuple(s->value) ? s->value.as.seq->count : 1;
    if (s->next == count)
        return jinja_fail(r, "TypeError: not enough arguments for format string");
    *out = is_tuple(s->value) ? jinja_at(s->value.as.seq, s->next) : s->value;
    s->next++;
    return true;
}

static bool named_value(struct jinja_run *r, struct jinja_value *out, struct source *s,
                        struct str name)
{
    if (s->value.kind != JINJA_DICT)
        return jinja_fail(r, "TypeError: format requires a mapping");
    const struct jinja_pair *p = jinja_find_text(s->value.as.dict, name);
    if (p == NULL)
        return jinja_fail(r, "KeyError: '%.*s'", (int)name.len, name.text);
    s->named = true;
    *out = p->value;
    return jinja_spend(r, s->value.as.dict->count / 4);
}

static bool star_or_number(struct jinja_run *r, size_t *out, bool *negative, struct source *s,
                           const char **p, const char *end)
{
    *negative = false;
    if (*p == end || **p != '*') {
        read_number(out, p, end);
        return true;
    }
    ++*p;
    struct jinja_value v;
    int64_t i;
    if (!next_value(r, &v, s))
        return false;
    if (!jinja_as_int(&i, v))
        return jinja_fail(r, "TypeError: * wants int");
    *negative = i < 0;
    *out = (size_t)(i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
    return true;
}

/* Flags, width and precision behind a '%'; leaves *p at the type. */
static bool read_percent(struct jinja_run *r, struct spec *spec, struct source *s, const char **p,
                         const char *end)
{
    bool left = false, zero = false, negative;
    size_t number;
    *spec = plain_spec;
    for (; *p < end && strchr("-+ 0#", **p) != NULL && **p != '\0'; ++*p) {
        left |= **p == '-';
        zero |= **p == '0';
        spec->alternate |= **p == '#';
        if (**p == '+' || (**p == ' ' && spec->sign == '-'))
            spec->sign = **p;
    }
    if (!star_or_number(r, &spec->width, &negative, s, p, end))
        return false;
    left |= negative;
    if (*p < end && **p == '.') {
        ++*p;
        if (!star_or_number(r, &number, &negative, s, p, end))
            return false;
        if (number > FORMAT_PRECISION_MAX)
            return jinja_fail_limit(r, "a precision of over %d digits", FORMAT_PRECISION_MAX);
        spec->precision = negative ? 0 : (int)number;
    }
    while (*p < end && (**p == 'l' || **p == 'h' || **p == 'L'))
        ++*p;
    if (*p == end)
        return jinja_fail(r, "ValueError: incomplete format");
    spec->type = *(*p)++;
    spec->align = left ? '<' : zero && strchr("diuoxXeEfFgG", spec->type) != NULL ? '=' : '>';
    if (spec->align == '=')
        spec->fill = '0';
    return true;
}

static bool put_percent_number(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                               struct spec *spec)
{
    int64_t i;
    bool whole = strchr("diuoxX", spec->type) != NULL;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (!jinja_is_number(v))
        return jinja_fail(r, "TypeError: %%%c format: %s is required, not %s", spec->type,
                          strchr("oxX", spec->type) != NULL ? "an integer" : "a real number",
                          jinja_type(v));
    if (!whole)
        return put_float(r, b, jinja_as_double(v), spec);
    if (!jinja_as_int(&i, v)) {
        if (!(fabs(v.as.real) < 9e18) || strchr("oxX", spec->type) != NULL)
            return jinja_fail(r, "TypeError: %%%c format: an integer is required, not float",
                              spec->type);
        i = (int64_t)v.as.real;
    }
    return put_integer(r, b, i, spec);
}

static bool put_percent(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                        struct spec *spec)
{
    if (spec->type == 's' || spec->type == 'r' || spec->type == 'a') {
        struct jinja_builder text = { 0 };
        bool ok = spec->type == 's' ? jinja_put_str(r, &text, v)
                                    : jinja_put_repr(r, &text, v, spec->type == 'a');
        return ok && jinja_built(r, &v, &text) && put_padded_text(r, b, v.as.text, spec);
    }
    if (spec->type == 'c' && v.kind == JINJA_TEXT && v.as.text->chars == 1)
        return put_padded_text(r, b, v.as.text, spec);
    if (spec->type == 'c' && v.kind == JINJA_INT)
        return put_integer(r, b, v.as.integer, spec);
    if (strchr("diuoxXeEfFgG", spec->type) == NULL || spec->type == '\0')
        return jinja_fail(r, "ValueError: unsupported format character '%c'", spec->type);
    return put_percent_number(r, b, v, spec);
}

static bool put_conversion(struct jinja_run *r, struct jinja_builder *b, struct source *s,
                           const char **p, const char *end)
{
    struct str name = { NULL, 0 };
    if (*p < end && **p == '(') {
        const char *close = memchr(*p, ')', (size_t)(end - *p));
        if (close == NULL)
            return jinja_fail(r, "ValueError: incomplete format key");
        name = (struct str){ *p + 1, (size_t)(close - *p) - 1 };
        *p = close + 1;
    }
    struct spec spec;
    struct jinja_value v;
    if (!read_percent(r, &spec, s, p, end))
        return false;
    spec.markup = s->markup;
    if (spec.type == '%')
        return jinja_put_word(r, b, "%", false);
    if (!(name.text != NULL ? named_value(r, &v, s, name) : next_value(r, &v, s)))
        return false;
    return put_percent(r, b, v, &spec);
}

bool jinja_format_percent(struct jinja_run *r, struct jinja_value *out,
                          const struct jinja_text *format, struct jinja_value value)
{
    struct jinja_builder b = { 0 };
    struct source s = { .value = value, .markup = format->markup };
    const char *p = format->bytes, *end = p + format->len;
    while (p < end) {
        const char *percent = memchr(p, '%', (size_t)(end - p));
        const char *stop = percent == NULL ? end : percent;
        if (!jinja_put_part(r, &b, format, (size_t)(p - format->bytes),
                            (size_t)(stop - format->bytes)))
            return false;
        p = stop;
        if (percent == NULL)
            break;
        p++;
        if (!put_conversion(r, &b, &s, &p, end))
            return false;
    }
    bool unused = is_tuple(value) ? s.next < value.as.seq->count
                                  : s.next == 0 && value.kind != JINJA_DICT &&
                                        value.kind != JINJA_SEQ && value.kind != JINJA_UNDEFINED;
    if (unused && !s.named)
        return jinja_fail(r, "TypeError: not all arguments converted during string formatting");
    return jinja_built(r, out, &b) && jinja_as_markup(r, out, out->as.text, format->markup);
}
