/* SPDX-License-Identifier: MIT */
/* Tests of kernels/dequant: golden blocks of every format, blocks worked out by hand, and check
 * sums of random blocks that hold where the golden folder is absent. */
#include "tests/unit/test.h"

#include <math.h>

#include "core/dtype.h"
#include "kernels/dequant.h"
#include "kernels/ref/iq_tables.h"
#include "tests/unit/golden.h"

static void expect_floats(enum dtype type, const uint8_t *src, const float *want, size_t elems)
{
    float got[256];
    assert_true(elems <= 256);
    dequant_row(type, src, got, elems);
    for (size_t i = 0; i < elems; i++)
        if (memcmp(&got[i], &want[i], sizeof got[i]) != 0)
            fail_msg("%s element %zu: %a, wanted %a", dtype_find((uint32_t)type)->name, i,
                     (double)got[i], (double)want[i]);
}

/* Formats with 32-element blocks: d = 0.5 (0x3800), m = -2 (0xc000), nibble pair j, 15 - j. */
static void test_small_blocks_by_hand(void **state)
{
    (void)state;
    uint8_t nibbles[16], b[40];
    float want[32];
    for (int j = 0; j < 16; j++)
        nibbles[j] = (uint8_t)(j | (15 - j) << 4);
    const uint8_t dm[4] = { 0x00, 0x38, 0x00, 0xc0 };
    const uint8_t odd[4] = { 0xaa, 0xaa, 0xaa, 0xaa }; /* bit 4 of every odd element */

    memcpy(b, dm, 2);
    memcpy(b + 2, nibbles, 16);
    for (int j = 0; j < 16; j++) {
        want[j] = 0.5f * (float)(j - 8);
        want[j + 16] = 0.5f * (float)(7 - j);
    }
    expect_floats(DTYPE_Q4_0, b, want, 32);

    memcpy(b, dm, 4);
    memcpy(b + 4, nibbles, 16);
    for (int j = 0; j < 32; j++)
        want[j] = 0.5f * (float)(j < 16 ? j : 31 - j) - 2.0f;
    expect_floats(DTYPE_Q4_1, b, want, 32);

    memcpy(b, dm, 2);
    memcpy(b + 2, odd, 4);
    memcpy(b + 6, nibbles, 16);
    for (int j = 0; j < 32; j++)
        want[j] = 0.5f * (float)((j < 16 ? j : 31 - j) + j % 2 * 16 - 16);
    expect_floats(DTYPE_Q5_0, b, want, 32);

    memcpy(b, dm, 4);
    memcpy(b + 4, odd, 4);
    memcpy(b + 8, nibbles, 16);
    for (int j = 0; j < 32; j++)
        want[j] = 0.5f * (float)((j < 16 ? j : 31 - j) + j % 2 * 16) - 2.0f;
    expect_floats(DTYPE_Q5_1, b, want, 32);

    memcpy(b, dm, 2);
    for (int j = 0; j < 32; j++) {
        b[2 + j] = (uint8_t)(j * 8 - 128);
        want[j] = 0.5f * (float)(j * 8 - 128);
    }
    expect_floats(DTYPE_Q8_0, b, want, 32);
}

/* Q4_K: scale of group g is 5 g + 20 and its min 7 g + 8, so that groups 4..7 need upper bits. */
static void test_q4_k_block_by_hand(void **state)
{
    (void)state;
    uint8_t b[144] = { 0x00, 0x3c, 0x00, 0x38 }; /* d = 1, dmin = 0.5 */
    float want[256];
    for (int g = 0; g < 8; g++) {
        int s = 5 * g + 20, t = 7 * g + 8;
        if (g < 4) {
            b[4 + g] |= (uint8_t)s;
            b[8 + g] |= (uint8_t)t;
        } else {
            b[8 + g] = (uint8_t)((s & 15) | (t & 15) << 4);
            b[g] |= (uint8_t)(s >> 4 << 6);
            b[4 + g] |= (uint8_t)(t >> 4 << 6);
        }
        for (int l = 0; l < 32; l++) {
            int q = (l * 3 + g) & 15;
            b[16 + g / 2 * 32 + l] |= (uint8_t)(q << (g % 2 * 4));
            want[32 * g + l] = (float)(s * q) - 0.5f * (float)t;
        }
    }
    expect_floats(DTYPE_Q4_K, b, want, 256);
}

