/* SPDX-License-Identifier: MIT */
/* jinja - see jinja.h. The parts, in the order a template goes through them:
 *   jinja_lexer       source -> tokens, whitespace control
 *   jinja_parser      statements  }  tokens -> instructions
 *   jinja_expression  expressions }
 *   jinja_import      JSON -> values
 *   jinja_machine     runs the instructions
 *     jinja_operators, jinja_call, jinja_methods, jinja_filters(_seq), jinja_tests: what they do
 *     jinja_value, jinja_text, jinja_case, jinja_strings, jinja_print, jinja_format: what they
 *     work on jinja_heap: where all of it lives */
#include "frontend/jinja/jinja.h"

#include <string.h>

#include "core/limits.h"
#include "core/mem.h"
#include "core/str.h"
#include "frontend/jinja/jinja_call.h"
#include "frontend/jinja/jinja_code.h"
#include "frontend/jinja/jinja_import.h"
#include "frontend/jinja/jinja_run.h"

#define HEAP_MAX (256u << 20) /* of a compiled template */

/* "\r\n" and "\r" are "\n"; one newline at the end does not count. */
static size_t unify_newlines(char *out, const char *source, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n')
            continue;
        out[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    return n - (n > 0 && out[n - 1] == '\n');
}

enum rc jinja_open(struct jinja **out, const char *source, size_t len, struct fault *fault)
{
    *out = NULL;
    if (len > TEMPLATE_BYTES_MAX)
        return fault_set(fault, RC_LIMIT, "a template of %zu bytes, at most %u", len,
                         TEMPLATE_BYTES_MAX);
    if (!utf8_valid(source, len))
        return fault_set(fault, RC_INVALID, "the template is not valid UTF-8");
    struct jinja *j = mem_alloc(sizeof *j);
    if (j == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for the template");
    jinja_heap_open(&j->heap, HEAP_MAX);
    enum rc rc = RC_NO_MEMORY;
    char *copy = jinja_heap_take(&j->heap, len + 1);
    if (copy == NULL)
        fault_set(fault, rc, "no memory for the template");
    else
        rc = jinja_compile(j, copy, unify_newlines(copy, source, len), fault);
    if (rc != RC_OK) {
        jinja_close(j);
        return rc;
    }
    *out = j;
    return RC_OK;
}

void jinja_close(struct jinja *j)
{
    if (j == NULL)
        return;
    jinja_heap_close(&j->heap);
    mem_free(j);
}

bool jinja_names(const struct jinja *j, const char *name)
{
    for (size_t i = 0; i < j->name_count; i++)
        if (str_equal(jinja_str(&j->names[i]), str_of(name)))
            return true;
    return false;
}

static void local_time(void *ctx, struct tm *out)
{
    (void)ctx;
    time_t now = time(NULL);
    if (localtime_r(&now, out) == NULL)
        *out = (struct tm){ .tm_year = 70, .tm_mday = 1, .tm_wday = 4 };
}

struct jinja_options jinja_options_default(void)
{
    return (struct jinja_options){ .limits = { .steps = TEMPLATE_STEPS_MAX,
                                               .memory_bytes = TEMPLATE_MEMORY_MAX,
                                               .text_bytes = TEMPLATE_TEXT_MAX,
                                               .depth = TEMPLATE_DEPTH_MAX },
                                   .calendar = { .now = local_time } };
}

/* --- variables --- */

/* Every name is what the caller gave, else a global function, else undefined. */
static bool fill_names(struct jinja_run *r)
{
    const struct jinja *j = r->j;
    r->root = jinja_take(r, j->name_count, sizeof *r->root);
    if (r->root == NULL)
        return false;
    for (size_t i = 0; i < j->name_count; i++) {
        struct str name = jinja_str(&j->names[i]);
        if (!jinja_global(&r->root[i], name) &&
            !jinja_new_undefined(r, &r->root[i], NULL, NULL, jinja_of_text(&j->names[i])))
            return false;
    }
    return true;
}

/* A variable that the template does not mention is not even looked at. */
static bool set_variable(struct jinja_run *r, const struct jinja_variable *v)
{
    for (size_t i = 0; i < r->j->name_count; i++)
        if (str_equal(jinja_str(&r->j->names[i]), str_of(v->name)))
            return jinja_import(r, &r->root[i], v->value, !v->trusted);
    return true;
}

/* --- output --- */

static size_t count_spans(const struct jinja_builder *b)
{
    size_t count = b->len > 0;
    for (size_t i = 1; b->marks != NULL && i < b->len; i++)
        count += b->marks[i] != b->marks[i - 1];
    return count;
}

static bool copy_output(struct jinja_output *out, const struct jinja_builder *b)
{
    out->span_count = count_spans(b);
    out->text = mem_alloc_raw(b->len + 1);
    out->spans = mem_alloc_array(out->span_count, sizeof *out->spans);
    if (out->text == NULL || out->spans == NULL)
        return false;
    if (b->len > 0)
        memcpy(out->text, b->bytes, b->len);
    out->text[b->len] = '\0';
    out->len = b->len;
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++) {
        bool user = b->marks != NULL ? b->marks[i] != 0 : b->user;
        if (i + 1 == b->len || (b->marks != NULL && b->marks[i] != b->marks[i + 1]))
            out->spans[n++] = (struct text_span){ i + 1, user };
        else if (b->marks == NULL)
            i = b->len - 2; /* on to the only end */
    }
    return true;
}

void jinja_output_close(struct jinja_output *o)
{
    mem_free(o->text);
    mem_free(o->spans);
    *o = (struct jinja_output){ 0 };
}

/* --- rendering --- */

static bool render(struct jinja_run *r, struct jinja_output *out,
                   const struct jinja_variable *variables, size_t variable_count)
{
    if (!fill_names(r))
        return false;
    for (size_t i = 0; i < variable_count; i++)
        if (!set_variable(r, &variables[i]))
            return false;
    if (!jinja_execute(r))
        return false;
    if (copy_output(out, &r->captures[0]))
        return true;
    r->rc = fault_set(r->fault, RC_NO_MEMORY, "no memory for the rendered text");
    return false;
}

enum rc jinja_render(struct jinja_output *out, const struct jinja *j,
                     const struct jinja_variable *variables, size_t variable_count,
                     const struct jinja_options *options, struct fault *fault)
{
    *out = (struct jinja_output){ 0 };
    struct jinja_run r = { .j = j,
                           .options = options,
                           .fault = fault,
                           .rc = RC_OK,
                           .steps_max = options->limits.steps,
                           .text_bytes_max = options->limits.text_bytes };
    r.steps_left = r.steps_max;
    jinja_heap_open(&r.heap, options->limits.memory_bytes);
    if (!render(&r, out, variables, variable_count))
        jinja_output_close(out);
    out->steps = r.steps_max - r.steps_left;
    out->memory_bytes = r.heap.used;
    jinja_heap_close(&r.heap);
    return r.rc;
}
