/* SPDX-License-Identifier: MIT */
/* jinja_strings - see jinja_strings.h. Results of markup are markup, as with Python's Markup. */
#include "frontend/jinja/jinja_strings.h"

#include <string.h>

#include <utf8proc.h>

#include "core/must.h"
#include "frontend/jinja/jinja_print.h"
#include "frontend/jinja/jinja_run.h"

static bool finish(struct jinja_run *r, struct jinja_value *out, const struct jinja_builder *b,
                   bool markup)
{
    return jinja_built(r, out, b) && jinja_as_markup(r, out, out->as.text, markup);
}

/* Where the character before byte `at` begins. */
static size_t step_back(const struct jinja_text *t, size_t at)
{
    return jinja_walk(t, at, -1);
}

static bool is_stripped(const struct jinja_text *t, size_t at, size_t len, uint32_t code,
                        const struct jinja_text *chars)
{
    if (chars == NULL)
        return jinja_is_blank(code);
    return jinja_search(chars, (struct str){ t->bytes + at, len }, 0, chars->len) != SIZE_MAX;
}

bool jinja_strip(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                 const struct jinja_text *chars, enum jinja_side side)
{
    size_t begin = 0, end = t->len, len;
    uint64_t cost = chars == NULL ? 1 : 1 + chars->len / 16;
    while ((side & JINJA_LEFT) != 0 && begin < end) {
        uint32_t code = jinja_char(t, begin, &len);
        if (!jinja_spend(r, cost))
            return false;
        if (!is_stripped(t, begin, len, code, chars))
            break;
        begin += len;
    }
    while ((side & JINJA_RIGHT) != 0 && end > begin) {
        size_t at = step_back(t, end);
        uint32_t code = jinja_char(t, at, &len);
        if (!jinja_spend(r, cost))
            return false;
        if (!is_stripped(t, at, len, code, chars))
            break;
        end = at;
    }
    return jinja_part(r, out, t, begin, end);
}

/* --- splitting --- */

/* Parts as they are found; a list of them in the end. */
struct parts {
    struct jinja_value *items;
    size_t count, capacity;
};

static bool add_part(struct jinja_run *r, struct parts *p, const struct jinja_text *t, size_t begin,
                     size_t end)
{
    if (!jinja_spend(r, 1) || !jinja_room(r, &p->items, p->count, &p->capacity, sizeof *p->items))
        return false;
    return jinja_part(r, &p->items[p->count++], t, begin, end);
}

static bool list_parts(struct jinja_run *r, struct jinja_seq **out, const struct parts *p,
                       bool reverse)
{
    if (!jinja_new_seq(r, out, JINJA_LIST, p->count))
        return false;
    for (size_t i = 0; i < p->count; i++)
        (*out)->items[i] = p->items[reverse ? p->count - 1 - i : i];
    return true;
}

static bool split_at(struct jinja_run *r, struct parts *p, const struct jinja_text *t,
                     const struct jinja_text *separator, uint64_t times)
{
    size_t at = 0;
    for (uint64_t i = 0; i < times; i++) {
        size_t found = jinja_search(t, jinja_str(separator), at, t->len);
        if (found == SIZE_MAX)
            break;
        if (!add_part(r, p, t, at, found))
            return false;
        at = found + separator->len;
    }
    return add_part(r, p, t, at, t->len);
}

static bool rsplit_at(struct jinja_run *r, struct parts *p, const struct jinja_text *t,
                      const struct jinja_text *separator, uint64_t times)
{
    size_t end = t->len;
    for (uint64_t i = 0; i < times; i++) {
        size_t found;
        if (!jinja_search_last(r, &found, t, jinja_str(separator), 0, end))
            return false;
        if (found == SIZE_MAX)
            break;
        if (!add_part(r, p, t, found + separator->len, end))
            return false;
        end = found;
    }
    return add_part(r, p, t, 0, end);
}

static bool split_blanks(struct jinja_run *r, struct parts *p, const struct jinja_text *t,
                         uint64_t times)
{
    size_t at = 0, len;
    for (;;) {
        while (at < t->len && jinja_is_blank(jinja_char(t, at, &len)))
            at += len;
        if (at == t->len)
            return true;
        size_t begin = at;
        if (times-- == 0)
            return add_part(r, p, t, begin, t->len);
        while (at < t->len && !jinja_is_blank(jinja_char(t, at, &len)))
            at += len;
        if (!add_part(r, p, t, begin, at))
            return false;
    }
}

