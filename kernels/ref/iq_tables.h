/* SPDX-License-Identifier: MIT */
/* iq_tables - the fixed code books of the IQ weight formats, packed; constant tables, any thread.
 *   source   the values are part of the formats' definition (GGUF); the packing is our own */
#ifndef QUIRE_KERNELS_REF_IQ_TABLES_H
#define QUIRE_KERNELS_REF_IQ_TABLES_H

#include <stdint.h>

/* Each entry is a vector of small numbers, the first in the lowest bits. */
extern const uint16_t iq2_xxs_grid[256]; /* 8 of 2 bits: 0, 1, 2 stand for 8, 25, 43 */
extern const uint16_t iq2_xs_grid[512];
extern const uint16_t iq2_s_grid[1024];
extern const uint16_t iq3_xxs_grid[256]; /* 4 of 3 bits: indices into iq3_xxs_levels */
extern const uint16_t iq3_s_grid[512];   /* 4 of 3 bits: n stands for 2 n + 1 */
extern const uint16_t iq1_s_grid[2048];  /* 8 of 2 bits: n stands for n - 1 */

extern const uint8_t iq2_levels[3];
extern const uint8_t iq3_xxs_levels[8];
extern const int8_t iq4_levels[16]; /* IQ4_NL, IQ4_XS */
extern const int8_t fp4_levels[16]; /* twice the value of an E2M1 number: MXFP4, NVFP4 */

/* The 8 signs (bit j set: element j is negated) that 7 stored bits stand for: the 8th makes them
 * even. */
static inline uint32_t iq_signs(uint32_t seven)
{
    return seven | ((uint32_t)__builtin_popcount(seven) & 1u) << 7;
}

#endif
