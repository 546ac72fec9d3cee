/* SPDX-License-Identifier: MIT */
/* stream_reader - the thread that reads ahead. It goes through the extents in the order of use,
 * puts as many reads on their way as there are slots, and tells the consumers when bytes are there:
 *
 *   next()   the extent at the cursor, unless it is not known yet whether it is wanted
 *   issue()  a free slot, a tag, a read
 *   land()   the read has ended: HERE, or, when it is stale, the slot is free again
 *
 * It sleeps until a read has ended or the bell rings. It never reads beyond the pass that follows
 * the running one, and not into the second pass before the first one has ended: a cold start reads
 * nothing twice before it has answered.
 * Rewind (after a pass that failed): what is here and not used yet is given up, what is on its way
 * becomes stale; its slot is free only when the kernel has let go of it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "core/futex.h"
#include "core/must.h"
#include "core/stream_state.h"

void stream_ring_bell(struct stream *s)
{
    atomic_fetch_add(&s->bell, 1);
    if (atomic_exchange(&s->reader_sleeps, 0) == 0)
        return;
    if (s->reads != NULL)
        reads_wake(s->reads);
    else
        futex_wake(&s->bell, 1);
}

/* Whether the reader may go on into the pass after the one it is in. */
static bool may_turn(const struct stream *s)
{
    uint32_t begun = atomic_load(&s->pass_begun), next = s->pass + 1;
    return next == 1 || next <= begun || (next == begun + 1 && atomic_load(&s->pass_ended) > 0);
}

enum verdict { SKIP, WANTED, UNKNOWN };

static enum verdict look_at(const struct stream *s, const struct extent *e)
{
    const struct stream_matrix *m = &s->matrices[e->matrix];
    uint32_t begun = atomic_load(&s->pass_begun);
    if ((int32_t)(s->pass - begun) < 0)
        return SKIP; /* the pass is over: it went without what was not read */
    if (e->flying || atomic_load(&e->state) == EXTENT_HERE)
        return e->pinned ? SKIP : UNKNOWN; /* of the pass before: not used up yet */
    if (m->use == STREAM_ALWAYS)
        return WANTED;
    if (s->pass != begun)
        return UNKNOWN;
    if (m->use == STREAM_OUTPUT)
        return atomic_load(&s->pass_outputs) ? WANTED : SKIP;
    if (atomic_load(&s->pass_choices) <= m->choice)
        return UNKNOWN;
    return s->wanted_in[e->matrix] == s->pass ? WANTED : SKIP;
}

/* The extent to read next; NULL while that is not known. */
static struct extent *next(struct stream *s)
{
    for (;;) {
        if (s->cursor == s->extent_count) {
            if (!may_turn(s))
                return NULL;
            s->pass++;
            s->cursor = 0;
        }
        struct extent *e = &s->extents[s->cursor];
        enum verdict v = look_at(s, e);
        if (v == UNKNOWN)
            return NULL;
        if (v == WANTED)
            return e;
        s->cursor++;
    }
}

static uint32_t lowest_bit(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(bits);
}

static void publish(struct stream *s, struct extent *e)
{
    atomic_store(&e->state, EXTENT_HERE);
    if (atomic_load(&s->consumers_sleep) != 0)
        futex_wake(&e->state, UINT32_MAX >> 1);
}

/* With mmap reading is advice, and pages come when they are touched. */
static void advise(struct stream *s, struct extent *e)
{
    const struct stream_matrix *m = &s->matrices[e->matrix];
    (void)posix_fadvise(m->fd, (off_t)e->offset, e->read_bytes, POSIX_FADV_WILLNEED);
    atomic_fetch_add(&s->read_bytes, e->read_bytes);
    publish(s, e);
}

/* False when there is no slot, or too much on its way. */
static bool issue(struct stream *s, struct extent *e)
{
    uint64_t free = atomic_load(&s->slots_free);
    if ((!e->pinned && free == 0) || s->tags_free == 0)
        return false;
    struct flight flight = { (uint32_t)(e - s->extents), STREAM_NONE, false };
    if (!e->pinned) {
        flight.slot = e->slot = lowest_bit(free);
        atomic_fetch_and(&s->slots_free, ~(1ull << e->slot));
    }
    if (s->reads == NULL) {
        advise(s, e);
        return true;
    }
    if (!e->pinned)
        e->memory = s->slots + e->slot * s->slot_bytes;
    uint32_t tag = lowest_bit(s->tags_free);
    s->tags_free &= ~(1ull << tag);
    s->flights[tag] = flight;
    e->flying = true;
    if (s->flying++ == 0)
        s->busy_since = clock_now_us(&s->config.clock);
    reads_start(s->reads,
                &(struct reads_piece){ .fd = s->matrices[e->matrix].fd,
                                       .memory = e->memory,
                                       .offset = e->offset,
                                       .bytes = e->read_bytes,
                                       .wanted = e->wanted },
                tag);
    return true;
}

