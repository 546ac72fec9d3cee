/* SPDX-License-Identifier: MIT */
/* dequant - the float32 values that weight blocks of every GGUF format stand for, to the bit.
 * This is the definition of the formats for the whole engine: other kernels are tested against it.
 *   thread   any, no state       errors   none: sizes are must()ed, every bit pattern has a value
 *   src      any alignment; elems / block_elems blocks (core/dtype.h)
 *   dst      [elems] f32, must not overlap src
 *   source   GGUF tensor formats (2026-08); layouts are drawn in dequant.c and dequant_iq.c */
#ifndef QUIRE_KERNELS_DEQUANT_H
#define QUIRE_KERNELS_DEQUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* dequant_row - elems must be whole blocks. Integer and F64 tensors are converted to the nearest
 * float32. */
void dequant_row(enum dtype type, const uint8_t *src, float *dst, size_t elems);

#endif
