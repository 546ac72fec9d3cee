/* SPDX-License-Identifier: MIT */
/* quantize_iq - formats whose elements are looked up or ternary; blocks are drawn in dequant_iq.c.
 * Two kinds of fit, each trying scales and keeping the one that explains most of the values:
 *   fit_levels   every element takes the nearest of a few levels      (IQ4, FP4, ternary)
 *   fit_runs     every run of 8 takes the nearest vectors of a book   (IQ1_M, IQ2_S, IQ3)
 * With q the levels chosen at some scale, the best scale is sum xq / sum qq and the error it leaves
 * sum xx - (sum xq)^2 / sum qq. Group scales are stored in a few bits: the levels are chosen anew
 * for the scales as they are stored. */
#include "core/must.h"
#include "kernels/dequant_block.h"
#include "kernels/quantize_block.h"
#include "kernels/ref/iq_tables.h"

/* A scale on trial and what it explains. */
struct trial {
    float scale, gain;
};

static void trial_keep(struct trial *best, double sum_xq, double sum_qq)
{
    float gain = sum_qq > 0 ? (float)(sum_xq * sum_xq / sum_qq) : 0.0f;
    if (gain > best->gain)
        *best = (struct trial){ (float)(sum_xq / sum_qq), gain };
}

/* Levels in ascending order, the borders between them, and how the format writes each. */
struct levels {
    int count;
    int8_t value[16];
    float border[15];
    uint8_t code[16];
};

#define BORDERS(a, b, c, d, e, f, g, h)                                                            \
    (a + b) * 0.5f, (b + c) * 0.5f, (c + d) * 0.5f, (d + e) * 0.5f, (e + f) * 0.5f,                \
        (f + g) * 0.5f, (g + h) * 0.5f