static void land(struct stream *s, const struct reads_end *end)
{
    struct flight *f = &s->flights[end->tag];
    struct extent *e = &s->extents[f->extent];
    s->tags_free |= 1ull << end->tag;
    if (--s->flying == 0) {
        uint64_t now = clock_now_us(&s->config.clock);
        atomic_fetch_add(&s->busy_us, now - s->busy_since);
    }
    atomic_fetch_add(&s->read_bytes, e->read_bytes);
    if (reads_mode(s->reads) != READS_THREADED)
        atomic_fetch_add(&s->ring_reads, 1);
    if (!s->direct)
        (void)posix_fadvise(s->matrices[e->matrix].fd, (off_t)e->offset, e->read_bytes,
                            POSIX_FADV_DONTNEED);
    if (f->stale) {
        atomic_fetch_add(&s->dropped_reads, 1);
        atomic_fetch_or(&s->slots_free, 1ull << f->slot);
        return;
    }
    e->flying = false;
    e->rc = end->rc;
    e->os_errno = end->os_errno;
    publish(s, e);
}

/* Until a read ends or the bell rings, which last was at `bell`. */
static void sleep_until(struct stream *s, uint32_t bell)
{
    struct reads_end end;
    atomic_store(&s->reader_sleeps, 1);
    if (atomic_load(&s->bell) != bell)
        ; /* rung before it could see us */
    else if (s->reads == NULL)
        (void)futex_wait(&s->bell, bell, FUTEX_FOREVER);
    else if (reads_collect(s->reads, true, &end))
        land(s, &end);
    atomic_store(&s->reader_sleeps, 0);
}

static void rewind_pass(struct stream *s)
{
    for (uint32_t tag = 0; tag < s->depth; tag++) {
        struct flight *f = &s->flights[tag];
        if ((s->tags_free >> tag & 1) != 0 || f->slot == STREAM_NONE || f->stale)
            continue;
        f->stale = true;
        s->extents[f->extent].flying = false;
    }
    for (uint32_t i = 0; i < s->extent_count; i++) {
        struct extent *e = &s->extents[i];
        if (atomic_load(&e->state) != EXTENT_HERE || (e->pinned && e->rc == RC_OK))
            continue;
        atomic_store(&e->state, EXTENT_AWAY);
        if (!e->pinned)
            atomic_fetch_or(&s->slots_free, 1ull << e->slot);
    }
    s->pass = atomic_load(&s->pass_begun);
    s->cursor = s->extent_count;
    atomic_store(&s->rewind, 0);
    futex_wake(&s->rewind, 1);
}

/* Reads all that is kept before anything else. */
static void warm_up(struct stream *s)
{
    struct reads_end end;
    for (uint32_t i = 0; i < s->extent_count && !atomic_load(&s->stop); i++) {
        struct extent *e = &s->extents[i];
        while (e->pinned && !issue(s, e) && reads_collect(s->reads, true, &end))
            land(s, &end);
    }
    while (s->flying > 0 && reads_collect(s->reads, true, &end))
        land(s, &end);
}

void *stream_reader_main(void *arg)
{
    struct stream *s = arg;
    if (s->config.warm)
        warm_up(s);
    atomic_store(&s->warm, 1);
    futex_wake(&s->warm, 1);
    while (!atomic_load(&s->stop)) {
        uint32_t bell = atomic_load(&s->bell);
        if (atomic_load(&s->rewind) != 0)
            rewind_pass(s);
        struct extent *e;
        while ((e = next(s)) != NULL && issue(s, e))
            s->cursor++;
        struct reads_end end;
        bool landed = false;
        while (s->flying > 0 && reads_collect(s->reads, false, &end)) {
            land(s, &end);
            landed = true;
        }
        if (!landed)
            sleep_until(s, bell);
    }
    return NULL;
}
