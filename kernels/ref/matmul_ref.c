/* SPDX-License-Identifier: MIT */
/* matmul_ref - the specification of every weight product, in plain loops. Everything faster must
 * equal it by memcmp. Per output, from acc = +0, blocks ascending; I and M are exact int32, their
 * conversion rounds to nearest even:
 *     32 weights    acc = fma(d * a, I, acc)                      I = sum code * q
 *     with m        acc = fma(a, fma(d, I, m * S), acc)           S = sum q
 *     256 weights   acc = fma(d * a, I, acc)                      I = sum scale * code * q
 *     with min      acc = fma(a, fma(d, I, -(dmin * M)), acc)     M = sum min * q
 *     floats, f32   s[k mod 8] = fma(w, x, s[k mod 8]), k ascending, cols padded with zeros to a
 *     multiple of 8;
 *                   ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
 * "f32" is any format dequantized (kernels/dequant.c) against unquantized activations: the
 * yardstick. d * a, m * S and dmin * M are rounded products, a the scale and q the quants of the
 * activation group. Then the epilogue: out + acc if it accumulates, + bias if there is one, any
 * NaN as the one of NAN_BITS. A block is decoded once for up to COLS columns: the only thing here
 * that is not the definition itself. */
#include "kernels/ref/matmul_ref.h"

#include <math.h>
#include <string.h>

#include "kernels/act.h"
#include "kernels/dequant.h"

enum { COLS = 32, CHUNK = 256 };

static float add_block32(const struct ref_block32 *w, const struct act_q8_32 *x, int has_min,
                         float acc)
{
    int32_t dot = 0; /* at most 32 * 128 * 127 */
    for (int k = 0; k < 32; k++)
        dot += w->code[k] * x->q[k];
    if (!has_min)
        return fmaf(w->d * x->d, (float)dot, acc);
    float min = w->m * x->sum;
    return fmaf(x->d, fmaf(w->d, (float)dot, min), acc);
}

static float add_block256(const struct ref_block256 *w, const struct act_q8_256 *x, int has_min,
                          float acc)
{
    int32_t dot = 0, min = 0; /* at most 16 * 128 * 16 * 128 * 127 < 2^30 */
    for (int j = 0; j < 16; j++) {
        int32_t part = 0;
        for (int k = 0; k < 16; k++)
            part += w->code[16 * j + k] * x->q[16 * j + k];
        dot += w->scale[j] * part;
        if (has_min)
            min += w->min[j] * x->sum16[j];
    }
    if (!has_min)
        return fmaf(w->d * x->d, (float)dot, acc);
    float term = w->dmin * (float)min;
    return fmaf(x->d, fmaf(w->d, (float)dot, -term), acc);
}

/* One weight row times columns [col, col + count). */
static void row_int(const struct matmul *m, struct ref_format f, uint32_t row, uint32_t col,
                    uint32_t count)
{
    const struct dtype_info *info = dtype_find(m->w.type);
    const uint8_t *src = m->w.data + (size_t)row * m->w.row_bytes;
    float acc[COLS] = { 0 };
    for (uint32_t b = 0; b < m->w.cols / info->block_elems; b++, src += info->block_bytes) {
        struct ref_block32 block32;
        struct ref_block256 block256;
        if (f.decode32 != NULL)
            f.decode32(&block32, src);
        else
            f.decode256(&block256, src);
        for (uint32_t c = 0; c < count; c++) {
            const void *x = act_row(m->x, m->x_begin + col + c);
            if (f.decode32 != NULL)
                acc[c] = add_block32(&block32, (const struct act_q8_32 *)x + b, f.has_min, acc[c]);
            else
                acc[c] =
                    add_block256(&block256, (const struct act_q8_256 *)x + b, f.has_min, acc[c]);
        }
    }
    for (uint32_t c = 0; c < count; c++)
        matmul_finish(m, row, col + c, acc[c]);
}

void matmul_run_int_ref(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    struct ref_format f = ref_format_of(m->w.type);
    for (uint32_t row = row_begin; row < row_end; row++)
        for (uint32_t col = 0; col < m->x_count; col += COLS)
            row_int(m, f, row, col, m->x_count - col < COLS ? m->x_count - col : COLS);
}

static void row_float(const struct matmul *m, uint32_t row, uint32_t col, uint32_t count)
{
    const struct dtype_info *info = dtype_find(m->w.type);
    const uint8_t *src = m->w.data + (size_t)row * m->w.row_bytes;
    float sum[COLS][8] = { 0 }, w[CHUNK];
    for (uint32_t at = 0; at < m->w.cols; at += CHUNK) {
        uint32_t n = m->w.cols - at < CHUNK ? m->w.cols - at : CHUNK;
        dequant_row(m->w.type, src + (size_t)at / info->block_elems * info->block_bytes, w, n);
        for (uint32_t k = n; k % 8 != 0; k++)
            w[k] = 0;
        for (uint32_t c = 0; c < count; c++) {
            const float *x = (const float *)(const void *)act_row(m->x, m->x_begin + col + c) + at;
            for (uint32_t k = 0; k < (n + 7) / 8 * 8; k++)
                sum[c][k % 8] = fmaf(w[k], x[k], sum[c][k % 8]);
        }
    }
    for (uint32_t c = 0; c < count; c++) {
        const float *s = sum[c];
        float even = (s[0] + s[4]) + (s[2] + s[6]), odd = (s[1] + s[5]) + (s[3] + s[7]);
        matmul_finish(m, row, col + c, even + odd);
    }
}

static void run_float(const struct matmul *m, uint32_t row_begin, uint32_t row_end)
{
    for (uint32_t row = row_begin; row < row_end; row++)
        for (uint32_t col = 0; col < m->x_count; col += COLS)
            row_float(m, row, col, m->x_count - col < COLS ? m->x_count - col : COLS);
}

void matmul_fill_ref(struct matmul_kernels *k)
{
    act_fill_ref(k);
    k->run_f32 = run_float;
    for (uint32_t type = 0; type < DTYPE_COUNT; type++) {
        if (dtype_find(type) == NULL)
            continue; /* no such number */
        struct ref_format f = ref_format_of((enum dtype)type);
        k->run[type] = f.decode32 != NULL || f.decode256 != NULL ? matmul_run_int_ref : run_float;
    }
}
