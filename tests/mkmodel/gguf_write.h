/* SPDX-License-Identifier: MIT */
/* gguf_write - bytes of a GGUF header, put together piece by piece; wrong pieces on purpose are
 * possible, as the reader's tests need them.
 *   owner    the caller; bytes_close gives the buffer back
 *   errors   out of memory aborts: only test programs link this */
#ifndef QUIRE_TESTS_MKMODEL_GGUF_WRITE_H
#define QUIRE_TESTS_MKMODEL_GGUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/gguf.h"

/* A growing buffer. Zero it before the first use. */
struct bytes {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

void bytes_close(struct bytes *b);
void bytes_put(struct bytes *b, const void *data, size_t len);
void bytes_put_u32(struct bytes *b, uint32_t v);
void bytes_put_u64(struct bytes *b, uint64_t v);
void bytes_put_text(struct bytes *b, const char *text, size_t len); /* u64 length, then the bytes */
void bytes_pad(struct bytes *b, size_t alignment);
void bytes_save(const struct bytes *b, const char *path); /* aborts when it cannot */

void gguf_put_head(struct bytes *b, uint32_t version, uint64_t tensor_count, uint64_t key_count);

/* A key of each kind. */
void gguf_put_u16(struct bytes *b, const char *name, uint16_t v);
void gguf_put_u32(struct bytes *b, const char *name, uint32_t v);
void gguf_put_f32(struct bytes *b, const char *name, float v);
void gguf_put_bool(struct bytes *b, const char *name, bool v);
void gguf_put_string(struct bytes *b, const char *name, const char *text);
/* Any scalar kind: bytes of the value itself. */
void gguf_put_scalar(struct bytes *b, const char *name, enum gguf_kind kind, const void *value,
                     size_t len);
/* Head of an array key; the caller puts the elements. */
void gguf_put_array(struct bytes *b, const char *name, enum gguf_kind elem_kind, uint64_t count);

void gguf_put_tensor(struct bytes *b, const char *name, uint32_t dim_count, const uint64_t *dims,
                     uint32_t type, uint64_t offset);

#endif
