/* SPDX-License-Identifier: MIT */
/* jinja_case - characters as Python's str sees them; declared in jinja_text.h.
 * One character may become several ("ß" -> "SS"), and a capital sigma at the end of a word has a
 * small letter of its own. */
#include "frontend/jinja/jinja_text.h"

#include <utf8proc.h>

#include "core/must.h"
#include "frontend/jinja/jinja_run.h"

#define SIGMA 0x3a3u
#define SIGMA_SMALL 0x3c3u
#define SIGMA_FINAL 0x3c2u
#define IOTA 0x399u
#define IOTA_BELOW 0x345u

struct expansion {
    uint16_t code;
    uint16_t upper[3]; /* 0 behind the last */
};

/* Characters whose capital form is several, without U+1F80 .. U+1FAF, which follow a rule. */
static const struct expansion expansions[] = {
    { 0x00df, { 0x0053, 0x0053, 0 } },      { 0x0149, { 0x02bc, 0x004e, 0 } },
    { 0x01f0, { 0x004a, 0x030c, 0 } },      { 0x0390, { 0x0399, 0x0308, 0x0301 } },
    { 0x03b0, { 0x03a5, 0x0308, 0x0301 } }, { 0x0587, { 0x0535, 0x0552, 0 } },
    { 0x1e96, { 0x0048, 0x0331, 0 } },      { 0x1e97, { 0x0054, 0x0308, 0 } },
    { 0x1e98, { 0x0057, 0x030a, 0 } },      { 0x1e99, { 0x0059, 0x030a, 0 } },
    { 0x1e9a, { 0x0041, 0x02be, 0 } },      { 0x1f50, { 0x03a5, 0x0313, 0 } },
    { 0x1f52, { 0x03a5, 0x0313, 0x0300 } }, { 0x1f54, { 0x03a5, 0x0313, 0x0301 } },
    { 0x1f56, { 0x03a5, 0x0313, 0x0342 } }, { 0x1fb2, { 0x1fba, 0x0399, 0 } },
    { 0x1fb3, { 0x0391, 0x0399, 0 } },      { 0x1fb4, { 0x0386, 0x0399, 0 } },
    { 0x1fb6, { 0x0391, 0x0342, 0 } },      { 0x1fb7, { 0x0391, 0x0342, 0x0399 } },
    { 0x1fbc, { 0x0391, 0x0399, 0 } },      { 0x1fc2, { 0x1fca, 0x0399, 0 } },
    { 0x1fc3, { 0x0397, 0x0399, 0 } },      { 0x1fc4, { 0x0389, 0x0399, 0 } },
    { 0x1fc6, { 0x0397, 0x0342, 0 } },      { 0x1fc7, { 0x0397, 0x0342, 0x0399 } },
    { 0x1fcc, { 0x0397, 0x0399, 0 } },      { 0x1fd2, { 0x0399, 0x0308, 0x0300 } },
    { 0x1fd3, { 0x0399, 0x0308, 0x0301 } }, { 0x1fd6, { 0x0399, 0x0342, 0 } },
    { 0x1fd7, { 0x0399, 0x0308, 0x0342 } }, { 0x1fe2, { 0x03a5, 0x0308, 0x0300 } },
    { 0x1fe3, { 0x03a5, 0x0308, 0x0301 } }, { 0x1fe4, { 0x03a1, 0x0313, 0 } },
    { 0x1fe6, { 0x03a5, 0x0342, 0 } },      { 0x1fe7, { 0x03a5, 0x0308, 0x0342 } },
    { 0x1ff2, { 0x1ffa, 0x0399, 0 } },      { 0x1ff3, { 0x03a9, 0x0399, 0 } },
    { 0x1ff4, { 0x038f, 0x0399, 0 } },      { 0x1ff6, { 0x03a9, 0x0342, 0 } },
    { 0x1ff7, { 0x03a9, 0x0342, 0x0399 } }, { 0x1ffc, { 0x03a9, 0x0399, 0 } },
    { 0xfb00, { 0x0046, 0x0046, 0 } },      { 0xfb01, { 0x0046, 0x0049, 0 } },
    { 0xfb02, { 0x0046, 0x004c, 0 } },      { 0xfb03, { 0x0046, 0x0046, 0x0049 } },
    { 0xfb04, { 0x0046, 0x0046, 0x004c } }, { 0xfb05, { 0x0053, 0x0054, 0 } },
    { 0xfb06, { 0x0053, 0x0054, 0 } },      { 0xfb13, { 0x0544, 0x0546, 0 } },
    { 0xfb14, { 0x0544, 0x0535, 0 } },      { 0xfb15, { 0x0544, 0x053b, 0 } },
    { 0xfb16, { 0x054e, 0x0546, 0 } },      { 0xfb17, { 0x0544, 0x053d, 0 } },
};

