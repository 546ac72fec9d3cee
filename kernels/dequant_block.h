/* SPDX-License-Identifier: MIT */
/* dequant_block - one block of each format to floats: shared by dequant*.c and quantize*.c only. */
#ifndef QUIRE_KERNELS_DEQUANT_BLOCK_H
#define QUIRE_KERNELS_DEQUANT_BLOCK_H

#include <stdint.h>

typedef void dequant_block_fn(const uint8_t *b, float *y);

/* dequant_iq.c */
dequant_block_fn dequant_iq1_s, dequant_iq1_m, dequant_iq2_xxs, dequant_iq2_xs, dequant_iq2_s,
    dequant_iq3_xxs, dequant_iq3_s, dequant_iq4_nl, dequant_iq4_xs, dequant_mxfp4, dequant_nvfp4,
    dequant_tq1_0, dequant_tq2_0, dequant_q1_0, dequant_q2_0;

/* Scales of the FP4 formats, halved, as their levels are doubled (dequant_iq.c). */
float half_ue4m3(uint32_t code);
float half_e8m0(uint32_t code);

#endif
