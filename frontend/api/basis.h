/* SPDX-License-Identifier: MIT */
/* basis - what an answer depends on and its request does not say: the model and how it is computed,
 * and the values of what is left out. A batch job keeps it beside its output, a server tells it
 * (query_basis): where the models are equal and the values are sent along, so are the answers.
 *   thread   any, but basis_model's first caller alone: it reads every byte of the model file
 *   errors   NULL without memory */
#ifndef QUIRE_FRONTEND_API_BASIS_H
#define QUIRE_FRONTEND_API_BASIS_H

#include <jansson.h>

#include "frontend/api/dialect.h"

/* basis_model - {"model", "digest", "act", "ctx_size", ...} as a new reference. */
json_t *basis_model(const struct api_context *x);

/* basis_defaults - {"temperature", "seed", "max_tokens", ...} as a new reference: what a body would
 * have to say to get the same; max_tokens -1 is to the end of the context. */
json_t *basis_defaults(const struct completion_params *p);

#endif
