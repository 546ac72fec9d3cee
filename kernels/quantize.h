/* SPDX-License-Identifier: MIT */
/* quantize - rows of floats to weight blocks, each row from itself alone.
 *   thread   any, no state       errors   none: sizes and type are must()ed
 *   src      [elems] f32; a value that is not finite gives a defined but useless block
 *   dst      elems / block_elems blocks (core/dtype.h), any alignment, must not overlap src
 *   bound    relative rms error on gaussian weights within 1.02 of ggml's quantizers
 *   source   least squares per group; the block formats are drawn in dequant.c */
#ifndef QUIRE_KERNELS_QUANTIZE_H
#define QUIRE_KERNELS_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* quantize_has - whether there is a quantizer for this format. */
bool quantize_has(enum dtype type);

/* quantize_row - elems must be whole blocks. */
void quantize_row(enum dtype type, const float *src, uint8_t *dst, size_t elems);

#endif
