/* SPDX-License-Identifier: MIT */
/* attn - attention of every level against the reference, bit for bit, for every pair of cache
 * types: head widths, group sizes, rows and positions around block and split edges, rows of
 * sequences that share blocks, over scattered blocks in a pool that is NaN wherever nothing was
 * appended; inputs that are not finite, zero or subnormal. Then rows together against rows alone,
 * splits made apart, the reference against double, and what quantized tiles hold. */
#include "tests/unit/test.h"

#include <math.h>

#include "kernels/act.h"
#include "kernels/f16.h"
#include "kernels/kernels.h"
#include "tests/kernels/guard.h"

#define KEYS_MAX 1024u
#define BLOCKS (KEYS_MAX / KV_BLOCK_TOKENS)
#define DIM_MAX 512u
#define CANARY 16u /* floats on either side of a row's output */
#define OUT_ROW (ATTN_COLS_MAX * DIM_MAX + 2 * CANARY)

struct stage {
    struct guard pool, work, queries, rows;
    uint32_t blocks[BLOCKS]; /* a permutation */
    struct kv_types types;
    size_t block_bytes, value_offset;
    uint32_t head_dim;
    bool wild; /* appended vectors and queries may hold anything */
};

static struct stage stage;
static float out[2][OUT_ROW];
static struct attn_row rows[ATTN_COLS_MAX];

static uint8_t *pool(void)
{
    return guard_tail(&stage.pool, BLOCKS * stage.block_bytes);
}

static uint8_t *head_of(const uint32_t *blocks, uint32_t pos)
{
    return pool() + blocks[pos / KV_BLOCK_TOKENS] * stage.block_bytes;
}

static float some(struct dice *d)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1e-40f, -6e-8f, 65504.0f };
    if (stage.wild && dice_below(d, 60) == 0)
        return odd[dice_below(d, 8)];
    return dice_float(d) * 2;
}

/* One token's key and value. A wild vector is zero now and then. */
static void append(struct dice *d, const uint32_t *blocks, uint32_t pos)
{
    const uint32_t n = stage.head_dim, token = pos % KV_BLOCK_TOKENS;
    float x[2][DIM_MAX];
    for (int which = 0; which < 2; which++) {
        bool zero = stage.wild && dice_below(d, 8) == 0;
        for (uint32_t i = 0; i < n; i++)
            x[which][i] = zero ? 0 : some(d);
    }
    uint8_t *keys = head_of(blocks, pos), *values = keys + stage.value_offset;
    for (uint32_t i = 0; i < n; i++) {
        if (stage.types.k == KV_F16)
            ((uint16_t *)(void *)keys)[i * KV_BLOCK_TOKENS + token] = f32_to_f16(x[0][i]);
        if (stage.types.v == KV_F16)
            ((uint16_t *)(void *)values)[token * n + i] = f32_to_f16(x[1][i]);
    }
    if (stage.types.k != KV_F16)
        kv_append_key(stage.types.k, keys, n, token, x[0]);
    if (stage.types.v != KV_F16)
        kv_append_value(stage.types.v, values, n, token, x[1]);
}

/* Positions 0 .. keys - 1 are appended, all else is NaN. */
static void fill_pool(struct dice *d, struct kv_types types, uint32_t head_dim, uint32_t keys)
{
    stage.types = types;
    stage.head_dim = head_dim;
    stage.value_offset = kv_tile_bytes(types.k, head_dim);
    stage.block_bytes = stage.value_offset + kv_tile_bytes(types.v, head_dim);
    memset(stage.pool.base, 0xff, stage.pool.bytes);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t j = dice_below(d, i + 1);
        stage.blocks[i] = stage.blocks[j];
        stage.blocks[j] = i;
    }
    for (uint32_t pos = 0; pos < keys; pos++)
        append(d, stage.blocks, pos);
}

static void run(const struct kernels *k, const struct attn *a)
{
    struct attn_work w;
    struct attn with = *a; /* its rows at the end of a page */
    size_t bytes = a->row_count * sizeof *a->rows;
    with.rows = memcpy(guard_tail(&stage.rows, bytes), a->rows, bytes);
    memset(stage.work.base, 0xcb, stage.work.bytes);
    attn_work_open(&w, a->head_dim, guard_tail(&stage.work, attn_work_bytes(a->head_dim)));
    attn_run(&k->attn, &with, &w);
}

