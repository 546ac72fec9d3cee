/* SPDX-License-Identifier: MIT */
/* Tests of kernels/quantize and of the 16-bit conversions of kernels/f16.h. */
#include "tests/unit/test.h"

#include <math.h>

#include "core/rng.h"
#include "kernels/dequant.h"
#include "kernels/f16.h"
#include "kernels/quantize.h"
#include "tests/unit/golden.h"

/* sqrt(sum (q - x)^2 / sum x^2) of rows x cols values, quantized row by row and read back. */
static double relative_rms(enum dtype type, const float *x, size_t rows, size_t cols)
{
    size_t row_bytes;
    double error = 0, total = 0;
    assert_true(dtype_row_bytes(&row_bytes, type, cols));
    uint8_t *b = malloc(row_bytes);
    float *y = malloc(cols * sizeof *y);
    assert_true(b != NULL && y != NULL);
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        memset(b, 0xee, row_bytes);
        quantize_row(type, row, b, cols);
        dequant_row(type, b, y, cols);
        for (size_t i = 0; i < cols; i++) {
            double e = (double)y[i] - (double)row[i];
            error += e * e;
            total += (double)row[i] * (double)row[i];
        }
    }
    free(y);
    free(b);
    return sqrt(error / total);
}

/* Bounds: 1.02 times what ggml's own quantizers leave on the golden matrix. */
static const struct {
    enum dtype type;
    double rms;
} bounds[] = {
    { DTYPE_F32, 0 },           { DTYPE_F16, 0.000207173 },
    { DTYPE_BF16, 0.00165674 }, { DTYPE_Q8_0, 0.00813012 },
    { DTYPE_Q4_0, 0.129477 },   { DTYPE_Q4_1, 0.101719 },
    { DTYPE_Q5_0, 0.0646788 },  { DTYPE_Q5_1, 0.0492077 },
    { DTYPE_Q4_K, 0.0944875 },  { DTYPE_Q5_K, 0.0477528 },
    { DTYPE_Q6_K, 0.0251932 },  { DTYPE_Q2_K, 0.365065 },
    { DTYPE_Q3_K, 0.204051 },   { DTYPE_IQ4_NL, 0.101469 },
    { DTYPE_IQ4_XS, 0.10231 },  { DTYPE_IQ3_XXS, 0.275896 },
    { DTYPE_IQ3_S, 0.206745 },  { DTYPE_IQ2_S, 0.372978 },
    { DTYPE_IQ1_M, 0.592856 },  { DTYPE_TQ1_0, 0.787957 },
    { DTYPE_TQ2_0, 0.787957 },  { DTYPE_MXFP4, 0.13921 },
    { DTYPE_NVFP4, 0.0937381 }, { DTYPE_Q1_0, 0.75143 },
    { DTYPE_Q2_0, 0.696325 },
};

/* Searching a code book takes a hundred times longer than rounding: fewer rows. */
static bool has_book(enum dtype type)
{
    return type == DTYPE_IQ1_M || type == DTYPE_IQ2_S || type == DTYPE_IQ3_S ||
           type == DTYPE_IQ3_XXS;
}

static void check_bounds(const float *x, size_t rows, size_t cols, double slack, bool print)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        size_t count = has_book(bounds[i].type) && rows > 24 ? 24 : rows;
        double rms = relative_rms(bounds[i].type, x, count, cols);
        if (print)
            print_message("# %-7s relative rms %.6f, %.4f times the bound's source\n",
                          dtype_find((uint32_t)bounds[i].type)->name, rms,
                          bounds[i].rms > 0 ? rms / bounds[i].rms : 1.0);
        if (!(rms <= slack * bounds[i].rms))
            fail_msg("%s: relative rms %g, bound %g", dtype_find((uint32_t)bounds[i].type)->name,
                     rms, slack * bounds[i].rms);
    }
}

/* Like the golden matrix: gaussian-like, deviation 0.02, one column in ten times 4. */
static void test_error_on_gaussian_weights(void **state)
{
    (void)state;
    enum { ROWS = 16, COLS = 1024 };
    static float x[ROWS * COLS];
    struct rng r = rng_seeded(3);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++)
            sum += rng_unit(&r);
        x[i] = (float)(0.02 * sum * (i % COLS % 10 == 3 ? 4 : 1));
    }
    check_bounds(x, ROWS, COLS, 1.05, false);
}

