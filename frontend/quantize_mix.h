/* SPDX-License-Identifier: MIT */
/* quantize_mix - which format each tensor of a model gets: a format for all, or a mix that gives
 * more bits where errors cost most (Q4_K_M and its kin).
 *   thread   any, no state
 *   source   the shares of the *_K_S, *_K_M and *_K_L files that people exchange */
#ifndef QUIRE_FRONTEND_QUANTIZE_MIX_H
#define QUIRE_FRONTEND_QUANTIZE_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/gguf.h"

/* A format for matrices, and exceptions by the role of the tensor. */
struct quantize_mix {
    const char *name; /* "Q4_K_M" */
    enum dtype base;
    enum dtype output; /* of output.weight, and of a tied token_embd.weight */
    struct quantize_share {
        enum dtype type;
        int layers; /* which take part: enum layers in quantize_mix.c */
    } attn_v, attn_output, ffn_down;
    int32_t file_type; /* general.file_type; -1 = there is no number */
};

/* quantize_mix_find - by name, any case: a mix, or a format with a quantizer for every matrix. */
bool quantize_mix_find(struct quantize_mix *out, const char *name);

/* quantize_mix_names - all names separated by blanks, for help and messages. */
void quantize_mix_names(char *out, size_t cap);

/* quantize_mix_type - format of tensor t in a model of layer_count layers; tied: there is no
 * output.weight. Vectors, norms, routers and positions keep what they have. Where the columns are
 * not whole blocks of that format the next one with smaller blocks is taken. */
enum dtype quantize_mix_type(const struct quantize_mix *mix, const struct gguf_tensor *t,
                             uint32_t layer_count, bool tied);

#endif