static const struct levels nl_levels = {
    16,
    { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 },
    { BORDERS(-127, -104, -83, -65, -49, -35, -22, -10), -4.5f,
      BORDERS(1, 13, 25, 38, 53, 69, 89, 113) },
    { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
};

/* Twice the values of E2M1; code 8 would be a second zero. */
static const struct levels e2m1_levels = {
    15,
    { -12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12 },
    { BORDERS(-12, -8, -6, -4, -3, -2, -1, 0), BORDERS(0, 1, 2, 3, 4, 6, 8, 12) },
    { 15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7 },
};

static const struct levels ternary_levels = { 3, { -1, 0, 1 }, { -0.5f, 0.5f }, { 0, 1, 2 } };
static const struct levels two_bit_levels = {
    4, { -1, 0, 1, 2 }, { -0.5f, 0.5f, 1.5f }, { 0, 1, 2, 3 }
};

/* Index of the level nearest to v; 0 for NaN. */
static int nearest_level(float v, const struct levels *l)
{
    int first = 0;
    for (int left = l->count; left > 1;) {
        int half = left / 2;
        first += v > l->border[first + half - 1] ? half : 0;
        left -= half;
    }
    return first;
}

/* Scale of n values. The largest is tried on the lowest and on the highest level, exactly and down
 * to the fraction `low` of the scale that this asks for. */
static float fit_levels(const float *x, int n, const struct levels *l, float low)
{
    enum { STEPS = 12 };
    struct trial best = { 0.0f, 0.0f };
    float peak = extreme(x, n);
    for (int side = 0; side < 2; side++) {
        float widest = peak / (float)l->value[side == 0 ? 0 : l->count - 1];
        for (int step = -1; step <= STEPS; step++) {
            float id = inverse(widest * (1.0f - (1.0f - low) * (float)step / STEPS));
            double sum_xq = 0, sum_qq = 0;
            for (int i = 0; i < n; i++) {
                float q = (float)l->value[nearest_level(x[i] * id, l)];
                sum_xq += (double)(x[i] * q);
                sum_qq += (double)(q * q);
            }
            trial_keep(&best, sum_xq, sum_qq);
        }
    }
    return best.scale;
}

/* Nibbles of 2 half elements: indices of levels at this scale. */
static void put_levels(uint8_t *p, const float *x, int half, const struct levels *l, float scale)
{
    float id = inverse(scale);
    for (int j = 0; j < half; j++)
        p[j] = (uint8_t)(l->code[nearest_level(x[j] * id, l)] |
                         l->code[nearest_level(x[j + half] * id, l)] << 4);
}

static float error_of_levels(const float *x, int n, const struct levels *l, float scale)
{
    float error = 0.0f, id = inverse(scale);
    for (int i = 0; i < n; i++) {
        float e = scale * (float)l->value[nearest_level(x[i] * id, l)] - x[i];
        error += e * e;
    }
    return error;
}

void quantize_iq4_nl(const float *x, uint8_t *b)
{
    put_levels(b + 2, x, 16, &nl_levels, store_f16(b, fit_levels(x, 32, &nl_levels, 0.7f)));
}

void quantize_iq4_xs(const float *x, uint8_t *b)
{
    float scale[8];
    uint32_t high = 0;
    for (int g = 0; g < 8; g++)
        scale[g] = fit_levels(x + 32 * g, 32, &nl_levels, 0.7f);
    float d = store_f16(b, extreme(scale, 8) / -32.0f);
    memset(b + 4, 0, 4);
    for (int g = 0; g < 8; g++) {
        int s = nearest(scale[g] * inverse(d), -32, 31);
        b[4 + g / 2] |= (uint8_t)(((s + 32) & 15) << (g % 2 * 4));
        high |= (uint32_t)(s + 32) >> 4 << (2 * g);
        put_levels(b + 8 + 16 * g, x + 32 * g, 16, &nl_levels, d * (float)s);
    }
    store_u16(b + 2, (uint16_t)high);
}

/* Of the codes [low, high] of a scale the one that leaves least. */
static uint32_t settle_code(const float *x, int n, float (*value)(uint32_t), int low, int high)
{
    float least = INFINITY;
    uint32_t best = 0;
    for (int code = low < 0 ? 0 : low; code <= high; code++) {
        float error = error_of_levels(x, n, &e2m1_levels, value((uint32_t)code));
        if (error < least) {
            least = error;
            best = (uint32_t)code;
        }
    }
    return best;
}

/* First code whose scale lets the largest value in without cutting it. */
static int covering_code(const float *x, int n, float (*value)(uint32_t), int top)
{
    float want = fabsf(extreme(x, n)) / 12.0f;
    int code = 0;
    while (code < top && value((uint32_t)code) < want)
        code++;
    return code;
}

void quantize_mxfp4(const float *x, uint8_t *b)
{
    int code = covering_code(x, 32, half_e8m0, 254);
    b[0] = (uint8_t)settle_code(x, 32, half_e8m0, code - 2, code);
    put_levels(b + 1, x, 16, &e2m1_levels, half_e8m0(b[0]));
}

void quantize_nvfp4(const float *x, uint8_t *b)
{
    for (int s = 0; s < 4; s++, x += 16) {
        int code = covering_code(x, 16, half_ue4m3, 126);
        b[s] = (uint8_t)settle_code(x, 16, half_ue4m3, code - 8, code < 126 ? code + 1 : code);
        put_levels(b + 4 + 8 * s, x, 8, &e2m1_levels, half_ue4m3(b[s]));
    }
}

void quantize_tq1_0(const float *x, uint8_t *b)
{
    /* Where runs of bytes begin, how many there are, and how many trits each holds. */
    static const struct {
        int at, bytes, trits;
    } runs[] = { { 0, 32, 5 }, { 32, 16, 5 }, { 48, 4, 4 } };
    float id = inverse(store_f16(b + 52, fit_levels(x, 256, &ternary_levels, 0.15f)));
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        for (int j = 0; j < runs[r].bytes; j++) {
            int number = 0;
            for (int n = 0; n < 5; n++)
                number = number * 3 +
                         (n < runs[r].trits
                              ? nearest_level(x[n * runs[r].bytes + j] * id, &ternary_levels)
                              : 0);
            b[runs[r].at + j] = (uint8_t)((number * 256 + 242) / 243);
        }
        x += runs[r].bytes * runs[r].trits;
    }
}

