/* SPDX-License-Identifier: MIT */
/* answer_impl - what the files of the answer reader share. Nobody else includes it.
 *   steps   answer_step reads what it can from the front of the pending text: RC_OK to be called
 *           again, RC_AGAIN when it needs more text; after answer_end it must not need more */
#ifndef QUIRE_FRONTEND_API_ANSWER_IMPL_H
#define QUIRE_FRONTEND_API_ANSWER_IMPL_H

#include "frontend/api/answer.h"

enum answer_state {
    ANSWER_START,       /* nothing but blanks so far: a thought may open */
    ANSWER_THOUGHT,     /* inside one */
    ANSWER_AFTER,       /* blanks behind it */
    ANSWER_FRESH,       /* a bare call may begin */
    ANSWER_TEXT,        /* content */
    ANSWER_CALL_STATES, /* from here on: inside a call, answer_call.c */
    ANSWER_TAG,         /* behind <tool_call> */
    ANSWER_NAME,        /* Mistral: behind [TOOL_CALLS] */
    ANSWER_ID,          /* behind [CALL_ID] */
    ANSWER_ARGUMENTS,   /* behind [ARGS] */
    ANSWER_ITEM,        /* before an object, or in a list of them */
    ANSWER_MEMBER,      /* in an object, before a name */
    ANSWER_KEY,
    ANSWER_COLON,
    ANSWER_VALUE,
    ANSWER_FUNCTION,  /* behind <function= */
    ANSWER_BODY,      /* between parameters */
    ANSWER_PARAMETER, /* behind <parameter= */
    ANSWER_CONTENT,   /* a parameter's value */
    ANSWER_CLOSE,     /* behind a call */
    ANSWER_MORE,      /* behind a bare call: another one may follow */
    ANSWER_SKIP       /* the rest of a broken call */
};

enum answer_match { MATCH_NONE, MATCH_PART, MATCH_WHOLE };

#define MARK_TAG "<tool_call>"
#define MARK_TAG_END "</tool_call>"
#define MARK_FUNCTION "<function="
#define MARK_PYTHON "<|python_tag|>"
#define MARK_MISTRAL "[TOOL_CALLS]"

/* What is not yet read. */
static inline const char *answer_pending(const struct answer *a)
{
    return a->in.data + a->at;
}

static inline size_t answer_left(const struct answer *a)
{
    return a->in.len - a->at;
}

static inline bool answer_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* answer_blanks - blanks at the front of the pending text. */
size_t answer_blanks(const struct answer *a);

/* answer_begins - whether the pending text, from byte `from`, begins with a mark; what may become
 * one when more comes is a part, which after the end is none. */
enum answer_match answer_begins(const struct answer *a, size_t from, const char *mark);

/* answer_find - where the mark is in the pending text, SIZE_MAX = nowhere. answer_tail - length of
 * the pending text's end that may be the beginning of the mark. */
size_t answer_find(const struct answer *a, const char *mark);
size_t answer_tail(const struct answer *a, const char *mark);

/* answer_call_begin - a call seems to begin; its first `len` pending bytes are read. */
enum rc answer_call_begin(struct answer *a, size_t len, enum answer_state state,
                          bool bare) ATTR_MUST_USE;

/* answer_call_step - a step inside a call. answer_call_end - the text ended inside one. */
enum rc answer_call_step(struct answer *a) ATTR_MUST_USE;
enum rc answer_call_end(struct answer *a) ATTR_MUST_USE;

/* answer_parameter_step - the same for the states of <function=..>. */
enum rc answer_parameter_step(struct answer *a) ATTR_MUST_USE;

/* Shared by both kinds of calls: reads bytes as part of the call; makes it sure; its end; a byte
 * that no call has. */
enum rc answer_take(struct answer *a, size_t len) ATTR_MUST_USE;
enum rc answer_commit(struct answer *a) ATTR_MUST_USE;
enum rc answer_complete(struct answer *a) ATTR_MUST_USE;
enum rc answer_bad(struct answer *a) ATTR_MUST_USE;

#endif
