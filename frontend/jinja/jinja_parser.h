/* SPDX-License-Identifier: MIT */
/* jinja_parser - tokens to instructions in one pass: state shared by statements (jinja_parser.c)
 * and expressions (jinja_expression.c).
 *   owner    jinja_compile; one thread
 *   errors   the first one stays in parser.rc; everything after it does nothing
 *   limits   BLOCKS_MAX statements and ENTRIES_MAX operators or brackets inside each other: both
 *            are explicit stacks, nothing recurses */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_PARSER_H
#define QUIRE_FRONTEND_JINJA_JINJA_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/name_table.h"
#include "frontend/jinja/jinja_code.h"
#include "frontend/jinja/jinja_lexer.h"

#define JINJA_BLOCKS_MAX 128u
#define JINJA_ENTRIES_MAX 240u
#define JINJA_NOWHERE UINT32_MAX /* end of a list of jumps to be set */

enum jinja_block_kind {
    JINJA_BLOCK_IF,
    JINJA_BLOCK_FOR,
    JINJA_BLOCK_FOR_ELSE,
    JINJA_BLOCK_SET,
    JINJA_BLOCK_FILTER,
    JINJA_BLOCK_MACRO,
    JINJA_BLOCK_CALL,
    JINJA_BLOCK_WITH,
    JINJA_BLOCK_GENERATION
};

/* Instructions taken out of the code to be put back later. */
struct jinja_snippet {
    struct jinja_op *ops;
    size_t count;
};

struct jinja_block {
    enum jinja_block_kind kind;
    uint32_t line;
    bool soft;      /* as it was outside */
    uint32_t begin; /* FOR: its NEXT; MACRO, CALL: the MACRO */
    uint32_t next;  /* IF: the jump over this branch; JINJA_NOWHERE after else */
    uint32_t ends;  /* IF, FOR: list of jumps to the end */
    uint32_t loop;  /* FOR: the instruction FOR */
    bool recursive;
    uint32_t macro;             /* index of its description */
    int32_t arguments;          /* CALL: how many the call has without its body */
    struct jinja_snippet after; /* SET, FILTER: what to do with the text; SET: then the target */
};

/* What an expression is in the middle of; see jinja_expression.c. */
struct jinja_entry {
    uint8_t kind;
    uint8_t level;    /* of precedence */
    bool closed;      /* SUBSCRIPT: a slice; CALL: keywords have begun */
    bool negated;     /* TEST: is not; CALL: of a filter's result */
    bool tuple;       /* SUBSCRIPT: of several keys */
    uint8_t argument; /* of a call: how the current argument is passed on */
    uint16_t code;    /* instruction to emit */
    int32_t name;     /* filter, test or keyword */
    int32_t id;       /* of a filter or test */
    uint32_t count;   /* items so far */
    uint32_t start;   /* first instruction of the current item */
    uint32_t patch;   /* list of jumps */
    uint32_t line;
};

struct jinja_parser {
    struct jinja *j;
    struct jinja_heap *heap; /* of the compilation */
    struct fault *fault;
    enum rc rc;
    const struct jinja_token *tokens;
    size_t at;
    struct jinja_op *ops;
    size_t op_count, op_capacity;
    struct jinja_value *constants;
    size_t constant_count, constant_capacity;
    struct jinja_text *names;
    size_t name_count, name_capacity;
    struct name_table name_table;
    struct jinja_macro *macros;
    size_t macro_count, macro_capacity;
    struct jinja_block blocks[JINJA_BLOCKS_MAX];
    size_t block_count;
    struct jinja_entry entries[JINJA_ENTRIES_MAX];
    size_t entry_count;
    bool soft;       /* inside if: an unknown filter is an error only when it is reached */
    size_t moved;    /* instructions moved by conditional expressions */
    size_t call_end; /* behind the CALL that was the last thing of an expression */
};

/* Tokens. */
const struct jinja_token *jinja_peek(const struct jinja_parser *p);
const struct jinja_token *jinja_peek_next(const struct jinja_parser *p);
bool jinja_is_name(const struct jinja_token *t, const char *name);
bool jinja_skip(struct jinja_parser *p, enum jinja_token_kind kind);
bool jinja_skip_name(struct jinja_parser *p, const char *name);
void jinja_expect(struct jinja_parser *p, enum jinja_token_kind kind, const char *what);

/* jinja_refuse - a TemplateSyntaxError at the current token. jinja_unexpected - one that names it.
 * jinja_fail_memory - the heap gave nothing. */
ATTR_COLD void jinja_refuse(struct jinja_parser *p, const char *fmt, ...) ATTR_PRINTF(2, 3);
ATTR_COLD void jinja_fail_memory(struct jinja_parser *p, const struct jinja_heap *heap);
ATTR_COLD void jinja_unexpected(struct jinja_parser *p, const char *wanted);

/* jinja_more - makes an array of the compilation hold one more; false, and an error, when it
 * cannot. */
bool jinja_more(struct jinja_parser *p, void *array, size_t count, size_t *capacity, size_t size);

/* Code. jinja_emit returns the index of the instruction. */
uint32_t jinja_emit(struct jinja_parser *p, enum jinja_opcode code, int32_t a, int32_t b);
void jinja_insert(struct jinja_parser *p, size_t at, enum jinja_opcode code, int32_t a);
void jinja_land(struct jinja_parser *p, uint32_t jump); /* jumps to what comes next */
void jinja_land_list(struct jinja_parser *p, uint32_t list);
uint32_t jinja_emit_linked(struct jinja_parser *p, enum jinja_opcode code, uint32_t list);
struct jinja_snippet jinja_cut(struct jinja_parser *p, size_t begin);
void jinja_paste(struct jinja_parser *p, const struct jinja_snippet *s);

int32_t jinja_constant(struct jinja_parser *p, struct jinja_value v);
int32_t jinja_text_constant(struct jinja_parser *p, struct str s);
int32_t jinja_intern(struct jinja_parser *p, struct str name);

enum jinja_expression_flag {
    JINJA_EXPR_TUPLE = 1,   /* a, b is a tuple */
    JINJA_EXPR_NO_COND = 2, /* "if" ends it */
};

/* jinja_expression - parses one; its value is left on the stack. */
void jinja_expression(struct jinja_parser *p, unsigned flags);

/* jinja_filters_behind - the chain of filters at the current token, applied to the stack's top;
 * inline: it begins without "|". */
void jinja_filters_behind(struct jinja_parser *p, bool starts_inline);

#endif
