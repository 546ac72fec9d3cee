/* SPDX-License-Identifier: MIT */
/* jinja_parser - see jinja_parser.h. Statements are a stack of open blocks; each kind has a
 * function that begins it and one that ends it.
 *   if       test JUMP_FALSE(next) body JUMP(end) next: ... end:
 *   for      items FOR NEXT(exit) targets [TESTED(body) test CHOOSE(NEXT)] body: ... AGAIN(NEXT)
 *            exit: FOR_EXIT(end) [SCOPE else UNSCOPE] end: [LOOP_RETURN]
 *   set      CAPTURE SCOPE body UNSCOPE CAPTURED filters STORE
 *   macro    MACRO(end) {DEFAULT(given) value STORE given:} body RETURN end: STORE
 *   call     callee arguments MACRO(end) .. RETURN end: KEYWORD(caller) CALL OUTPUT
 * What Jinja writes before a body and does behind it (targets, filters) is parsed first, cut out of
 * the code, and pasted where it belongs. */
#include "frontend/jinja/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "core/must.h"
#include "frontend/jinja/jinja_text.h"

#define COMPILE_BYTES_MAX (256u << 20) /* a template of 1 MiB in the densest notation */
#define WITH_MAX 64u                   /* variables of one {% with %} */

/* --- errors and tokens --- */

void jinja_refuse(struct jinja_parser *p, const char *fmt, ...)
{
    if (p->rc != RC_OK)
        return;
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    p->rc = fault_set(p->fault, RC_INVALID, "template line %u: TemplateSyntaxError: %s",
                      jinja_peek(p)->line, text);
}

void jinja_unexpected(struct jinja_parser *p, const char *wanted)
{
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_TOKEN_END)
        jinja_refuse(p, "Unexpected end of template, expected %s", wanted);
    else
        jinja_refuse(p, "expected %s, got '%.*s'", wanted, t->text.len > 40 ? 40 : (int)t->text.len,
                     t->text.text);
}

const struct jinja_token *jinja_peek(const struct jinja_parser *p)
{
    return &p->tokens[p->at];
}

const struct jinja_token *jinja_peek_next(const struct jinja_parser *p)
{
    return &p->tokens[p->at + (jinja_peek(p)->kind != JINJA_TOKEN_END)];
}

bool jinja_is_name(const struct jinja_token *t, const char *name)
{
    return t->kind == JINJA_TOKEN_NAME && str_equal(t->text, str_of(name));
}

bool jinja_skip(struct jinja_parser *p, enum jinja_token_kind kind)
{
    if (jinja_peek(p)->kind != kind)
        return false;
    p->at++;
    return true;
}

bool jinja_skip_name(struct jinja_parser *p, const char *name)
{
    if (!jinja_is_name(jinja_peek(p), name))
        return false;
    p->at++;
    return true;
}

void jinja_expect(struct jinja_parser *p, enum jinja_token_kind kind, const char *what)
{
    if (!jinja_skip(p, kind))
        jinja_unexpected(p, what);
}

/* --- code --- */

void jinja_fail_memory(struct jinja_parser *p, const struct jinja_heap *heap)
{
    if (p->rc == RC_OK)
        p->rc = fault_set(p->fault, heap->starved ? RC_NO_MEMORY : RC_LIMIT,
                          "the template needs too much memory");
}

