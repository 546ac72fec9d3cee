/* SPDX-License-Identifier: MIT */
/* unicode - see unicode.h. Normalization works on chunks that begin at a character below U+0300
 * and end before the next one: nothing below U+0300 ever composes with what stands before it, so
 * chunks are independent and a long text needs a buffer of one chunk only. utf8proc decomposes and
 * composes; ordering is done here, because utf8proc's own exchange sort is quadratic on a hostile
 * run of marks. */
#include "core/unicode.h"

#include <string.h>

#include <utf8proc.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"

#define NFC_OPTIONS ((utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE))
#define EXPANSION_MAX 8u  /* characters that one decomposes into; the canonical maximum is 4 */
#define INSERTION_MAX 16u /* marks sorted by insertion; more are counting-sorted */
#define CLASSES 256u      /* canonical combining classes */
#define FIRST_MARK 0x300u /* U+0300: text without anything from here on is in form C */

static bool is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= '\t' && cp <= '\r');
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

unsigned unicode_class(uint32_t cp)
{
    if (is_space(cp))
        return UNICODE_SPACE;
    if (cp < 0x80) {
        if ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z')
            return UNICODE_LETTER;
        if (cp >= '0' && cp <= '9')
            return UNICODE_NUMBER;
    }
    switch ((int)utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return UNICODE_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return UNICODE_NUMBER;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return UNICODE_PUNCT;
    default:
        return 0;
    }
}

/* Marks (and three letters that compose) which Unicode got after version 9. The normalizer that
 * the models were trained with knows version 9: to it they are plain characters, which nothing is
 * ordered or composed across. Ascending. */
static const uint32_t after_unicode_9[][2] = {
    { 0x7fd, 0x7fd },     { 0x898, 0x89f },     { 0x8ca, 0x8d3 },     { 0x9fe, 0x9fe },
    { 0xc3c, 0xc3c },     { 0xd3b, 0xd3c },     { 0xeba, 0xeba },     { 0x1715, 0x1715 },
    { 0x1abf, 0x1ace },   { 0x1df6, 0x1dfa },   { 0xa82c, 0xa82c },   { 0x10d24, 0x10d27 },
    { 0x10eab, 0x10eac }, { 0x10efd, 0x10eff }, { 0x10f46, 0x10f50 }, { 0x10f82, 0x10f85 },
    { 0x11070, 0x11070 }, { 0x1133b, 0x1133b }, { 0x1145e, 0x1145e }, { 0x11839, 0x1183a },
    { 0x11930, 0x11930 }, { 0x11935, 0x11935 }, { 0x11938, 0x11938 }, { 0x1193d, 0x1193e },
    { 0x11943, 0x11943 }, { 0x119e0, 0x119e0 }, { 0x11a34, 0x11a34 }, { 0x11a47, 0x11a47 },
    { 0x11a99, 0x11a99 }, { 0x11d42, 0x11d42 }, { 0x11d44, 0x11d45 }, { 0x11d97, 0x11d97 },
    { 0x11f41, 0x11f42 }, { 0x16ff0, 0x16ff1 }, { 0x1e08f, 0x1e08f }, { 0x1e130, 0x1e136 },
    { 0x1e2ae, 0x1e2ae }, { 0x1e2ec, 0x1e2ef }, { 0x1e4ec, 0x1e4ef },
};

bool unicode_in_ranges(uint32_t cp, const uint32_t (*ranges)[2], size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (cp > ranges[mid][1])
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && cp >= ranges[low][0];
}

static bool is_after_unicode_9(uint32_t cp)
{
    return unicode_in_ranges(cp, after_unicode_9,
                             sizeof after_unicode_9 / sizeof after_unicode_9[0]);
}

/* A text being normalized: what is written so far, and the chunk being built. */
struct nfc {
    char *out;
    size_t out_len, out_capacity;
    utf8proc_int32_t *chunk;
    size_t chunk_len, chunk_capacity;
    utf8proc_int32_t *spare; /* for the counting sort, same capacity as chunk */
};

static enum rc write_bytes(struct nfc *n, const char *data, size_t len)
{
    if (n->out_capacity - n->out_len < len) {
        size_t capacity = n->out_capacity * 2 + len + 64;
        char *out = mem_grow(n->out, n->out_len, capacity);
        if (out == NULL)
            return RC_NO_MEMORY;
        n->out = out;
        n->out_capacity = capacity;
    }
    memcpy(n->out + n->out_len, data, len);
    n->out_len += len;
    return RC_OK;
}

