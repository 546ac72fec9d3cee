/* SPDX-License-Identifier: MIT */
/* cpu - which instruction sets this processor and its operating system really offer.
 * Constant after the first call; call cpu_isa once before threads start. */
#ifndef QUIRE_CORE_CPU_H
#define QUIRE_CORE_CPU_H

#include <stdbool.h>

/* Levels in rising order within an architecture; a level implies the ones below it. */
enum isa {
    ISA_SCALAR,
    ISA_AVX2,       /* with FMA and F16C */
    ISA_AVXVNNI,
    ISA_AVX512VNNI, /* F, BW, DQ, VL, VNNI */
    ISA_NEON,
    ISA_DOTPROD,
    ISA_I8MM,
    ISA_COUNT
};

/* cpu_isa - the highest level usable here (CPUID and XCR0 on x86, HWCAP on ARM), not above the level in the
 * environment variable QUIRE_ISA. */
enum isa cpu_isa(void);

/* isa_name / isa_parse - "scalar", "avx2", "avxvnni", "avx512vnni", "neon", "dotprod", "i8mm". */
const char *isa_name(enum isa isa);
bool isa_parse(enum isa *out, const char *name);

/* isa_usable - this machine can run code of that level. */
bool isa_usable(enum isa isa);

#endif
