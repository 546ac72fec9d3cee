/* SPDX-License-Identifier: MIT */
/* tile_avx2 - the driver of all tiled products: row groups, k-chunks, column groups, epilogue.
 *
 *   few columns (narrow: weights are read as fast as memory gives them)
 *       for 8 rows              rows i, i + step, i + 2 step, ..: each lane walks a stretch of its
 *                               own, row after row, so that the processor sees 8 long streams
 *         for 256 weights       unpacked once, whatever the number of columns
 *           for 1 or 2 columns  micro-kernel; or, for up to 6 or 8, a form without a tile
 *   many columns (wide: arithmetic is what counts)
 *     for 128 columns           their activations stay in L2 or L3
 *       for 16 rows             neighbours, in two halves that share every broadcast
 *         for 256 weights
 *           for 4 columns       micro-kernel; the next 16 rows are prefetched meanwhile
 *
 * Measured on Zen 3, both cores reading a mapped file: one sequential stream a core 19 GB/s; 16
 * neighbouring rows at once 8, with prefetch instructions 18 (they wait in the few miss buffers of
 * the L1); 8 long streams 25 (the prefetcher of the L2 has more in flight); 16 long streams 16.
 * Refused after measurement: unpacking the next tile inside the micro-kernel. Both are bound by
 * issue slots, nothing overlaps, and two tiles crowd the L1: 20 % slower at 4 columns.
 *
 * Rows that fill no group of 8 are covered by moving the group back, inside the tensor, so that it
 * reads rows that are computed twice and written once. Only tensors of fewer than 8 rows need the
 * reference. */
#include "kernels/x86/tile_avx2.h"

#include "kernels/ref/matmul_ref.h"

enum { COLS_MAX = 128 };

/* Rows base, base + step, .. of 8 lanes; lanes [begin, end) are written. */
struct lanes {
    uint32_t base, step, begin, end;
};

/* The neighbours [first, first + 8), those before row_end. */
static struct lanes lanes_at(uint32_t first, uint32_t row_end, uint32_t rows)
{
    struct lanes l = { .base = first < rows - TILE_HALF ? first : rows - TILE_HALF, .step = 1 };
    uint32_t begin = first < row_end ? first : row_end;
    uint32_t end = row_end - begin < TILE_HALF ? row_end : begin + TILE_HALF;
    l.begin = begin - l.base;
    l.end = end - l.base;
    return l;
}

/* Adds residual and bias, makes every NaN the same one: 8 neighbouring outputs of one column. */
ATTR_INLINE void finish8(const struct matmul *m, float *out, uint32_t row, const float *acc)
{
    __m256 v = _mm256_load_ps(acc);
    if (m->accumulate)
        v = _mm256_add_ps(_mm256_loadu_ps(out + row), v);
    if (m->bias != NULL)
        v = _mm256_add_ps(v, _mm256_loadu_ps(m->bias + row));
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(NAN_BITS));
    _mm256_storeu_ps(out + row, _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}

static void finish(const struct matmul *m, struct lanes l, uint32_t col, uint32_t cols,
                   const float *acc)
{
    bool whole = l.step == 1 && l.begin == 0 && l.end == TILE_HALF;
    float *out = m->out + (size_t)col * m->out_stride;
    for (uint32_t c = 0; c < cols; c++, acc += TILE_ROWS, out += m->out_stride) {
        if (whole)
            finish8(m, out, l.base, acc);
        for (uint32_t r = l.begin; r < l.end && !whole; r++)
            matmul_finish(m, l.base + r * l.step, col + c, acc[r]);
    }
}

static void zero(float *acc, uint32_t cols)
{
    for (uint32_t i = 0; i < cols * TILE_ROWS; i += TILE_HALF)
        _mm256_store_ps(acc + i, _mm256_setzero_ps());
}

static void count_decoded(const struct matmul *m, uint32_t rows)
{
    if (m->decoded != NULL)
        *m->decoded += (uint64_t)rows * m->w.cols;
}

