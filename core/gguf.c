/* SPDX-License-Identifier: MIT */
/* gguf - opens the files of a model and joins their directories:
 *
 *   part 0   all keys, and its tensors          model-00001-of-00003.gguf
 *   part i   split.* keys only, and its tensors model-0000(i+1)-of-00003.gguf, in the same folder
 *
 * A single file is a model of one part. Each file is mapped whole, read-only and shared: weights
 * are used where they lie, and every process that serves the model shares one page cache. Opening
 * never blocks (a pipe is refused, not waited for) and never follows names found inside a file:
 * siblings are found by the name that the user gave. */
#include "core/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/gguf_read.h"
#include "core/limits.h"
#include "core/mem.h"
#include "core/must.h"

#define GGUF_MAGIC 0x67677566u
#define ALIGNMENT_DEFAULT 32u
#define ALIGNMENT_MAX 65536u
#define SPLIT_SUFFIX_BYTES 20u /* "-00001-of-00003.gguf" */
#define SPLIT_SUFFIX_CAP 40u
#define PATH_SHOWN_BYTES 100u
#define ADVICE_BYTES 65536u /* a multiple of every page size */

struct gguf {
    uint32_t magic;
    uint32_t version;
    struct gguf_file *files;
    uint32_t file_count;
    struct gguf_keys keys;
    struct gguf_tensors tensors;
    struct name_table tensor_names;
};

/* What split.* says of one part. */
struct split {
    uint32_t no;
    uint32_t count;
    uint32_t tensors; /* of the whole model; 0 = not said */
};

/* The end of a path that is too long for a message: it says more than the beginning. */
static const char *shown(const char *path)
{
    size_t len = strlen(path);
    return len > PATH_SHOWN_BYTES ? path + len - PATH_SHOWN_BYTES : path;
}

static enum rc map_fd(struct gguf_file *file, int fd, struct fault *fault)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fault_set_errno(fault, RC_IO, "%s: cannot be examined", shown(file->path));
    if (!S_ISREG(st.st_mode))
        return fault_set(fault, RC_UNSUPPORTED, "%s: is not a regular file", shown(file->path));
    if (st.st_size < 4)
        return fault_set(fault, RC_CORRUPT, "%s: magic at byte 0: the file has %" PRIu64 " bytes",
                         shown(file->path), (uint64_t)st.st_size);
    uint64_t bytes = (uint64_t)st.st_size;
    void *base = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return fault_set_errno(fault, errno == ENOMEM ? RC_NO_MEMORY : RC_IO,
                               "%s: cannot be mapped", shown(file->path));
    file->base = base;
    file->bytes = bytes;
    /* A file that is being written now (a download) would end in SIGBUS. */
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes)
        return fault_set(fault, RC_CORRUPT, "%s: changes while it is opened", shown(file->path));
    return RC_OK;
}

static enum rc open_file(struct gguf_file *file, const char *path, struct fault *fault)
{
    file->path = mem_copy_text(path, strlen(path));
    if (file->path == NULL)
        return fault_set(fault, RC_NO_MEMORY, "%s: %s", shown(path), rc_text(RC_NO_MEMORY));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fault_set_errno(fault, errno == ENOENT ? RC_NOT_FOUND : RC_IO,
                               "%s: cannot be opened", shown(path));
    file->fd = fd;
    return map_fd(file, fd, fault);
}

static void close_file(struct gguf_file *file)
{
    if (file->base != NULL)
        must(munmap(file->base, (size_t)file->bytes) == 0);
    if (file->fd > 0)
        (void)close(file->fd);
    mem_free(file->path);
    *file = (struct gguf_file){ 0 };
}

static const struct gguf_key *find_key(const struct gguf_keys *keys, const char *name)
{
    uint32_t index = name_table_find(&keys->names, name, strlen(name));
    return index == NAME_NONE ? NULL : &keys->items[index];
}

