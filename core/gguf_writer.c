/* SPDX-License-Identifier: MIT */
/* gguf_writer - see gguf_writer.h; the layout is drawn in core/gguf_read.c. The head is gathered in
 * memory, as it begins with counts that are known last. */
#include "core/gguf_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/detok.h"
#include "core/mem.h"
#include "core/must.h"

#define ALIGNMENT 32u
#define TENSORS_STEP 256u

struct gguf_writer {
    char *path;
    char *path_part; /* "" once it has its name */
    int fd;
    enum rc rc; /* the first error */
    int os_errno;
    struct text keys, directory;
    uint64_t key_count;
    uint64_t *ends; /* [tensor_count] of the data of each, from the first one's beginning */
    uint32_t tensor_count, tensor_capacity;
    uint32_t tensor_index; /* whose data is being written */
    uint64_t data_bytes;   /* written so far, padding included */
    bool head_written;
};

static enum rc fail(struct gguf_writer *w, enum rc rc)
{
    if (w->rc == RC_OK) {
        w->rc = rc;
        w->os_errno = rc == RC_IO ? errno : 0;
    }
    return w->rc;
}

/* The first error, told. */
static enum rc tell(const struct gguf_writer *w, struct fault *fault)
{
    if (w->rc == RC_OK)
        return RC_OK;
    errno = w->os_errno;
    if (w->rc == RC_IO)
        return fault_set_errno(fault, RC_IO, "%s cannot be written", w->path);
    return fault_set(fault, w->rc, "%s cannot be written: %s", w->path, rc_text(w->rc));
}

enum rc gguf_writer_open(struct gguf_writer **out, const char *path, struct fault *fault)
{
    size_t len = strlen(path);
    struct gguf_writer *w = mem_alloc(sizeof *w);
    char *copy = mem_alloc(len + 1), *part = mem_alloc(len + sizeof ".XXXXXX");
    if (w == NULL || copy == NULL || part == NULL) {
        mem_free(w);
        mem_free(copy);
        mem_free(part);
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    }
    memcpy(copy, path, len + 1);
    memcpy(part, path, len);
    memcpy(part + len, ".XXXXXX", sizeof ".XXXXXX");
    *w = (struct gguf_writer){ .path = copy, .path_part = part };
    w->fd = mkstemp(part);
    if (w->fd < 0) {
        part[0] = '\0';
        enum rc rc = fault_set_errno(fault, RC_IO, "%s cannot be created", path);
        gguf_writer_close(w);
        return rc;
    }
    *out = w;
    return RC_OK;
}

void gguf_writer_close(struct gguf_writer *w)
{
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->path_part[0] != '\0')
        unlink(w->path_part);
    text_close(&w->keys);
    text_close(&w->directory);
    mem_free(w->ends);
    mem_free(w->path_part);
    mem_free(w->path);
    mem_free(w);
}

static void put(struct gguf_writer *w, struct text *t, const void *data, size_t bytes)
{
    if (text_append(t, data, bytes) != RC_OK)
        fail(w, RC_NO_MEMORY);
}

static void put_u32(struct gguf_writer *w, struct text *t, uint32_t v)
{
    put(w, t, &v, sizeof v);
}

static void put_u64(struct gguf_writer *w, struct text *t, uint64_t v)
{
    put(w, t, &v, sizeof v);
}

static void put_name(struct gguf_writer *w, struct text *t, const char *name, size_t len)
{
    put_u64(w, t, len);
    put(w, t, name, len);
}

void gguf_writer_copy_key(struct gguf_writer *w, const struct gguf_key *key)
{
    must(!w->head_written);
    put_name(w, &w->keys, key->name.text, key->name.len);
    put_u32(w, &w->keys, (uint32_t)key->kind);
    if (key->kind == GGUF_ARRAY) {
        put_u32(w, &w->keys, (uint32_t)key->elem_kind);
        put_u64(w, &w->keys, key->count);
    }
    put(w, &w->keys, key->value, (size_t)key->value_bytes);
    w->key_count++;
}

