/* SPDX-License-Identifier: MIT */
/* jinja_code - the compiled form of a template: instructions of a stack machine, the constants and
 * names that they mention, and descriptions of macros.
 *   owner    struct jinja; read-only once compiled
 *   layout   jumps are relative to their own instruction, so that the compiler may move code */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_CODE_H
#define QUIRE_FRONTEND_JINJA_JINJA_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/err.h"
#include "frontend/jinja/jinja_heap.h"
#include "frontend/jinja/jinja_value.h"

/* Each with what it takes off the stack -> leaves there; a, b are its operands. */
enum jinja_opcode {
    JINJA_OP_END,
    JINJA_OP_TEXT,       /* outputs constant a */
    JINJA_OP_OUTPUT,     /* v -> */
    JINJA_OP_CONST,      /* -> constant a */
    JINJA_OP_UNDEFINED,  /* -> undefined, constant a is the hint */
    JINJA_OP_LOAD,       /* -> variable of name a */
    JINJA_OP_STORE,      /* v -> */
    JINJA_OP_STORE_ATTR, /* v -> ; name b of the namespace in variable a */
    JINJA_OP_GETATTR,    /* v -> v.name, constant a */
    JINJA_OP_GETITEM,    /* v i -> v[i] */
    JINJA_OP_SLICE,      /* v start stop step -> v[start:stop:step] */
    JINJA_OP_LIST,       /* a values -> list */
    JINJA_OP_TUPLE,
    JINJA_OP_DICT,         /* a keys and values in turn -> dict */
    JINJA_OP_KEYWORD,      /* v -> argument named by constant a */
    JINJA_OP_SPREAD,       /* v -> *v */
    JINJA_OP_SPREAD_PAIRS, /* v -> **v */
    JINJA_OP_CALL,         /* v and a arguments -> result */
    JINJA_OP_FILTER,       /* v and a arguments -> result of filter b */
    JINJA_OP_TEST,         /* v and a arguments -> bool, of test b */
    JINJA_OP_NOT,
    JINJA_OP_NEG,
    JINJA_OP_POS,
    JINJA_OP_ADD, /* x y -> x + y, and so on */
    JINJA_OP_SUB,
    JINJA_OP_MUL,
    JINJA_OP_DIV,
    JINJA_OP_FLOORDIV,
    JINJA_OP_MOD,
    JINJA_OP_POW,
    JINJA_OP_CONCAT,        /* a values -> text */
    JINJA_OP_COMPARE,       /* x y -> bool, b = enum jinja_comparison */
    JINJA_OP_COMPARE_CHAIN, /* x y -> y, or false and a jump by a */
    JINJA_OP_JUMP,
    JINJA_OP_JUMP_FALSE,      /* v -> ; jumps when v is false */
    JINJA_OP_JUMP_FALSE_KEEP, /* v -> v and a jump when false, else v -> */
    JINJA_OP_JUMP_TRUE_KEEP,
    JINJA_OP_POP,
    JINJA_OP_UNPACK, /* v -> its a items, the first on top */
    JINJA_OP_SCOPE,  /* opens a scope */
    JINJA_OP_UNSCOPE,
    JINJA_OP_CAPTURE,     /* output goes to a text from here on */
    JINJA_OP_CAPTURED,    /* -> that text */
    JINJA_OP_FOR,         /* v -> ; a loop whose exit is at a, b = enum jinja_for_flag */
    JINJA_OP_NEXT,        /* -> the next item, or a jump by a */
    JINJA_OP_TESTED,      /* jumps by a when the item has been tested ahead */
    JINJA_OP_CHOOSE,      /* v -> ; the item stays when v is true, else jumps by a (to NEXT) */
    JINJA_OP_AGAIN,       /* the end of the body: jumps by a, to NEXT */
    JINJA_OP_FOR_EXIT,    /* ends the loop; jumps by a when a body came to its end */
    JINJA_OP_LOOP_RETURN, /* end of the recursive loop with its FOR at a: to its caller */
    JINJA_OP_BREAK,
    JINJA_OP_CONTINUE,
    JINJA_OP_MACRO,   /* -> macro a, whose code follows; jumps by b past it */
    JINJA_OP_DEFAULT, /* parameter of name a: jumps by b when it was given */
    JINJA_OP_RETURN
};

enum jinja_comparison {
    JINJA_EQ,
    JINJA_NE,
    JINJA_LT,
    JINJA_LE,
    JINJA_GT,
    JINJA_GE,
    JINJA_IN,
    JINJA_NOT_IN
};

enum jinja_for_flag {
    JINJA_FOR_RECURSIVE = 1,
    JINJA_FOR_TEST = 2,  /* has a test */
    JINJA_FOR_AHEAD = 4, /* its body looks at items to come */
};

struct jinja_op {
    uint16_t code;
    bool hard; /* a FILTER or TEST of no known name: an error even when it is never reached */
    int32_t a, b;
    uint32_t line;
};

#define JINJA_NAMELESS (-1)

struct jinja_macro {
    int32_t name;               /* JINJA_NAMELESS: a call block */
    const uint32_t *parameters; /* names */
    uint32_t parameter_count;
    bool has_caller, has_varargs, has_kwargs; /* its body mentions them */
    bool own_caller, bare_caller;             /* a parameter is called caller; and has no default */
};

struct jinja {
    struct jinja_heap heap;
    const struct jinja_op *ops;
    size_t op_count;
    const struct jinja_value *constants;
    size_t constant_count;
    const struct jinja_text *names; /* variables, attributes, keywords */
    size_t name_count;
    const struct jinja_macro *macros;
    size_t macro_count;
};

/* Names that mean something, always the first ones. */
enum jinja_known_name {
    JINJA_NAME_LOOP,
    JINJA_NAME_CALLER,
    JINJA_NAME_VARARGS,
    JINJA_NAME_KWARGS,
    JINJA_NAME_COUNT
};

/* jinja_compile - fills j, whose heap is open; the source has been copied into it. */
enum rc jinja_compile(struct jinja *j, const char *source, size_t len,
                      struct fault *fault) ATTR_MUST_USE;

#endif
