/* SPDX-License-Identifier: MIT */
/* jinja_print - see jinja_print.h. Containers are written by one loop with a stack of its own:
 *   stack   [ {list, next item} {dict, next pair} ... ]   at most JINJA_NEST_MAX
 * Each turn either opens a container, writes a scalar, or closes the top. Everything that differs
 * between repr and JSON is in the small functions that the loop calls. */
#include "frontend/jinja/jinja_print.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_run.h"

#define DIGITS_MAX 17

/* Digits and exponent of d > 0 (0.d1d2d3.. x 10^point): the fewest that read back as d. */
static int shortest_digits(char digits[DIGITS_MAX + 1], int *point, double d)
{
    char text[40];
    /* 15 digits are always read back right, so that fewer are those 15 without zeros at the end;
     * not so for the smallest numbers, which have fewer bits. */
    for (int count = d < DBL_MIN ? 1 : 15;; count++) {
        snprintf(text, sizeof text, "%.*e", count - 1, d);
        if (count == DIGITS_MAX || strtod(text, NULL) == d)
            break;
    }
    int n = 0;
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p != '.')
            digits[n++] = *p;
    *point = (int)strtol(p + 1, NULL, 10) + 1;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return n;
}

void jinja_float_text(char out[JINJA_FLOAT_TEXT_MAX], double d)
{
    if (isnan(d) || isinf(d)) {
        snprintf(out, JINJA_FLOAT_TEXT_MAX, "%s", isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
        return;
    }
    char digits[DIGITS_MAX + 1] = "0", *o = out;
    int point = 1, n = 1;
    if (d != 0)
        n = shortest_digits(digits, &point, fabs(d));
    if (signbit(d))
        *o++ = '-';
    size_t left = JINJA_FLOAT_TEXT_MAX - (size_t)(o - out);
    if (point < -3 || point > 16) {
        snprintf(o, left, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                 point > 0 ? '+' : '-', abs(point - 1));
    } else if (point <= 0) {
        snprintf(o, left, "0.%.*s%s", -point, "0000", digits);
    } else if (n <= point) {
        snprintf(o, left, "%s%.*s.0", digits, point - n, "0000000000000000");
    } else {
        snprintf(o, left, "%.*s.%s", point, digits, digits + point);
    }
}

/* --- texts --- */

static bool put_hex_escape(struct jinja_run *r, struct jinja_builder *b, uint32_t code, bool user)
{
    char text[12];
    if (code <= 0xff)
        snprintf(text, sizeof text, "\\x%02" PRIx32, code);
    else if (code <= 0xffff)
        snprintf(text, sizeof text, "\\u%04" PRIx32, code);
    else
        snprintf(text, sizeof text, "\\U%08" PRIx32, code);
    return jinja_put_word(r, b, text, user);
}

static const char *repr_escape(uint32_t code, uint32_t quote)
{
    if (code == quote)
        return quote == '\'' ? "\\'" : "\\\"";
    return code == '\\'   ? "\\\\"
           : code == '\n' ? "\\n"
           : code == '\r' ? "\\r"
           : code == '\t' ? "\\t"
                          : NULL;
}

static bool put_text_repr(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                          bool ascii)
{
    bool single = memchr(t->bytes, '\'', t->len) != NULL;
    bool twice = memchr(t->bytes, '"', t->len) != NULL;
    uint32_t quote = single && !twice ? '"' : '\'';
    bool around = jinja_any_user(t);
    if (t->markup && !jinja_put_word(r, b, "Markup(", around))
        return false;
    if (!jinja_put_code(r, b, quote, around))
        return false;
    size_t len;
    for (size_t i = 0; i < t->len; i += len) {
        uint32_t code = jinja_char(t, i, &len);
        bool user = jinja_user_at(t, i), ok;
        const char *escape = repr_escape(code, quote);
        if (escape != NULL)
            ok = jinja_put_word(r, b, escape, user);
        else if (ascii ? code < 0x20 || code >= 0x7f : !jinja_is_printable(code))
            ok = put_hex_escape(r, b, code, user);
        else
            ok = jinja_put_part(r, b, t, i, i + len);
        if (!ok)
            return false;
    }
    return jinja_spend(r, t->len / 8) && jinja_put_code(r, b, quote, around) &&
           (!t->markup || jinja_put_word(r, b, ")", around));
}

static const char *json_escape(uint32_t code)
{
    switch (code) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\f':
        return "\\f";
    case '\b':
        return "\\b";
    default:
        return NULL;
    }
}

