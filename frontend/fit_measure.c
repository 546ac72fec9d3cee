/* SPDX-License-Identifier: MIT */
/* fit_measure - disk: up to DISK_BYTES of the file, several reads on their way, as streaming does.
 * Memory: every worker adds up its part of a block that is larger than the caches. Products: every
 * worker multiplies the same small matrix by COLS rows, again and again, for a while. */
#include "frontend/fit_measure.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/must.h"
#include "core/reads.h"
#include "kernels/kernels.h"

#define PIECE_BYTES (1u << 20)
#define PIECES 8u
#define DISK_BYTES (96ull << 20)
#define MEMORY_BYTES (96ull << 20)
#define COLS 8u
#define MATRIX_COLS 2048u
#define MATRIX_ROWS 64u
#define PRODUCT_US 150000u
#define ROUNDS 4u

double fit_measure_disk(const struct gguf *g)
{
    int fd = gguf_file_fd(g, 0), flags = fcntl(fd, F_GETFL);
    struct clock clock = clock_real();
    struct fault fault;
    struct reads *reads;
    uint64_t end = gguf_file_bytes(g, 0) / PIECE_BYTES * PIECE_BYTES;
    end = end < DISK_BYTES ? end : DISK_BYTES;
    if (end == 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
        return 0;
    char *raw = mem_alloc_raw((PIECES + 1) * PIECE_BYTES);
    struct reads_config config = { .depth = PIECES };
    if (raw == NULL)
        return 0;
    char *at = raw + (PIECE_BYTES - (uintptr_t)raw % PIECE_BYTES);
    config.base = at;
    config.bytes = PIECES * PIECE_BYTES;
    if (reads_open(&reads, &config, &fault) != RC_OK) {
        mem_free(raw);
        return 0;
    }
    uint64_t begin = clock_now_us(&clock), offset = 0, good = 0;
    struct reads_end ended;
    for (uint32_t tag = 0; tag < PIECES || good < end;) {
        bool fresh = tag < PIECES;
        if (!fresh) {
            if (!reads_collect(reads, true, &ended) || ended.rc != RC_OK)
                break;
            good += PIECE_BYTES;
        }
        uint32_t slot = fresh ? tag++ : ended.tag;
        if (offset == end)
            continue;
        reads_start(reads,
                    &(struct reads_piece){ fd, at + (size_t)slot * PIECE_BYTES, offset, PIECE_BYTES,
                                           PIECE_BYTES },
                    slot);
        offset += PIECE_BYTES;
    }
    uint64_t us = clock_now_us(&clock) - begin;
    reads_close(reads);
    mem_free(raw);
    return good == end ? (double)end * 1e6 / (double)(us > 0 ? us : 1) : 0;
}

struct cores {
    struct kernels kernels;
    uint64_t *words; /* MEMORY_BYTES */
    uint8_t *weights;
    struct act x;
    struct weight w;
    _Atomic uint64_t sum, products;
    struct clock clock;
};

static void read_memory(void *ctx, uint32_t worker, uint32_t count)
{
    struct cores *c = ctx;
    uint64_t begin, end, sum[8] = { 0 };
    workers_range(MEMORY_BYTES / 64, 1, worker, count, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        ATTR_UNROLL
        for (uint64_t k = 0; k < 8; k++)
            sum[k] += c->words[8 * i + k];
    for (uint64_t k = 0; k < 8; k++)
        atomic_fetch_add(&c->sum, sum[k]); /* so that nothing is left out */
}

static void multiply(void *ctx, uint32_t worker, uint32_t count)
{
    struct cores *c = ctx;
    float out[COLS * MATRIX_ROWS];
    struct matmul m = {
        .w = c->w, .x = &c->x, .x_count = COLS, .out = out, .out_stride = MATRIX_ROWS
    };
    uint64_t until = clock_now_us(&c->clock) + PRODUCT_US, rounds = 0;
    (void)worker;
    (void)count;
    while (clock_now_us(&c->clock) < until) {
        matmul_run(&c->kernels.matmul, &m, 0, MATRIX_ROWS);
        rounds++;
    }
    atomic_fetch_add(&c->products, rounds * COLS * MATRIX_ROWS * MATRIX_COLS);
}

enum rc fit_measure_cores(struct fit_machine *out, struct workers *w, enum dtype type)
{
    struct cores c = { .clock = clock_real() };
    enum act_kind kind = act_kind_for(type);
    size_t row_bytes = 0, act_bytes = act_row_bytes(kind, MATRIX_COLS);
    must(dtype_row_bytes(&row_bytes, type, MATRIX_COLS));
    c.words = mem_alloc(MEMORY_BYTES);
    c.weights = mem_alloc(row_bytes * MATRIX_ROWS); /* zeroes are as fast as others */
    uint8_t *act = mem_alloc(act_bytes * COLS);
    enum rc rc = c.words == NULL || c.weights == NULL || act == NULL ? RC_NO_MEMORY : RC_OK;
    if (rc == RC_OK) {
        memset(c.words, 1, MEMORY_BYTES);
        kernels_open(&c.kernels, cpu_isa());
        c.w = (struct weight){ c.weights, type, MATRIX_ROWS, MATRIX_COLS, row_bytes };
        act_open(&c.x, kind, COLS, MATRIX_COLS, act);
        uint64_t best = UINT64_MAX, begin;
        for (uint32_t i = 0; i < ROUNDS; i++) { /* others may be busy too */
            begin = clock_now_us(&c.clock);
            workers_run(w, read_memory, &c);
            uint64_t us = clock_now_us(&c.clock) - begin;
            best = us < best ? us : best;
        }
        begin = clock_now_us(&c.clock);
        workers_run(w, multiply, &c);
        out->memory_bytes_s = (double)MEMORY_BYTES * 1e6 / (double)(best + 1);
        out->macs_s = (double)c.products * 1e6 / (double)(clock_now_us(&c.clock) - begin + 1);
    }
    mem_free(act);
    mem_free(c.weights);
    mem_free(c.words);
    return rc;
}
