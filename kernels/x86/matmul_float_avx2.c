/* SPDX-License-Identifier: MIT */
/* matmul_float_avx2 - F32, F16 and BF16 weights, and every format dequantized (--act f32).
 * An output is one vector of 8 partial sums, k mod 8, one fma chain each: the canonical order
 * itself. Latency is hidden by having many outputs in flight: 4 rows times 3 columns, or 8 rows of
 * one column. A row's last, partial vector goes through a padded copy: nothing is read behind a
 * row. */
#include "kernels/x86/exp_avx2.h"
#include "kernels/x86/tile_avx2.h"

#include "kernels/dequant.h"

enum { COLS = 3, CHUNK = 1024, F32_COLS = 8, F32_ROWS = 4, F32_WIDTH = 4096 };

ATTR_INLINE __m256 load_weights(const uint8_t *p, const enum dtype type)
{
    if (type == DTYPE_F16)
        return _mm256_cvtph_ps(load128(p));
    if (type == DTYPE_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
    return _mm256_castsi256_ps(load256(p));
}

ATTR_INLINE const float *column(const struct matmul *m, uint32_t col)
{
    return (const float *)(const void *)act_row(m->x, m->x_begin + col);
}

/* One vector of weights of each row times one of each column. */
ATTR_INLINE void step(__m256 sum[8][COLS], const uint8_t *w, size_t stride, const float *x,
                      size_t x_stride, const int rows, const int cols, const enum dtype type)
{
    __m256 v[COLS];
    ATTR_UNROLL
    for (int c = 0; c < cols; c++)
        v[c] = _mm256_loadu_ps(x + (size_t)c * x_stride);
    ATTR_UNROLL
    for (int r = 0; r < rows; r++) {
        __m256 weights = load_weights(w + (size_t)r * stride, type);
        ATTR_UNROLL
        for (int c = 0; c < cols; c++)
            sum[r][c] = _mm256_fmadd_ps(weights, v[c], sum[r][c]);
    }
}

/* rows times cols outputs; ahead: the rows behind these are prefetched meanwhile. */
ATTR_INLINE void block(const struct matmul *m, uint32_t row, uint32_t col, const int rows,
                       const int cols, const enum dtype type)
{
    const bool ahead = col == 0 && row + 2 * (uint32_t)rows <= m->w.rows;
    const size_t size = type == DTYPE_F32 ? 4 : 2, stride = m->w.row_bytes;
    const uint32_t line = type == DTYPE_F32 ? 16 : 32; /* weights of a cache line */
    const uint8_t *w = m->w.data + row * stride;
    const float *x = column(m, col);
    size_t x_stride = m->x->row_bytes / sizeof *x;
    __m256 sum[8][COLS];
    ATTR_UNROLL
    for (int r = 0; r < rows; r++) {
        ATTR_UNROLL
        for (int c = 0; c < cols; c++)
            sum[r][c] = _mm256_setzero_ps();
    }
    uint32_t k = 0;
    for (; k + line <= m->w.cols; k += line) {
        const int lines = ahead ? rows : 0;
        for (int r = 0; r < lines; r++)
            _mm_prefetch((const char *)w + (size_t)(rows + r) * stride + k * size, _MM_HINT_T1);
        ATTR_UNROLL
        for (uint32_t i = 0; i < line; i += 8)
            step(sum, w + (k + i) * size, stride, x + k + i, x_stride, rows, cols, type);
    }
    for (; k + 8 <= m->w.cols; k += 8)
        step(sum, w + k * size, stride, x + k, x_stride, rows, cols, type);
    if (k < m->w.cols) {
        uint8_t tail[8][32] = { 0 };
        for (int r = 0; r < rows; r++)
            memcpy(tail[r], w + (size_t)r * stride + k * size, (m->w.cols - k) * size);
        step(sum, tail[0], sizeof tail[0], x + k, x_stride, rows, cols, type);
    }
    ATTR_UNROLL
    for (int r = 0; r < rows; r++) {
        ATTR_UNROLL
        for (int c = 0; c < cols; c++)
            matmul_finish(m, row + (uint32_t)r, col + (uint32_t)c, sum_avx2(sum[r][c]));
    }
}

/* All columns of some rows: the rows stay in L1. */
ATTR_INLINE void some_rows(const struct matmul *m, uint32_t row, const int rows,
                           const enum dtype type)
{
    uint32_t col = 0;
    for (; m->x_count - col >= 3; col += 3)
        block(m, row, col, rows, 3, type);
    if (m->x_count - col == 2)
        block(m, row, col, rows, 2, type);
    if (m->x_count - col == 1)
        block(m, row, col, rows, 1, type);
}

ATTR_INLINE void run(const struct matmul *m, uint32_t row, uint32_t row_end, const enum dtype type)
{
    for (; m->x_count == 1 && row_end - row >= 8; row += 8)
        block(m, row, 0, 8, 1, type);
    for (; row_end - row >= 4; row += 4)
        some_rows(m, row, 4, type);
    for (; row < row_end; row++)
        some_rows(m, row, 1, type);
}

static void run_float32(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    run(m, row_begin, row_end, DTYPE_F32);
}

static void run_float16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    run(m, row_begin, row_end, DTYPE_F16);
}