static bool put_json_code(struct jinja_run *r, struct jinja_builder *b, uint32_t code, bool user)
{
    char text[16];
    if (code <= 0xffff)
        snprintf(text, sizeof text, "\\u%04" PRIx32, code);
    else
        snprintf(text, sizeof text, "\\u%04" PRIx32 "\\u%04" PRIx32,
                 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    return jinja_put_word(r, b, text, user);
}

static bool put_json_text(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                          bool ascii)
{
    bool around = jinja_any_user(t);
    if (!jinja_put_word(r, b, "\"", around))
        return false;
    size_t len, plain = 0; /* bytes plain .. i go as they are */
    for (size_t i = 0; i < t->len; i += len) {
        uint32_t code = jinja_char(t, i, &len);
        const char *escape = json_escape(code);
        bool coded = escape == NULL && (code < 0x20 || (ascii && code >= 0x7f));
        if (escape == NULL && !coded)
            continue;
        bool user = jinja_user_at(t, i);
        if (!jinja_put_part(r, b, t, plain, i))
            return false;
        if (!(coded ? put_json_code(r, b, code, user) : jinja_put_word(r, b, escape, user)))
            return false;
        plain = i + len;
    }
    return jinja_spend(r, t->len / 8) && jinja_put_part(r, b, t, plain, t->len) &&
           jinja_put_word(r, b, "\"", around);
}

/* --- scalars --- */

/* str() of a float or a whole number. */
static bool number_text(struct jinja_run *r, char text[JINJA_FLOAT_TEXT_MAX], struct jinja_value v)
{
    if (v.kind != JINJA_FLOAT) {
        snprintf(text, JINJA_FLOAT_TEXT_MAX, "%" PRId64, v.as.integer);
        return true;
    }
    jinja_float_text(text, v.as.real);
    return jinja_spend(r, JINJA_DECIMAL_STEPS);
}

static bool put_number(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    char text[JINJA_FLOAT_TEXT_MAX];
    return number_text(r, text, v) && jinja_put_word(r, b, text, false);
}

static bool put_named(struct jinja_run *r, struct jinja_builder *b, const char *type,
                      const struct jinja_text *name)
{
    char open[48];
    snprintf(open, sizeof open, "<%s ", type);
    if (!jinja_put_word(r, b, open, false))
        return false;
    if (name == NULL)
        return jinja_put_word(r, b, "anonymous>", false);
    return put_text_repr(r, b, name, false) && jinja_put_word(r, b, ">", false);
}

static bool put_loop(struct jinja_run *r, struct jinja_builder *b, const struct jinja_loop *l)
{
    char text[80];
    snprintf(text, sizeof text, "<LoopContext %zu/%zu>", l->index0 + 1, l->items->count);
    return jinja_put_word(r, b, text, false);
}

static bool put_range(struct jinja_run *r, struct jinja_builder *b, const struct jinja_seq *s)
{
    char text[96];
    int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, s->start, s->stop);
    if (s->step != 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, s->step);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    return jinja_put_word(r, b, text, false);
}

