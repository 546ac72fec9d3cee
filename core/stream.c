/* SPDX-License-Identifier: MIT */
/* stream - memory, passes, and the consumers' side; stream_reader.c reads.
 *
 *   file     | q |k|v| o |  gate  |  up  |  down  | ...      matrices, cut into extents
 *   kept     every n-th extent, so that computing and reading stay interleaved:  K s s K s s K
 *   others   s -> slot 3, s -> slot 0, ...                   free again when all consumers are done
 *
 * What a pass is sure to use is kept first, then the output matrix, then experts: the same bytes
 * save more reading there. A read starts and ends on whole pages, so neighbours share one.
 * An extent is AWAY or HERE. HERE is stored after its bytes; a consumer that finds it AWAY
 * announces itself and sleeps on that word (core/README.md, rule 4). The last consumer to be done
 * makes it AWAY and frees the slot; it rings the bell when enough of them are free. Refused: a
 * queue of slots in order, because reads that are given up leave holes in it. */
#include "core/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/futex.h"
#include "core/mem.h"
#include "core/must.h"
#include "core/stream_state.h"

#define SLOTS_A_BELL 4u /* of the slots, this part free is worth waking the reader for */
#define FLIGHTS 16u     /* reads on their way: deep enough for a solid-state disk */

static void warn(const struct stream *s, const char *text)
{
    if (s->config.warn != NULL)
        s->config.warn(s->config.warn_ctx, text);
}

/* A better way of reading is refused: at open, by the opener. */
static void fall_back(void *ctx, const char *text)
{
    struct stream *s = ctx;
    s->fallbacks++;
    warn(s, text);
}

static uint64_t page_down(uint64_t n)
{
    return n / STREAM_PAGE * STREAM_PAGE;
}

static uint64_t page_up(uint64_t n)
{
    return page_down(n + STREAM_PAGE - 1);
}

/* Rows of each extent of m but the last: equal parts of about STREAM_EXTENT_BYTES. */
static uint32_t rows_per_extent(const struct stream_matrix *m, uint32_t grain)
{
    uint64_t bytes = (uint64_t)m->rows * m->row_bytes;
    uint64_t parts = (bytes + STREAM_EXTENT_BYTES - 1) / STREAM_EXTENT_BYTES;
    uint64_t rows = (m->rows + parts - 1) / parts;
    return (uint32_t)((rows + grain - 1) / grain * grain);
}

size_t stream_slot_bytes(const struct stream_config *config)
{
    size_t most = 0;
    for (uint32_t i = 0; i < config->matrix_count; i++) {
        const struct stream_matrix *m = &config->matrices[i];
        size_t rows = rows_per_extent(m, config->row_grain);
        size_t bytes = page_up((rows < m->rows ? rows : m->rows) * m->row_bytes) + STREAM_PAGE;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* ---- the plan ---- */

static void cut_matrix(struct stream *s, uint32_t matrix)
{
    const struct stream_matrix *m = &s->matrices[matrix];
    uint32_t step = rows_per_extent(m, s->config.row_grain);
    for (uint32_t row = 0; row < m->rows; row += step) {
        uint32_t end = m->rows - row < step ? m->rows : row + step;
        uint64_t begin = m->offset + (uint64_t)row * m->row_bytes, first = page_down(begin);
        uint64_t last = m->offset + (uint64_t)end * m->row_bytes;
        s->extents[s->extent_count++] =
            (struct extent){ .matrix = matrix,
                             .row_begin = row,
                             .row_end = end,
                             .offset = first,
                             .read_bytes = (uint32_t)(page_up(last) - first),
                             .wanted = (uint32_t)(last - first),
                             .skip = (uint32_t)(begin - first),
                             .left = s->config.consumers };
    }
}

static enum rc cut(struct stream *s)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->config.matrix_count; i++) {
        uint32_t step = rows_per_extent(&s->matrices[i], s->config.row_grain);
        count += (s->matrices[i].rows + step - 1) / step;
    }
    s->extents = count < STREAM_NONE ? mem_alloc_array(count, sizeof *s->extents) : NULL;
    if (s->extents == NULL)
        return RC_NO_MEMORY;
    for (uint32_t i = 0; i < s->config.matrix_count; i++) {
        s->extent_begin[i] = s->extent_count;
        cut_matrix(s, i);
    }
    s->extent_begin[s->config.matrix_count] = s->extent_count;
    return RC_OK;
}

