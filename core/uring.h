/* SPDX-License-Identifier: MIT */
/* uring - reads and writes of files through io_uring, for whoever has several on their way at once.
 *   owner    one thread starts and collects; the memory of a transfer belongs to the kernel until
 *            its end is collected
 *   errors   at open: RC_UNSUPPORTED with the system's reason (refused by a filter, switched off,
 *            out of locked memory): the caller has another way. A transfer ends with the bytes that
 *            it moved or with -errno; going on after a short one is the caller's
 *   limits   no kernel thread that polls; URING_WORKERS kernel threads for what cannot be started
 *            at once
 *   source   io_uring(7), liburing */
#ifndef QUIRE_CORE_URING_H
#define QUIRE_CORE_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define URING_WORKERS 4u

struct uring;

struct uring_transfer {
    bool write;
    int fd;
    void *memory;
    uint32_t bytes;
    uint64_t offset;
    uint64_t tag; /* comes back with the end */
};

/* uring_open - room for depth transfers on their way. One empty transfer is tried, so that a ring
 * which opens does work. */
enum rc uring_open(struct uring **out, uint32_t depth, struct fault *fault) ATTR_MUST_USE;

/* uring_close - NULL is allowed; nothing is on its way any more. */
void uring_close(struct uring *u);

/* uring_register - memory whose transfers then need no mapping of their own: once, and with
 * nothing on its way. */
enum rc uring_register(struct uring *u, void *base, size_t bytes,
                       struct fault *fault) ATTR_MUST_USE;

/* uring_start - puts a transfer on its way; at most depth are at a time. */
void uring_start(struct uring *u, const struct uring_transfer *t);

/* uring_collect - the end of one transfer: false when none has ended, or, with wait, never: then
 * something must be on its way. */
bool uring_collect(struct uring *u, bool wait, uint64_t *tag, int32_t *result);

#endif
