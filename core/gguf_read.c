/* SPDX-License-Identifier: MIT */
/* gguf_read - reads the directory of one file:
 *
 *   magic "GGUF" | version u32 | tensor count u64 | key count u64
 *   key     name (u64 length, bytes) | kind u32 | value
 *   value   scalar | string (u64 length, bytes) | array: element kind u32, count u64, elements
 *   tensor  name | dimension count u32 | dimensions u64 each | type u32 | offset u64 in the data
 *   data    starts at the next multiple of general.alignment (32 when the key is absent)
 *
 * Rules, each of which somebody's loader has broken:
 *   1. Every read goes through take(), which compares with the bytes left; pos + n is never
 *      formed first.
 *   2. A count is compared with bytes left / bytes of the smallest entry before anything is
 *      allocated.
 *   3. Products and sums are checked; nothing is clamped.
 *   4. Alignment is a power of two and dimensions are >= 1 before anything is divided or masked.
 *   5. Nested arrays are walked with a small explicit stack.
 * Pages of the mapping that were walked are given back every few MiB: a hostile header of 64 MiB
 * stays out of the resident set (the page cache keeps them for those who need them again).
 * Overlapping tensors are allowed: they are only read, and tied weights may share their bytes. */
#include "core/gguf_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/limits.h"
#include "core/load.h"
#include "core/mem.h"
#include "core/must.h"

#define DROP_BYTES (4u << 20)
#define KEY_BYTES_MIN 14u    /* name of one byte, kind, a value of one byte */
#define TENSOR_BYTES_MIN 33u /* name of one byte, one dimension */
#define STRING_BYTES_MIN 8u
#define ARRAY_BYTES_MIN 12u
#define NAME_SHOWN_MAX 48

uint64_t gguf_offset_of(const struct gguf_file *file, const void *p)
{
    return (uint64_t)((const uint8_t *)p - file->base);
}

uint32_t gguf_kind_bytes(uint32_t kind)
{
    static const uint8_t bytes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return kind < sizeof bytes ? bytes[kind] : 0;
}

enum rc gguf_fault(const struct gguf_reader *r, enum rc code, uint64_t offset, const char *field,
                   const char *fmt, ...)
{
    char why[120], item[96];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);

    item[0] = '\0';
    if (r->item.name.text != NULL) {
        int shown = r->item.name.len < NAME_SHOWN_MAX ? (int)r->item.name.len : NAME_SHOWN_MAX;
        snprintf(item, sizeof item, "%s '%.*s%s' ", r->item.noun, shown, r->item.name.text,
                 r->item.name.len > NAME_SHOWN_MAX ? "..." : "");
    } else if (r->item.noun != NULL) {
        snprintf(item, sizeof item, "%s %" PRIu64 " ", r->item.noun, r->item.index);
    }
    /* The end of a long path says more than its beginning. */
    const char *path = r->file->path;
    size_t len = strlen(path);
    bool cut = len > 80;
    return fault_set(r->fault, code, "%s%s: %s%s at byte %" PRIu64 ": %s", cut ? "..." : "",
                     cut ? path + len - 77 : path, item, field, offset, why);
}

static uint64_t bytes_left(const struct gguf_reader *r)
{
    return r->end - r->pos;
}

static enum rc fail_short(const struct gguf_reader *r, const char *field, uint64_t wanted)
{
    if (r->end < r->file->bytes)
        return gguf_fault(r, RC_UNSUPPORTED, r->pos, field,
                          "needs %" PRIu64 " bytes, the header's limit is %u", wanted,
                          GGUF_METADATA_BYTES_MAX);
    return gguf_fault(r, RC_CORRUPT, r->pos, field,
                      "needs %" PRIu64 " bytes, the file has %" PRIu64 " left", wanted,
                      bytes_left(r));
}

static const uint8_t *here(const struct gguf_reader *r)
{
    return r->file->base + r->pos;
}

/* Steps over count bytes. */
static enum rc take(struct gguf_reader *r, uint64_t count, const char *field)
{
    if (count > bytes_left(r))
        return fail_short(r, field, count);
    r->pos += count;
    if (r->pos - r->dropped > 2 * DROP_BYTES) {
        uint64_t below = (r->pos - DROP_BYTES) & ~(uint64_t)(DROP_BYTES - 1);
        (void)madvise(r->file->base + r->dropped, below - r->dropped, MADV_DONTNEED);
        r->dropped = below;
    }
    return RC_OK;
}

