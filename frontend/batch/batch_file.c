/* SPDX-License-Identifier: MIT */
/* batch_file - append, cut, lock.
 * A row is dumped into one buffer and written with one write(2) on an O_APPEND descriptor. A kill
 * can leave a row cut off only at the end of the file, and there it has no line end: that is how
 * the next start knows it, if it begins like a row: the only line of somebody's file may lack its
 * end too, and must not be cut. When the disk is full in the middle of a row, the row is cut off at
 * once. Keys are kept as 128-bit hashes (16 bytes a row), so that a million rows cost 32 MiB at
 * most. */
#include "frontend/batch/batch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/limits.h"
#include "core/mem.h"
#include "frontend/batch/batch_row.h"
#include "frontend/batch/line_reader.h"

#define ROW_BEGINS "{\"id\":\"batch_req" /* what batch_row writes first */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Two chains over 8-byte words with different seeds. kind keeps ids and lines apart. */
static struct key_hash hash_of(uint64_t kind, const char *bytes, size_t len)
{
    uint64_t a = mix(kind + UINT64_C(0x9e3779b97f4a7c15)),
             b = mix(kind + UINT64_C(0x6a09e667f3bcc909));
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
        a = mix(a ^ word) + b;
        b = mix(b + word) ^ (a << 1);
    }
    a = mix(a ^ len);
    b = mix(b + len);
    return (struct key_hash){ a, b | 1 }; /* never the free slot */
}

static struct key_hash *find_slot(struct key_hash *slots, size_t capacity, struct key_hash h)
{
    for (size_t i = h.a & (capacity - 1);; i = (i + 1) & (capacity - 1))
        if (slots[i].b == 0 || (slots[i].a == h.a && slots[i].b == h.b))
            return &slots[i];
}

static enum rc grow(struct key_set *s, size_t capacity)
{
    struct key_hash *slots = mem_alloc_array(capacity, sizeof *slots);
    if (slots == NULL)
        return RC_NO_MEMORY;
    for (size_t i = 0; i < s->capacity; i++)
        if (s->slots[i].b != 0)
            *find_slot(slots, capacity, s->slots[i]) = s->slots[i];
    mem_free(s->slots);
    s->slots = slots;
    s->capacity = capacity;
    return RC_OK;
}

static enum rc add(struct key_set *s, struct key_hash h, bool *added)
{
    if (s->count * 2 >= s->capacity) {
        enum rc rc = grow(s, s->capacity == 0 ? 1024 : s->capacity * 2);
        if (rc != RC_OK)
            return rc;
    }
    struct key_hash *slot = find_slot(s->slots, s->capacity, h);
    *added = slot->b == 0;
    s->count += *added;
    *slot = h;
    return RC_OK;
}

enum rc key_set_reserve(struct key_set *s, size_t count)
{
    size_t capacity = 1024;
    while (capacity / 2 <= count)
        capacity *= 2;
    return capacity > s->capacity ? grow(s, capacity) : RC_OK;
}

static bool has(const struct key_set *s, struct key_hash h)
{
    return s->capacity > 0 && find_slot(s->slots, s->capacity, h)->b != 0;
}

static struct key_hash line_hash(uint64_t line)
{
    char bytes[8];
    memcpy(bytes, &line, sizeof bytes);
    return hash_of(2, bytes, sizeof bytes);
}

enum rc key_set_add_id(struct key_set *s, const char *id, size_t len, bool *added)
{
    return add(s, hash_of(1, id, len), added);
}

enum rc key_set_add_line(struct key_set *s, uint64_t line, bool *added)
{
    return add(s, line_hash(line), added);
}

bool key_set_has_id(const struct key_set *s, const char *id, size_t len)
{
    return has(s, hash_of(1, id, len));
}

bool key_set_has_line(const struct key_set *s, uint64_t line)
{
    return has(s, line_hash(line));
}

void key_set_close(struct key_set *s)
{
    mem_free(s->slots);
    *s = (struct key_set){ 0 };
}

static enum rc refuse(const char *path, uint64_t number, struct fault *fault)
{
    return fault_set(fault, RC_USAGE,
                     "%.100s line %llu is no row of a batch job: the file is left as it is", path,
                     (unsigned long long)number);
}