/* repr of what holds no other values. */
static bool put_scalar(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                       bool ascii)
{
    switch ((int)v.kind) {
    case JINJA_UNDEFINED:
        return jinja_put_word(r, b, "Undefined", false);
    case JINJA_NONE:
        return jinja_put_word(r, b, "None", false);
    case JINJA_BOOL:
        return jinja_put_word(r, b, v.as.boolean ? "True" : "False", false);
    case JINJA_INT:
    case JINJA_FLOAT:
        return put_number(r, b, v);
    case JINJA_TEXT:
        return put_text_repr(r, b, v.as.text, ascii);
    case JINJA_MACRO:
        return put_named(r, b, "Macro",
                         v.as.macro->macro->name == JINJA_NAMELESS
                             ? NULL
                             : &r->j->names[v.as.macro->macro->name]);
    case JINJA_LOOP:
        return put_loop(r, b, v.as.loop);
    case JINJA_SEQ:
        if (v.as.seq->flavour == JINJA_RANGE)
            return put_range(r, b, v.as.seq);
        return jinja_put_word(r, b, "<generator object>", false);
    default:
        return put_named(r, b, jinja_type(v), NULL);
    }
}

/* --- containers, repr --- */

/* A container that is being written. */
struct level {
    struct jinja_value v;
    const struct jinja_pair *pairs; /* of a dict, in the order to write; NULL: a sequence */
    size_t count, next;
    bool user;
};

static bool enter(struct jinja_run *r, struct level *stack, size_t *depth, struct jinja_value v)
{
    if (*depth == JINJA_NEST_MAX)
        return jinja_fail_limit(r, "values nested over %u deep", JINJA_NEST_MAX);
    struct level l = { .v = v };
    if (v.kind == JINJA_SEQ) {
        l.count = v.as.seq->count;
        l.user = v.as.seq->user;
    } else if (v.kind == JINJA_DICT) {
        l.pairs = v.as.dict->pairs;
        l.count = v.as.dict->count;
        l.user = v.as.dict->user;
    } else {
        l.pairs = v.as.space->pairs;
        l.count = v.as.space->count;
    }
    stack[(*depth)++] = l;
    return true;
}

static bool is_container(struct jinja_value v)
{
    return v.kind == JINJA_DICT || v.kind == JINJA_SPACE ||
           (v.kind == JINJA_SEQ && v.as.seq->flavour != JINJA_RANGE &&
            v.as.seq->flavour != JINJA_GENERATOR);
}

static bool put_repr_open(struct jinja_run *r, struct jinja_builder *b, const struct level *l)
{
    static const char *const opens[] = { "[",           "(", "", "dict_keys([", "dict_values([",
                                         "dict_items([" };
    const char *open = l->v.kind == JINJA_SEQ     ? opens[l->v.as.seq->flavour]
                       : l->v.kind == JINJA_SPACE ? "<Namespace {"
                                                  : "{";
    return jinja_put_word(r, b, open, l->user);
}

static bool put_repr_close(struct jinja_run *r, struct jinja_builder *b, const struct level *l)
{
    static const char *const closes[] = { "]", ")", "", "])", "])", "])" };
    const char *close = l->v.kind == JINJA_SEQ     ? closes[l->v.as.seq->flavour]
                        : l->v.kind == JINJA_SPACE ? "}>"
                                                   : "}";
    if (l->v.kind == JINJA_SEQ && l->v.as.seq->flavour == JINJA_TUPLE && l->count == 1)
        close = ",)";
    return jinja_put_word(r, b, close, l->user);
}

/* The next value of a container, after its separator and key. */
static bool next_repr(struct jinja_run *r, struct jinja_builder *b, struct level *l,
                      struct jinja_value *out, bool ascii)
{
    if (l->next > 0 && !jinja_put_word(r, b, ", ", l->user))
        return false;
    if (l->pairs == NULL) {
        *out = jinja_at(l->v.as.seq, l->next++);
        return true;
    }
    const struct jinja_pair *p = &l->pairs[l->next++];
    *out = p->value;
    return put_scalar(r, b, p->key, ascii) && jinja_put_word(r, b, ": ", l->user);
}