bool jinja_more(struct jinja_parser *p, void *array, size_t count, size_t *capacity, size_t size)
{
    if (p->rc != RC_OK)
        return false;
    if (count < *capacity)
        return true;
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = jinja_heap_grow(p->heap, old, count * size, wanted * size);
    if (grown == NULL) {
        jinja_fail_memory(p, p->heap);
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

uint32_t jinja_emit(struct jinja_parser *p, enum jinja_opcode code, int32_t a, int32_t b)
{
    if (!jinja_more(p, &p->ops, p->op_count, &p->op_capacity, sizeof *p->ops))
        return 0;
    if (p->op_count == INT32_MAX) {
        jinja_refuse(p, "template too large");
        return 0;
    }
    p->ops[p->op_count] =
        (struct jinja_op){ .code = (uint16_t)code, .a = a, .b = b, .line = jinja_peek(p)->line };
    return (uint32_t)p->op_count++;
}

void jinja_insert(struct jinja_parser *p, size_t at, enum jinja_opcode code, int32_t a)
{
    jinja_emit(p, code, a, 0);
    if (p->rc != RC_OK)
        return;
    struct jinja_op op = p->ops[p->op_count - 1];
    memmove(p->ops + at + 1, p->ops + at, (p->op_count - 1 - at) * sizeof *p->ops);
    p->ops[at] = op;
}

void jinja_land(struct jinja_parser *p, uint32_t jump)
{
    if (p->rc == RC_OK)
        p->ops[jump].a = (int32_t)(p->op_count - jump);
}

/* Until they land, the jumps of a list are linked through their operands. */
uint32_t jinja_emit_linked(struct jinja_parser *p, enum jinja_opcode code, uint32_t list)
{
    return jinja_emit(p, code, list == JINJA_NOWHERE ? -1 : (int32_t)list, 0);
}

void jinja_land_list(struct jinja_parser *p, uint32_t list)
{
    while (p->rc == RC_OK && list != JINJA_NOWHERE) {
        uint32_t next = (uint32_t)p->ops[list].a;
        jinja_land(p, list);
        list = next;
    }
}

struct jinja_snippet jinja_cut(struct jinja_parser *p, size_t begin)
{
    struct jinja_snippet s = { NULL, 0 };
    if (p->rc != RC_OK)
        return s;
    s.count = p->op_count - begin;
    s.ops = jinja_heap_take(p->heap, s.count * sizeof *s.ops);
    if (s.ops == NULL) {
        jinja_fail_memory(p, p->heap);
        return (struct jinja_snippet){ NULL, 0 };
    }
    if (s.count > 0)
        memcpy(s.ops, p->ops + begin, s.count * sizeof *s.ops);
    p->op_count = begin;
    return s;
}

void jinja_paste(struct jinja_parser *p, const struct jinja_snippet *s)
{
    for (size_t i = 0; i < s->count; i++) {
        uint32_t at = jinja_emit(p, JINJA_OP_END, 0, 0);
        if (p->rc == RC_OK)
            p->ops[at] = s->ops[i];
    }
}

/* --- constants and names --- */

int32_t jinja_constant(struct jinja_parser *p, struct jinja_value v)
{
    if (!jinja_more(p, &p->constants, p->constant_count, &p->constant_capacity,
                    sizeof *p->constants))
        return 0;
    p->constants[p->constant_count] = v;
    return (int32_t)p->constant_count++;
}

/* A copy of s in the template's own memory, zero-terminated as hints are read that way. */
static bool keep_text(struct jinja_parser *p, struct jinja_text *out, struct str s)
{
    char *bytes = p->rc == RC_OK ? jinja_heap_take(&p->j->heap, s.len + 1) : NULL;
    if (bytes == NULL) {
        jinja_fail_memory(p, &p->j->heap);
        return false;
    }
    if (s.len > 0)
        memcpy(bytes, s.text, s.len);
    bytes[s.len] = '\0';
    *out = (struct jinja_text){ .bytes = bytes,
                                .len = s.len,
                                .chars = jinja_count_chars(bytes, s.len) };
    return true;
}

int32_t jinja_text_constant(struct jinja_parser *p, struct str s)
{
    struct jinja_text *t = jinja_heap_take(&p->j->heap, sizeof *t);
    if (t == NULL) {
        jinja_fail_memory(p, &p->j->heap);
        return 0;
    }
    return keep_text(p, t, s) ? jinja_constant(p, jinja_of_text(t)) : 0;
}

int32_t jinja_intern(struct jinja_parser *p, struct str name)
{
    uint32_t known = name_table_find(&p->name_table, name.text, name.len);
    if (known != NAME_NONE)
        return (int32_t)known;
    if (!jinja_more(p, &p->names, p->name_count, &p->name_capacity, sizeof *p->names))
        return 0;
    struct jinja_text *t = &p->names[p->name_count];
    if (!keep_text(p, t, name))
        return 0;
    uint32_t before = name_table_add(&p->name_table, t->bytes, t->len, (uint32_t)p->name_count);
    must(before == NAME_NONE);
    return (int32_t)p->name_count++;
}

/* --- blocks --- */

static struct jinja_block *innermost(struct jinja_parser *p)
{
    must(p->block_count > 0);
    return &p->blocks[p->block_count - 1];
}

static struct jinja_block *open_block(struct jinja_parser *p, enum jinja_block_kind kind)
{
    if (p->block_count == JINJA_BLOCKS_MAX) {
        jinja_refuse(p, "blocks nested too deeply");
        p->block_count--; /* somewhere to write, as nothing happens any more */
    }
    struct jinja_block *b = &p->blocks[p->block_count++];
    *b = (struct jinja_block){ .kind = kind,
                               .line = jinja_peek(p)->line,
                               .soft = p->soft,
                               .next = JINJA_NOWHERE,
                               .ends = JINJA_NOWHERE };
    p->soft = kind == JINJA_BLOCK_IF;
    return b;
}

static void close_block(struct jinja_parser *p)
{
    p->soft = innermost(p)->soft;
    p->block_count--;
}

static void end_tag(struct jinja_parser *p)
{
    jinja_expect(p, JINJA_TOKEN_BLOCK_END, "end of statement block");
}

/* A body may begin with a colon. */
static void begin_body(struct jinja_parser *p)
{
    jinja_skip(p, JINJA_TOKEN_COLON);
    end_tag(p);
}

/* --- targets of assignments --- */

static void store_name(struct jinja_parser *p, bool with_namespace)
{
    const struct jinja_token *t = jinja_peek(p);
    static const char *const constants[] = { "true", "false", "none", "True", "False", "None" };
    if (t->kind != JINJA_TOKEN_NAME) {
        jinja_unexpected(p, "a name to assign to");
        return;
    }
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (jinja_is_name(t, constants[i]))
            jinja_refuse(p, "can't assign to '%s'", constants[i]);
    for (size_t i = 0; i < p->block_count && jinja_is_name(t, "loop"); i++)
        if (p->blocks[i].kind == JINJA_BLOCK_FOR)
            jinja_refuse(p, "Can't assign to special loop variable in for-loop target");
    int32_t name = jinja_intern(p, t->text);
    p->at++;
    if (with_namespace && jinja_skip(p, JINJA_TOKEN_DOT)) {
        struct str attribute = jinja_peek(p)->text;
        jinja_expect(p, JINJA_TOKEN_NAME, "a name");
        jinja_emit(p, JINJA_OP_STORE_ATTR, name, jinja_intern(p, attribute));
        return;
    }
    jinja_emit(p, JINJA_OP_STORE, name, 0);
}

/* Names, or tuples of them in brackets: code that takes the value off the stack. */
static void parse_target(struct jinja_parser *p, bool with_namespace)
{
    struct {
        size_t begin;
        int32_t count;
        bool tuple;
    } open[16] = { { p->op_count, 0, false } };
    size_t depth = 1;
    while (p->rc == RC_OK) {
        if (jinja_skip(p, JINJA_TOKEN_LPAREN)) {
            if (depth == sizeof open / sizeof open[0]) {
                jinja_refuse(p, "targets nested too deeply");
                return;
            }
            open[depth].begin = p->op_count;
            open[depth].count = 0;
            open[depth++].tuple = false;
            continue;
        }
        enum jinja_token_kind kind = jinja_peek(p)->kind;
        bool ends = kind == JINJA_TOKEN_RPAREN || kind == JINJA_TOKEN_BLOCK_END ||
                    kind == JINJA_TOKEN_ASSIGN || jinja_is_name(jinja_peek(p), "in");
        if (!(ends && open[depth - 1].tuple)) {
            store_name(p, with_namespace);
            open[depth - 1].count++;
        }
        while (p->rc == RC_OK) { /* what follows an element */
            if (jinja_skip(p, JINJA_TOKEN_COMMA)) {
                open[depth - 1].tuple = true;
                break;
            }
            if (open[depth - 1].tuple)
                jinja_insert(p, open[depth - 1].begin, JINJA_OP_UNPACK, open[depth - 1].count);
            if (--depth == 0)
                return;
            jinja_expect(p, JINJA_TOKEN_RPAREN, ")");
            open[depth - 1].count++;
        }
    }
}

/* --- statements --- */

static void parse_if(struct jinja_parser *p)
{
    struct jinja_block *b = open_block(p, JINJA_BLOCK_IF);
    jinja_expression(p, JINJA_EXPR_TUPLE | JINJA_EXPR_NO_COND);
    b->next = jinja_emit(p, JINJA_OP_JUMP_FALSE, 0, 0);
    begin_body(p);
}

static void parse_elif(struct jinja_parser *p, bool with_test)
{
    struct jinja_block *b = innermost(p);
    b->ends = jinja_emit_linked(p, JINJA_OP_JUMP, b->ends);
    jinja_land(p, b->next);
    b->next = JINJA_NOWHERE;
    if (with_test) {
        jinja_expression(p, JINJA_EXPR_TUPLE | JINJA_EXPR_NO_COND);
        b->next = jinja_emit(p, JINJA_OP_JUMP_FALSE, 0, 0);
    }
    begin_body(p);
}

static void end_if(struct jinja_parser *p)
{
    struct jinja_block *b = innermost(p);
    if (b->next != JINJA_NOWHERE)
        jinja_land(p, b->next);
    jinja_land_list(p, b->ends);
    close_block(p);
    end_tag(p);
}

static void parse_for(struct jinja_parser *p)
{
    size_t begin = p->op_count;
    parse_target(p, false);
    struct jinja_snippet targets = jinja_cut(p, begin);
    if (!jinja_skip_name(p, "in"))
        jinja_unexpected(p, "'in'");
    jinja_expression(p, JINJA_EXPR_TUPLE | JINJA_EXPR_NO_COND);
    for (size_t i = 0; i < targets.count; i++)
        if (targets.ops[i].code == JINJA_OP_STORE && targets.ops[i].a == JINJA_NAME_LOOP)
            jinja_refuse(p, "Can't assign to special loop variable in for-loop target");
    uint32_t loop = jinja_emit(p, JINJA_OP_FOR, 0, 0);
    uint32_t next = jinja_emit(p, JINJA_OP_NEXT, 0, 0);
    jinja_paste(p, &targets);
    int32_t flags = 0;
    if (jinja_skip_name(p, "if")) {
        flags = JINJA_FOR_TEST;
        uint32_t tested = jinja_emit(p, JINJA_OP_TESTED, 0, 0);
        jinja_expression(p, 0);
        uint32_t choose = jinja_emit(p, JINJA_OP_CHOOSE, 0, 0);
        if (p->rc == RC_OK)
            p->ops[choose].a = (int32_t)(next - choose);
        jinja_land(p, tested);
    }
    bool recursive = jinja_skip_name(p, "recursive");
    struct jinja_block *b = open_block(p, JINJA_BLOCK_FOR);
    b->loop = loop;
    b->begin = next;
    b->recursive = recursive;
    if (p->rc == RC_OK)
        p->ops[loop].b = flags | (recursive ? JINJA_FOR_RECURSIVE : 0);
    begin_body(p);
}

/* The end of a loop's body; its else, if any, follows. */
static void end_for_body(struct jinja_parser *p)
{
    struct jinja_block *b = innermost(p);
    uint32_t back = jinja_emit(p, JINJA_OP_AGAIN, 0, 0);
    if (p->rc == RC_OK)
        p->ops[back].a = (int32_t)b->begin - (int32_t)back;
    jinja_land(p, b->begin); /* NEXT and FOR know the exit */
    jinja_land(p, b->loop);
    b->ends = jinja_emit_linked(p, JINJA_OP_FOR_EXIT, JINJA_NOWHERE);
}

static void parse_for_else(struct jinja_parser *p)
{
    end_for_body(p);
    innermost(p)->kind = JINJA_BLOCK_FOR_ELSE;
    jinja_emit(p, JINJA_OP_SCOPE, 0, 0);
    begin_body(p);
}

static void end_for(struct jinja_parser *p)
{
    struct jinja_block *b = innermost(p);
    if (b->kind == JINJA_BLOCK_FOR)
        end_for_body(p);
    else
        jinja_emit(p, JINJA_OP_UNSCOPE, 0, 0);
    jinja_land_list(p, b->ends);
    if (b->recursive)
        jinja_emit(p, JINJA_OP_LOOP_RETURN, (int32_t)b->loop - (int32_t)p->op_count, 0);
    close_block(p);
    end_tag(p);
}

static void parse_set(struct jinja_parser *p)
{
    size_t begin = p->op_count;
    parse_target(p, true);
    struct jinja_snippet target = jinja_cut(p, begin);
    if (jinja_skip(p, JINJA_TOKEN_ASSIGN)) {
        jinja_expression(p, JINJA_EXPR_TUPLE);
        jinja_paste(p, &target);
        end_tag(p);
        return;
    }
    struct jinja_block *b = open_block(p, JINJA_BLOCK_SET);
    jinja_filters_behind(p, false);
    jinja_paste(p, &target);
    b->after = jinja_cut(p, begin);
    jinja_emit(p, JINJA_OP_CAPTURE, 0, 0);
    jinja_emit(p, JINJA_OP_SCOPE, 0, 0);
    begin_body(p);
}

static void parse_filter(struct jinja_parser *p)
{
    struct jinja_block *b = open_block(p, JINJA_BLOCK_FILTER);
    size_t begin = p->op_count;
    jinja_filters_behind(p, true);
    jinja_emit(p, JINJA_OP_OUTPUT, 0, 0);
    b->after = jinja_cut(p, begin);
    jinja_emit(p, JINJA_OP_CAPTURE, 0, 0);
    jinja_emit(p, JINJA_OP_SCOPE, 0, 0);
    begin_body(p);
}

/* The end of a set or filter block: what to do with the text. */
static void end_capture(struct jinja_parser *p)
{
    jinja_emit(p, JINJA_OP_UNSCOPE, 0, 0);
    jinja_emit(p, JINJA_OP_CAPTURED, 0, 0);
    jinja_paste(p, &innermost(p)->after);
    close_block(p);
    end_tag(p);
}

static void parse_with(struct jinja_parser *p)
{
    struct jinja_snippet targets[WITH_MAX];
    size_t count = 0;
    open_block(p, JINJA_BLOCK_WITH);
    while (p->rc == RC_OK && jinja_peek(p)->kind != JINJA_TOKEN_BLOCK_END) {
        if (count > 0)
            jinja_expect(p, JINJA_TOKEN_COMMA, ",");
        if (count == WITH_MAX)
            jinja_refuse(p, "over %u variables in one with", WITH_MAX);
        if (p->rc != RC_OK)
            return;
        size_t begin = p->op_count;
        if (jinja_peek(p)->kind == JINJA_TOKEN_LPAREN)
            parse_target(p, false);
        else
            store_name(p, false);
        targets[count++] = jinja_cut(p, begin);
        jinja_expect(p, JINJA_TOKEN_ASSIGN, "=");
        if (p->rc == RC_OK)
            jinja_expression(p, 0);
    }
    jinja_emit(p, JINJA_OP_SCOPE, 0, 0);
    while (count > 0)
        jinja_paste(p, &targets[--count]);
    begin_body(p);
}

static void parse_generation(struct jinja_parser *p)
{
    open_block(p, JINJA_BLOCK_GENERATION);
    jinja_emit(p, JINJA_OP_SCOPE, 0, 0);
    begin_body(p);
}

static void end_scope(struct jinja_parser *p)
{
    jinja_emit(p, JINJA_OP_UNSCOPE, 0, 0);
    close_block(p);
    end_tag(p);
}

/* --- macros --- */

/* Begins the code of a macro or call block; its name is on the way. */
static struct jinja_block *open_macro(struct jinja_parser *p, enum jinja_block_kind kind,
                                      int32_t name)
{
    struct jinja_block *b = open_block(p, kind);
    if (!jinja_more(p, &p->macros, p->macro_count, &p->macro_capacity, sizeof *p->macros))
        return b;
    b->macro = (uint32_t)p->macro_count++;
    p->macros[b->macro] = (struct jinja_macro){ .name = name };
    b->begin = jinja_emit(p, JINJA_OP_MACRO, (int32_t)b->macro, 0);
    return b;
}

/* One parameter with its default: code that stores the default where nothing was given. */
static void parse_parameter(struct jinja_parser *p, const struct jinja_block *b, bool *defaults)
{
    struct str text = jinja_peek(p)->text;
    jinja_expect(p, JINJA_TOKEN_NAME, "a parameter's name");
    int32_t name = jinja_intern(p, text);
    uint32_t skip = jinja_emit(p, JINJA_OP_DEFAULT, name, 0);
    if (jinja_skip(p, JINJA_TOKEN_ASSIGN)) {
        *defaults = true;
        jinja_expression(p, 0);
    } else {
        char hint[160];
        p->macros[b->macro].bare_caller |= name == JINJA_NAME_CALLER;
        if (*defaults)
            jinja_refuse(p, "non-default argument follows default argument");
        snprintf(hint, sizeof hint, "parameter '%.*s' was not provided",
                 text.len > 100 ? 100 : (int)text.len, text.text);
        jinja_emit(p, JINJA_OP_UNDEFINED, jinja_text_constant(p, str_of(hint)), 0);
    }
    jinja_emit(p, JINJA_OP_STORE, name, 0);
    if (p->rc != RC_OK)
        return;
    p->ops[skip].b = (int32_t)(p->op_count - skip);
    struct jinja_macro *m = &p->macros[b->macro];
    m->parameter_count++;
    m->own_caller |= name == JINJA_NAME_CALLER;
}

/* The parameters' names, read off their DEFAULTs. */
static void keep_parameters(struct jinja_parser *p, const struct jinja_block *b)
{
    struct jinja_macro *m = &p->macros[b->macro];
    uint32_t *names = jinja_heap_take(&p->j->heap, m->parameter_count * sizeof *names);
    if (names == NULL) {
        jinja_fail_memory(p, &p->j->heap);
        return;
    }
    size_t at = b->begin + 1;
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        names[i] = (uint32_t)p->ops[at].a;
        at += (size_t)p->ops[at].b;
    }
    m->parameters = names;
}

static void parse_parameters(struct jinja_parser *p, const struct jinja_block *b)
{
    bool defaults = false;
    jinja_expect(p, JINJA_TOKEN_LPAREN, "(");
    while (p->rc == RC_OK && !jinja_skip(p, JINJA_TOKEN_RPAREN)) {
        if (p->macros[b->macro].parameter_count > 0)
            jinja_expect(p, JINJA_TOKEN_COMMA, ",");
        if (p->rc == RC_OK)
            parse_parameter(p, b, &defaults);
    }
    if (p->rc == RC_OK)
        keep_parameters(p, b);
}

static void parse_macro(struct jinja_parser *p)
{
    struct str name = jinja_peek(p)->text;
    jinja_expect(p, JINJA_TOKEN_NAME, "a macro's name");
    struct jinja_block *b = open_macro(p, JINJA_BLOCK_MACRO, jinja_intern(p, name));
    if (p->rc == RC_OK)
        parse_parameters(p, b);
    begin_body(p);
}

static void end_macro_code(struct jinja_parser *p, const struct jinja_block *b)
{
    if (p->macros[b->macro].bare_caller && p->macros[b->macro].has_caller)
        jinja_refuse(p, "When defining macros or call blocks the special \"caller\" argument must "
                        "be omitted or be given a default.");
    jinja_emit(p, JINJA_OP_RETURN, 0, 0);
    if (p->rc == RC_OK)
        p->ops[b->begin].b = (int32_t)(p->op_count - b->begin);
}

static void end_macro(struct jinja_parser *p)
{
    struct jinja_block *b = innermost(p);
    end_macro_code(p, b);
    jinja_emit(p, JINJA_OP_STORE, p->macros[b->macro].name, 0);
    close_block(p);
    end_tag(p);
}

/* {% call(parameters) callee(arguments) %}: the parameters' code comes first in the source and
 * last in the code, so it is cut out in between. */
static void parse_call_block(struct jinja_parser *p)
{
    struct jinja_block *b = open_macro(p, JINJA_BLOCK_CALL, JINJA_NAMELESS);
    if (p->rc == RC_OK && jinja_peek(p)->kind == JINJA_TOKEN_LPAREN)
        parse_parameters(p, b);
    struct jinja_snippet head = jinja_cut(p, b->begin);
    uint32_t line = jinja_peek(p)->line;
    if (p->rc == RC_OK)
        jinja_expression(p, 0);
    if (p->rc == RC_OK && p->call_end != p->op_count) {
        jinja_refuse(p, "expected call (line %u)", line);
        return;
    }
    if (p->rc != RC_OK)
        return;
    b->arguments = p->ops[--p->op_count].a;
    b->begin = (uint32_t)p->op_count;
    jinja_paste(p, &head);
    begin_body(p);
}

static void end_call_block(struct jinja_parser *p)
{
    struct jinja_block *b = innermost(p);
    end_macro_code(p, b);
    jinja_emit(p, JINJA_OP_KEYWORD, jinja_text_constant(p, str_of("caller")), 0);
    jinja_emit(p, JINJA_OP_CALL, b->arguments + 1, 0);
    jinja_emit(p, JINJA_OP_OUTPUT, 0, 0);
    close_block(p);
    end_tag(p);
}

/* --- the rest --- */

static void parse_print(struct jinja_parser *p)
{
    for (bool more = true; p->rc == RC_OK && more; more = jinja_skip(p, JINJA_TOKEN_COMMA)) {
        jinja_expression(p, 0);
        jinja_emit(p, JINJA_OP_OUTPUT, 0, 0);
    }
    end_tag(p);
}

static void parse_jump(struct jinja_parser *p, enum jinja_opcode code)
{
    bool inside = false;
    for (size_t i = p->block_count; i-- > 0 && !inside;) {
        if (p->blocks[i].kind == JINJA_BLOCK_MACRO || p->blocks[i].kind == JINJA_BLOCK_CALL)
            break;
        inside = p->blocks[i].kind == JINJA_BLOCK_FOR;
    }
    if (!inside)
        jinja_refuse(p, "break or continue outside a loop");
    jinja_emit(p, code, 0, 0);
    end_tag(p);
}

typedef void end_fn(struct jinja_parser *p);

/* Tags that end a block, and what the innermost block must be. */
static bool parse_end(struct jinja_parser *p, const struct jinja_token *t)
{
    static const struct {
        const char *tag;
        enum jinja_block_kind kind;
        end_fn *end;
    } ends[] = {
        { "endif", JINJA_BLOCK_IF, end_if },
        { "endfor", JINJA_BLOCK_FOR, end_for },
        { "endfor", JINJA_BLOCK_FOR_ELSE, end_for },
        { "endset", JINJA_BLOCK_SET, end_capture },
        { "endfilter", JINJA_BLOCK_FILTER, end_capture },
        { "endmacro", JINJA_BLOCK_MACRO, end_macro },
        { "endcall", JINJA_BLOCK_CALL, end_call_block },
        { "endwith", JINJA_BLOCK_WITH, end_scope },
        { "endgeneration", JINJA_BLOCK_GENERATION, end_scope },
    };
    for (size_t i = 0; p->block_count > 0 && i < sizeof ends / sizeof ends[0]; i++) {
        if (jinja_is_name(t, ends[i].tag) && innermost(p)->kind == ends[i].kind) {
            p->at++;
            ends[i].end(p);
            return true;
        }
    }
    return false;
}

/* elif and else of the innermost block. */
static bool parse_branch(struct jinja_parser *p, const struct jinja_token *t)
{
    bool otherwise = jinja_is_name(t, "else");
    if (p->block_count == 0 || !(otherwise || jinja_is_name(t, "elif")))
        return false;
    const struct jinja_block *b = innermost(p);
    if (b->kind == JINJA_BLOCK_IF && b->next != JINJA_NOWHERE) {
        p->at++;
        parse_elif(p, !otherwise);
        return true;
    }
    if (b->kind != JINJA_BLOCK_FOR || !otherwise)
        return false;
    p->at++;
    parse_for_else(p);
    return true;
}

static void refuse_tag(struct jinja_parser *p, const struct jinja_token *t)
{
    static const char *const others[] = { "include", "import", "from",
                                          "extends", "block",  "autoescape" };
    for (size_t i = 0; p->rc == RC_OK && i < sizeof others / sizeof others[0]; i++)
        if (jinja_is_name(t, others[i]))
            p->rc = fault_set(p->fault, RC_UNSUPPORTED,
                              "template line %u: {%% %s %%} is not supported", t->line, others[i]);
    if (t->kind == JINJA_TOKEN_NAME)
        jinja_refuse(p, "Encountered unknown tag '%.*s'.%s",
                     t->text.len > 60 ? 60 : (int)t->text.len, t->text.text,
                     p->block_count > 0 ? " A block inside is still open." : "");
    else
        jinja_refuse(p, "tag name expected");
}

static void parse_statement(struct jinja_parser *p)
{
    static const struct {
        const char *tag;
        end_fn *begin;
    } begins[] = {
        { "if", parse_if },           { "for", parse_for },
        { "set", parse_set },         { "macro", parse_macro },
        { "call", parse_call_block }, { "filter", parse_filter },
        { "with", parse_with },       { "generation", parse_generation },
        { "print", parse_print },
    };
    const struct jinja_token *t = jinja_peek(p);
    if (parse_end(p, t) || parse_branch(p, t))
        return;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (jinja_is_name(t, begins[i].tag)) {
            p->at++;
            begins[i].begin(p);
            return;
        }
    }
    if (jinja_is_name(t, "break") || jinja_is_name(t, "continue")) {
        p->at++;
        parse_jump(p, jinja_is_name(t, "break") ? JINJA_OP_BREAK : JINJA_OP_CONTINUE);
        return;
    }
    refuse_tag(p, t);
}

