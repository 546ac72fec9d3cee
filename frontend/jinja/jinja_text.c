/* SPDX-License-Identifier: MIT */
/* jinja_text - see jinja_text.h. Bytes are valid UTF-8 everywhere: the template is checked when it
 * is compiled, jansson checks what users send, and no operation cuts inside a character.
 *   builder   bytes "Hello, Bob"        marks NULL until two origins meet, then one byte each:
 *                    template | user          00000001 11
 * Parts share bytes and marks with their whole, so that split, strip and slices copy nothing. */
#include "frontend/jinja/jinja_text.h"

#include <string.h>

#include "core/must.h"
#include "frontend/jinja/jinja_run.h"

#define BYTES_A_STEP 32u
#define CAPACITY_MIN 64u

static bool reserve(struct jinja_run *r, struct jinja_builder *b, size_t more)
{
    if (more > r->text_bytes_max || b->len > r->text_bytes_max - more)
        return jinja_fail_limit(r, "a text of over %zu bytes", r->text_bytes_max);
    size_t needed = b->len + more;
    if (needed <= b->capacity)
        return true;
    size_t capacity = b->capacity < CAPACITY_MIN / 2 ? CAPACITY_MIN : b->capacity * 2;
    if (b->capacity == 0 && more > CAPACITY_MIN)
        capacity = more;
    if (capacity < needed)
        capacity = needed;
    char *bytes = jinja_heap_grow(&r->heap, b->bytes, b->len, capacity);
    uint8_t *marks = NULL;
    if (bytes != NULL && b->marks != NULL)
        marks = jinja_heap_grow(&r->heap, b->marks, b->len, capacity);
    if (bytes == NULL || (b->marks != NULL && marks == NULL))
        return jinja_fail_limit(r, "memory for texts is spent");
    b->bytes = bytes;
    b->marks = marks;
    b->capacity = capacity;
    return true;
}

/* From now on the builder has a mark for every byte. */
static bool mark_each(struct jinja_run *r, struct jinja_builder *b)
{
    if (b->marks != NULL)
        return true;
    b->marks = jinja_take(r, b->capacity, 1);
    if (b->marks == NULL)
        return false;
    memset(b->marks, b->user, b->len);
    return true;
}

bool jinja_put(struct jinja_run *r, struct jinja_builder *b, const char *bytes, size_t len,
               bool user)
{
    if (len == 0)
        return true;
    if (!reserve(r, b, len) || !jinja_spend(r, len / BYTES_A_STEP))
        return false;
    if (b->len == 0 && b->marks == NULL)
        b->user = user;
    if (b->marks == NULL && b->user != user && !mark_each(r, b))
        return false;
    memcpy(b->bytes + b->len, bytes, len);
    if (b->marks != NULL)
        memset(b->marks + b->len, user, len);
    b->len += len;
    return true;
}

bool jinja_put_word(struct jinja_run *r, struct jinja_builder *b, const char *zero_terminated,
                    bool user)
{
    return jinja_put(r, b, zero_terminated, strlen(zero_terminated), user);
}

bool jinja_put_code(struct jinja_run *r, struct jinja_builder *b, uint32_t code, bool user)
{
    char bytes[4];
    return jinja_put(r, b, bytes, utf8_encode(bytes, code), user);
}

bool jinja_put_part(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                    size_t begin, size_t end)
{
    must(begin <= end && end <= t->len);
    if (t->marks == NULL || begin == end)
        return jinja_put(r, b, t->bytes + begin, end - begin, t->user);
    if (!reserve(r, b, end - begin) || !jinja_spend(r, (end - begin) / BYTES_A_STEP))
        return false;
    if (!mark_each(r, b))
        return false;
    memcpy(b->bytes + b->len, t->bytes + begin, end - begin);
    memcpy(b->marks + b->len, t->marks + begin, end - begin);
    b->len += end - begin;
    return true;
}

bool jinja_put_text(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t)
{
    return jinja_put_part(r, b, t, 0, t->len);
}

bool jinja_put_times(struct jinja_run *r, struct jinja_builder *b, const struct jinja_text *t,
                     size_t times)
{
    size_t bytes;
    if (t->len == 0)
        return true;
    if (__builtin_mul_overflow(t->len, times, &bytes))
        bytes = SIZE_MAX;
    if (!reserve(r, b, bytes) || !jinja_spend(r, times))
        return false;
    for (size_t i = 0; i < times; i++)
        if (!jinja_put_text(r, b, t))
            return false;
    return true;
}

bool jinja_text_of(struct jinja_run *r, struct jinja_value *out, struct str s, bool user)
{
    struct jinja_text *t = jinja_take(r, 1, sizeof *t);
    if (t == NULL)
        return false;
    *t = (struct jinja_text){
        .bytes = s.text, .len = s.len, .chars = jinja_count_chars(s.text, s.len), .user = user
    };
    *out = jinja_of_text(t);
    return true;
}

