/* SPDX-License-Identifier: MIT */
/* jinja_value - what template expressions work on, and the questions Python asks of any object:
 * truth, equality, order, length, membership, iteration.
 *   owner    every piece lives in the heap of its run (constants: in that of the template) and dies
 *            with it; texts, sequences and dicts never change once built
 *   origin   each byte of a text is the template's own or a user's. A text holds either one origin
 *            for all its bytes, or a mark per byte; operations carry them along
 *   errors   false: the run has failed and its fault says why
 *   limits   JINJA_NEST_MAX containers inside each other; the text limit of the run */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_VALUE_H
#define QUIRE_FRONTEND_JINJA_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/str.h"

struct jinja_run;

#define JINJA_NEST_MAX 512u /* Python gives up at about twice this */

enum jinja_kind {
    JINJA_MISSING, /* no value: an argument that was not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_TEXT,
    JINJA_SEQ,
    JINJA_DICT,
    JINJA_SPACE, /* namespace() */
    JINJA_MACRO,
    JINJA_FUNCTION, /* of the global names */
    JINJA_METHOD,   /* bound to its object */
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER,
    /* Only between an argument and its call: */
    JINJA_KEYWORD,     /* name=value */
    JINJA_SPREAD,      /* *value */
    JINJA_SPREAD_PAIRS /* **value */
};

struct jinja_text {
    const char *bytes;    /* valid UTF-8, not terminated */
    const uint8_t *marks; /* per byte: 1 = a user's; NULL: all bytes are as `user` says */
    size_t len;
    size_t chars;
    struct jinja_builder
        *tail; /* that it was joined in and may be continued in; see jinja_concat */
    bool user;
    bool markup; /* Python's Markup: `safe` and `escape` make it, `+` escapes what joins it */
};

enum jinja_flavour {
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_KEYS,
    JINJA_VALUES,
    JINJA_ITEMS,
    JINJA_GENERATOR /* no length, always true, can be read once */
};

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const struct jinja_text *text;
        struct jinja_seq *seq;
        const struct jinja_dict *dict;
        struct jinja_space *space;
        const struct jinja_undefined *undefined;
        const struct jinja_macro_value *macro;
        const struct jinja_method *method;
        const struct jinja_boxed *boxed; /* KEYWORD, SPREAD, SPREAD_PAIRS */
        struct jinja_loop *loop;
        struct jinja_cycler *cycler; /* JOINER too */
        int function;
    } as;
};

struct jinja_seq {
    enum jinja_flavour flavour;
    bool user;  /* came with the variables: its punctuation counts as a user's text */
    bool group; /* of groupby: its items are .grouper and .list too */
    size_t count;
    struct jinja_value *items; /* NULL for a range */
    int64_t start, stop, step; /* of a range */
};

struct jinja_pair {
    struct jinja_value key, value;
};

struct jinja_dict {
    bool user;
    uint32_t count;
    uint32_t slot_count;      /* power of two; 0: few enough to look at each */
    struct jinja_pair *pairs; /* in order of insertion */
    uint32_t *slots;          /* index + 1 of a pair; 0 is free */
};

struct jinja_space {
    struct jinja_pair *pairs; /* keys are texts */
    uint32_t count, capacity;
};

/* Why a value is undefined: a hint, or the object and the name that it does not have. */
struct jinja_undefined {
    const char *hint;        /* zero-terminated, or NULL */
    bool unsafe;             /* the sandbox's refusal: SecurityError */
    const char *owner;       /* kind of the object, NULL: a variable */
    struct jinja_value name; /* text, or an index */
};

struct jinja_macro_value {
    const struct jinja_macro *macro;
    struct jinja_scope *scope; /* where it was defined */
    uint32_t entry;            /* its first instruction */
};

struct jinja_method {
    struct jinja_value self;
    int id; /* of the table of jinja_methods.c */
};

struct jinja_boxed {
    const struct jinja_text *name; /* of a keyword */
    struct jinja_value value;
};

