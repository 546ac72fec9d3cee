/* SPDX-License-Identifier: MIT */
/* quantize_mix - see quantize_mix.h. Values of attention and the way down of the feed-forward feel
 * errors most, most of all in the outer layers. */
#include "frontend/quantize_mix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/str.h"
#include "kernels/quantize.h"

enum layers {
    LAYERS_NONE,
    LAYERS_ALL,
    LAYERS_FOUR,   /* the first four */
    LAYERS_EIGHTH, /* the first eighth */
    LAYERS_OUTER,  /* the first and the last eighth, and every third between */
};

#define ALL(t) { DTYPE_##t, LAYERS_ALL }
#define FOUR(t) { DTYPE_##t, LAYERS_FOUR }
#define EIGHTH(t) { DTYPE_##t, LAYERS_EIGHTH }
#define OUTER(t) { DTYPE_##t, LAYERS_OUTER }
#define NONE { DTYPE_F32, LAYERS_NONE }

/* name, base, output | attn_v, attn_output, ffn_down | file type */
static const struct quantize_mix mixes[] = {
    { "Q2_K", DTYPE_Q2_K, DTYPE_Q6_K, ALL(Q4_K), ALL(Q3_K), ALL(Q3_K), 10 },
    { "Q3_K_S", DTYPE_Q3_K, DTYPE_Q6_K, NONE, NONE, NONE, 11 },
    { "Q3_K_M", DTYPE_Q3_K, DTYPE_Q6_K, ALL(Q4_K), ALL(Q4_K), OUTER(Q4_K), 12 },
    { "Q3_K_L", DTYPE_Q3_K, DTYPE_Q6_K, ALL(Q5_K), ALL(Q5_K), ALL(Q5_K), 13 },
    { "Q4_K_S", DTYPE_Q4_K, DTYPE_Q6_K, FOUR(Q5_K), NONE, EIGHTH(Q5_K), 14 },
    { "Q4_K_M", DTYPE_Q4_K, DTYPE_Q6_K, OUTER(Q6_K), NONE, OUTER(Q6_K), 15 },
    { "Q5_K_S", DTYPE_Q5_K, DTYPE_Q6_K, NONE, NONE, NONE, 16 },
    { "Q5_K_M", DTYPE_Q5_K, DTYPE_Q6_K, OUTER(Q6_K), NONE, OUTER(Q6_K), 17 },
};
#define MIX_COUNT (sizeof mixes / sizeof mixes[0])

/* Numbers of general.file_type for files of one format. */
static const struct {
    enum dtype type;
    int32_t number;
} file_types[] = {
    { DTYPE_F32, 0 },      { DTYPE_F16, 1 },    { DTYPE_Q4_0, 2 },    { DTYPE_Q4_1, 3 },
    { DTYPE_Q8_0, 7 },     { DTYPE_Q5_0, 8 },   { DTYPE_Q5_1, 9 },    { DTYPE_Q6_K, 18 },
    { DTYPE_IQ3_XXS, 23 }, { DTYPE_IQ4_NL, 25 }, { DTYPE_IQ3_S, 26 }, { DTYPE_IQ2_S, 28 },
    { DTYPE_IQ4_XS, 30 },  { DTYPE_IQ1_M, 31 }, { DTYPE_BF16, 32 },   { DTYPE_TQ1_0, 36 },
    { DTYPE_TQ2_0, 37 },
};

/* Bits of 256 weights. */
static uint32_t bits_256(enum dtype type)
{
    const struct dtype_info *info = dtype_find((uint32_t)type);
    return 8 * info->block_bytes * (256 / info->block_elems);
}

bool quantize_mix_find(struct quantize_mix *out, const char *name)
{
    enum dtype type;
    for (size_t i = 0; i < MIX_COUNT; i++) {
        if (strcasecmp(mixes[i].name, name) == 0) {
            *out = mixes[i];
            return true;
        }
    }
    if (!dtype_parse(&type, name) || !quantize_has(type))
        return false;
    *out = (struct quantize_mix){ .name = dtype_find((uint32_t)type)->name,
                                  .base = type,
                                  .output = bits_256(type) < bits_256(DTYPE_Q6_K) ? DTYPE_Q6_K
                                                                                  : type,
                                  .file_type = -1 };
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
        if (file_types[i].type == type)
            out->file_type = file_types[i].number;
    return true;
}

