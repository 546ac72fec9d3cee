/* SPDX-License-Identifier: MIT */
/* jinja_operators - see jinja_operators.h. The order of the attempts is Python's: numbers, then
 * texts, then sequences; what is left is a TypeError in CPython's words. */
#include "frontend/jinja/jinja_operators.h"

#include <math.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_format.h"
#include "frontend/jinja/jinja_methods.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"

static const char *symbol(enum jinja_opcode code)
{
    static const char *const symbols[] = { "+", "-", "*", "/", "//", "%", "** or pow()" };
    must(code >= JINJA_OP_ADD && code <= JINJA_OP_POW);
    return symbols[code - JINJA_OP_ADD];
}

static bool fail_operands(struct jinja_run *r, enum jinja_opcode code, struct jinja_value a,
                          struct jinja_value b)
{
    if (code == JINJA_OP_ADD && a.kind == JINJA_TEXT)
        return jinja_fail(r, "TypeError: can only concatenate str (not \"%s\") to str",
                          jinja_type(b));
    if (code == JINJA_OP_ADD && a.kind == JINJA_SEQ && a.as.seq->flavour <= JINJA_TUPLE)
        return jinja_fail(r, "TypeError: can only concatenate %s (not \"%s\") to %s", jinja_type(a),
                          jinja_type(b), jinja_type(a));
    return jinja_fail(r, "TypeError: unsupported operand type(s) for %s: '%s' and '%s'",
                      symbol(code), jinja_type(a), jinja_type(b));
}

/* --- numbers --- */

static bool integer_power(struct jinja_run *r, int64_t *out, int64_t base, int64_t exponent)
{
    *out = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(*out, base, out))
            return jinja_fail(r, "OverflowError: a whole number of over 64 bits");
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return jinja_fail(r, "OverflowError: a whole number of over 64 bits");
    }
    return true;
}

/* Quotient and remainder towards minus infinity; b is not 0, nor a / b too large. */
static int64_t floor_divide(int64_t a, int64_t b, int64_t *rest)
{
    int64_t q = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        q--;
        *rest += b;
    }
    return q;
}

static bool integers(struct jinja_run *r, struct jinja_value *out, enum jinja_opcode code,
                     int64_t a, int64_t b)
{
    int64_t n = 0, rest = 0;
    bool over = false;
    if (code == JINJA_OP_ADD) {
        over = __builtin_add_overflow(a, b, &n);
    } else if (code == JINJA_OP_SUB) {
        over = __builtin_sub_overflow(a, b, &n);
    } else if (code == JINJA_OP_MUL) {
        over = __builtin_mul_overflow(a, b, &n);
    } else if (code == JINJA_OP_POW) {
        if (!integer_power(r, &n, a, b))
            return false;
    } else {
        if (b == 0)
            return jinja_fail(r, "ZeroDivisionError: integer %s by zero",
                              code == JINJA_OP_MOD ? "modulo" : "division or modulo");
        over = a == INT64_MIN && b == -1;
        if (!over) {
            int64_t q = floor_divide(a, b, &rest);
            n = code == JINJA_OP_MOD ? rest : q;
        }
    }
    if (over)
        return jinja_fail(r, "OverflowError: a whole number of over 64 bits");
    *out = jinja_int(n);
    return true;
}

static double float_modulo(double a, double b)
{
    double m = fmod(a, b);
    if (m != 0 && (m < 0) != (b < 0))
        m += b;
    return m == 0 ? copysign(0.0, b) : m;
}

static double float_floor(double a, double b)
{
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0))
        q -= 1.0;
    double f = floor(q);
    return q - f > 0.5 ? f + 1.0 : f;
}