static bool rsplit_blanks(struct jinja_run *r, struct parts *p, const struct jinja_text *t,
                          uint64_t times)
{
    size_t end = t->len, len;
    for (;;) {
        while (end > 0 && jinja_is_blank(jinja_char(t, step_back(t, end), &len)))
            end = step_back(t, end);
        if (end == 0)
            return true;
        size_t begin = end;
        if (times-- == 0)
            return add_part(r, p, t, 0, end);
        while (begin > 0 && !jinja_is_blank(jinja_char(t, step_back(t, begin), &len)))
            begin = step_back(t, begin);
        if (!add_part(r, p, t, begin, end))
            return false;
        end = begin;
    }
}

bool jinja_split(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                 const struct jinja_text *separator, int64_t times, enum jinja_side side)
{
    struct parts p = { 0 };
    struct jinja_seq *list;
    uint64_t limit = times < 0 ? UINT64_MAX : (uint64_t)times;
    bool right = side == JINJA_RIGHT, ok;
    if (separator != NULL && separator->len == 0)
        return jinja_fail(r, "ValueError: empty separator");
    if (separator != NULL)
        ok = right ? rsplit_at(r, &p, t, separator, limit) : split_at(r, &p, t, separator, limit);
    else
        ok = right ? rsplit_blanks(r, &p, t, limit) : split_blanks(r, &p, t, limit);
    if (!ok || !jinja_spend(r, t->len / 8) || !list_parts(r, &list, &p, right))
        return false;
    *out = jinja_of_seq(list);
    return true;
}

bool jinja_split_lines(struct jinja_run *r, struct jinja_seq **out, const struct jinja_text *t,
                       bool keep_ends)
{
    struct parts p = { 0 };
    size_t begin = 0, len;
    for (size_t at = 0; at < t->len;) {
        uint32_t code = jinja_char(t, at, &len);
        size_t end = at;
        at += len;
        if (!jinja_is_line_end(code))
            continue;
        if (code == '\r' && at < t->len && t->bytes[at] == '\n')
            at++;
        if (!add_part(r, &p, t, begin, keep_ends ? at : end))
            return false;
        begin = at;
    }
    if (begin < t->len && !add_part(r, &p, t, begin, t->len))
        return false;
    return jinja_spend(r, t->len / 8) && list_parts(r, out, &p, false);
}

bool jinja_partition(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                     const struct jinja_text *separator, enum jinja_side side)
{
    if (separator->len == 0)
        return jinja_fail(r, "ValueError: empty separator");
    size_t at = jinja_search(t, jinja_str(separator), 0, t->len);
    if (side == JINJA_RIGHT && !jinja_search_last(r, &at, t, jinja_str(separator), 0, t->len))
        return false;
    size_t cut[2] = { at, at + separator->len };
    if (at == SIZE_MAX)
        cut[0] = cut[1] = side == JINJA_RIGHT ? 0 : t->len;
    struct jinja_seq *s;
    if (!jinja_new_seq(r, &s, JINJA_TUPLE, 3) || !jinja_spend(r, t->len / 16))
        return false;
    *out = jinja_of_seq(s);
    return jinja_part(r, &s->items[0], t, 0, cut[0]) &&
           jinja_part(r, &s->items[1], t, cut[0], cut[1]) &&
           jinja_part(r, &s->items[2], t, cut[1], t->len);
}

/* --- replacing --- */

/* `to` before every character and at the end. */
static bool replace_nothing(struct jinja_run *r, struct jinja_builder *b,
                            const struct jinja_text *t, const struct jinja_text *to, uint64_t times)
{
    size_t at = 0, len;
    for (uint64_t i = 0; i < times && i <= t->chars; i++) {
        len = 0;
        if (at < t->len)
            (void)jinja_char(t, at, &len);
        if (!jinja_put_text(r, b, to) || !jinja_put_part(r, b, t, at, at + len) ||
            !jinja_spend(r, 1))
            return false;
        at += len;
    }
    return jinja_put_part(r, b, t, at, t->len);
}

