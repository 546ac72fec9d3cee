/* SPDX-License-Identifier: MIT */
/* Every level that this machine has, or models, against the scalar reference, by memcmp: weight
 * products, their f32 form and the quantizer. Outputs start as the same junk on both sides, so a
 * write outside the range, or a missing one, shows too. Weights end at an unmapped page. */
#include "tests/unit/test.h"

#include <math.h>

#include "kernels/act.h"
#include "kernels/kernels.h"
#include "tests/kernels/guard.h"
#include "tests/kernels/levels.h"

enum { ROWS_MAX = 65, COLS_MAX = 152, K_MAX = 17 * 256, OUT_MAX = COLS_MAX * (ROWS_MAX + 7) };

/* Formats under test, and where their blocks hold f16 scales. */
static const struct format {
    enum dtype type;
    int scale_count;
    uint32_t scale_at[2];
} formats[] = {
    { DTYPE_Q4_0, 1, { 0 } },    { DTYPE_Q4_1, 2, { 0, 2 } },   { DTYPE_Q5_0, 1, { 0 } },
    { DTYPE_Q5_1, 2, { 0, 2 } }, { DTYPE_Q8_0, 1, { 0 } },      { DTYPE_IQ4_NL, 1, { 0 } },
    { DTYPE_MXFP4, 0, { 0 } },   { DTYPE_Q2_K, 2, { 80, 82 } }, { DTYPE_Q3_K, 1, { 108 } },
    { DTYPE_Q4_K, 2, { 0, 2 } }, { DTYPE_Q5_K, 2, { 0, 2 } },   { DTYPE_Q6_K, 1, { 208 } },
    { DTYPE_IQ4_XS, 1, { 0 } },  { DTYPE_F16, 1, { 0 } },       { DTYPE_BF16, 0, { 0 } },
    { DTYPE_F32, 0, { 0 } },
};
enum { FORMATS = sizeof formats / sizeof *formats };

static struct guard weights, biases, acts, outs;
static struct kernels ref, level;
static bool few; /* a sample of the shapes: under an emulator, or over a model */

/* What fills the weight bytes and the activations of a case. */
enum fill { FILL_FINITE, FILL_RAW, FILL_EDGE, FILLS };

struct kase {
    const struct format *format;
    uint32_t rows, cols, k;
    uint32_t x_begin;
    uint32_t row_begin, row_end;
    size_t offset; /* of the weights, mod 64; >= 64: they end at the unmapped page */
    bool bias, accumulate, f32;
    struct matmul m;
    struct act act;
};

static size_t weight_bytes(const struct kase *k)
{
    return k->m.w.row_bytes * k->rows;
}

