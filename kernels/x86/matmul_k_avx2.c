/* SPDX-License-Identifier: MIT */
/* matmul_k_avx2 - formats of 256-weight blocks: unpacking into tiles, and their micro-kernels.
 * Codes are kept unsigned: Q6_K as code + 32, Q3_K as code + 4, both undone by the start of the
 * 16-bit sums; those of IQ4_XS as they are, or split. Block layouts:
 * kernels/ref/matmul_ref_blocks.c. */
#include "kernels/x86/tile_avx2.h"

enum { BLOCKS = 1, ELEMS = 256, ACT_BYTES = sizeof(struct act_q8_256) };

struct tile_k {
    __m256i q[64][2];
    __m256i below[64][2], start[2]; /* of split codes */
    __m256i scale[16][2];
    __m256i min[8][2];
    __m256 d[2], dmin[2];
};

_Static_assert(sizeof(struct tile_k) <= TILE_BYTES_MAX, "tile");

/* Bytes moved within each lane: byte i of the result is byte from >> 8 i, or 0 where that is
 * 0x80. */
ATTR_INLINE __m256i move_bytes(__m256i v, const uint32_t from)
{
    const __m256i lane = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                          0x08080808, 0x04040404, 0);
    return _mm256_shuffle_epi8(v, _mm256_or_si256(_mm256_set1_epi32((int)from), lane));
}

/* Unsigned byte j of each lane as int16, twice. */
ATTR_INLINE __m256i twice_u8(__m256i v, const uint32_t j)
{
    return move_bytes(v, 0x80008000u | j << 16 | j);
}

/* The same of a signed byte. */
ATTR_INLINE __m256i twice_s8(__m256i v, const uint32_t j)
{
    return _mm256_srai_epi16(move_bytes(v, 0x00800080u | j << 24 | j << 8), 8);
}

/* Unsigned bytes j and j + 1 as a pair of int16. */
ATTR_INLINE __m256i pair_u8(__m256i v, const uint32_t j)
{
    return move_bytes(v, 0x80008000u | (j + 1) << 16 | j);
}

ATTR_INLINE __m256i mask8(__m256i v, const int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* First 16 bytes of Q4_K and Q5_K: d, dmin, and 8 scales and mins of 6 bits. */
ATTR_INLINE void unpack_header_k4(struct tile_k *t, uint32_t half, const uint8_t *src,
                                  size_t stride)
{
    __m256i w[4], scale[2], min[2];
    transpose16(src, stride, w);
    split_f16_pairs(w[0], &t->d[half], &t->dmin[half]);
    scale[0] = mask8(w[1], 0x3f);
    min[0] = mask8(w[2], 0x3f);
    scale[1] = _mm256_or_si256(mask8(w[3], 0x0f), mask8(_mm256_srli_epi32(w[1], 2), 0x30));
    min[1] = _mm256_or_si256(mask8(_mm256_srli_epi32(w[3], 4), 0x0f),
                             mask8(_mm256_srli_epi32(w[2], 2), 0x30));
    ATTR_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        ATTR_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            t->scale[4 * i + j][half] = twice_u8(scale[i], j);
        t->min[2 * i][half] = pair_u8(min[i], 0);
        t->min[2 * i + 1][half] = pair_u8(min[i], 2);
    }
}

static void unpack_q4_k(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_k *t = tile;
    (void)count;
    unpack_header_k4(t, half, src, stride);
    for (uint32_t p = 0; p < 4; p++) {
        ATTR_UNROLL
        for (uint32_t s = 0; s < 2; s++) {
            __m256i(*q)[2] = &t->q[16 * p + 4 * s], w[4];
            transpose16(src + 16 + 32 * p + 16 * s, stride, w);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                q[i][half] = low_nibbles(w[i]);
                q[8 + i][half] = high_nibbles(w[i]);
            }
        }
    }
}