static size_t query_bytes(uint32_t heads)
{
    if (stage.types.k == KV_F16)
        return (size_t)heads * stage.head_dim * sizeof(float);
    return heads * (stage.head_dim / KV_GROUP) * sizeof(struct act_q8_32);
}

/* Rows of one sequence from pos on, their queries at the end of a page. */
static struct attn make_task(const struct kernels *k, struct dice *d, uint32_t count,
                             uint32_t heads, uint32_t pos)
{
    const uint32_t n = heads * stage.head_dim;
    uint8_t *q = guard_tail(&stage.queries, count * query_bytes(heads));
    for (uint32_t r = 0; r < count; r++, q += query_bytes(heads)) {
        static float x[ATTN_COLS_MAX * DIM_MAX];
        for (uint32_t i = 0; i < n; i++)
            x[i] = some(d) * 1.5f;
        if (stage.types.k == KV_F16)
            memcpy(q, x, n * sizeof *x);
        else
            k->matmul.quantize[ACT_Q8_32](q, x, n);
        rows[r] = (struct attn_row){ .blocks = stage.blocks, .pos = pos + r, .q = q };
    }
    return (struct attn){ .kv = pool(),
                          .block_bytes = stage.block_bytes,
                          .value_offset = stage.value_offset,
                          .types = stage.types,
                          .head_dim = stage.head_dim,
                          .row_count = count,
                          .head_count = heads,
                          .scale = 1.0f / sqrtf((float)stage.head_dim),
                          .rows = rows };
}

/* Row r's output in one of two places; rows lie apart by a canary. */
static void run_into(const struct kernels *k, struct attn *a, float *dst)
{
    memset(dst, 0xab, OUT_ROW * sizeof *dst);
    for (uint32_t r = 0; r < a->row_count; r++)
        rows[r].out = dst + CANARY + r * (size_t)(OUT_ROW - 2 * CANARY) / a->row_count / 8 * 8;
    run(k, a);
}

static void compare(const struct kernels *ref, const struct kernels *k, struct attn *a,
                    const char *what)
{
    run_into(ref, a, out[0]);
    run_into(k, a, out[1]);
    for (size_t i = 0; i < OUT_ROW; i++) {
        bool nan = isnan(out[0][i]) && isnan(out[1][i]);
        if (memcmp(&out[0][i], &out[1][i], sizeof out[0][i]) != 0 && !(nan && stage.wild))
            fail_msg("%s: keys %s, values %s, head_dim %u, %u rows from %u, %u heads: element %zu "
                     "is %a, the reference has %a",
                     what, kv_type_name(stage.types.k), kv_type_name(stage.types.v), stage.head_dim,
                     a->row_count, a->rows[0].pos, a->head_count, i, (double)out[1][i],
                     (double)out[0][i]);
    }
    if (stage.wild)
        return;
    for (uint32_t r = 0; r < a->row_count; r++)
        for (uint32_t i = 0; i < a->head_count * a->head_dim; i++)
            assert_true(isfinite(a->rows[r].out[i]));
}

static const uint32_t dims[] = { 16, 24, 40, 64, 80, 96, 112, 128, 256, 512 };
static const uint32_t shapes[][2] = { { 1, 1 }, { 1, 2 },  { 1, 3 }, { 1, 4 },  { 1, 5 },
                                      { 1, 7 }, { 1, 8 },  { 1, 9 }, { 2, 3 },  { 3, 4 },
                                      { 5, 1 }, { 10, 3 }, { 4, 8 }, { 32, 1 }, { 1, 32 } };
static const uint32_t positions[] = { 0, 1, 15, 30, 31, 32, 33, 250, 255, 256, 257, 300, 511, 600 };
#define COUNT(list) (sizeof(list) / sizeof *(list))

