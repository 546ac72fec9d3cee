/* SPDX-License-Identifier: MIT */
/* dtype - the tensor formats a GGUF file may carry: number, name and block size of each.
 * Constant tables, any thread. Layouts are drawn in kernels/dequant.c.
 *   source   GGUF specification, tensor type numbers (2026-08) */
#ifndef QUIRE_CORE_DTYPE_H
#define QUIRE_CORE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, number in the file, elements of a block, bytes of a block) */
#define DTYPE_LIST(X)                                                                              \
    X(F32, 0, 1, 4)                                                                                \
    X(F16, 1, 1, 2)                                                                                \
    X(Q4_0, 2, 32, 18)                                                                             \
    X(Q4_1, 3, 32, 20)                                                                             \
    X(Q5_0, 6, 32, 22)                                                                             \
    X(Q5_1, 7, 32, 24)                                                                             \
    X(Q8_0, 8, 32, 34)                                                                             \
    X(Q2_K, 10, 256, 84)                                                                           \
    X(Q3_K, 11, 256, 110)                                                                          \
    X(Q4_K, 12, 256, 144)                                                                          \
    X(Q5_K, 13, 256, 176)                                                                          \
    X(Q6_K, 14, 256, 210)                                                                          \
    X(IQ2_XXS, 16, 256, 66)                                                                        \
    X(IQ2_XS, 17, 256, 74)                                                                         \
    X(IQ3_XXS, 18, 256, 98)                                                                        \
    X(IQ1_S, 19, 256, 50)                                                                          \
    X(IQ4_NL, 20, 32, 18)                                                                          \
    X(IQ3_S, 21, 256, 110)                                                                         \
    X(IQ2_S, 22, 256, 82)                                                                          \
    X(IQ4_XS, 23, 256, 136)                                                                        \
    X(I8, 24, 1, 1)                                                                                \
    X(I16, 25, 1, 2)                                                                               \
    X(I32, 26, 1, 4)                                                                               \
    X(I64, 27, 1, 8)                                                                               \
    X(F64, 28, 1, 8)                                                                               \
    X(IQ1_M, 29, 256, 56)                                                                          \
    X(BF16, 30, 1, 2)                                                                              \
    X(TQ1_0, 34, 256, 54)                                                                          \
    X(TQ2_0, 35, 256, 66)                                                                          \
    X(MXFP4, 39, 32, 17)                                                                           \
    X(NVFP4, 40, 64, 36)                                                                           \
    X(Q1_0, 41, 128, 18)                                                                           \
    X(Q2_0, 42, 64, 18)

enum dtype {
#define DTYPE_ENUM(name, number, elems, bytes) DTYPE_##name = number,
    DTYPE_LIST(DTYPE_ENUM)
#undef DTYPE_ENUM
    DTYPE_COUNT = 64 /* numbers are below this: arrays indexed by dtype have this size */
};

struct dtype_info {
    const char *name;     /* as the GGUF world writes it: "Q4_K" */
    uint32_t block_elems; /* elements of a block */
    uint32_t block_bytes; /* bytes of a block */
};

/* dtype_find - the format with this number; NULL when it is unknown or withdrawn. */
const struct dtype_info *dtype_find(uint32_t number);

/* dtype_withdrawn_name - name of a format that GGUF has withdrawn (Q4_2, Q4_3, ...), or NULL. */
const char *dtype_withdrawn_name(uint32_t number);

/* dtype_parse - number of a format by its name, any case; false when unknown. */
bool dtype_parse(enum dtype *out, const char *name);

/* dtype_row_bytes - bytes of a row; false when elems is not whole blocks or overflows. */
bool dtype_row_bytes(size_t *out, enum dtype type, uint64_t elems);

#endif
