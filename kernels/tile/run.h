/* SPDX-License-Identifier: MIT */
/* run - the driver of the tiles, and the entries of a level.
 *     for 32 columns            their activations stay in L2
 *       for TILE_ROWS rows      TILE_VECTORS vectors, each with its own first row
 *         for 256 weights       unpacked once, whatever the number of columns
 *           for TILE_COLS       micro-kernel; the next rows are prefetched meanwhile
 * A row range that is no multiple of the tile is covered by moving a vector back, inside the
 * tensor, so that it reads rows that are computed twice and written once. Only tensors of fewer
 * than V_ROWS rows need the reference. */
#ifndef QUIRE_KERNELS_TILE_RUN_H
#define QUIRE_KERNELS_TILE_RUN_H

#include "kernels/ref/matmul_ref.h"
#include "kernels/tile/micro.h"
#include "kernels/tile/unpack.h"

enum { COLS_MAX = 32 };

struct group {
    uint32_t base[TILE_VECTORS];                     /* first row of each vector, as read */
    uint32_t begin[TILE_VECTORS], end[TILE_VECTORS]; /* rows of it that are written */
};

static struct group group_at(uint32_t row, uint32_t row_end, uint32_t rows)
{
    struct group g;
    for (uint32_t v = 0; v < TILE_VECTORS; v++) {
        uint32_t first = row + v * V_ROWS;
        g.begin[v] = first < row_end ? first : row_end;
        g.end[v] = row_end - g.begin[v] < V_ROWS ? row_end : g.begin[v] + V_ROWS;
        g.base[v] = first < rows - V_ROWS ? first : rows - V_ROWS;
    }
    return g;
}

/* Adds residual and bias, makes every NaN the same one: a vector of outputs of one column. */
ATTR_INLINE void finish_vector(const struct matmul *m, float *out, uint32_t row, const float *acc)
{
    vfloat r = vf_load(acc);
    if (m->accumulate)
        r = vf_add(vf_load(out), r);
    if (m->bias != NULL)
        r = vf_add(r, vf_load(m->bias + row));
    vf_store(out, vf_one_nan(r));
}

static void finish(const struct matmul *m, const struct group *g, uint32_t col, uint32_t cols,
                   const float *acc)
{
    float *out = m->out + (size_t)col * m->out_stride;
    for (uint32_t c = 0; c < cols; c++, out += m->out_stride) {
        for (uint32_t v = 0; v < TILE_VECTORS; v++, acc += V_ROWS) {
            if (g->begin[v] == g->base[v] && g->end[v] == g->base[v] + V_ROWS)
                finish_vector(m, out + g->base[v], g->base[v], acc);
            else
                for (uint32_t r = g->begin[v]; r < g->end[v]; r++)
                    matmul_finish(m, r, col + c, acc[r - g->base[v]]);
        }
    }
}

static void run_group(const struct matmul *m, const struct tile_format *f, const struct group *g,
                      const uint8_t *next, uint32_t col, uint32_t cols)
{
    ATTR_CACHE_LINE union {
        struct tile_q q;
        struct tile_k k;
    } tile;
    ATTR_CACHE_LINE float acc[COLS_MAX * TILE_ROWS];
    memset(acc, 0, cols * TILE_ROWS * sizeof *acc);
    const size_t stride = m->w.row_bytes, x_stride = m->x->row_bytes;
    const uint32_t blocks = m->w.cols / f->block_elems;
    const uint32_t lines =
        (f->chunk_blocks * f->block_bytes * TILE_ROWS / 64 + TILE_STEPS - 1) / TILE_STEPS;
    const uint8_t *x = act_row(m->x, m->x_begin + col);
    for (uint32_t b = 0; b < blocks; b += f->chunk_blocks) {
        uint32_t count = blocks - b < f->chunk_blocks ? blocks - b : f->chunk_blocks;
        const uint8_t *ahead = next == NULL ? NULL : next + (size_t)b * f->block_bytes * TILE_ROWS;
        for (uint32_t v = 0; v < TILE_VECTORS; v++)
            f->unpack(&tile, v, m->w.data + g->base[v] * stride + (size_t)b * f->block_bytes,
                      stride, count);
        for (uint32_t c = 0; c < cols; c += TILE_COLS, ahead = NULL)
            f->micro[cols - c < TILE_COLS ? cols - c : TILE_COLS](
                &tile, count, x + c * x_stride + (size_t)b * f->act_bytes, x_stride, ahead, lines,
                acc + c * TILE_ROWS);
    }
    finish(m, g, col, cols, acc);
}

