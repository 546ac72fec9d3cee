/* SPDX-License-Identifier: MIT */
/* jinja_expression - expressions to code, by operator precedence, with an explicit stack.
 *   entries   BASE  +  (  *  call(  ...       operators wait for their right side, brackets for
 *             their end
 *   code      operands and operators in postfix order, as they are completed
 * The parser alternates between wanting an operand and wanting an operator. An operator of level n
 * first completes what waits at level n or higher. Jinja writes "value if test else other", with
 * the test in the middle: its code is moved before the value's. */
#include "frontend/jinja/jinja_parser.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_filters.h"
#include "frontend/jinja/jinja_text.h"

#define MOVED_MAX (1u << 24) /* instructions that conditions may move, all together */

enum entry_kind {
    ENTRY_BASE,
    ENTRY_FILTERS, /* a base that only a chain of filters stands on */
    ENTRY_BINARY,
    ENTRY_UNARY,
    ENTRY_LOGIC, /* and, or */
    ENTRY_COMPARE,
    ENTRY_CONCAT,
    ENTRY_COND_TEST, /* value if ... */
    ENTRY_COND_ELSE,
    ENTRY_PAREN,
    ENTRY_LIST,
    ENTRY_DICT,
    ENTRY_SUBSCRIPT,
    ENTRY_CALL,
    ENTRY_FILTER,
    ENTRY_TEST,
    ENTRY_TEST_WORD /* its one argument stands without brackets */
};

enum level {
    LEVEL_NONE,
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_CONCAT,
    LEVEL_MUL,
    LEVEL_POW,
    LEVEL_UNARY
};

enum argument { ARGUMENT_PLAIN, ARGUMENT_KEYWORD, ARGUMENT_SPREAD, ARGUMENT_SPREAD_PAIRS };

/* What may come next. */
enum want { WANT_OPERAND, WANT_OPERATOR, WANT_AFTER_FILTER, WANT_NOTHING };

static struct jinja_entry *top(struct jinja_parser *p)
{
    return &p->entries[p->entry_count - 1];
}

static struct jinja_entry *push(struct jinja_parser *p, enum entry_kind kind, enum level level)
{
    if (p->entry_count == JINJA_ENTRIES_MAX) {
        jinja_refuse(p, "expression nested too deeply");
        p->entry_count--; /* somewhere to write, as nothing happens any more */
    }
    struct jinja_entry *e = &p->entries[p->entry_count++];
    *e = (struct jinja_entry){ .kind = (uint8_t)kind,
                               .level = (uint8_t)level,
                               .start = (uint32_t)p->op_count,
                               .patch = JINJA_NOWHERE,
                               .line = jinja_peek(p)->line };
    return e;
}

/* --- completing operators --- */

static void complete(struct jinja_parser *p)
{
    struct jinja_entry e = *top(p);
    p->entry_count--;
    switch ((int)e.kind) {
    case ENTRY_LOGIC:
        jinja_land(p, e.patch);
        break;
    case ENTRY_COMPARE:
        jinja_emit(p, JINJA_OP_COMPARE, 0, e.code);
        jinja_land_list(p, e.patch);
        break;
    case ENTRY_CONCAT:
        jinja_emit(p, JINJA_OP_CONCAT, (int32_t)e.count + 1, 0);
        break;
    default:
        jinja_emit(p, e.code, 0, 0);
        break;
    }
}

/* Completes what waits at this level or above. */
static void reduce(struct jinja_parser *p, enum level level)
{
    while (top(p)->level >= level)
        complete(p);
}

static void reverse(struct jinja_op *ops, size_t begin, size_t end)
{
    while (begin + 1 < end) {
        struct jinja_op swap = ops[begin];
        ops[begin++] = ops[--end];
        ops[end] = swap;
    }
}

