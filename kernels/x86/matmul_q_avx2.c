/* SPDX-License-Identifier: MIT */
/* matmul_q_avx2 - formats of 32-weight blocks: unpacking 8 of them into a tile, and their
 * micro-kernels. Codes of Q4_0 are kept as code + 8, of Q5_0 and MXFP4 as code + 16, undone by the
 * start of the 16-bit sums; those of Q8_0 split, of IQ4_NL as they are or split. Block layouts:
 * kernels/ref/matmul_ref_blocks.c. */
#include "kernels/x86/tile_avx2.h"

enum { BLOCKS = 8, ELEMS = 32, ACT_BYTES = sizeof(struct act_q8_32) };

struct tile_q {
    __m256i q[BLOCKS][8][2];
    __m256i below[BLOCKS][8][2], start[BLOCKS][2]; /* of split codes */
    __m256 d[BLOCKS][2], m[BLOCKS][2];
};

_Static_assert(sizeof(struct tile_q) <= TILE_BYTES_MAX, "tile");

/* 16 nibble bytes of 8 rows: the low halves are the first 16 weights, the high ones the last. */
ATTR_INLINE void load_nibbles(__m256i codes[8], const uint8_t *src, size_t stride)
{
    __m256i w[4];
    transpose16(src, stride, w);
    ATTR_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        codes[i] = low_nibbles(w[i]);
        codes[4 + i] = high_nibbles(w[i]);
    }
}

/* Signed codes, as they are or split. */
ATTR_INLINE void store_signed(struct tile_q *t, uint32_t b, uint32_t half, const __m256i codes[8],
                              const bool split)
{
    if (!split) {
        store_codes(t->q[b], half, codes);
        return;
    }
    __m256i sum = store_split(t->q[b], t->below[b], half, codes);
    t->start[b][half] = _mm256_madd_epi16(sum, _mm256_set1_epi16(-1));
}

/* ORs bit e of a word (one a row) into code e as bit 4. Byte i / 2 of the word goes to all four
 * bytes of a lane, each keeps one bit of its upper half, and whatever that is becomes 16. */
ATTR_INLINE void add_high_bits(__m256i codes[8], __m256i bits)
{
    const __m256i one_each = _mm256_set1_epi32((int)0x80402010u), four = _mm256_set1_epi8(16);
    const __m256i lane = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                          0x08080808, 0x04040404, 0);
    const __m256i low_up = _mm256_slli_epi32(bits, 4);
    ATTR_UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i from = _mm256_or_si256(lane, _mm256_set1_epi8((char)(i / 2)));
        __m256i copies = _mm256_shuffle_epi8(i % 2 == 0 ? low_up : bits, from);
        __m256i set = _mm256_min_epu8(_mm256_and_si256(copies, one_each), four);
        codes[i] = _mm256_or_si256(codes[i], set);
    }
}

static void unpack_q4_0(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 18) {
        __m256i codes[8];
        load_nibbles(codes, src + 2, stride);
        store_codes(t->q[b], half, codes);
        t->d[b][half] = load_f16_rows(src, stride);
    }
}

static void unpack_q4_1(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 20) {
        __m256i codes[8];
        load_nibbles(codes, src + 4, stride);
        store_codes(t->q[b], half, codes);
        split_f16_pairs(load_u32_rows(src, stride), &t->d[b][half], &t->m[b][half]);
    }
}

static void unpack_q5_0(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 22) {
        __m256i codes[8];
        load_nibbles(codes, src + 6, stride);
        add_high_bits(codes, load_u32_rows(src + 2, stride));
        store_codes(t->q[b], half, codes);
        t->d[b][half] = load_f16_rows(src, stride);
    }
}

static void unpack_q5_1(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 24) {
        __m256i codes[8];
        load_nibbles(codes, src + 8, stride);
        add_high_bits(codes, load_u32_rows(src + 4, stride));
        store_codes(t->q[b], half, codes);
        split_f16_pairs(load_u32_rows(src, stride), &t->d[b][half], &t->m[b][half]);
    }
}

