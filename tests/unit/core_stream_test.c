/* SPDX-License-Identifier: MIT */
/* Tests of core/stream and core/reads: whatever way bytes come, and whatever goes wrong on it,
 * consumers see the bytes of the file; what cannot be read ends its pass and no other. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/futex.h"
#include "core/must.h"
#include "core/stream.h"
#include "core/workers.h"

#define ROW_BYTES 1000u
#define MATRICES 9u /* four used always, four experts in two choices, the output */
#define CONSUMERS 2u

static const uint32_t rows_of[MATRICES] = { 3000, 48, 1200, 700, 900, 900, 900, 900, 2500 };

struct set {
    int fd;
    uint8_t *base; /* the mapping */
    uint8_t *copy; /* what the file holds */
    uint64_t bytes;
    struct stream_matrix matrices[MATRICES];
    struct stream_config config;
    struct stream *stream;
    struct workers *workers;
    uint32_t warnings;
    char warning[300];
    /* A pass. */
    bool outputs;
    uint32_t expert; /* 0 or 1 of each choice */
    atomic_uint wrong;
    /* Faults. */
    int fault;
    uint32_t every;
    atomic_uint calls, hits;
    uint64_t target; /* offset of a piece */
    bool gated;      /* the gate goes to 1 in the middle of a pass */
    _Atomic uint32_t gate, held;
};

static void note(void *ctx, const char *text)
{
    struct set *t = ctx;
    t->warnings++;
    snprintf(t->warning, sizeof t->warning, "%s", text);
}

