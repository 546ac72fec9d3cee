/* SPDX-License-Identifier: MIT */
/* weights - the numbers of a model from its seed, row by row.
 * Values are sums of four even 16-bit numbers: close to gaussian, and made of integer steps, so
 * that no mathematical library has a say in them. A row's generator starts from (seed, tensor
 * name, row): rows can be made in any order, and a tensor keeps its values when others come or
 * go. With `direct`, a block of a quantized format is random bits under chosen scales: its values
 * are even over the format's range with the same deviation, and making them costs next to
 * nothing. */
#include <math.h>
#include <string.h>

#include "core/must.h"
#include "core/rng.h"
#include "kernels/f16.h"
#include "kernels/quantize.h"
#include "tests/mkmodel/mkmodel.h"

/* sum of 4 even numbers on [0, 65535]: mean 131070, deviation sqrt(4 * (65536^2 - 1) / 12) */
#define SUM_MEAN 131070
#define SUM_DEVIATION 37837.227f

static struct rng row_rng(const struct mkmodel_spec *spec, const char *name, uint32_t row)
{
    uint64_t hash = 14695981039346656037u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 1099511628211u;
    return rng_seeded(rng_at(spec->seed ^ hash, 0, row));
}

static void fill_floats(struct rng *r, const struct mkmodel_tensor *t, float *out)
{
    float step = t->deviation / SUM_DEVIATION;
    for (uint32_t i = 0; i < t->cols; i++) {
        uint64_t x = rng_next(r);
        int sum =
            (int)(x & 0xffff) + (int)(x >> 16 & 0xffff) + (int)(x >> 32 & 0xffff) + (int)(x >> 48);
        out[i] = (float)(sum - SUM_MEAN) * step + t->mean;
    }
}

/* Divisors of the rotation frequencies as Llama 3.1 defines them: none for wavelengths below a
 * quarter of the original context, the factor above all of it, a blend between. */
static void fill_rope_factors(const struct mkmodel_spec *spec, float *out, uint32_t count)
{
    double original = spec->ctx / 4 < 8192 ? spec->ctx / 4 : 8192;
    for (uint32_t i = 0; i < count; i++) {
        double wave =
            2 * 3.14159265358979323846 * pow((double)spec->rope_base, 2.0 * i / spec->head_dim);
        double smooth = (original / wave - 1.0) / (4.0 - 1.0);
        double scale = 1.0;
        if (wave > original)
            scale = (double)spec->rope_factor;
        else if (wave > original / 4.0)
            scale = 1.0 / ((1.0 - smooth) / (double)spec->rope_factor + smooth);
        out[i] = (float)scale;
    }
}

static void put_f16(uint8_t *p, float v)
{
    uint16_t h = f32_to_f16(v);
    memcpy(p, &h, sizeof h);
}

/* Deviation of even whole numbers 0 .. top. */
static float even_deviation(int top)
{
    float n = (float)(top + 1);
    return sqrtf((n * n - 1) / 12);
}