/* A small non-negative integer that the reader itself depends on; missing = *out stays. */
static enum rc get_number(struct gguf_reader *r, const struct gguf_keys *keys, const char *name,
                          uint32_t max, uint32_t *out)
{
    const struct gguf_key *key = find_key(keys, name);
    if (key == NULL)
        return RC_OK;
    r->item = (struct gguf_item){ .noun = "key", .name = key->name };
    uint64_t at = gguf_offset_of(r->file, key->value);
    if (!gguf_kind_is_integer(key->kind))
        return gguf_fault(r, RC_CORRUPT, at, "value", "is %s, not an integer",
                          gguf_kind_name(key->kind));
    int64_t value = gguf_key_i64(key, 0);
    if (value < 0 || value > max)
        return gguf_fault(r, RC_CORRUPT, at, "value", "%" PRId64 ", 0 to %u are allowed", value,
                          max);
    *out = (uint32_t)value;
    r->item = (struct gguf_item){ 0 };
    return RC_OK;
}

static enum rc get_alignment(struct gguf_reader *r, const struct gguf_keys *keys, uint32_t *out)
{
    *out = ALIGNMENT_DEFAULT;
    enum rc rc = get_number(r, keys, "general.alignment", ALIGNMENT_MAX, out);
    if (rc != RC_OK)
        return rc;
    if (*out != 0 && (*out & (*out - 1)) == 0)
        return RC_OK;
    const struct gguf_key *key = find_key(keys, "general.alignment");
    must(key != NULL);
    r->item = (struct gguf_item){ .noun = "key", .name = key->name };
    return gguf_fault(r, RC_CORRUPT, gguf_offset_of(r->file, key->value), "value",
                      "%u is not a power of two", *out);
}

static enum rc get_split(struct gguf_reader *r, const struct gguf_keys *keys, struct split *out)
{
    *out = (struct split){ .no = 0, .count = 1, .tensors = 0 };
    enum rc rc = get_number(r, keys, "split.count", GGUF_SPLITS_MAX, &out->count);
    if (rc == RC_OK)
        rc = get_number(r, keys, "split.no", GGUF_SPLITS_MAX, &out->no);
    if (rc == RC_OK)
        rc = get_number(r, keys, "split.tensors.count", GGUF_TENSORS_MAX, &out->tensors);
    if (out->count == 0)
        out->count = 1;
    return rc;
}

/* Reads the directory of file index; its keys go to keys, its tensors are appended to g's. */
static enum rc read_file(struct gguf *g, uint32_t index, struct gguf_keys *keys,
                         struct split *split, struct fault *fault)
{
    struct gguf_reader r = { .file = &g->files[index], .file_index = index, .fault = fault };
    uint32_t alignment;
    enum rc rc = gguf_read_head(&r);
    if (rc == RC_OK)
        rc = gguf_read_keys(&r, keys);
    if (rc == RC_OK)
        rc = get_alignment(&r, keys, &alignment);
    if (rc == RC_OK)
        rc = get_split(&r, keys, split);
    if (rc == RC_OK)
        rc = gguf_read_tensors(&r, alignment, &g->tensors);
    if (index == 0)
        g->version = r.version;
    return rc;
}

/* Checks that the name of part 0 ends in -00001-of-N.gguf, as the names of the siblings are made
 * from it. */
static enum rc check_split_name(const struct gguf *g, uint32_t count, struct fault *fault)
{
    char suffix[SPLIT_SUFFIX_CAP];
    const char *path = g->files[0].path;
    size_t len = strlen(path);
    snprintf(suffix, sizeof suffix, "-00001-of-%05u.gguf", count);
    if (len < strlen(suffix) || strcmp(path + len - strlen(suffix), suffix) != 0)
        return fault_set(fault, RC_CORRUPT,
                         "%s: split.count is %u, but the name does not end in %s", shown(path),
                         count, suffix);
    return RC_OK;
}

static enum rc read_part(struct gguf *g, uint32_t index, struct fault *fault)
{
    const char *first = g->files[0].path;
    uint32_t count = g->file_count;
    size_t stem = strlen(first) - SPLIT_SUFFIX_BYTES;
    char *path = mem_alloc(stem + SPLIT_SUFFIX_CAP);
    if (path == NULL)
        return fault_set(fault, RC_NO_MEMORY, "%s: %s", shown(first), rc_text(RC_NO_MEMORY));
    memcpy(path, first, stem);
    snprintf(path + stem, SPLIT_SUFFIX_CAP, "-%05u-of-%05u.gguf", index + 1, count);

