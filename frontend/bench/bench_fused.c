/* SPDX-License-Identifier: MIT */
/* bench_fused - `quire bench fused`: the classic exercise. The same product of a quantized weight
 * matrix with activations, once by the kernels of the engine, which unpack a few rows at a time
 * into L1 (fused), and once with the whole matrix first dequantized into a buffer of floats
 * (unfused): time, and bytes that must come from or go to memory.
 *   clock     whole products, one thread, rounds in turn; medians. Weights and buffer are larger
 *             than any cache
 *   dequant   by the scalar definition of the formats, and a faster one is thinkable: the product
 *             over floats alone is printed too, which is what a dequantizer for nothing would leave
 *   bytes     fused: weights. unfused: weights, floats written and floats read again. Activations
 *             and outputs, the same for both and small, are left out */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "frontend/bench/bench.h"
#include "frontend/bench/quantiles.h"
#include "frontend/interrupt.h"
#include "frontend/options.h"
#include "kernels/dequant.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"

enum { COLUMNS_MAX = 32 };

struct fused_options {
    struct option_u32s columns;
    const char *format;
    uint32_t rows, width, rounds, isa;
    bool jsonl;
};

static const char *const isas[] = { "best", "scalar", NULL };

#define AT(member) offsetof(struct fused_options, member)
static const struct option rows[] = {
    { "--format", OPTION_TEXT, AT(format), 0, 0, "TYPE", NULL,
      "one weight format; default: every one with a quantizer" },
    { "--columns", OPTION_U32S, AT(columns), 1, COLUMNS_MAX, "N,..", NULL,
      "activation rows multiplied at once" },
    { "--rows", OPTION_U32, AT(rows), 16, 1u << 20, "N", NULL, "weight rows" },
    { "--width", OPTION_U32, AT(width), 256, 1u << 16, "N", NULL, "weights of a row" },
    { "-r --repetitions", OPTION_U32, AT(rounds), 1, 1000, "N", NULL,
      "rounds; medians are printed" },
    { "--isa", OPTION_CHOICE, AT(isa), 0, 0, "LEVEL", isas, "kernels to use" },
    { "--jsonl", OPTION_FLAG, AT(jsonl), 0, 0, NULL, NULL, "one JSON object a row" },
};

struct fused {
    const struct fused_options *o;
    struct kernels kernels;
    struct clock clock;
    uint8_t *weights;
    float *floats; /* [rows][width] the buffer */
    float *x;      /* [COLUMNS_MAX][width] */
    float *out;    /* [COLUMNS_MAX][rows] */
    uint8_t *act[2];
};

static void run_product(struct fused *f, enum dtype type, const uint8_t *data, const struct act *x,
                        uint32_t columns)
{
    size_t row_bytes = 0;
    if (!dtype_row_bytes(&row_bytes, type, f->o->width))
        return;
    struct matmul m = { .w = { data, type, f->o->rows, f->o->width, row_bytes },
                        .x = x,
                        .x_count = columns,
                        .out = f->out,
                        .out_stride = f->o->rows };
    matmul_run(&f->kernels.matmul, &m, 0, f->o->rows);
}

static void open_act(struct fused *f, enum dtype type, struct act *a, uint8_t *mem)
{
    enum act_kind kind = act_kind_for(type);
    act_open(a, kind, COLUMNS_MAX, f->o->width, mem);
    for (uint32_t c = 0; c < COLUMNS_MAX; c++)
        f->kernels.matmul.quantize[kind](a->data + (size_t)c * a->row_bytes,
                                         f->x + (size_t)c * f->o->width, f->o->width);
}

struct result {
    struct quantiles fused_ms, dequant_ms, product_ms;
};

static double elapsed_ms(const struct fused *f, uint64_t since_us)
{
    return (double)(clock_now_us(&f->clock) - since_us) / 1e3;
}

