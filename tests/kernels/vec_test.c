/* SPDX-License-Identifier: MIT */
/* vec - every level of the row-wise kernels against the reference, bit for bit, over lengths around
 * every lane count; inputs end at an unmapped page, outputs lie between canaries. Then the
 * reference itself against mathematics in double. */
#include "tests/unit/test.h"

#include <math.h>

#include "kernels/expf.h"
#include "kernels/kernels.h"
#include "kernels/mathd.h"
#include "tests/kernels/guard.h"

#define N_MAX 4200u
#define CANARY 0x7fc0dead

static const uint32_t lengths[] = { 2,   4,   6,   8,   10,  14,   16,   18,   22,   24,   26,  30,
                                    32,  34,  40,  48,  62,  64,   66,   96,   120,  128,  190, 200,
                                    256, 258, 286, 510, 576, 1000, 1536, 2048, 4096, 4104, 4200 };
#define LENGTHS (sizeof lengths / sizeof *lengths)

struct field {
    struct guard a, b, c;
    float *x, *y, *z; /* n floats each, up to an unmapped page */
    float out[2][N_MAX + 16];
};

static struct field field;

static void set_field(struct dice *d, uint32_t n, bool wild)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1e-40f, -1e-40f, 1e38f };
    field.x = (float *)(void *)guard_tail(&field.a, n * sizeof(float));
    field.y = (float *)(void *)guard_tail(&field.b, n * sizeof(float));
    field.z = (float *)(void *)guard_tail(&field.c, n * sizeof(float));
    for (uint32_t i = 0; i < n; i++) {
        field.x[i] = dice_float(d) * ldexpf(1, (int)dice_below(d, 12) - 4);
        field.y[i] = dice_float(d);
        field.z[i] = dice_float(d);
        if (wild && dice_below(d, 8) == 0)
            field.x[i] = odd[dice_below(d, 8)];
    }
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < N_MAX + 16; i++) {
            uint32_t bits = CANARY;
            memcpy(&field.out[k][i], &bits, sizeof bits);
        }
    }
}

/* Equal bits, or NaN on both sides. */
static void assert_same(const float *a, const float *b, uint32_t n, const char *what,
                        uint32_t length)
{
    for (uint32_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s, length %u: element %u is %a, the reference has %a", what, length, i,
                     (double)b[i], (double)a[i]);
    }
}

static void compare_floats(const struct vec_kernels *ref, const struct vec_kernels *k, uint32_t n)
{
    float *a = field.out[0] + 8, *b = field.out[1] + 8;
    ref->rms_norm(a, field.x, field.y, n, 1e-5f);
    k->rms_norm(b, field.x, field.y, n, 1e-5f);
    assert_same(field.out[0], field.out[1], N_MAX + 16, "rms_norm", n);
    ref->silu_mul(a, field.x, field.y, n);
    k->silu_mul(b, field.x, field.y, n);
    assert_same(field.out[0], field.out[1], N_MAX + 16, "silu_mul", n);
    ref->add_scaled(a, field.z, 0.3f, n);
    k->add_scaled(b, field.z, 0.3f, n);
    assert_same(field.out[0], field.out[1], N_MAX + 16, "add_scaled", n);
    memcpy(a, field.x, n * sizeof *a);
    memcpy(b, field.x, n * sizeof *b);
    ref->rope_pairs(a, field.y, field.z, n);
    k->rope_pairs(b, field.y, field.z, n);
    assert_same(field.out[0], field.out[1], N_MAX + 16, "rope_pairs", n);
    for (uint32_t size = 8; size <= n && n % size == 0; size *= 2) {
        memcpy(a, field.x, n * sizeof *a);
        memcpy(b, field.x, n * sizeof *b);
        ref->hadamard(a, n, size, 0.3f);
        k->hadamard(b, n, size, 0.3f);
        assert_same(field.out[0], field.out[1], N_MAX + 16, "hadamard", n);
    }
    ref->silu_mul(a, a, field.y, n);
    k->silu_mul(b, b, field.y, n);
    assert_same(field.out[0], field.out[1], N_MAX + 16, "silu_mul in place", n);
    ref->rms_norm(a, a, field.y, n, 1e-5f);
    k->rms_norm(b, b, field.y, n, 1e-5f);
    assert_same(field.out[0], field.out[1], N_MAX + 16, "rms_norm in place", n);
}

static void compare_others(const struct vec_kernels *ref, const struct vec_kernels *k, uint32_t n)
{
    struct vec_peak a, b;
    ref->peak(&a, field.x, n);
    k->peak(&b, field.x, n);
    assert_same(&a.max, &b.max, 1, "peak max", n);
    assert_same(&a.sum, &b.sum, 1, "peak sum", n);
    uint16_t half[2][N_MAX + 16];
    memset(half, 0xab, sizeof half);
    ref->to_f16(half[0] + 8, field.x, n);
    k->to_f16(half[1] + 8, field.x, n);
    assert_memory_equal(half[0], half[1], sizeof half[0]);
}

static void test_vec_levels_equal_reference(void **state)
{
    (void)state;
    struct kernels ref;
    kernels_open(&ref, ISA_SCALAR);
    uint32_t levels = 0;
    for (int isa = ISA_AVX2; isa < ISA_COUNT; isa++) {
        if (!isa_usable((enum isa)isa))
            continue;
        struct kernels k;
        struct dice d = { 7 };
        kernels_open(&k, (enum isa)isa);
        levels++;
        for (size_t i = 0; i < LENGTHS; i++) {
            for (int wild = 0; wild < 2; wild++) {
                set_field(&d, lengths[i], wild != 0);
                compare_floats(&ref.vec, &k.vec, lengths[i]);
                compare_others(&ref.vec, &k.vec, lengths[i]);
            }
        }
    }
    if (levels == 0)
        skip();
}