static bool floats(struct jinja_run *r, struct jinja_value *out, enum jinja_opcode code, double a,
                   double b)
{
    bool divides = code == JINJA_OP_DIV || code == JINJA_OP_FLOORDIV || code == JINJA_OP_MOD;
    if (divides && b == 0)
        return jinja_fail(r, "ZeroDivisionError: %s",
                          code == JINJA_OP_DIV ? "division by zero"
                                               : "float floor division by zero");
    if (code == JINJA_OP_POW && a == 0 && b < 0)
        return jinja_fail(r, "ZeroDivisionError: 0.0 cannot be raised to a negative power");
    if (code == JINJA_OP_POW && a < 0 && b != floor(b))
        return jinja_fail(r, "TypeError: complex numbers are not supported");
    double d = code == JINJA_OP_ADD        ? a + b
               : code == JINJA_OP_SUB      ? a - b
               : code == JINJA_OP_MUL      ? a * b
               : code == JINJA_OP_DIV      ? a / b
               : code == JINJA_OP_MOD      ? float_modulo(a, b)
               : code == JINJA_OP_FLOORDIV ? float_floor(a, b)
                                           : pow(a, b);
    if (code == JINJA_OP_POW && isinf(d) && !isinf(a) && !isinf(b))
        return jinja_fail(r, "OverflowError: (34, 'Numerical result out of range')");
    *out = jinja_float(d);
    return true;
}

static bool numbers(struct jinja_run *r, struct jinja_value *out, enum jinja_opcode code,
                    struct jinja_value a, struct jinja_value b)
{
    int64_t i, k;
    bool whole = jinja_as_int(&i, a) && jinja_as_int(&k, b);
    if (whole && code != JINJA_OP_DIV && !(code == JINJA_OP_POW && k < 0))
        return integers(r, out, code, i, k);
    return floats(r, out, code, jinja_as_double(a), jinja_as_double(b));
}

bool jinja_sign(struct jinja_run *r, struct jinja_value *out, struct jinja_value v, bool negative)
{
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (!jinja_is_number(v))
        return jinja_fail(r, "TypeError: bad operand type for unary %c: '%s'", negative ? '-' : '+',
                          jinja_type(v));
    int64_t i;
    if (!jinja_as_int(&i, v)) {
        *out = jinja_float(negative ? -v.as.real : v.as.real);
        return true;
    }
    return integers(r, out, negative ? JINJA_OP_SUB : JINJA_OP_ADD, 0, i);
}

/* --- texts and sequences --- */

/* Joining. Templates build long texts piece by piece (ns.out = ns.out ~ x). So that this does not
 * copy all of it each time, what joins texts keeps its builder with the result:
 *   x    = [a b c]          tail [a b c .......]     x ends where the tail does:
 *   x ~ d = [a b c d]       tail [a b c d .....]     d goes behind it: no text shows those bytes
 * A text that is joined a second time does not end there any more and is copied. */
static bool open_tail(struct jinja_run *r, struct jinja_builder **out, size_t *chars,
                      struct jinja_value first)
{
    const struct jinja_text *t = first.kind == JINJA_TEXT ? first.as.text : NULL;
    *chars = 0;
    if (t != NULL && t->tail != NULL && t->bytes == t->tail->bytes && t->len == t->tail->len) {
        *out = t->tail;
        *chars = t->chars;
        return true;
    }
    *out = jinja_take(r, 1, sizeof **out);
    if (*out == NULL)
        return false;
    **out = (struct jinja_builder){ 0 };
    return true;
}

bool jinja_concat(struct jinja_run *r, struct jinja_value *out, const struct jinja_value *values,
                  size_t count)
{
    struct jinja_builder *tail;
    size_t chars;
    must(count > 0);
    if (!open_tail(r, &tail, &chars, values[0]))
        return false;
    size_t known = tail->len;
    for (size_t i = known > 0; i < count; i++)
        if (!jinja_put_str(r, tail, values[i]))
            return false;
    struct jinja_text *t = jinja_take(r, 1, sizeof *t);
    if (t == NULL)
        return false;
    *t = (struct jinja_text){ .bytes = tail->bytes == NULL ? "" : tail->bytes,
                              .marks = tail->marks,
                              .len = tail->len,
                              .tail = tail,
                              .user = tail->user };
    t->chars = chars + jinja_count_chars(t->bytes + known, t->len - known);
    *out = jinja_of_text(t);
    return true;
}

static bool join_texts(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *a,
                       const struct jinja_text *b)
{
    bool markup = a->markup || b->markup;
    if (markup && (!jinja_escape(r, &a, a) || !jinja_escape(r, &b, b)))
        return false;
    struct jinja_value both[2] = { jinja_of_text(a), jinja_of_text(b) };
    return jinja_concat(r, out, both, 2) && jinja_as_markup(r, out, out->as.text, markup);
}