static void compare_shapes(const struct kernels *ref, const struct kernels *k,
                           struct kv_types types)
{
    struct dice d = { 21 };
    bool quantized = types.k != KV_F16 || types.v != KV_F16, mixed = types.k != types.v;
    const size_t few = few_shapes() ? 2 : 1;
    for (size_t i = 0; i < COUNT(dims); i += few) {
        if (quantized && dims[i] % KV_GROUP != 0)
            continue;
        /* Wide heads take few shapes: the reference is slow. */
        for (size_t s = i % 3; s<COUNT(shapes); s += dims[i]> 96 || mixed ? 3 : 1) {
            uint32_t pos = positions[(i * 5 + s) % COUNT(positions)];
            fill_pool(&d, types, dims[i], pos + shapes[s][0]);
            struct attn a = make_task(k, &d, shapes[s][0], shapes[s][1], pos);
            compare(ref, k, &a, "shapes");
        }
    }
    for (size_t p = 0; p < COUNT(positions); p += mixed ? 3 * few : few) {
        fill_pool(&d, types, 32, positions[p] + 8);
        struct attn a = make_task(k, &d, 8, 3, positions[p]);
        compare(ref, k, &a, "positions");
        a = make_task(k, &d, 1, 3, positions[p]);
        compare(ref, k, &a, "positions");
    }
}

/* Sequences with some leading blocks in common, then blocks of their own; of any length, in any
 * order. Row r shares with its neighbour as many blocks as dice say. */
static void compare_shared(const struct kernels *ref, const struct kernels *k,
                           struct kv_types types)
{
    static uint32_t tables[8][BLOCKS];
    struct dice d = { 31 };
    fill_pool(&d, types, 64, 0);
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t used = 0, begin = 0;
        memset(stage.pool.base, 0xff, stage.pool.bytes);
        struct attn a = make_task(k, &d, 8, 1 + round % 4, 0);
        for (uint32_t r = 0; r < 8; r++) {
            uint32_t shared = r == 0 ? 0 : dice_below(&d, 13);
            uint32_t have = r == 0 ? 0 : (rows[r - 1].pos + 1) / KV_BLOCK_TOKENS;
            begin = shared < have ? shared : have;
            memcpy(tables[r], tables[r > 0 ? r - 1 : 0], begin * sizeof **tables);
            uint32_t count = begin + 1 + dice_below(&d, r == 0 ? 10 : 3);
            for (uint32_t b = begin; b < count; b++)
                tables[r][b] = stage.blocks[used++ % BLOCKS];
            rows[r].blocks = tables[r];
            rows[r].pos = (count - 1) * KV_BLOCK_TOKENS + dice_below(&d, KV_BLOCK_TOKENS);
            for (uint32_t pos = begin * KV_BLOCK_TOKENS; pos <= rows[r].pos; pos++)
                append(&d, tables[r], pos);
        }
        assert_true(used <= BLOCKS);
        compare(ref, k, &a, "shared");
    }
}

static void compare_wild(const struct kernels *ref, const struct kernels *k, struct kv_types types)
{
    struct dice d = { 41 };
    stage.wild = true;
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t pos = positions[round % COUNT(positions)] % 300;
        fill_pool(&d, types, round % 2 == 0 ? 32 : 64, pos + 4);
        struct attn a = make_task(k, &d, 1 + round % 4, 1 + round % 3, pos);
        compare(ref, k, &a, "wild");
    }
    stage.wild = false;
}

static void test_attn_levels_equal_reference(void **state)
{
    (void)state;
    struct kernels ref;
    kernels_open(&ref, ISA_SCALAR);
    uint32_t levels = 0;
    for (int isa = ISA_AVX2; isa < ISA_COUNT; isa++) {
        if (!isa_usable((enum isa)isa))
            continue;
        struct kernels k;
        kernels_open(&k, (enum isa)isa);
        levels++;
        for (int pair = 0; pair < KV_TYPES * KV_TYPES; pair++) {
            struct kv_types types = { (enum kv_type)(pair / KV_TYPES),
                                      (enum kv_type)(pair % KV_TYPES) };
            compare_shapes(&ref, &k, types);
            compare_shared(&ref, &k, types);
            compare_wild(&ref, &k, types);
        }
    }
    if (levels == 0)
        skip();
}

/* A row's bits do not depend on the rows and heads that it is computed with; and blocks that rows
 * hold in common are read once. */