static enum rc take_u32(struct gguf_reader *r, const char *field, uint32_t *out)
{
    const uint8_t *p = here(r);
    enum rc rc = take(r, 4, field);
    if (rc == RC_OK)
        *out = load_u32(p);
    return rc;
}

static enum rc take_u64(struct gguf_reader *r, const char *field, uint64_t *out)
{
    const uint8_t *p = here(r);
    enum rc rc = take(r, 8, field);
    if (rc == RC_OK)
        *out = load_u64(p);
    return rc;
}

static enum rc take_text(struct gguf_reader *r, const char *field, struct gguf_text *out)
{
    uint64_t len;
    enum rc rc = take_u64(r, field, &len);
    if (rc != RC_OK)
        return rc;
    *out = (struct gguf_text){ (const char *)here(r), (size_t)len };
    return take(r, len, field);
}

static enum rc take_name(struct gguf_reader *r, struct gguf_text *out)
{
    uint64_t at = r->pos;
    enum rc rc = take_text(r, "name", out);
    if (rc != RC_OK)
        return rc;
    if (out->len == 0 || out->len > GGUF_NAME_BYTES_MAX)
        return gguf_fault(r, RC_CORRUPT, at, "name", "%zu bytes, 1 to %u are allowed", out->len,
                          GGUF_NAME_BYTES_MAX);
    if (memchr(out->text, '\0', out->len) != NULL)
        return gguf_fault(r, RC_CORRUPT, at, "name", "holds a zero byte");
    r->item.name = *out;
    return RC_OK;
}

/* What people give us instead of a GGUF file. */
static enum rc fail_magic(const struct gguf_reader *r)
{
    static const struct {
        const char *start;
        const char *what;
    } known[] = {
        { "lmgg", "a ggml file older than GGUF: convert it anew" },
        { "fmgg", "a ggml file older than GGUF: convert it anew" },
        { "tjgg", "a ggml file older than GGUF: convert it anew" },
        { "vers", "a Git LFS pointer, not the model: run git lfs pull" },
        { "<!do", "a web page, not a model: the download went wrong" },
        { "<!DO", "a web page, not a model: the download went wrong" },
        { "<htm", "a web page, not a model: the download went wrong" },
        { "PK\3\4", "a zip archive, not a GGUF file" },
    };
    const uint8_t *p = r->file->base;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (memcmp(p, known[i].start, 4) == 0)
            return gguf_fault(r, RC_UNSUPPORTED, 0, "magic", "%s", known[i].what);
    return gguf_fault(r, RC_CORRUPT, 0, "magic", "%02x %02x %02x %02x is not \"GGUF\"", p[0], p[1],
                      p[2], p[3]);
}

static enum rc check_count(const struct gguf_reader *r, uint64_t at, const char *field,
                           uint64_t count, uint64_t entry_bytes, uint64_t max)
{
    if (count > bytes_left(r) / entry_bytes)
        return gguf_fault(r, RC_CORRUPT, at, field,
                          "%" PRIu64 " cannot fit in the %" PRIu64 " bytes left", count,
                          bytes_left(r));
    if (count > max)
        return gguf_fault(r, RC_UNSUPPORTED, at, field, "%" PRIu64 ", the limit is %" PRIu64, count,
                          max);
    return RC_OK;
}