/* value test -> test JUMP_FALSE(else) value JUMP(end); the entry then waits for its other value. */
static void turn_condition(struct jinja_parser *p)
{
    struct jinja_entry *e = top(p);
    size_t begin = e->start, middle = e->count, end = p->op_count;
    p->moved += end - begin;
    if (p->moved > MOVED_MAX) {
        jinja_refuse(p, "conditional expressions are too complex");
        return;
    }
    reverse(p->ops, begin, middle);
    reverse(p->ops, middle, end);
    reverse(p->ops, begin, end);
    size_t test_end = begin + (end - middle);
    jinja_insert(p, test_end, JINJA_OP_JUMP_FALSE, 0);
    e->patch = jinja_emit(p, JINJA_OP_JUMP, 0, 0);
    if (p->rc != RC_OK)
        return;
    jinja_land(p, (uint32_t)test_end);
    e->kind = ENTRY_COND_ELSE;
    e->count = (uint32_t)begin;
    e->start = (uint32_t)p->op_count;
}

/* Unknown filters inside a condition are errors only when they are reached. */
static void soften(struct jinja_parser *p, size_t begin)
{
    for (size_t i = begin; i < p->op_count; i++)
        p->ops[i].hard = false;
}

static void complete_condition(struct jinja_parser *p)
{
    if (top(p)->kind == ENTRY_COND_TEST) {
        char hint[128];
        snprintf(hint, sizeof hint,
                 "the inline if-expression on line %u evaluated to false and no else section was "
                 "defined.",
                 top(p)->line);
        turn_condition(p);
        jinja_emit(p, JINJA_OP_UNDEFINED, jinja_text_constant(p, str_of(hint)), 0);
    }
    jinja_land(p, top(p)->patch);
    soften(p, top(p)->count);
    p->entry_count--;
}

static bool is_condition(const struct jinja_entry *e)
{
    return e->kind == ENTRY_COND_TEST || e->kind == ENTRY_COND_ELSE;
}

/* Completes everything down to the bracket, or base, that the current item stands in. */
static void complete_item(struct jinja_parser *p)
{
    reduce(p, LEVEL_OR);
    while (p->rc == RC_OK && is_condition(top(p))) {
        complete_condition(p);
        reduce(p, LEVEL_OR);
    }
}

/* --- constants --- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

/* A code of exactly `digits` hexadecimal digits at s; false when they are not there. */
static bool read_hex(uint32_t *code, const char *s, const char *end, int digits)
{
    *code = 0;
    for (int i = 0; i < digits; i++) {
        if (s + i >= end || hex_digit(s[i]) < 0)
            return false;
        *code = *code * 16 + (uint32_t)hex_digit(s[i]);
    }
    return true;
}

/* The escape behind a backslash at *s; its bytes to out. */
static size_t read_escape(struct jinja_parser *p, char out[4], const char **s, const char *end)
{
    static const char letters[] = "abfnrtv\\'\"", meanings[] = "\a\b\f\n\r\t\v\\'\"";
    char c = *(*s)++;
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    if (letter != NULL) {
        out[0] = meanings[letter - letters];
        return 1;
    }
    if (c == '\n')
        return 0;
    if (c >= '0' && c <= '7') {
        uint32_t code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *s < end && **s >= '0' && **s <= '7'; i++)
            code = code * 8 + (uint32_t)(*(*s)++ - '0');
        return utf8_encode(out, code);
    }
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
        uint32_t code;
        if (!read_hex(&code, *s, end, digits)) {
            jinja_refuse(p, "truncated \\%c escape in a string", c);
            return 0;
        }
        *s += digits;
        return utf8_encode(out, code);
    }
    if (c == 'N') {
        jinja_refuse(p, "\\N escapes are not supported");
        return 0;
    }
    out[0] = '\\';
    out[1] = c;
    return 2;
}