    struct gguf_keys keys = { 0 };
    struct split split;
    enum rc rc = open_file(&g->files[index], path, fault);
    if (rc == RC_NOT_FOUND)
        rc = fault_set(fault, RC_CORRUPT, "%s: is missing: part %u of %u of this model",
                       shown(path), index + 1, count);
    if (rc == RC_OK)
        rc = read_file(g, index, &keys, &split, fault);
    if (rc == RC_OK && (split.no != index || split.count != count))
        rc = fault_set(fault, RC_CORRUPT, "%s: split.no %u of split.count %u, expected %u of %u",
                       shown(path), split.no, split.count, index, count);
    gguf_close_keys(&keys);
    mem_free(path);
    return rc;
}

static enum rc read_parts(struct gguf *g, const struct split *split, struct fault *fault)
{
    if (split->no != 0)
        return fault_set(fault, RC_CORRUPT, "%s: is part %u of %u of a model: open the first part",
                         shown(g->files[0].path), split->no + 1, split->count);
    if (split->count > 1) {
        enum rc rc = check_split_name(g, split->count, fault);
        if (rc != RC_OK)
            return rc;
        struct gguf_file *files = mem_grow(g->files, sizeof *files, split->count * sizeof *files);
        if (files == NULL)
            return fault_set(fault, RC_NO_MEMORY, "%s: %s", shown(g->files[0].path),
                             rc_text(RC_NO_MEMORY));
        g->files = files;
        g->file_count = split->count;
    }
    for (uint32_t i = 1; i < g->file_count; i++) {
        enum rc rc = read_part(g, i, fault);
        if (rc != RC_OK)
            return rc;
    }
    if (split->tensors != 0 && split->tensors != g->tensors.count)
        return fault_set(fault, RC_CORRUPT,
                         "%s: split.tensors.count is %u, the %u parts have %u tensors",
                         shown(g->files[0].path), split->tensors, g->file_count, g->tensors.count);
    return RC_OK;
}

static enum rc index_tensors(struct gguf *g, struct fault *fault)
{
    enum rc rc = name_table_open(&g->tensor_names, g->tensors.count);
    if (rc != RC_OK)
        return fault_set(fault, rc, "%s: %s", shown(g->files[0].path), rc_text(rc));
    for (uint32_t i = 0; i < g->tensors.count; i++) {
        const struct gguf_tensor *t = &g->tensors.items[i];
        if (name_table_add(&g->tensor_names, t->name.text, t->name.len, i) == NAME_NONE)
            continue;
        struct gguf_reader r = { .file = &g->files[t->file_index], .fault = fault };
        r.item = (struct gguf_item){ .noun = "tensor", .index = i, .name = t->name };
        return gguf_fault(&r, RC_CORRUPT, gguf_offset_of(r.file, t->name.text), "name",
                          "is there twice");
    }
    return RC_OK;
}