void quantize_tq2_0(const float *x, uint8_t *b)
{
    float id = inverse(store_f16(b + 64, fit_levels(x, 256, &ternary_levels, 0.15f)));
    memset(b, 0, 64);
    for (int i = 0; i < 256; i++)
        b[i / 128 * 32 + i % 32] |=
            (uint8_t)(nearest_level(x[i] * id, &ternary_levels) << (i % 128 / 32 * 2));
}

void quantize_q1_0(const float *x, uint8_t *b)
{
    float sum = 0.0f;
    memset(b + 2, 0, 16);
    for (int i = 0; i < 128; i++) {
        sum += fabsf(x[i]);
        b[2 + i / 8] |= (uint8_t)((x[i] >= 0.0f) << (i % 8));
    }
    store_f16(b, sum / 128.0f);
}

void quantize_q2_0(const float *x, uint8_t *b)
{
    float id = inverse(store_f16(b, fit_levels(x, 64, &two_bit_levels, 0.25f)));
    memset(b + 2, 0, 16);
    for (int i = 0; i < 64; i++)
        b[2 + i / 4] |= (uint8_t)(nearest_level(x[i] * id, &two_bit_levels) << (i % 4 * 2));
}

/* A book: vectors of dim small numbers of `bits` bits, each standing for a level. */
struct book {
    const uint16_t *grid;
    int count, dim, bits, level_count;
    float levels[8];
};

/* Costs of every half vector: dim / 2 numbers, the first in the lowest bits. */
static void cost_halves(const struct book *k, const float *y, float scale, float *cost)
{
    cost[0] = 0.0f;
    for (int j = k->dim / 2 - 1; j >= 0; j--) {
        int done = 1 << k->bits * (k->dim / 2 - 1 - j);
        for (int t = done - 1; t >= 0; t--) {
            float rest = cost[t];
            for (int l = 0; l < k->level_count; l++) {
                float e = y[j] - scale * k->levels[l];
                cost[t << k->bits | l] = rest + e * e;
            }
        }
    }
}

/* Index of the vector nearest to y at this scale; its levels go to q. */
static uint32_t nearest_vector(const struct book *k, const float *y, float scale, float *q,
                               float *error)
{
    float low[256], high[256], least = INFINITY;
    int half_bits = k->bits * k->dim / 2, mask = (1 << half_bits) - 1;
    uint32_t best = 0;
    cost_halves(k, y, scale, low);
    cost_halves(k, y + k->dim / 2, scale, high);
    for (int i = 0; i < k->count; i++) {
        float cost = low[k->grid[i] & mask] + high[k->grid[i] >> half_bits];
        if (cost < least) {
            least = cost;
            best = (uint32_t)i;
        }
    }
    for (int j = 0; j < k->dim; j++)
        q[j] = k->levels[k->grid[best] >> (k->bits * j) & ((1 << k->bits) - 1)];
    *error = least;
    return best;
}

/* Eight values at a scale: the code that the format stores (drawn at each), the levels in q. */
typedef uint32_t run_fn(const float *x, float scale, float q[8]);

/* Sizes of the values; their signs, a bit each. */
static uint32_t split_signs(const float *x, float size[8])
{
    uint32_t signs = 0;
    for (int j = 0; j < 8; j++) {
        signs |= (uint32_t)(x[j] < 0.0f) << j;
        size[j] = fabsf(x[j]);
    }
    return signs;
}

static void put_signs(uint32_t signs, float q[8])
{
    for (int j = 0; j < 8; j++)
        q[j] = (signs >> j & 1) != 0 ? -q[j] : q[j];
}