static void parse_template(struct jinja_parser *p)
{
    while (p->rc == RC_OK) {
        const struct jinja_token *t = jinja_peek(p);
        if (t->kind == JINJA_TOKEN_END)
            break;
        p->at++;
        if (t->kind == JINJA_TOKEN_DATA) {
            jinja_emit(p, JINJA_OP_TEXT, jinja_text_constant(p, t->text), 0);
        } else if (t->kind == JINJA_TOKEN_PRINT) {
            jinja_expression(p, JINJA_EXPR_TUPLE);
            jinja_emit(p, JINJA_OP_OUTPUT, 0, 0);
            jinja_expect(p, JINJA_TOKEN_PRINT_END, "end of print statement");
        } else {
            must(t->kind == JINJA_TOKEN_BLOCK);
            parse_statement(p);
        }
    }
    if (p->block_count > 0)
        jinja_refuse(p, "Unexpected end of template: the block of line %u is not closed",
                     innermost(p)->line);
    jinja_emit(p, JINJA_OP_END, 0, 0);
}

static void refuse_unknown(struct jinja_parser *p)
{
    for (size_t i = 0; p->rc == RC_OK && i < p->op_count; i++) {
        const struct jinja_op *op = &p->ops[i];
        if (!op->hard)
            continue;
        const struct jinja_text *name = p->constants[-1 - op->b].as.text;
        p->rc = fault_set(p->fault, RC_INVALID,
                          "template line %u: TemplateAssertionError: No %s named '%.*s'.", op->line,
                          op->code == JINJA_OP_FILTER ? "filter" : "test",
                          name->len > 60 ? 60 : (int)name->len, name->bytes);
    }
}