/* One bit of every byte moved to another place, the others cleared. */
ATTR_INLINE __m256i move_bit(__m256i v, const int from, const int to)
{
    return mask8(from < to ? _mm256_slli_epi16(v, to - from) : _mm256_srli_epi16(v, from - to),
                 1 << to);
}

static void unpack_q5_k(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_k *t = tile;
    (void)count;
    unpack_header_k4(t, half, src, stride);
    ATTR_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        __m256i high[4], w[4];
        transpose16(src + 16 + 16 * s, stride, high);
        ATTR_UNROLL
        for (int p = 0; p < 4; p++) {
            __m256i(*q)[2] = &t->q[16 * p + 4 * s];
            transpose16(src + 48 + 32 * p + 16 * s, stride, w);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                q[i][half] = _mm256_or_si256(low_nibbles(w[i]), move_bit(high[i], 2 * p, 4));
                q[8 + i][half] =
                    _mm256_or_si256(high_nibbles(w[i]), move_bit(high[i], 2 * p + 1, 4));
            }
        }
    }
}

ATTR_INLINE void unpack_header_q6_k(struct tile_k *t, uint32_t half, const uint8_t *src,
                                    size_t stride)
{
    __m256i w[4];
    transpose16(src + 192, stride, w);
    ATTR_UNROLL
    for (uint32_t j = 0; j < 16; j++)
        t->scale[j][half] = twice_s8(w[j / 4], j % 4);
    t->d[half] = load_f16_rows_at_end(src + 208, stride);
}

/* 16 bytes of the high bits and the 32 nibble bytes that they complete: four times 16 weights, 32
 * apart. */
struct piece_q6_k {
    __m256i first[4], second[4], high[4];
};

ATTR_INLINE void load_piece_q6_k(struct piece_q6_k *p, const uint8_t *src, size_t stride,
                                 uint32_t step)
{
    src += 16 * (step % 2);
    transpose16(src + 64 * (step / 2), stride, p->first);
    transpose16(src + 64 * (step / 2) + 32, stride, p->second);
    transpose16(src + 128 + 32 * (step / 2), stride, p->high);
}

/* Codes k = 0..3: 4 i .. 4 i + 3 of each 16 weights. */
ATTR_INLINE void codes_q6_k(__m256i codes[4], const struct piece_q6_k *p, const uint32_t i)
{
    __m256i top0 = mask8(_mm256_slli_epi16(p->high[i], 4), 0x30);
    __m256i top1 = mask8(_mm256_slli_epi16(p->high[i], 2), 0x30);
    __m256i top3 = mask8(_mm256_srli_epi16(p->high[i], 2), 0x30);
    codes[0] = _mm256_or_si256(low_nibbles(p->first[i]), top0);
    codes[1] = _mm256_or_si256(low_nibbles(p->second[i]), top1);
    codes[2] = _mm256_or_si256(high_nibbles(p->first[i]), mask8(p->high[i], 0x30));
    codes[3] = _mm256_or_si256(high_nibbles(p->second[i]), top3);
}

static void unpack_q6_k(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_k *t = tile;
    (void)count;
    for (uint32_t step = 0; step < 4; step++) {
        __m256i(*q)[2] = &t->q[step / 2 * 32 + step % 2 * 4];
        struct piece_q6_k piece;
        load_piece_q6_k(&piece, src, stride, step);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            __m256i codes[4];
            codes_q6_k(codes, &piece, i);
            ATTR_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                q[8 * k + i][half] = codes[k];
        }
    }
    unpack_header_q6_k(t, half, src, stride);
}