/* Puts the key of a row into a set. */
static enum rc add_row(struct key_set *s, const json_t *row)
{
    const json_t *id = json_object_get(row, "custom_id");
    bool added;
    if (json_is_string(id))
        return key_set_add_id(s, json_string_value(id), json_string_length(id), &added);
    return key_set_add_line(s, (uint64_t)json_integer_value(json_object_get(row, "line")), &added);
}

/* A row from its line; NULL when it is none. */
static json_t *read_row(const char *line, size_t len)
{
    json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    const json_t *status = json_object_get(json_object_get(row, "response"), "status_code");
    if (json_is_integer(json_object_get(row, "line")) && json_is_integer(status))
        return row;
    json_decref(row);
    return NULL;
}

/* One row that is there already. */
static enum rc note_row(struct batch_file *f, const char *path, uint64_t number, const char *line,
                        size_t len, struct fault *fault)
{
    json_t *row = read_row(line, len);
    if (row == NULL)
        return refuse(path, number, fault);
    enum rc rc = add_row(&f->done, row);
    if (batch_row_failed(row))
        f->failed_count++;
    else
        f->ok_count++;
    json_decref(row);
    return rc == RC_OK ? rc : fault_set(fault, rc, "out of memory");
}

/* A last line without an end: a row that was cut off, or not ours. */
static enum rc note_tail(const char *path, uint64_t number, const char *line, size_t len,
                         struct fault *fault)
{
    size_t shown = len < strlen(ROW_BEGINS) ? len : strlen(ROW_BEGINS);
    return memcmp(line, ROW_BEGINS, shown) == 0 ? RC_OK : refuse(path, number, fault);
}

static enum rc scan_rows(struct batch_file *f, const char *path, struct fault *fault)
{
    struct line_reader r;
    const char *line;
    size_t len;
    bool whole;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set_errno(fault, RC_IO, "%s %.100s cannot be read", f->flag, path);
    line_reader_open(&r, fd, SIZE_MAX / 4);
    enum rc rc;
    while ((rc = line_reader_next(&r, -1, &line, &len, &whole)) != RC_END) {
        if (rc == RC_AGAIN)
            continue;
        if (rc == RC_OK)
            rc = whole ? note_row(f, path, r.line_number, line, len, fault)
                       : note_tail(path, r.line_number, line, len, fault);
        else if (rc != RC_OK)
            (void)fault_set_errno(fault, rc, "%s %.100s cannot be read", f->flag, path);
        if (rc != RC_OK)
            break;
        if (whole)
            f->bytes = r.offset;
    }
    line_reader_close(&r);
    return rc == RC_END ? RC_OK : rc;
}

enum rc batch_file_open(struct batch_file *f, const char *path, const char *flag,
                        struct fault *fault)
{
    *f = (struct batch_file){ .fd = -1, .flag = flag };
    if (strcmp(path, "-") == 0) {
        f->fd = STDOUT_FILENO;
        return RC_OK;
    }
    f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    struct stat st;
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return fault_set_errno(fault, RC_IO, "%s %.100s cannot be opened", flag, path);
    f->regular = S_ISREG(st.st_mode);
    if (!f->regular)
        return RC_OK;
    enum rc rc = RC_OK;
    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0)
        rc = fault_set_errno(fault, RC_IO, "%s %.100s is being written by another job", flag, path);
    if (rc == RC_OK)
        rc = scan_rows(f, path, fault);
    if (rc == RC_OK && ftruncate(f->fd, (off_t)f->bytes) != 0)
        rc = fault_set_errno(fault, RC_IO, "%s %.100s cannot be cut to its last row", flag, path);
    if (rc == RC_OK)
        batch_file_keep_name(path);
    else
        batch_file_close(f);
    return rc;
}

