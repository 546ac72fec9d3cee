/* SPDX-License-Identifier: MIT */
/* cross_file - see cross_file.h. A line is one write(2) on an O_APPEND descriptor. */
#include "frontend/bench/cross_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/detok.h"

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));
    return text != NULL ? text : "";
}

static enum rc take_line(struct cross_file *f, const char *path, const char *line, size_t len,
                         uint32_t number, struct fault *fault)
{
    json_t *row = json_loadb(line, len, 0, NULL);
    if (row == NULL)
        return fault_set(fault, RC_CORRUPT, "%.150s: line %u is no row", path, number);
    int bad = 0;
    if (strcmp(text_of(row, "plan"), f->plan) == 0)
        bad = json_array_append(f->rows, row);
    json_decref(row);
    return bad ? fault_set(fault, RC_NO_MEMORY, "out of memory") : RC_OK;
}

/* Every whole line; the rest, which a kill has left, is cut off. */
static enum rc take_lines(struct cross_file *f, const char *path, const struct text *all,
                          struct fault *fault)
{
    size_t at = 0;
    for (uint32_t number = 1; at < all->len; number++) {
        const char *end = memchr(all->data + at, '\n', all->len - at);
        if (end == NULL)
            break;
        size_t len = (size_t)(end - all->data) - at;
        enum rc rc = take_line(f, path, all->data + at, len, number, fault);
        if (rc != RC_OK)
            return rc;
        at += len + 1;
    }
    if (at < all->len && ftruncate(f->fd, (off_t)at) != 0)
        return fault_set_errno(fault, RC_IO, "%.150s", path);
    return RC_OK;
}

static enum rc read_rows(struct cross_file *f, const char *path, struct fault *fault)
{
    struct text all = { 0 };
    char piece[65536];
    ssize_t got;
    enum rc rc = RC_OK;
    while (rc == RC_OK && (got = read(f->fd, piece, sizeof piece)) != 0)
        rc = got < 0 ? fault_set_errno(fault, RC_IO, "%.150s", path)
                     : text_append(&all, piece, (size_t)got);
    if (rc == RC_NO_MEMORY)
        fault_set(fault, rc, "out of memory");
    if (rc == RC_OK)
        rc = take_lines(f, path, &all, fault);
    text_close(&all);
    return rc;
}

enum rc cross_file_open(struct cross_file *f, const char *path, const char *plan,
                        struct fault *fault)
{
    *f = (struct cross_file){ .fd = -1, .rows = json_array() };
    snprintf(f->plan, sizeof f->plan, "%s", plan);
    if (f->rows == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    f->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return fault_set_errno(fault, RC_IO, "%.150s", path);
    return read_rows(f, path, fault);
}

void cross_file_close(struct cross_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    json_decref(f->rows);
    *f = (struct cross_file){ .fd = -1 };
}

static int append_json(const char *data, size_t len, void *out)
{
    return text_append(out, data, len) == RC_OK ? 0 : -1;
}

static enum rc write_line(struct cross_file *f, const json_t *row, struct fault *fault)
{
    struct text line = { 0 };
    enum rc rc = RC_OK;
    if (json_dump_callback(row, append_json, &line, JSON_COMPACT | JSON_REAL_PRECISION(7)) != 0 ||
        text_append(&line, "\n", 1) != RC_OK)
        rc = fault_set(fault, RC_NO_MEMORY, "out of memory");
    if (rc == RC_OK && write(f->fd, line.data, line.len) != (ssize_t)line.len)
        rc = fault_set_errno(fault, RC_IO, "the row cannot be written");
    text_close(&line);
    return rc;
}

enum rc cross_file_add(struct cross_file *f, const char *kind, const char *key, json_t *row,
                       struct fault *fault)
{
    int bad = row == NULL || json_object_set_new(row, "row", json_string(kind)) != 0 ||
              json_object_set_new(row, "plan", json_string(f->plan)) != 0 ||
              json_object_set_new(row, "key", json_string(key)) != 0 ||
              json_array_append(f->rows, row) != 0;
    enum rc rc = bad ? fault_set(fault, RC_NO_MEMORY, "out of memory") : write_line(f, row, fault);
    json_decref(row);
    return rc;
}

const json_t *cross_file_find(const struct cross_file *f, const char *kind, const char *key)
{
    for (size_t i = 0; i < json_array_size(f->rows); i++) {
        const json_t *row = json_array_get(f->rows, i);
        if (strcmp(text_of(row, "key"), key) == 0 && strcmp(text_of(row, "row"), kind) == 0)
            return row;
    }
    return NULL;
}
