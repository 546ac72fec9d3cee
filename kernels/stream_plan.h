/* SPDX-License-Identifier: MIT */
/* stream_plan - the matrices of a model in the order in which forward.c multiplies them: what a
 * stream is opened with.
 *   owner    the caller, who gives the list back with mem_free once the stream is open
 *   errors   RC_NO_MEMORY */
#ifndef QUIRE_KERNELS_STREAM_PLAN_H
#define QUIRE_KERNELS_STREAM_PLAN_H

#include "core/gguf.h"
#include "core/model.h"
#include "core/stream.h"

enum rc stream_plan_make(struct stream_matrix **out, uint32_t *count, const struct model *m,
                         const struct gguf *g) ATTR_MUST_USE;

#endif
