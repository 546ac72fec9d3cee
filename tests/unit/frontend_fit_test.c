/* SPDX-License-Identifier: MIT */
/* Tests of frontend/fit: worked anchors, and the three verdicts at their boundaries. */
#include "tests/unit/test.h"

#include <math.h>

#include "frontend/fit.h"

#define MIB (1ull << 20)

/* 1.1B parameters in Q4_K: 22 layers, 4 KV heads of 64, f16. */
static struct fit_input anchor(void)
{
    return (struct fit_input){ .machine = { 4096 * MIB, 100e6, 10e9, 100e9 },
                               .file_bytes = 618750000,
                               .weight_bytes = 618750000,
                               .params = 1100000000,
                               .layers = 22,
                               .kv_heads = 4,
                               .head_dim = 64,
                               .key_bits = 512,
                               .value_bits = 512,
                               .scratch_bytes = 10 * MIB,
                               .ctx_tokens = 2048,
                               .users = 1 };
}

static void test_fit_anchor(void **state)
{
    (void)state;
    struct fit_input in = anchor();
    struct fit_result r;
    fit_compute(&r, &in);
    assert_int_equal(r.kv_token_bytes, 22 * 1024);
    assert_int_equal(r.kv_bytes, 44 * MIB);
    assert_int_equal(r.verdict, FIT_WHOLE);
    assert_int_equal(r.streamed_bytes, 0);
    in.key_bits = in.value_bits = 272; /* q8_0 */
    in.users = 3;
    fit_compute(&r, &in);
    assert_int_equal(r.kv_token_bytes, 22 * 4 * 64 * 2 * 34 / 32);
    assert_int_equal(r.kv_bytes, 3 * 2048 * r.kv_token_bytes);
}

/* Every byte of what is available is given to somebody, and a step reads the rest. */
static void test_fit_streams(void **state)
{
    (void)state;
    struct fit_input in = anchor();
    struct fit_result r;
    in.machine.available_bytes = 256 * MIB;
    fit_compute(&r, &in);
    assert_int_equal(r.verdict, FIT_STREAMED);
    assert_int_equal(r.pinned_bytes + r.slot_bytes + r.margin_bytes + r.kv_bytes + in.scratch_bytes,
                     256 * MIB);
    assert_int_equal(r.pinned_bytes + r.streamed_bytes, in.weight_bytes);
    assert_string_equal(r.bound, "disk");
    double seconds = (double)r.streamed_bytes / 100e6;
    assert_true(fabs(r.step_s - seconds) < 1e-9);
    in.users = 2; /* one pass serves both, but their cache takes weights' place */
    double before = r.tokens_s;
    fit_compute(&r, &in);
    assert_true(r.tokens_s > 1.5 * before && r.tokens_s < 2 * before);
}

static void test_fit_boundaries(void **state)
{
    (void)state;
    for (enum fit_verdict wanted = FIT_WHOLE; wanted < FIT_NOT; wanted++) {
        struct fit_input in = anchor();
        struct fit_result r;
        uint64_t low = 0, high = 4096 * MIB; /* low is too little */
        while (high - low > 1) {
            in.machine.available_bytes = low + (high - low) / 2;
            fit_compute(&r, &in);
            *(r.verdict <= wanted ? &high : &low) = in.machine.available_bytes;
        }
        in.machine.available_bytes = high;
        assert_int_equal(fit_ctx(&in, wanted), 2048);
        assert_int_equal(fit_users(&in, wanted), 1);
        in.machine.available_bytes = low;
        fit_compute(&r, &in);
        assert_int_equal(r.verdict, wanted + 1);
        assert_int_equal(fit_ctx(&in, wanted), 2048 - 32);
        assert_int_equal(fit_users(&in, wanted), 0);
        if (wanted == FIT_STREAMED)
            assert_int_equal(r.missing_bytes, 1);
    }
}

static void test_fit_devices(void **state)
{
    (void)state;
    assert_null(fit_device("pi-9"));
    for (size_t i = 0; fit_device_at(i) != NULL; i++) {
        const struct fit_device *d = fit_device_at(i);
        assert_ptr_equal(fit_device(d->name), d);
        assert_true(fit_system_bytes(d->ram_bytes) < d->ram_bytes / 2);
        assert_true(d->machine.disk_bytes_s > 0 && d->machine.macs_s > 0);
    }
}

static struct fit_result on_board(const char *name, uint32_t users)
{
    struct fit_input in = anchor();
    struct fit_result r;
    const struct fit_device *d = fit_device(name);
    in.machine = d->machine;
    in.machine.available_bytes = d->ram_bytes - fit_system_bytes(d->ram_bytes);
    in.users = users;
    fit_compute(&r, &in);
    return r;
}

/* Worked by hand from the figures in docs/MEMORY.md. */
static void test_fit_worked_boards(void **state)
{
    (void)state;
    /* 240 MiB, of which the system keeps 40. Of 200: KV 44, scratch 10, margin 12 + 200 / 64,
     * 11 buffers of 1 + 1 / 16; so 119.1875 stay for weights, and 493,772,848 bytes of 618,750,000
     * come from a card of 10.7 MB/s. */
    struct fit_result r = on_board("licheerv-nano", 1);
    assert_int_equal(r.verdict, FIT_STREAMED);
    assert_int_equal(r.slot_bytes, 11 * (MIB + MIB / 16));
    assert_int_equal(r.pinned_bytes, 119 * MIB + MIB * 3 / 16);
    assert_int_equal(r.streamed_bytes, 493772848);
    assert_true(fabs(r.step_s - 493772848 / 10.7e6) < 1e-6);
    assert_string_equal(r.bound, "disk");
    /* All of it from memory at 11.4 GB/s, half of a context of 22 KiB a token beside it. */
    r = on_board("pi-5", 1);
    assert_int_equal(r.verdict, FIT_WHOLE);
    assert_true(fabs(r.tokens_s - 11.4e9 / (618750000 + 1024 * 22528.0)) < 1e-9);
    assert_string_equal(r.bound, "memory");
    /* With 8 users products take longest: 1.1e9 of each, 50e9 a second. */
    r = on_board("pi-5-nvme", 8);
    assert_true(fabs(r.tokens_s - 50e9 / 1.1e9) < 1e-9);
    assert_string_equal(r.bound, "arithmetic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit_anchor),
        cmocka_unit_test(test_fit_streams),
        cmocka_unit_test(test_fit_boundaries),
        cmocka_unit_test(test_fit_devices),
        cmocka_unit_test(test_fit_worked_boards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
