/* SPDX-License-Identifier: MIT */
/* jinja_tests - what stands behind "is", declared in jinja_filters.h. */
#include "frontend/jinja/jinja_filters.h"

#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_operators.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"
#include "frontend/jinja/jinja_strings.h"

#define TEST struct jinja_run *r, bool *out, struct jinja_value v, struct jinja_value x

typedef bool test_fn(TEST);

#define SIMPLE(name, condition)                                                                    \
    static bool name(TEST)                                                                         \
    {                                                                                              \
        (void)x;                                                                                   \
        *out = (condition);                                                                        \
        return r->rc == RC_OK;                                                                     \
    }

SIMPLE(test_defined, v.kind != JINJA_UNDEFINED)
SIMPLE(test_undefined, v.kind == JINJA_UNDEFINED)
SIMPLE(test_none, v.kind == JINJA_NONE)
SIMPLE(test_boolean, v.kind == JINJA_BOOL)
SIMPLE(test_true, v.kind == JINJA_BOOL && v.as.boolean)
SIMPLE(test_false, v.kind == JINJA_BOOL && !v.as.boolean)
SIMPLE(test_integer, v.kind == JINJA_INT)
SIMPLE(test_float, v.kind == JINJA_FLOAT)
SIMPLE(test_number, jinja_is_number(v))
SIMPLE(test_string, v.kind == JINJA_TEXT)
SIMPLE(test_mapping, v.kind == JINJA_DICT)
SIMPLE(test_iterable, jinja_is_iterable(v) || v.kind == JINJA_LOOP)
SIMPLE(test_escaped, v.kind == JINJA_TEXT && v.as.text->markup)
SIMPLE(test_callable, v.kind == JINJA_MACRO || v.kind == JINJA_FUNCTION || v.kind == JINJA_METHOD ||
                          v.kind == JINJA_JOINER || v.kind == JINJA_LOOP ||
                          v.kind == JINJA_UNDEFINED)
SIMPLE(test_sequence, v.kind == JINJA_TEXT || v.kind == JINJA_DICT ||
                          (v.kind == JINJA_SEQ && v.as.seq->flavour <= JINJA_RANGE) ||
                          v.kind == JINJA_UNDEFINED)

static bool test_remainder(struct jinja_run *r, bool *out, struct jinja_value v,
                           struct jinja_value by, int64_t wanted)
{
    struct jinja_value rest;
    if (!jinja_arithmetic(r, &rest, JINJA_OP_MOD, v, by))
        return false;
    return jinja_equal(r, out, rest, jinja_int(wanted));
}

static bool test_odd(TEST)
{
    (void)x;
    return test_remainder(r, out, v, jinja_int(2), 1);
}

static bool test_even(TEST)
{
    (void)x;
    return test_remainder(r, out, v, jinja_int(2), 0);
}

static bool test_divisible(TEST)
{
    return test_remainder(r, out, v, x, 0);
}

static bool test_case(struct jinja_run *r, bool *out, struct jinja_value v, const char *kind)
{
    const struct jinja_text *t;
    if (!jinja_to_text(r, &t, v))
        return false;
    *out = jinja_text_kind(t, kind);
    return jinja_spend(r, t->len / 4);
}

static bool test_lower(TEST)
{
    (void)x;
    return test_case(r, out, v, "lower");
}

static bool test_upper(TEST)
{
    (void)x;
    return test_case(r, out, v, "upper");
}

/* Python's "is": equal and of one type for what has no identity, the same object for the rest. */
static bool test_sameas(TEST)
{
    if (v.kind != x.kind || v.kind == JINJA_FLOAT) {
        *out = false;
        return true;
    }
    if (v.kind == JINJA_SEQ || v.kind == JINJA_DICT) {
        *out = v.kind == JINJA_SEQ ? v.as.seq == x.as.seq : v.as.dict == x.as.dict;
        return true;
    }
    return jinja_equal(r, out, v, x);
}

