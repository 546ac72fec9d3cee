/* SPDX-License-Identifier: MIT */
/* Tests of kernels/act and of the reference matmul: quantizer rules, sums, and decoded values from
 * outside. */
#include "tests/unit/test.h"

#include <math.h>

#include "kernels/act.h"
#include "kernels/f16.h"

static struct matmul_kernels table(void)
{
    struct matmul_kernels k = { 0 };
    matmul_fill_ref(&k);
    return k;
}

static void test_act_rounds_half_to_even(void **state)
{
    (void)state;
    float x[32] = { 127, -127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, -0.0f, 3.49f };
    struct act_q8_32 g;
    table().quantize[ACT_Q8_32]((uint8_t *)&g, x, 32);
    const int8_t want[10] = { 127, -127, 0, 2, 2, 0, -2, 126, 0, 3 };
    assert_memory_equal(g.q, want, 10);
    assert_true(g.d == 1.0f);
    assert_true(g.sum == 127.0f - 127 + 0 + 2 + 2 + 0 - 2 + 126 + 3);
    /* k mod 4: 127 -127 | 0 2, 2 0 | -2 126, 0 3 | 0 0 */
    assert_int_equal(g.centre8[0], -8 * (127 - 127 + 2 + 0 + 0 + 3));
    assert_int_equal(g.centre8[1], -8 * (0 + 2 - 2 + 126));
}

static void test_act_stays_in_range(void **state)
{
    (void)state;
    struct matmul_kernels k = table();
    static const float tops[] = { 0x1p-100f, 0x1.fffffep-100f, 1e-20f, 0.1f, 1.0f,
                                  3e5f,      0x1.fffffep127f };
    for (size_t t = 0; t < sizeof tops / sizeof *tops; t++) {
        for (uint32_t i = 0; i < 2000; i++) {
            float x[32] = { 0 };
            struct act_q8_32 g;
            x[5] = tops[t] * (1 - (float)i * 0x1p-20f);
            if (x[5] < 0x1p-100f)
                continue;
            x[6] = -x[5];
            k.quantize[ACT_Q8_32]((uint8_t *)&g, x, 32);
            assert_int_equal(g.q[5], 127);
            assert_int_equal(g.q[6], -127);
            assert_true(g.d > 0 && g.d == x[5] / 127);
        }
    }
}

static void test_act_tiny_and_broken_groups(void **state)
{
    (void)state;
    struct matmul_kernels k = table();
    float x[512];
    struct act_q8_256 g[2], zero = { 0 };
    for (int i = 0; i < 512; i++)
        x[i] = (float)(i % 7 - 3);
    static const float bad[] = { INFINITY, -INFINITY, NAN };
    for (int b = 0; b < 3; b++) {
        x[300] = bad[b];
        k.quantize[ACT_Q8_256]((uint8_t *)g, x, 512);
        uint32_t bits;
        memcpy(&bits, &g[1].d, 4);
        assert_int_equal(bits, NAN_BITS);
        assert_true(g[0].d == 3.0f / 127);
        zero.d = g[1].d;
        assert_memory_equal(&g[1], &zero, sizeof zero);
    }
    for (int i = 0; i < 256; i++)
        x[256 + i] = i % 2 != 0 ? 0x1.fffffep-101f : -0x1p-149f;
    k.quantize[ACT_Q8_256]((uint8_t *)g, x, 512);
    zero.d = 0;
    assert_memory_equal(&g[1], &zero, sizeof zero);
}

static void test_act_sums_of_256(void **state)
{
    (void)state;
    float x[256];
    struct act_q8_256 g;
    for (int i = 0; i < 256; i++)
        x[i] = (float)((i * 73 + 11) % 255 - 127);
    x[0] = 127;
    table().quantize[ACT_Q8_256]((uint8_t *)&g, x, 256);
    for (int j = 0; j < 16; j++) {
        int sum = 0, low = 0, high = 0;
        for (int i = 16 * j; i < 16 * j + 16; i++) {
            assert_int_equal(g.q[i], (int)x[i]);
            sum += (int)x[i];
            *(i % 4 < 2 ? &low : &high) += (int)x[i];
        }
        assert_int_equal(g.sum16[j], sum);
        assert_int_equal(g.centre32[j][0], -32 * low);
        assert_int_equal(g.centre32[j][1], -32 * high);
    }
    for (int j = 0; j < 8; j++)
        assert_int_equal(g.sum32[j], g.sum16[2 * j] + g.sum16[2 * j + 1]);
}

