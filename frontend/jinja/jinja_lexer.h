/* SPDX-License-Identifier: MIT */
/* jinja_lexer - the source of a template cut into tokens, whitespace control done.
 *   owner    tokens live in the heap given; they point into the source
 *   errors   RC_INVALID with the line
 *   source   the lexer rules of Jinja2 3.1 with trim_blocks and lstrip_blocks */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_LEXER_H
#define QUIRE_FRONTEND_JINJA_JINJA_LEXER_H

#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/err.h"
#include "core/str.h"
#include "frontend/jinja/jinja_heap.h"

enum jinja_token_kind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_DATA,
    JINJA_TOKEN_PRINT,     /* {{ */
    JINJA_TOKEN_PRINT_END, /* }} */
    JINJA_TOKEN_BLOCK,     /* {% */
    JINJA_TOKEN_BLOCK_END, /* %} */
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_INTEGER,
    JINJA_TOKEN_FLOAT,
    JINJA_TOKEN_STRING, /* with its quotes */
    JINJA_TOKEN_ADD,    /* + - / // * % ** ~ [ ] ( ) { } == != > >= < <= = . : | , ; */
    JINJA_TOKEN_SUB,
    JINJA_TOKEN_DIV,
    JINJA_TOKEN_FLOORDIV,
    JINJA_TOKEN_MUL,
    JINJA_TOKEN_MOD,
    JINJA_TOKEN_POW,
    JINJA_TOKEN_TILDE,
    JINJA_TOKEN_LBRACKET,
    JINJA_TOKEN_RBRACKET,
    JINJA_TOKEN_LPAREN,
    JINJA_TOKEN_RPAREN,
    JINJA_TOKEN_LBRACE,
    JINJA_TOKEN_RBRACE,
    JINJA_TOKEN_EQ,
    JINJA_TOKEN_NE,
    JINJA_TOKEN_GT,
    JINJA_TOKEN_GE,
    JINJA_TOKEN_LT,
    JINJA_TOKEN_LE,
    JINJA_TOKEN_ASSIGN,
    JINJA_TOKEN_DOT,
    JINJA_TOKEN_COLON,
    JINJA_TOKEN_PIPE,
    JINJA_TOKEN_COMMA,
    JINJA_TOKEN_SEMICOLON
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t line;
    struct str text;
};

/* jinja_lex - tokens of a source whose lines end in "\n"; the last is JINJA_TOKEN_END. */
enum rc jinja_lex(struct jinja_token **out, size_t *count, struct jinja_heap *heap,
                  struct str source, struct fault *fault) ATTR_MUST_USE;

#endif