static void unpack_q2_k(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_k *t = tile;
    __m256i w[4];
    (void)count;
    transpose16(src, stride, w);
    ATTR_UNROLL
    for (uint32_t j = 0; j < 16; j++)
        t->scale[j][half] = twice_u8(low_nibbles(w[j / 4]), j % 4);
    ATTR_UNROLL
    for (uint32_t j = 0; j < 8; j++)
        t->min[j][half] = pair_u8(high_nibbles(w[j / 2]), j % 2 * 2);
    for (uint32_t n = 0; n < 4; n++) {
        __m256i(*q)[2] = &t->q[n / 2 * 32 + n % 2 * 4];
        transpose16(src + 16 + 16 * n, stride, w);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            ATTR_UNROLL
        for (int k = 0; k < 4; k++)
            q[8 * k + i][half] = mask8(_mm256_srli_epi16(w[i], 2 * k), 3);
    }
    split_f16_pairs(load_u32_rows(src + 80, stride), &t->d[half], &t->dmin[half]);
}

static void unpack_q3_k(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_k *t = tile;
    __m256i w[4];
    (void)count;
    ATTR_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        __m256i high[4];
        transpose16(src + 16 * s, stride, high);
        ATTR_UNROLL
        for (int n = 0; n < 2; n++) {
            __m256i(*q)[2] = &t->q[32 * n + 4 * s];
            transpose16(src + 32 + 32 * n + 16 * s, stride, w);
            ATTR_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                ATTR_UNROLL
            for (int k = 0; k < 4; k++)
                q[8 * k + i][half] = _mm256_or_si256(mask8(_mm256_srli_epi16(w[i], 2 * k), 3),
                                                     move_bit(high[i], 4 * n + k, 2));
        }
    }
    for (uint32_t i = 0; i < 3; i++)
        w[i] = load_u32_rows(src + 96 + 4 * i, stride);
    ATTR_UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i low = g < 2 ? low_nibbles(w[g]) : high_nibbles(w[g - 2]);
        __m256i top = _mm256_slli_epi16(mask8(_mm256_srli_epi16(w[2], 2 * g), 3), 4);
        __m256i scale = _mm256_sub_epi8(_mm256_or_si256(low, top), _mm256_set1_epi8(32));
        ATTR_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            t->scale[4 * (uint32_t)g + j][half] = twice_s8(scale, j);
    }
    t->d[half] = load_f16_rows_at_end(src + 108, stride);
}

/* Scales of IQ4_XS from the first two words of a block: nibbles of w1, and two bits each from the
 * upper half of w0: in byte 0 those of scales 0 and 1, one nibble up those of 2 and 3, and so
 * on. */
ATTR_INLINE void unpack_scales_iq4_xs(struct tile_k *t, uint32_t half, __m256i w0, __m256i w1)
{
    __m256i top = move_bytes(w0, 0x03030202);
    top = _mm256_blendv_epi8(low_nibbles(top), high_nibbles(top),
                             _mm256_set1_epi32((int)0xff00ff00u));
    __m256i even = _mm256_or_si256(low_nibbles(w1), _mm256_slli_epi16(mask8(top, 3), 4));
    __m256i odd = _mm256_or_si256(high_nibbles(w1), _mm256_slli_epi16(mask8(top, 12), 2));
    even = _mm256_sub_epi8(even, _mm256_set1_epi8(32));
    odd = _mm256_sub_epi8(odd, _mm256_set1_epi8(32));
    ATTR_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        t->scale[2 * j][half] = twice_s8(even, j);
        t->scale[2 * j + 1][half] = twice_s8(odd, j);
    }
}

ATTR_INLINE void unpack_signed_iq4_xs(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                                      uint32_t count, const bool split)
{
    struct tile_k *t = tile;
    __m256i w[4], start = _mm256_setzero_si256();
    (void)count;
    transpose16(src, stride, w);
    unpack_scales_iq4_xs(t, half, w[0], w[1]);
    t->d[half] = lanes_to_f32(_mm256_and_si256(w[0], _mm256_set1_epi32(0xffff)));
    for (uint32_t j = 0; j < 8; j++) {
        __m256i codes[8];
        transpose16(src + 8 + 16 * j, stride, w);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            codes[i] = iq4_codes(low_nibbles(w[i]));
            codes[4 + i] = iq4_codes(high_nibbles(w[i]));
        }
        if (!split) {
            store_codes(&t->q[8 * j], half, codes);
            continue;
        }
        __m256i sum = store_split(&t->q[8 * j], &t->below[8 * j], half, codes);
        start = _mm256_sub_epi32(start, _mm256_madd_epi16(sum, t->scale[j][half]));
    }
    if (split)
        t->start[half] = start;
}

