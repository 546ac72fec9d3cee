/* SPDX-License-Identifier: MIT */
/* line_reader - one buffer that doubles up to the limit; a line over it is thrown away piece by
 * piece until its end, so that memory is bounded whatever comes. */
#include "frontend/batch/line_reader.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

enum { FIRST_BYTES = 1 << 16 };

void line_reader_open(struct line_reader *r, int fd, size_t line_max)
{
    *r = (struct line_reader){ .fd = fd, .line_max = line_max };
}

void line_reader_close(struct line_reader *r)
{
    if (r->fd > STDIN_FILENO)
        close(r->fd);
    decompress_close(r->decompress);
    mem_free(r->raw);
    mem_free(r->buffer);
    *r = (struct line_reader){ .fd = -1 };
}

/* Room for at least one more byte behind end; RC_LIMIT when the line has grown too long. */
static enum rc make_room(struct line_reader *r)
{
    if (r->begin > 0) {
        memmove(r->buffer, r->buffer + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    if (r->end < r->capacity)
        return RC_OK;
    if (r->end > r->line_max)
        return RC_LIMIT;
    size_t bytes = r->capacity == 0 ? FIRST_BYTES : r->capacity * 2;
    char *grown = mem_grow(r->buffer, r->capacity, bytes);
    if (grown == NULL)
        return RC_NO_MEMORY;
    r->buffer = grown;
    r->capacity = bytes;
    return RC_OK;
}

/* One read of at most cap bytes into p; *got 0 at the end. */
static enum rc read_some(struct line_reader *r, int wait_ms, char *p, size_t cap, size_t *got)
{
    struct pollfd ready = { .fd = r->fd, .events = POLLIN };
    int n = poll(&ready, 1, wait_ms);
    if (n == 0 || (n < 0 && errno == EINTR))
        return RC_AGAIN;
    ssize_t bytes = n < 0 ? n : read(r->fd, p, cap);
    if (bytes < 0)
        return errno == EINTR || errno == EAGAIN ? RC_AGAIN : RC_IO;
    *got = (size_t)bytes;
    r->raw_bytes += *got;
    return RC_OK;
}

/* The first bytes say whether the stream is packed; they are kept in raw, or handed on. */
static enum rc begin_stream(struct line_reader *r, int wait_ms)
{
    size_t got = 0;
    if (r->raw == NULL && (r->raw = mem_alloc(FIRST_BYTES)) == NULL)
        return RC_NO_MEMORY;
    while (r->raw_end < DECOMPRESS_MAGIC_BYTES) {
        enum rc rc = read_some(r, wait_ms, r->raw + r->raw_end, FIRST_BYTES - r->raw_end, &got);
        if (rc != RC_OK)
            return rc;
        r->raw_end += got;
        if (got == 0 || memchr(r->raw, '\n', r->raw_end) != NULL)
            break;
    }
    enum rc rc = decompress_open(&r->decompress, r->raw, r->raw_end);
    if (rc != RC_OK)
        return rc;
    r->begun = true;
    r->raw_at_end = got == 0;
    if (r->decompress == NULL) { /* the buffer has its first size, as raw has */
        memcpy(r->buffer + r->end, r->raw, r->raw_end);
        r->end += r->raw_end;
        r->at_end = r->raw_at_end;
        mem_free(r->raw);
        r->raw = NULL;
    }
    return RC_OK;
}

static enum rc fill_packed(struct line_reader *r, int wait_ms)
{
    size_t used = 0, len = 0;
    if (r->raw_begin == r->raw_end && !r->raw_at_end) {
        size_t got = 0;
        enum rc rc = read_some(r, wait_ms, r->raw, FIRST_BYTES, &got);
        if (rc != RC_OK)
            return rc;
        r->raw_begin = 0;
        r->raw_end = got;
        r->raw_at_end = got == 0;
    }
    enum rc rc = decompress_some(r->decompress, r->raw + r->raw_begin, r->raw_end - r->raw_begin,
                                 &used, r->buffer + r->end, r->capacity - r->end, &len);
    r->raw_begin += used;
    r->end += len;
    r->at_end = rc == RC_OK && r->raw_at_end && r->raw_begin == r->raw_end && len == 0;
    if (r->at_end && !decompress_whole(r->decompress))
        rc = RC_CORRUPT;
    errno = 0;
    return rc;
}

static enum rc fill(struct line_reader *r, int wait_ms)
{
    if (!r->begun)
        return begin_stream(r, wait_ms);
    if (r->decompress != NULL)
        return fill_packed(r, wait_ms);
    size_t got = 0;
    enum rc rc = read_some(r, wait_ms, r->buffer + r->end, r->capacity - r->end, &got);
    r->at_end = rc == RC_OK && got == 0;
    r->end += got;
    return rc;
}

/* Gives out [begin, begin + len) and steps over `over` bytes. */
static enum rc give(struct line_reader *r, const char **line, size_t len, size_t over)
{
    bool skipped = r->skipping || len > r->line_max;
    *line = r->buffer + r->begin;
    r->begin += over;
    r->offset += over;
    r->searched = 0;
    r->skipping = false;
    r->line_number++;
    return skipped ? RC_LIMIT : RC_OK;
}

enum rc line_reader_next(struct line_reader *r, int wait_ms, const char **line, size_t *len,
                         bool *whole)
{
    *line = "";
    *len = 0;
    *whole = true;
    for (;;) {
        size_t have = r->end - r->begin;
        char *found = have > r->searched
                          ? memchr(r->buffer + r->begin + r->searched, '\n', have - r->searched)
                          : NULL;
        if (found != NULL) {
            *len = (size_t)(found - (r->buffer + r->begin));
            return give(r, line, *len, *len + 1);
        }
        r->searched = have;
        if (r->at_end) {
            *len = have;
            *whole = false;
            return have == 0 && !r->skipping ? RC_END : give(r, line, have, have);
        }
        enum rc rc = make_room(r);
        if (rc == RC_LIMIT) { /* forget what is there of it, keep looking for its end */
            r->offset += r->end;
            r->end = r->searched = 0;
            r->skipping = true;
        } else if (rc != RC_OK) {
            return rc;
        }
        rc = fill(r, wait_ms);
        if (rc != RC_OK)
            return rc;
    }
}