static enum rc run_round(struct fused *f, enum dtype type, const struct act *act,
                         const struct act *floats, uint32_t columns, struct result *r)
{
    size_t row_bytes = 0;
    if (!dtype_row_bytes(&row_bytes, type, f->o->width))
        return RC_INVALID;
    uint64_t begun = clock_now_us(&f->clock);
    run_product(f, type, f->weights, act, columns);
    enum rc rc = quantiles_add(&r->fused_ms, elapsed_ms(f, begun));
    begun = clock_now_us(&f->clock);
    for (uint32_t i = 0; i < f->o->rows; i++)
        dequant_row(type, f->weights + i * row_bytes, f->floats + (size_t)i * f->o->width,
                    f->o->width);
    if (rc == RC_OK)
        rc = quantiles_add(&r->dequant_ms, elapsed_ms(f, begun));
    begun = clock_now_us(&f->clock);
    run_product(f, DTYPE_F32, (const uint8_t *)(const void *)f->floats, floats, columns);
    return rc == RC_OK ? quantiles_add(&r->product_ms, elapsed_ms(f, begun)) : rc;
}

static enum rc print_row(const struct fused *f, enum dtype type, uint32_t columns, struct result *r)
{
    size_t row_bytes = 0;
    if (!dtype_row_bytes(&row_bytes, type, f->o->width))
        return RC_INVALID;
    double weights = (double)row_bytes * f->o->rows;
    double floats = 4.0 * (double)f->o->width * f->o->rows;
    double fused = quantiles_at(&r->fused_ms, 0.5), dequant = quantiles_at(&r->dequant_ms, 0.5);
    double product = quantiles_at(&r->product_ms, 0.5), moved = weights + 2 * floats;
    if (!f->o->jsonl)
        return printf("| %-7s | %7u | %8.2f | %10.2f | %10.2f | %6.2f | %6.2f | %8.1f | %8.1f | "
                      "%5.1f |\n",
                      dtype_find((uint32_t)type)->name, columns, fused, dequant, product,
                      (dequant + product) / fused, product / fused, weights / 1e6, moved / 1e6,
                      moved / weights) > 0
                   ? RC_OK
                   : RC_IO;
    json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:s}", "format",
                            dtype_find((uint32_t)type)->name, "columns", (int)columns, "rows",
                            (int)f->o->rows, "width", (int)f->o->width, "fused_ms", fused,
                            "dequant_ms", dequant, "product_ms", product, "fused_bytes", weights,
                            "unfused_bytes", moved, "isa", isa_name(f->kernels.isa));
    int bad = row == NULL || json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7)) != 0 ||
              putchar('\n') == EOF;
    json_decref(row);
    return bad ? RC_IO : RC_OK;
}

static enum rc run_format(struct fused *f, enum dtype type)
{
    size_t row_bytes = 0;
    const struct fused_options *o = f->o;
    struct act act, floats;
    enum rc rc = RC_OK;
    if (!dtype_row_bytes(&row_bytes, type, o->width))
        return RC_OK; /* rows are not whole blocks of this format */
    /* A few different rows, over and over: quantizing all of them would take minutes. */
    for (uint32_t i = 0; i < o->rows; i++) {
        uint8_t *dst = f->weights + i * row_bytes;
        if (i < COLUMNS_MAX)
            quantize_row(type, f->x + (size_t)i * o->width, dst, o->width);
        else
            memcpy(dst, f->weights + i % COLUMNS_MAX * row_bytes, row_bytes);
    }
    open_act(f, type, &act, f->act[0]);
    open_act(f, DTYPE_F32, &floats, f->act[1]);
    for (uint32_t c = 0; c < o->columns.count && rc == RC_OK; c++) {
        struct result r = { 0 };
        for (uint32_t i = 0; i < o->rounds && rc == RC_OK; i++) {
            rc = run_round(f, type, &act, &floats, o->columns.items[c], &r);
            if (interrupt_signal() != 0)
                rc = RC_CANCELLED;
        }
        if (rc == RC_OK)
            rc = print_row(f, type, o->columns.items[c], &r);
        fflush(stdout);
        quantiles_close(&r.fused_ms);
        quantiles_close(&r.dequant_ms);
        quantiles_close(&r.product_ms);
    }
    return rc;
}

