/* SPDX-License-Identifier: MIT */
/* matmul - out[x][row] = sum over k of weight[row][k] * x[k], weights in GGUF format, and the
 * quantized activations it takes.
 *   numerics  one fixed function of (weight row, activation row): k-blocks ascending, exact int32
 *             inside a block, one fma chain per output (kernels/README.md). Never depends on the
 *             number of columns, neighbours, threads or instruction set
 *   thread    any; workers split weight rows, never k
 *   owner     the caller keeps every buffer */
#ifndef QUIRE_KERNELS_MATMUL_H
#define QUIRE_KERNELS_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/model.h"

/* How activations are kept for a matmul. */
enum act_kind {
    ACT_F32,    /* as they are: float weights, and every format under --act f32 */
    ACT_Q8_32,  /* int8 with one f32 scale per 32: formats with 32-element blocks */
    ACT_Q8_256, /* int8 with one f32 scale per 256: formats with 256-element blocks */
    ACT_KINDS
};

/* Rows of activations, each quantized from that row alone. Built in caller memory by act_open. */
struct act {
    enum act_kind kind;
    uint32_t rows; /* capacity */
    uint32_t cols;
    uint32_t row_bytes; /* one row, 64-byte aligned; layout in kernels/act.c */
    uint8_t *data;      /* [rows][row_bytes] */
};

#define MATMUL_GRAIN 16u /* unit of splitting weight rows: every tile divides it */

struct matmul {
    struct weight w;
    const struct act *x;
    uint32_t x_begin, x_count; /* rows of x that take part */
    float *out;                /* [x_count][out_stride] f32; only [row_begin, row_end) is written */
    size_t out_stride;         /* floats between two outputs of one weight row */
    const float *bias;         /* [rows] or NULL: added last */
    bool accumulate;           /* out = out + result (a residual) instead of out = result */
    uint64_t *decoded;         /* NULL, or counts weights decoded by AVX2's tiles, for tests */
};

struct matmul_kernels {
    /* [kind] one activation row: cols floats into dst (act.row_bytes). */
    void (*quantize[ACT_KINDS])(uint8_t *dst, const float *x, uint32_t cols);
    /* [type] weight rows [row_begin, row_end); NULL never: the reference serves every format. */
    void (*run[DTYPE_COUNT])(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
    /* the same with ACT_F32 activations whatever the format: dequantize, then f32 */
    void (*run_f32)(const struct matmul *m, uint32_t row_begin, uint32_t row_end);
};

/* act_kind_for - the kind that the kernels of this weight format take. */
enum act_kind act_kind_for(enum dtype weight_type);

/* act_row_bytes - bytes of one row. act_open - describes rows x cols over mem (64-byte aligned). */
size_t act_row_bytes(enum act_kind kind, uint32_t cols);
void act_open(struct act *a, enum act_kind kind, uint32_t rows, uint32_t cols, void *mem);

/* matmul_run - runs the entry that fits m->x->kind and the weight's format. */
void matmul_run(const struct matmul_kernels *k, const struct matmul *m, uint32_t row_begin,
                uint32_t row_end);

#endif
