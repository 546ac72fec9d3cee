/* SPDX-License-Identifier: MIT */
/* pooled - the embedding of a prompt: the mean of its hidden states, or the last one, scaled to
 * length 1. Sums are in double and in the order of positions, so an embedding has the same bits
 * however its prompt was cut into steps and whatever else ran.
 *   owner    a completion, from before its requests are submitted until they have ended
 *   thread   pooled_add: the scheduler's. pooled_vector: the consumer's, after the request's end
 *   errors   RC_NO_MEMORY */
#ifndef QUIRE_FRONTEND_API_POOLED_H
#define QUIRE_FRONTEND_API_POOLED_H

#include <stdint.h>

#include "core/err.h"
#include "core/gguf.h"
#include "core/model.h"
#include "frontend/api/schema.h"

struct pooled {
    double *sums; /* [width] */
    uint32_t width;
};

/* pooled_open - count of them, zero. */
enum rc pooled_open(struct pooled **out, uint32_t count, uint32_t width) ATTR_MUST_USE;
void pooled_close(struct pooled *p);

/* pooled_add - request_params.on_hidden; ctx is the struct pooled. */
void pooled_add(void *ctx, uint32_t position, const float *hidden);

/* pooled_vector - out [width]: length 1, or all zero. */
void pooled_vector(const struct pooled *p, float *out);

/* pooled_default - how a file says that its embeddings are made; the mean where it does not. */
enum pooling pooled_default(const struct gguf *g, const struct model *m);

#endif
