/* SPDX-License-Identifier: MIT */
/* blockfile - slot i is bytes [i, i + 1) x block_bytes of a file that has no name, so that
 * nothing is left behind whatever ends the process; its space is reserved at open, where a full
 * disk is found. Or of a named one, after its index (blockindex.h); that takes space as it fills,
 * and a full disk makes transfers fail. A transfer that the kernel cuts short goes on where it
 * stopped; one that moves nothing has failed. With plain calls start does the work and collect only
 * tells: same results, same order of events for the store, but the scheduler waits for the disk. */
#include "kvpool/blockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    int fd; /* of the slots */
    bool named, direct, uring;
    char *base;
    size_t block_bytes;
    off_t data_begin;
    uint32_t slot_count;
    struct blockindex index; /* when named */
    struct clock wall;
    const char *path;
    void (*on_failure)(const char *text); /* NULL once it was told */
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

static enum rc reserve(struct blockfile *f, const struct blockfile_config *c, struct fault *fault)
{
    off_t bytes;
    if (__builtin_mul_overflow((off_t)f->block_bytes, (off_t)c->slot_count, &bytes))
        return fault_set(fault, RC_NO_FIT, "block file of %u blocks is too large", c->slot_count);
    int failed = posix_fallocate(f->fd, 0, bytes);
    if (failed == EOPNOTSUPP || failed == EINVAL)
        failed = ftruncate(f->fd, bytes) == 0 ? 0 : errno;
    if (failed == 0)
        return RC_OK;
    errno = failed;
    return fault_set_errno(fault, RC_NO_FIT, "block file in %s: cannot have %lld MiB", c->path,
                           (long long)(bytes >> 20));
}

static enum rc use_nameless(struct blockfile *f, const struct blockfile_config *c,
                            struct fault *fault)
{
    f->slot_count = c->slot_count;
    f->fd = open_nameless(c->path, &f->direct);
    if (f->fd < 0)
        return fault_set_errno(fault, RC_IO, "block file in %s", c->path);
    return reserve(f, c, fault);
}

/* The slots through a descriptor of their own, so that they may go past the page cache: the same
 * file, whatever happens to its name. */
static enum rc use_named(struct blockfile *f, const struct blockfile_config *c, struct fault *fault)
{
    char self[64];
    f->named = true;
    f->index.key = c->key;
    f->index.block_bytes = f->block_bytes;
    enum rc rc = blockindex_open(&f->index, c->path, c->slot_count, c->exact, fault);
    if (rc != RC_OK)
        return rc;
    f->slot_count = f->index.slot_count;
    f->data_begin = f->index.data_begin;
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->index.fd);
    f->fd = open(self, O_RDWR | O_CLOEXEC | O_DIRECT);
    f->direct = f->fd >= 0;
    if (!f->direct)
        f->fd = fcntl(f->index.fd, F_DUPFD_CLOEXEC, 0);
    return f->fd >= 0 ? RC_OK : fault_set_errno(fault, RC_IO, "block file %s", c->path);
}

enum rc blockfile_open(struct blockfile **out, const struct blockfile_config *config,
                       const struct kvpool *pool, struct fault *fault)
{
    struct stat st;
    *out = NULL;
    must(kvpool_base(pool) != NULL);
    struct blockfile *f = mem_alloc(sizeof *f);
    if (f == NULL)
        return fault_set(fault, RC_NO_MEMORY, "block file: out of memory");
    f->base = kvpool_base(pool);
    f->block_bytes = kvpool_block_bytes(pool);
    f->fd = f->index.fd = -1;
    f->path = config->path;
    f->on_failure = config->on_failure;
    f->wall = config->wall.now_us != NULL ? config->wall : clock_wall();
    bool directory = stat(config->path, &st) == 0 && S_ISDIR(st.st_mode);
    enum rc rc = directory ? use_nameless(f, config, fault) : use_named(f, config, fault);
    if (rc != RC_OK) {
        blockfile_close(f);
        return rc;
    }
    f->uring = !config->plain && io_uring_queue_init(DEPTH, &f->ring, 0) == 0;
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
    blockindex_close(&f->index);
    mem_free(f);
}

uint32_t blockfile_slot_count(const struct blockfile *f)
{
    return f->slot_count;
}

const struct blockindex *blockfile_index(const struct blockfile *f)
{
    return f->named ? &f->index : NULL;
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
    return f->data_begin + (off_t)op->slot * (off_t)f->block_bytes + (off_t)op->moved;
}

static void say_failure(struct blockfile *f, const struct op *op, ssize_t moved)
{
    char text[512], why[128] = "nothing was moved";
    if (f->on_failure == NULL)
        return;
    if (moved < 0)
        snprintf(why, sizeof why, "%s", strerror((int)-moved));
    snprintf(text, sizeof text, "block file %s: %s a block: %s; it is computed again", f->path,
             op->write ? "writing" : "reading", why);
    f->on_failure(text);
    f->on_failure = NULL;
}

/* Books what one call moved; true when the transfer has ended. */
static bool op_moved(struct blockfile *f, struct op *op, ssize_t moved)
{
    if (moved == -EINTR || moved == -EAGAIN)
        return false;
    if (moved > 0)
        op->moved += (size_t)moved;
    op->rc = op->moved == f->block_bytes ? RC_OK : RC_IO;
    if (moved <= 0 && op->rc != RC_OK)
        say_failure(f, op, moved);
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

static bool recall(void *ctx, uint32_t slot, struct block_record *out)
{
    struct blockfile *f = ctx;
    return blockindex_read(&f->index, slot, out);
}

static void note(void *ctx, uint32_t slot, const struct block_record *record)
{
    struct blockfile *f = ctx;
    blockindex_write(&f->index, slot, record);
}

/* How long ago the file's day began; a time of day that went back counts as its beginning. */
static uint64_t day_age_us(const struct blockfile *f)
{
    uint64_t now_us = clock_now_us(&f->wall), begin_us = f->index.day_begin_us;
    return now_us > begin_us ? now_us - begin_us : 0;
}

static void spent(void *ctx, uint64_t day_bytes, uint64_t age_us)
{
    struct blockfile *f = ctx;
    uint64_t now_us = clock_now_us(&f->wall);
    f->index.day_begin_us = now_us > age_us ? now_us - age_us : 0;
    f->index.day_bytes = day_bytes;
    blockindex_write_day(&f->index);
}

struct blockio blockfile_io(struct blockfile *f)
{
    struct blockio io = { .ctx = f, .depth = DEPTH, .start = start, .collect = collect };
    if (f->named) {
        io.recall = recall;
        io.note = note;
        io.seed = f->index.seed;
        io.spent = spent;
        if (f->index.day_bytes > 0) {
            io.day_bytes = f->index.day_bytes;
            io.day_age_us = day_age_us(f);
        }
    }
    return io;
}