void quantize_mix_names(char *out, size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t t = 0; t < DTYPE_COUNT && len < cap; t++)
        if (quantize_has((enum dtype)t) && t != DTYPE_Q2_K)
            len += (size_t)snprintf(out + len, cap - len, "%s ", dtype_find(t)->name);
    for (size_t i = 0; i < MIX_COUNT && len < cap; i++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s", mixes[i].name,
                                i + 1 < MIX_COUNT ? " " : "");
}

/* The next format to try where the columns are not whole blocks of this one. */
static enum dtype smaller_blocks(enum dtype type)
{
    switch ((int)type) {
    case DTYPE_Q6_K:
        return DTYPE_Q8_0;
    case DTYPE_Q5_K:
        return DTYPE_Q5_1;
    case DTYPE_Q4_K:
        return DTYPE_Q5_0;
    case DTYPE_NVFP4:
        return DTYPE_MXFP4;
    default:
        return dtype_find((uint32_t)type)->block_elems > 32 ? DTYPE_IQ4_NL : DTYPE_F16;
    }
}

/* Number of the layer in "blk.7.ffn_down.weight"; -1 when it is in none. */
static int64_t layer_of(struct str name)
{
    struct str part, rest = name;
    uint32_t layer;
    if (!str_cut(&rest, '.', &part) || !str_equal(part, str_of("blk")) ||
        !str_cut(&rest, '.', &part) || !str_parse_u32(part, 0, UINT32_MAX, &layer))
        return -1;
    return layer;
}

static bool takes_part(int layers, int64_t layer, int64_t count)
{
    switch ((enum layers)layers) {
    case LAYERS_NONE:
        return false;
    case LAYERS_ALL:
        return true;
    case LAYERS_FOUR:
        return layer < 4;
    case LAYERS_EIGHTH:
        return layer < count / 8;
    case LAYERS_OUTER:
        return layer < count / 8 || layer >= 7 * count / 8 || (layer - count / 8) % 3 == 2;
    }
    return false;
}

/* Part of the name after the layer, or NULL base when there is no exception for it. */
static const struct quantize_share *share_of(const struct quantize_mix *mix, struct str name)
{
    if (str_ends(name, str_of(".attn_v.weight")))
        return &mix->attn_v;
    if (str_ends(name, str_of(".attn_output.weight")))
        return &mix->attn_output;
    if (str_ends(name, str_of(".ffn_down.weight")) ||
        str_ends(name, str_of(".ffn_down_exps.weight")))
        return &mix->ffn_down;
    return NULL;
}

static bool is_matrix_of_weights(const struct gguf_tensor *t, struct str name)
{
    static const char *const kept[] = { "norm.weight", "ffn_gate_inp.weight",
                                        "ffn_gate_inp_shexp.weight", "position_embd.weight",
                                        "token_types.weight" };
    if (t->dim_count < 2 || !str_ends(name, str_of(".weight")))
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (str_ends(name, str_of(kept[i])))
            return false;
    return true;
}

enum dtype quantize_mix_type(const struct quantize_mix *mix, const struct gguf_tensor *t,
                             uint32_t layer_count, bool tied)
{
    struct str name = { t->name.text, t->name.len };
    if (!is_matrix_of_weights(t, name))
        return t->type;
    enum dtype type = mix->base;
    const struct quantize_share *share = share_of(mix, name);
    int64_t layer = layer_of(name);
    if (share != NULL && layer >= 0 && takes_part(share->layers, layer, layer_count))
        type = share->type;
    if (str_equal(name, str_of(tied ? "token_embd.weight" : "output.weight")))
        type = mix->output;
    while (t->dims[0] % dtype_find((uint32_t)type)->block_elems != 0)
        type = smaller_blocks(type);
    return type;
}
