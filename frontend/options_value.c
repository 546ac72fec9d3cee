/* SPDX-License-Identifier: MIT */
/* options_value - text of a flag to its value, with the message that says what is right.
 * Numbers must match to their last byte; sizes are those of core/str.h. */
#include "frontend/options.h"

#include <string.h>

#include "core/str.h"

/* A whole number, with its sign apart. */
static bool parse_whole(bool *negative, uint64_t *out, const char *text)
{
    *negative = text[0] == '-';
    struct str digits = str_of(text + (text[0] == '-' || text[0] == '+'));
    return str_parse_size(digits, 0, UINT64_MAX, out);
}

static enum rc say_number(const struct option *o, const char *shown, const char *text, bool whole,
                          struct fault *fault)
{
    const char *what = whole ? "a whole number" : "a number";
    if (o->min == 0 && o->max == 0)
        return fault_set(fault, RC_USAGE, "%s takes %s, not '%.60s'", shown, what, text);
    if (o->max >= 1e15)
        return fault_set(fault, RC_USAGE, "%s takes %s of at least %.10g, not '%.60s'", shown, what,
                         o->min, text);
    return fault_set(fault, RC_USAGE, "%s takes %s from %.10g to %.10g, not '%.60s'", shown, what,
                     o->min, o->max, text);
}

static bool in_range(const struct option *o, double value)
{
    return (o->min == 0 && o->max == 0) || (value >= o->min && value <= o->max);
}

/* Every whole kind goes through here: sign, width and range in one place. */
static bool parse_integer(const struct option *o, const char *text, int64_t *out, uint64_t *bits)
{
    bool negative;
    uint64_t magnitude;
    if (!parse_whole(&negative, &magnitude, text))
        return false;
    uint64_t most = o->kind == OPTION_I32   ? (uint64_t)INT32_MAX + negative
                    : o->kind == OPTION_I64 ? (uint64_t)INT64_MAX + negative
                    : o->kind == OPTION_U64 ? UINT64_MAX
                                            : UINT32_MAX;
    bool is_signed = o->kind == OPTION_I32 || o->kind == OPTION_I64;
    if (magnitude > most || (negative && magnitude != 0 && !is_signed))
        return false;
    if (!in_range(o, negative ? -(double)magnitude : (double)magnitude))
        return false;
    *bits = negative ? 0 - magnitude : magnitude;
    *out = (int64_t)*bits;
    return true;
}

static enum rc set_number(const struct option *o, void *value, const char *shown, const char *text,
                          struct fault *fault)
{
    if (o->kind == OPTION_F32) {
        double real;
        if (!str_parse_f64(str_of(text), -1e38, 1e38, &real) || !in_range(o, real))
            return say_number(o, shown, text, false, fault);
        *(float *)value = (float)real;
        return RC_OK;
    }
    int64_t number;
    uint64_t bits;
    if (!parse_integer(o, text, &number, &bits))
        return say_number(o, shown, text, true, fault);
    if (o->kind == OPTION_U32)
        *(uint32_t *)value = (uint32_t)bits;
    else if (o->kind == OPTION_I32)
        *(int32_t *)value = (int32_t)number;
    else if (o->kind == OPTION_I64)
        *(int64_t *)value = number;
    else
        *(uint64_t *)value = bits;
    return RC_OK;
}

static enum rc set_flag(bool *value, const char *shown, const char *text, struct fault *fault)
{
    static const char *const words[] = { "0", "off", "no", "false", "1", "on", "yes", "true" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i >= 4;
            return RC_OK;
        }
    }
    return fault_set(fault, RC_USAGE, "%s is a switch: on or off, not '%.60s'", shown, text);
}

static enum rc set_choice(const struct option *o, uint32_t *value, const char *shown,
                          const char *text, struct fault *fault)
{
    char all[120];
    size_t used = 0;
    all[0] = '\0';
    for (uint32_t i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *value = i;
            return RC_OK;
        }
        int n = snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", o->choices[i]);
        if (n > 0 && (size_t)n < sizeof all - used)
            used += (size_t)n;
    }
    return fault_set(fault, RC_USAGE, "%s takes one of %s, not '%.60s'", shown, all, text);
}

static enum rc set_list(const struct option *o, struct option_u32s *list, const char *shown,
                        const char *text, struct fault *fault)
{
    struct option one = *o;
    one.kind = OPTION_U32;
    list->count = 0;
    for (const char *p = text;;) {
        size_t len = strcspn(p, ",");
        char item[32];
        if (len >= sizeof item || list->count == OPTION_ITEMS_MAX)
            return fault_set(fault, RC_USAGE, "%s takes at most %u numbers, separated by commas",
                             shown, OPTION_ITEMS_MAX);
        memcpy(item, p, len);
        item[len] = '\0';
        enum rc rc = set_number(&one, &list->items[list->count], shown, item, fault);
        if (rc != RC_OK)
            return rc;
        list->count++;
        if (p[len] == '\0')
            return RC_OK;
        p += len + 1;
    }
}

enum rc option_set_value(const struct option *o, void *base, const char *shown, const char *text,
                         struct fault *fault)
{
    void *value = (char *)base + o->offset;
    switch (o->kind) {
    case OPTION_FLAG:
        return set_flag(value, shown, text, fault);
    case OPTION_COUNT:
    case OPTION_U32:
    case OPTION_I32:
    case OPTION_U64:
    case OPTION_I64:
    case OPTION_F32: {
        struct option plain = *o;
        if (o->kind == OPTION_COUNT)
            plain.kind = OPTION_U32;
        return set_number(&plain, value, shown, text, fault);
    }
    case OPTION_TEXT:
        *(const char **)value = text;
        return RC_OK;
    case OPTION_CHOICE:
        return set_choice(o, value, shown, text, fault);
    case OPTION_TEXTS: {
        struct option_texts *texts = value;
        if (texts->count == OPTION_ITEMS_MAX)
            return fault_set(fault, RC_USAGE, "%s may be given %u times at most", shown,
                             OPTION_ITEMS_MAX);
        texts->items[texts->count++] = text;
        return RC_OK;
    }
    case OPTION_U32S:
        return set_list(o, value, shown, text, fault);
    }
    return fault_set(fault, RC_USAGE, "%s has no kind", shown);
}
