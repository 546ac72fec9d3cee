/* SPDX-License-Identifier: MIT */
/* str - see str.h. strtod is used only on text whose every byte has been looked at: without that it
 * would take blanks, hexadecimal, "inf" and "nan". The program never calls setlocale, so its point
 * is '.'. */
#include "core/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define F64_TEXT_MAX 63u

struct str str_of(const char *zero_terminated)
{
    return (struct str){ zero_terminated, zero_terminated == NULL ? 0 : strlen(zero_terminated) };
}

bool str_equal(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.text, b.text, a.len) == 0);
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_equal((struct str){ s.text, prefix.len }, prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    if (s.len < suffix.len)
        return false;
    return suffix.len == 0 || memcmp(s.text + (s.len - suffix.len), suffix.text, suffix.len) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_blank(s.text[s.len - 1]))
        s.len--;
    while (s.len > 0 && is_blank(s.text[0])) {
        s.text++;
        s.len--;
    }
    return s;
}

bool str_cut(struct str *rest, char separator, struct str *part)
{
    if (rest->text == NULL)
        return false;
    const char *end = rest->len == 0 ? NULL : memchr(rest->text, separator, rest->len);
    if (end == NULL) {
        *part = *rest;
        *rest = (struct str){ NULL, 0 };
        return true;
    }
    size_t len = (size_t)(end - rest->text);
    *part = (struct str){ rest->text, len };
    *rest = (struct str){ end + 1, rest->len - len - 1 };
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Moves *at over digits and adds them to *value; false on overflow. */
static bool take_digits(struct str s, size_t *at, uint64_t *value)
{
    for (; *at < s.len && is_digit(s.text[*at]); ++*at) {
        if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(s.text[*at] - '0'), value))
            return false;
    }
    return true;
}

static bool parse_digits(struct str s, uint64_t *out)
{
    size_t at = 0;
    uint64_t value = 0;
    if (s.len == 0 || !take_digits(s, &at, &value) || at != s.len)
        return false;
    *out = value;
    return true;
}

bool str_parse_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value;
    if (!parse_digits(s, &value) || value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool str_parse_u32(struct str s, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t value;
    if (!str_parse_u64(s, min, max, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

bool str_parse_i64(struct str s, int64_t min, int64_t max, int64_t *out)
{
    bool negative = s.len > 0 && s.text[0] == '-';
    uint64_t size;
    if (!parse_digits(negative ? (struct str){ s.text + 1, s.len - 1 } : s, &size) ||
        size > (uint64_t)INT64_MAX + negative)
        return false;
    int64_t value = (int64_t)(negative ? 0 - size : size);
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

static size_t skip_digits(struct str s, size_t at)
{
    while (at < s.len && is_digit(s.text[at]))
        at++;
    return at;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit on at least one side of the point. */
static bool is_decimal(struct str s)
{
    size_t at = s.len > 0 && (s.text[0] == '+' || s.text[0] == '-');
    size_t whole = skip_digits(s, at), end = whole;
    if (whole < s.len && s.text[whole] == '.')
        end = skip_digits(s, whole + 1);
    if (whole == at && end <= whole + 1)
        return false;
    if (end < s.len && (s.text[end] == 'e' || s.text[end] == 'E')) {
        at = end + 1;
        at += at < s.len && (s.text[at] == '+' || s.text[at] == '-');
        end = skip_digits(s, at);
        if (end == at)
            return false;
    }
    return end == s.len;
}

bool str_parse_f64(struct str s, double min, double max, double *out)
{
    char copy[F64_TEXT_MAX + 1];
    if (s.len > F64_TEXT_MAX || !is_decimal(s))
        return false;
    memcpy(copy, s.text, s.len);
    copy[s.len] = '\0';
    double value = strtod(copy, NULL);
    if (!isfinite(value) || value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* Factor of a suffix; 1 for none, 0 for what is no suffix. */
static uint64_t suffix_factor(struct str s)
{
    static const char thousands[] = "kmgt", binaries[] = "KMGT";
    if (s.len == 0)
        return 1;
    bool binary_word = s.len == 3 && s.text[1] == 'i' && s.text[2] == 'B';
    if (s.len != 1 && !binary_word)
        return 0;
    const char *binary = memchr(binaries, s.text[0], 4);
    const char *thousand = memchr(thousands, s.text[0], 4);
    if (binary != NULL)
        return (uint64_t)1 << 10 * (binary - binaries + 1);
    if (thousand == NULL || binary_word)
        return 0;
    uint64_t factor = 1000;
    for (; thousand > thousands; thousand--)
        factor *= 1000;
    return factor;
}

bool str_parse_size(struct str s, uint64_t min, uint64_t max, uint64_t *out)
{
    size_t at = 0;
    uint64_t digits = 0, divisor = 1; /* the value is digits / divisor * factor */
    if (!take_digits(s, &at, &digits) || at == 0)
        return false;
    if (at < s.len && s.text[at] == '.') {
        size_t begin = ++at;
        if (!take_digits(s, &at, &digits) || at == begin || at - begin > 18)
            return false;
        for (; begin < at; begin++)
            divisor *= 10;
    }
    uint64_t factor = suffix_factor((struct str){ s.text + at, s.len - at });
    uint64_t value;
    if (factor == 0 || __builtin_mul_overflow(digits, factor, &value) || value % divisor != 0)
        return false;
    value /= divisor;
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* First byte to its length (0: cannot begin a character) and to the range of the second byte, which
 * is where overlong forms, surrogates and codes over U+10FFFF show. */
static unsigned lead_length(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2)
        return 0;
    if (lead < 0xe0)
        return 2;
    if (lead < 0xf0) {
        if (lead == 0xe0)
            *low = 0xa0;
        if (lead == 0xed)
            *high = 0x9f;
        return 3;
    }
    if (lead > 0xf4)
        return 0;
    if (lead == 0xf0)
        *low = 0x90;
    if (lead == 0xf4)
        *high = 0x8f;
    return 4;
}

struct utf8_step utf8_decode(const char *text, size_t len)
{
    const uint8_t *p = (const uint8_t *)text;
    uint8_t low, high;
    unsigned want = lead_length(p[0], &low, &high);
    if (want <= 1)
        return (struct utf8_step){ want == 1 ? UTF8_OK : UTF8_BAD, 1,
                                   want == 1 ? p[0] : UTF8_REPLACEMENT };
    uint32_t code = p[0] & (0x7fu >> want);
    for (unsigned i = 1; i < want; i++) {
        if (i == len)
            return (struct utf8_step){ UTF8_SHORT, (uint8_t)i, UTF8_REPLACEMENT };
        if (p[i] < low || p[i] > high)
            return (struct utf8_step){ UTF8_BAD, (uint8_t)i, UTF8_REPLACEMENT };
        code = code << 6 | (p[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    return (struct utf8_step){ UTF8_OK, (uint8_t)want, code };
}

size_t utf8_encode(char out[4], uint32_t code)
{
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        code = UTF8_REPLACEMENT;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(leads[len] | code);
    return len;
}

bool utf8_valid(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct utf8_step step = utf8_decode(text + at, len - at);
        if (step.state != UTF8_OK)
            return false;
        at += step.len;
    }
    return true;
}
