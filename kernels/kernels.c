/* SPDX-License-Identifier: MIT */
/* kernels - fills the table: the scalar reference first, then each level up to the one asked for
 * overrides the slots that it has. One translation unit per level holds all code built with that
 * level's flags; this file has none of them, so the program starts on any machine of the
 * architecture. */
#include "kernels/kernels.h"

#include "kernels/act.h"

/* The highest level that is usable here and not above the one asked for. */
static enum isa usable_level(enum isa isa)
{
    while (isa > ISA_SCALAR && !isa_usable(isa))
        isa = (enum isa)(isa - 1);
    return isa;
}

void kernels_open(struct kernels *k, enum isa isa)
{
    *k = (struct kernels){ .isa = usable_level(isa) };
    matmul_fill_ref(&k->matmul);
    vec_fill_ref(&k->vec);
    attn_fill_ref(&k->attn);
#if defined(__x86_64__)
    if (k->isa >= ISA_AVX2) {
        matmul_fill_avx2(&k->matmul);
        vec_fill_avx2(&k->vec);
        attn_fill_avx2(&k->attn);
    }
    if (k->isa == ISA_AVXVNNI)
        matmul_fill_avxvnni(&k->matmul);
    if (k->isa == ISA_AVX512VNNI)
        matmul_fill_avx512vnni(&k->matmul);
#elif defined(__aarch64__)
    if (k->isa >= ISA_NEON) {
        matmul_fill_neon(&k->matmul);
        vec_fill_neon(&k->vec);
        attn_fill_neon(&k->attn);
    }
    if (k->isa >= ISA_DOTPROD)
        matmul_fill_dotprod(&k->matmul);
    if (k->isa >= ISA_I8MM)
        matmul_fill_i8mm(&k->matmul);
#endif
}