enum rc gguf_read_head(struct gguf_reader *r)
{
    r->end = r->file->bytes;
    enum rc rc = take(r, 4, "magic");
    if (rc != RC_OK)
        return rc;
    if (memcmp(r->file->base, "GGUF", 4) != 0)
        return fail_magic(r);
    rc = take_u32(r, "version", &r->version);
    if (rc != RC_OK)
        return rc;
    uint32_t swapped = __builtin_bswap32(r->version);
    if (r->version > 0xffff && swapped >= 1 && swapped <= 0xff)
        return gguf_fault(r, RC_UNSUPPORTED, 4, "version",
                          "big-endian file (version %u), only little-endian works", swapped);
    if (r->version != 2 && r->version != 3)
        return gguf_fault(r, RC_UNSUPPORTED, 4, "version", "%u, known are 2 and 3", r->version);
    rc = take_u64(r, "tensor count", &r->tensor_count);
    if (rc == RC_OK)
        rc = take_u64(r, "key count", &r->key_count);
    if (rc == RC_OK)
        rc = check_count(r, 8, "tensor count", r->tensor_count, TENSOR_BYTES_MIN, GGUF_TENSORS_MAX);
    if (rc == RC_OK)
        rc = check_count(r, 16, "key count", r->key_count, KEY_BYTES_MIN, GGUF_KEYS_MAX);
    if (r->end > GGUF_METADATA_BYTES_MAX)
        r->end = GGUF_METADATA_BYTES_MAX;
    return rc;
}

static enum rc check_bools(const struct gguf_reader *r, const uint8_t *p, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (p[i] > 1)
            return gguf_fault(r, RC_CORRUPT, gguf_offset_of(r->file, p + i), "value",
                              "%u is not a bool", p[i]);
    return RC_OK;
}

static enum rc read_scalars(struct gguf_reader *r, uint32_t kind, uint64_t count)
{
    const uint8_t *p = here(r);
    uint64_t bytes;
    if (__builtin_mul_overflow(count, (uint64_t)gguf_kind_bytes(kind), &bytes))
        return fail_short(r, "value", UINT64_MAX);
    enum rc rc = take(r, bytes, "value");
    if (rc == RC_OK && kind == GGUF_BOOL)
        rc = check_bools(r, p, count);
    return rc;
}

static enum rc read_texts(struct gguf_reader *r, uint64_t count)
{
    struct gguf_text text;
    enum rc rc = RC_OK;
    for (uint64_t i = 0; i < count && rc == RC_OK; i++)
        rc = take_text(r, "string", &text);
    return rc;
}

/* Head of an array: element kind, and a count that the bytes left can hold. */
static enum rc read_array_head(struct gguf_reader *r, uint32_t *kind, uint64_t *count)
{
    uint64_t at = r->pos;
    enum rc rc = take_u32(r, "element kind", kind);
    if (rc != RC_OK)
        return rc;
    if (*kind > GGUF_F64)
        return gguf_fault(r, RC_CORRUPT, at, "element kind", "%u, known are 0 to 12", *kind);
    at = r->pos;
    rc = take_u64(r, "element count", count);
    if (rc != RC_OK)
        return rc;
    uint32_t bytes = *kind == GGUF_STRING  ? STRING_BYTES_MIN
                     : *kind == GGUF_ARRAY ? ARRAY_BYTES_MIN
                                           : gguf_kind_bytes(*kind);
    return check_count(r, at, "element count", *count, bytes, UINT64_MAX);
}

/* The elements of an array whose head was read. left[d] elements are still to come at depth d; all
 * but the deepest level hold arrays, so the work is bounded by the bytes of the file. */
static enum rc read_elements(struct gguf_reader *r, uint32_t kind, uint64_t count)
{
    uint64_t left[GGUF_NESTING_MAX];
    uint32_t depth = 0;
    enum rc rc = RC_OK;
    for (;;) {
        if (kind == GGUF_ARRAY && count > 0) {
            if (depth == GGUF_NESTING_MAX)
                return gguf_fault(r, RC_UNSUPPORTED, r->pos, "value",
                                  "arrays nested deeper than %u", GGUF_NESTING_MAX);
            left[depth++] = count;
        } else if (kind == GGUF_STRING) {
            rc = read_texts(r, count);
        } else if (kind != GGUF_ARRAY) {
            rc = read_scalars(r, kind, count);
        }
        if (rc != RC_OK)
            return rc;
        while (depth > 0 && left[depth - 1] == 0)
            depth--;
        if (depth == 0)
            return RC_OK;
        left[depth - 1]--;
        rc = read_array_head(r, &kind, &count);
        if (rc != RC_OK)
            return rc;
    }
}

