/* SPDX-License-Identifier: MIT */
/* blockfile - slot i is bytes [i, i + 1) x block_bytes of a file that has no name, so that
 * nothing is left behind whatever ends the process. Space is reserved at open: a full disk is
 * found then. A transfer that the kernel cuts short goes on where it stopped; one that moves
 * nothing has failed. With plain calls start does the work and collect only tells: same results,
 * same order of events for the store, but the scheduler waits for the disk. */
#include "kvpool/blockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"

#define DEPTH 16u

struct op {
    bool write;
    bool ended; /* plain calls: not told yet */
    enum rc rc;
    uint32_t slot, block;
    size_t moved;
};

struct blockfile {
    int fd;
    bool direct, uring;
    char *base;
    size_t block_bytes;
    struct io_uring ring;
    struct op ops[DEPTH];
};

/* A file without a name; direct where the file system has it. */
static int open_nameless(const char *directory, bool *direct)
{
    *direct = true;
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
    if (fd >= 0)
        return fd;
    *direct = false;
    fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || errno == ENOENT || errno == EACCES)
        return fd;
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/quire-XXXXXX", directory);
    if (len < 0 || (size_t)len >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static enum rc reserve(struct blockfile *f, const char *directory, uint32_t slot_count,
                       struct fault *fault)
{
    off_t bytes;
    if (__builtin_mul_overflow((off_t)f->block_bytes, (off_t)slot_count, &bytes))
        return fault_set(fault, RC_NO_FIT, "block file of %u blocks is too large", slot_count);
    int failed = posix_fallocate(f->fd, 0, bytes);
    if (failed == EOPNOTSUPP || failed == EINVAL)
        failed = ftruncate(f->fd, bytes) == 0 ? 0 : errno;
    if (failed == 0)
        return RC_OK;
    errno = failed;
    return fault_set_errno(fault, RC_NO_FIT, "block file in %s: cannot have %lld MiB", directory,
                           (long long)(bytes >> 20));
}

enum rc blockfile_open(struct blockfile **out, const char *directory, const struct kvpool *pool,
                       uint32_t slot_count, bool uring, struct fault *fault)
{
    *out = NULL;
    must(kvpool_base(pool) != NULL);
    struct blockfile *f = mem_alloc(sizeof *f);
    if (f == NULL)
        return fault_set(fault, RC_NO_MEMORY, "block file: out of memory");
    f->base = kvpool_base(pool);
    f->block_bytes = kvpool_block_bytes(pool);
    f->fd = open_nameless(directory, &f->direct);
    enum rc rc = f->fd < 0 ? fault_set_errno(fault, RC_IO, "block file in %s", directory)
                           : reserve(f, directory, slot_count, fault);
    if (rc != RC_OK) {
        blockfile_close(f);
        return rc;
    }
    f->uring = uring && io_uring_queue_init(DEPTH, &f->ring, 0) == 0;
    *out = f;
    return RC_OK;
}

void blockfile_close(struct blockfile *f)
{
    if (f == NULL)
        return;
    if (f->uring)
        io_uring_queue_exit(&f->ring);
    if (f->fd >= 0)
        close(f->fd);
    mem_free(f);
}

bool blockfile_uring(const struct blockfile *f)
{
    return f->uring;
}

const char *blockfile_mode(const struct blockfile *f)
{
    if (f->uring)
        return f->direct ? "io_uring, direct" : "io_uring, page cache";
    return f->direct ? "plain calls, direct" : "plain calls, page cache";
}

static char *memory_of(const struct blockfile *f, const struct op *op)
{
    return f->base + (size_t)op->block * f->block_bytes + op->moved;
}

static off_t offset_of(const struct blockfile *f, const struct op *op)
{
    return (off_t)op->slot * (off_t)f->block_bytes + (off_t)op->moved;
}

/* Books what one call moved; true when the transfer has ended. */
static bool op_moved(const struct blockfile *f, struct op *op, ssize_t moved)
{
    if (moved == -EINTR || moved == -EAGAIN)
        return false;
    if (moved > 0)
        op->moved += (size_t)moved;
    op->rc = op->moved == f->block_bytes ? RC_OK : RC_IO;
    return moved <= 0 || op->moved == f->block_bytes;
}

static void run_plain(struct blockfile *f, struct op *op)
{
    ssize_t moved;
    do {
        size_t left = f->block_bytes - op->moved;
        moved = op->write ? pwrite(f->fd, memory_of(f, op), left, offset_of(f, op))
                          : pread(f->fd, memory_of(f, op), left, offset_of(f, op));
        if (moved < 0)
            moved = -errno;
    } while (!op_moved(f, op, moved));
    op->ended = true;
}

static void submit(struct blockfile *f, uint32_t tag)
{
    struct op *op = &f->ops[tag];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&f->ring);
    must(sqe != NULL); /* as many entries as tags */
    unsigned left = (unsigned)(f->block_bytes - op->moved);
    if (op->write)
        io_uring_prep_write(sqe, f->fd, memory_of(f, op), left, (uint64_t)offset_of(f, op));
    else
        io_uring_prep_read(sqe, f->fd, memory_of(f, op), left, (uint64_t)offset_of(f, op));
    io_uring_sqe_set_data64(sqe, tag);
    /* A submission that the kernel puts off is submitted again by the next wait. */
    (void)io_uring_submit(&f->ring);
}

static enum rc start(void *ctx, bool write, uint32_t slot, uint32_t block, uint32_t tag)
{
    struct blockfile *f = ctx;
    must(tag < DEPTH);
    f->ops[tag] = (struct op){ .write = write, .slot = slot, .block = block };
    if (f->uring)
        submit(f, tag);
    else
        run_plain(f, &f->ops[tag]);
    return RC_OK;
}

static uint32_t collect_plain(struct blockfile *f, struct blockio_end *out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t tag = 0; tag < DEPTH && count < max; tag++) {
        if (!f->ops[tag].ended)
            continue;
        f->ops[tag].ended = false;
        out[count++] = (struct blockio_end){ tag, f->ops[tag].rc };
    }
    return count;
}

static uint32_t collect(void *ctx, struct blockio_end *out, uint32_t max, bool wait)
{
    struct blockfile *f = ctx;
    if (!f->uring)
        return collect_plain(f, out, max);
    uint32_t count = 0;
    while (count < max) {
        struct io_uring_cqe *cqe = NULL;
        if (io_uring_peek_cqe(&f->ring, &cqe) != 0) {
            if (!wait || count > 0)
                break;
            (void)io_uring_submit_and_wait(&f->ring, 1); /* interrupted: asked again */
            continue;
        }
        uint32_t tag = (uint32_t)io_uring_cqe_get_data64(cqe);
        ssize_t moved = cqe->res;
        io_uring_cqe_seen(&f->ring, cqe);
        must(tag < DEPTH);
        if (op_moved(f, &f->ops[tag], moved))
            out[count++] = (struct blockio_end){ tag, f->ops[tag].rc };
        else
            submit(f, tag);
    }
    return count;
}

struct blockio blockfile_io(struct blockfile *f)
{
    return (struct blockio){ f, DEPTH, start, collect };
}