static bool test_in(TEST)
{
    return jinja_contains(r, out, x, v);
}

static bool test_filter(TEST)
{
    (void)x;
    *out = v.kind == JINJA_TEXT && jinja_filter_id(jinja_str(v.as.text)) != JINJA_UNKNOWN;
    return r->rc == RC_OK;
}

static bool test_test(TEST)
{
    (void)x;
    *out = v.kind == JINJA_TEXT && jinja_test_id(jinja_str(v.as.text)) != JINJA_UNKNOWN;
    return r->rc == RC_OK;
}

static bool test_eq(TEST)
{
    return jinja_compare(r, out, JINJA_EQ, v, x);
}

static bool test_ne(TEST)
{
    return jinja_compare(r, out, JINJA_NE, v, x);
}

static bool test_lt(TEST)
{
    return jinja_compare(r, out, JINJA_LT, v, x);
}

static bool test_le(TEST)
{
    return jinja_compare(r, out, JINJA_LE, v, x);
}

static bool test_gt(TEST)
{
    return jinja_compare(r, out, JINJA_GT, v, x);
}

static bool test_ge(TEST)
{
    return jinja_compare(r, out, JINJA_GE, v, x);
}

static const struct {
    const char *name;
    size_t arguments;
    test_fn *call;
} tests[] = {
    { "defined", 0, test_defined },
    { "undefined", 0, test_undefined },
    { "none", 0, test_none },
    { "string", 0, test_string },
    { "mapping", 0, test_mapping },
    { "iterable", 0, test_iterable },
    { "sequence", 0, test_sequence },
    { "number", 0, test_number },
    { "boolean", 0, test_boolean },
    { "true", 0, test_true },
    { "false", 0, test_false },
    { "integer", 0, test_integer },
    { "float", 0, test_float },
    { "callable", 0, test_callable },
    { "odd", 0, test_odd },
    { "even", 0, test_even },
    { "divisibleby", 1, test_divisible },
    { "lower", 0, test_lower },
    { "upper", 0, test_upper },
    { "sameas", 1, test_sameas },
    { "in", 1, test_in },
    { "escaped", 0, test_escaped },
    { "filter", 0, test_filter },
    { "test", 0, test_test },
    { "eq", 1, test_eq },
    { "equalto", 1, test_eq },
    { "==", 1, test_eq },
    { "ne", 1, test_ne },
    { "!=", 1, test_ne },
    { "lt", 1, test_lt },
    { "lessthan", 1, test_lt },
    { "<", 1, test_lt },
    { "le", 1, test_le },
    { "<=", 1, test_le },
    { "gt", 1, test_gt },
    { "greaterthan", 1, test_gt },
    { ">", 1, test_gt },
    { "ge", 1, test_ge },
    { ">=", 1, test_ge },
};

int jinja_test_id(struct str name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (str_equal(name, str_of(tests[i].name)))
            return (int)i;
    return JINJA_UNKNOWN;
}

bool jinja_test_by_id(struct jinja_run *r, bool *out, int id, struct jinja_value in,
                      const struct jinja_args *args)
{
    must(id >= 0 && (size_t)id < sizeof tests / sizeof tests[0]);
    struct jinja_value x = { .kind = JINJA_MISSING };
    size_t given = args->count + args->named_count;
    if (given != tests[id].arguments)
        return jinja_fail(r, "TypeError: test '%s' takes %zu arguments (%zu given)", tests[id].name,
                          tests[id].arguments, given);
    if (given == 1)
        x = args->count == 1 ? args->items[0] : args->named[0].value;
    return tests[id].call(r, out, in, x);
}

bool jinja_test(struct jinja_run *r, bool *out, struct str name, struct jinja_value in,
                const struct jinja_args *args)
{
    int id = jinja_test_id(name);
    if (id == JINJA_UNKNOWN)
        return jinja_fail(r, "TemplateRuntimeError: No test named '%.*s'.", (int)name.len,
                          name.text);
    return jinja_test_by_id(r, out, id, in, args);
}
