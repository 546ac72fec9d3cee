/* SPDX-License-Identifier: MIT */
/* uring - starting only queues; the queue is handed over by the collect that follows, so that
 * several transfers cost one system call. A hand-over that the kernel puts off (no memory for the
 * requests, too many ends not yet collected) is tried again by the next collect. */
#include "core/uring.h"

#include <errno.h>
#include <liburing.h>

#include "core/mem.h"
#include "core/must.h"

struct uring {
    struct io_uring ring;
    const char *base; /* registered memory, or NULL */
    size_t bytes;
};

static bool put_off(int error)
{
    return error == -EINTR || error == -EAGAIN || error == -EBUSY || error == -ENOMEM;
}

/* A ring that can be made but not entered (system call filters) is found here. */
static int try_ring(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    must(sqe != NULL);
    io_uring_prep_nop(sqe);
    int done;
    do
        done = io_uring_submit_and_wait(ring, 1);
    while (put_off(done));
    struct io_uring_cqe *cqe;
    if (done < 0 || io_uring_peek_cqe(ring, &cqe) != 0)
        return done < 0 ? done : -EIO;
    io_uring_cqe_seen(ring, cqe);
    return 0;
}

enum rc uring_open(struct uring **out, uint32_t depth, struct fault *fault)
{
    *out = NULL;
    struct uring *u = mem_alloc(sizeof *u);
    if (u == NULL)
        return fault_set(fault, RC_NO_MEMORY, "io_uring: out of memory");
    int error = io_uring_queue_init(depth, &u->ring, 0);
    if (error == 0) {
        unsigned workers[2] = { URING_WORKERS, URING_WORKERS };
        (void)io_uring_register_iowq_max_workers(&u->ring, workers); /* old kernels: unbounded */
        error = try_ring(&u->ring);
        if (error != 0)
            io_uring_queue_exit(&u->ring);
    }
    if (error != 0) {
        mem_free(u);
        errno = -error;
        return fault_set_errno(fault, RC_UNSUPPORTED, "io_uring is refused");
    }
    *out = u;
    return RC_OK;
}

void uring_close(struct uring *u)
{
    if (u == NULL)
        return;
    io_uring_queue_exit(&u->ring);
    mem_free(u);
}

enum rc uring_register(struct uring *u, void *base, size_t bytes, struct fault *fault)
{
    must(u->base == NULL);
    struct iovec memory = { base, bytes };
    int error = io_uring_register_buffers(&u->ring, &memory, 1);
    if (error != 0) {
        errno = -error;
        return fault_set_errno(fault, RC_NO_MEMORY,
                               "io_uring: %zu KiB of buffers cannot be registered", bytes >> 10);
    }
    u->base = base;
    u->bytes = bytes;
    return RC_OK;
}

void uring_start(struct uring *u, const struct uring_transfer *t)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    must(sqe != NULL); /* the caller keeps to depth */
    const char *memory = t->memory;
    bool fixed = u->base != NULL && memory >= u->base && memory < u->base + u->bytes;
    if (fixed && t->write)
        io_uring_prep_write_fixed(sqe, t->fd, t->memory, t->bytes, t->offset, 0);
    else if (fixed)
        io_uring_prep_read_fixed(sqe, t->fd, t->memory, t->bytes, t->offset, 0);
    else if (t->write)
        io_uring_prep_write(sqe, t->fd, t->memory, t->bytes, t->offset);
    else
        io_uring_prep_read(sqe, t->fd, t->memory, t->bytes, t->offset);
    io_uring_sqe_set_data64(sqe, t->tag);
}

bool uring_collect(struct uring *u, bool wait, uint64_t *tag, int32_t *result)
{
    struct io_uring_cqe *cqe;
    for (;;) {
        bool ended = io_uring_peek_cqe(&u->ring, &cqe) == 0;
        if (io_uring_sq_ready(&u->ring) > 0 || (!ended && wait)) {
            int done = io_uring_submit_and_wait(&u->ring, !ended && wait ? 1 : 0);
            must(done >= 0 || put_off(done)); /* a ring that worked at open */
            ended = ended || io_uring_peek_cqe(&u->ring, &cqe) == 0;
        }
        if (ended)
            break;
        if (!wait)
            return false;
    }
    *tag = io_uring_cqe_get_data64(cqe);
    *result = cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    return true;
}
