/* SPDX-License-Identifier: MIT */
/* span - whose text is it: the stretches of a prompt that a template wrote and those that users
 * wrote. Made by a render, read by the tokenizer. Plain values, any thread. */
#ifndef QUIRE_CORE_SPAN_H
#define QUIRE_CORE_SPAN_H

#include <stdbool.h>
#include <stddef.h>

/* A stretch that ends before byte `end` and begins where the one before it ended. Control tokens
 * are recognized only where all their bytes are the template's own; that is the only thing spans
 * say, text between two control tokens is one text. */
struct text_span {
    size_t end;
    bool user; /* it holds what users wrote */
};

#endif
