/* SPDX-License-Identifier: MIT */
/* model - hyper-parameters and weight views of one model, checked against each other at load.
 *   owner    the opener; views point into the gguf's mapping, which must stay open
 *   thread   any after model_open: read-only
 *   errors   RC_UNSUPPORTED (architecture, feature), RC_CORRUPT (missing tensor, wrong shape), with the name */
#ifndef QUIRE_CORE_MODEL_H
#define QUIRE_CORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/err.h"
#include "core/gguf.h"

/* A weight matrix: rows outputs of cols inputs, row after row in the file's format. data NULL = absent. */
struct weight {
    const uint8_t *data;
    enum dtype type;
    uint32_t rows;
    uint32_t cols;
    size_t row_bytes;
};

struct model_layer;

struct model {
    const struct arch *arch;   /* small description that the forward pass runs from (core/arch.h) */
    uint32_t vocab_count;
    uint32_t layer_count;
    uint32_t width;            /* embedding length */
    uint32_t head_count;       /* query heads */
    uint32_t kv_head_count;
    uint32_t head_dim;
    uint32_t ctx_train;        /* context length the model was trained for */
    uint64_t weight_bytes;     /* bytes of all weights that a step reads */
    struct weight embed;       /* [vocab][width] */
    struct weight output;      /* [vocab][width]; the same as embed when tied */
    struct model_layer *layers;
};

enum rc model_open(struct model **out, const struct gguf *g, struct fault *fault) ATTR_MUST_USE;
void model_close(struct model *m);

#endif
