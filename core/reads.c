/* SPDX-License-Identifier: MIT */
/* reads - one table of pieces by tag; two ways to move their bytes:
 *
 *   io_uring   start -> ring -> collect books what came and starts the rest
 *   threads    start -> todo -> a thread reads to the end -> done -> collect
 *
 * A wake is, in the ring, the end of a read of an eventfd that is always on its way.
 * book() is where both meet: it alone decides whether a piece has ended, and how. With threads
 * todo and done are sets of tags under one lock; the oldest piece is taken first, so that pieces
 * end about in the order they were started in. */
#include "core/reads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lock.h"
#include "core/mem.h"
#include "core/must.h"
#include "core/uring.h"

#define PAGE_BYTES 4096u
#define WAKE_TAG UINT64_MAX

struct item {
    struct reads_piece piece;
    uint32_t moved;
    struct reads_end end;
    uint64_t order;
    enum { IDLE, TODO, RUNNING, DONE } state; /* threads */
};

struct reads {
    struct reads_config config;
    enum reads_mode mode;
    struct uring *uring;
    int wake_fd;         /* io_uring */
    uint64_t wake_count; /* what is read from it */
    bool woken;          /* threads */
    struct item items[READS_DEPTH_MAX];
    uint32_t flying; /* started and not collected */
    uint64_t order;
    struct lock lock;
    struct lock_condition more, less; /* something to do; something done */
    pthread_t threads[READS_THREADS];
    uint32_t thread_count;
    bool stop;
};

/* Whether a call that moved less than it was asked for came to the end of the file. */
static bool ends_at(const struct item *i, uint32_t moved)
{
    struct stat st;
    return moved == 0 || (fstat(i->piece.fd, &st) == 0 &&
                          i->piece.offset + i->moved + moved >= (uint64_t)st.st_size);
}

/* Books what a call moved; true when the piece has ended. A read goes on at a whole page, as direct
 * ones must. */
static bool book(const struct reads *r, struct item *i, int32_t moved)
{
    if (r->config.bend != NULL)
        moved = r->config.bend(r->config.bend_ctx, &i->piece, moved);
    if (moved == -EINTR || moved == -EAGAIN)
        return false;
    i->end.rc = RC_OK;
    if (moved < 0) {
        i->end.rc = RC_IO;
        i->end.os_errno = -moved;
        return true;
    }
    if (i->moved + (uint32_t)moved >= i->piece.wanted)
        return true;
    if (ends_at(i, (uint32_t)moved)) {
        i->end.rc = RC_CORRUPT;
        return true;
    }
    i->moved += (uint32_t)moved / PAGE_BYTES * PAGE_BYTES;
    return false;
}

/* ---- threads ---- */

static struct item *oldest(struct reads *r, int state)
{
    struct item *best = NULL;
    for (uint32_t t = 0; t < r->config.depth; t++) {
        struct item *i = &r->items[t];
        if ((int)i->state == state && (best == NULL || i->order < best->order))
            best = i;
    }
    return best;
}

static void read_whole(const struct reads *r, struct item *i)
{
    const struct reads_piece *p = &i->piece;
    ssize_t moved;
    do {
        moved =
            pread(p->fd, p->memory + i->moved, p->bytes - i->moved, (off_t)(p->offset + i->moved));
    } while (!book(r, i, moved < 0 ? -errno : (int32_t)moved));
}

static void *thread_main(void *arg)
{
    struct reads *r = arg;
    lock_take(&r->lock);
    while (!r->stop) {
        struct item *i = oldest(r, TODO);
        if (i == NULL) {
            (void)lock_condition_wait(&r->more, &r->lock, UINT64_MAX);
            continue;
        }
        i->state = RUNNING;
        lock_give(&r->lock);
        read_whole(r, i);
        lock_take(&r->lock);
        i->state = DONE;
        lock_condition_wake(&r->less, &r->lock);
    }
    lock_give(&r->lock);
    return NULL;
}

static enum rc start_threads(struct reads *r, struct fault *fault)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (r->thread_count < READS_THREADS && error == 0) {
        error = pthread_create(&r->threads[r->thread_count], NULL, thread_main, r);
        r->thread_count += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r->thread_count > 0) /* fewer are slower and no more */
        return RC_OK;
    errno = error;
    return fault_set_errno(fault, RC_NO_MEMORY, "no thread for reading can be started");
}

static bool collect_threads(struct reads *r, bool wait, struct reads_end *out)
{
    lock_take(&r->lock);
    struct item *i = oldest(r, DONE);
    while (i == NULL && wait && !r->woken) {
        (void)lock_condition_wait(&r->less, &r->lock, UINT64_MAX);
        i = oldest(r, DONE);
    }
    r->woken = r->woken && !wait;
    if (i != NULL) {
        i->state = IDLE;
        *out = i->end;
    }
    lock_give(&r->lock);
    return i != NULL;
}

/* ---- io_uring ---- */

