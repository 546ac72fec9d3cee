/* SPDX-License-Identifier: MIT */
/* micro - the micro-kernels of the tiles: a tile times 1 .. TILE_COLS columns, seven kinds.
 *   q_plain  Q4_0 Q5_0          acc = fma(round(d a), I, acc)
 *   q_wide   Q8_0 IQ4_NL MXFP4  the same, codes of 8 bits
 *   q_min    Q4_1 Q5_1          acc = fma(a, fma(d, I, round(m S)), acc)
 *   k16_min  Q2_K               acc = fma(a, fma(d, I, -round(dmin M)), acc), 16 weights a scale
 *   k32_min  Q4_K Q5_K          the same, 32 weights a scale
 *   k16      Q3_K Q6_K          acc = fma(round(d a), I, acc)
 *   k32      IQ4_XS             the same, 32 weights a scale, codes of 8 bits
 * Bounds of the 32-bit sums: |I| is at most 255 * 127 * 32 * 8 * 32 < 2^28 before and after a
 * centre is taken off. */
#ifndef QUIRE_KERNELS_TILE_MICRO_H
#define QUIRE_KERNELS_TILE_MICRO_H

#include "kernels/tile/tile.h"

/* What distinguishes the kinds; always a compile-time constant. */
struct micro_shape {
    int depth;         /* 256: vectors of codes that share a scale, 4 or 8 */
    bool has_m;        /* 32: d and m */
    bool mins;         /* 256: d and dmin */
    bool signed_codes; /* there is a centre, unless the level multiplies signed codes */
    bool wide;         /* codes of 8 bits */
};

/* One block of 32 weights times n columns. */
ATTR_INLINE void block_q(const struct tile_q *t, uint32_t b, const uint8_t *x, size_t x_stride,
                         float *acc, const int n, const struct micro_shape shape)
{
    vint s[TILE_COLS][TILE_VECTORS];
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        vint start = v_zero();
        if (shape.signed_codes && !V_CODES_SIGNED)
            start = v_dot16(start, v_splat32(group32(x, x_stride, c)->centre8), t->times);
        ATTR_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            s[c][v] = start;
    }
    v_dots(s, t->q[b], (const int8_t *)x, x_stride, 8, n, shape.wide);
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        const struct act_q8_32 *g = group32(x, x_stride, c);
        const vfloat a = vf_splat(&g->d);
        ATTR_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            float *out = acc + c * TILE_ROWS + v * V_ROWS;
            vfloat i = vf_of_int(s[c][v]), chain = vf_load(out);
            if (shape.has_m) {
                vfloat value = vf_fma(t->d[b][v], i, vf_mul(t->m[b][v], vf_splat(&g->sum)));
                vf_store(out, vf_fma(a, value, chain));
            } else {
                vf_store(out, vf_fma(vf_mul(t->d[b][v], a), i, chain));
            }
        }
    }
}

ATTR_INLINE void micro_q(const void *tile, uint32_t count, const uint8_t *x, size_t x_stride,
                         const uint8_t *next, uint32_t lines, float *acc, const int n,
                         const struct micro_shape shape)
{
    for (uint32_t b = 0; b < count; b++, x += sizeof(struct act_q8_32)) {
        prefetch_part(next, b, lines);
        block_q(tile, b, x, x_stride, acc, n, shape);
    }
}

/* Sum of the int16 pairs of a block times the sums of one column's activations. */
ATTR_INLINE vint pairs_times_sums(const struct tile_k *t, int v, const struct act_q8_256 *g,
                                  const struct micro_shape shape)
{
    const int16_t *sums = shape.depth == 4 ? g->sum16 : g->sum32;
    const int pairs = 32 / shape.depth;
    vint m = v_zero();
    ATTR_UNROLL
    for (int k = 0; k < pairs; k++)
        m = v_dot16(m, t->pair[k][v], v_splat32(&sums[2 * k]));
    return m;
}