static void test_error_on_the_golden_matrix(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *data = golden_read("quantize/matrix.f32", &bytes);
    if (data == NULL) {
        skip(); /* no ../shared/golden/quantize */
        return;
    }
    assert_int_equal(bytes, 256 * 2048 * 4);
    check_bounds((const float *)(const void *)data, 256, 2048, 1.02, true);
    free(data);
}

/* Blocks of zeros, of one value, of huge and tiny ones, and of garbage: no trap; zeros stay. */
static void test_edge_blocks(void **state)
{
    (void)state;
    float x[256], y[256];
    uint8_t b[1024];
    for (uint32_t type = 0; type < DTYPE_COUNT; type++) {
        if (!quantize_has((enum dtype)type))
            continue;
        memset(x, 0, sizeof x);
        quantize_row((enum dtype)type, x, b, 256);
        dequant_row((enum dtype)type, b, y, 256);
        for (int i = 0; i < 256; i++)
            assert_true(y[i] == 0.0f);
        float tolerance = has_book((enum dtype)type) ? 0.3f : 0.04f;
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int i = 0; i < 256; i++)
                x[i] = (float)sign * 0.25f;
            quantize_row((enum dtype)type, x, b, 256);
            dequant_row((enum dtype)type, b, y, 256);
            for (int i = 0; i < 256; i++)
                if (!(fabsf(y[i] - x[i]) <= tolerance * fabsf(x[i])))
                    fail_msg("%s: %g became %g", dtype_find(type)->name, (double)x[i],
                             (double)y[i]);
        }
        static const float odd[] = { 1e38f, -1e38f,   1e-38f,    -1e-45f,
                                     NAN,   INFINITY, -INFINITY, 65504.0f };
        for (int i = 0; i < 256; i++)
            x[i] = odd[i % 8];
        quantize_row((enum dtype)type, x, b, 256);
    }
    assert_false(quantize_has(DTYPE_IQ1_S));
    assert_false(quantize_has((enum dtype)4));
    assert_false(quantize_has(DTYPE_COUNT));
}

/* Every f16 value survives the way to f32 and back; what lies between two goes to the nearer, ties
 * to even. */
static void test_f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float here = f16_to_f32((uint16_t)h), next = f16_to_f32((uint16_t)(h + 1));
        assert_int_equal(f32_to_f16(here), h);
        assert_int_equal(f32_to_f16(-here), h | 0x8000);
        if (h == 0x7bff)
            next = 65536.0f;
        float middle = (float)(((double)here + (double)next) / 2);
        assert_int_equal(f32_to_f16(middle), h + (h & 1));
        assert_int_equal(f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(f32_to_f16(nextafterf(middle, 1e9f)), h + 1);
    }
    assert_int_equal(f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(f32_to_f16(1e-30f), 0);
    assert_int_equal(f32_to_f16(-1e-30f), 0x8000);
    assert_int_equal(f32_to_f16(f32_from_bits(0x7f800001u)), 0x7e00);
    assert_int_equal(f32_to_f16(f32_from_bits(0xffc02000u)), 0xfe01);
    assert_true(isnan(f16_to_f32(0x7c01)));
}

static void test_bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(f32_to_bf16(f32_from_bits(0x3f808000u)), 0x3f80);
    assert_int_equal(f32_to_bf16(f32_from_bits(0x3f808001u)), 0x3f81);
    assert_int_equal(f32_to_bf16(f32_from_bits(0x3f818000u)), 0x3f82);
    assert_int_equal(f32_to_bf16(f32_from_bits(0x7f7fffffu)), 0x7f80);
    assert_int_equal(f32_to_bf16(f32_from_bits(0xff800001u)), 0xffc0);
    assert_int_equal(f32_to_bf16(-INFINITY), 0xff80);
    for (uint32_t h = 0; h < 0x7f80; h++)
        assert_int_equal(f32_to_bf16(bf16_to_f32((uint16_t)h)), h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_on_gaussian_weights),
        cmocka_unit_test(test_error_on_the_golden_matrix),
        cmocka_unit_test(test_edge_blocks),
        cmocka_unit_test(test_f16_rounds_to_nearest_even),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