static void run_narrow(const struct matmul *m, const struct tile_format *f, struct lanes l,
                       uint32_t col, uint32_t cols)
{
    ATTR_CACHE_LINE uint8_t tile[TILE_BYTES_MAX];
    ATTR_CACHE_LINE float acc[DIRECT_COLS * TILE_ROWS];
    size_t stride = l.step * m->w.row_bytes, x_stride = m->x->row_bytes;
    uint32_t blocks = m->w.cols / f->block_elems;
    const uint8_t *x = act_row(m->x, m->x_begin + col), *src = m->w.data + l.base * m->w.row_bytes;
    zero(acc, cols);
    count_decoded(m, TILE_HALF);
    if (f->direct != NULL)
        f->direct[cols](src, stride, blocks, x, x_stride, acc);
    for (uint32_t b = 0; b < blocks && f->direct == NULL; b += f->chunk_blocks) {
        uint32_t count = blocks - b < f->chunk_blocks ? blocks - b : f->chunk_blocks;
        prefetch_streams(src, stride, 0, (size_t)count * f->block_bytes);
        f->unpack(tile, 0, src, stride, count);
        f->narrow[cols](tile, count, x, x_stride, NULL, acc);
        src += (size_t)count * f->block_bytes;
        x += (size_t)count * f->act_bytes;
    }
    finish(m, l, col, cols, acc);
}

/* Chains start at 0. The lines that the outputs go to are asked for: columns lie far apart. */
static void start_wide(const struct matmul *m, uint32_t row, uint32_t col, uint32_t cols,
                       float *acc)
{
    const float *out = m->out + (size_t)col * m->out_stride + row;
    zero(acc, cols);
    for (uint32_t c = 0; c < cols; c++, out += m->out_stride)
        _mm_prefetch((const char *)out, _MM_HINT_T0);
}

static void run_wide(const struct matmul *m, const struct tile_format *f, const struct lanes l[2],
                     const uint8_t *next, uint32_t col, uint32_t cols)
{
    ATTR_CACHE_LINE uint8_t tile[TILE_BYTES_MAX];
    ATTR_CACHE_LINE float acc[COLS_MAX * TILE_ROWS];
    start_wide(m, l[0].base, col, cols, acc);
    count_decoded(m, TILE_ROWS);
    size_t stride = m->w.row_bytes;
    uint32_t blocks = m->w.cols / f->block_elems;
    const uint8_t *x = act_row(m->x, m->x_begin + col);
    for (uint32_t b = 0; b < blocks; b += f->chunk_blocks) {
        uint32_t count = blocks - b < f->chunk_blocks ? blocks - b : f->chunk_blocks;
        const uint8_t *ahead = next == NULL ? NULL : next + (size_t)b * f->block_bytes * TILE_ROWS;
        for (uint32_t h = 0; h < 2; h++)
            f->unpack(tile, h, m->w.data + l[h].base * stride + (size_t)b * f->block_bytes, stride,
                      count);
        for (uint32_t c = 0; c < cols; c += TILE_COLS, ahead = NULL)
            f->micro[cols - c < TILE_COLS ? cols - c : TILE_COLS](
                tile, count, x + (size_t)c * m->x->row_bytes + (size_t)b * f->act_bytes,
                m->x->row_bytes, ahead, acc + c * TILE_ROWS);
    }
    for (uint32_t h = 0; h < 2; h++)
        finish(m, l[h], col, cols, acc + h * TILE_HALF);
}

void tile_run_avx2(const struct matmul *m, uint32_t row_begin, uint32_t row_end,
                   const struct tile_format *f)
{
    uint32_t rows = m->w.rows;
    if (rows < TILE_HALF) {
        matmul_run_int_ref(m, row_begin, row_end);
        return;
    }
    for (uint32_t col = 0, cols; col < m->x_count; col += cols) {
        cols = m->x_count - col < COLS_MAX ? m->x_count - col : COLS_MAX;
        const struct tile_format *wide = f->many != NULL && cols > MANY_COLS ? f->many : f;
        uint32_t row = row_begin;
        if (cols <= f->narrow_cols) {
            uint32_t step = (row_end - row_begin) / TILE_HALF;
            for (uint32_t i = 0; i < step; i++)
                run_narrow(m, f, (struct lanes){ row_begin + i, step, 0, TILE_HALF }, col, cols);
            for (row += step * TILE_HALF; row < row_end; row += TILE_HALF)
                run_narrow(m, f, lanes_at(row, row_end, rows), col, cols);
        }
        for (; row < row_end; row += TILE_ROWS) {
            struct lanes l[2] = { lanes_at(row, row_end, rows),
                                  lanes_at(row + TILE_HALF, row_end, rows) };
            bool inside = rows - row >= 2 * TILE_ROWS; /* the group behind this one */
            const uint8_t *next = inside ? m->w.data + (row + TILE_ROWS) * m->w.row_bytes : NULL;
            run_wide(m, wide, l, next, col, cols);
        }
    }
}