static enum rc run_formats(struct fused *f, const enum dtype *only)
{
    static const enum dtype all[] = { DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,   DTYPE_Q6_K,  DTYPE_Q5_K,
                                      DTYPE_Q5_1, DTYPE_Q5_0, DTYPE_Q4_K,   DTYPE_Q4_1,  DTYPE_Q4_0,
                                      DTYPE_Q3_K, DTYPE_Q2_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS };
    enum rc rc = RC_OK;
    if (!f->o->jsonl)
        printf("| format  | columns | fused ms | dequant ms | product ms |  whole | alone  | "
               "fused MB | moved MB | ratio |\n|---------|---------|----------|------------|-----"
               "-------|--------|--------|----------|----------|-------|\n");
    if (only != NULL)
        return run_format(f, *only);
    for (size_t i = 0; i < sizeof all / sizeof all[0] && rc == RC_OK; i++)
        rc = run_format(f, all[i]);
    return rc;
}

static enum rc run_all(const struct fused_options *o, const enum dtype *only, struct fault *fault)
{
    struct fused f = { .o = o, .clock = clock_real() };
    size_t cells = (size_t)o->rows * o->width;
    kernels_open(&f.kernels, o->isa == 0 ? cpu_isa() : ISA_SCALAR);
    f.weights = mem_alloc_array(cells, sizeof(float));
    f.floats = mem_alloc_array(cells, sizeof *f.floats);
    f.x = mem_alloc_array((size_t)COLUMNS_MAX * o->width, sizeof *f.x);
    f.out = mem_alloc_array((size_t)COLUMNS_MAX * o->rows, sizeof *f.out);
    for (int i = 0; i < 2; i++)
        f.act[i] = mem_alloc_array(COLUMNS_MAX, o->width * sizeof(float) + 4096);
    enum rc rc = RC_NO_MEMORY;
    if (f.weights != NULL && f.floats != NULL && f.x != NULL && f.out != NULL && f.act[0] != NULL &&
        f.act[1] != NULL) {
        struct rng rng = rng_seeded(1);
        for (size_t i = 0; i < (size_t)COLUMNS_MAX * o->width; i++)
            f.x[i] = (float)(rng_unit(&rng) + rng_unit(&rng) + rng_unit(&rng) - 1.5);
        rc = run_formats(&f, only);
    }
    mem_free(f.act[0]);
    mem_free(f.act[1]);
    mem_free(f.out);
    mem_free(f.x);
    mem_free(f.floats);
    mem_free(f.weights);
    return rc == RC_OK ? rc : fault_set(fault, rc, "%s", rc_text(rc));
}

int bench_fused(int argc, char **argv)
{
    struct fused_options o = {
        .columns = { { 1, 8 }, 2 }, .rows = 8192, .width = 2048, .rounds = 5
    };
    struct option_group groups[] = { { "fused", rows, sizeof rows / sizeof rows[0], &o } };
    struct option_set set = { "bench fused",
                              "[--format TYPE] [--columns N,..]",
                              "Compares products over packed weights with products over weights "
                              "that were dequantized into a buffer first.",
                              groups,
                              1,
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    enum dtype type = DTYPE_F32;
    enum rc rc = RC_OK;
    if (o.format != NULL && (!dtype_parse(&type, o.format) || !quantize_has(type)))
        rc = fault_set(&fault, RC_USAGE, "--format %.20s is no format with a quantizer", o.format);
    else if (o.width % 256 != 0)
        rc = fault_set(&fault, RC_USAGE, "--width %u is no multiple of 256", o.width);
    if (rc == RC_OK)
        rc = run_all(&o, o.format != NULL ? &type : NULL, &fault);
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    if (rc == RC_OK)
        return 0;
    fprintf(stderr, "quire bench fused: %s\n", fault.text);
    return rc_exit_status(rc);
}