/* Lengths that are not even, where a kernel allows them. */
static void test_vec_odd_lengths(void **state)
{
    (void)state;
    struct kernels ref, k;
    struct dice d = { 11 };
    kernels_open(&ref, ISA_SCALAR);
    kernels_open(&k, cpu_isa());
    for (uint32_t n = 1; n < 130; n++) {
        set_field(&d, n, false);
        compare_others(&ref.vec, &k.vec, n);
        ref.vec.rms_norm(field.out[0] + 8, field.x, field.y, n, 1e-6f);
        k.vec.rms_norm(field.out[1] + 8, field.x, field.y, n, 1e-6f);
        assert_same(field.out[0], field.out[1], N_MAX + 16, "rms_norm", n);
    }
}

static void test_vec_f16_every_rounding(void **state)
{
    (void)state;
    struct kernels ref, k;
    kernels_open(&ref, ISA_SCALAR);
    kernels_open(&k, cpu_isa());
    float x[64];
    uint16_t a[64], b[64];
    for (uint32_t exponent = 90; exponent < 150; exponent++) { /* subnormal to overflow */
        for (uint32_t step = 0; step < 1u << 23; step += 64 * 37) {
            for (uint32_t i = 0; i < 64; i++) {
                uint32_t bits = exponent << 23 | ((step + i * 37) & 0x7fffffu);
                memcpy(&x[i], &bits, sizeof bits);
            }
            ref.vec.to_f16(a, x, 64);
            k.vec.to_f16(b, x, 64);
            assert_memory_equal(a, b, sizeof a);
        }
    }
}

static void test_vec_exp_accuracy(void **state)
{
    (void)state;
    assert_true(exp_ref(0) == 1.0f);
    assert_true(exp_ref(-INFINITY) == 0.0f && exp_ref(-87.5f) == 0.0f);
    assert_true(isnan(exp_ref(NAN)));
    double worst = 0;
    for (int i = -870000; i <= 880000; i += 7) {
        float x = (float)i / 10000;
        double right = exp((double)x), error = fabs((double)exp_ref(x) - right) / right;
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 0.66 * 0x1p-23);
}

static void test_vec_mathd_accuracy(void **state)
{
    (void)state;
    struct dice d = { 3 };
    for (int i = 0; i < 20000; i++) {
        double x = (double)dice_float(&d), sin_x, cos_x, far = fabs(x) * 1e6;
        assert_true(fabs(mathd_exp(700 * x) / exp(700 * x) - 1) < 1e-15);
        assert_true(fabs(mathd_log(fabs(x) + 1e-3) - log(fabs(x) + 1e-3)) < 2e-15);
        mathd_sincos(far, &sin_x, &cos_x);
        assert_true(fabs(sin_x - sin(far)) < 3e-16 && fabs(cos_x - cos(far)) < 3e-16);
    }
    assert_true(mathd_exp(-800) == 0 && mathd_log(1) == 0 && isnan(mathd_exp((double)NAN)));
}

static void test_vec_peak_and_silu_values(void **state)
{
    (void)state;
    struct kernels k;
    kernels_open(&k, cpu_isa());
    struct dice d = { 5 };
    set_field(&d, N_MAX, false);
    struct vec_peak peak;
    k.vec.peak(&peak, field.x, N_MAX);
    double sum = 0, max = (double)-INFINITY;
    for (uint32_t i = 0; i < N_MAX; i++)
        max = (double)field.x[i] > max ? (double)field.x[i] : max;
    for (uint32_t i = 0; i < N_MAX; i++)
        sum += exp((double)field.x[i] - max);
    assert_true((double)peak.max == max && fabs((double)peak.sum / sum - 1) < 1e-6);
    k.vec.silu_mul(field.out[0], field.x, field.y, N_MAX);
    for (uint32_t i = 0; i < N_MAX; i++) {
        double g = (double)field.x[i], right = g / (1 + exp(-g)) * (double)field.y[i];
        assert_true(fabs((double)field.out[0][i] - right) <= 3e-7 * fabs(right) + 1e-30);
    }
}

static int set_up(void **state)
{
    (void)state;
    guard_open(&field.a, N_MAX * sizeof(float));
    guard_open(&field.b, N_MAX * sizeof(float));
    guard_open(&field.c, N_MAX * sizeof(float));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    guard_close(&field.a);
    guard_close(&field.b);
    guard_close(&field.c);
    return 0;
}

/* Entry (i, j) of the transform has the sign of the parity of i & j. */
static void test_vec_hadamard_values(void **state)
{
    (void)state;
    struct kernels ref;
    struct dice d = { 8 };
    kernels_open(&ref, ISA_SCALAR);
    for (uint32_t size = 8; size <= 64; size *= 2) {
        float x[128], y[128];
        for (uint32_t i = 0; i < 128; i++)
            x[i] = y[i] = dice_float(&d);
        ref.vec.hadamard(y, 128, size, 0.5f);
        for (uint32_t i = 0; i < 128; i++) {
            double right = 0;
            for (uint32_t j = 0; j < size; j++) {
                double v = (double)x[i / size * size + j];
                right += __builtin_popcount(i % size & j) % 2 == 0 ? v : -v;
            }
            assert_true(fabs((double)y[i] - right / 2) < 2e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vec_levels_equal_reference),
        cmocka_unit_test(test_vec_odd_lengths),
        cmocka_unit_test(test_vec_f16_every_rounding),
        cmocka_unit_test(test_vec_exp_accuracy),
        cmocka_unit_test(test_vec_mathd_accuracy),
        cmocka_unit_test(test_vec_peak_and_silu_values),
        cmocka_unit_test(test_vec_hadamard_values),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