static bool join_seqs(struct jinja_run *r, struct jinja_value *out, const struct jinja_seq *a,
                      const struct jinja_seq *b)
{
    struct jinja_seq *s;
    if (!jinja_new_seq(r, &s, a->flavour, a->count + b->count))
        return false;
    s->user = a->user || b->user;
    for (size_t i = 0; i < s->count; i++)
        s->items[i] = i < a->count ? jinja_at(a, i) : jinja_at(b, i - a->count);
    *out = jinja_of_seq(s);
    return jinja_spend(r, s->count);
}

static bool repeat(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                   int64_t times)
{
    size_t count = times < 0 ? 0 : (size_t)times;
    if (v.kind == JINJA_TEXT) {
        struct jinja_builder b = { 0 };
        return jinja_put_times(r, &b, v.as.text, count) && jinja_built(r, out, &b) &&
               jinja_as_markup(r, out, out->as.text, v.as.text->markup);
    }
    const struct jinja_seq *a = v.as.seq;
    size_t total;
    if (__builtin_mul_overflow(a->count, count, &total))
        return jinja_fail_limit(r, "a %s of over 2^64 items", jinja_type(v));
    struct jinja_seq *s;
    if (!jinja_spend(r, total) || !jinja_new_seq(r, &s, a->flavour, total))
        return false;
    s->user = a->user;
    for (size_t i = 0; i < total; i++)
        s->items[i] = jinja_at(a, i % a->count);
    *out = jinja_of_seq(s);
    return true;
}

static bool is_list(struct jinja_value v)
{
    return v.kind == JINJA_SEQ && v.as.seq->flavour <= JINJA_TUPLE;
}

bool jinja_arithmetic(struct jinja_run *r, struct jinja_value *out, enum jinja_opcode code,
                      struct jinja_value a, struct jinja_value b)
{
    int64_t times;
    if (code == JINJA_OP_MOD && a.kind == JINJA_TEXT)
        return jinja_format_percent(r, out, a.as.text, b);
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, a.kind == JINJA_UNDEFINED ? a : b);
    if (jinja_is_number(a) && jinja_is_number(b))
        return numbers(r, out, code, a, b);
    if (code == JINJA_OP_ADD && a.kind == JINJA_TEXT && b.kind == JINJA_TEXT)
        return join_texts(r, out, a.as.text, b.as.text);
    if (code == JINJA_OP_ADD && is_list(a) && is_list(b) && a.as.seq->flavour == b.as.seq->flavour)
        return join_seqs(r, out, a.as.seq, b.as.seq);
    if (code == JINJA_OP_MUL && (a.kind == JINJA_TEXT || is_list(a)) && jinja_as_int(&times, b))
        return repeat(r, out, a, times);
    if (code == JINJA_OP_MUL && (b.kind == JINJA_TEXT || is_list(b)) && jinja_as_int(&times, a))
        return repeat(r, out, b, times);
    return fail_operands(r, code, a, b);
}

bool jinja_compare(struct jinja_run *r, bool *out, enum jinja_comparison how, struct jinja_value a,
                   struct jinja_value b)
{
    static const char *const symbols[] = { "==", "!=", "<", "<=", ">", ">=" };
    if (how == JINJA_IN || how == JINJA_NOT_IN) {
        if (!jinja_contains(r, out, b, a))
            return false;
        *out = *out == (how == JINJA_IN);
        return true;
    }
    if (how == JINJA_EQ || how == JINJA_NE) {
        if (!jinja_equal(r, out, a, b))
            return false;
        *out = *out == (how == JINJA_EQ);
        return true;
    }
    int order;
    if (!jinja_order(r, &order, a, b, symbols[how]))
        return false;
    *out = order != 2 && (how == JINJA_LT   ? order < 0
                          : how == JINJA_LE ? order <= 0
                          : how == JINJA_GT ? order > 0
                                            : order >= 0);
    return true;
}

/* --- members, items, slices --- */

