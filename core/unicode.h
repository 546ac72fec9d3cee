/* SPDX-License-Identifier: MIT */
/* unicode - the few character classes that tokenizers ask for, and normalization form C.
 *   thread   any, no state
 *   errors   RC_NO_MEMORY from unicode_nfc; bad UTF-8 is passed through
 *   source   Unicode 15: categories, decompositions and compositions from libutf8proc */
#ifndef QUIRE_CORE_UNICODE_H
#define QUIRE_CORE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Classes, as bits. A character has at most one; symbols, marks, controls and unassigned have
 * none. */
enum unicode_class {
    UNICODE_LETTER = 1, /* \p{L} */
    UNICODE_NUMBER = 2, /* \p{N} */
    UNICODE_PUNCT = 4,  /* \p{P} */
    UNICODE_SPACE = 8   /* \s: the property White_Space, so tab and line feed too */
};
unsigned unicode_class(uint32_t cp);

/* unicode_in_ranges - cp lies in one of count ranges, both ends included, ascending. */
bool unicode_in_ranges(uint32_t cp, const uint32_t (*ranges)[2], size_t count);

/* unicode_nfc - text in normalization form C of Unicode 9, which is what tokenizers mean by it.
 * *out is NULL when text is in it already, else a block for mem_free. Bytes that are not UTF-8
 * stay as they are. Linear: long runs of marks are counting-sorted. work, if given, grows by the
 * characters handled. */
enum rc unicode_nfc(char **out, size_t *out_len, const char *text, size_t len,
                    uint64_t *work) ATTR_MUST_USE;

#endif