bool jinja_replace(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                   const struct jinja_text *from, const struct jinja_text *to, int64_t times)
{
    struct jinja_builder b = { 0 };
    uint64_t limit = times < 0 ? UINT64_MAX : (uint64_t)times;
    if (t->markup && (!jinja_escape(r, &from, from) || !jinja_escape(r, &to, to)))
        return false;
    if (from->len == 0)
        return replace_nothing(r, &b, t, to, limit) && finish(r, out, &b, t->markup);
    size_t at = 0;
    for (uint64_t i = 0; i < limit; i++) {
        size_t found = jinja_search(t, jinja_str(from), at, t->len);
        if (found == SIZE_MAX)
            break;
        if (!jinja_put_part(r, &b, t, at, found) || !jinja_put_text(r, &b, to) ||
            !jinja_spend(r, 1))
            return false;
        at = found + from->len;
    }
    if (!jinja_spend(r, t->len / 16))
        return false;
    if (at == 0) {
        *out = jinja_of_text(t);
        return true;
    }
    return jinja_put_part(r, &b, t, at, t->len) && finish(r, out, &b, t->markup);
}

/* --- case --- */

bool jinja_recase(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                  enum jinja_case how)
{
    struct jinja_builder b = { 0 };
    return jinja_put_case(r, &b, t, 0, t->len, how) && finish(r, out, &b, t->markup);
}

bool jinja_capitalize(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t)
{
    struct jinja_builder b = { 0 };
    size_t first = jinja_offset(t, 1);
    return jinja_put_case(r, &b, t, 0, first, JINJA_CASE_TITLE) &&
           jinja_put_case(r, &b, t, first, t->len, JINJA_CASE_LOWER) &&
           finish(r, out, &b, t->markup);
}

bool jinja_titlecase(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t)
{
    struct jinja_builder b = { 0 };
    bool inside = false;
    size_t len;
    for (size_t at = 0; at < t->len; at += len) {
        uint32_t code = jinja_char(t, at, &len);
        if (!jinja_put_case(r, &b, t, at, at + len, inside ? JINJA_CASE_LOWER : JINJA_CASE_TITLE))
            return false;
        inside = jinja_is_cased(code);
    }
    return finish(r, out, &b, t->markup);
}

bool jinja_swapcase(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t)
{
    struct jinja_builder b = { 0 };
    size_t len;
    for (size_t at = 0; at < t->len; at += len) {
        uint32_t code = jinja_char(t, at, &len);
        bool ok = jinja_is_upper(code)   ? jinja_put_case(r, &b, t, at, at + len, JINJA_CASE_LOWER)
                  : jinja_is_lower(code) ? jinja_put_case(r, &b, t, at, at + len, JINJA_CASE_UPPER)
                                         : jinja_put_part(r, &b, t, at, at + len);
        if (!ok)
            return false;
    }
    return finish(r, out, &b, t->markup);
}

/* --- padding and joining --- */

static bool put_padding(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *fill,
                        size_t count)
{
    if (fill != NULL)
        return jinja_put_times(r, b, fill, count);
    struct jinja_text blank = { .bytes = " ", .len = 1, .chars = 1 };
    return jinja_put_times(r, b, &blank, count);
}

bool jinja_pad(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
               int64_t width, const struct jinja_text *fill, enum jinja_side side)
{
    if (fill != NULL && fill->chars != 1)
        return jinja_fail(r, "TypeError: The fill character must be exactly one character long");
    size_t pad = width > 0 && (uint64_t)width > t->chars ? (size_t)width - t->chars : 0;
    size_t before = side == JINJA_RIGHT ? pad : 0;
    if (side == JINJA_BOTH)
        before = pad / 2 + (pad & (size_t)width & 1);
    struct jinja_builder b = { 0 };
    return put_padding(r, &b, fill, before) && jinja_put_text(r, &b, t) &&
           put_padding(r, &b, fill, pad - before) && finish(r, out, &b, t->markup);
}

bool jinja_zfill(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                 int64_t width)
{
    static const struct jinja_text zero = { .bytes = "0", .len = 1, .chars = 1 };
    size_t pad = width > 0 && (uint64_t)width > t->chars ? (size_t)width - t->chars : 0;
    size_t sign = t->len > 0 && (t->bytes[0] == '-' || t->bytes[0] == '+');
    struct jinja_builder b = { 0 };
    return jinja_put_part(r, &b, t, 0, sign) && jinja_put_times(r, &b, &zero, pad) &&
           jinja_put_part(r, &b, t, sign, t->len) && finish(r, out, &b, t->markup);
}