static void run_tiles(const struct matmul *m, uint32_t row_begin, uint32_t row_end,
                      const struct tile_format *f)
{
    if (m->w.rows < V_ROWS) {
        matmul_run_int_ref(m, row_begin, row_end);
        return;
    }
    for (uint32_t col = 0; col < m->x_count; col += COLS_MAX) {
        uint32_t cols = m->x_count - col < COLS_MAX ? m->x_count - col : COLS_MAX;
        for (uint32_t row = row_begin; row < row_end; row += TILE_ROWS) {
            struct group g = group_at(row, row_end, m->w.rows);
            bool inside = m->w.rows - row >= 2 * TILE_ROWS; /* the group behind this one */
            const uint8_t *next = inside ? m->w.data + (row + TILE_ROWS) * m->w.row_bytes : NULL;
            run_group(m, f, &g, next, col, cols);
        }
    }
}

#define FORMAT(name, elems, bytes, blocks, group, kind)                                            \
    static void run_##name(const struct matmul *m, uint32_t row_begin, uint32_t row_end)           \
    {                                                                                              \
        static const struct tile_format format = { elems,         bytes,         blocks,           \
                                                   sizeof(group), unpack_##name, kind };           \
        run_tiles(m, row_begin, row_end, &format);                                                 \
    }
#define FORMAT_32(name, bytes, kind) FORMAT(name, 32, bytes, TILE_BLOCKS, struct act_q8_32, kind)
#define FORMAT_256(name, bytes, kind) FORMAT(name, 256, bytes, 1, struct act_q8_256, kind)

FORMAT_32(q4_0, 18, q_plain)
FORMAT_32(q4_1, 20, q_min)
FORMAT_32(q5_0, 22, q_plain)
FORMAT_32(q5_1, 24, q_min)
FORMAT_32(q8_0, 34, q_wide)
FORMAT_32(iq4_nl, 18, q_wide)
FORMAT_32(mxfp4, 17, q_wide)
FORMAT_256(q2_k, 84, k16_min)
FORMAT_256(q3_k, 110, k16)
FORMAT_256(q4_k, 144, k32_min)
FORMAT_256(q5_k, 176, k32_min)
FORMAT_256(q6_k, 210, k16)
FORMAT_256(iq4_xs, 136, k32)

static void tile_fill(struct matmul_kernels *k)
{
    k->run[DTYPE_Q4_0] = run_q4_0;
    k->run[DTYPE_Q4_1] = run_q4_1;
    k->run[DTYPE_Q5_0] = run_q5_0;
    k->run[DTYPE_Q5_1] = run_q5_1;
    k->run[DTYPE_Q8_0] = run_q8_0;
    k->run[DTYPE_IQ4_NL] = run_iq4_nl;
    k->run[DTYPE_MXFP4] = run_mxfp4;
    k->run[DTYPE_Q2_K] = run_q2_k;
    k->run[DTYPE_Q3_K] = run_q3_k;
    k->run[DTYPE_Q4_K] = run_q4_k;
    k->run[DTYPE_Q5_K] = run_q5_k;
    k->run[DTYPE_Q6_K] = run_q6_k;
    k->run[DTYPE_IQ4_XS] = run_iq4_xs;
}

#endif
