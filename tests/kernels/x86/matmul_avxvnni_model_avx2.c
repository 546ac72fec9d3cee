/* SPDX-License-Identifier: MIT */
/* matmul_avxvnni_model_avx2 - kernels/x86/matmul_avxvnni.c with its two instructions beyond AVX2 in
 * C: needs AVX2 to run.
 *   source   the Operation sections of the Intel SDM, volume 2 */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "tests/kernels/levels.h"

#undef ATTR_UNROLL /* the loops of the two functions are enough */
#define ATTR_UNROLL

/* Four products of unsigned bytes of a and signed bytes of b, added without saturation. */
ATTR_NOINLINE static __m256i model_dpbusd(__m256i s, __m256i a, __m256i b)
{
    uint8_t x[32];
    int8_t y[32];
    uint32_t sum[8];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(sum, &s, sizeof sum);
    for (int i = 0; i < 32; i++)
        sum[i / 4] += (uint32_t)(x[i] * y[i]);
    memcpy(&s, sum, sizeof s);
    return s;
}

/* Two products of signed words. */
ATTR_NOINLINE static __m256i model_dpwssd(__m256i s, __m256i a, __m256i b)
{
    int16_t x[16], y[16];
    uint32_t sum[8];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(sum, &s, sizeof sum);
    for (int i = 0; i < 16; i++)
        sum[i / 2] += (uint32_t)(x[i] * y[i]);
    memcpy(&s, sum, sizeof s);
    return s;
}

#define OPS_MODEL
#define _mm256_dpbusd_avx_epi32 model_dpbusd
#define _mm256_dpwssd_avx_epi32 model_dpwssd
#define matmul_fill_avxvnni matmul_fill_avxvnni_model
#include "kernels/x86/matmul_avxvnni.c"
