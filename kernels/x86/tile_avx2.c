/* SPDX-License-Identifier: MIT */
/* tile_avx2 - the driver of all tiled products: row groups, k-chunks, column groups, epilogue.
 *     for 32 columns            their activations stay in L2
 *       for 16 rows             two halves of 8, each with its own first row
 *         for 256 weights       unpacked once, whatever the number of columns
 *           for 4 columns       micro-kernel; the next 16 rows are prefetched meanwhile
 * Some formats have a form for one column that needs no tile (matmul_one_avx2.c): for whole chunks.
 * Refused after measurement: unpacking the next tile inside the micro-kernel. Both are bound by
 * issue slots, nothing overlaps, and two tiles crowd the L1: 20 % slower at 4 columns.
 * A row range that is no multiple of 16 is covered by moving a half back, inside the tensor, so
 * that it reads rows that are computed twice and written once. Only tensors of fewer than 8 rows
 * need the reference. */
#include "kernels/x86/tile_avx2.h"

#include "kernels/f16.h"
#include "kernels/ref/matmul_ref.h"

enum { COLS_MAX = 32 };

struct group {
    uint32_t base[2];          /* first row of each half, as read */
    uint32_t begin[2], end[2]; /* rows of it that are written */
};

static struct group group_at(uint32_t row, uint32_t row_end, uint32_t rows)
{
    struct group g;
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t first = row + h * TILE_HALF;
        g.begin[h] = first < row_end ? first : row_end;
        g.end[h] = row_end - g.begin[h] < TILE_HALF ? row_end : g.begin[h] + TILE_HALF;
        g.base[h] = first < rows - TILE_HALF ? first : rows - TILE_HALF;
    }
    return g;
}

/* Adds residual and bias, makes every NaN the same one: 8 outputs of one column. */
ATTR_INLINE void finish8(const struct matmul *m, float *out, uint32_t row, const float *acc)
{
    __m256 v = _mm256_load_ps(acc);
    if (m->accumulate)
        v = _mm256_add_ps(_mm256_loadu_ps(out), v);
    if (m->bias != NULL)
        v = _mm256_add_ps(v, _mm256_loadu_ps(m->bias + row));
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(NAN_BITS));
    _mm256_storeu_ps(out, _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}

/* The same, the rows [begin, end) of a half whose first is base. */
static void finish_part(const struct matmul *m, float *out, uint32_t base, uint32_t begin,
                        uint32_t end, const float *acc)
{
    for (uint32_t r = begin; r < end; r++) {
        float v = acc[r - base];
        if (m->accumulate)
            v = out[r] + v;
        if (m->bias != NULL)
            v = v + m->bias[r];
        out[r] = v != v ? f32_from_bits(NAN_BITS) : v;
    }
}

static void finish(const struct matmul *m, const struct group *g, uint32_t col, uint32_t cols,
                   const float *acc)
{
    bool whole = g->begin[0] == g->base[0] && g->end[1] == g->base[0] + TILE_ROWS;
    float *out = m->out + (size_t)col * m->out_stride;
    for (uint32_t c = 0; c < cols; c++, acc += TILE_ROWS, out += m->out_stride) {
        if (whole) {
            finish8(m, out + g->base[0], g->base[0], acc);
            finish8(m, out + g->base[1], g->base[1], acc + TILE_HALF);
            continue;
        }
        for (uint32_t h = 0; h < 2; h++)
            finish_part(m, out, g->base[h], g->begin[h], g->end[h], acc + h * TILE_HALF);
    }
}

/* Chains start at 0. The lines that the outputs go to are asked for: columns lie far apart. */
static void start(const struct matmul *m, const struct group *g, uint32_t col, uint32_t cols,
                  float *acc)
{
    const float *out = m->out + (size_t)col * m->out_stride + g->base[0];
    for (uint32_t c = 0; c < cols; c++, acc += TILE_ROWS, out += m->out_stride) {
        _mm256_store_ps(acc, _mm256_setzero_ps());
        _mm256_store_ps(acc + TILE_HALF, _mm256_setzero_ps());
        _mm_prefetch((const char *)out, _MM_HINT_T0);
    }
}

static void run_group(const struct matmul *m, const struct tile_format *f, const struct group *g,
                      const uint8_t *next, uint32_t col, uint32_t cols)
{
    ATTR_CACHE_LINE uint8_t tile[TILE_BYTES_MAX];
    ATTR_CACHE_LINE float acc[COLS_MAX * TILE_ROWS];
    start(m, g, col, cols, acc);
    size_t stride = m->w.row_bytes;
    uint32_t blocks = m->w.cols / f->block_elems;
    const uint8_t *x = act_row(m->x, m->x_begin + col);
    for (uint32_t b = 0; b < blocks; b += f->chunk_blocks) {
        uint32_t count = blocks - b < f->chunk_blocks ? blocks - b : f->chunk_blocks;
        const uint8_t *ahead = next == NULL ? NULL : next + (size_t)b * f->block_bytes * TILE_ROWS;
        const uint8_t *src[2];
        for (uint32_t h = 0; h < 2; h++)
            src[h] = m->w.data + g->base[h] * stride + (size_t)b * f->block_bytes;
        if (cols == 1 && f->direct != NULL && count == f->chunk_blocks) {
            f->direct(src, stride, x + (size_t)b * f->act_bytes, ahead, acc);
            continue;
        }
        for (uint32_t h = 0; h < 2; h++)
            f->unpack(tile, h, src[h], stride, count);
        for (uint32_t c = 0; c < cols; c += TILE_COLS, ahead = NULL)
            f->micro[cols - c < TILE_COLS ? cols - c : TILE_COLS](
                tile, count, x + (size_t)c * m->x->row_bytes + (size_t)b * f->act_bytes,
                m->x->row_bytes, ahead, acc + c * TILE_ROWS);
    }
    finish(m, g, col, cols, acc);
}

void tile_run_avx2(const struct matmul *m, uint32_t row_begin, uint32_t row_end,
                   const struct tile_format *f)
{
    if (m->w.rows < TILE_HALF) {
        matmul_run_int_ref(m, row_begin, row_end);
        return;
    }
    for (uint32_t col = 0; col < m->x_count; col += COLS_MAX) {
        uint32_t cols = m->x_count - col < COLS_MAX ? m->x_count - col : COLS_MAX;
        for (uint32_t row = row_begin; row < row_end; row += TILE_ROWS) {
            struct group g = group_at(row, row_end, m->w.rows);
            const uint8_t *next = m->w.data + (row + TILE_ROWS) * m->w.row_bytes;
            bool inside = m->w.rows - row >= 2 * TILE_ROWS; /* the group behind this one */
            run_group(m, f, &g, inside ? next : NULL, col, cols);
        }
    }
}