bool jinja_expand_tabs(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                       int64_t width)
{
    struct jinja_builder b = { 0 };
    size_t column = 0, len;
    for (size_t at = 0; at < t->len; at += len) {
        uint32_t code = jinja_char(t, at, &len);
        if (code != '\t') {
            if (!jinja_put_part(r, &b, t, at, at + len))
                return false;
            column = code == '\n' || code == '\r' ? 0 : column + 1;
            continue;
        }
        size_t count = width > 0 ? (size_t)width - column % (size_t)width : 0;
        if (!put_padding(r, &b, NULL, count))
            return false;
        column += count;
    }
    return jinja_spend(r, t->len / 4) && finish(r, out, &b, t->markup);
}

bool jinja_join(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *separator,
                const struct jinja_seq *items)
{
    struct jinja_builder b = { 0 };
    for (size_t i = 0; i < items->count; i++) {
        struct jinja_value v = jinja_at(items, i);
        if (v.kind != JINJA_TEXT)
            return jinja_fail(r, "TypeError: sequence item %zu: expected str instance, %s found", i,
                              jinja_type(v));
        const struct jinja_text *t = v.as.text;
        if (separator->markup && !jinja_escape(r, &t, t))
            return false;
        if ((i > 0 && !jinja_put_text(r, &b, separator)) || !jinja_put_text(r, &b, t) ||
            !jinja_spend(r, 1))
            return false;
    }
    return finish(r, out, &b, separator->markup);
}

/* --- kinds --- */

/* str.isdigit knows digits in circles and above the line too. */
static bool is_digit(uint32_t code)
{
    static const uint32_t others[][2] = {
        { 0xb2, 0xb3 },       { 0xb9, 0xb9 },       { 0x1369, 0x1371 },   { 0x19da, 0x19da },
        { 0x2070, 0x2070 },   { 0x2074, 0x2079 },   { 0x2080, 0x2089 },   { 0x2460, 0x2468 },
        { 0x2474, 0x247c },   { 0x2488, 0x2490 },   { 0x24ea, 0x24ea },   { 0x24f5, 0x24fd },
        { 0x24ff, 0x24ff },   { 0x2776, 0x277e },   { 0x2780, 0x2788 },   { 0x278a, 0x2792 },
        { 0x10a40, 0x10a43 }, { 0x10e60, 0x10e68 }, { 0x11052, 0x1105a }, { 0x1f100, 0x1f10a },
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (code >= others[i][0] && code <= others[i][1])
            return true;
    return utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_ND;
}

static bool is_of_kind(uint32_t code, const char *kind, size_t at)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    if (strcmp(kind, "alpha") == 0)
        return jinja_is_alpha(code);
    if (strcmp(kind, "alnum") == 0)
        return jinja_is_word(code) && code != '_';
    if (strcmp(kind, "digit") == 0)
        return is_digit(code);
    if (strcmp(kind, "decimal") == 0)
        return c == UTF8PROC_CATEGORY_ND;
    if (strcmp(kind, "numeric") == 0)
        return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
    if (strcmp(kind, "space") == 0)
        return jinja_is_blank(code);
    if (strcmp(kind, "printable") == 0)
        return jinja_is_printable(code);
    if (strcmp(kind, "ascii") == 0)
        return code < 0x80;
    must(strcmp(kind, "identifier") == 0);
    return jinja_is_alpha(code) || code == '_' || (at > 0 && jinja_is_word(code));
}

/* islower, isupper, istitle: at least one cased character, and none that is wrong. */
static bool is_cased_as(const struct jinja_text *t, const char *kind)
{
    bool any = false, inside = false, title = strcmp(kind, "title") == 0;
    bool upper = strcmp(kind, "upper") == 0;
    size_t len;
    for (size_t at = 0; at < t->len; at += len) {
        uint32_t code = jinja_char(t, at, &len);
        bool cased = jinja_is_cased(code);
        bool right = title   ? inside == jinja_is_lower(code)
                     : upper ? jinja_is_upper(code)
                             : jinja_is_lower(code);
        if (cased && !right)
            return false;
        any |= cased;
        inside = cased;
    }
    return any;
}

bool jinja_text_kind(const struct jinja_text *t, const char *kind)
{
    if (strcmp(kind, "lower") == 0 || strcmp(kind, "upper") == 0 || strcmp(kind, "title") == 0)
        return is_cased_as(t, kind);
    size_t len;
    for (size_t at = 0; at < t->len; at += len)
        if (!is_of_kind(jinja_char(t, at, &len), kind, at))
            return false;
    return t->len > 0 || strcmp(kind, "printable") == 0 || strcmp(kind, "ascii") == 0;
}