void batch_file_keep_name(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    int n = snprintf(folder, sizeof folder, "%.*s", (int)len, path);
    if (n < 0 || (size_t)n >= sizeof folder)
        return;
    int fd = open(n == 0 ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

static int append_dump(const char *bytes, size_t len, void *ctx)
{
    struct batch_file *f = ctx;
    if (f->line_len + len > f->line_capacity) {
        size_t capacity = (f->line_len + len) * 2 + 4096;
        char *grown = mem_grow(f->line, f->line_capacity, capacity);
        if (grown == NULL)
            return -1;
        f->line = grown;
        f->line_capacity = capacity;
    }
    memcpy(f->line + f->line_len, bytes, len);
    f->line_len += len;
    return 0;
}

static enum rc write_line(struct batch_file *f, struct fault *fault)
{
    size_t done = 0;
    while (done < f->line_len) {
        ssize_t n = write(f->fd, f->line + done, f->line_len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || (n == 0 && (errno = ENOSPC) != 0)) {
            enum rc rc = fault_set_errno(fault, RC_IO, "the output cannot be written");
            if (f->regular && done > 0 && ftruncate(f->fd, (off_t)f->bytes) != 0)
                return rc; /* the next start cuts it */
            return rc;
        }
        done += (size_t)n;
    }
    f->bytes += f->line_len;
    f->dirty = true;
    return RC_OK;
}

enum rc batch_file_put(struct batch_file *f, json_t *row, struct fault *fault)
{
    f->line_len = 0;
    uint64_t before = mem_failures(); /* the library does not ask after the name of a member */
    int bad = row == NULL ? -1 : json_dump_callback(row, append_dump, f, JSON_COMPACT);
    json_decref(row);
    if (bad != 0 || mem_failures() != before || append_dump("\n", 1, f) != 0)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    return write_line(f, fault);
}

enum rc batch_file_sync(struct batch_file *f, uint64_t now_us, uint64_t interval_us,
                        struct fault *fault)
{
    if (!f->regular || !f->dirty || now_us - f->synced_us < interval_us)
        return RC_OK;
    if (fdatasync(f->fd) != 0)
        return fault_set_errno(fault, RC_IO, "the output cannot be made last");
    f->dirty = false;
    f->synced_us = now_us;
    return RC_OK;
}

/* Copies the rows that are no failures from one descriptor to the other file. */
static enum rc copy_good_rows(const char *path, const char *flag, int fd, FILE *out,
                              struct key_set *failed, struct fault *fault)
{
    struct line_reader r;
    const char *line;
    size_t len;
    bool whole;
    line_reader_open(&r, fd, SIZE_MAX / 4);
    enum rc rc;
    while ((rc = line_reader_next(&r, -1, &line, &len, &whole)) != RC_END) {
        if (rc == RC_AGAIN || (rc == RC_OK && !whole))
            continue; /* a torn tail is dropped */
        json_t *row = rc == RC_OK ? read_row(line, len) : NULL;
        if (rc != RC_OK)
            (void)fault_set_errno(fault, rc, "%s %.100s cannot be read", flag, path);
        else if (row == NULL)
            rc = refuse(path, r.line_number, fault);
        else if (batch_row_failed(row) && add_row(failed, row) != RC_OK)
            rc = fault_set(fault, RC_NO_MEMORY, "out of memory");
        else if (!batch_row_failed(row) && fwrite(line, 1, len + 1, out) != len + 1)
            rc = fault_set_errno(fault, RC_IO, "%s %.100s cannot be written anew", flag, path);
        json_decref(row);
        if (rc != RC_OK)
            break;
    }
    line_reader_close(&r);
    return rc == RC_END ? RC_OK : rc;
}

enum rc batch_file_take_failed(const char *path, const char *flag, struct key_set *failed,
                               struct fault *fault)
{
    char part[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return RC_OK;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        enum rc rc = fault_set_errno(fault, RC_IO, "%s %.100s cannot be opened", flag, path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int n = snprintf(part, sizeof part, "%s.part", path);
    FILE *out = n > 0 && (size_t)n < sizeof part ? fopen(part, "w") : NULL;
    if (out == NULL) {
        close(fd);
        return fault_set_errno(fault, RC_IO, "%s %.100s cannot be written anew", flag, path);
    }
    enum rc rc = copy_good_rows(path, flag, fd, out, failed, fault);
    if (rc == RC_OK && (fflush(out) != 0 || fsync(fileno(out)) != 0))
        rc = fault_set_errno(fault, RC_IO, "%s %.100s cannot be written anew", flag, path);
    fclose(out);
    if (rc == RC_OK && rename(part, path) != 0)
        rc = fault_set_errno(fault, RC_IO, "%s %.100s cannot be replaced", flag, path);
    if (rc == RC_OK)
        batch_file_keep_name(path);
    else
        unlink(part);
    return rc;
}

void batch_file_close(struct batch_file *f)
{
    if (f->fd > STDERR_FILENO)
        close(f->fd);
    mem_free(f->line);
    key_set_close(&f->done);
    *f = (struct batch_file){ .fd = -1 };
}