/* index, signs << 16 */
static uint32_t run_iq2_s(const float *x, float scale, float q[8])
{
    static const struct book book = { iq2_s_grid, 1024, 8, 2, 3, { 8, 25, 43 } };
    float size[8], error;
    uint32_t signs = split_signs(x, size);
    uint32_t index = nearest_vector(&book, size, scale, q, &error);
    put_signs(signs, q);
    return index | signs << 16;
}

/* index, index << 9, signs << 18 */
static uint32_t run_iq3_s(const float *x, float scale, float q[8])
{
    static const struct book book = { iq3_s_grid, 512, 4, 3, 8, { 1, 3, 5, 7, 9, 11, 13, 15 } };
    float size[8], error;
    uint32_t signs = split_signs(x, size);
    uint32_t first = nearest_vector(&book, size, scale, q, &error);
    uint32_t second = nearest_vector(&book, size + 4, scale, q + 4, &error);
    put_signs(signs, q);
    return first | second << 9 | signs << 18;
}

/* index, index << 8, signs << 16, seven of them: an odd number is not to be had, so that the
 * smallest value gives way. */
static uint32_t run_iq3_xxs(const float *x, float scale, float q[8])
{
    static const struct book book = {
        iq3_xxs_grid, 256, 4, 3, 8, { 4, 12, 20, 28, 36, 44, 52, 62 }
    };
    float size[8], error;
    uint32_t signs = split_signs(x, size);
    if (__builtin_popcount(signs) % 2 != 0) {
        int smallest = 0;
        for (int j = 1; j < 8; j++)
            smallest = size[j] < size[smallest] ? j : smallest;
        signs ^= 1u << smallest;
        size[smallest] = -size[smallest];
    }
    uint32_t first = nearest_vector(&book, size, scale, q, &error);
    uint32_t second = nearest_vector(&book, size + 4, scale, q + 4, &error);
    put_signs(signs, q);
    return first | second << 8 | (signs & 127) << 16;
}

/* index, whether delta is negative << 11 */
static uint32_t run_iq1_m(const float *x, float scale, float q[8])
{
    static const struct book books[2] = {
        { iq1_s_grid, 2048, 8, 2, 3, { -0.875f, 0.125f, 1.125f } },
        { iq1_s_grid, 2048, 8, 2, 3, { -1.125f, -0.125f, 0.875f } },
    };
    float other[8], error[2];
    uint32_t plus = nearest_vector(&books[0], x, scale, q, &error[0]);
    uint32_t minus = nearest_vector(&books[1], x, scale, other, &error[1]);
    if (!(error[1] < error[0]))
        return plus;
    memcpy(q, other, sizeof other);
    return minus | 1u << 11;
}

/* What formats of runs have in common: 256 values in groups with a scale of d unit (2 s + 1). */
struct run_format {
    run_fn *run;
    int group; /* values of a group */
    int top;   /* largest s */
    float unit;
    float widest; /* largest level */
    float low;    /* smallest fraction of the scale that the largest value asks for */
};

static float fit_runs(const struct run_format *f, const float *x)
{
    enum { STEPS = 9 };
    struct trial best = { 0.0f, 0.0f };
    float widest = fabsf(extreme(x, f->group)) / f->widest;
    for (int step = 0; step <= STEPS; step++) {
        float scale = widest * (1.0f - (1.0f - f->low) * (float)step / STEPS);
        double sum_xq = 0, sum_qq = 0;
        for (int r = 0; r < f->group; r += 8) {
            float q[8];
            f->run(x + r, scale, q);
            for (int j = 0; j < 8; j++) {
                sum_xq += (double)(x[r + j] * q[j]);
                sum_qq += (double)(q[j] * q[j]);
            }
        }
        if (sum_xq > 0)
            trial_keep(&best, sum_xq, sum_qq);
    }
    return best.scale;
}