struct jinja_cycler {
    struct jinja_value items; /* tuple; of a joiner: its separator */
    size_t at;
};

/* Constructors. None of them fails but those that take memory. */
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool b);
struct jinja_value jinja_int(int64_t i);
struct jinja_value jinja_float(double d);
struct jinja_value jinja_of_text(const struct jinja_text *t);
struct jinja_value jinja_of_seq(struct jinja_seq *s);
bool jinja_new_seq(struct jinja_run *r, struct jinja_seq **out, enum jinja_flavour flavour,
                   size_t count) ATTR_MUST_USE;
bool jinja_new_undefined(struct jinja_run *r, struct jinja_value *out, const char *hint,
                         const char *owner, struct jinja_value name) ATTR_MUST_USE;

/* jinja_new_dict - of pairs that are kept, not copied; of two equal keys the first keeps its place,
 * the last its value. A key that cannot be one is a TypeError. */
bool jinja_new_dict(struct jinja_run *r, struct jinja_value *out, struct jinja_pair *pairs,
                    size_t count, bool user) ATTR_MUST_USE;

/* jinja_find - the pair of a key, NULL in *out when there is none. */
bool jinja_find(struct jinja_run *r, const struct jinja_pair **out, const struct jinja_dict *d,
                struct jinja_value key) ATTR_MUST_USE;

/* jinja_find_text - the same for a text, which cannot fail; NULL: none. */
const struct jinja_pair *jinja_find_text(const struct jinja_dict *d, struct str key);

/* Spaces: jinja_space_get gives NULL for a name that was never set. */
const struct jinja_value *jinja_space_get(const struct jinja_space *s, struct str name);
bool jinja_space_set(struct jinja_run *r, struct jinja_space *s, const struct jinja_text *name,
                     struct jinja_value v) ATTR_MUST_USE;

/* jinja_at - item of a sequence, i < count. */
struct jinja_value jinja_at(const struct jinja_seq *s, size_t i);

bool jinja_is_true(struct jinja_value v);
bool jinja_is_number(struct jinja_value v);            /* bool, int, float */
bool jinja_as_int(int64_t *out, struct jinja_value v); /* bool or int */
double jinja_as_double(struct jinja_value v);          /* of a number */
struct str jinja_str(const struct jinja_text *t);
bool jinja_text_is(struct jinja_value v, const char *zero_terminated);

/* jinja_type - "str", "dict" ..: type(v).__name__. jinja_owner - "dict object", "None" ..: what
 * undefined members are said to be missing from. */
const char *jinja_type(struct jinja_value v);
const char *jinja_owner(struct jinja_value v);

bool jinja_equal(struct jinja_run *r, bool *out, struct jinja_value a,
                 struct jinja_value b) ATTR_MUST_USE;

/* jinja_order - sign of a - b in *out (2: a NaN, nothing holds); `symbol` is the operator that a
 * TypeError names. */
bool jinja_order(struct jinja_run *r, int *out, struct jinja_value a, struct jinja_value b,
                 const char *symbol) ATTR_MUST_USE;

bool jinja_contains(struct jinja_run *r, bool *out, struct jinja_value container,
                    struct jinja_value item) ATTR_MUST_USE;
bool jinja_length(struct jinja_run *r, size_t *out, struct jinja_value v) ATTR_MUST_USE;

/* jinja_iterate - the items of anything that can be iterated; a generator is empty afterwards. */
bool jinja_iterate(struct jinja_run *r, struct jinja_seq **out, struct jinja_value v) ATTR_MUST_USE;
bool jinja_is_iterable(struct jinja_value v);

/* jinja_sort_pairs - pairs by their keys, as sorted() does: stable, also in reverse. */
bool jinja_sort_pairs(struct jinja_run *r, struct jinja_pair *pairs, size_t count,
                      bool reverse) ATTR_MUST_USE;

#endif