bool jinja_put_repr(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v, bool ascii)
{
    if (!is_container(v))
        return put_scalar(r, b, v, ascii);
    struct level stack[JINJA_NEST_MAX];
    size_t depth = 0;
    if (!enter(r, stack, &depth, v) || !put_repr_open(r, b, &stack[0]))
        return false;
    while (depth > 0) {
        struct level *l = &stack[depth - 1];
        if (!jinja_spend(r, 1))
            return false;
        if (l->next == l->count) {
            if (!put_repr_close(r, b, l))
                return false;
            depth--;
            continue;
        }
        struct jinja_value item;
        if (!next_repr(r, b, l, &item, ascii))
            return false;
        if (!is_container(item)) {
            if (!put_scalar(r, b, item, ascii))
                return false;
        } else if (!enter(r, stack, &depth, item) || !put_repr_open(r, b, &stack[depth - 1])) {
            return false;
        }
    }
    return true;
}

bool jinja_put_str(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    if (v.kind == JINJA_TEXT)
        return jinja_put_text(r, b, v.as.text);
    if (v.kind == JINJA_UNDEFINED)
        return true;
    return jinja_put_repr(r, b, v, false);
}

bool jinja_to_text(struct jinja_run *r, const struct jinja_text **out, struct jinja_value v)
{
    if (v.kind != JINJA_TEXT) {
        struct jinja_builder b = { 0 };
        if (!jinja_put_str(r, &b, v) || !jinja_built(r, &v, &b))
            return false;
    }
    *out = v.as.text;
    return true;
}

/* --- JSON --- */

static bool put_newline(struct jinja_run *r, struct jinja_builder *b,
                        const struct jinja_json_style *style, size_t levels, bool user)
{
    if (!style->pretty)
        return true;
    if (!jinja_put_word(r, b, "\n", user))
        return false;
    for (size_t i = 0; i < levels; i++)
        if (!jinja_put(r, b, style->indent.text, style->indent.len, user))
            return false;
    return jinja_spend(r, levels);
}

static bool put_json_key(struct jinja_run *r, struct jinja_builder *b, struct jinja_value key,
                         const struct jinja_json_style *style, bool user)
{
    if (key.kind == JINJA_TEXT)
        return put_json_text(r, b, key.as.text, style->ascii);
    char number[JINJA_FLOAT_TEXT_MAX], text[JINJA_FLOAT_TEXT_MAX + 2];
    if (key.kind == JINJA_NONE)
        return jinja_put_word(r, b, "\"null\"", user);
    if (key.kind == JINJA_BOOL)
        return jinja_put_word(r, b, key.as.boolean ? "\"true\"" : "\"false\"", user);
    if (key.kind != JINJA_FLOAT && key.kind != JINJA_INT)
        return jinja_fail(r, "TypeError: keys must be str, int, float, bool or None, not %s",
                          jinja_type(key));
    if (!number_text(r, number, key))
        return false;
    snprintf(text, sizeof text, "\"%s\"", number);
    return jinja_put_word(r, b, text, user);
}

static bool put_json_scalar(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                            const struct jinja_json_style *style)
{
    switch ((int)v.kind) {
    case JINJA_NONE:
        return jinja_put_word(r, b, "null", false);
    case JINJA_BOOL:
        return jinja_put_word(r, b, v.as.boolean ? "true" : "false", false);
    case JINJA_FLOAT:
        if (isnan(v.as.real) || isinf(v.as.real))
            return jinja_put_word(r, b,
                                  isnan(v.as.real)  ? "NaN"
                                  : v.as.real > 0.0 ? "Infinity"
                                                    : "-Infinity",
                                  false);
        return put_number(r, b, v);
    case JINJA_INT:
        return put_number(r, b, v);
    case JINJA_TEXT:
        return put_json_text(r, b, v.as.text, style->ascii);
    default:
        return jinja_fail(r, "TypeError: Object of type %s is not JSON serializable",
                          jinja_type(v));
    }
}