static enum rc grow_chunk(struct nfc *n)
{
    size_t capacity = n->chunk_capacity * 2 + 64;
    size_t old_bytes = n->chunk_len * sizeof *n->chunk, bytes = capacity * sizeof *n->chunk;
    utf8proc_int32_t *chunk = mem_grow(n->chunk, old_bytes, bytes);
    if (chunk == NULL)
        return RC_NO_MEMORY;
    n->chunk = chunk;
    utf8proc_int32_t *spare = mem_alloc_raw(bytes);
    if (spare == NULL)
        return RC_NO_MEMORY;
    mem_free(n->spare);
    n->spare = spare;
    n->chunk_capacity = capacity;
    return RC_OK;
}

static unsigned mark_class(utf8proc_int32_t cp)
{
    return (unsigned)utf8proc_get_property(cp)->combining_class & 0xff;
}

static void sort_marks(utf8proc_int32_t *marks, utf8proc_int32_t *spare, size_t count)
{
    if (count <= INSERTION_MAX) {
        for (size_t i = 1; i < count; i++) {
            utf8proc_int32_t cp = marks[i];
            size_t j = i;
            for (; j > 0 && mark_class(marks[j - 1]) > mark_class(cp); j--)
                marks[j] = marks[j - 1];
            marks[j] = cp;
        }
        return;
    }
    size_t at[CLASSES + 1] = { 0 };
    for (size_t i = 0; i < count; i++)
        at[mark_class(marks[i]) + 1]++;
    for (size_t c = 1; c <= CLASSES; c++)
        at[c] += at[c - 1];
    for (size_t i = 0; i < count; i++)
        spare[at[mark_class(marks[i])]++] = marks[i];
    memcpy(marks, spare, count * sizeof *marks);
}

/* Orders, composes and writes the chunk. */
static enum rc finish_chunk(struct nfc *n)
{
    for (size_t i = 0; i < n->chunk_len;) {
        size_t end = i;
        while (end < n->chunk_len && mark_class(n->chunk[end]) != 0)
            end++;
        if (end - i > 1)
            sort_marks(n->chunk + i, n->spare, end - i);
        i = end + 1;
    }
    utf8proc_ssize_t len =
        utf8proc_normalize_utf32(n->chunk, (utf8proc_ssize_t)n->chunk_len, NFC_OPTIONS);
    must(len >= 0);
    n->chunk_len = 0;
    for (utf8proc_ssize_t i = 0; i < len; i++) {
        char bytes[4];
        enum rc rc = write_bytes(n, bytes, utf8_encode(bytes, (uint32_t)n->chunk[i]));
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc add_char(struct nfc *n, uint32_t cp)
{
    enum rc rc = RC_OK;
    if (cp < FIRST_MARK)
        rc = finish_chunk(n);
    if (rc == RC_OK && n->chunk_capacity - n->chunk_len < EXPANSION_MAX)
        rc = grow_chunk(n);
    if (rc != RC_OK)
        return rc;
    int boundary = 0;
    utf8proc_ssize_t added = utf8proc_decompose_char((utf8proc_int32_t)cp, n->chunk + n->chunk_len,
                                                     EXPANSION_MAX, NFC_OPTIONS, &boundary);
    must(added >= 0);
    must(added <= (utf8proc_ssize_t)EXPANSION_MAX);
    n->chunk_len += (size_t)added;
    return RC_OK;
}

static bool is_below_marks(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] >= 0xcc) /* lead byte of U+0300 and all above it */
            return false;
    return true;
}

enum rc unicode_nfc(char **out, size_t *out_len, const char *text, size_t len, uint64_t *work)
{
    *out = NULL;
    *out_len = len;
    if (work != NULL)
        *work += len;
    if (is_below_marks(text, len))
        return RC_OK;
    struct nfc n = { 0 };
    enum rc rc = RC_OK;
    for (size_t pos = 0; pos < len && rc == RC_OK;) {
        struct utf8_step step = utf8_decode(text + pos, len - pos);
        if (step.state == UTF8_OK && !is_after_unicode_9(step.code)) {
            rc = add_char(&n, step.code);
        } else {
            rc = finish_chunk(&n);
            if (rc == RC_OK)
                rc = write_bytes(&n, text + pos, step.len);
        }
        pos += step.len;
    }
    if (rc == RC_OK)
        rc = finish_chunk(&n);
    mem_free(n.chunk);
    mem_free(n.spare);
    if (rc != RC_OK) {
        mem_free(n.out);
        return rc;
    }
    *out = n.out;
    *out_len = n.out_len;
    return RC_OK;
}