static void set_open(struct set *t)
{
    char path[] = "build/stream-XXXXXX";
    *t = (struct set){ .outputs = true };
    t->fd = mkstemp(path);
    assert_true(t->fd >= 0);
    assert_int_equal(unlink(path), 0);
    uint64_t at = 4096 + 96;
    for (uint32_t i = 0; i < MATRICES; i++) {
        t->matrices[i] = (struct stream_matrix){ .rows = rows_of[i],
                                                 .row_bytes = ROW_BYTES,
                                                 .fd = t->fd,
                                                 .offset = at,
                                                 .use = i < 4   ? STREAM_ALWAYS
                                                        : i < 8 ? STREAM_CHOSEN
                                                                : STREAM_OUTPUT,
                                                 .choice = i == 6 || i == 7 };
        at += (uint64_t)rows_of[i] * ROW_BYTES + 32;
    }
    t->bytes = at - 32;
    t->copy = malloc(t->bytes);
    assert_non_null(t->copy);
    for (uint64_t i = 0; i < t->bytes; i++)
        t->copy[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_int_equal(write(t->fd, t->copy, t->bytes), (ssize_t)t->bytes);
    t->base = mmap(NULL, t->bytes, PROT_READ, MAP_SHARED, t->fd, 0);
    assert_true(t->base != MAP_FAILED);
    for (uint32_t i = 0; i < MATRICES; i++)
        t->matrices[i].data = t->base + t->matrices[i].offset;
    t->config = (struct stream_config){ .matrices = t->matrices,
                                        .matrix_count = MATRICES,
                                        .row_grain = 16,
                                        .consumers = CONSUMERS,
                                        .slot_count = 4,
                                        .clock = clock_real(),
                                        .warn = note,
                                        .warn_ctx = t };
    struct fault fault;
    assert_int_equal(workers_open(&t->workers, CONSUMERS, NULL, false, &fault), RC_OK);
}

static void set_start(struct set *t)
{
    struct fault fault = { 0 };
    if (stream_open(&t->stream, &t->config, &fault) != RC_OK)
        fail_msg("%s", fault.text);
}

static void set_close(struct set *t)
{
    stream_close(t->stream);
    workers_close(t->workers);
    assert_int_equal(munmap(t->base, t->bytes), 0);
    free(t->copy);
    assert_int_equal(close(t->fd), 0);
}

static bool wanted(const struct set *t, uint32_t i)
{
    return i < 4 || (i == 8 && t->outputs) || (i > 3 && i < 8 && i % 2 == t->expert);
}

/* What a step does, with comparing in place of computing. */
static void consume(void *ctx, uint32_t worker, uint32_t count)
{
    struct set *t = ctx;
    (void)count;
    for (uint32_t i = 0; i < MATRICES; i++) {
        const struct stream_matrix *m = &t->matrices[i];
        if ((i == 4 || i == 6) && worker == 0)
            stream_choose(t->stream, &(uint32_t){ i + t->expert }, 1);
        if (i == 3 && t->gated)
            atomic_store(&t->gate, 1);
        if (!wanted(t, i))
            continue;
        uint32_t e, last, begin, end;
        stream_extents(t->stream, stream_find(t->stream, m->data), &e, &last);
        for (uint32_t row = 0; e < last; e++, row = end) {
            stream_rows(t->stream, e, &begin, &end);
            must(begin == row && end > begin);
            const uint8_t *data = stream_wait(t->stream, e, worker);
            if (memcmp(data, t->copy + m->offset + (size_t)begin * ROW_BYTES,
                       (size_t)(end - begin) * ROW_BYTES) != 0)
                atomic_fetch_add(&t->wrong, 1);
            stream_done(t->stream, e);
        }
    }
}

static enum rc pass(struct set *t)
{
    stream_begin(t->stream, t->outputs);
    workers_run(t->workers, consume, t);
    return stream_end(t->stream);
}

static void pass_well(struct set *t)
{
    assert_int_equal(pass(t), RC_OK);
    assert_int_equal(t->wrong, 0);
}

static void test_stream_ways(void **state)
{
    (void)state;
    for (uint32_t way = STREAM_URING; way <= STREAM_MMAP; way++) {
        for (uint32_t part = 0; part < 4; part++) {
            struct set t;
            set_open(&t);
            t.config.way = (enum stream_way)way;
            t.config.pin_bytes = part * 4000000u;
            t.config.warm = part % 2 == 1;
            set_start(&t);
            for (uint32_t i = 0; i < 6; i++) {
                t.outputs = i % 3 != 1;
                t.expert = i / 2 % 2;
                pass_well(&t);
            }
            struct stream_stats s = stream_stats(t.stream);
            assert_true(s.pinned_bytes <= t.config.pin_bytes);
            assert_true(part < 3 ? s.streamed_bytes > 0 : s.streamed_bytes == 0);
            if (way == STREAM_URING && s.ring_reads == 0)
                print_message("# io_uring is refused here: %s\n", t.warning);
            else
                assert_int_equal(t.warnings, 0);
            set_close(&t);
        }
    }
}

/* A cold start reads nothing twice before its first pass has ended, and what is kept once. */
static void test_stream_reads_once(void **state)
{
    (void)state;
    struct set t;
    set_open(&t);
    t.config.pin_bytes = 5000000;
    set_start(&t);
    stream_begin(t.stream, true);
    workers_run(t.workers, consume, &t);
    struct stream_stats first = stream_stats(t.stream);
    uint64_t experts = 0; /* half of them are not wanted */
    for (uint32_t i = 4; i < 8; i++)
        experts += i % 2 == 1 ? (uint64_t)rows_of[i] * ROW_BYTES : 0;
    uint64_t all = first.pinned_bytes + first.streamed_bytes;
    assert_true(first.read_bytes <= all - experts && first.read_bytes + 16 * 4096 >= all - experts);
    assert_int_equal(stream_end(t.stream), RC_OK);
    for (uint32_t i = 0; i < 4; i++)
        pass_well(&t);
    set_close(&t);
}

static int32_t bend(void *ctx, const struct reads_piece *piece, int32_t moved)
{
    struct set *t = ctx;
    if (t->every == 0 || moved <= 0 || atomic_fetch_add(&t->calls, 1) % t->every != 0 ||
        (t->target != 0 && piece->offset != t->target))
        return moved;
    atomic_fetch_add(&t->hits, 1);
    return t->fault < 0 ? t->fault : moved / 2;
}

static void test_stream_faults_that_pass(void **state)
{
    (void)state;
    static const int faults[] = { -EINTR, -EAGAIN, 1 }; /* the last: half of what was asked for */
    for (uint32_t way = STREAM_URING; way <= STREAM_THREADS; way++) {
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            struct set t;
            set_open(&t);
            t.config.way = (enum stream_way)way;
            t.config.bend = bend;
            t.config.bend_ctx = &t;
            t.fault = faults[i];
            t.every = 3;
            set_start(&t);
            for (uint32_t k = 0; k < 3; k++)
                pass_well(&t);
            assert_true(t.hits > 5);
            set_close(&t);
        }
    }
}

