/* SPDX-License-Identifier: MIT */
/* gguf_read - the checked directory of one GGUF file: core/gguf.c puts files together, nobody else
 * includes this.
 *   owner    struct gguf; keys and tensors point into the file's mapping
 *   errors   RC_CORRUPT, RC_UNSUPPORTED, RC_NO_MEMORY, with file, field and offset in the fault
 *   limits   GGUF_* in limits.h; nested arrays to GGUF_NESTING_MAX */
#ifndef QUIRE_CORE_GGUF_READ_H
#define QUIRE_CORE_GGUF_READ_H

#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/gguf.h"
#include "core/name_table.h"

#define GGUF_NESTING_MAX 8u

struct gguf_file {
    char *path;
    uint8_t *base; /* mapping, read-only and shared */
    int fd;        /* of the same file, whatever becomes of its name; 0 = none */
    uint64_t bytes;
};

struct gguf_keys {
    struct gguf_key *items;
    uint32_t count;
    struct name_table names;
};

struct gguf_tensors {
    struct gguf_tensor *items;
    uint32_t count;
};

/* Place of a fault: what was being read. name.text NULL = not known yet. */
struct gguf_item {
    const char *noun; /* "key", "tensor", NULL in the file's head */
    uint64_t index;
    struct gguf_text name;
};

struct gguf_reader {
    const struct gguf_file *file;
    uint32_t file_index;
    uint64_t pos;
    uint64_t end;     /* the header may not reach beyond: file size or GGUF_METADATA_BYTES_MAX */
    uint64_t dropped; /* pages below were given back: a huge header must not become resident */
    uint32_t version;
    uint64_t tensor_count;
    uint64_t key_count;
    struct gguf_item item;
    struct fault *fault;
};

/* gguf_fault - fills the reader's fault with "FILE: ITEM FIELD at byte OFFSET: ..." and returns
 * code. */
enum rc gguf_fault(const struct gguf_reader *r, enum rc code, uint64_t offset, const char *field,
                   const char *fmt, ...) ATTR_PRINTF(5, 6);

/* In this order: the head (version and counts), the keys, the tensors (appended to those of other
 * files). */
enum rc gguf_read_head(struct gguf_reader *r) ATTR_MUST_USE;
enum rc gguf_read_keys(struct gguf_reader *r, struct gguf_keys *keys) ATTR_MUST_USE;
enum rc gguf_read_tensors(struct gguf_reader *r, uint64_t alignment,
                          struct gguf_tensors *tensors) ATTR_MUST_USE;

/* gguf_close_keys - a zeroed one is allowed. */
void gguf_close_keys(struct gguf_keys *keys);

/* gguf_kind_bytes - bytes of one scalar, 0 for strings, arrays and unknown kinds. */
uint32_t gguf_kind_bytes(uint32_t kind);

/* gguf_offset_of - offset in the file of something in its mapping. */
uint64_t gguf_offset_of(const struct gguf_file *file, const void *p);

#endif
