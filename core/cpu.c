/* SPDX-License-Identifier: MIT */
/* cpu - reading of CPUID, XCR0 and HWCAP. A feature bit says what the processor has; whether its
 * registers survive a thread switch is in XCR0, and only both together make a level usable (virtual
 * machines and kernels do mask the second).
 *   source   Intel SDM volume 1 chapter 14 and volume 2 CPUID; Linux
 *            Documentation/arch/arm64/elf_hwcaps */
#include "core/cpu.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define BIT(n) (1ull << (n))
#define LEVEL(isa) (1u << (isa))

#define LEAF1_ECX_AVX2_LEVEL (BIT(12) | BIT(27) | BIT(28) | BIT(29)) /* FMA, OSXSAVE, AVX, F16C */
#define LEAF7_EBX_AVX2 BIT(5)
#define LEAF7_EBX_AVX512 (BIT(16) | BIT(17) | BIT(30) | BIT(31)) /* F, DQ, BW, VL */
#define LEAF7_ECX_AVX512VNNI BIT(11)
#define LEAF7_1_EAX_AVXVNNI BIT(4)
#define XCR0_YMM (BIT(1) | BIT(2))
#define XCR0_ZMM (XCR0_YMM | BIT(5) | BIT(6) | BIT(7))

#define ARM_HWCAP_ASIMD BIT(1)
#define ARM_HWCAP_ASIMDDP BIT(20)
#define ARM_HWCAP2_I8MM BIT(13)

static const char *const names[ISA_COUNT] = {
    [ISA_SCALAR] = "scalar",   [ISA_AVX2] = "avx2",
    [ISA_AVXVNNI] = "avxvnni", [ISA_AVX512VNNI] = "avx512vnni",
    [ISA_NEON] = "neon",       [ISA_DOTPROD] = "dotprod",
    [ISA_I8MM] = "i8mm",
};

static bool has_all(uint64_t word, uint64_t bits)
{
    return (word & bits) == bits;
}

uint32_t cpu_x86_levels(const struct cpu_x86 *cpu)
{
    uint32_t levels = LEVEL(ISA_SCALAR);
    if (cpu->leaf_max < 7 || !has_all(cpu->leaf1_ecx, LEAF1_ECX_AVX2_LEVEL) ||
        !has_all(cpu->xcr0, XCR0_YMM) || !has_all(cpu->leaf7_ebx, LEAF7_EBX_AVX2))
        return levels;
    levels |= LEVEL(ISA_AVX2);
    if (has_all(cpu->leaf7_1_eax, LEAF7_1_EAX_AVXVNNI))
        levels |= LEVEL(ISA_AVXVNNI);
    if (has_all(cpu->xcr0, XCR0_ZMM) && has_all(cpu->leaf7_ebx, LEAF7_EBX_AVX512) &&
        has_all(cpu->leaf7_ecx, LEAF7_ECX_AVX512VNNI))
        levels |= LEVEL(ISA_AVX512VNNI);
    return levels;
}

uint32_t cpu_arm_levels(uint64_t hwcap, uint64_t hwcap2)
{
    uint32_t levels = LEVEL(ISA_SCALAR);
    if (!has_all(hwcap, ARM_HWCAP_ASIMD))
        return levels;
    levels |= LEVEL(ISA_NEON);
    if (!has_all(hwcap, ARM_HWCAP_ASIMDDP))
        return levels;
    levels |= LEVEL(ISA_DOTPROD);
    if (has_all(hwcap2, ARM_HWCAP2_I8MM))
        levels |= LEVEL(ISA_I8MM);
    return levels;
}

#if defined(__x86_64__)
static uint32_t read_levels(void)
{
    struct cpu_x86 cpu = { 0 };
    uint32_t a, b, c, d;
    if (!__get_cpuid(0, &cpu.leaf_max, &b, &c, &d) || !__get_cpuid(1, &a, &b, &cpu.leaf1_ecx, &d))
        return LEVEL(ISA_SCALAR);
    if (has_all(cpu.leaf1_ecx, BIT(27))) {
        uint32_t low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        cpu.xcr0 = (uint64_t)high << 32 | low;
    }
    uint32_t subleaf_max = 0;
    if (__get_cpuid_count(7, 0, &subleaf_max, &cpu.leaf7_ebx, &cpu.leaf7_ecx, &d) &&
        subleaf_max >= 1)
        __cpuid_count(7, 1, cpu.leaf7_1_eax, b, c, d);
    return cpu_x86_levels(&cpu);
}
#elif defined(__aarch64__)
static uint32_t read_levels(void)
{
    return cpu_arm_levels(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}
#else
static uint32_t read_levels(void)
{
    return LEVEL(ISA_SCALAR);
}
#endif

/* Cached: 0 is not read yet. Racing first calls write the same value. */
static uint32_t usable_levels(void)
{
    static _Atomic uint32_t cached;
    uint32_t levels = atomic_load_explicit(&cached, memory_order_relaxed);
    if (levels == 0) {
        levels = read_levels();
        atomic_store_explicit(&cached, levels, memory_order_relaxed);
    }
    return levels;
}

static bool is_arm(enum isa isa)
{
    return isa >= ISA_NEON;
}

enum isa isa_cap(enum isa cap)
{
    enum isa best = ISA_SCALAR;
    for (enum isa isa = ISA_SCALAR; isa <= cap && isa < ISA_COUNT; isa++)
        if (isa_usable(isa) && is_arm(isa) == is_arm(cap))
            best = isa;
    return best;
}

static enum isa capped_by_environment(void)
{
    const char *name = getenv("QUIRE_ISA");
    enum isa cap;
    if (name != NULL && name[0] != '\0') {
        if (isa_parse(&cap, name))
            return isa_cap(cap);
        fprintf(stderr,
                "quire: QUIRE_ISA is not one of scalar, avx2, avxvnni, avx512vnni, neon, dotprod, "
                "i8mm: ignored\n");
    }
    enum isa best = isa_cap(ISA_AVX512VNNI);
    return best != ISA_SCALAR ? best : isa_cap(ISA_I8MM);
}

enum isa cpu_isa(void)
{
    static _Atomic uint32_t cached; /* level + 1 */
    uint32_t isa = atomic_load_explicit(&cached, memory_order_relaxed);
    if (isa == 0) {
        isa = (uint32_t)capped_by_environment() + 1;
        atomic_store_explicit(&cached, isa, memory_order_relaxed);
    }
    return (enum isa)(isa - 1);
}

const char *isa_name(enum isa isa)
{
    return (unsigned)isa < ISA_COUNT ? names[isa] : "unknown";
}

bool isa_parse(enum isa *out, const char *name)
{
    for (unsigned i = 0; i < ISA_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum isa)i;
            return true;
        }
    }
    return false;
}

bool isa_usable(enum isa isa)
{
    return (unsigned)isa < ISA_COUNT && (usable_levels() & LEVEL(isa)) != 0;
}
