/* SPDX-License-Identifier: MIT */
/* matmul_float_neon - F32, F16 and BF16 weights, and every format dequantized (--act f32).
 * The eight partial sums of an output, k mod 8, are two vectors of four. 4 rows times 2 columns are
 * in flight: sixteen chains. A row's last, partial vector goes through a padded copy: nothing is
 * read behind a row. */
#include <arm_neon.h>

#include <string.h>

#include "core/attr.h"
#include "kernels/act.h"
#include "kernels/arm/fill_neon.h"
#include "kernels/dequant.h"

enum { ROWS = 4, COLS = 2, F32_WIDTH = 4096 };

/* Eight lanes: k mod 8. */
struct eight {
    float32x4_t low, high;
};

ATTR_INLINE struct eight load_weights(const uint8_t *p, const enum dtype type)
{
    if (type == DTYPE_F32)
        return (struct eight){ vreinterpretq_f32_u8(vld1q_u8(p)),
                               vreinterpretq_f32_u8(vld1q_u8(p + 16)) };
    uint16x8_t w = vreinterpretq_u16_u8(vld1q_u8(p));
    if (type == DTYPE_F16)
        return (struct eight){ vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(w))),
                               vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(w))) };
    return (struct eight){ vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(w), 16)),
                           vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(w), 16)) };
}

/* ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)) */
ATTR_INLINE float sum_lanes(struct eight s)
{
    float32x4_t four = vaddq_f32(s.low, s.high);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

ATTR_INLINE const float *column(const struct matmul *m, uint32_t col)
{
    return (const float *)(const void *)act_row(m->x, m->x_begin + col);
}

/* Eight weights of each row times eight of each column. */
ATTR_INLINE void step(struct eight sum[ROWS][COLS], const uint8_t *w, size_t stride, const float *x,
                      size_t x_stride, const int rows, const int cols, const enum dtype type)
{
    ATTR_UNROLL
    for (int r = 0; r < rows; r++) {
        struct eight v = load_weights(w + (size_t)r * stride, type);
        ATTR_UNROLL
        for (int c = 0; c < cols; c++) {
            const float *y = x + (size_t)c * x_stride;
            sum[r][c].low = vfmaq_f32(sum[r][c].low, v.low, vld1q_f32(y));
            sum[r][c].high = vfmaq_f32(sum[r][c].high, v.high, vld1q_f32(y + 4));
        }
    }
}

ATTR_INLINE void block(const struct matmul *m, uint32_t row, uint32_t col, const int rows,
                       const int cols, const enum dtype type)
{
    const size_t size = type == DTYPE_F32 ? 4 : 2, stride = m->w.row_bytes;
    const uint8_t *w = m->w.data + row * stride;
    const float *x = column(m, col);
    const size_t x_stride = m->x->row_bytes / sizeof *x;
    struct eight sum[ROWS][COLS];
    ATTR_UNROLL
    for (int r = 0; r < rows; r++) {
        ATTR_UNROLL
        for (int c = 0; c < cols; c++)
            sum[r][c] = (struct eight){ vdupq_n_f32(0), vdupq_n_f32(0) };
    }
    uint32_t k = 0;
    for (; k + 8 <= m->w.cols; k += 8)
        step(sum, w + k * size, stride, x + k, x_stride, rows, cols, type);
    if (k < m->w.cols) {
        uint8_t tail[ROWS][32] = { 0 };
        for (int r = 0; r < rows; r++)
            memcpy(tail[r], w + (size_t)r * stride + k * size, (m->w.cols - k) * size);
        step(sum, tail[0], sizeof tail[0], x + k, x_stride, rows, cols, type);
    }
    ATTR_UNROLL
    for (int r = 0; r < rows; r++) {
        ATTR_UNROLL
        for (int c = 0; c < cols; c++)
            matmul_finish(m, row + (uint32_t)r, col + (uint32_t)c, sum_lanes(sum[r][c]));
    }
}

/* All columns of some rows: the rows stay in the cache. */
ATTR_INLINE void some_rows(const struct matmul *m, uint32_t row, const int rows,
                           const enum dtype type)
{
    uint32_t col = 0;
    for (; m->x_count - col >= 2; col += 2)
        block(m, row, col, rows, 2, type);
    if (m->x_count - col == 1)
        block(m, row, col, rows, 1, type);
}

ATTR_INLINE void run(const struct matmul *m, uint32_t row, uint32_t row_end, const enum dtype type)
{
    for (; row_end - row >= ROWS; row += ROWS)
        some_rows(m, row, ROWS, type);
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

/* One long row, dequantized in pieces of a multiple of 8, for each column again: rare. */
static void row_in_pieces(const struct matmul *m, uint32_t row)
{
    const struct dtype_info *info = dtype_find(m->w.type);
    const uint8_t *src = m->w.data + row * m->w.row_bytes;
    float w[F32_WIDTH];
    for (uint32_t col = 0; col < m->x_count; col++) {
        struct eight sum[ROWS][COLS] = { { { vdupq_n_f32(0), vdupq_n_f32(0) } } };
        for (uint32_t at = 0; at < m->w.cols; at += F32_WIDTH) {
            uint32_t n = m->w.cols - at < F32_WIDTH ? m->w.cols - at : F32_WIDTH;
            dequant_row(m->w.type, src + (size_t)at / info->block_elems * info->block_bytes, w, n);
            for (uint32_t k = n; k % 8 != 0; k++)
                w[k] = 0;
            for (uint32_t k = 0; k < n; k += 8)
                step(sum, (const uint8_t *)(w + k), 0, column(m, col) + at + k, 0, 1, 1, DTYPE_F32);
        }
        matmul_finish(m, row, col, sum_lanes(sum[0][0]));
    }
}

/* Rows that fit are dequantized once for all columns, and are float weights from then on. */
static void run_dequantized(const struct matmul *m, uint32_t row, uint32_t row_end)
{
    const uint32_t cols = m->w.cols;
    for (; row < row_end; row++) {
        if (cols > F32_WIDTH) {
            row_in_pieces(m, row);
            continue;
        }
        float w[F32_WIDTH];
        dequant_row(m->w.type, m->w.data + row * m->w.row_bytes, w, cols);
        struct matmul part = *m;
        part.w = (struct weight){ (const uint8_t *)w, DTYPE_F32, 1, cols, cols * sizeof *w };
        part.out = m->out + row;
        part.bias = m->bias != NULL ? m->bias + row : NULL;
        some_rows(&part, 0, 1, DTYPE_F32);
    }
}

void matmul_fill_float_neon(struct matmul_kernels *k)
{
    for (uint32_t type = 0; type < DTYPE_COUNT; type++)
        if (dtype_find(type) != NULL && act_kind_for((enum dtype)type) == ACT_F32)
            k->run[type] = run_dequantized;
    k->run[DTYPE_F32] = run_float32;
    k->run[DTYPE_F16] = run_float16;
    k->run[DTYPE_BF16] = run_bfloat16;
    k->run_f32 = run_dequantized;
}