ATTR_INLINE struct part256 parts_of(const struct tile_k *t)
{
    return (struct part256){ t->q, t->below, t->start, t->scale, t->min, t->d, t->dmin };
}

/* Sums of n columns, of codes that stand at weight k of 8 rows. */
ATTR_INLINE void add_codes(__m256i *sum, __m256i codes, const int8_t *y, size_t y_stride,
                           const int n)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++) {
        __m256i part = _mm256_maddubs_epi16(codes, splat32(y + (size_t)c * y_stride));
        sum[c] = _mm256_add_epi16(sum[c], part);
        KEEP_ORDER(sum[c]);
    }
}

ATTR_INLINE void add_scaled(__m256i *dot, const __m256i *sum, __m256i scale, const int n)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        dot[c] = _mm256_add_epi32(dot[c], _mm256_madd_epi16(sum[c], scale));
}

ATTR_INLINE void set_zero(__m256i *v, const int n)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        v[c] = _mm256_setzero_si256();
}

/* Few columns: each step of the unpacking is multiplied at once and no codes are stored. Only the
 * scales go through a tile. */
ATTR_INLINE void direct_q4_k(const uint8_t *src, size_t stride, uint32_t blocks, const uint8_t *x,
                             size_t x_stride, float *acc, const int n)
{
    struct tile_k t;
    for (uint32_t b = 0; b < blocks; b++, src += 144, x += sizeof(struct act_q8_256)) {
        __m256i dot[DIRECT_COLS];
        prefetch_streams(src, stride, 0, 144);
        unpack_header_k4(&t, 0, src, stride);
        set_zero(dot, n);
        for (uint32_t p = 0; p < 4; p++) {
            const int8_t *y = group256(x, 0, 0)->q + 64 * p;
            __m256i low[DIRECT_COLS], high[DIRECT_COLS];
            set_zero(low, n);
            set_zero(high, n);
            ATTR_UNROLL
            for (uint32_t s = 0; s < 2; s++) {
                __m256i w[4];
                transpose16(src + 16 + 32 * p + 16 * s, stride, w);
                ATTR_UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    add_codes(low, low_nibbles(w[i]), y + 16 * s + 4 * i, x_stride, n);
                    add_codes(high, high_nibbles(w[i]), y + 32 + 16 * s + 4 * i, x_stride, n);
                }
            }
            add_scaled(dot, low, t.scale[2 * p][0], n);
            add_scaled(dot, high, t.scale[2 * p + 1][0], n);
        }
        ATTR_UNROLL
        for (int c = 0; c < n; c++)
            chain256(parts_of(&t), 0, dot[c], group256(x, x_stride, c), acc + c * TILE_ROWS,
                     (struct tile_shape){ .mins = 4 });
    }
}

/* Sums of 16 weights of each column, started at their centre. */
ATTR_INLINE void set_centre(__m256i *sum, const uint8_t *x, size_t x_stride, uint32_t group,
                            const int n)
{
    ATTR_UNROLL
    for (int c = 0; c < n; c++)
        sum[c] = splat32(group256(x, x_stride, c)->centre32[group]);
}

/* 16 bytes of nibbles and of high bits: two groups of 16 weights, 64 weights apart. top: where
 * the high bits of the first lie, those of the second are 4 above. */