static utf8proc_category_t category(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

bool jinja_is_blank(uint32_t code)
{
    if (code <= 0x20)
        return code == 0x20 || (code >= 0x09 && code <= 0x0d) || code >= 0x1c;
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool jinja_is_line_end(uint32_t code)
{
    return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

bool jinja_is_printable(uint32_t code)
{
    if (code == ' ')
        return true;
    utf8proc_category_t c = category(code);
    return c != UTF8PROC_CATEGORY_CN && c < UTF8PROC_CATEGORY_ZS;
}

bool jinja_is_upper(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LU || (code >= 0x2160 && code <= 0x216f) ||
           (code >= 0x24b6 && code <= 0x24cf);
}

bool jinja_is_lower(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LL || code == 0xaa || code == 0xba ||
           (code >= 0x2170 && code <= 0x217f) || (code >= 0x24d0 && code <= 0x24e9);
}

bool jinja_is_cased(uint32_t code)
{
    return jinja_is_upper(code) || jinja_is_lower(code) || category(code) == UTF8PROC_CATEGORY_LT;
}

bool jinja_is_alpha(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool jinja_is_word(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return jinja_is_alpha(code) || code == '_' ||
           (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

/* Characters that do not end a word when a sigma's place in it is looked at. */
static bool is_ignorable(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2019 ||
           c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

/* The sigma at `at`: final when a letter is before it in the text and none behind. */
static bool is_final_sigma(const struct jinja_text *t, size_t at)
{
    size_t len, i = at;
    bool before = false;
    while (i > 0) {
        i = jinja_walk(t, i, -1);
        uint32_t code = jinja_char(t, i, &len);
        if (!is_ignorable(code)) {
            before = jinja_is_cased(code);
            break;
        }
    }
    if (!before)
        return false;
    (void)jinja_char(t, at, &len);
    for (i = at + len; i < t->len; i += len) {
        uint32_t code = jinja_char(t, i, &len);
        if (!is_ignorable(code))
            return !jinja_is_cased(code);
    }
    return true;
}

/* Capital form of code where it is several characters; returns how many, else 0. */
static size_t expand(uint32_t out[3], uint32_t code)
{
    if (code >= 0x1f80 && code <= 0x1faf) {
        static const uint16_t bases[3] = { 0x1f08, 0x1f28, 0x1f68 };
        out[0] = bases[(code - 0x1f80) >> 4] + (code & 7);
        out[1] = IOTA;
        return 2;
    }
    for (size_t i = 0; i < sizeof expansions / sizeof expansions[0]; i++) {
        if (expansions[i].code != code)
            continue;
        size_t count = 0;
        for (; count < 3 && expansions[i].upper[count] != 0; count++)
            out[count] = expansions[i].upper[count];
        return count;
    }
    return 0;
}

static size_t to_lower(uint32_t out[3], const struct jinja_text *t, size_t at, uint32_t code)
{
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    if (code == SIGMA)
        out[0] = is_final_sigma(t, at) ? SIGMA_FINAL : SIGMA_SMALL;
    if (code != 0x130)
        return 1;
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
}

static size_t to_upper(uint32_t out[3], uint32_t code, bool title)
{
    /* Greek letters with an iota below have a title form of their own, in one character. */
    bool single = (code >= 0x1f80 && code <= 0x1faf) || code == 0x1fb3 || code == 0x1fbc ||
                  code == 0x1fc3 || code == 0x1fcc || code == 0x1ff3 || code == 0x1ffc;
    size_t count = code < 0xdf || (title && single) ? 0 : expand(out, code);
    if (count == 0) {
        utf8proc_int32_t c = (utf8proc_int32_t)code;
        out[0] = (uint32_t)(title ? utf8proc_totitle(c) : utf8proc_toupper(c));
        return 1;
    }
    for (size_t i = 1; title && i < count; i++)
        out[i] = out[i] == IOTA && code >= 0x1f80
                     ? IOTA_BELOW
                     : (uint32_t)utf8proc_tolower((utf8proc_int32_t)out[i]);
    return count;
}

static size_t to_folded(uint32_t out[3], uint32_t code)
{
    utf8proc_int32_t folded[3];
    int boundary = 0;
    utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)code, folded, 3, UTF8PROC_CASEFOLD, &boundary);
    must(count >= 1 && count <= 3);
    for (utf8proc_ssize_t i = 0; i < count; i++)
        out[i] = (uint32_t)folded[i];
    return (size_t)count;
}

bool jinja_put_case(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                    size_t begin, size_t end, enum jinja_case how)
{
    size_t len;
    for (size_t i = begin; i < end; i += len) {
        uint32_t codes[3], code = jinja_char(t, i, &len);
        size_t count = how == JINJA_CASE_LOWER  ? to_lower(codes, t, i, code)
                       : how == JINJA_CASE_FOLD ? to_folded(codes, code)
                                                : to_upper(codes, code, how == JINJA_CASE_TITLE);
        for (size_t k = 0; k < count; k++)
            if (!jinja_put_code(r, b, codes[k], jinja_user_at(t, i)))
                return false;
    }
    return jinja_spend(r, end - begin);
}
