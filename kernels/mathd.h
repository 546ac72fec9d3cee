/* SPDX-License-Identifier: MIT */
/* mathd - logarithm, exponential, sine and cosine in double from additions, multiplications,
 * divisions and fma alone, so that they are the same bits on every machine and with every C
 * library. For tables and for once per token: accuracy (about 1e-15) before speed.
 *   source   textbook series; reductions by Cody and Waite, Software Manual for the Elementary
 *            Functions */
#ifndef QUIRE_KERNELS_MATHD_H
#define QUIRE_KERNELS_MATHD_H

/* mathd_log - natural logarithm of a positive finite x; NaN stays NaN. */
double mathd_log(double x);

/* mathd_exp - e^x for |x| <= 700; 0 below -700; NaN stays NaN. */
double mathd_exp(double x);

/* mathd_sincos - of 0 <= x < 2^50; accurate to about x * 1e-16. */
void mathd_sincos(double x, double *sin, double *cos);

#endif
