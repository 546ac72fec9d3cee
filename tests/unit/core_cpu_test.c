/* SPDX-License-Identifier: MIT */
/* Tests of core/cpu and core/clock: recorded feature words of processors that this machine is not.
 * */
#include "tests/unit/test.h"

#include "core/clock.h"
#include "core/cpu.h"

#define LEVEL(isa) (1u << (isa))
#define UP_TO_AVX2 (LEVEL(ISA_SCALAR) | LEVEL(ISA_AVX2))

/* An Ice Lake server: AVX-512 with VNNI, no AVX-VNNI. */
static const struct cpu_x86 ice_lake = {
    .leaf_max = 27,
    .leaf1_ecx = 0x7ffefbff,
    .leaf7_ebx = 0xf3bfa7eb,
    .leaf7_ecx = 0x40417f5e,
    .xcr0 = 0x2e7,
};
/* An Alder Lake desktop: AVX-VNNI, AVX-512 fused off. */
static const struct cpu_x86 alder_lake = {
    .leaf_max = 32,
    .leaf1_ecx = 0x7ffafbff,
    .leaf7_ebx = 0x239c27eb,
    .leaf7_ecx = 0x99c007ac,
    .leaf7_1_eax = 0x00400810,
    .xcr0 = 0x207,
};

static void test_x86_levels_of_known_processors(void **state)
{
    (void)state;
    assert_int_equal(cpu_x86_levels(&ice_lake), UP_TO_AVX2 | LEVEL(ISA_AVX512VNNI));
    assert_int_equal(cpu_x86_levels(&alder_lake), UP_TO_AVX2 | LEVEL(ISA_AVXVNNI));
    struct cpu_x86 old = { .leaf_max = 1 };
    assert_int_equal(cpu_x86_levels(&old), LEVEL(ISA_SCALAR));
}

static void test_x86_levels_need_the_system_too(void **state)
{
    (void)state;
    struct cpu_x86 c = ice_lake;
    c.xcr0 = 0x7; /* the system saves YMM, not ZMM */
    assert_int_equal(cpu_x86_levels(&c), UP_TO_AVX2);
    c.xcr0 = 0xe3; /* ZMM without YMM: nonsense, so nothing */
    assert_int_equal(cpu_x86_levels(&c), LEVEL(ISA_SCALAR));
    c.xcr0 = 0;
    assert_int_equal(cpu_x86_levels(&c), LEVEL(ISA_SCALAR));
}

static void test_x86_levels_need_every_part(void **state)
{
    (void)state;
    static const int leaf1_bits[] = { 12, 27, 28, 29 };
    for (size_t i = 0; i < 4; i++) {
        struct cpu_x86 c = ice_lake;
        c.leaf1_ecx &= ~(1u << leaf1_bits[i]);
        assert_int_equal(cpu_x86_levels(&c), LEVEL(ISA_SCALAR));
    }
    static const int leaf7_bits[] = { 16, 17, 30, 31 };
    for (size_t i = 0; i < 4; i++) {
        struct cpu_x86 c = ice_lake;
        c.leaf7_ebx &= ~(1u << leaf7_bits[i]);
        assert_int_equal(cpu_x86_levels(&c), UP_TO_AVX2);
    }
    struct cpu_x86 c = ice_lake;
    c.leaf7_ecx &= ~(1u << 11);
    assert_int_equal(cpu_x86_levels(&c), UP_TO_AVX2);
    c = alder_lake;
    c.leaf7_ebx &= ~(1u << 5);
    assert_int_equal(cpu_x86_levels(&c), LEVEL(ISA_SCALAR));
}

static void test_arm_levels(void **state)
{
    (void)state;
    uint64_t asimd = 1u << 1, dot = 1u << 20, i8mm = 1u << 13;
    assert_int_equal(cpu_arm_levels(0, 0), LEVEL(ISA_SCALAR));
    assert_int_equal(cpu_arm_levels(asimd, i8mm), LEVEL(ISA_SCALAR) | LEVEL(ISA_NEON));
    assert_int_equal(cpu_arm_levels(asimd | dot, 0),
                     LEVEL(ISA_SCALAR) | LEVEL(ISA_NEON) | LEVEL(ISA_DOTPROD));
    assert_int_equal(cpu_arm_levels(asimd | dot, i8mm),
                     LEVEL(ISA_SCALAR) | LEVEL(ISA_NEON) | LEVEL(ISA_DOTPROD) | LEVEL(ISA_I8MM));
}

static void test_names_go_both_ways(void **state)
{
    (void)state;
    for (int i = 0; i < ISA_COUNT; i++) {
        enum isa isa;
        assert_true(isa_parse(&isa, isa_name((enum isa)i)));
        assert_int_equal(isa, i);
    }
    enum isa isa = ISA_NEON;
    assert_false(isa_parse(&isa, "avx"));
    assert_false(isa_parse(&isa, ""));
    assert_int_equal(isa, ISA_NEON);
    assert_string_equal(isa_name(ISA_COUNT), "unknown");
}

static void test_cap_stays_usable_and_below(void **state)
{
    (void)state;
    assert_true(isa_usable(ISA_SCALAR));
    assert_false(isa_usable(ISA_COUNT));
    assert_int_equal(isa_cap(ISA_SCALAR), ISA_SCALAR);
    for (int i = 0; i < ISA_COUNT; i++) {
        enum isa isa = isa_cap((enum isa)i);
        assert_true(isa_usable(isa));
        assert_true((int)isa <= i);
    }
    assert_true(isa_usable(cpu_isa()));
#if defined(__x86_64__)
    assert_int_equal(isa_cap(ISA_I8MM), ISA_SCALAR); /* another architecture's name */
    assert_int_equal(isa_usable(ISA_AVX2),
                     __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
#endif
}

static void test_clock_virtual_is_moved_by_hand(void **state)
{
    (void)state;
    uint64_t now_us = 5;
    struct clock c = clock_virtual(&now_us);
    assert_int_equal(clock_now_us(&c), 5);
    now_us += 10;
    assert_int_equal(clock_now_us(&c), 15);
}

static void test_clock_real_never_goes_back(void **state)
{
    (void)state;
    struct clock c = clock_real();
    uint64_t last = clock_now_us(&c);
    assert_true(last > 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now_us = clock_now_us(&c);
        assert_true(now_us >= last);
        last = now_us;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_x86_levels_of_known_processors),
        cmocka_unit_test(test_x86_levels_need_the_system_too),
        cmocka_unit_test(test_x86_levels_need_every_part),
        cmocka_unit_test(test_arm_levels),
        cmocka_unit_test(test_names_go_both_ways),
        cmocka_unit_test(test_cap_stays_usable_and_below),
        cmocka_unit_test(test_clock_virtual_is_moved_by_hand),
        cmocka_unit_test(test_clock_real_never_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