/* Strings beside each other are one. */
static void string_constant(struct jinja_parser *p)
{
    size_t room = 1, n = 0;
    for (size_t i = p->at; p->tokens[i].kind == JINJA_TOKEN_STRING; i++)
        room += p->tokens[i].text.len + 2;
    char *bytes = jinja_heap_take(&p->j->heap, room);
    if (bytes == NULL) {
        jinja_fail_memory(p, &p->j->heap);
        return;
    }
    while (p->rc == RC_OK && jinja_peek(p)->kind == JINJA_TOKEN_STRING) {
        const char *s = jinja_peek(p)->text.text + 1;
        const char *end = s + jinja_peek(p)->text.len - 2;
        while (s < end) {
            if (*s == '\\' && s + 1 < end) {
                s++;
                n += read_escape(p, bytes + n, &s, end);
            } else {
                bytes[n++] = *s++;
            }
        }
        p->at++;
    }
    must(n < room);
    bytes[n] = '\0';
    jinja_emit(p, JINJA_OP_CONST, jinja_text_constant(p, (struct str){ bytes, n }), 0);
}

static void number_constant(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    char text[400], *end;
    size_t n = 0;
    for (size_t i = 0; i < t->text.len; i++) {
        if (n == sizeof text - 1) {
            jinja_refuse(p, "a number of too many digits");
            return;
        }
        if (t->text.text[i] != '_')
            text[n++] = t->text.text[i];
    }
    text[n] = '\0';
    struct jinja_value v;
    if (t->kind == JINJA_TOKEN_FLOAT) {
        v = jinja_float(strtod(text, NULL));
    } else {
        char base = n > 2 && text[0] == '0' ? (char)(text[1] | 0x20) : '\0';
        int radix = base == 'b' ? 2 : base == 'o' ? 8 : base == 'x' ? 16 : 10;
        errno = 0;
        unsigned long long u = strtoull(radix == 10 ? text : text + 2, &end, radix);
        if (errno != 0 || u > INT64_MAX || *end != '\0') {
            jinja_refuse(p, "a whole number of over 64 bits");
            return;
        }
        v = jinja_int((int64_t)u);
    }
    jinja_emit(p, JINJA_OP_CONST, jinja_constant(p, v), 0);
    p->at++;
}

static void none_constant(struct jinja_parser *p)
{
    jinja_emit(p, JINJA_OP_CONST, jinja_constant(p, jinja_none()), 0);
}

/* Marks what a body mentions: the loop's look at items to come, a macro's special arguments. */
static void note_name(struct jinja_parser *p, int32_t name)
{
    static const char *const ahead[] = { "last", "nextitem", "length", "revindex", "revindex0" };
    if (name >= JINJA_NAME_COUNT)
        return;
    bool looks = jinja_peek(p)->kind != JINJA_TOKEN_DOT;
    for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++)
        looks |= jinja_is_name(jinja_peek_next(p), ahead[i]);
    for (size_t i = p->block_count; i-- > 0;) {
        struct jinja_block *b = &p->blocks[i];
        if (name == JINJA_NAME_LOOP && b->kind == JINJA_BLOCK_FOR) {
            if (looks)
                p->ops[b->loop].b |= JINJA_FOR_AHEAD;
            break;
        }
        if (b->kind != JINJA_BLOCK_MACRO && b->kind != JINJA_BLOCK_CALL)
            continue;
        struct jinja_macro *m = &p->macros[b->macro];
        m->has_caller |= name == JINJA_NAME_CALLER;
        m->has_varargs |= name == JINJA_NAME_VARARGS;
        m->has_kwargs |= name == JINJA_NAME_KWARGS;
    }
}

static void name_operand(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    bool yes = jinja_is_name(t, "true") || jinja_is_name(t, "True");
    bool no = jinja_is_name(t, "false") || jinja_is_name(t, "False");
    p->at++;
    if (yes || no) {
        jinja_emit(p, JINJA_OP_CONST, jinja_constant(p, jinja_bool(yes)), 0);
    } else if (jinja_is_name(t, "none") || jinja_is_name(t, "None")) {
        none_constant(p);
    } else {
        int32_t name = jinja_intern(p, t->text);
        jinja_emit(p, JINJA_OP_LOAD, name, 0);
        note_name(p, name);
    }
}

/* --- calls, filters, tests --- */

static bool has_arguments(const struct jinja_entry *e)
{
    return e->kind == ENTRY_CALL || e->kind == ENTRY_FILTER || e->kind == ENTRY_TEST;
}

