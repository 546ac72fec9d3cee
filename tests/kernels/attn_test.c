/* SPDX-License-Identifier: MIT */
/* attn - attention of every level against the reference, bit for bit: head widths, group sizes,
 * rows and positions around block and split edges, over scattered blocks in a pool that is NaN
 * wherever nothing was appended. Then rows together against rows alone, and the reference against
 * double. */
#include "tests/unit/test.h"

#include <math.h>

#include "kernels/f16.h"
#include "kernels/kernels.h"
#include "tests/kernels/guard.h"

#define KEYS_MAX 1024u
#define BLOCKS (KEYS_MAX / KV_BLOCK_TOKENS)
#define DIM_MAX 512u

struct stage {
    struct guard pool, work, queries;
    uint32_t blocks[BLOCKS]; /* a permutation */
    size_t block_bytes;
    uint32_t head_dim;
};

static struct stage stage;

static uint16_t *head_of(uint32_t pos)
{
    uint8_t *pool = guard_tail(&stage.pool, BLOCKS * stage.block_bytes);
    return (uint16_t *)(void *)(pool + stage.blocks[pos / KV_BLOCK_TOKENS] * stage.block_bytes);
}

static uint16_t *key_at(uint32_t pos, uint32_t d)
{
    return head_of(pos) + d * KV_BLOCK_TOKENS + pos % KV_BLOCK_TOKENS;
}

static uint16_t *value_at(uint32_t pos, uint32_t d)
{
    return head_of(pos) + (KV_BLOCK_TOKENS + pos % KV_BLOCK_TOKENS) * stage.head_dim + d;
}

/* Positions 0 .. keys - 1 are appended, all else is NaN. */
static void fill_pool(struct dice *d, uint32_t head_dim, uint32_t keys)
{
    stage.head_dim = head_dim;
    stage.block_bytes = (size_t)2 * KV_BLOCK_TOKENS * head_dim * sizeof(uint16_t);
    memset(stage.pool.base, 0xff, stage.pool.bytes);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t j = dice_below(d, i + 1);
        stage.blocks[i] = stage.blocks[j];
        stage.blocks[j] = i;
    }
    for (uint32_t pos = 0; pos < keys; pos++) {
        for (uint32_t i = 0; i < head_dim; i++) {
            *key_at(pos, i) = f32_to_f16(dice_float(d) * 2);
            *value_at(pos, i) = f32_to_f16(dice_float(d));
        }
    }
}

static void run(const struct kernels *k, const struct attn *a)
{
    struct attn_work w;
    memset(stage.work.base, 0xcb, stage.work.bytes);
    attn_work_open(&w, a->head_dim, guard_tail(&stage.work, attn_work_bytes(a->head_dim)));
    attn_run(&k->attn, a, &w);
}

static struct attn make_task(uint32_t rows, uint32_t heads, uint32_t pos)
{
    return (struct attn){ .kv = guard_tail(&stage.pool, BLOCKS * stage.block_bytes),
                          .block_bytes = stage.block_bytes,
                          .blocks = stage.blocks,
                          .head_dim = stage.head_dim,
                          .row_count = rows,
                          .head_count = heads,
                          .pos_begin = pos,
                          .scale = 1.0f / sqrtf((float)stage.head_dim),
                          .stride = (size_t)heads * stage.head_dim };
}

static float out[2][ATTN_COLS_MAX * DIM_MAX + 16];

static void compare(const struct kernels *ref, const struct kernels *k, struct dice *d,
                    uint32_t rows, uint32_t heads, uint32_t pos)
{
    size_t n = (size_t)rows * heads * stage.head_dim;
    float *q = (float *)(void *)guard_tail(&stage.queries, n * sizeof *q);
    for (size_t i = 0; i < n; i++)
        q[i] = dice_float(d) * 3;
    memset(out, 0xab, sizeof out);
    struct attn a = make_task(rows, heads, pos);
    a.q = q;
    a.out = out[0];
    run(ref, &a);
    a.out = out[1];
    run(k, &a);
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(out[0][i]));
    if (memcmp(out[0], out[1], sizeof out[0]) != 0)
        fail_msg("head_dim %u, %u rows from %u, %u heads: not the reference's bits", stage.head_dim,
                 rows, pos, heads);
}

