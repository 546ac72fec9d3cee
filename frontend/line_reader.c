/* SPDX-License-Identifier: MIT */
/* line_reader - one buffer that doubles up to the limit; a line over it is thrown away piece by
 * piece until its end, so that memory is bounded whatever comes. */
#include "frontend/line_reader.h"

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

static enum rc fill(struct line_reader *r, int wait_ms)
{
    struct pollfd ready = { .fd = r->fd, .events = POLLIN };
    int n = poll(&ready, 1, wait_ms);
    if (n == 0 || (n < 0 && errno == EINTR))
        return RC_AGAIN;
    ssize_t got = n < 0 ? n : read(r->fd, r->buffer + r->end, r->capacity - r->end);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? RC_AGAIN : RC_IO;
    r->at_end = got == 0;
    r->end += (size_t)got;
    return RC_OK;
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
