/* SPDX-License-Identifier: MIT */
/* cpu - which instruction sets this processor and its operating system really offer.
 * Constant after the first call; call cpu_isa once before threads start. */
#ifndef QUIRE_CORE_CPU_H
#define QUIRE_CORE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Levels in rising order within an architecture. Each contains the ones below it with one
 * exception: a processor may have AVX512VNNI and lack AVXVNNI. Code of a level is run only when
 * isa_usable(level). */
enum isa {
    ISA_SCALAR,
    ISA_AVX2, /* with FMA and F16C */
    ISA_AVXVNNI,
    ISA_AVX512VNNI, /* F, BW, DQ, VL, VNNI */
    ISA_NEON,
    ISA_DOTPROD,
    ISA_I8MM,
    ISA_COUNT
};

/* cpu_isa - the highest level usable here (CPUID and XCR0 on x86, HWCAP on ARM), not above the
 * level in the environment variable QUIRE_ISA. A level of another architecture caps at scalar; a
 * word that is no level is ignored with a line on stderr. */
enum isa cpu_isa(void);

/* isa_cap - the highest usable level not above cap: what --isa means. */
enum isa isa_cap(enum isa cap);

/* isa_name / isa_parse - "scalar", "avx2", "avxvnni", "avx512vnni", "neon", "dotprod", "i8mm". */
const char *isa_name(enum isa isa);
bool isa_parse(enum isa *out, const char *name);

/* isa_usable - this machine can run code of that level. */
bool isa_usable(enum isa isa);

/* What an x86 processor says of itself. Separate from the reading of it, so that recorded words of
 * other machines are tests. */
struct cpu_x86 {
    uint32_t leaf_max; /* CPUID 0 EAX */
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t leaf7_ecx;
    uint32_t leaf7_1_eax; /* subleaf 1 */
    uint64_t xcr0;        /* register files that the system saves; 0 without OSXSAVE */
};

/* cpu_x86_levels / cpu_arm_levels - set of usable levels, bit 1 << enum isa each, from those words
 * or from the HWCAP and HWCAP2 of Linux on aarch64. */
uint32_t cpu_x86_levels(const struct cpu_x86 *cpu);
uint32_t cpu_arm_levels(uint64_t hwcap, uint64_t hwcap2);

#endif
