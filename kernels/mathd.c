/* SPDX-License-Identifier: MIT */
/* mathd - see mathd.h. Each function reduces its argument to a small interval, where a short series
 * reaches full precision; multiplications and additions are rounded one by one (no contraction, by
 * build flag), fma is written where a product must not be rounded. */
#include "kernels/mathd.h"

#include <math.h>
#include <stdint.h>

#define LN2_HI 0x1.62e42fefa38p-1 /* trailing zeros: times a small integer it is exact */
#define LN2_LO 0x1.ef35793c7673p-45
#define LOG2E 0x1.71547652b82fep+0
#define SQRT_HALF 0x1.6a09e667f3bcdp-1
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI_1 0x1.921fb54442d18p+0 /* pi/2 in three pieces */
#define HALF_PI_2 0x1.1a62633145c07p-54
#define HALF_PI_3 (-0x1.f1976b7ed8fbcp-110)

double mathd_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < SQRT_HALF) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 25; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return exponent * LN2_HI + (exponent * LN2_LO + 2 * s * sum);
}

double mathd_exp(double x)
{
    if (x < -700)
        return 0;
    double n = floor(x * LOG2E + 0.5);
    double r = fma(-n, LN2_LO, fma(-n, LN2_HI, x)), sum = 1;
    for (int k = 14; k >= 1; k--)
        sum = 1 + sum * r / k;
    return n == n ? ldexp(sum, (int)n) : x;
}

void mathd_sincos(double x, double *sin, double *cos)
{
    double n = floor(x * TWO_OVER_PI + 0.5);
    double r = fma(-n, HALF_PI_3, fma(-n, HALF_PI_2, fma(-n, HALF_PI_1, x)));
    double r2 = r * r, s = 1, c = 1;
    for (int k = 16; k >= 2; k -= 2) {
        s = 1 - s * r2 / (k * (k + 1));
        c = 1 - c * r2 / (k * (k - 1));
    }
    s *= r;
    /* A quarter turn swaps them, half a turn negates both. */
    int64_t quarter = (int64_t)n & 3;
    double turned_s = quarter % 2 != 0 ? c : s, turned_c = quarter % 2 != 0 ? -s : c;
    *sin = quarter >= 2 ? -turned_s : turned_s;
    *cos = quarter >= 2 ? -turned_c : turned_c;
}
