/* SPDX-License-Identifier: MIT */
/* gguf_write - see gguf_write.h; the layout is drawn in core/gguf_read.c. */
#include "tests/mkmodel/gguf_write.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"

void bytes_close(struct bytes *b)
{
    mem_free(b->data);
    *b = (struct bytes){ 0 };
}

void bytes_put(struct bytes *b, const void *data, size_t len)
{
    if (len > b->capacity - b->len) {
        size_t capacity = (b->len + len) * 2 + 256;
        b->data = mem_grow(b->data, b->len, capacity);
        must(b->data != NULL);
        b->capacity = capacity;
    }
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

void bytes_put_u32(struct bytes *b, uint32_t v)
{
    bytes_put(b, &v, sizeof v);
}

void bytes_put_u64(struct bytes *b, uint64_t v)
{
    bytes_put(b, &v, sizeof v);
}

void bytes_put_text(struct bytes *b, const char *text, size_t len)
{
    bytes_put_u64(b, len);
    bytes_put(b, text, len);
}

void bytes_pad(struct bytes *b, size_t alignment)
{
    static const uint8_t zeros[256];
    while (b->len % alignment != 0) {
        size_t count = alignment - b->len % alignment;
        bytes_put(b, zeros, count < sizeof zeros ? count : sizeof zeros);
    }
}

void bytes_save(const struct bytes *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    must(f != NULL);
    must(b->len == 0 || fwrite(b->data, 1, b->len, f) == b->len);
    must(fclose(f) == 0);
}

void gguf_put_head(struct bytes *b, uint32_t version, uint64_t tensor_count, uint64_t key_count)
{
    bytes_put(b, "GGUF", 4);
    bytes_put_u32(b, version);
    bytes_put_u64(b, tensor_count);
    bytes_put_u64(b, key_count);
}

void gguf_put_scalar(struct bytes *b, const char *name, enum gguf_kind kind, const void *value,
                     size_t len)
{
    bytes_put_text(b, name, strlen(name));
    bytes_put_u32(b, (uint32_t)kind);
    bytes_put(b, value, len);
}

void gguf_put_u16(struct bytes *b, const char *name, uint16_t v)
{
    gguf_put_scalar(b, name, GGUF_U16, &v, sizeof v);
}

void gguf_put_u32(struct bytes *b, const char *name, uint32_t v)
{
    gguf_put_scalar(b, name, GGUF_U32, &v, sizeof v);
}

void gguf_put_f32(struct bytes *b, const char *name, float v)
{
    gguf_put_scalar(b, name, GGUF_F32, &v, sizeof v);
}

void gguf_put_bool(struct bytes *b, const char *name, bool v)
{
    gguf_put_scalar(b, name, GGUF_BOOL, &(uint8_t){ v }, 1);
}

void gguf_put_string(struct bytes *b, const char *name, const char *text)
{
    bytes_put_text(b, name, strlen(name));
    bytes_put_u32(b, GGUF_STRING);
    bytes_put_text(b, text, strlen(text));
}

void gguf_put_array(struct bytes *b, const char *name, enum gguf_kind elem_kind, uint64_t count)
{
    bytes_put_text(b, name, strlen(name));
    bytes_put_u32(b, GGUF_ARRAY);
    bytes_put_u32(b, (uint32_t)elem_kind);
    bytes_put_u64(b, count);
}

void gguf_put_tensor(struct bytes *b, const char *name, uint32_t dim_count, const uint64_t *dims,
                     uint32_t type, uint64_t offset)
{
    bytes_put_text(b, name, strlen(name));
    bytes_put_u32(b, dim_count);
    bytes_put(b, dims, dim_count * sizeof *dims);
    bytes_put_u32(b, type);
    bytes_put_u64(b, offset);
}