/* The scales of one block whose quants are random already: x picks signs and sizes. */
static void put_scales(enum dtype type, uint8_t *b, float deviation, uint64_t x)
{
    float sign = (x & 1) != 0 ? -1.0f : 1.0f;                  /* evens out a lopsided range */
    float size = 0.75f + (float)(x >> 1 & 127) * (0.5f / 127); /* blocks differ in size */
    float d = deviation * size;
    switch ((int)type) {
    case DTYPE_Q8_0:
        put_f16(b, sign * d / even_deviation(255));
        return;
    case DTYPE_Q4_0:
        put_f16(b, sign * d / even_deviation(15));
        return;
    case DTYPE_Q5_0:
        put_f16(b, sign * d / even_deviation(31));
        return;
    case DTYPE_Q4_1:
        put_f16(b, d / even_deviation(15));
        put_f16(b + 2, -7.5f * d / even_deviation(15));
        return;
    case DTYPE_Q5_1:
        put_f16(b, d / even_deviation(31));
        put_f16(b + 2, -15.5f * d / even_deviation(31));
        return;
    case DTYPE_Q6_K: /* scales +-(64 .. 127), about 96 */
        put_f16(b + 208, sign * d / even_deviation(63) / 96);
        for (int g = 0; g < 16; g++) {
            int s = 64 | (b[192 + g] & 63);
            b[192 + g] = (uint8_t)((b[192 + g] & 64) != 0 ? -s : s);
        }
        return;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: { /* scale = min of a group, 32 .. 63, about 48; the middle is at 0 */
        int top = type == DTYPE_Q4_K ? 15 : 31;
        put_f16(b, d / even_deviation(top) / 48);
        put_f16(b + 2, 0.5f * (float)top * d / even_deviation(top) / 48);
        for (int g = 0; g < 4; g++) {
            int low = 32 | (b[4 + g] & 31), high = 32 | (b[8 + g] & 31);
            b[4 + g] = b[8 + g] = (uint8_t)(low | high >> 4 << 6);
            b[12 + g] = (uint8_t)((high & 15) * 0x11);
        }
        return;
    }
    default:
        must(type == DTYPE_Q8_0); /* has_direct() let a format through that has no case here */
    }
}

static bool has_direct(enum dtype type)
{
    return type != DTYPE_F32 && type != DTYPE_F16 && type != DTYPE_BF16;
}

static void fill_blocks(struct rng *r, const struct mkmodel_tensor *t, uint8_t *dst)
{
    const struct dtype_info *info = dtype_find((uint32_t)t->type);
    must(info != NULL);
    size_t bytes = t->cols / info->block_elems * (size_t)info->block_bytes;
    uint64_t x;
    for (size_t i = 0; i < bytes; i += sizeof x) {
        x = rng_next(r);
        memcpy(dst + i, &x, bytes - i < sizeof x ? bytes - i : sizeof x);
    }
    for (size_t i = 0; i < bytes; i += info->block_bytes)
        put_scales(t->type, dst + i, t->deviation, rng_next(r));
}

/* Value i of the code of state n: plus or minus one; codes of two states hardly agree. */
static float code(const struct mkmodel_spec *spec, uint32_t n, uint32_t i)
{
    return (rng_at(spec->seed, n, i / 64) >> i % 64 & 1) != 0 ? 1.0f : -1.0f;
}

/* A script: layers add nothing, so the answer to a token depends on that token alone. Token i of
 * the script has code i + 1, all others code 0; the output finds script token i by code i, and the
 * end of the turn by the last code. */
static bool fill_script(const struct mkmodel_spec *spec, const char *name, uint32_t row,
                        uint32_t cols, float *out)
{
    uint32_t count = mkmodel_script_count(spec), end = spec->vocab - 1;
    bool scripted = row >= 256 && row < 256 + count;
    if (strcmp(name, "token_embd.weight") == 0) {
        for (uint32_t i = 0; i < cols; i++)
            out[i] = code(spec, scripted ? row - 255 : 0, i);
        return true;
    }
    if (strcmp(name, "output.weight") == 0) {
        float scale = scripted || row == end ? 40.0f / (float)cols : 0.0f;
        for (uint32_t i = 0; i < cols; i++)
            out[i] = scale * code(spec, row == end ? count : row - 256, i);
        return true;
    }
    if (strstr(name, "attn_output.weight") == NULL && strstr(name, "ffn_down.weight") == NULL)
        return false;
    memset(out, 0, cols * sizeof *out);
    return true;
}

void mkmodel_row(const struct mkmodel_spec *spec, const struct mkmodel_tensor *t, uint32_t row,
                 float *scratch, uint8_t *dst)
{
    struct rng r = row_rng(spec, t->name, row);
    if (spec->direct && has_direct(t->type)) {
        fill_blocks(&r, t, dst);
        return;
    }
    if (spec->script != NULL && fill_script(spec, t->name, row, t->cols, scratch))
        must(t->type == DTYPE_F32);
    else if (t->rope_factors)
        fill_rope_factors(spec, scratch, t->cols);
    else
        fill_floats(&r, t, scratch);
    quantize_row(t->type, scratch, dst, t->cols);
}
