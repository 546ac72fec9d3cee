/* SPDX-License-Identifier: MIT */
/* dtype - tables behind dtype.h. Withdrawn numbers are kept by name: a user with an old file is
 * told what it is, instead of "unknown type 31". */
#include "core/dtype.h"

#include <strings.h>

static const struct dtype_info infos[DTYPE_COUNT] = {
#define DTYPE_INFO(name, number, elems, bytes) [number] = { #name, elems, bytes },
    DTYPE_LIST(DTYPE_INFO)
#undef DTYPE_INFO
};

const struct dtype_info *dtype_find(uint32_t number)
{
    if (number >= DTYPE_COUNT || infos[number].name == NULL)
        return NULL;
    return &infos[number];
}

const char *dtype_withdrawn_name(uint32_t number)
{
    switch (number) {
    case 4:
        return "Q4_2";
    case 5:
        return "Q4_3";
    case 31:
        return "Q4_0_4_4";
    case 32:
        return "Q4_0_4_8";
    case 33:
        return "Q4_0_8_8";
    case 36:
        return "IQ4_NL_4_4";
    case 37:
        return "IQ4_NL_4_8";
    case 38:
        return "IQ4_NL_8_8";
    default:
        return NULL;
    }
}

bool dtype_parse(enum dtype *out, const char *name)
{
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        if (infos[i].name != NULL && strcasecmp(infos[i].name, name) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_row_bytes(size_t *out, enum dtype type, uint64_t elems)
{
    const struct dtype_info *info = dtype_find((uint32_t)type);
    if (info == NULL || elems % info->block_elems != 0)
        return false;
    uint64_t bytes;
    if (__builtin_mul_overflow(elems / info->block_elems, (uint64_t)info->block_bytes, &bytes))
        return false;
    *out = (size_t)bytes;
    return true;
}