static void test_q6_k_block_by_hand(void **state)
{
    (void)state;
    uint8_t b[210] = { 0 };
    float want[256];
    b[208] = 0x00;
    b[209] = 0x34; /* d = 0.25 */
    for (int g = 0; g < 16; g++)
        b[192 + g] = (uint8_t)(g * 9 - 70);
    for (int i = 0; i < 256; i++) {
        int q = (i * 7 + i / 64) & 63, half = i / 128, j = i % 128;
        b[half * 64 + j % 64] |= (uint8_t)((q & 15) << (j / 64 * 4));
        b[128 + half * 32 + j % 32] |= (uint8_t)(q >> 4 << (j / 32 * 2));
        want[i] = 0.25f * (float)(i / 16 * 9 - 70) * (float)(q - 32);
    }
    expect_floats(DTYPE_Q6_K, b, want, 256);
}

static void test_plain_formats(void **state)
{
    (void)state;
    const uint16_t halves[6] = { 0x3c00, 0x8001, 0x7bff, 0xfc00, 0x0400, 0x8000 };
    const float want16[6] = { 1.0f, -0x1p-24f, 65504.0f, -INFINITY, 0x1p-14f, -0.0f };
    expect_floats(DTYPE_F16, (const uint8_t *)halves, want16, 6);
    const uint16_t brains[3] = { 0x3f80, 0xc049, 0x0001 };
    const float want_b[3] = { 1.0f, -3.140625f, 0x1p-133f };
    expect_floats(DTYPE_BF16, (const uint8_t *)brains, want_b, 3);
    const float same[2] = { 1.5f, -0.0f };
    expect_floats(DTYPE_F32, (const uint8_t *)same, same, 2);
    const double doubles[2] = { 0.1, -1e300 };
    const float want_d[2] = { 0.1f, -INFINITY };
    expect_floats(DTYPE_F64, (const uint8_t *)doubles, want_d, 2);
    const int8_t i8[2] = { -128, 127 };
    expect_floats(DTYPE_I8, (const uint8_t *)i8, (const float[]){ -128.0f, 127.0f }, 2);
    const int16_t i16[2] = { -32768, 7 };
    expect_floats(DTYPE_I16, (const uint8_t *)i16, (const float[]){ -32768.0f, 7.0f }, 2);
    const int32_t i32[2] = { -2000000000, 7 };
    expect_floats(DTYPE_I32, (const uint8_t *)i32, (const float[]){ -2e9f, 7.0f }, 2);
    const int64_t i64[2] = { -1000000000000, 7 };
    expect_floats(DTYPE_I64, (const uint8_t *)i64, (const float[]){ -1e12f, 7.0f }, 2);
}

/* The code books are in ascending order and hold only digits that have a meaning. */
static void test_code_books_are_whole(void **state)
{
    (void)state;
    static const struct {
        const uint16_t *grid;
        int count, bits;
    } books[] = { { iq2_xxs_grid, 256, 2 }, { iq2_xs_grid, 512, 2 }, { iq2_s_grid, 1024, 2 },
                  { iq3_xxs_grid, 256, 3 }, { iq3_s_grid, 512, 3 },  { iq1_s_grid, 2048, 2 } };
    for (size_t i = 0; i < sizeof books / sizeof books[0]; i++) {
        for (int k = 0; k < books[i].count; k++) {
            uint16_t v = books[i].grid[k];
            assert_true(k == 0 || v > books[i].grid[k - 1]);
            if (books[i].bits == 2)
                assert_true((v & v >> 1 & 0x5555) == 0);
            else
                assert_true(v < 4096);
        }
    }
    for (uint32_t v = 0; v < 128; v++)
        assert_true((iq_signs(v) & 127) == v && __builtin_popcount(iq_signs(v)) % 2 == 0);
}

/* Check sum of what 64 random blocks of a format stand for. The scale bytes are random too, with
 * the exponents kept away from infinity, whose products differ between machines. */
static uint64_t sum_of_random_blocks(uint32_t type, uint8_t *src, float *dst)
{
    const struct dtype_info *info = dtype_find(type);
    uint64_t x = 0x9e3779b97f4a7c15u * (type + 1), sum = 14695981039346656037u;
    size_t bytes = 64u * info->block_bytes, elems = 64u * info->block_elems;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        src[i] = (uint8_t)(x >> 56) & 0xbf; /* 0xbf: exponents of f16 stay below the half */
    }
    dequant_row((enum dtype)type, src, dst, elems);
    for (size_t i = 0; i < elems; i++) {
        uint32_t bits;
        memcpy(&bits, &dst[i], sizeof bits);
        assert_true((bits & 0x7f800000u) != 0x7f800000u);
        sum = (sum ^ bits) * 1099511628211u;
    }
    return sum;
}

