/* SPDX-License-Identifier: MIT */
/* gguf_get - values of metadata keys, with their kind and range checked on the way out.
 * A wrong value is the file's fault, so the text names file, key and what was wanted. */
#include <inttypes.h>
#include <stdio.h>

#include "core/gguf.h"
#include "core/load.h"
#include "core/must.h"

const char *gguf_kind_name(enum gguf_kind kind)
{
    static const char *const names[] = {
        [GGUF_U8] = "u8",         [GGUF_I8] = "i8",       [GGUF_U16] = "u16", [GGUF_I16] = "i16",
        [GGUF_U32] = "u32",       [GGUF_I32] = "i32",     [GGUF_F32] = "f32", [GGUF_BOOL] = "bool",
        [GGUF_STRING] = "string", [GGUF_ARRAY] = "array", [GGUF_U64] = "u64", [GGUF_I64] = "i64",
        [GGUF_F64] = "f64",
    };
    must((unsigned)kind < sizeof names / sizeof names[0]);
    return names[kind];
}

bool gguf_kind_is_integer(enum gguf_kind kind)
{
    switch (kind) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_U16:
    case GGUF_I16:
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_U64:
    case GGUF_I64:
        return true;
    case GGUF_F32:
    case GGUF_BOOL:
    case GGUF_STRING:
    case GGUF_ARRAY:
    case GGUF_F64:
        return false;
    }
    return false;
}

/* Kind of the value that index names, after checking the index. */
static enum gguf_kind kind_at(const struct gguf_key *key, uint64_t index)
{
    if (key->kind != GGUF_ARRAY) {
        must(index == 0);
        return key->kind;
    }
    must(index < key->count);
    return key->elem_kind;
}

int64_t gguf_key_i64(const struct gguf_key *key, uint64_t index)
{
    const uint8_t *p = key->value;
    enum gguf_kind kind = kind_at(key, index);
    must(gguf_kind_is_integer(kind) || kind == GGUF_BOOL);
    switch (kind) {
    case GGUF_U8:
    case GGUF_BOOL:
        return p[index];
    case GGUF_I8:
        return (int8_t)p[index];
    case GGUF_U16:
        return load_u16(p + 2 * index);
    case GGUF_I16:
        return (int16_t)load_u16(p + 2 * index);
    case GGUF_U32:
        return load_u32(p + 4 * index);
    case GGUF_I32:
        return (int32_t)load_u32(p + 4 * index);
    case GGUF_U64: {
        uint64_t v = load_u64(p + 8 * index);
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    case GGUF_I64:
        return (int64_t)load_u64(p + 8 * index);
    case GGUF_F32:
    case GGUF_F64:
    case GGUF_STRING:
    case GGUF_ARRAY:
        break;
    }
    return 0;
}

double gguf_key_f64(const struct gguf_key *key, uint64_t index)
{
    switch ((int)kind_at(key, index)) {
    case GGUF_F32:
        return (double)load_f32(key->value + 4 * index);
    case GGUF_F64:
        return load_f64(key->value + 8 * index);
    default:
        return (double)gguf_key_i64(key, index);
    }
}

struct gguf_text gguf_next_text(const struct gguf_key *key, const uint8_t **cursor)
{
    must(key->kind == GGUF_STRING || (key->kind == GGUF_ARRAY && key->elem_kind == GGUF_STRING));
    uint64_t len = load_u64(*cursor);
    struct gguf_text text = { (const char *)*cursor + 8, (size_t)len };
    *cursor += 8 + len;
    return text;
}

static enum rc fail_kind(const struct gguf *g, const struct gguf_key *key, const char *name,
                         const char *wanted, struct fault *fault)
{
    bool array = key->kind == GGUF_ARRAY;
    return fault_set(fault, RC_CORRUPT, "%s: key %s is %s%s, not %s", gguf_file_path(g, 0), name,
                     array ? "an array of " : "",
                     gguf_kind_name(array ? key->elem_kind : key->kind), wanted);
}

static enum rc fail_missing(const struct gguf *g, const char *name, struct fault *fault)
{
    return fault_set(fault, RC_NOT_FOUND, "%s: key %s is missing", gguf_file_path(g, 0), name);
}

enum rc gguf_get_u32(const struct gguf *g, const char *name, uint32_t min, uint32_t max,
                     uint32_t *out, struct fault *fault)
{
    const struct gguf_key *key = gguf_find_key(g, name);
    if (key == NULL)
        return fail_missing(g, name, fault);
    if (!gguf_kind_is_integer(key->kind))
        return fail_kind(g, key, name, "an integer", fault);
    int64_t value = gguf_key_i64(key, 0);
    if (value < min || value > max)
        return fault_set(fault, RC_CORRUPT, "%s: key %s is %" PRId64 ", %u to %u are allowed",
                         gguf_file_path(g, 0), name, value, min, max);
    *out = (uint32_t)value;
    return RC_OK;
}

enum rc gguf_get_f32(const struct gguf *g, const char *name, float *out, struct fault *fault)
{
    const struct gguf_key *key = gguf_find_key(g, name);
    if (key == NULL)
        return fail_missing(g, name, fault);
    if (key->kind != GGUF_F32 && key->kind != GGUF_F64)
        return fail_kind(g, key, name, "a floating-point number", fault);
    double value = gguf_key_f64(key, 0);
    if (!__builtin_isfinite(value) || value > (double)__FLT_MAX__ || value < -(double)__FLT_MAX__)
        return fault_set(fault, RC_CORRUPT, "%s: key %s is %g, not a finite f32",
                         gguf_file_path(g, 0), name, value);
    *out = (float)value;
    return RC_OK;
}

enum rc gguf_get_bool(const struct gguf *g, const char *name, bool *out, struct fault *fault)
{
    const struct gguf_key *key = gguf_find_key(g, name);
    if (key == NULL)
        return fail_missing(g, name, fault);
    if (key->kind != GGUF_BOOL)
        return fail_kind(g, key, name, "a bool", fault);
    *out = gguf_key_i64(key, 0) != 0;
    return RC_OK;
}

enum rc gguf_get_text(const struct gguf *g, const char *name, struct gguf_text *out,
                      struct fault *fault)
{
    const struct gguf_key *key = gguf_find_key(g, name);
    if (key == NULL)
        return fail_missing(g, name, fault);
    if (key->kind != GGUF_STRING)
        return fail_kind(g, key, name, "a string", fault);
    const uint8_t *cursor = key->value;
    *out = gguf_next_text(key, &cursor);
    return RC_OK;
}

enum rc gguf_get_array(const struct gguf *g, const char *name, enum gguf_kind elem_kind,
                       const struct gguf_key **out, struct fault *fault)
{
    const struct gguf_key *key = gguf_find_key(g, name);
    if (key == NULL)
        return fail_missing(g, name, fault);
    if (key->kind != GGUF_ARRAY || key->elem_kind != elem_kind) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "an array of %s", gguf_kind_name(elem_kind));
        return fail_kind(g, key, name, wanted, fault);
    }
    *out = key;
    return RC_OK;
}
