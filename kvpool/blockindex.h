/* SPDX-License-Identifier: MIT */
/* blockindex - the head of a block file that outlives its process: whose it is, and what is in its
 * slots.
 *   [head, a page][record of slot 0][record 1] ... [up to a page][slot 0][slot 1] ...
 * Beside the head, in its page: what was written in the day that runs, which outlives all else.
 * Head and records carry a sum each; a record that does not have its own is as good as empty, so
 * nothing has to be written in any order and a process may die at any moment. That the bytes of a
 * slot are those of its record is found out when they are read (store.c).
 *   owner    the scheduler thread, one process at a time: the file is locked
 *   errors   RC_CORRUPT: not a block file, left as it is; RC_AGAIN: another process has it;
 *            RC_IO */
#ifndef QUIRE_KVPOOL_BLOCKINDEX_H
#define QUIRE_KVPOOL_BLOCKINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/err.h"
#include "core/hash.h"
#include "kvpool/blockio.h"

#define BLOCKINDEX_PAGE ((size_t)4096)

struct blockindex {
    int fd; /* through the page cache, and locked; -1 = closed */
    struct hash key;
    uint64_t block_bytes;
    uint32_t slot_count;
    uint64_t seed;    /* of the chains in the records: the file's secret */
    off_t data_begin; /* of slot 0 */
    uint32_t damaged; /* records that were ignored */
    const char *anew; /* why an existing file was begun anew, or NULL */
    uint64_t day_begin_us, day_bytes; /* of the wall clock; 0: nothing is known */
};

/* blockindex_open - the file at path, begun anew when it is missing, empty, cut short, damaged in
 * its head, or made for another key or block size. slot_count is for a new one; when exact, another
 * count than the file's begins it anew, too. */
enum rc blockindex_open(struct blockindex *x, const char *path, uint32_t slot_count, bool exact,
                        struct fault *fault) ATTR_MUST_USE;
void blockindex_close(struct blockindex *x);

/* blockindex_read - false: the slot is empty, or its record is damaged. */
bool blockindex_read(struct blockindex *x, uint32_t slot, struct block_record *out);

/* blockindex_write_day - day_begin_us and day_bytes are as they are now. */
void blockindex_write_day(struct blockindex *x);

/* blockindex_write - record NULL: the slot is empty. What cannot be written is not found again. */
void blockindex_write(struct blockindex *x, uint32_t slot, const struct block_record *record);

#endif