/* The beginning of an argument: name=, * or **. */
static void begin_argument(struct jinja_parser *p)
{
    struct jinja_entry *e = top(p);
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_TOKEN_NAME && jinja_peek_next(p)->kind == JINJA_TOKEN_ASSIGN) {
        e->argument = ARGUMENT_KEYWORD;
        e->name = jinja_text_constant(p, t->text);
        e->closed = true;
        p->at += 2;
    } else if (t->kind == JINJA_TOKEN_MUL || t->kind == JINJA_TOKEN_POW) {
        e->argument = t->kind == JINJA_TOKEN_MUL ? ARGUMENT_SPREAD : ARGUMENT_SPREAD_PAIRS;
        e->closed = true;
        p->at++;
    } else if (e->closed && t->kind != JINJA_TOKEN_RPAREN) {
        jinja_refuse(p, "invalid syntax for function call expression");
    }
}

static void end_argument(struct jinja_parser *p)
{
    struct jinja_entry *e = top(p);
    if (e->argument == ARGUMENT_KEYWORD)
        jinja_emit(p, JINJA_OP_KEYWORD, e->name, 0);
    else if (e->argument == ARGUMENT_SPREAD)
        jinja_emit(p, JINJA_OP_SPREAD, 0, 0);
    else if (e->argument == ARGUMENT_SPREAD_PAIRS)
        jinja_emit(p, JINJA_OP_SPREAD_PAIRS, 0, 0);
    e->argument = ARGUMENT_PLAIN;
    e->count++;
}

static void emit_named(struct jinja_parser *p, enum jinja_opcode code, const struct jinja_entry *e)
{
    uint32_t at = jinja_emit(p, code, (int32_t)e->count, e->id);
    if (p->rc == RC_OK && e->id < 0)
        p->ops[at].hard = !p->soft;
    if (e->negated)
        jinja_emit(p, JINJA_OP_NOT, 0, 0);
}

/* The end of a call, filter or test. */
static enum want end_call(struct jinja_parser *p)
{
    struct jinja_entry e = *top(p);
    p->entry_count--;
    if (e.kind == ENTRY_CALL) {
        jinja_emit(p, JINJA_OP_CALL, (int32_t)e.count, 0);
        p->call_end = p->entry_count == 1 ? p->op_count : SIZE_MAX;
        return e.negated ? WANT_AFTER_FILTER : WANT_OPERATOR;
    }
    emit_named(p, e.kind == ENTRY_FILTER ? JINJA_OP_FILTER : JINJA_OP_TEST, &e);
    return WANT_AFTER_FILTER;
}

/* Number of a filter or test; for an unknown one, -1 - the constant with its name. */
static int32_t named_id(struct jinja_parser *p, struct str name, bool filter)
{
    int id = filter ? jinja_filter_id(name) : jinja_test_id(name);
    return id != JINJA_UNKNOWN ? id : -1 - jinja_text_constant(p, name);
}

static struct str dotted_name(struct jinja_parser *p)
{
    struct str name = jinja_peek(p)->text;
    jinja_expect(p, JINJA_TOKEN_NAME, "a name");
    while (p->rc == RC_OK && jinja_peek(p)->kind == JINJA_TOKEN_DOT) {
        p->at++;
        struct str part = jinja_peek(p)->text;
        jinja_expect(p, JINJA_TOKEN_NAME, "a name");
        name.len = (size_t)(part.text + part.len - name.text);
    }
    return name;
}

static enum want begin_filter(struct jinja_parser *p)
{
    struct jinja_entry *e = push(p, ENTRY_FILTER, LEVEL_NONE);
    e->id = named_id(p, dotted_name(p), true);
    if (!jinja_skip(p, JINJA_TOKEN_LPAREN))
        return end_call(p);
    begin_argument(p);
    return WANT_OPERAND;
}