static bool is_json_container(struct jinja_value v)
{
    return v.kind == JINJA_DICT || (v.kind == JINJA_SEQ && v.as.seq->flavour <= JINJA_TUPLE);
}

static bool put_json_open(struct jinja_run *r, struct jinja_builder *b, struct level *l,
                          const struct jinja_json_style *style)
{
    if (style->sort_keys && l->pairs != NULL && l->count > 1) {
        struct jinja_pair *sorted = jinja_take(r, l->count, sizeof *sorted);
        if (sorted == NULL)
            return false;
        memcpy(sorted, l->pairs, l->count * sizeof *sorted);
        if (!jinja_sort_pairs(r, sorted, l->count, false))
            return false;
        l->pairs = sorted;
    }
    return jinja_put_word(r, b, l->v.kind == JINJA_DICT ? "{" : "[", l->user);
}

/* Writes up to the next value. */
static bool next_json(struct jinja_run *r, struct jinja_builder *b, struct level *l, size_t depth,
                      struct jinja_value *out, const struct jinja_json_style *style)
{
    if (l->next > 0 && !jinja_put(r, b, style->item.text, style->item.len, l->user))
        return false;
    if (!put_newline(r, b, style, depth, l->user))
        return false;
    if (l->v.kind == JINJA_SEQ) {
        *out = jinja_at(l->v.as.seq, l->next++);
        return true;
    }
    const struct jinja_pair *p = &l->pairs[l->next++];
    *out = p->value;
    return put_json_key(r, b, p->key, style, l->user) &&
           jinja_put(r, b, style->member.text, style->member.len, l->user);
}

static bool put_json_close(struct jinja_run *r, struct jinja_builder *b, const struct level *l,
                           size_t depth, const struct jinja_json_style *style)
{
    if (l->count > 0 && !put_newline(r, b, style, depth, l->user))
        return false;
    return jinja_put_word(r, b, l->v.kind == JINJA_DICT ? "}" : "]", l->user);
}

bool jinja_put_json(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v,
                    const struct jinja_json_style *style)
{
    if (!is_json_container(v))
        return put_json_scalar(r, b, v, style);
    struct level stack[JINJA_NEST_MAX];
    size_t depth = 0;
    if (!enter(r, stack, &depth, v) || !put_json_open(r, b, &stack[0], style))
        return false;
    while (depth > 0) {
        struct level *l = &stack[depth - 1];
        if (!jinja_spend(r, 1))
            return false;
        if (l->next == l->count) {
            depth--;
            if (!put_json_close(r, b, l, depth, style))
                return false;
            continue;
        }
        struct jinja_value item;
        if (!next_json(r, b, l, depth, &item, style))
            return false;
        if (!is_json_container(item)) {
            if (!put_json_scalar(r, b, item, style))
                return false;
        } else if (!enter(r, stack, &depth, item) ||
                   !put_json_open(r, b, &stack[depth - 1], style)) {
            return false;
        }
    }
    return true;
}

/* --- HTML --- */

static const char *entity(char c)
{
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '\'' ? "&#39;"
           : c == '"'  ? "&#34;"
                       : NULL;
}

bool jinja_escape(struct jinja_run *r, const struct jinja_text **out, const struct jinja_text *t)
{
    *out = t;
    if (t->markup)
        return true;
    struct jinja_builder b = { 0 };
    size_t plain = 0;
    for (size_t i = 0; i < t->len; i++) {
        const char *e = entity(t->bytes[i]);
        if (e == NULL)
            continue;
        if (!jinja_put_part(r, &b, t, plain, i) || !jinja_put_word(r, &b, e, jinja_user_at(t, i)))
            return false;
        plain = i + 1;
    }
    struct jinja_value v;
    if (!jinja_put_part(r, &b, t, plain, t->len) || !jinja_built(r, &v, &b) ||
        !jinja_as_markup(r, &v, v.as.text, true))
        return false;
    *out = v.as.text;
    return true;
}