/* Marks extents of one use, evenly spread, until left is spent. */
static void pin_use(struct stream *s, enum stream_use use, uint64_t *left)
{
    uint64_t all = 0, credit = 0, budget = *left;
    for (uint32_t i = 0; i < s->extent_count; i++)
        all += s->matrices[s->extents[i].matrix].use == use ? s->extents[i].read_bytes : 0;
    for (uint32_t i = 0; i < s->extent_count; i++) {
        struct extent *e = &s->extents[i];
        if (s->matrices[e->matrix].use != use)
            continue;
        /* Of each byte budget / all are kept. */
        credit += budget >= all ? e->read_bytes
                                : (uint64_t)((double)e->read_bytes * (double)budget / (double)all);
        if (credit < e->read_bytes || *left < e->read_bytes)
            continue;
        credit -= e->read_bytes;
        *left -= e->read_bytes;
        e->pinned = true;
        s->arena_bytes += e->read_bytes;
    }
}

static void pin(struct stream *s)
{
    static const enum stream_use order[] = { STREAM_ALWAYS, STREAM_OUTPUT, STREAM_CHOSEN };
    uint64_t left = s->config.pin_bytes;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        pin_use(s, order[i], &left);
    for (uint32_t i = 0; i < s->extent_count; i++)
        s->streamed_bytes += s->extents[i].pinned ? 0 : s->extents[i].read_bytes;
}

/* ---- memory ---- */

static char *map(size_t bytes)
{
    if (bytes == 0)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    (void)madvise(at, bytes, MADV_DONTFORK);
    return at;
}

static void lock_memory(const struct stream *s, const char *at, size_t bytes)
{
    if (!s->config.lock || bytes == 0 || mlock2(at, bytes, MLOCK_ONFAULT) == 0)
        return;
    struct fault why;
    fault_set_errno(&why, RC_NO_MEMORY, "%zu MiB of weights cannot be locked in memory",
                    bytes >> 20);
    warn(s, why.text);
}

/* Direct reads where every file allows them; else reads leave the page cache as they find it. */
static void choose_direct(struct stream *s)
{
    s->direct = true;
    for (uint32_t i = 0; i < s->config.matrix_count && s->direct; i++) {
        int fd = s->matrices[i].fd, flags = fcntl(fd, F_GETFL);
        s->direct = (flags & O_DIRECT) != 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
    }
    if (!s->direct)
        fall_back(s,
                  "the file system has no direct reads; weights are read through the page cache");
}

static enum rc open_reads(struct stream *s, struct fault *fault)
{
    s->slots = map(s->slots_bytes);
    s->arena = map(s->arena_bytes);
    if (s->slots == NULL || (s->arena == NULL && s->arena_bytes > 0))
        return fault_set(fault, RC_NO_MEMORY, "no memory for %zu MiB of weights",
                         (s->slots_bytes + s->arena_bytes) >> 20);
    lock_memory(s, s->arena, s->arena_bytes);
    char *at = s->arena;
    for (uint32_t i = 0; i < s->extent_count; i++) {
        struct extent *e = &s->extents[i];
        e->memory = at;
        at += e->pinned ? e->read_bytes : 0;
    }
    choose_direct(s);
    struct reads_config config = { .depth = s->depth,
                                   .base = s->slots,
                                   .bytes = s->slots_bytes,
                                   .threads = s->config.way == STREAM_THREADS,
                                   .warn = fall_back,
                                   .warn_ctx = s,
                                   .bend = s->config.bend,
                                   .bend_ctx = s->config.bend_ctx };
    return reads_open(&s->reads, &config, fault);
}

/* The mapping itself: extents lie where they are. */
static void open_mapping(struct stream *s)
{
    for (uint32_t i = 0; i < s->extent_count; i++) {
        struct extent *e = &s->extents[i];
        const struct stream_matrix *m = &s->matrices[e->matrix];
        uintptr_t first = (uintptr_t)m->data + (size_t)e->row_begin * m->row_bytes - e->skip;
        e->memory = (char *)first; /* read only */
    }
}

static enum rc open_memory(struct stream *s, struct fault *fault)
{
    if (s->config.way == STREAM_MMAP) {
        open_mapping(s);
        return RC_OK;
    }
    struct fault why;
    if (open_reads(s, &why) == RC_OK)
        return RC_OK;
    char text[sizeof why.text + 40];
    snprintf(text, sizeof text, "%s; weights come through mmap", why.text);
    fall_back(s, text);
    if (s->slots != NULL)
        must(munmap(s->slots, s->slots_bytes) == 0);
    if (s->arena != NULL)
        must(munmap(s->arena, s->arena_bytes) == 0);
    s->slots = s->arena = NULL;
    (void)fault;
    open_mapping(s);
    return RC_OK;
}

static int compare_data(const void *a, const void *b, void *ctx)
{
    const struct stream_matrix *m = ctx;
    uintptr_t x = (uintptr_t)m[*(const uint32_t *)a].data;
    uintptr_t y = (uintptr_t)m[*(const uint32_t *)b].data;
    return (x > y) - (x < y);
}

