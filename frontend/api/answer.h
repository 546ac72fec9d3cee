/* SPDX-License-Identifier: MIT */
/* answer - a chat model's text as it grows, taken apart: reasoning, content, tool calls.
 *   whatever   any cut of the text into pushes gives the same answer; each part only grows
 *   odd text   what begins like a call and turns out to be none is content, as it was written; a
 *              call whose name is out and whose rest is broken keeps the arguments so far
 *   owner      the opener; tools are borrowed
 *   thread     one at a time
 *   errors     RC_NO_MEMORY
 *   source     what models write: Hermes and Qwen (<tool_call> around JSON), Qwen Coder
 *              (<function=..><parameter=..>), Llama 3 (<|python_tag|> or bare JSON), Mistral
 *              ([TOOL_CALLS] before a list, or name[ARGS]{..}) */
#ifndef QUIRE_FRONTEND_API_ANSWER_H
#define QUIRE_FRONTEND_API_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/attr.h"
#include "core/detok.h"
#include "core/err.h"

enum answer_calls { ANSWER_TAGS, ANSWER_LLAMA, ANSWER_MISTRAL };

/* How the model of a template writes. */
struct answer_style {
    enum answer_calls calls;
    const char *think_open, *think_close; /* NULL: it does not think aloud */
};

/* answer_style_of - learned from the template's source. answer_style_name - "hermes" .. */
struct answer_style answer_style_of(const char *source);
const char *answer_style_name(const struct answer_style *style);

/* answer_style_ids - the vocabulary's control tokens among the marks of a style; returns how many.
 * Answers are read with these tokens written out. */
#define ANSWER_MARKS_MAX 12u
uint32_t answer_style_ids(const struct answer_style *style, const struct tokenizer *t,
                          int32_t ids[ANSWER_MARKS_MAX]);

struct answer_call {
    struct text name;
    struct text arguments; /* JSON as far as the model wrote JSON */
    bool complete;
};

struct answer_config {
    struct answer_style style;
    json_t *tools;   /* the functions that may be called; NULL: calls stay text */
    bool one_call;   /* the answer is done after its first call */
    bool thinks;     /* reasoning is taken out of the text */
    bool in_thought; /* the prompt has opened it already */
};

/* A list that is being scanned for its end. */
struct answer_scan {
    uint32_t depth;
    bool in_string, escaped, begun;
    uint8_t lists[32]; /* bit per level: a list, not an object */
};

struct answer {
    struct answer_config config;
    struct text reasoning, content;
    struct answer_call *calls;
    uint32_t call_count;
    uint32_t broken_count; /* calls that ended in another way than they should */
    bool done;             /* one_call: it is there, the rest does not matter */

    /* reading; the business of answer.c and answer_call.c */
    int state;
    struct text in; /* what is not yet read, from `at` */
    size_t at;
    struct text raw;      /* a call from its mark on, until it is sure */
    struct text key;      /* of a member */
    struct text value;    /* of a member that must be whole before it is used */
    struct text function; /* the name, until the call is sure */
    uint32_t item_count;  /* calls since the mark */
    bool committed;       /* the call is sure: it is the last of calls */
    bool bare;            /* without a mark: its name must be a tool's */
    bool in_list;         /* calls in [..] */
    bool first_member;    /* no member of the object or function was read */
    bool ended, cut;      /* answer_end */
    int member;           /* what the value is for */
    struct answer_scan scan;
};

/* answer_open - copies config; the tools must live as long as the answer. */
void answer_open(struct answer *a, const struct answer_config *config);

/* answer_push - more text. answer_end - no more comes; cut: it was ended by a limit, so that half a
 * mark at its end is not shown. */
enum rc answer_push(struct answer *a, const char *text, size_t len) ATTR_MUST_USE;
enum rc answer_end(struct answer *a, bool cut) ATTR_MUST_USE;
void answer_close(struct answer *a);

#endif