bool jinja_built(struct jinja_run *r, struct jinja_value *out, const struct jinja_builder *b)
{
    struct jinja_text *t = jinja_take(r, 1, sizeof *t);
    if (t == NULL)
        return false;
    *t = (struct jinja_text){ .bytes = b->bytes == NULL ? "" : b->bytes,
                              .marks = b->marks,
                              .len = b->len,
                              .chars = jinja_count_chars(b->bytes, b->len),
                              .user = b->user };
    *out = jinja_of_text(t);
    return true;
}

bool jinja_part(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                size_t begin, size_t end)
{
    must(begin <= end && end <= t->len);
    struct jinja_text *part = jinja_take(r, 1, sizeof *part);
    if (part == NULL || !jinja_spend(r, t->chars == t->len ? 0 : (end - begin) / BYTES_A_STEP))
        return false;
    *part = *t;
    part->bytes += begin;
    part->len = end - begin;
    part->chars = t->chars == t->len ? part->len : jinja_count_chars(part->bytes, part->len);
    if (t->marks != NULL)
        part->marks += begin;
    *out = jinja_of_text(part);
    return true;
}

bool jinja_as_markup(struct jinja_run *r, struct jinja_value *out, const struct jinja_text *t,
                     bool markup)
{
    if (t->markup == markup) {
        *out = jinja_of_text(t);
        return true;
    }
    struct jinja_text *copy = jinja_take(r, 1, sizeof *copy);
    if (copy == NULL)
        return false;
    *copy = *t;
    copy->markup = markup;
    *out = jinja_of_text(copy);
    return true;
}

bool jinja_user_at(const struct jinja_text *t, size_t byte)
{
    return t->marks != NULL ? t->marks[byte] != 0 : t->user;
}

bool jinja_any_user(const struct jinja_text *t)
{
    return t->len > 0 && (t->marks != NULL ? memchr(t->marks, 1, t->len) != NULL : t->user);
}

size_t jinja_count_chars(const char *bytes, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return count;
}

size_t jinja_offset(const struct jinja_text *t, size_t index)
{
    if (index >= t->chars)
        return t->len;
    if (t->chars == t->len)
        return index;
    size_t at = 0;
    for (size_t seen = 0;; at++) {
        if (((unsigned char)t->bytes[at] & 0xc0) == 0x80)
            continue;
        if (seen++ == index)
            return at;
    }
}

static bool begins_char(const struct jinja_text *t, size_t byte)
{
    return ((unsigned char)t->bytes[byte] & 0xc0) != 0x80;
}

size_t jinja_walk(const struct jinja_text *t, size_t byte, int64_t chars)
{
    for (; chars > 0; chars--) {
        must(byte < t->len);
        do
            byte++;
        while (byte < t->len && !begins_char(t, byte));
    }
    for (; chars < 0; chars++) {
        must(byte > 0);
        do
            byte--;
        while (byte > 0 && !begins_char(t, byte));
    }
    return byte;
}

uint32_t jinja_char(const struct jinja_text *t, size_t byte, size_t *len)
{
    must(byte < t->len);
    unsigned char first = (unsigned char)t->bytes[byte];
    if (first < 0x80) {
        *len = 1;
        return first;
    }
    struct utf8_step step = utf8_decode(t->bytes + byte, t->len - byte);
    *len = step.len;
    return step.state == UTF8_OK ? step.code : UTF8_REPLACEMENT;
}

size_t jinja_search(const struct jinja_text *t, struct str needle, size_t begin, size_t end)
{
    if (begin > end || needle.len > end - begin)
        return SIZE_MAX;
    if (needle.len == 0)
        return begin;
    const char *found = memmem(t->bytes + begin, end - begin, needle.text, needle.len);
    return found == NULL ? SIZE_MAX : (size_t)(found - t->bytes);
}

bool jinja_search_last(struct jinja_run *r, size_t *out, const struct jinja_text *t,
                       struct str needle, size_t begin, size_t end)
{
    *out = SIZE_MAX;
    if (begin > end || needle.len > end - begin)
        return true;
    size_t at = end - needle.len; /* no match begins behind it */
    while (needle.len > 0) {
        const char *first = memrchr(t->bytes + begin, needle.text[0], at - begin + 1);
        if (!jinja_spend(r, 1 + needle.len / BYTES_A_STEP))
            return false;
        if (first == NULL)
            return true;
        at = (size_t)(first - t->bytes);
        if (memcmp(first, needle.text, needle.len) == 0)
            break;
        if (at-- == begin)
            return true;
    }
    *out = at;
    return true;
}