static void test_act_f32_is_padded(void **state)
{
    (void)state;
    float x[13], y[16];
    for (int i = 0; i < 13; i++)
        x[i] = (float)i - 6;
    memset(y, 0xff, sizeof y);
    table().quantize[ACT_F32]((uint8_t *)y, x, 13);
    for (int i = 0; i < 16; i++)
        assert_true(y[i] == (i < 13 ? x[i] : 0.0f));
}

static void test_act_rows_are_aligned_and_odd_lines(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
        for (uint32_t cols = 256; cols <= 16384; cols += 256) {
            size_t bytes = act_row_bytes((enum act_kind)kind, cols);
            assert_int_equal(bytes % 128, 64);
        }
    }
}

/* Weights decoded outside, one file of blocks and one of floats a format: a one-hot activation row
 * reads one weight out of the reference, within the rounding of its few float steps. */
static void check_golden(const char *folder, uint32_t type)
{
    char path[512];
    static uint8_t blocks[1 << 16];
    static float floats[1 << 18];
    const struct dtype_info *info = dtype_find(type);
    snprintf(path, sizeof path, "%s/dequant/%s.blocks", folder, info->name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t count = fread(blocks, 1, sizeof blocks, f) / info->block_bytes;
    fclose(f);
    snprintf(path, sizeof path, "%s/dequant/%s.f32", folder, info->name);
    f = fopen(path, "rb");
    assert_non_null(f);
    count = fread(floats, 4, sizeof floats / 4, f) / info->block_elems < count ? 0 : count;
    fclose(f);
    assert_true(count > 0);
    count = count < 64 ? count : 64;

    static uint8_t mem[65536] __attribute__((aligned(64)));
    struct matmul_kernels k = table();
    struct act a;
    enum act_kind kind = act_kind_for((enum dtype)type);
    act_open(&a, kind, 1, info->block_elems, mem);
    for (uint32_t e = 0; e < info->block_elems; e++) {
        float x[256] = { 0 }, out[64];
        x[e] = 1;
        k.quantize[kind](mem, x, info->block_elems);
        struct matmul m = { .w = { blocks, (enum dtype)type, (uint32_t)count, info->block_elems,
                                   info->block_bytes },
                            .x = &a,
                            .x_count = 1,
                            .out = out,
                            .out_stride = count };
        matmul_run(&k, &m, 0, (uint32_t)count);
        for (size_t b = 0; b < count; b++) {
            float want = floats[b * info->block_elems + e];
            if (isnan(want) || isinf(want))
                continue;
            /* the two terms of a weight may cancel: their size is bounded by that of the block's
             * weights */
            float top = 0;
            for (uint32_t i = 0; i < info->block_elems; i++)
                top = fmaxf(top, fabsf(floats[b * info->block_elems + i]));
            if (top < 1e30f && !(fabsf(out[b] - want) <= top * 4e-6f + 1e-40f))
                fail_msg("%s block %zu element %u: %a, want %a", info->name, b, e, (double)out[b],
                         (double)want);
        }
    }
}

static void test_matmul_ref_decodes_like_others(void **state)
{
    (void)state;
    const char *folder = getenv("QUIRE_GOLDEN");
    char probe[512];
    folder = folder != NULL ? folder : "../shared/golden";
    snprintf(probe, sizeof probe, "%s/dequant/Q4_K.blocks", folder);
    FILE *f = fopen(probe, "rb");
    if (f == NULL) {
        skip();
        return;
    }
    fclose(f);
    for (uint32_t type = 0; type < DTYPE_COUNT; type++)
        if (dtype_find(type) != NULL && act_kind_for((enum dtype)type) != ACT_F32)
            check_golden(folder, type);
    check_golden(folder, DTYPE_F16);
    check_golden(folder, DTYPE_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_act_rounds_half_to_even),
        cmocka_unit_test(test_act_stays_in_range),
        cmocka_unit_test(test_act_tiny_and_broken_groups),
        cmocka_unit_test(test_act_sums_of_256),
        cmocka_unit_test(test_act_f32_is_padded),
        cmocka_unit_test(test_act_rows_are_aligned_and_odd_lines),
        cmocka_unit_test(test_matmul_ref_decodes_like_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