ATTR_INLINE void direct_piece_q6_k(__m256i *dot, const uint8_t *nibbles, const __m256i high[4],
                                   const int top, size_t stride, const struct tile_k *t,
                                   const uint8_t *x, size_t x_stride, uint32_t group, const int n)
{
    const int8_t *y = group256(x, 0, 0)->q + 16 * group;
    __m256i w[4], first[DIRECT_COLS], second[DIRECT_COLS];
    transpose16(nibbles, stride, w);
    set_centre(first, x, x_stride, group, n);
    set_centre(second, x, x_stride, group + 4, n);
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        __m256i low = mask8(_mm256_slli_epi16(high[i], 4 - top), 0x30);
        __m256i up = top == 0 ? high[i] : _mm256_srli_epi16(high[i], top);
        add_codes(first, _mm256_or_si256(low_nibbles(w[i]), low), y + 4 * i, x_stride, n);
        add_codes(second, _mm256_or_si256(high_nibbles(w[i]), mask8(up, 0x30)), y + 64 + 4 * i,
                  x_stride, n);
    }
    add_scaled(dot, first, t->scale[group][0], n);
    add_scaled(dot, second, t->scale[group + 4][0], n);
}

ATTR_INLINE void direct_q6_k(const uint8_t *src, size_t stride, uint32_t blocks, const uint8_t *x,
                             size_t x_stride, float *acc, const int n)
{
    struct tile_k t;
    for (uint32_t b = 0; b < blocks; b++, src += 210, x += sizeof(struct act_q8_256)) {
        __m256i dot[DIRECT_COLS];
        prefetch_streams(src, stride, 0, 210);
        unpack_header_q6_k(&t, 0, src, stride);
        set_zero(dot, n);
        for (uint32_t step = 0; step < 4; step++) {
            uint32_t group = step / 2 * 8 + step % 2; /* and those 2, 4, 6 behind */
            const uint8_t *nibbles = src + 64 * (step / 2) + 16 * (step % 2);
            __m256i high[4];
            transpose16(src + 128 + 16 * step, stride, high);
            direct_piece_q6_k(dot, nibbles, high, 0, stride, &t, x, x_stride, group, n);
            direct_piece_q6_k(dot, nibbles + 32, high, 2, stride, &t, x, x_stride, group + 2, n);
        }
        ATTR_UNROLL
        for (int c = 0; c < n; c++)
            chain256(parts_of(&t), 0, dot[c], group256(x, x_stride, c), acc + c * TILE_ROWS,
                     (struct tile_shape){ .mins = 0 });
    }
}

DIRECTS(q4_k, static, NULL)
DIRECTS(q6_k, static, NULL)

#define MICRO(name, prefix, n, lines, ...)                                                         \
    static void prefix##_##name##_##n(const void *tile, uint32_t count, const uint8_t *x,          \
                                      size_t x_stride, const uint8_t *next, float *acc)            \
    {                                                                                              \
        (void)count;                                                                               \
        micro256(parts_of(tile), x, x_stride, next, lines, acc, n,                                 \
                 (struct tile_shape){ __VA_ARGS__ });                                              \
    }

FORMAT(q2_k, 84, .depth = 4, .scale_depth = 4, .mins = 8)
FORMAT(q3_k, 110, .depth = 4, .scale_depth = 4, .centre = CENTRE_4)
FORMAT_DIRECT(q4_k, 144, 6, .depth = 8, .scale_depth = 8, .mins = 4)
FORMAT(q5_k, 176, .depth = 4, .scale_depth = 8, .mins = 4)
FORMAT_DIRECT(q6_k, 210, 6, .depth = 4, .scale_depth = 4, .centre = CENTRE_32)
FORMAT_SIGNED(iq4_xs, 136)

void matmul_fill_k_avx2(struct matmul_kernels *k)
{
    k->run[DTYPE_Q2_K] = run_q2_k;
    k->run[DTYPE_Q3_K] = run_q3_k;
    k->run[DTYPE_Q4_K] = run_q4_k;
    k->run[DTYPE_Q5_K] = run_q5_k;
    k->run[DTYPE_Q6_K] = run_q6_k;
    k->run[DTYPE_IQ4_XS] = run_iq4_xs;
}