static enum rc open_tables(struct stream *s)
{
    uint32_t n = s->config.matrix_count;
    s->matrices = mem_alloc_array(n, sizeof *s->matrices);
    s->by_data = mem_alloc_array(n, sizeof *s->by_data);
    s->wanted_in = mem_alloc_array(n, sizeof *s->wanted_in);
    s->extent_begin = mem_alloc_array(n + 1, sizeof *s->extent_begin);
    if (s->matrices == NULL || s->by_data == NULL || s->extent_begin == NULL ||
        s->wanted_in == NULL)
        return RC_NO_MEMORY;
    memcpy(s->matrices, s->config.matrices, n * sizeof *s->matrices);
    s->config.matrices = s->matrices;
    for (uint32_t i = 0; i < n; i++)
        s->by_data[i] = i;
    qsort_r(s->by_data, n, sizeof *s->by_data, compare_data, s->matrices);
    return cut(s);
}

/* A file may say that; consumers would then find one of the two only. */
static bool has_twins(const struct stream *s)
{
    for (uint32_t i = 1; i < s->config.matrix_count; i++)
        if (s->matrices[s->by_data[i]].data == s->matrices[s->by_data[i - 1]].data)
            return true;
    return false;
}

static enum rc start_reader(struct stream *s, struct fault *fault)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&s->thread, NULL, stream_reader_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->thread_runs = error == 0;
    errno = error;
    if (error != 0)
        return fault_set_errno(fault, RC_NO_MEMORY, "the reading thread cannot be started");
    while (atomic_load(&s->warm) == 0)
        (void)futex_wait(&s->warm, 0, FUTEX_FOREVER);
    return RC_OK;
}

enum rc stream_open(struct stream **out, const struct stream_config *config, struct fault *fault)
{
    *out = NULL;
    must(config->matrix_count > 0 && config->consumers > 0 && config->row_grain > 0);
    must(config->slot_count >= 2 && config->slot_count <= STREAM_SLOTS_MAX);
    struct stream *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    s->config = *config;
    enum rc rc = open_tables(s);
    if (rc != RC_OK) {
        rc = fault_set(fault, rc, "out of memory");
        goto fail;
    }
    if (has_twins(s)) {
        rc = fault_set(fault, RC_UNSUPPORTED, "two tensors of the model begin at the same byte");
        goto fail;
    }
    pin(s);
    s->slot_bytes = stream_slot_bytes(config);
    s->slots_bytes = s->slot_bytes * config->slot_count;
    s->depth = FLIGHTS;
    s->tags_free = (1ull << FLIGHTS) - 1;
    s->slots_free = (1ull << config->slot_count) - 1;
    s->cursor = s->extent_count;
    rc = open_memory(s, fault);
    if (rc == RC_OK)
        rc = start_reader(s, fault);
    if (rc != RC_OK)
        goto fail;
    *out = s;
    return RC_OK;
fail:
    stream_close(s);
    return rc;
}

void stream_close(struct stream *s)
{
    if (s == NULL)
        return;
    if (s->thread_runs) {
        atomic_store(&s->stop, true);
        stream_ring_bell(s);
        must(pthread_join(s->thread, NULL) == 0);
    }
    reads_close(s->reads);
    if (s->slots != NULL)
        must(munmap(s->slots, s->slots_bytes) == 0);
    if (s->arena != NULL)
        must(munmap(s->arena, s->arena_bytes) == 0);
    mem_free(s->extents);
    mem_free(s->extent_begin);
    mem_free(s->wanted_in);
    mem_free(s->by_data);
    mem_free(s->matrices);
    mem_free(s);
}

/* ---- passes ---- */

void stream_begin(struct stream *s, bool outputs)
{
    while (atomic_load(&s->rewind) != 0)
        (void)futex_wait(&s->rewind, 1, FUTEX_FOREVER);
    atomic_store(&s->wait_us, 0);
    atomic_store(&s->pass_choices, 0);
    atomic_store(&s->pass_outputs, outputs);
    atomic_fetch_add(&s->pass_begun, 1);
    stream_ring_bell(s);
}

static void say_failure(struct stream *s, const struct extent *e)
{
    struct fault why;
    errno = e->os_errno;
    if (e->rc == RC_CORRUPT)
        fault_set(&why, e->rc, "the model file was cut short: it ends before byte %llu",
                  (unsigned long long)e->offset + e->wanted);
    else
        fault_set_errno(&why, e->rc, "the model file cannot be read at byte %llu",
                        (unsigned long long)e->offset);
    if (!s->said)
        warn(s, why.text);
    s->said = true;
}

enum rc stream_end(struct stream *s)
{
    uint32_t failed = atomic_exchange(&s->failed, 0);
    enum rc rc = RC_OK;
    if (failed != 0) {
        rc = s->extents[failed - 1].rc;
        say_failure(s, &s->extents[failed - 1]);
        atomic_store(&s->rewind, 1);
    }
    s->said = s->said && failed != 0;
    atomic_fetch_add(&s->pass_ended, 1);
    stream_ring_bell(s);
    return rc;
}