static void start_uring(struct reads *r, struct item *i)
{
    const struct reads_piece *p = &i->piece;
    uring_start(r->uring, &(struct uring_transfer){ .fd = p->fd,
                                                    .memory = p->memory + i->moved,
                                                    .bytes = p->bytes - i->moved,
                                                    .offset = p->offset + i->moved,
                                                    .tag = i->end.tag });
}

static void listen_for_wakes(struct reads *r)
{
    uring_start(r->uring, &(struct uring_transfer){ .fd = r->wake_fd,
                                                    .memory = &r->wake_count,
                                                    .bytes = sizeof r->wake_count,
                                                    .tag = WAKE_TAG });
}

static bool collect_uring(struct reads *r, bool wait, struct reads_end *out)
{
    uint64_t tag;
    int32_t moved;
    while (uring_collect(r->uring, wait, &tag, &moved)) {
        if (tag == WAKE_TAG) {
            listen_for_wakes(r);
            if (wait)
                return false;
            continue;
        }
        must(tag < r->config.depth);
        struct item *i = &r->items[tag];
        if (book(r, i, moved)) {
            *out = i->end;
            return true;
        }
        start_uring(r, i);
    }
    return false;
}

/* ---- both ---- */

static void say(const struct reads *r, const char *text)
{
    if (r->config.warn != NULL)
        r->config.warn(r->config.warn_ctx, text);
}

static bool open_uring(struct reads *r)
{
    struct fault why;
    char text[sizeof why.text + 80];
    r->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (r->wake_fd < 0)
        fault_set_errno(&why, RC_UNSUPPORTED, "no eventfd for io_uring");
    if (r->wake_fd < 0 || uring_open(&r->uring, r->config.depth + 1, &why) != RC_OK) {
        snprintf(text, sizeof text, "%s; weights are read by %u threads", why.text, READS_THREADS);
        say(r, text);
        return false;
    }
    r->mode = READS_URING;
    if (uring_register(r->uring, r->config.base, r->config.bytes, &why) != RC_OK) {
        snprintf(text, sizeof text, "%s; io_uring without", why.text);
        say(r, text);
        r->mode = READS_PLAIN;
    }
    listen_for_wakes(r);
    return true;
}

enum rc reads_open(struct reads **out, const struct reads_config *config, struct fault *fault)
{
    *out = NULL;
    must(config->depth >= 1 && config->depth <= READS_DEPTH_MAX);
    struct reads *r = mem_alloc(sizeof *r);
    if (r == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    r->config = *config;
    r->mode = READS_THREADED;
    r->wake_fd = -1;
    lock_open(&r->lock, LOCK_LEAF);
    lock_condition_open(&r->more);
    lock_condition_open(&r->less);
    enum rc rc = RC_OK;
    if (config->threads || !open_uring(r))
        rc = start_threads(r, fault);
    if (rc != RC_OK) {
        reads_close(r);
        return rc;
    }
    *out = r;
    return RC_OK;
}

void reads_close(struct reads *r)
{
    if (r == NULL)
        return;
    struct reads_end end;
    while (r->flying > 0)
        (void)reads_collect(r, true, &end);
    lock_take(&r->lock);
    r->stop = true;
    lock_condition_wake(&r->more, &r->lock);
    lock_give(&r->lock);
    for (uint32_t i = 0; i < r->thread_count; i++)
        must(pthread_join(r->threads[i], NULL) == 0);
    uring_close(r->uring); /* and with it the read of wake_fd */
    if (r->wake_fd >= 0)
        (void)close(r->wake_fd);
    lock_condition_close(&r->less);
    lock_condition_close(&r->more);
    lock_close(&r->lock);
    mem_free(r);
}

enum reads_mode reads_mode(const struct reads *r)
{
    return r->mode;
}

void reads_start(struct reads *r, const struct reads_piece *piece, uint32_t tag)
{
    must(tag < r->config.depth);
    struct item *i = &r->items[tag];
    r->flying++;
    if (r->uring != NULL) {
        *i = (struct item){ .piece = *piece, .end.tag = tag };
        start_uring(r, i);
        return;
    }
    lock_take(&r->lock);
    must(i->state == IDLE);
    *i = (struct item){ .piece = *piece, .end.tag = tag, .order = r->order++, .state = TODO };
    lock_condition_wake(&r->more, &r->lock);
    lock_give(&r->lock);
}

bool reads_collect(struct reads *r, bool wait, struct reads_end *out)
{
    bool ended = r->uring != NULL ? collect_uring(r, wait, out) : collect_threads(r, wait, out);
    r->flying -= ended;
    return ended;
}

void reads_wake(struct reads *r)
{
    if (r->uring != NULL) {
        uint64_t one = 1;
        ssize_t wrote = write(r->wake_fd, &one, sizeof one);
        must(wrote == sizeof one);
        return;
    }
    lock_take(&r->lock);
    r->woken = true;
    lock_condition_wake(&r->less, &r->lock);
    lock_give(&r->lock);
}