/* A disk that fails once costs its pass; the next one reads again, kept extents too. */
static void test_stream_error_ends_one_pass(void **state)
{
    (void)state;
    for (uint32_t kept = 0; kept < 2; kept++) {
        struct set t;
        set_open(&t);
        t.config.bend = bend;
        t.config.bend_ctx = &t;
        t.config.pin_bytes = kept == 1 ? 100000000 : 0;
        t.fault = -EIO;
        t.target = 4096;
        t.every = 1;
        set_start(&t);
        assert_int_equal(pass(&t), RC_IO);
        assert_int_equal(pass(&t), RC_IO);
        assert_int_equal(t.warnings, 1);
        assert_non_null(strstr(t.warning, "cannot be read at byte 4096: Input/output error"));
        t.every = 0;
        atomic_store(&t.wrong, 0);
        (void)!pass(&t); /* what was read ahead while the disk was bad */
        atomic_store(&t.wrong, 0);
        pass_well(&t);
        pass_well(&t);
        assert_int_equal(t.warnings, 1);
        set_close(&t);
    }
}

/* The reader need not have seen the end of a pass whose last matrices nobody wanted. */
static void test_stream_passes_in_a_hurry(void **state)
{
    (void)state;
    for (uint32_t way = STREAM_URING; way <= STREAM_MMAP; way++) {
        struct set t;
        set_open(&t);
        t.config.way = (enum stream_way)way;
        set_start(&t);
        t.outputs = false;
        for (uint32_t i = 0; i < 150; i++)
            pass_well(&t);
        assert_int_equal(t.warnings, 0);
        set_close(&t);
    }
}

static void test_stream_file_cut_short(void **state)
{
    (void)state;
    for (uint32_t way = STREAM_URING; way <= STREAM_THREADS; way++) {
        struct set t;
        set_open(&t);
        t.config.way = (enum stream_way)way;
        set_start(&t);
        pass_well(&t);
        t.outputs = true; /* whose last rows are gone */
        assert_int_equal(ftruncate(t.fd, (off_t)(t.bytes - 10 * ROW_BYTES)), 0);
        assert_int_equal(pass(&t), RC_CORRUPT);
        assert_int_equal(pass(&t), RC_CORRUPT);
        assert_int_equal(t.warnings, 1);
        assert_non_null(strstr(t.warning, "was cut short: it ends before byte"));
        t.outputs = false;
        atomic_store(&t.wrong, 0);
        pass_well(&t); /* what is left */
        set_close(&t);
    }
}

/* From gate 1 on the first two extents of a pass are held up, once, until gate 2. */
static int32_t hold(void *ctx, const struct reads_piece *piece, int32_t moved)
{
    struct set *t = ctx;
    if (piece->offset == t->target)
        return -EIO;
    if (atomic_load(&t->gate) == 0 || piece->offset > 4096 + 1100000)
        return moved;
    uint32_t number = atomic_fetch_add(&t->held, 1);
    while (number < 2 && atomic_load(&t->gate) == 1)
        futex_pause();
    return moved;
}

/* The pass fails while reads for the next one are on their way. They come when their bytes have
 * been read again, into other slots. */
static void test_stream_late_read_is_dropped(void **state)
{
    (void)state;
    struct set t;
    set_open(&t);
    t.config.way = STREAM_THREADS;
    t.config.bend = hold;
    t.config.bend_ctx = &t;
    set_start(&t);
    t.outputs = false;
    pass_well(&t);
    t.target = t.matrices[5].offset / 4096 * 4096;
    t.expert = 1;
    t.gated = true;
    stream_begin(t.stream, false);
    workers_run(t.workers, consume, &t);
    t.gated = false;
    while (atomic_load(&t.held) < 2)
        futex_pause();
    assert_int_equal(stream_end(t.stream), RC_IO);
    t.target = 1; /* none */
    atomic_store(&t.wrong, 0);
    pass_well(&t);
    uint64_t before = stream_stats(t.stream).dropped_reads; /* what was not held */
    atomic_store(&t.gate, 2);
    while (stream_stats(t.stream).dropped_reads < before + 2)
        pass_well(&t);
    set_close(&t);
}

static void test_stream_refuses_twins(void **state)
{
    (void)state;
    struct set t;
    struct fault fault = { 0 };
    set_open(&t);
    t.matrices[1].data = t.matrices[2].data;
    assert_int_equal(stream_open(&t.stream, &t.config, &fault), RC_UNSUPPORTED);
    assert_string_equal(fault.text, "two tensors of the model begin at the same byte");
    assert_null(t.stream);
    set_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_ways),
        cmocka_unit_test(test_stream_reads_once),
        cmocka_unit_test(test_stream_faults_that_pass),
        cmocka_unit_test(test_stream_error_ends_one_pass),
        cmocka_unit_test(test_stream_passes_in_a_hurry),
        cmocka_unit_test(test_stream_file_cut_short),
        cmocka_unit_test(test_stream_late_read_is_dropped),
        cmocka_unit_test(test_stream_refuses_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