static bool undefined_member(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                             struct jinja_value name)
{
    return jinja_new_undefined(r, out, NULL, jinja_owner(v), name);
}

static bool unsafe_member(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                          const struct jinja_text *name)
{
    struct jinja_undefined *u = jinja_take(r, 1, sizeof *u);
    if (u == NULL)
        return false;
    *u = (struct jinja_undefined){ .unsafe = true,
                                   .owner = jinja_type(v),
                                   .name = jinja_of_text(name) };
    *out = (struct jinja_value){ .kind = JINJA_UNDEFINED, .as.undefined = u };
    return true;
}

/* The attribute or method of a value; *found false when it has none of that name. */
static bool attribute(struct jinja_run *r, struct jinja_value *out, bool *found,
                      struct jinja_value v, const struct jinja_text *name)
{
    struct str s = jinja_str(name);
    *found = true;
    if (v.kind == JINJA_SPACE) {
        const struct jinja_value *set = jinja_space_get(v.as.space, s);
        *found = set != NULL;
        if (*found)
            *out = *set;
        return jinja_spend(r, v.as.space->count);
    }
    if (str_starts(s, str_of("__")) && str_ends(s, str_of("__")) && s.len > 4)
        return unsafe_member(r, out, v, name);
    switch (jinja_find_attribute(r, out, v, s)) {
    case JINJA_ATTRIBUTE_FOUND:
        return true;
    case JINJA_ATTRIBUTE_UNSAFE:
        return unsafe_member(r, out, v, name);
    case JINJA_ATTRIBUTE_FAILED:
        return false;
    case JINJA_ATTRIBUTE_NONE:
        break;
    }
    *found = false;
    return true;
}

/* v[key]; *found false when there is no such item or v has no items. */
static bool subscript(struct jinja_run *r, struct jinja_value *out, bool *found,
                      struct jinja_value v, struct jinja_value key)
{
    int64_t i;
    *found = false;
    if (v.kind == JINJA_DICT) {
        const struct jinja_pair *pair = NULL;
        if (key.kind == JINJA_SEQ || key.kind == JINJA_DICT)
            return true;
        if (!jinja_find(r, &pair, v.as.dict, key))
            return false;
        *found = pair != NULL;
        if (*found)
            *out = pair->value;
        return true;
    }
    if (!jinja_as_int(&i, key))
        return true;
    bool has_items = v.kind == JINJA_SEQ && v.as.seq->flavour <= JINJA_RANGE;
    if (v.kind != JINJA_TEXT && !has_items)
        return true;
    int64_t count = (int64_t)(has_items ? v.as.seq->count : v.as.text->chars);
    i += i < 0 ? count : 0;
    *found = i >= 0 && i < count;
    if (!*found)
        return true;
    if (has_items) {
        *out = jinja_at(v.as.seq, (size_t)i);
        return true;
    }
    const struct jinja_text *t = v.as.text;
    size_t len, at = jinja_offset(t, (size_t)i);
    (void)jinja_char(t, at, &len);
    return jinja_spend(r, t->chars == t->len ? 0 : t->len / 16) &&
           jinja_part(r, out, t, at, at + len);
}

bool jinja_member(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                  const struct jinja_text *name)
{
    bool found;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (!attribute(r, out, &found, v, name) || found)
        return r->rc == RC_OK;
    if (!subscript(r, out, &found, v, jinja_of_text(name)) || found)
        return r->rc == RC_OK;
    return undefined_member(r, out, v, jinja_of_text(name));
}

bool jinja_attribute(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                     const struct jinja_text *name)
{
    bool found;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (!attribute(r, out, &found, v, name) || found)
        return r->rc == RC_OK;
    return undefined_member(r, out, v, jinja_of_text(name));
}

bool jinja_item(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                struct jinja_value key)
{
    bool found;
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (!subscript(r, out, &found, v, key) || found)
        return r->rc == RC_OK;
    if (key.kind == JINJA_TEXT && (!attribute(r, out, &found, v, key.as.text) || found))
        return r->rc == RC_OK;
    return undefined_member(r, out, v, key);
}