enum rc gguf_open(struct gguf **out, const char *path, struct fault *fault)
{
    struct split split;
    enum rc rc = RC_NO_MEMORY;
    *out = NULL;
    struct gguf *g = mem_alloc(sizeof *g);
    if (g == NULL)
        return fault_set(fault, rc, "%s: %s", shown(path), rc_text(rc));
    g->magic = GGUF_MAGIC;
    g->files = mem_alloc(sizeof *g->files);
    if (g->files == NULL) {
        rc = fault_set(fault, rc, "%s: %s", shown(path), rc_text(rc));
        goto fail;
    }
    g->file_count = 1;
    rc = open_file(&g->files[0], path, fault);
    if (rc == RC_OK)
        rc = read_file(g, 0, &g->keys, &split, fault);
    if (rc == RC_OK)
        rc = read_parts(g, &split, fault);
    if (rc == RC_OK)
        rc = index_tensors(g, fault);
    if (rc != RC_OK)
        goto fail;
    *out = g;
    return RC_OK;
fail:
    gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g)
{
    if (g == NULL)
        return;
    must(g->magic == GGUF_MAGIC);
    name_table_close(&g->tensor_names);
    mem_free(g->tensors.items);
    gguf_close_keys(&g->keys);
    for (uint32_t i = 0; i < g->file_count; i++)
        close_file(&g->files[i]);
    mem_free(g->files);
    g->magic = 0;
    mem_free(g);
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

uint32_t gguf_file_count(const struct gguf *g)
{
    return g->file_count;
}

const char *gguf_file_path(const struct gguf *g, uint32_t file_index)
{
    must(file_index < g->file_count);
    return g->files[file_index].path;
}

uint64_t gguf_file_bytes(const struct gguf *g, uint32_t file_index)
{
    must(file_index < g->file_count);
    return g->files[file_index].bytes;
}

const uint8_t *gguf_file_base(const struct gguf *g, uint32_t file_index)
{
    must(file_index < g->file_count);
    return g->files[file_index].base;
}

int gguf_file_fd(const struct gguf *g, uint32_t file_index)
{
    must(file_index < g->file_count);
    return g->files[file_index].fd;
}

bool gguf_locate(const struct gguf *g, const uint8_t *data, uint32_t *file_index, uint64_t *offset)
{
    for (uint32_t i = 0; i < g->file_count; i++) {
        const struct gguf_file *f = &g->files[i];
        uintptr_t at = (uintptr_t)data, base = (uintptr_t)f->base;
        if (at < base || at >= base + f->bytes)
            continue;
        *file_index = i;
        *offset = (uint64_t)(data - f->base);
        return true;
    }
    return false;
}

/* Of the tensors of one file, in whole pages. */
static uint64_t data_begin(const struct gguf *g, uint32_t file_index)
{
    uint64_t first = g->files[file_index].bytes;
    for (uint32_t i = 0; i < g->tensors.count; i++) {
        const struct gguf_tensor *t = &g->tensors.items[i];
        if (t->file_index == file_index && t->file_offset < first)
            first = t->file_offset;
    }
    return first / ADVICE_BYTES * ADVICE_BYTES;
}

enum rc gguf_advise(const struct gguf *g, enum gguf_advice advice)
{
    static const int advices[] = { MADV_NORMAL, MADV_RANDOM, MADV_POPULATE_READ };
    for (uint32_t i = 0; i < g->file_count; i++) {
        const struct gguf_file *f = &g->files[i];
        uint64_t first = data_begin(g, i);
        if (first == f->bytes)
            continue;
        size_t bytes = (size_t)(f->bytes - first);
        int failed = advice == GGUF_LOCK ? mlock(f->base + first, bytes)
                                         : madvise(f->base + first, bytes, advices[advice]);
        if (failed != 0)
            return advice == GGUF_LOCK ? RC_NO_MEMORY : RC_IO;
    }
    return RC_OK;
}

struct hash gguf_digest(const struct gguf *g)
{
    struct hash h = { 0 };
    for (uint32_t i = 0; i < g->file_count; i++)
        h = hash_bytes(h, g->files[i].base, g->files[i].bytes);
    return h;
}

size_t gguf_key_count(const struct gguf *g)
{
    must(g->magic == GGUF_MAGIC);
    return g->keys.count;
}

const struct gguf_key *gguf_key_at(const struct gguf *g, size_t index)
{
    must(index < g->keys.count);
    return &g->keys.items[index];
}

const struct gguf_key *gguf_find_key(const struct gguf *g, const char *name)
{
    must(g->magic == GGUF_MAGIC);
    return find_key(&g->keys, name);
}

size_t gguf_tensor_count(const struct gguf *g)
{
    must(g->magic == GGUF_MAGIC);
    return g->tensors.count;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t index)
{
    must(index < g->tensors.count);
    return &g->tensors.items[index];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    must(g->magic == GGUF_MAGIC);
    uint32_t index = name_table_find(&g->tensor_names, name, strlen(name));
    return index == NAME_NONE ? NULL : &g->tensors.items[index];
}
