/* SPDX-License-Identifier: MIT */
/* sample - chooses the next token of one output from its logits.
 *   numerics  IEEE basic operations in double, in token order, with exp and log of our own and the
 *             random number keyed by (seed, choice, position): the same token on every machine and
 *             instruction set, whatever else is in the step
 *   thread    any; a scratch serves one call at a time
 *   owner     the caller keeps every buffer; nothing is allocated
 *   errors    none: logits may hold anything. NaN forbids a token, +inf counts as the largest
 *             float; when every token is forbidden the lowest one that the mask allows is chosen,
 *             0 when it allows none
 *   source    docs/SAMPLING.md */
#ifndef QUIRE_KERNELS_SAMPLE_H
#define QUIRE_KERNELS_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/batch.h"

struct sample_scratch;

/* sample_scratch_bytes - what a scratch for this vocabulary takes. Its memory is 8-byte aligned and
 * zero before the first use (arena_take, mem_alloc), and is left to sample_token from then on. */
size_t sample_scratch_bytes(uint32_t vocab_count);

/* sample_token - out->sampling has passed sampling_check; history holds ids below vocab_count. */
int32_t sample_token(const struct batch_output *out, const float *logits, uint32_t vocab_count,
                     struct sample_scratch *scratch) ATTR_MUST_USE;

#endif
