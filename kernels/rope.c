/* SPDX-License-Identifier: MIT */
/* rope - see rope.h. Dimension pair i of D turns by base^(-2i/D) a position, divided by its
 * frequency factor where the file has them (Llama 3).
 *   linear  the angle is divided by factor
 *   YaRN    pairs that turn more than beta_fast times within the original context keep their angle,
 *           those that turn less than beta_slow times have it divided by factor, between them a
 *           linear ramp; and sines and cosines grow by 1 + 0.1 ln(factor), which sharpens attention
 *           over the longer context */
#include "kernels/rope.h"

#include <math.h>

#include "core/mem.h"
#include "kernels/mathd.h"

#define TWO_PI 0x1.921fb54442d18p+2

/* Pair index, as a real number, that turns the given number of times in the original context. */
static double pair_of_turns(const struct model_rope *r, double turns)
{
    return r->dim_count * mathd_log(r->ctx_orig / (turns * TWO_PI)) /
           (2 * mathd_log((double)r->base));
}

/* Share of the unstretched angle that pair i keeps. */
static double kept_share(const struct model_rope *r, uint32_t i)
{
    double low = floor(pair_of_turns(r, (double)r->beta_fast)),
           high = ceil(pair_of_turns(r, (double)r->beta_slow));
    low = fmax(low, 0);
    high = fmin(high, r->dim_count - 1.0);
    double at = (i - low) / fmax(high - low, 0.001);
    return (1 - fmin(fmax(at, 0), 1)) * (double)r->ext_factor;
}

enum rc rope_open(struct rope *r, const struct model *m)
{
    const struct model_rope *p = &m->rope;
    *r = (struct rope){ .dim_count = p->dim_count, .scale = 1 };
    r->freq = mem_alloc_array(p->dim_count / 2, sizeof *r->freq);
    if (r->freq == NULL)
        return RC_NO_MEMORY;
    for (uint32_t i = 0; i < p->dim_count / 2; i++) {
        double freq = mathd_exp(-2.0 * i / p->dim_count * mathd_log((double)p->base));
        if (p->freq_factors != NULL)
            freq /= (double)p->freq_factors[i];
        double kept = p->scaling == MODEL_ROPE_YARN ? kept_share(p, i) : 0;
        r->freq[i] = freq * kept + freq / (double)p->factor * (1 - kept);
    }
    if (p->scaling == MODEL_ROPE_YARN) {
        r->scale = (double)p->attn_factor;
        if (p->ext_factor != 0)
            r->scale *= 1 + 0.1 * mathd_log((double)p->factor);
    }
    return RC_OK;
}

void rope_close(struct rope *r)
{
    mem_free(r->freq);
    r->freq = NULL;
}

void rope_angles(const struct rope *r, uint32_t pos, float *cos, float *sin)
{
    for (uint32_t i = 0; i < r->dim_count / 2; i++) {
        double s, c;
        mathd_sincos(pos * r->freq[i], &s, &c);
        cos[2 * i] = cos[2 * i + 1] = (float)(c * r->scale);
        sin[2 * i + 1] = (float)(s * r->scale);
        sin[2 * i] = -sin[2 * i + 1];
    }
}