static enum want begin_test(struct jinja_parser *p)
{
    bool negated = jinja_skip_name(p, "not");
    struct jinja_entry *e = push(p, ENTRY_TEST, LEVEL_NONE);
    e->negated = negated;
    e->id = named_id(p, dotted_name(p), false);
    if (jinja_skip(p, JINJA_TOKEN_LPAREN)) {
        begin_argument(p);
        return WANT_OPERAND;
    }
    const struct jinja_token *t = jinja_peek(p);
    bool word = t->kind == JINJA_TOKEN_NAME && !jinja_is_name(t, "else") &&
                !jinja_is_name(t, "or") && !jinja_is_name(t, "and");
    if (word && jinja_is_name(t, "is"))
        jinja_refuse(p, "You cannot chain multiple tests with is");
    if (word || t->kind == JINJA_TOKEN_STRING || t->kind == JINJA_TOKEN_INTEGER ||
        t->kind == JINJA_TOKEN_FLOAT || t->kind == JINJA_TOKEN_LBRACKET ||
        t->kind == JINJA_TOKEN_LBRACE) {
        e->kind = ENTRY_TEST_WORD;
        return WANT_OPERAND;
    }
    return end_call(p);
}

/* --- brackets --- */

static enum want close_bracket(struct jinja_parser *p, enum jinja_opcode code)
{
    int32_t count = (int32_t)top(p)->count;
    p->entry_count--;
    p->at++;
    jinja_emit(p, code, count, 0);
    return WANT_OPERATOR;
}

static enum want close_slice(struct jinja_parser *p)
{
    for (uint32_t n = top(p)->count; n < 3; n++)
        none_constant(p);
    p->entry_count--;
    p->at++;
    jinja_emit(p, JINJA_OP_SLICE, 0, 0);
    return WANT_OPERATOR;
}

/* A ":" of a slice: one more bound is known. */
static enum want next_bound(struct jinja_parser *p)
{
    struct jinja_entry *e = top(p);
    e->closed = true;
    if (++e->count > 2)
        jinja_unexpected(p, "]");
    p->at++;
    e->start = (uint32_t)p->op_count;
    return WANT_OPERAND;
}

static enum want next_item(struct jinja_parser *p)
{
    p->at++;
    top(p)->start = (uint32_t)p->op_count;
    if (has_arguments(top(p)))
        begin_argument(p);
    return WANT_OPERAND;
}

/* v[a, b]: the key is a tuple. */
static enum want next_key(struct jinja_parser *p)
{
    top(p)->tuple = true;
    top(p)->count++;
    return next_item(p);
}

static enum want close_keys(struct jinja_parser *p)
{
    jinja_emit(p, JINJA_OP_TUPLE, (int32_t)top(p)->count + 1, 0);
    return close_bracket(p, JINJA_OP_GETITEM);
}

/* An item of the bracket on top is complete: what its ending token means. */
static enum want end_item(struct jinja_parser *p)
{
    struct jinja_entry *e = top(p);
    enum jinja_token_kind kind = jinja_peek(p)->kind;
    bool comma = kind == JINJA_TOKEN_COMMA;
    switch ((int)e->kind) {
    case ENTRY_PAREN:
        if (comma || (kind == JINJA_TOKEN_RPAREN && e->closed)) {
            e->closed = true;
            e->count++;
            return comma ? next_item(p) : close_bracket(p, JINJA_OP_TUPLE);
        }
        p->entry_count--;
        jinja_expect(p, JINJA_TOKEN_RPAREN, ")");
        return WANT_OPERATOR;
    case ENTRY_LIST:
        e->count++;
        if (comma)
            return next_item(p);
        if (kind == JINJA_TOKEN_RBRACKET)
            return close_bracket(p, JINJA_OP_LIST);
        break;
    case ENTRY_DICT:
        e->count++;
        if (e->count % 2 == 1 ? kind == JINJA_TOKEN_COLON : comma)
            return next_item(p);
        if (e->count % 2 == 0 && kind == JINJA_TOKEN_RBRACE)
            return close_bracket(p, JINJA_OP_DICT);
        break;
    case ENTRY_SUBSCRIPT:
        if (kind == JINJA_TOKEN_COLON && !e->tuple)
            return next_bound(p);
        if (comma && !e->closed)
            return next_key(p);
        if (kind != JINJA_TOKEN_RBRACKET)
            break;
        if (e->tuple)
            return close_keys(p);
        if (!e->closed)
            return close_bracket(p, JINJA_OP_GETITEM);
        e->count++;
        return close_slice(p);
    default:
        must(has_arguments(e));
        end_argument(p);
        if (comma)
            return next_item(p);
        jinja_expect(p, JINJA_TOKEN_RPAREN, ")");
        return end_call(p);
    }
    jinja_unexpected(p, "an operator, a comma or the end of a bracket");
    return WANT_NOTHING;
}

