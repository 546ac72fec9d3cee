/* SPDX-License-Identifier: MIT */
/* levels - see levels.h. A level over a model stands on what the machine has below it. */
#include "tests/kernels/levels.h"

bool level_is_model(enum isa isa)
{
#if defined(__x86_64__)
    bool has_model = isa == ISA_AVXVNNI || isa == ISA_AVX512VNNI;
    return has_model && !isa_usable(isa) && isa_usable(ISA_AVX2);
#else
    (void)isa;
    return false;
#endif
}

bool level_open(struct kernels *k, enum isa isa)
{
    if (!isa_usable(isa) && !level_is_model(isa))
        return false;
    kernels_open(k, isa);
#if defined(__x86_64__)
    if (level_is_model(isa)) {
        kernels_open(k, ISA_AVX2);
        k->isa = isa;
        if (isa == ISA_AVXVNNI)
            matmul_fill_avxvnni_model(&k->matmul);
        else
            matmul_fill_avx512vnni_model(&k->matmul);
    }
#endif
    return true;
}