static void test_attn_rows_alone(void **state)
{
    (void)state;
    struct kernels k;
    struct dice d = { 5 };
    static struct attn_row together[10];
    static float alone[64];
    kernels_open(&k, cpu_isa());
    for (int type = 0; type < KV_TYPES; type++) {
        struct kv_types types = { (enum kv_type)type, (enum kv_type)type };
        fill_pool(&d, types, 64, 300);
        for (uint32_t pos = 240; pos <= 290; pos += 5) {
            struct attn a = make_task(&k, &d, 10, 3, pos);
            run_into(&k, &a, out[0]);
            memcpy(together, rows, sizeof together);
            assert_int_equal(attn_split_reads(&a, 0), 8);
            assert_int_equal(attn_split_reads(&a, 1),
                             pos + 9 < 256 ? 0 : (pos + 9) / KV_BLOCK_TOKENS - 7);
            for (uint32_t c = 0; c < 30; c++) {
                struct attn one = a;
                one.row_count = one.head_count = 1;
                rows[0] = together[c / 3];
                rows[0].q = (const uint8_t *)rows[0].q + c % 3 * query_bytes(1);
                rows[0].out = alone;
                run(&k, &one);
                assert_memory_equal(alone, together[c / 3].out + c % 3 * 64, sizeof alone);
            }
        }
    }
}

/* In place: the result may go where the query was. */
static void test_attn_in_place(void **state)
{
    (void)state;
    struct kernels k;
    struct dice d = { 6 };
    static float q[2 * 128], right[2][128];
    kernels_open(&k, cpu_isa());
    fill_pool(&d, (struct kv_types){ KV_F16, KV_F16 }, 64, 600);
    struct attn a = make_task(&k, &d, 2, 2, 598);
    run_into(&k, &a, out[0]);
    for (uint32_t r = 0; r < 2; r++) {
        memcpy(right[r], rows[r].out, sizeof right[r]);
        memcpy(q + r * 128, rows[r].q, sizeof right[r]);
        rows[r].q = rows[r].out = q + r * 128;
    }
    run(&k, &a);
    assert_memory_equal(q, right, sizeof right);
}

/* Splits made into parts of their own and taken one after another, as workers that share a task do:
 * the same bits. Rows lie on either side of a split's edge. */
static void test_attn_splits_apart(void **state)
{
    (void)state;
    struct kernels k;
    struct dice d = { 7 };
    const size_t bytes = attn_part_bytes(32, ATTN_COLS_MAX);
    uint8_t *mem = aligned_alloc(64, 2 * bytes);
    assert_non_null(mem);
    kernels_open(&k, cpu_isa());
    for (int type = 0; type < KV_TYPES; type++) {
        fill_pool(&d, (struct kv_types){ (enum kv_type)type, (enum kv_type)type }, 32, 800);
        for (uint32_t pos = 500; pos <= 780; pos += 20) {
            struct attn a = make_task(&k, &d, 15, 2, pos);
            struct attn_work w;
            struct attn_part acc, part;
            attn_work_open(&w, 32, guard_tail(&stage.work, attn_work_bytes(32)));
            attn_part_open(&acc, 32, ATTN_COLS_MAX, mem);
            attn_part_open(&part, 32, ATTN_COLS_MAX, mem + bytes);
            run_into(&k, &a, out[0]);
            memset(mem, 0xcb, 2 * bytes);
            for (uint32_t s = 0; s < attn_split_count(&a); s++) {
                k.attn.split(&a, s, &w, &part);
                attn_take(&k.attn, &a, s, &acc, &part);
            }
            for (uint32_t r = 0; r < 15; r++)
                rows[r].out += out[1] - out[0];
            memset(out[1], 0xab, sizeof out[1]);
            attn_store(&k.attn, &a, &acc);
            assert_memory_equal(out[0], out[1], sizeof out[0]);
        }
    }
    free(mem);
}

/* Dimension i of a key or value as its tile has it. */
static double stored(uint32_t pos, uint32_t i, bool value)
{
    enum kv_type type = value ? stage.types.v : stage.types.k;
    const uint8_t *tile = head_of(stage.blocks, pos) + (value ? stage.value_offset : 0);
    uint32_t token = pos % KV_BLOCK_TOKENS, n = stage.head_dim;
    const uint16_t *half = (const uint16_t *)(const void *)tile;
    if (type == KV_F16)
        return (double)f16_to_f32(half[value ? token * n + i : i * KV_BLOCK_TOKENS + token]);
    uint32_t byte = type == KV_Q8_0 ? i : i / 32 * 16 + i % 16, row = type == KV_Q8_0 ? n : n / 2;
    uint8_t code =
        tile[value ? token * row + byte : byte / 4 * 4 * KV_BLOCK_TOKENS + 4 * token + byte % 4];
    int q = type == KV_Q8_0 ? (int8_t)code : (i % 32 < 16 ? code & 15 : code >> 4) - 8;
    const uint16_t *scales = half + kv_codes_bytes(type, n) / 2;
    return q * (double)f16_to_f32(scales[i / 32 * KV_BLOCK_TOKENS + token]);
}