/* The end of a bracket where an item could have begun: it is empty, or ends with a comma. */
static enum want end_early(struct jinja_parser *p)
{
    struct jinja_entry *e = top(p);
    enum jinja_token_kind kind = jinja_peek(p)->kind;
    bool fresh = e->argument == ARGUMENT_PLAIN;
    if (e->kind == ENTRY_PAREN && kind == JINJA_TOKEN_RPAREN)
        return close_bracket(p, JINJA_OP_TUPLE);
    if (e->kind == ENTRY_LIST && kind == JINJA_TOKEN_RBRACKET)
        return close_bracket(p, JINJA_OP_LIST);
    if (e->kind == ENTRY_DICT && kind == JINJA_TOKEN_RBRACE && e->count % 2 == 0)
        return close_bracket(p, JINJA_OP_DICT);
    if (e->kind == ENTRY_SUBSCRIPT && kind == JINJA_TOKEN_COLON) {
        none_constant(p);
        return next_bound(p);
    }
    if (e->kind == ENTRY_SUBSCRIPT && kind == JINJA_TOKEN_RBRACKET && e->closed)
        return close_slice(p);
    if (has_arguments(e) && kind == JINJA_TOKEN_RPAREN && fresh) {
        p->at++;
        return end_call(p);
    }
    bool tuple_ends = kind == JINJA_TOKEN_PRINT_END || kind == JINJA_TOKEN_BLOCK_END ||
                      jinja_is_name(jinja_peek(p), "recursive");
    if (e->kind == ENTRY_BASE && e->closed && tuple_ends) {
        jinja_emit(p, JINJA_OP_TUPLE, (int32_t)e->count, 0);
        return WANT_NOTHING;
    }
    jinja_unexpected(p, "an expression");
    return WANT_NOTHING;
}

/* --- the two halves of the loop --- */

static enum want parse_operand(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    bool word = top(p)->kind == ENTRY_TEST_WORD;
    switch ((int)t->kind) {
    case JINJA_TOKEN_NAME:
        if (jinja_is_name(t, "not") && !word && top(p)->level <= LEVEL_NOT) {
            push(p, ENTRY_UNARY, LEVEL_NOT)->code = JINJA_OP_NOT;
            p->at++;
            return WANT_OPERAND;
        }
        name_operand(p);
        return WANT_OPERATOR;
    case JINJA_TOKEN_STRING:
        string_constant(p);
        return WANT_OPERATOR;
    case JINJA_TOKEN_INTEGER:
    case JINJA_TOKEN_FLOAT:
        number_constant(p);
        return WANT_OPERATOR;
    case JINJA_TOKEN_LPAREN:
        push(p, ENTRY_PAREN, LEVEL_NONE);
        break;
    case JINJA_TOKEN_LBRACKET:
        push(p, ENTRY_LIST, LEVEL_NONE);
        break;
    case JINJA_TOKEN_LBRACE:
        push(p, ENTRY_DICT, LEVEL_NONE);
        break;
    case JINJA_TOKEN_ADD:
    case JINJA_TOKEN_SUB:
        push(p, ENTRY_UNARY, LEVEL_UNARY)->code =
            t->kind == JINJA_TOKEN_ADD ? JINJA_OP_POS : JINJA_OP_NEG;
        break;
    default:
        return end_early(p);
    }
    p->at++;
    return WANT_OPERAND;
}