static void test_attn_levels_equal_reference(void **state)
{
    (void)state;
    static const uint32_t dims[] = { 16, 24, 40, 64, 80, 96, 112, 128, 256, 512 };
    static const uint32_t shapes[][2] = { { 1, 1 }, { 1, 2 },  { 1, 3 }, { 1, 4 },  { 1, 5 },
                                          { 1, 7 }, { 1, 8 },  { 1, 9 }, { 2, 3 },  { 3, 4 },
                                          { 5, 1 }, { 10, 3 }, { 4, 8 }, { 32, 1 }, { 1, 32 } };
    static const uint32_t positions[] = { 0,   1,   15,  30,  31,  32,  33,
                                          250, 255, 256, 257, 300, 511, 600 };
    struct kernels ref;
    kernels_open(&ref, ISA_SCALAR);
    uint32_t levels = 0;
    for (int isa = ISA_AVX2; isa < ISA_COUNT; isa++) {
        if (!isa_usable((enum isa)isa))
            continue;
        struct kernels k;
        struct dice d = { 21 };
        kernels_open(&k, (enum isa)isa);
        levels++;
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i += few_shapes() ? 2 : 1) {
            /* Wide heads take few shapes: the reference is slow. */
            const size_t step = dims[i] > 96 || few_shapes() ? 3 : 1;
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s += step) {
                uint32_t pos = positions[(i * 5 + s) % (sizeof positions / sizeof *positions)];
                fill_pool(&d, dims[i], pos + shapes[s][0]);
                compare(&ref, &k, &d, shapes[s][0], shapes[s][1], pos);
            }
        }
        for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
            fill_pool(&d, 16, positions[p] + 8);
            compare(&ref, &k, &d, 8, 3, positions[p]);
            compare(&ref, &k, &d, 1, 3, positions[p]);
        }
    }
    if (levels == 0)
        skip();
}

/* A row's bits do not depend on the rows and heads that it is computed with. */
static void test_attn_rows_alone(void **state)
{
    (void)state;
    struct kernels k;
    struct dice d = { 5 };
    kernels_open(&k, cpu_isa());
    fill_pool(&d, 64, 300);
    static float q[10 * 3 * 64], alone[64];
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = dice_float(&d) * 3;
    for (uint32_t pos = 240; pos <= 290; pos += 5) {
        struct attn a = make_task(10, 3, pos);
        a.q = q;
        a.out = out[0];
        run(&k, &a);
        for (uint32_t c = 0; c < 30; c++) {
            struct attn one = make_task(1, 1, pos + c / 3);
            one.q = q + c * 64;
            one.out = alone;
            run(&k, &one);
            assert_memory_equal(alone, out[0] + c * 64, sizeof alone);
        }
    }
}

/* In place: the result may go where the query was. */
static void test_attn_in_place(void **state)
{
    (void)state;
    struct kernels k;
    struct dice d = { 6 };
    kernels_open(&k, cpu_isa());
    fill_pool(&d, 64, 600);
    static float q[4 * 64];
    for (size_t i = 0; i < 256; i++)
        q[i] = dice_float(&d);
    struct attn a = make_task(2, 2, 598);
    a.q = q;
    a.out = out[0];
    run(&k, &a);
    a.out = q;
    run(&k, &a);
    assert_memory_equal(q, out[0], sizeof q);
}

static void test_attn_reference_is_attention(void **state)
{
    (void)state;
    struct kernels ref;
    struct dice d = { 9 };
    kernels_open(&ref, ISA_SCALAR);
    fill_pool(&d, 32, 700);
    static float q[32];
    static double p[700];
    for (uint32_t pos = 0; pos < 700; pos += 131) {
        for (uint32_t i = 0; i < 32; i++)
            q[i] = dice_float(&d) * 4;
        struct attn a = make_task(1, 1, pos);
        a.q = q;
        a.out = out[0];
        run(&ref, &a);
        double sum = 0;
        for (uint32_t k = 0; k <= pos; k++) {
            p[k] = 0;
            for (uint32_t i = 0; i < 32; i++)
                p[k] += (double)q[i] * (double)f16_to_f32(*key_at(k, i)) / sqrt(32);
            p[k] = exp(p[k]);
            sum += p[k];
        }
        for (uint32_t i = 0; i < 32; i++) {
            double right = 0;
            for (uint32_t k = 0; k <= pos; k++)
                right += p[k] / sum * (double)f16_to_f32(*value_at(k, i));
            assert_true(fabs((double)out[0][i] - right) < 2e-6);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    guard_open(&stage.pool, (size_t)BLOCKS * 2 * KV_BLOCK_TOKENS * DIM_MAX * sizeof(uint16_t));
    guard_open(&stage.work, attn_work_bytes(DIM_MAX));
    guard_open(&stage.queries, (size_t)ATTN_COLS_MAX * DIM_MAX * sizeof(float));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    guard_close(&stage.pool);
    guard_close(&stage.work);
    guard_close(&stage.queries);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attn_levels_equal_reference),
        cmocka_unit_test(test_attn_rows_alone),
        cmocka_unit_test(test_attn_in_place),
        cmocka_unit_test(test_attn_reference_is_attention),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