void gguf_writer_key_u32(struct gguf_writer *w, const char *name, uint32_t value)
{
    must(!w->head_written);
    put_name(w, &w->keys, name, strlen(name));
    put_u32(w, &w->keys, GGUF_U32);
    put_u32(w, &w->keys, value);
    w->key_count++;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gguf_writer_tensor(struct gguf_writer *w, const struct gguf_tensor *t, enum dtype type)
{
    must(!w->head_written);
    if (w->tensor_count == w->tensor_capacity) {
        uint32_t capacity = w->tensor_capacity + TENSORS_STEP;
        uint64_t *ends = mem_grow(w->ends, w->tensor_count * sizeof *ends, capacity * sizeof *ends);
        if (ends == NULL) {
            fail(w, RC_NO_MEMORY);
            return;
        }
        w->ends = ends;
        w->tensor_capacity = capacity;
    }
    size_t row_bytes;
    must(dtype_row_bytes(&row_bytes, type, t->dims[0]));
    uint64_t begin = w->tensor_count == 0 ? 0 : padded(w->ends[w->tensor_count - 1]);
    put_name(w, &w->directory, t->name.text, t->name.len);
    put_u32(w, &w->directory, t->dim_count);
    put(w, &w->directory, t->dims, t->dim_count * sizeof t->dims[0]);
    put_u32(w, &w->directory, (uint32_t)type);
    put_u64(w, &w->directory, begin);
    w->ends[w->tensor_count++] = begin + t->elems / t->dims[0] * row_bytes;
}

static void write_all(struct gguf_writer *w, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0 && w->rc == RC_OK) {
        ssize_t n = write(w->fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fail(w, RC_IO);
            return;
        }
        p += n;
        bytes -= (size_t)n;
    }
}

static void write_zeros(struct gguf_writer *w, size_t bytes)
{
    static const char zeros[ALIGNMENT];
    must(bytes <= sizeof zeros);
    write_all(w, zeros, bytes);
}

static void write_head(struct gguf_writer *w)
{
    struct text head = { 0 };
    put(w, &head, "GGUF", 4);
    put_u32(w, &head, 3);
    put_u64(w, &head, w->tensor_count);
    put_u64(w, &head, w->key_count);
    write_all(w, head.data, head.len);
    write_all(w, w->keys.data, w->keys.len);
    write_all(w, w->directory.data, w->directory.len);
    uint64_t bytes = head.len + w->keys.len + w->directory.len;
    write_zeros(w, (size_t)(padded(bytes) - bytes));
    text_close(&head);
    w->head_written = true;
}

enum rc gguf_writer_data(struct gguf_writer *w, const void *data, size_t bytes, struct fault *fault)
{
    const char *p = data;
    if (!w->head_written)
        write_head(w);
    while (bytes > 0 && w->rc == RC_OK) {
        must(w->tensor_index < w->tensor_count);
        uint64_t end = w->ends[w->tensor_index], left = end - w->data_bytes;
        size_t part = bytes < left ? bytes : (size_t)left;
        write_all(w, p, part);
        w->data_bytes += part;
        p += part;
        bytes -= part;
        if (w->data_bytes == end) {
            write_zeros(w, (size_t)(padded(end) - end));
            w->data_bytes = padded(end);
            w->tensor_index++;
        }
    }
    return tell(w, fault);
}

enum rc gguf_writer_finish(struct gguf_writer *w, struct fault *fault)
{
    must(w->tensor_index == w->tensor_count);
    if (!w->head_written)
        write_head(w);
    mode_t mask = umask(0);
    umask(mask);
    if (w->rc == RC_OK && (fchmod(w->fd, 0666 & ~mask) != 0 || fsync(w->fd) != 0))
        fail(w, RC_IO);
    if (w->rc == RC_OK && rename(w->path_part, w->path) != 0)
        fail(w, RC_IO);
    if (w->rc == RC_OK)
        w->path_part[0] = '\0';
    return tell(w, fault);
}