static enum want parse_member(struct jinja_parser *p)
{
    p->at++;
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_TOKEN_NAME) {
        jinja_emit(p, JINJA_OP_GETATTR, jinja_intern(p, t->text), 0);
        p->at++;
    } else if (t->kind == JINJA_TOKEN_INTEGER) {
        number_constant(p);
        jinja_emit(p, JINJA_OP_GETITEM, 0, 0);
    } else {
        jinja_unexpected(p, "a name or number");
    }
    return WANT_OPERATOR;
}

static enum want parse_call(struct jinja_parser *p, bool after_filter)
{
    p->at++;
    push(p, ENTRY_CALL, LEVEL_NONE)->negated = after_filter;
    begin_argument(p);
    return WANT_OPERAND;
}

/* Comparison of the current token, "not in" being two; -1: none. */
static int comparison(struct jinja_parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    if (jinja_is_name(t, "in"))
        return JINJA_IN;
    if (jinja_is_name(t, "not") && jinja_is_name(jinja_peek_next(p), "in")) {
        p->at++;
        return JINJA_NOT_IN;
    }
    return t->kind == JINJA_TOKEN_EQ   ? JINJA_EQ
           : t->kind == JINJA_TOKEN_NE ? JINJA_NE
           : t->kind == JINJA_TOKEN_LT ? JINJA_LT
           : t->kind == JINJA_TOKEN_LE ? JINJA_LE
           : t->kind == JINJA_TOKEN_GT ? JINJA_GT
           : t->kind == JINJA_TOKEN_GE ? JINJA_GE
                                       : -1;
}

static bool parse_comparison(struct jinja_parser *p)
{
    int how = comparison(p);
    if (how < 0)
        return false;
    reduce(p, LEVEL_ADD);
    if (top(p)->kind == ENTRY_COMPARE) { /* a < b < c */
        uint32_t link = jinja_emit_linked(p, JINJA_OP_COMPARE_CHAIN, top(p)->patch);
        if (p->rc == RC_OK)
            p->ops[link].b = top(p)->code;
        top(p)->patch = link;
    } else {
        push(p, ENTRY_COMPARE, LEVEL_COMPARE);
    }
    top(p)->code = (uint16_t)how;
    p->at++;
    return true;
}

static bool parse_arithmetic(struct jinja_parser *p)
{
    static const struct {
        enum jinja_token_kind token;
        enum level level;
        enum jinja_opcode code;
    } operators[] = {
        { JINJA_TOKEN_ADD, LEVEL_ADD, JINJA_OP_ADD },
        { JINJA_TOKEN_SUB, LEVEL_ADD, JINJA_OP_SUB },
        { JINJA_TOKEN_MUL, LEVEL_MUL, JINJA_OP_MUL },
        { JINJA_TOKEN_DIV, LEVEL_MUL, JINJA_OP_DIV },
        { JINJA_TOKEN_FLOORDIV, LEVEL_MUL, JINJA_OP_FLOORDIV },
        { JINJA_TOKEN_MOD, LEVEL_MUL, JINJA_OP_MOD },
        { JINJA_TOKEN_POW, LEVEL_POW, JINJA_OP_POW },
    };
    enum jinja_token_kind kind = jinja_peek(p)->kind;
    if (kind == JINJA_TOKEN_TILDE) {
        reduce(p, LEVEL_MUL);
        if (top(p)->kind != ENTRY_CONCAT)
            push(p, ENTRY_CONCAT, LEVEL_CONCAT);
        top(p)->count++;
        p->at++;
        return true;
    }
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (operators[i].token != kind)
            continue;
        reduce(p, operators[i].level);
        push(p, ENTRY_BINARY, operators[i].level)->code = (uint16_t)operators[i].code;
        p->at++;
        return true;
    }
    return false;
}

