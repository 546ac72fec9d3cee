/* SPDX-License-Identifier: MIT */
/* tile - quantized products for processors that add four products of bytes in one instruction (and
 * for plain NEON), written once over the operations that kernels/<arch>/ops_<level>.h gives.
 *
 *   tile     TILE_VECTORS vectors of V_ROWS weight rows each, 256 weights long: codes one byte
 *            each, four weights of a row in a lane (i8mm: eight weights of two rows), scales one
 *            int32 a lane. A lane is a row everywhere else
 *   micro    1 .. TILE_COLS columns; sums of 32 bits, so nothing saturates and codes of 8 bits are
 *            multiplied whole
 *   signs    x86 multiplies unsigned codes: a code is kept as code + centre, and centre times the
 *            sum of the activations is taken off again, exactly. ARM keeps signed codes
 *            (V_CODES_SIGNED) and has nothing to take off
 *
 * Operations of a level, all inlined; vint and vfloat are one register:
 *   V_ROWS, TILE_VECTORS, TILE_COLS, V_CODES_SIGNED
 *   v_zero v_set8 v_set32 v_splat32(4 bytes)  v_and v_or  v_add32 v_sub32 v_sub8 v_max32
 *   v_shl16 v_shr16 v_shl32 v_shr32 v_sar32   v_lookup(16 bytes, indices below 16)
 *   v_mla32(sum, a, b)   sum + a * b in 32 bits
 *   v_dot16(sum, a, b)   sum + both products of the int16 pairs of a lane
 *   v_dots               sums over 16 or 32 codes, of some columns: the heart
 *   vf_load vf_store vf_splat vf_add vf_mul vf_fma(a, b, c) = a b + c   vf_fms = a b - c
 *   vf_of_int vf_of_half(lanes below 2^16) vf_of_bits vf_one_nan(every NaN becomes NAN_BITS)
 *   v_row_words(p, stride)        the 4 bytes at p of each row
 *   v_words16(w, p, stride)       the 16 bytes at p of each row: w[i] has bytes 4 i .. of a row
 *   v_codes16(w, p, stride)       the same bytes in the places that v_dots wants codes in
 *   v_high_bits(bits, i)          bit e of a row's word becomes bit 4 of code e, for vector i of
 *                                 the eight that 32 codes make
 * Included after an ops header, by one unit for each level. */
#ifndef QUIRE_KERNELS_TILE_TILE_H
#define QUIRE_KERNELS_TILE_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "kernels/act.h"

enum {
    TILE_ROWS = V_ROWS * TILE_VECTORS,
    TILE_BLOCKS = 8, /* of 32 weights: one tile */
    TILE_STEPS = 8,  /* the next row group is asked for in this many portions a tile */
};

/* Blocks of 32 weights. */
struct tile_q {
    vint q[TILE_BLOCKS][8][TILE_VECTORS];
    vfloat d[TILE_BLOCKS][TILE_VECTORS], m[TILE_BLOCKS][TILE_VECTORS];
    vint times; /* int16 pairs: centre / 8 */
};

/* A block of 256 weights. */
struct tile_k {
    vint q[64][TILE_VECTORS];
    vint scale[16][TILE_VECTORS]; /* by 16 or 32 weights */
    vint pair
        [8]
        [TILE_VECTORS]; /* int16 pairs to multiply sums of activations: mins, or scale * centre */
    vfloat d[TILE_VECTORS], dmin[TILE_VECTORS];
};

/* n columns, x_stride apart; acc[column][row] are the chains. next: to prefetch, or NULL, lines of
 * it a step. */
typedef void tile_micro(const void *tile, uint32_t count, const uint8_t *x, size_t x_stride,
                        const uint8_t *next, uint32_t lines, float *acc);

/* How a format is run. */
struct tile_format {
    uint32_t block_elems, block_bytes;
    uint32_t chunk_blocks; /* blocks of a row in one tile */
    uint32_t act_bytes;    /* activation group that belongs to one block */
    /* Rows of vector v, count blocks, the first at src; rows are stride bytes apart. */
    void (*unpack)(void *tile, uint32_t v, const uint8_t *src, size_t stride, uint32_t count);
    tile_micro *const *micro; /* [n] for n columns */
};

/* The activation group of column c. */
ATTR_INLINE const struct act_q8_256 *group256(const uint8_t *x, size_t x_stride, int c)
{
    return (const struct act_q8_256 *)(const void *)(x + (size_t)c * x_stride);
}

ATTR_INLINE const struct act_q8_32 *group32(const uint8_t *x, size_t x_stride, int c)
{
    return (const struct act_q8_32 *)(const void *)(x + (size_t)c * x_stride);
}

ATTR_INLINE void prefetch_part(const uint8_t *next, uint32_t step, uint32_t lines)
{
    if (next == NULL)
        return;
    next += (size_t)step * lines * 64;
    for (uint32_t i = 0; i < lines; i++)
        __builtin_prefetch(next + (size_t)i * 64, 0, 2);
}

#endif
