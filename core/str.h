/* SPDX-License-Identifier: MIT */
/* str - counted strings (any bytes, not terminated), numbers that match to their last byte,
 * steps over UTF-8.
 *   owner    a str points into somebody else's bytes and owns nothing
 *   thread   any, no state; nothing here depends on the locale
 *   errors   false, with the output untouched; the caller knows the field's name and writes the
 *            message
 *   source   Unicode 15, table 3-7 (well-formed UTF-8) and 3.9 (what one U+FFFD replaces) */
#ifndef QUIRE_CORE_STR_H
#define QUIRE_CORE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    const char *text; /* may be NULL when len is 0 */
    size_t len;
};

struct str str_of(const char *zero_terminated); /* NULL gives the empty string */
bool str_equal(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);

/* str_trim - without blanks, tabs and line ends at both ends. */
struct str str_trim(struct str s);

/* str_cut - takes the part before the first `separator` off the front of *rest, which then begins
 * after it; the whole of it when there is none. False when *rest was used up: an empty string has
 * one empty part. */
bool str_cut(struct str *rest, char separator, struct str *part);

/* Whole numbers: decimal digits and nothing else (str_parse_i64: a '-' before), in [min, max]. */
bool str_parse_u32(struct str s, uint32_t min, uint32_t max, uint32_t *out);
bool str_parse_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out);
bool str_parse_i64(struct str s, int64_t min, int64_t max, int64_t *out);

/* str_parse_f64 - decimal notation with optional sign, fraction and exponent; finite, within
 * [min, max]. */
bool str_parse_f64(struct str s, double min, double max, double *out);

/* str_parse_size - digits with an optional fraction and one suffix: k m g t are powers of 1000,
 * K M G T powers of 1024 ("iB" may follow these). The result must be whole: 25.6k is 25600, 25.6K
 * is refused. */
bool str_parse_size(struct str s, uint64_t min, uint64_t max, uint64_t *out);

enum utf8_state {
    UTF8_OK,    /* a character: code and len */
    UTF8_SHORT, /* the bytes end inside what may become a character: len is their number, 1..3 */
    UTF8_BAD    /* never valid: one U+FFFD stands for the next len bytes, 1..3 */
};

struct utf8_step {
    enum utf8_state state;
    uint8_t len;
    uint32_t code;
};

#define UTF8_REPLACEMENT 0xfffdu

/* utf8_decode - the character at the front of the bytes; len >= 1. Overlong forms, surrogates and
 * codes over U+10FFFF are bad. */
struct utf8_step utf8_decode(const char *text, size_t len);

/* utf8_encode - writes 1..4 bytes and returns how many; a code that is no character is written as
 * U+FFFD. */
size_t utf8_encode(char out[4], uint32_t code);

bool utf8_valid(const char *text, size_t len);

#endif