static bool parse_logic(struct jinja_parser *p)
{
    bool both = jinja_is_name(jinja_peek(p), "and");
    if (!both && !jinja_is_name(jinja_peek(p), "or"))
        return false;
    enum level level = both ? LEVEL_AND : LEVEL_OR;
    reduce(p, level);
    uint32_t jump = jinja_emit(p, both ? JINJA_OP_JUMP_FALSE_KEEP : JINJA_OP_JUMP_TRUE_KEEP, 0, 0);
    push(p, ENTRY_LOGIC, level)->patch = jump;
    p->at++;
    return true;
}

/* "if" and "else" of a conditional expression. */
static bool parse_condition(struct jinja_parser *p, unsigned flags)
{
    const struct jinja_token *t = jinja_peek(p);
    if (jinja_is_name(t, "else")) {
        reduce(p, LEVEL_OR);
        if (top(p)->kind != ENTRY_COND_TEST)
            return false;
        turn_condition(p);
        p->at++;
        return true;
    }
    if (!jinja_is_name(t, "if"))
        return false;
    reduce(p, LEVEL_OR);
    if (top(p)->kind == ENTRY_BASE && (flags & JINJA_EXPR_NO_COND) != 0)
        return false;
    uint32_t start = top(p)->start;
    if (top(p)->kind == ENTRY_COND_TEST) { /* a if b if c */
        complete_condition(p);
    }
    struct jinja_entry *e = push(p, ENTRY_COND_TEST, LEVEL_NONE);
    e->start = start;
    e->count = (uint32_t)p->op_count;
    p->at++;
    return true;
}

static enum want parse_operator(struct jinja_parser *p, enum want want, unsigned flags)
{
    enum jinja_token_kind kind = jinja_peek(p)->kind;
    bool plain = want == WANT_OPERATOR;
    if (top(p)->kind == ENTRY_FILTERS && kind != JINJA_TOKEN_PIPE)
        return WANT_NOTHING;
    if (plain && kind == JINJA_TOKEN_DOT)
        return parse_member(p);
    if (plain && kind == JINJA_TOKEN_LBRACKET) {
        push(p, ENTRY_SUBSCRIPT, LEVEL_NONE);
        p->at++;
        return WANT_OPERAND;
    }
    if (kind == JINJA_TOKEN_LPAREN)
        return parse_call(p, !plain);
    if (top(p)->kind == ENTRY_TEST_WORD) {
        top(p)->count = 1;
        top(p)->kind = ENTRY_TEST;
        return end_call(p);
    }
    if (kind == JINJA_TOKEN_PIPE || jinja_is_name(jinja_peek(p), "is")) {
        reduce(p, LEVEL_UNARY);
        p->at++;
        return kind == JINJA_TOKEN_PIPE ? begin_filter(p) : begin_test(p);
    }
    if (parse_comparison(p) || parse_arithmetic(p) || parse_logic(p) || parse_condition(p, flags))
        return WANT_OPERAND;
    complete_item(p);
    if (top(p)->kind != ENTRY_BASE)
        return end_item(p);
    if (jinja_peek(p)->kind == JINJA_TOKEN_COMMA && (flags & JINJA_EXPR_TUPLE) != 0) {
        top(p)->count++;
        top(p)->closed = true;
        return next_item(p);
    }
    if (top(p)->closed)
        jinja_emit(p, JINJA_OP_TUPLE, (int32_t)top(p)->count + 1, 0);
    return WANT_NOTHING;
}

static void run(struct jinja_parser *p, enum want want, unsigned flags)
{
    while (p->rc == RC_OK && want != WANT_NOTHING)
        want = want == WANT_OPERAND ? parse_operand(p) : parse_operator(p, want, flags);
    p->entry_count = 0;
}

void jinja_expression(struct jinja_parser *p, unsigned flags)
{
    must(p->entry_count == 0);
    p->call_end = SIZE_MAX;
    push(p, ENTRY_BASE, LEVEL_NONE);
    run(p, WANT_OPERAND, flags);
}

void jinja_filters_behind(struct jinja_parser *p, bool starts_inline)
{
    must(p->entry_count == 0);
    push(p, ENTRY_FILTERS, LEVEL_NONE);
    run(p, starts_inline ? begin_filter(p) : WANT_AFTER_FILTER, 0);
}