/* 2^(e - 128) of the E8M0 bytes in the lanes; below 2 the result is subnormal. */
ATTR_INLINE __m256 scales_e8m0(__m256i e)
{
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(1 << 21), e);
    __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, small));
}

/* Codes of 5 bits: -12 .. 12, kept as code + 16. */
static void unpack_mxfp4(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                         uint32_t count)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4));
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 17) {
        __m256i codes[8];
        load_nibbles(codes, src + 1, stride);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            codes[i] = _mm256_shuffle_epi8(table, codes[i]);
        store_codes(t->q[b], half, codes);
        t->d[b][half] =
            scales_e8m0(_mm256_and_si256(load_u32_rows(src, stride), _mm256_set1_epi32(0xff)));
    }
}

static void unpack_q8_0(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                        uint32_t count)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 34) {
        __m256i codes[8];
        transpose16(src + 2, stride, codes);
        transpose16(src + 18, stride, codes + 4);
        store_signed(t, b, half, codes, true);
        t->d[b][half] = load_f16_rows(src, stride);
    }
}

ATTR_INLINE void unpack_signed_iq4_nl(void *tile, uint32_t half, const uint8_t *src, size_t stride,
                                      uint32_t count, const bool split)
{
    struct tile_q *t = tile;
    for (uint32_t b = 0; b < count; b++, src += 18) {
        __m256i codes[8];
        load_nibbles(codes, src + 2, stride);
        ATTR_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            codes[i] = iq4_codes(codes[i]);
        store_signed(t, b, half, codes, split);
        t->d[b][half] = load_f16_rows(src, stride);
    }
}

/* All blocks of a tile. */
ATTR_INLINE void micro_blocks(const struct tile_q *t, uint32_t count, const uint8_t *x,
                              size_t x_stride, const uint8_t *next, const int lines, float *acc,
                              const int n, const struct tile_shape s)
{
    for (uint32_t b = 0; b < count; b++, x += sizeof(struct act_q8_32)) {
        prefetch_part(next, b, lines);
        micro32((struct part32){ t->q[b], t->below[b], t->start[b], t->d[b], t->m[b] }, x, x_stride,
                acc, n, s);
    }
}

#define MICRO(name, prefix, n, lines, ...)                                                         \
    static void prefix##_##name##_##n(const void *tile, uint32_t count, const uint8_t *x,          \
                                      size_t x_stride, const uint8_t *next, float *acc)            \
    {                                                                                              \
        micro_blocks(tile, count, x, x_stride, next, lines, acc, n,                                \
                     (struct tile_shape){ __VA_ARGS__ });                                          \
    }

FORMAT_DIRECT(q4_0, 18, 6, .depth = 8, .centre = CENTRE_8)
FORMAT_DIRECT(q4_1, 20, 6, .depth = 8, .mins = 1)
FORMAT(q5_0, 22, .depth = 8, .centre = CENTRE_16)
FORMAT(q5_1, 24, .depth = 4, .mins = 1)
FORMAT(mxfp4, 17, .depth = 8, .centre = CENTRE_16)
FORMAT_DIRECT(q8_0, 34, 8, .wide = true, .split = true)
FORMAT_SIGNED(iq4_nl, 18)

void matmul_fill_q_avx2(struct matmul_kernels *k)
{
    k->run[DTYPE_Q4_0] = run_q4_0;
    k->run[DTYPE_Q4_1] = run_q4_1;
    k->run[DTYPE_Q5_0] = run_q5_0;
    k->run[DTYPE_Q5_1] = run_q5_1;
    k->run[DTYPE_Q8_0] = run_q8_0;
    k->run[DTYPE_IQ4_NL] = run_iq4_nl;
    k->run[DTYPE_MXFP4] = run_mxfp4;
}