static void put_f16(uint8_t *p, uint32_t bits)
{
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* Finite, not too far apart: sign, exponents of 2^-10 .. 2^5, any fraction. Float formats the same
 * by element. */
static void calm_scales(struct dice *d, const struct kase *k, uint8_t *w)
{
    const struct dtype_info *info = dtype_find(k->format->type);
    for (size_t at = 0; at < weight_bytes(k); at += info->block_bytes) {
        for (int i = 0; i < k->format->scale_count; i++)
            put_f16(w + at + k->format->scale_at[i],
                    dice_below(d, 2) << 15 | (5 + dice_below(d, 16)) << 10 | dice_below(d, 1024));
        if (k->format->type == DTYPE_BF16)
            put_f16(w + at,
                    dice_below(d, 2) << 15 | (118 + dice_below(d, 16)) << 7 | dice_below(d, 128));
        if (k->format->type == DTYPE_F32) {
            float v = dice_float(d) * 8;
            memcpy(w + at, &v, sizeof v);
        }
        if (k->format->type == DTYPE_MXFP4)
            w[at] = (uint8_t)(120 + dice_below(d, 16));
    }
}

static void fill_weights(struct dice *d, const struct kase *k, uint8_t *w, enum fill fill)
{
    static const uint8_t edges[] = { 0x00, 0xff, 0x7f, 0x80, 0x0f, 0xf0, 0x55, 0x08, 0x81 };
    static const uint16_t edge_scales[] = { 0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff,
                                            0x7c00, 0xfc00, 0x7e01, 0xfd55, 0x3c00 };
    size_t bytes = weight_bytes(k);
    uint8_t byte = edges[dice_below(d, sizeof edges)];
    for (size_t i = 0; i < bytes; i++)
        w[i] = fill == FILL_EDGE ? byte : (uint8_t)dice_u64(d);
    if (fill == FILL_RAW)
        return;
    calm_scales(d, k, w);
    if (fill == FILL_FINITE || dice_below(d, 2) != 0)
        return;
    const struct dtype_info *info = dtype_find(k->format->type);
    uint32_t scale = edge_scales[dice_below(d, sizeof edge_scales / sizeof *edge_scales)];
    for (size_t at = 0; at < bytes; at += info->block_bytes)
        for (int i = 0; i < k->format->scale_count; i++)
            if (dice_below(d, 3) == 0)
                put_f16(w + at + k->format->scale_at[i], scale);
}

/* One activation row. Edges: all of one sign, alternating in several ways, one-hot, tiny, huge,
 * not finite. */
static void fill_row(struct dice *d, float *x, uint32_t k, enum fill fill)
{
    static const float specials[] = { 0, 1e-45f, 1e-38f, 1e38f, INFINITY, NAN };
    uint32_t how = fill == FILL_EDGE ? dice_below(d, 8) : 7;
    for (uint32_t i = 0; i < k; i++) {
        float v = dice_float(d) * (dice_below(d, 64) == 0 ? 8 : 1);
        switch (how) {
        case 0:
            v = 1;
            break;
        case 1:
            v = -1;
            break;
        case 2:
            v = i % 2 != 0 ? 1 : -1;
            break;
        case 3:
            v = i % 4 < 2 ? 1 : -1;
            break;
        case 4:
            v = i / 16 % 2 != 0 ? 1 : -1;
            break;
        case 5:
            v = 0;
            break;
        default:
            break;
        }
        x[i] = v;
    }
    if (how == 5)
        x[dice_below(d, k)] = -3;
    if (how == 6 || (fill == FILL_RAW && dice_below(d, 4) == 0))
        x[dice_below(d, k)] = specials[dice_below(d, 6)];
}

static void set_up(struct dice *d, struct kase *k, enum fill fill)
{
    static float x[K_MAX];
    enum dtype type = k->format->type;
    size_t row_bytes;
    assert_true(dtype_row_bytes(&row_bytes, type, k->k));
    k->m = (struct matmul){ .w = { NULL, type, k->rows, k->k, row_bytes },
                            .x = &k->act,
                            .x_begin = k->x_begin,
                            .x_count = k->cols,
                            .out_stride = k->rows + dice_below(d, 8),
                            .accumulate = k->accumulate };
    uint8_t *w = k->offset < 64 ? guard_at(&weights, weight_bytes(k), k->offset)
                                : guard_tail(&weights, weight_bytes(k));
    fill_weights(d, k, w, fill);
    k->m.w.data = w;
    float *bias = (float *)(void *)guard_tail(&biases, k->rows * sizeof *bias);
    for (uint32_t r = 0; r < k->rows; r++)
        bias[r] = dice_float(d);
    k->m.bias = k->bias ? bias : NULL;
    enum act_kind kind = k->f32 ? ACT_F32 : act_kind_for(type);
    size_t act_bytes = act_row_bytes(kind, k->k) * (k->x_begin + k->cols);
    act_open(&k->act, kind, k->x_begin + k->cols, k->k, guard_tail(&acts, act_bytes));
    memset(k->act.data, 0xcb, act_bytes);
    for (uint32_t r = 0; r < k->act.rows; r++) {
        fill_row(d, x, k->k, fill);
        ref.matmul.quantize[kind](k->act.data + (size_t)r * k->act.row_bytes, x, k->k);
    }
}

/* Runs into the last bytes of the output memory; the gap behind the last row of it is outside the
 * mapping. */
static float *run(const struct kernels *kernels, struct kase *k, uint32_t row_begin,
                  uint32_t row_end, float *copy)
{
    size_t count = (k->cols - 1) * k->m.out_stride + k->rows;
    float *out = (float *)(void *)guard_tail(&outs, count * sizeof *out);
    if (copy == NULL)
        for (size_t i = 0; i < count; i++)
            out[i] = (float)(i % 97) * 0.25f - 8;
    k->m.out = out;
    matmul_run(&kernels->matmul, &k->m, row_begin, row_end);
    return out;
}

static void check(struct kase *k, const char *what, const float *want, const float *got,
                  size_t count)
{
    if (memcmp(want, got, count * sizeof *want) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (memcmp(&want[i], &got[i], sizeof *want) != 0)
            fail_msg("%s %s: rows %u cols %u k %u, rows %u..%u, offset %zu%s: column %zu row %zu "
                     "is %a, want %a",
                     what, dtype_find(k->format->type)->name, k->rows, k->cols, k->k, k->row_begin,
                     k->row_end, k->offset, k->f32 ? " f32" : "", i / k->m.out_stride,
                     i % k->m.out_stride, (double)got[i], (double)want[i]);
}

static void compare(struct dice *d, struct kase *k, enum fill fill)
{
    static float want[OUT_MAX];
    set_up(d, k, fill);
    size_t count = (k->cols - 1) * k->m.out_stride + k->rows;
    guard_read_only(&weights, 1);
    memcpy(want, run(&ref, k, k->row_begin, k->row_end, NULL), count * sizeof *want);
    const float *got = run(&level, k, k->row_begin, k->row_end, NULL);
    guard_read_only(&weights, 0);
    check(k, "level", want, got, count);
}

static bool has_level(const struct format *f)
{
    return level.matmul.run[f->type] != ref.matmul.run[f->type];
}

static const uint32_t row_list[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 33 };
static const uint32_t col_list[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33 };
static const uint32_t block_list[] = { 1, 2, 3, 5, 8 };
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Row length for a size 1..8. Small blocks are worked on eight at a time: parts of eight, whole
 * ones and both. Floats: also rows that are no whole vectors. */
static uint32_t k_of(const struct format *f, uint32_t size)
{
    static const uint32_t blocks32[9] = { 0, 1, 2, 8, 7, 10, 16, 18, 25 };
    uint32_t elems = dtype_find(f->type)->block_elems;
    if (elems == 32)
        return elems * blocks32[size];
    return elems == 1 ? size * 21 : elems * size;
}

static void test_matmul_all_shapes(void **state)
{
    (void)state;
    struct dice d = { 1 };
    for (uint32_t f = 0; f < FORMATS; f++) {
        if (!has_level(&formats[f]))
            continue;
        for (uint32_t r = 0; r < COUNT(row_list); r++)
            for (uint32_t c = 0; c < COUNT(col_list); c++)
                for (uint32_t b = 0; b < COUNT(block_list); b++) {
                    if (few && dice_below(&d, 6) != 0)
                        continue;
                    struct kase k = { .format = &formats[f],
                                      .rows = row_list[r],
                                      .cols = col_list[c],
                                      .k = k_of(&formats[f], block_list[b]),
                                      .row_end = row_list[r],
                                      .offset = (r + c + b) % 3 == 0 ? 64 : dice_below(&d, 64) };
                    compare(&d, &k, (enum fill)dice_below(&d, FILLS));
                    k.f32 = dice_below(&d, 8) == 0; /* unquantized activations */
                    if (k.f32)
                        compare(&d, &k, (enum fill)dice_below(&d, FILLS));
                }
    }
}

/* More columns than any level keeps sums of at once; what is left over of every kind. */
static void test_matmul_many_columns(void **state)
{
    static const uint32_t cols[] = { 127, 129, 131, 133, 136, 137, 150 };
    (void)state;
    struct dice d = { 8 };
    for (uint32_t f = 0; f < FORMATS; f++) {
        for (uint32_t c = 0; c < COUNT(cols) && has_level(&formats[f]); c += few ? 3 : 1) {
            struct kase k = { .format = &formats[f],
                              .rows = 18 + dice_below(&d, 9),
                              .cols = cols[c],
                              .k = k_of(&formats[f], c % 2 == 0 ? 6 : 1),
                              .row_begin = dice_below(&d, 2),
                              .x_begin = dice_below(&d, 3),
                              .offset = 64,
                              .bias = dice_below(&d, 2),
                              .accumulate = dice_below(&d, 2) };
            k.row_end = k.rows - dice_below(&d, 2);
            compare(&d, &k, (enum fill)dice_below(&d, FILLS));
        }
    }
}

/* Longer than any level's own buffers, so that a row is dequantized in pieces. */
static void test_matmul_long_rows(void **state)
{
    (void)state;
    struct dice d = { 8 };
    for (uint32_t f = 0; f < FORMATS; f++)
        for (uint32_t cols = 1; cols < 4 && has_level(&formats[f]); cols++) {
            struct kase k = { .format = &formats[f],
                              .rows = 17,
                              .cols = cols,
                              .k = K_MAX,
                              .row_begin = 1,
                              .row_end = 17,
                              .offset = 64 };
            compare(&d, &k, FILL_FINITE);
            k.f32 = true;
            compare(&d, &k, FILL_FINITE);
        }
}

/* Residual, bias, columns that start inside, row ranges that do not: everything else that a call
 * may ask for. */
static void test_matmul_ranges_and_epilogue(void **state)
{
    (void)state;
    struct dice d = { 2 };
    for (uint32_t f = 0; f < FORMATS; f++) {
        if (!has_level(&formats[f]))
            continue;
        for (int i = 0; i < (few ? 40 : 200); i++) {
            struct kase k = { .format = &formats[f],
                              .rows = 8 + dice_below(&d, ROWS_MAX - 8),
                              .cols = 1 + dice_below(&d, 13),
                              .k = k_of(&formats[f], 1 + dice_below(&d, 4)),
                              .x_begin = dice_below(&d, 5),
                              .offset = dice_below(&d, 128),
                              .bias = dice_below(&d, 2),
                              .accumulate = dice_below(&d, 2) };
            k.row_begin = dice_below(&d, k.rows);
            k.row_end = k.row_begin + dice_below(&d, k.rows - k.row_begin + 1);
            compare(&d, &k, (enum fill)dice_below(&d, FILLS));
        }
    }
}

/* Largest sums of every format: one byte repeated, activations at the ends of their range. */
static void test_matmul_edges(void **state)
{
    (void)state;
    struct dice d = { 3 };
    for (uint32_t f = 0; f < FORMATS; f++) {
        if (!has_level(&formats[f]))
            continue;
        for (int i = 0; i < (few ? 150 : 600); i++) {
            struct kase k = { .format = &formats[f],
                              .rows = 16,
                              .cols = 1 + dice_below(&d, 13),
                              .k = k_of(&formats[f], 1 + dice_below(&d, 3)),
                              .row_end = 16,
                              .offset = 64 };
            compare(&d, &k, FILL_EDGE);
        }
    }
}

static void test_matmul_weights_at_every_offset(void **state)
{
    (void)state;
    struct dice d = { 4 };
    for (uint32_t f = 0; f < FORMATS; f++) {
        if (!has_level(&formats[f]))
            continue;
        for (size_t offset = 0; offset < 64; offset += few ? 9 : 1) {
            struct kase k = { .format = &formats[f],
                              .rows = 17,
                              .cols = 3,
                              .k = k_of(&formats[f], 2),
                              .row_end = 17,
                              .offset = offset };
            compare(&d, &k, FILL_FINITE);
        }
    }
}

/* A column's result does not depend on its neighbours, nor a row's on how the rows are split. */
static void test_matmul_is_invariant(void **state)
{
    (void)state;
    static float want[OUT_MAX];
    struct dice d = { 5 };
    for (uint32_t f = 0; f < FORMATS; f++) {
        for (int i = 0; i < (few ? 2 : 6); i++) {
            struct kase k = { .format = &formats[f],
                              .rows = 17 + dice_below(&d, 48),
                              .cols = 1 + dice_below(&d, 39),
                              .k = k_of(&formats[f], 1 + dice_below(&d, 8)),
                              .offset = 64 };
            k.row_end = k.rows;
            set_up(&d, &k, FILL_FINITE);
            size_t stride = k.m.out_stride, count = (k.cols - 1) * stride + k.rows;
            memcpy(want, run(&level, &k, 0, k.rows, NULL), count * sizeof *want);
            float *got = run(&level, &k, 0, MATMUL_GRAIN, NULL);
            got = run(&level, &k, MATMUL_GRAIN, k.rows, got);
            check(&k, "split rows", want, got, count);
            uint32_t cols = k.cols;
            k.cols = k.m.x_count = 1;
            for (uint32_t c = 0; c < cols; c++) {
                k.m.x_begin = c;
                check(&k, "alone", want + c * stride, run(&level, &k, 0, k.rows, NULL), k.rows);
            }
        }
    }
}

/* AVX2's tiles, which count, decode a weight once, for one column as for 128. */
static void test_matmul_decodes_each_weight_once(void **state)
{
    (void)state;
    struct dice d = { 7 };
    uint32_t counting = 0;
    for (uint32_t f = 0; f < FORMATS; f++) {
        bool counts = false;
        for (uint32_t cols = 1; cols <= 128 && has_level(&formats[f]); cols += cols < 9 ? 1 : 119) {
            uint64_t decoded = 0;
            struct kase k = { .format = &formats[f],
                              .rows = 48,
                              .cols = cols,
                              .k = k_of(&formats[f], 5),
                              .offset = 64 };
            set_up(&d, &k, FILL_FINITE);
            k.m.decoded = &decoded;
            run(&level, &k, 0, k.rows, NULL);
            counts = counts || decoded > 0;
            if (counts && decoded != (uint64_t)k.rows * k.k)
                fail_msg("%s: %u columns: %llu weights decoded of %u",
                         dtype_find(formats[f].type)->name, cols, (unsigned long long)decoded,
                         k.rows * k.k);
        }
        counting += counts;
    }
    if (level.isa == ISA_AVX2)
        assert_int_equal(counting, 13);
}

/* Groups of 32 whose largest value is the least that counts, or just below it. */
static void fill_tiny(struct dice *d, float *x, uint32_t count)
{
    static const float ends[] = { 0x1p-100f, 0x1.fffffep-101f };
    for (uint32_t i = 0; i < count; i++)
        x[i] = ldexpf(dice_float(d), -120);
    for (uint32_t i = dice_below(d, 32); i < count; i += 32)
        x[i] = dice_below(d, 2) == 0 ? ends[dice_below(d, 2)] : -ends[dice_below(d, 2)];
}

static void test_act_quantizers(void **state)
{
    (void)state;
    static float x[K_MAX];
    struct dice d = { 6 };
    uint8_t *out = guard_tail(&outs, act_row_bytes(ACT_F32, K_MAX)),
            *want = malloc(act_row_bytes(ACT_F32, K_MAX));
    assert_non_null(want);
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
        for (int i = 0; i < (few ? 600 : 3000); i++) {
            uint32_t k = kind == ACT_F32     ? 1 + dice_below(&d, 600)
                         : kind == ACT_Q8_32 ? 32 * (1 + dice_below(&d, 9))
                                             : 256 * (1 + dice_below(&d, 4));
            float *src = (float *)(void *)guard_tail(&acts, k * sizeof *src);
            size_t bytes = act_row_bytes((enum act_kind)kind, k);
            fill_row(&d, x, k, (enum fill)dice_below(&d, FILLS));
            int power = (int)dice_below(&d, 260) - 130;
            for (uint32_t j = 0; j < k; j++)
                src[j] = dice_below(&d, 8) == 0 ? ldexpf(rintf(x[j] * 127) + 0.5f, power)
                                                : ldexpf(x[j], power);
            if (i % 16 == 0)
                fill_tiny(&d, src, k);
            memset(want, 0xcb, bytes);
            memset(out, 0xcb, bytes);
            ref.matmul.quantize[kind](want, src, k);
            level.matmul.quantize[kind](out, src, k);
            if (memcmp(want, out, bytes) != 0)
                fail_msg("quantizer %u, %u values, case %d", kind, k, i);
        }
    }
    free(want);
}

static int set_up_group(void **state)
{
    (void)state;
    guard_open(&weights, ROWS_MAX * K_MAX * 4 + 64);
    guard_open(&biases, ROWS_MAX * sizeof(float));
    guard_open(&acts, COLS_MAX * act_row_bytes(ACT_F32, K_MAX));
    guard_open(&outs, OUT_MAX * sizeof(float) + 8192);
    return 0;
}

static int tear_down_group(void **state)
{
    (void)state;
    guard_close(&weights);
    guard_close(&biases);
    guard_close(&acts);
    guard_close(&outs);
    return 0;
}

/* The levels one after another, each as a group of its own; on a machine that has none, the
 * reference against itself, which still checks ranges and invariance. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_all_shapes),
        cmocka_unit_test(test_matmul_many_columns),
        cmocka_unit_test(test_matmul_long_rows),
        cmocka_unit_test(test_matmul_ranges_and_epilogue),
        cmocka_unit_test(test_matmul_edges),
        cmocka_unit_test(test_matmul_weights_at_every_offset),
        cmocka_unit_test(test_matmul_is_invariant),
        cmocka_unit_test(test_matmul_decodes_each_weight_once),
        cmocka_unit_test(test_act_quantizers),
    };
    int failed = 0;
    kernels_open(&ref, ISA_SCALAR);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (isa == ISA_SCALAR && cpu_isa() != ISA_SCALAR)
            continue;
        if (!level_open(&level, (enum isa)isa))
            continue;
        few = few_shapes() || level_is_model((enum isa)isa);
        printf("# level %s%s\n", isa_name((enum isa)isa),
               level_is_model((enum isa)isa) ? ", instructions modelled in C" : "");
        failed += cmocka_run_group_tests(tests, set_up_group, tear_down_group);
    }
    return failed;
}