static enum rc read_key(struct gguf_reader *r, struct gguf_key *key)
{
    uint32_t kind, elem_kind = 0;
    enum rc rc = take_name(r, &key->name);
    if (rc != RC_OK)
        return rc;
    uint64_t at = r->pos;
    rc = take_u32(r, "kind", &kind);
    if (rc != RC_OK)
        return rc;
    if (kind > GGUF_F64)
        return gguf_fault(r, RC_CORRUPT, at, "kind", "%u, known are 0 to 12", kind);
    key->kind = (enum gguf_kind)kind;
    key->value = r->file->base + r->pos;
    if (kind == GGUF_STRING)
        return read_texts(r, 1);
    if (kind != GGUF_ARRAY)
        return read_scalars(r, kind, 1);
    rc = read_array_head(r, &elem_kind, &key->count);
    if (rc != RC_OK)
        return rc;
    key->elem_kind = (enum gguf_kind)elem_kind;
    key->value = r->file->base + r->pos;
    return read_elements(r, elem_kind, key->count);
}

enum rc gguf_read_keys(struct gguf_reader *r, struct gguf_keys *keys)
{
    must(r->key_count <= GGUF_KEYS_MAX);
    keys->items = mem_alloc_array((size_t)r->key_count, sizeof *keys->items);
    enum rc rc =
        keys->items == NULL ? RC_NO_MEMORY : name_table_open(&keys->names, (uint32_t)r->key_count);
    if (rc != RC_OK)
        return gguf_fault(r, rc, r->pos, "keys", "%s", rc_text(rc));
    for (uint32_t i = 0; i < r->key_count; i++) {
        uint64_t at = r->pos;
        struct gguf_key *key = &keys->items[i];
        r->item = (struct gguf_item){ .noun = "key", .index = i };
        rc = read_key(r, key);
        if (rc != RC_OK)
            return rc;
        key->value_bytes = (uint64_t)(r->file->base + r->pos - key->value);
        uint32_t before = name_table_add(&keys->names, key->name.text, key->name.len, i);
        if (before != NAME_NONE)
            return gguf_fault(r, RC_CORRUPT, at, "name", "is already that of key %u", before);
        keys->count = i + 1;
    }
    r->item = (struct gguf_item){ 0 };
    return RC_OK;
}

void gguf_close_keys(struct gguf_keys *keys)
{
    name_table_close(&keys->names);
    mem_free(keys->items);
    *keys = (struct gguf_keys){ 0 };
}

static enum rc read_type(struct gguf_reader *r, struct gguf_tensor *t, uint64_t dims_at)
{
    uint32_t type;
    uint64_t at = r->pos;
    enum rc rc = take_u32(r, "type", &type);
    if (rc != RC_OK)
        return rc;
    const struct dtype_info *info = dtype_find(type);
    if (info == NULL && dtype_withdrawn_name(type) != NULL)
        return gguf_fault(r, RC_UNSUPPORTED, at, "type",
                          "%s was withdrawn from GGUF: quantize the model anew",
                          dtype_withdrawn_name(type));
    if (info == NULL)
        return gguf_fault(r, RC_UNSUPPORTED, at, "type", "number %u is unknown", type);
    t->type = (enum dtype)type;
    size_t row_bytes;
    if (t->dims[0] % info->block_elems != 0)
        return gguf_fault(r, RC_CORRUPT, dims_at, "dimension 0",
                          "%" PRIu64 " is not whole blocks of %u (%s)", t->dims[0],
                          info->block_elems, info->name);
    if (!dtype_row_bytes(&row_bytes, t->type, t->dims[0]) ||
        __builtin_mul_overflow((uint64_t)row_bytes, t->elems / t->dims[0], &t->bytes))
        return gguf_fault(r, RC_CORRUPT, dims_at, "dimensions",
                          "the size in bytes exceeds 64 bits");
    return RC_OK;
}