static void test_random_blocks_keep_their_values(void **state)
{
    (void)state;
    static uint8_t src[64 * 210];
    static float dst[64 * 256];
    static const struct {
        enum dtype type;
        uint64_t sum;
    } known[] = {
        { DTYPE_Q4_0, 0x16e94acbf9f8eb25 },    { DTYPE_Q4_1, 0x748bccd65caefc6a },
        { DTYPE_Q5_0, 0x129d609f070c1f25 },    { DTYPE_Q5_1, 0x8d7de15495b23533 },
        { DTYPE_Q8_0, 0x21fd51f7b91125e5 },    { DTYPE_Q2_K, 0xcc27b10bc541652f },
        { DTYPE_Q3_K, 0x1e0a30f46ebdd5e5 },    { DTYPE_Q4_K, 0xd299a9d7a222610c },
        { DTYPE_Q5_K, 0x0e7d4f799056852e },    { DTYPE_Q6_K, 0xf9cca2b6876489c7 },
        { DTYPE_IQ2_XXS, 0x91b4b00a5fa6761d }, { DTYPE_IQ2_XS, 0x3800927b81b048d9 },
        { DTYPE_IQ3_XXS, 0x456584a8c9e662f5 }, { DTYPE_IQ1_S, 0x0c4dbec5f6830025 },
        { DTYPE_IQ4_NL, 0x196f0fd677cb14e5 },  { DTYPE_IQ3_S, 0xc6aa649830e57845 },
        { DTYPE_IQ2_S, 0x0a253c6ee6b7da81 },   { DTYPE_IQ4_XS, 0x27ba2d2e45ebe97b },
        { DTYPE_IQ1_M, 0x60e4a37967f07b05 },   { DTYPE_TQ1_0, 0xd8350dd2aacd6325 },
        { DTYPE_TQ2_0, 0x30ae12f8cf6a2325 },   { DTYPE_MXFP4, 0x08ceb85853aec325 },
        { DTYPE_NVFP4, 0x33f06fc8feef6325 },   { DTYPE_Q1_0, 0x8a46794c6f7d2325 },
        { DTYPE_Q2_0, 0x33351d434a88e325 },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t sum = sum_of_random_blocks((uint32_t)known[i].type, src, dst);
        if (sum != known[i].sum)
            fail_msg("{DTYPE_%s, 0x%016llx},", dtype_find((uint32_t)known[i].type)->name,
                     (unsigned long long)sum);
    }
}

static void test_golden_blocks_to_the_bit(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (uint32_t type = 0; type < DTYPE_COUNT; type++) {
        char name[64];
        size_t bytes, want_bytes;
        const struct dtype_info *info = dtype_find(type);
        if (info == NULL)
            continue;
        snprintf(name, sizeof name, "dequant/%s.blocks", info->name);
        uint8_t *src = golden_read(name, &bytes);
        if (src == NULL)
            continue;
        snprintf(name, sizeof name, "dequant/%s.f32", info->name);
        uint8_t *want = golden_read(name, &want_bytes);
        assert_non_null(want);
        size_t elems = bytes / info->block_bytes * info->block_elems;
        assert_int_equal(bytes % info->block_bytes, 0);
        assert_int_equal(want_bytes, elems * sizeof(float));
        float *got = malloc(want_bytes);
        assert_non_null(got);
        dequant_row((enum dtype)type, src, got, elems);
        for (size_t i = 0; i < elems; i++)
            if (memcmp(&got[i], want + 4 * i, 4) != 0)
                fail_msg("%s element %zu is %a", info->name, i, (double)got[i]);
        free(got);
        free(want);
        free(src);
        found++;
    }
    if (found == 0)
        skip(); /* no ../shared/golden/dequant */
    assert_int_equal(found, 27);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_blocks_by_hand),
        cmocka_unit_test(test_q4_k_block_by_hand),
        cmocka_unit_test(test_q6_k_block_by_hand),
        cmocka_unit_test(test_plain_formats),
        cmocka_unit_test(test_code_books_are_whole),
        cmocka_unit_test(test_random_blocks_keep_their_values),
        cmocka_unit_test(test_golden_blocks_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
