/* SPDX-License-Identifier: MIT */
/* batch_file - the output of a batch job: rows that are whole or absent, whatever happens, and
 * which of them are there already when a job is started again.
 *   owner    the job
 *   thread   one
 *   errors   RC_IO, RC_NO_MEMORY; RC_USAGE when the file holds something else or is somebody's
 *   rules    a row is one write of one complete line; on open a last row without an end is cut
 *            off; a row that could not be written whole is cut off again */
#ifndef QUIRE_FRONTEND_BATCH_BATCH_FILE_H
#define QUIRE_FRONTEND_BATCH_BATCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/err.h"

/* A set of keys by their 128-bit hash. Zero it before the first use. */
struct key_set {
    struct key_hash {
        uint64_t a, b;
    } * slots; /* {0, 0} = free */
    size_t capacity, count;
};

/* key_set_reserve - room for so many keys: memory is known at once, and touched as it is used. */
enum rc key_set_reserve(struct key_set *s, size_t count) ATTR_MUST_USE;

/* Keys: a custom_id, or the number of a line without one. */
enum rc key_set_add_id(struct key_set *s, const char *id, size_t len, bool *added) ATTR_MUST_USE;
enum rc key_set_add_line(struct key_set *s, uint64_t line, bool *added) ATTR_MUST_USE;
bool key_set_has_id(const struct key_set *s, const char *id, size_t len);
bool key_set_has_line(const struct key_set *s, uint64_t line);
void key_set_close(struct key_set *s);

struct batch_file {
    int fd;
    bool regular;       /* a file: cut, locked, synced; else a stream */
    uint64_t bytes;     /* of whole rows */
    uint64_t synced_us; /* when it was synced last */
    bool dirty;
    char *line; /* scratch for one row */
    size_t line_capacity, line_len;
    struct key_set done; /* rows found on open */
    const char *flag;
    uint64_t ok_count, failed_count; /* of them */
};

/* batch_file_open - "-" is stdout; flag is how messages call it. */
enum rc batch_file_open(struct batch_file *f, const char *path, const char *flag,
                        struct fault *fault) ATTR_MUST_USE;

/* batch_file_take_failed - takes the rows that tell of failures out of a file, which is replaced as
 * a whole, and puts their keys into the set. A file that is not there has none. */
enum rc batch_file_take_failed(const char *path, const char *flag, struct key_set *failed,
                               struct fault *fault) ATTR_MUST_USE;

/* batch_file_put - appends a row; takes the reference over (NULL is RC_NO_MEMORY). */
enum rc batch_file_put(struct batch_file *f, json_t *row, struct fault *fault) ATTR_MUST_USE;

/* batch_file_sync - makes what is written last, when the last time is interval_us ago. */
enum rc batch_file_sync(struct batch_file *f, uint64_t now_us, uint64_t interval_us,
                        struct fault *fault) ATTR_MUST_USE;

/* batch_file_keep_name - writes the folder of a new file, whose name a power loss could take. File
 * systems without that go without. */
void batch_file_keep_name(const char *path);

void batch_file_close(struct batch_file *f);

#endif