static enum rc read_dims(struct gguf_reader *r, struct gguf_tensor *t)
{
    uint64_t at = r->pos;
    enum rc rc = take_u32(r, "dimension count", &t->dim_count);
    if (rc != RC_OK)
        return rc;
    if (t->dim_count < 1 || t->dim_count > 4)
        return gguf_fault(r, RC_CORRUPT, at, "dimension count", "%u, 1 to 4 are allowed",
                          t->dim_count);
    t->elems = 1;
    for (uint32_t i = 0; i < 4; i++) {
        t->dims[i] = 1;
        if (i >= t->dim_count)
            continue;
        at = r->pos;
        rc = take_u64(r, "dimension", &t->dims[i]);
        if (rc != RC_OK)
            return rc;
        if (t->dims[i] == 0)
            return gguf_fault(r, RC_CORRUPT, at, "dimension", "number %u is 0", i);
        if (__builtin_mul_overflow(t->elems, t->dims[i], &t->elems) || t->elems > INT64_MAX)
            return gguf_fault(r, RC_CORRUPT, at, "dimension",
                              "number %u, %" PRIu64 ": the product exceeds 63 bits", i, t->dims[i]);
    }
    return RC_OK;
}

static enum rc read_tensor(struct gguf_reader *r, uint64_t alignment, struct gguf_tensor *t)
{
    enum rc rc = take_name(r, &t->name);
    if (rc != RC_OK)
        return rc;
    uint64_t dims_at = r->pos + 4;
    rc = read_dims(r, t);
    if (rc == RC_OK)
        rc = read_type(r, t, dims_at);
    if (rc != RC_OK)
        return rc;
    uint64_t at = r->pos;
    rc = take_u64(r, "offset",
                  &t->file_offset); /* within the data section, whose start is not known yet */
    if (rc != RC_OK)
        return rc;
    if ((t->file_offset & (alignment - 1)) != 0)
        return gguf_fault(r, RC_CORRUPT, at, "offset",
                          "%" PRIu64 " is not a multiple of the alignment %" PRIu64, t->file_offset,
                          alignment);
    t->file_index = r->file_index;
    return RC_OK;
}

/* Offsets become places in the file, now that the end of the directory is known. */
static enum rc place_tensors(struct gguf_reader *r, uint64_t alignment, struct gguf_tensor *tensors,
                             uint64_t count)
{
    uint64_t start = (r->pos + alignment - 1) & ~(alignment - 1);
    uint64_t data_bytes = start <= r->file->bytes ? r->file->bytes - start : 0;
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_tensor *t = &tensors[i];
        r->item = (struct gguf_item){ .noun = "tensor", .index = i, .name = t->name };
        if (t->file_offset > data_bytes || t->bytes > data_bytes - t->file_offset)
            return gguf_fault(r, RC_CORRUPT, start, "data",
                              "%" PRIu64 " bytes from %" PRIu64 " on, the file has %" PRIu64
                              " (cut short?)",
                              t->bytes, t->file_offset, data_bytes);
        t->file_offset += start;
        t->data = r->file->base + t->file_offset;
    }
    r->item = (struct gguf_item){ 0 };
    return RC_OK;
}

enum rc gguf_read_tensors(struct gguf_reader *r, uint64_t alignment, struct gguf_tensors *tensors)
{
    must(alignment != 0 && (alignment & (alignment - 1)) == 0);
    uint64_t count = r->tensor_count;
    if (count > GGUF_TENSORS_MAX - tensors->count)
        return gguf_fault(r, RC_UNSUPPORTED, 8, "tensor count",
                          "%" PRIu64 " with the files before, the limit is %u",
                          count + tensors->count, GGUF_TENSORS_MAX);
    enum rc rc = check_count(r, 8, "tensor count", count, TENSOR_BYTES_MIN, GGUF_TENSORS_MAX);
    if (rc != RC_OK)
        return rc;
    size_t old_bytes = tensors->count * sizeof *tensors->items;
    void *grown =
        mem_grow(tensors->items, old_bytes, old_bytes + (size_t)count * sizeof *tensors->items);
    if (grown == NULL)
        return gguf_fault(r, RC_NO_MEMORY, r->pos, "tensors", "%s", rc_text(RC_NO_MEMORY));
    tensors->items = grown;
    struct gguf_tensor *first = tensors->items + tensors->count;
    for (uint64_t i = 0; i < count; i++) {
        r->item = (struct gguf_item){ .noun = "tensor", .index = i };
        rc = read_tensor(r, alignment, &first[i]);
        if (rc != RC_OK)
            return rc;
    }
    rc = place_tensors(r, alignment, first, count);
    if (rc == RC_OK)
        tensors->count += (uint32_t)count;
    return rc;
}
