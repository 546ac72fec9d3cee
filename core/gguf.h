/* SPDX-License-Identifier: MIT */
/* gguf - a GGUF model (one file or a split series), mapped read-only and shared, with its
 * bounds-checked directory of metadata and tensors. Every count, length and offset in the file is
 * checked against the bytes that are left before it is used; nothing is copied but the directory.
 *   owner    the opener; keys, strings and tensor data point into the mapping and live until
 *            gguf_close
 *   thread   any after gguf_open: read-only
 *   errors   RC_CORRUPT or RC_UNSUPPORTED with file, field and offset; RC_NOT_FOUND, RC_IO,
 *            RC_NO_MEMORY
 *   limits   GGUF_* in limits.h
 *   source   GGUF specification, versions 2 and 3, little endian */
#ifndef QUIRE_CORE_GGUF_H
#define QUIRE_CORE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/err.h"
#include "core/hash.h"

struct gguf;

enum gguf_kind {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
};

/* Text in the mapping: not terminated, any bytes. */
struct gguf_text {
    const char *text;
    size_t len;
};

struct gguf_key {
    struct gguf_text name;
    enum gguf_kind kind;
    enum gguf_kind elem_kind; /* of arrays; the getters refuse nested arrays */
    uint64_t count;           /* of arrays */
    const uint8_t *value;     /* of the (first) value, in the mapping, unaligned */
    uint64_t value_bytes;     /* of all values, with the lengths inside of texts and arrays */
};

struct gguf_tensor {
    struct gguf_text name;
    enum dtype type;
    uint32_t dim_count;   /* 1..4 */
    uint64_t dims[4];     /* dims[0] is the contiguous one (columns); unused ones are 1 */
    uint64_t elems;       /* product of dims */
    uint64_t bytes;       /* whole data */
    const uint8_t *data;  /* in the mapping; aligned to nothing more than the file's alignment */
    uint32_t file_index;  /* which file of a split model */
    uint64_t file_offset; /* of the data in that file: what direct I/O reads */
};

/* gguf_open - maps path (and its siblings, when first of a split), checks the directory. */
enum rc gguf_open(struct gguf **out, const char *path, struct fault *fault) ATTR_MUST_USE;
void gguf_close(struct gguf *g);

uint32_t gguf_version(const struct gguf *g);
uint32_t gguf_file_count(const struct gguf *g);
const char *gguf_file_path(const struct gguf *g, uint32_t file_index);
uint64_t gguf_file_bytes(const struct gguf *g, uint32_t file_index);

/* gguf_file_fd - open for reading until gguf_close; its position is nobody's. */
const uint8_t *gguf_file_base(const struct gguf *g, uint32_t file_index); /* its mapping */
int gguf_file_fd(const struct gguf *g, uint32_t file_index);

/* gguf_locate - file and offset of a byte in a mapping; false when it is in none. */
bool gguf_locate(const struct gguf *g, const uint8_t *data, uint32_t *file_index, uint64_t *offset);

enum gguf_advice {
    GGUF_STRETCHES, /* tensors are read in long stretches: as after open */
    GGUF_PIECES,    /* a few bytes here and there: the system reads no more than is touched */
    GGUF_TOUCH,     /* read all of it now */
    GGUF_LOCK,      /* and keep it in memory */
};

/* gguf_advise - how the tensors will be read. RC_IO or RC_NO_MEMORY, with errno set, when the
 * system does not follow. */
enum rc gguf_advise(const struct gguf *g, enum gguf_advice advice) ATTR_MUST_USE;

/* gguf_digest - of every byte of every file: reads them all. */
struct hash gguf_digest(const struct gguf *g);

size_t gguf_key_count(const struct gguf *g);
const struct gguf_key *gguf_key_at(const struct gguf *g, size_t index);
const struct gguf_key *gguf_find_key(const struct gguf *g, const char *name);

size_t gguf_tensor_count(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t index);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* Getters. A missing key is RC_NOT_FOUND with out unchanged (so that it may hold the default); a
 * key of another kind, or a number out of [min, max], is RC_CORRUPT with a text that names the key.
 * Integers of any width and sign are accepted where their value fits; f32 and f64 alike for
 * gguf_get_f32. */
enum rc gguf_get_u32(const struct gguf *g, const char *name, uint32_t min, uint32_t max,
                     uint32_t *out, struct fault *fault) ATTR_MUST_USE;
enum rc gguf_get_f32(const struct gguf *g, const char *name, float *out,
                     struct fault *fault) ATTR_MUST_USE;
enum rc gguf_get_bool(const struct gguf *g, const char *name, bool *out,
                      struct fault *fault) ATTR_MUST_USE;
enum rc gguf_get_text(const struct gguf *g, const char *name, struct gguf_text *out,
                      struct fault *fault) ATTR_MUST_USE;

/* gguf_get_array - the key when it is an array of this element kind. */
enum rc gguf_get_array(const struct gguf *g, const char *name, enum gguf_kind elem_kind,
                       const struct gguf_key **out, struct fault *fault) ATTR_MUST_USE;

/* gguf_kind_name - "u8" .. "f64", "bool", "string", "array". */
const char *gguf_kind_name(enum gguf_kind kind);
bool gguf_kind_is_integer(enum gguf_kind kind); /* not bool */

/* gguf_key_i64 / gguf_key_f64 - element index of an array, or the value itself with index 0. must()
 * on kind: i64 takes integers and bools (a u64 above INT64_MAX gives INT64_MAX), f64 takes floats
 * too. */
int64_t gguf_key_i64(const struct gguf_key *key, uint64_t index);
double gguf_key_f64(const struct gguf_key *key, uint64_t index);

/* Walk of a string array: start with *cursor = key->value, once per element. must() on kind; the
 * lengths were checked by gguf_open. */
struct gguf_text gguf_next_text(const struct gguf_key *key, const uint8_t **cursor);

#endif