static void run_bfloat16(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    run(m, row_begin, row_end, DTYPE_BF16);
}

/* One row of any format times up to F32_COLS columns, dequantized piece by piece. */
static void row_dequantized(const struct matmul *m, uint32_t row, uint32_t col, uint32_t cols)
{
    const struct dtype_info *info = dtype_find(m->w.type);
    const uint8_t *src = m->w.data + row * m->w.row_bytes;
    float w[CHUNK];
    __m256 sum[F32_COLS];
    for (uint32_t c = 0; c < cols; c++)
        sum[c] = _mm256_setzero_ps();
    for (uint32_t at = 0; at < m->w.cols; at += CHUNK) {
        uint32_t n = m->w.cols - at < CHUNK ? m->w.cols - at : CHUNK;
        dequant_row(m->w.type, src + (size_t)at / info->block_elems * info->block_bytes, w, n);
        for (uint32_t k = n; k % 8 != 0; k++)
            w[k] = 0;
        for (uint32_t c = 0; c < cols; c++) {
            const float *x = column(m, col + c) + at;
            for (uint32_t k = 0; k < n; k += 8)
                sum[c] = _mm256_fmadd_ps(_mm256_loadu_ps(w + k), _mm256_loadu_ps(x + k), sum[c]);
        }
    }
    for (uint32_t c = 0; c < cols; c++)
        matmul_finish(m, row, col + c, sum_avx2(sum[c]));
}

/* Rows that fit a tile are dequantized once for all columns, and are float weights from then on. */
static void run_dequantized(const struct matmul *m, uint32_t row, uint32_t row_end)
{
    const uint32_t cols = m->w.cols;
    for (; cols <= F32_WIDTH && row_end - row >= F32_ROWS; row += F32_ROWS) {
        float tile[F32_ROWS * F32_WIDTH];
        for (uint32_t r = 0; r < F32_ROWS; r++)
            dequant_row(m->w.type, m->w.data + (row + r) * m->w.row_bytes, tile + (size_t)r * cols,
                        cols);
        struct matmul part = *m;
        part.w = (struct weight){ (const uint8_t *)tile, DTYPE_F32, F32_ROWS, cols,
                                  cols * sizeof *tile };
        part.out = m->out + row;
        part.bias = m->bias != NULL ? m->bias + row : NULL;
        some_rows(&part, 0, F32_ROWS, DTYPE_F32);
    }
    for (; row < row_end; row++)
        for (uint32_t col = 0; col < m->x_count; col += F32_COLS)
            row_dequantized(m, row, col, m->x_count - col < F32_COLS ? m->x_count - col : F32_COLS);
}

void matmul_fill_float_avx2(struct matmul_kernels *k)
{
    for (uint32_t type = 0; type < DTYPE_COUNT; type++)
        if (dtype_find(type) != NULL && act_kind_for((enum dtype)type) == ACT_F32)
            k->run[type] = run_dequantized;
    k->run[DTYPE_F32] = run_float32;
    k->run[DTYPE_F16] = run_float16;
    k->run[DTYPE_BF16] = run_bfloat16;
    k->run_f32 = run_dequantized;
}
