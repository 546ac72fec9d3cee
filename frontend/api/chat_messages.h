/* SPDX-License-Identifier: MIT */
/* chat_messages - OpenAI's messages brought into the one shape that a template understands.
 *   owner    the caller owns the result; the input is not changed
 *   thread   any, no state
 *   errors   RC_INVALID with the field ("messages[2].content ..."), RC_NO_MEMORY
 * What is done to every conversation: content becomes a text (parts are joined with a newline,
 * null is empty), arguments of calls become an object (or a text), missing ids, types and names of
 * tools are filled in. What is done for templates that lack something: a system turn goes in front
 * of the first user turn, developer is system, tools, calls and results are written as text. */
#ifndef QUIRE_FRONTEND_API_CHAT_MESSAGES_H
#define QUIRE_FRONTEND_API_CHAT_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "core/attr.h"
#include "core/err.h"

/* What a template can do; learned by chat_template_open, shown in /props. */
struct chat_caps {
    bool system;            /* has a turn for the system */
    bool developer;         /* and one for the developer */
    bool tools;             /* shows the tools */
    bool tool_calls;        /* shows the calls of an assistant */
    bool tool_results;      /* has a turn for results */
    bool text_arguments;    /* wants arguments of calls as a text, not an object */
    bool parts;             /* wants content as a list of parts */
    bool short_ids;         /* wants ids of calls to have nine letters or digits */
    bool thinking;          /* enable_thinking changes something */
    bool generation_prompt; /* add_generation_prompt changes something */
};

/* chat_messages_normalize - a new list. tools may be NULL; they are written into it where the
 * template does not show them. */
enum rc chat_messages_normalize(json_t **out, json_t *messages, json_t *tools,
                                const struct chat_caps *caps, struct fault *fault) ATTR_MUST_USE;

#endif