/* A copy of an array in the template's own memory. */
static const void *keep(struct jinja_parser *p, const void *array, size_t count, size_t size)
{
    void *copy = p->rc == RC_OK ? jinja_heap_take(&p->j->heap, count * size) : NULL;
    if (copy == NULL)
        jinja_fail_memory(p, &p->j->heap);
    else if (count > 0)
        memcpy(copy, array, count * size);
    return copy;
}

static enum rc compile_tokens(struct jinja_parser *p)
{
    static const char *const known[JINJA_NAME_COUNT] = { "loop", "caller", "varargs", "kwargs" };
    struct jinja *j = p->j;
    for (size_t i = 0; i < JINJA_NAME_COUNT; i++)
        (void)jinja_intern(p, str_of(known[i]));
    parse_template(p);
    refuse_unknown(p);
    j->ops = keep(p, p->ops, p->op_count, sizeof *p->ops);
    j->op_count = p->op_count;
    j->constants = keep(p, p->constants, p->constant_count, sizeof *p->constants);
    j->constant_count = p->constant_count;
    j->names = keep(p, p->names, p->name_count, sizeof *p->names);
    j->name_count = p->name_count;
    j->macros = keep(p, p->macros, p->macro_count, sizeof *p->macros);
    j->macro_count = p->macro_count;
    return p->rc;
}

enum rc jinja_compile(struct jinja *j, const char *source, size_t len, struct fault *fault)
{
    struct jinja_heap heap;
    struct jinja_token *tokens;
    size_t count;
    jinja_heap_open(&heap, COMPILE_BYTES_MAX);
    struct jinja_parser *p = jinja_heap_take(&heap, sizeof *p);
    enum rc rc = RC_NO_MEMORY;
    if (p == NULL) {
        jinja_heap_close(&heap);
        return fault_set(fault, rc, "no memory for the template");
    }
    memset(p, 0, sizeof *p);
    p->j = j;
    p->heap = &heap;
    p->fault = fault;
    rc = jinja_lex(&tokens, &count, &heap, (struct str){ source, len }, fault);
    if (rc == RC_OK) {
        p->tokens = tokens;
        rc = name_table_open(&p->name_table, (uint32_t)count + JINJA_NAME_COUNT);
        if (rc != RC_OK)
            fault_set(fault, rc, "no memory for the template's names");
    }
    if (rc == RC_OK)
        rc = compile_tokens(p);
    name_table_close(&p->name_table);
    jinja_heap_close(&heap);
    return rc;
}