void stream_choose(struct stream *s, const uint32_t *matrices, uint32_t count)
{
    uint32_t pass = atomic_load(&s->pass_begun);
    for (uint32_t i = 0; i < count; i++)
        s->wanted_in[matrices[i]] = pass;
    atomic_fetch_add(&s->pass_choices, 1); /* publishes them */
    stream_ring_bell(s);
}

uint32_t stream_find(const struct stream *s, const uint8_t *data)
{
    uint32_t low = 0, high = s->config.matrix_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)s->matrices[s->by_data[middle]].data < (uintptr_t)data)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < s->config.matrix_count && s->matrices[s->by_data[low]].data == data;
    return found ? s->by_data[low] : STREAM_NONE;
}

void stream_extents(const struct stream *s, uint32_t matrix, uint32_t *begin, uint32_t *end)
{
    must(matrix < s->config.matrix_count);
    *begin = s->extent_begin[matrix];
    *end = s->extent_begin[matrix + 1];
}

void stream_rows(const struct stream *s, uint32_t extent, uint32_t *begin, uint32_t *end)
{
    *begin = s->extents[extent].row_begin;
    *end = s->extents[extent].row_end;
}

const uint8_t *stream_wait(struct stream *s, uint32_t extent, uint32_t consumer)
{
    struct extent *e = &s->extents[extent];
    if (atomic_load_explicit(&e->state, memory_order_acquire) == EXTENT_AWAY) {
        uint64_t from = clock_now_us(&s->config.clock);
        atomic_fetch_add(&s->consumers_sleep, 1);
        while (atomic_load(&e->state) == EXTENT_AWAY)
            (void)futex_wait(&e->state, EXTENT_AWAY, FUTEX_FOREVER);
        atomic_fetch_sub(&s->consumers_sleep, 1);
        if (consumer == 0)
            atomic_fetch_add(&s->wait_us, clock_now_us(&s->config.clock) - from);
    }
    if (e->rc != RC_OK)
        atomic_store(&s->failed, extent + 1);
    return (const uint8_t *)e->memory + e->skip;
}

atomic_uint *stream_taken(struct stream *s, uint32_t extent)
{
    return &s->extents[extent].taken;
}

/* The reader looks for free slots whenever a read ends. Beside that it is woken for several of them
 * at once: each wake takes a processor from a consumer. It is never left asleep for good: with no
 * read on its way all other slots hold what consumers will be done with. */
static bool wants_bell(struct stream *s)
{
    uint32_t free = (uint32_t)__builtin_popcountll(atomic_load(&s->slots_free));
    return free * SLOTS_A_BELL >= s->config.slot_count;
}

void stream_done(struct stream *s, uint32_t extent)
{
    struct extent *e = &s->extents[extent];
    if (atomic_fetch_sub(&e->left, 1) != 1)
        return;
    atomic_store(&e->left, s->config.consumers);
    atomic_store(&e->taken, 0);
    if (e->pinned)
        return;
    if (s->reads == NULL) {
        /* Else the kernel would evict what is needed first. */
        (void)madvise(e->memory, e->read_bytes, MADV_DONTNEED);
        (void)posix_fadvise(s->matrices[e->matrix].fd, (off_t)e->offset, e->read_bytes,
                            POSIX_FADV_DONTNEED);
    }
    uint32_t slot = e->slot;
    atomic_store(&e->state, EXTENT_AWAY);
    atomic_fetch_or(&s->slots_free, 1ull << slot);
    if (wants_bell(s))
        stream_ring_bell(s);
}

static const char *mode_text(const struct stream *s)
{
    if (s->reads == NULL)
        return "mmap";
    switch (reads_mode(s->reads)) {
    case READS_URING:
        return s->direct ? "io_uring, direct" : "io_uring, page cache";
    case READS_PLAIN:
        return s->direct ? "io_uring, direct, not registered"
                         : "io_uring, page cache, not registered";
    case READS_THREADED:
        return s->direct ? "threads, direct" : "threads, page cache";
    }
    return "";
}

struct stream_stats stream_stats(const struct stream *s)
{
    return (struct stream_stats){ .mode = mode_text(s),
                                  .pinned_bytes = s->arena_bytes,
                                  .streamed_bytes = s->streamed_bytes,
                                  .read_bytes = atomic_load(&s->read_bytes),
                                  .ring_reads = atomic_load(&s->ring_reads),
                                  .dropped_reads = atomic_load(&s->dropped_reads),
                                  .busy_us = atomic_load(&s->busy_us),
                                  .wait_us = atomic_load(&s->wait_us),
                                  .fallbacks = s->fallbacks };
}