/* Python's rules for the bounds of a slice: start and stop in *begin, *end. */
static void clip_bounds(int64_t *begin, int64_t *end, const struct jinja_value bounds[3],
                        int64_t step, int64_t count)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    int64_t *to[2] = { begin, end };
    for (int k = 0; k < 2; k++) {
        int64_t i;
        if (!jinja_as_int(&i, bounds[k])) {
            *to[k] = (k == 0) == (step > 0) ? low : high;
            continue;
        }
        if (i < 0)
            i = i < -count ? low : i + count;
        *to[k] = i < low ? low : i > high ? high : i;
    }
}

static bool slice_text(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                       int64_t begin, int64_t step, size_t count)
{
    if (step == 1 || count == 0) {
        size_t from = jinja_offset(t, (size_t)begin);
        size_t to = jinja_offset(t, (size_t)begin + count);
        return jinja_spend(r, t->chars == t->len ? 0 : t->len / 16) &&
               jinja_part(r, out, t, from, count == 0 ? from : to);
    }
    struct jinja_builder b = { 0 };
    size_t at = jinja_offset(t, (size_t)begin);
    for (size_t i = 0; i < count; i++) {
        size_t len;
        (void)jinja_char(t, at, &len);
        if (!jinja_put_part(r, &b, t, at, at + len) ||
            !jinja_spend(r, (uint64_t)(step < 0 ? -step : step)))
            return false;
        at = i + 1 < count ? jinja_walk(t, at, step) : at;
    }
    return jinja_built(r, out, &b) && jinja_as_markup(r, out, out->as.text, t->markup);
}

static bool slice_seq(struct jinja_run *r, struct jinja_value *out, const struct jinja_seq *s,
                      int64_t begin, int64_t end, int64_t step, size_t count)
{
    struct jinja_seq *part;
    if (s->items == NULL) {
        part = jinja_take(r, 1, sizeof *part);
        if (part == NULL)
            return false;
        *part = (struct jinja_seq){ .flavour = JINJA_RANGE, .count = count };
        part->start = s->start + begin * s->step;
        part->step = s->step * step;
        part->stop = s->start + end * s->step;
        *out = jinja_of_seq(part);
        return true;
    }
    if (!jinja_spend(r, count / 4) || !jinja_new_seq(r, &part, s->flavour, count))
        return false;
    part->user = s->user;
    for (size_t i = 0; i < count; i++)
        part->items[i] = s->items[begin + (int64_t)i * step];
    *out = jinja_of_seq(part);
    return true;
}

bool jinja_slice(struct jinja_run *r, struct jinja_value *out, struct jinja_value v,
                 const struct jinja_value bounds[3])
{
    if (v.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, v);
    bool is_seq = v.kind == JINJA_SEQ && v.as.seq->flavour <= JINJA_RANGE;
    if (v.kind == JINJA_DICT)
        return jinja_fail(r, "TypeError: unhashable type: 'slice'");
    if (v.kind != JINJA_TEXT && !is_seq)
        return jinja_fail(r, "TypeError: '%s' object is not subscriptable", jinja_type(v));
    int64_t step = 1, begin, end, ignored;
    for (int k = 0; k < 3; k++)
        if (bounds[k].kind != JINJA_NONE && !jinja_as_int(&ignored, bounds[k]))
            return jinja_fail(r, "TypeError: slice indices must be integers or None or have an "
                                 "__index__ method");
    if (jinja_as_int(&step, bounds[2]) && step == 0)
        return jinja_fail(r, "ValueError: slice step cannot be zero");
    int64_t length = (int64_t)(is_seq ? v.as.seq->count : v.as.text->chars);
    if (step > length + 1)
        step = length + 1; /* the same items, and no overflow */
    if (step < -length - 1)
        step = -length - 1;
    clip_bounds(&begin, &end, bounds, step, length);
    size_t count = 0;
    if (step > 0 && begin < end)
        count = (size_t)((end - begin - 1) / step + 1);
    else if (step < 0 && begin > end)
        count = (size_t)((begin - end - 1) / -step + 1);
    if (count == 0 && !is_seq)
        begin = 0;
    return is_seq ? slice_seq(r, out, v.as.seq, begin, end, step, count)
                  : slice_text(r, out, v.as.text, begin, step, count);
}
