/* SPDX-License-Identifier: MIT */
/* model - hyper-parameters and weight views of one model, checked against each other at load.
 *   owner    the opener; views point into the gguf's mapping, which must stay open
 *   thread   any after model_open: read-only
 *   errors   RC_UNSUPPORTED (architecture, feature), RC_CORRUPT (missing tensor, wrong shape), with
 *            the name */
#ifndef QUIRE_CORE_MODEL_H
#define QUIRE_CORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arch.h"
#include "core/dtype.h"
#include "core/err.h"
#include "core/gguf.h"

/* A weight matrix: rows outputs of cols inputs, row after row in the file's format. data NULL =
 * absent. */
struct weight {
    const uint8_t *data;
    enum dtype type;
    uint32_t rows;
    uint32_t cols;
    size_t row_bytes;
};

/* Vectors are copies, so aligned; an absent bias is NULL. */
struct model_layer {
    const float *attn_norm; /* [width] */
    struct weight q, k, v, o;
    const float *q_bias, *k_bias, *v_bias, *o_bias;
    const float *ffn_norm; /* [width] */
    struct weight gate, up,
        down;             /* with experts: expert_count matrices of this shape, one after another */
    struct weight router; /* [expert_count][width]; absent when the layer is not a mixture */
};

enum model_rope_scaling {
    MODEL_ROPE_PLAIN,
    MODEL_ROPE_LINEAR, /* positions divided by factor */
    MODEL_ROPE_YARN,
};

struct model_rope {
    float base;
    uint32_t dim_count; /* leading elements of a head that turn; even, <= head_dim */
    enum model_rope_scaling scaling;
    float factor;      /* >= 1 */
    uint32_t ctx_orig; /* YaRN: context length before the stretch */
    float ext_factor;  /* YaRN: how much of the unstretched angle fast dimensions keep */
    float attn_factor; /* YaRN: extra factor on cos and sin */
    float beta_fast, beta_slow;
    const float *freq_factors; /* [dim_count / 2] divisors of the frequencies, or NULL */
};

struct model {
    const struct arch *arch; /* small description that the forward pass runs from (core/arch.h) */
    uint32_t vocab_count;
    uint32_t layer_count;
    uint32_t width;      /* embedding length */
    uint32_t ff_width;   /* feed-forward length, of one expert in a mixture */
    uint32_t head_count; /* query heads */
    uint32_t kv_head_count;
    uint32_t head_dim;
    uint32_t ctx_train;    /* context length the model was trained for */
    uint32_t expert_count; /* 0 = no mixture */
    uint32_t expert_used_count;
    float norm_eps;
    float attn_scale; /* of scores: 1/sqrt(head_dim) */
    struct model_rope rope;
    uint64_t weight_bytes;    /* bytes that a step reads; of a mixture, with every expert used */
    struct weight embed;      /* [vocab][width] */
    struct weight output;     /* [vocab][width]; the same as embed when tied */
    const float *output_norm; /* [width] */
    struct model_layer *layers;
    float **vectors; /* every copied vector, for model_close */
    uint32_t vector_count;
};

enum rc model_open(struct model **out, const struct gguf *g, struct fault *fault) ATTR_MUST_USE;
void model_close(struct model *m);

/* weight_slice - matrix number index of a stack of matrices of w's shape. */
struct weight weight_slice(const struct weight *w, uint32_t index);

#endif