static void test_attn_reference_is_attention(void **state)
{
    (void)state;
    struct kernels ref;
    struct dice d = { 9 };
    static double p[700];
    kernels_open(&ref, ISA_SCALAR);
    for (int pair = 0; pair < KV_TYPES * KV_TYPES; pair++) {
        fill_pool(
            &d,
            (struct kv_types){ (enum kv_type)(pair / KV_TYPES), (enum kv_type)(pair % KV_TYPES) },
            32, 700);
        for (uint32_t pos = 0; pos < 700; pos += 131) {
            struct attn a = make_task(&ref, &d, 1, 1, pos);
            run_into(&ref, &a, out[0]);
            double sum = 0;
            for (uint32_t k = 0; k <= pos; k++) {
                p[k] = 0;
                for (uint32_t i = 0; i < 32; i++) {
                    const struct act_q8_32 *q8 = rows[0].q;
                    double q = stage.types.k != KV_F16
                                   ? (double)q8->d * q8->q[i]
                                   : (double)((const float *)rows[0].q)[i] / sqrt(32);
                    p[k] += q * stored(k, i, false);
                }
                p[k] = exp(p[k]);
                sum += p[k];
            }
            for (uint32_t i = 0; i < 32; i++) {
                double right = 0;
                for (uint32_t k = 0; k <= pos; k++)
                    right += p[k] / sum * stored(k, i, true);
                assert_true(fabs((double)rows[0].out[i] - right) < 2e-5);
            }
        }
    }
}

/* What is appended stays within half a step of what it was, at any place, and moves no neighbour; a
 * group with NaN or Inf becomes NaN and stays alone. */
static void test_attn_tiles_hold_values(void **state)
{
    (void)state;
    struct dice d = { 15 };
    for (int type = KV_Q8_0; type < KV_TYPES; type++) {
        float x[128];
        fill_pool(&d, (struct kv_types){ (enum kv_type)type, (enum kv_type)type }, 128, 32);
        for (uint32_t token = 0; token < 32; token += 3) {
            static double before[32][128][2];
            uint8_t *keys = head_of(stage.blocks, token);
            for (uint32_t i = 0; i < 128; i++)
                x[i] = dice_float(&d);
            x[40] = token % 2 == 0 ? NAN : INFINITY;
            for (uint32_t i = 0; i < 32 * 128; i++)
                for (int value = 0; value < 2; value++)
                    before[i / 128][i % 128][value] = stored(i / 128, i % 128, value == 1);
            kv_append_key((enum kv_type)type, keys, 128, token, x);
            kv_append_value((enum kv_type)type, keys + stage.value_offset, 128, token, x);
            for (uint32_t i = 0; i < 2 * 32 * 128; i++) {
                uint32_t of = i / 2 / 128, dim = i / 2 % 128, value = i % 2;
                double found = stored(of, dim, value == 1);
                if (of != token)
                    assert_memory_equal(&found, &before[of][dim][value], sizeof found);
                else if (dim / 32 == 1)
                    assert_true(isnan(found));
                else
                    assert_true(fabs(found - (double)x[dim]) <=
                                (type == KV_Q8_0 ? 0.57 / 127 : 0.126));
            }
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    guard_open(&stage.pool, (size_t)BLOCKS * 2 * KV_BLOCK_TOKENS * DIM_MAX * sizeof(uint16_t));
    guard_open(&stage.work, attn_work_bytes(DIM_MAX));
    guard_open(&stage.queries, (size_t)ATTN_COLS_MAX * DIM_MAX * sizeof(float));
    guard_open(&stage.rows, sizeof rows);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    guard_close(&stage.pool);
    guard_close(&stage.work);
    guard_close(&stage.queries);
    guard_close(&stage.rows);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attn_levels_equal_reference),
        cmocka_unit_test(test_attn_rows_alone),
        cmocka_unit_test(test_attn_in_place),
        cmocka_unit_test(test_attn_splits_apart),
        cmocka_unit_test(test_attn_reference_is_attention),
        cmocka_unit_test(test_attn_tiles_hold_values),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