/* d as stored, s of every group, codes of the 32 runs. */
static float fit_block(const struct run_format *f, const float *x, int *s, uint32_t code[32])
{
    float scale[16], largest = 0.0f, q[8];
    int groups = 256 / f->group, runs = f->group / 8;
    must(groups <= 16);
    for (int g = 0; g < groups; g++) {
        scale[g] = fit_runs(f, x + f->group * g);
        largest = fmaxf(largest, scale[g]);
    }
    float d = f16_to_f32(f32_to_f16(largest / (f->unit * (float)(2 * f->top + 1))));
    for (int g = 0; g < groups; g++) {
        s[g] = nearest((scale[g] * inverse(d * f->unit) - 1.0f) * 0.5f, 0, f->top);
        for (int r = g * runs; r < (g + 1) * runs; r++)
            code[r] = f->run(x + 8 * r, d * f->unit * (float)(2 * s[g] + 1), q);
    }
    return d;
}

void quantize_iq2_s(const float *x, uint8_t *b)
{
    static const struct run_format format = { run_iq2_s, 16, 15, 0.125f, 43, 0.6f };
    uint32_t code[32];
    int s[16];
    store_f16(b, fit_block(&format, x, s, code));
    memset(b + 66, 0, 16);
    for (int r = 0; r < 32; r++) {
        b[2 + r] = (uint8_t)code[r];
        b[34 + r] = (uint8_t)(code[r] >> 16);
        b[66 + r / 4] |= (uint8_t)((code[r] >> 8 & 3) << (r % 4 * 2));
    }
    for (int g = 0; g < 16; g++)
        b[74 + g / 2] |= (uint8_t)(s[g] << (g % 2 * 4));
}

void quantize_iq3_s(const float *x, uint8_t *b)
{
    static const struct run_format format = { run_iq3_s, 32, 15, 1.0f, 15, 0.6f };
    uint32_t code[32];
    int s[8];
    store_f16(b, fit_block(&format, x, s, code));
    memset(b + 66, 0, 8);
    memset(b + 106, 0, 4);
    for (int r = 0; r < 32; r++) {
        uint32_t first = code[r] & 511, second = code[r] >> 9 & 511;
        b[2 + 2 * r] = (uint8_t)first;
        b[3 + 2 * r] = (uint8_t)second;
        b[66 + r / 4] |= (uint8_t)((first >> 8 | second >> 8 << 1) << (r % 4 * 2));
        b[74 + r] = (uint8_t)(code[r] >> 18);
    }
    for (int g = 0; g < 8; g++)
        b[106 + g / 2] |= (uint8_t)(s[g] << (g % 2 * 4));
}

void quantize_iq3_xxs(const float *x, uint8_t *b)
{
    static const struct run_format format = { run_iq3_xxs, 32, 15, 0.25f, 62, 0.6f };
    uint32_t code[32];
    int s[8];
    store_f16(b, fit_block(&format, x, s, code));
    for (int g = 0; g < 8; g++) {
        uint32_t word = (uint32_t)s[g] << 28;
        for (int r = 0; r < 4; r++) {
            b[2 + 8 * g + 2 * r] = (uint8_t)code[4 * g + r];
            b[3 + 8 * g + 2 * r] = (uint8_t)(code[4 * g + r] >> 8);
            word |= (code[4 * g + r] >> 16 & 127) << (7 * r);
        }
        memcpy(b + 66 + 4 * g, &word, sizeof word);
    }
}

void quantize_iq1_m(const float *x, uint8_t *b)
{
    static const struct run_format format = { run_iq1_m, 16, 7, 1.0f, 1.125f, 0.4f };
    uint32_t code[32], words[4] = { 0 };
    int s[16];
    uint32_t d = f32_to_f16(fit_block(&format, x, s, code));
    memset(b + 32, 0, 16);
    for (int r = 0; r < 32; r++) {
        b[r] = (uint8_t)code[r];
        b[32 + r / 2] |= (uint8_t)((code[r] >> 8 & 15) << (r % 2 * 4));
    }
    for (int g = 0; g < 16; g++)
        words[g / 4] |= (uint32_t)s[g] << (g % 4 * 3);
    for (int i = 0; i < 4; i++)
        store_u16(b + 48 + 2 * i, (uint16_t)(words[i] | (d >> (4 * i) & 15) << 12));
}
