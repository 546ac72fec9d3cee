/* SPDX-License-Identifier: MIT */
/* rope - rotary position embedding: the frequencies of a model, and the sines and cosines of one
 * position.
 *   numerics  frequencies and angles in double by kernels/mathd.h, results rounded to float: the
 *             same bits everywhere. Angles are made once per row of a step, for all layers: no
 *             table over positions
 *   owner     the opener; read-only after rope_open, any thread
 *   source    rotary embedding: Su et al. 2021; YaRN: Peng et al. 2023, sections 3.2 to 3.4 */
#ifndef QUIRE_KERNELS_ROPE_H
#define QUIRE_KERNELS_ROPE_H

#include <stdint.h>

#include "core/err.h"
#include "core/model.h"

struct rope {
    uint32_t dim_count; /* elements of a head that turn */
    double scale;       /* on every sine and cosine */
    double *freq;       /* [dim_count / 2] radians a position */
};

enum rc rope_open(struct rope *r, const struct model *m) ATTR_MUST_USE;
void rope_close(struct rope *r);

/* rope_angles - cos[dim_count] and sin[dim_count] of a position, laid out for
 * vec_kernels.rope_pairs. */
void rope_angles(const struct rope *r, uint32_t pos, float *cos, float *sin);

#endif
