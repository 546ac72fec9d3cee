/* SPDX-License-Identifier: MIT */
/* jinja_text - texts of a run: building them piece by piece with the origin of every byte, taking
 * parts of them, and what Python knows about characters (case, blanks, kinds).
 *   owner    the run's heap; a part shares the bytes of its whole
 *   errors   false: the run has failed (memory, text limit)
 *   source   Unicode categories and simple case maps from utf8proc; SpecialCasing.txt of Unicode
 *            15 */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_TEXT_H
#define QUIRE_FRONTEND_JINJA_JINJA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/str.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_run;

/* A text that grows. Zero it before the first use. */
struct jinja_builder {
    char *bytes;
    uint8_t *marks; /* NULL while all bytes have one origin */
    size_t len, capacity;
    bool user; /* that origin */
};

bool jinja_put(struct jinja_run *r, struct jinja_builder *b, const char *bytes, size_t len,
               bool user) ATTR_MUST_USE;
bool jinja_put_word(struct jinja_run *r, struct jinja_builder *b, const char *zero_terminated,
                    bool user) ATTR_MUST_USE;
bool jinja_put_code(struct jinja_run *r, struct jinja_builder *b, uint32_t code,
                    bool user) ATTR_MUST_USE;
bool jinja_put_text(struct jinja_run *r, struct jinja_builder *b,
                    const struct jinja_text *t) ATTR_MUST_USE;
bool jinja_put_part(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                    size_t begin, size_t end) ATTR_MUST_USE;
bool jinja_put_times(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                     size_t times) ATTR_MUST_USE;

/* jinja_built - the text; the builder must not be used again. */
bool jinja_built(struct jinja_run *r, struct jinja_value *out,
                 const struct jinja_builder *b) ATTR_MUST_USE;

/* jinja_text_of - a text of bytes that outlive the run, not copied. jinja_part - bytes begin .. end
 * of t. jinja_as_markup - the same text, escaped already or not to be. */
bool jinja_text_of(struct jinja_run *r, struct jinja_value *out, struct str s,
                   bool user) ATTR_MUST_USE;
bool jinja_part(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                size_t begin, size_t end) ATTR_MUST_USE;
bool jinja_as_markup(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                     bool markup) ATTR_MUST_USE;

/* jinja_user_at - origin of a byte. jinja_any_user - of any byte. */
bool jinja_user_at(const struct jinja_text *t, size_t byte);
bool jinja_any_user(const struct jinja_text *t);

size_t jinja_count_chars(const char *bytes, size_t len);

/* jinja_offset - byte where character `index` begins; len for those behind the end. */
size_t jinja_offset(const struct jinja_text *t, size_t index);

/* jinja_walk - byte of the character `chars` further on, or back; it must be there. */
size_t jinja_walk(const struct jinja_text *t, size_t byte, int64_t chars);

/* jinja_char - the character at a byte, which begins one; its length in bytes to *len. */
uint32_t jinja_char(const struct jinja_text *t, size_t byte, size_t *len);

/* jinja_search - byte of the first (last) place of needle in bytes begin .. end of t; SIZE_MAX:
 * none. The last one may cost as much as both lengths multiplied, so it is paid for as it goes. */
size_t jinja_search(const struct jinja_text *t, struct str needle, size_t begin, size_t end);
bool jinja_search_last(struct jinja_run *r, size_t *out, const struct jinja_text *t,
                       struct str needle, size_t begin, size_t end) ATTR_MUST_USE;

bool jinja_is_blank(uint32_t code); /* str.isspace */
bool jinja_is_line_end(uint32_t code);
bool jinja_is_printable(uint32_t code);
bool jinja_is_upper(uint32_t code);
bool jinja_is_lower(uint32_t code);
bool jinja_is_cased(uint32_t code);
bool jinja_is_alpha(uint32_t code);
bool jinja_is_word(uint32_t code); /* \w of Python's re */

enum jinja_case { JINJA_CASE_LOWER, JINJA_CASE_UPPER, JINJA_CASE_TITLE, JINJA_CASE_FOLD };

/* jinja_put_case - bytes begin .. end of t in another case. JINJA_CASE_TITLE treats each character
 * as the first of a word. */
bool jinja_put_case(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                    size_t begin, size_t end, enum jinja_case how) ATTR_MUST_USE;

#endif