/* The float step of one block and one column, one vector of rows. */
ATTR_INLINE void chain_k(const struct tile_k *t, int v, vint dot, const struct act_q8_256 *g,
                         float *out, const struct micro_shape shape)
{
    const vfloat a = vf_splat(&g->d), chain = vf_load(out);
    if (shape.mins) {
        vfloat low = vf_mul(t->dmin[v], vf_of_int(pairs_times_sums(t, v, g, shape)));
        vf_store(out, vf_fma(a, vf_fms(t->d[v], vf_of_int(dot), low), chain));
        return;
    }
    if (!V_CODES_SIGNED)
        dot = v_sub32(dot, pairs_times_sums(t, v, g, shape));
    vf_store(out, vf_fma(vf_mul(t->d[v], a), vf_of_int(dot), chain));
}

/* One block of 256 weights times n columns. */
ATTR_INLINE void micro_k(const void *tile, uint32_t count, const uint8_t *x, size_t x_stride,
                         const uint8_t *next, uint32_t lines, float *acc, const int n,
                         const struct micro_shape shape)
{
    const struct tile_k *t = tile;
    vint dot[TILE_COLS][TILE_VECTORS];
    (void)count;
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        ATTR_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            dot[c][v] = v_zero();
    }
    for (int j = 0; j < 64 / shape.depth; j++) {
        vint s[TILE_COLS][TILE_VECTORS];
        if (shape.depth == 8 || j % 2 == 0)
            prefetch_part(next, (uint32_t)(j * shape.depth / 8), lines);
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            ATTR_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                s[c][v] = v_zero();
        }
        v_dots(s, &t->q[j * shape.depth], (const int8_t *)x + 4 * j * shape.depth, x_stride,
               shape.depth, n, shape.wide);
        ATTR_UNROLL
        for (int c = 0; c < n; c++) {
            ATTR_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                dot[c][v] = v_mla32(dot[c][v], s[c][v], t->scale[j][v]);
        }
    }
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        ATTR_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            chain_k(t, v, dot[c][v], group256(x, x_stride, c), acc + c * TILE_ROWS + v * V_ROWS,
                    shape);
    }
}

#define MICRO(name, kind, n, ...)                                                                  \
    static void name##_##n(const void *tile, uint32_t count, const uint8_t *x, size_t x_stride,    \
                           const uint8_t *next, uint32_t lines, float *acc)                        \
    {                                                                                              \
        micro_##kind(tile, count, x, x_stride, next, lines, acc, n,                                \
                     (struct micro_shape){ __VA_ARGS__ });                                         \
    }
#if TILE_COLS == 8
#define MICROS(name, kind, ...)                                                                    \
    MICRO(name, kind, 1, __VA_ARGS__)                                                              \
    MICRO(name, kind, 2, __VA_ARGS__)                                                              \
    MICRO(name, kind, 3, __VA_ARGS__)                                                              \
    MICRO(name, kind, 4, __VA_ARGS__)                                                              \
    MICRO(name, kind, 5, __VA_ARGS__)                                                              \
    MICRO(name, kind, 6, __VA_ARGS__)                                                              \
    MICRO(name, kind, 7, __VA_ARGS__)                                                              \
    MICRO(name, kind, 8, __VA_ARGS__)                                                              \
    static tile_micro *const name[] = { NULL,     name##_1, name##_2, name##_3, name##_4,          \
                                        name##_5, name##_6, name##_7, name##_8 };
#else
#define MICROS(name, kind, ...)                                                                    \
    MICRO(name, kind, 1, __VA_ARGS__)                                                              \
    MICRO(name, kind, 2, __VA_ARGS__)                                                              \
    MICRO(name, kind, 3, __VA_ARGS__)                                                              \
    MICRO(name, kind, 4, __VA_ARGS__)                                                              \
    static tile_micro *const name[] = { NULL, name##_1, name##_2, name##_3, name##_4 };
#endif

MICROS(q_plain, q, .signed_codes = true)
MICROS(q_wide, q, .signed_codes = true, .wide = true)
MICROS(q_min, q, .has_m = true)
MICROS(k16_min, k, .depth = 4, .mins = true)
MICROS(k32_min, k, .depth = 8, .mins = true)
MICROS(k16, k, .depth = 4)
MICROS(k32, k, .depth = 8, .wide = true)

#endif
