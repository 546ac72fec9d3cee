/* SPDX-License-Identifier: MIT */
/* line_reader - a file descriptor line by line: any length up to a limit, pipes without blocking,
 * gzip and Zstandard unpacked on the way.
 *   owner    the opener; a line is valid until the next call
 *   thread   one
 *   errors   RC_LIMIT for a line over the limit, which is skipped as a whole; RC_IO; RC_CORRUPT for
 *            a packed stream that is broken or cut off */
#ifndef QUIRE_FRONTEND_BATCH_LINE_READER_H
#define QUIRE_FRONTEND_BATCH_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "frontend/batch/decompress.h"

struct line_reader {
    int fd;
    size_t line_max;
    char *buffer;
    size_t capacity, begin, end; /* [begin, end) is read and not yet given out */
    size_t searched;             /* of these, bytes known to hold no line end */
    uint64_t line_number;        /* of the line given out last, from 1 */
    uint64_t offset;             /* of the byte after it */
    uint64_t raw_bytes;          /* read from the descriptor so far: the same unless it is packed */
    struct decompress *decompress; /* NULL: plain */
    char *raw;                     /* packed bytes [raw_begin, raw_end) not yet used */
    size_t raw_begin, raw_end;
    bool begun; /* what kind of stream it is, is known */
    bool raw_at_end;
    bool at_end;   /* the descriptor has no more */
    bool skipping; /* inside a line over the limit */
};

/* line_reader_open - takes fd over. */
void line_reader_open(struct line_reader *r, int fd, size_t line_max);

/* line_reader_next - a line without its end; *whole is false for a last line that has no end. Waits
 * at most wait_ms for input: RC_AGAIN then. RC_END after the last line. */
enum rc line_reader_next(struct line_reader *r, int wait_ms, const char **line, size_t *len,
                         bool *whole) ATTR_MUST_USE;

void line_reader_close(struct line_reader *r);

#endif
