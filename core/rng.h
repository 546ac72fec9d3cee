/* SPDX-License-Identifier: MIT */
/* rng - randomness as a seam: a small seeded generator, one per owner, and a function of
 * coordinates for the sampler, whose draws may not depend on who else is running or on the order of
 * calls.
 *   thread   a struct rng belongs to one owner; rng_at and rng_unit_at have no state
 *   source   splitmix64, G. Steele et al. 2014; Philox4x32-10, J. Salmon et al. 2011
 * Not for secrets. */
#ifndef QUIRE_CORE_RNG_H
#define QUIRE_CORE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

/* rng_seeded - every seed is good, 0 too. */
struct rng rng_seeded(uint64_t seed);

/* rng_next - 64 even bits. rng_below - even in [0, bound), without bias; bound >= 1. rng_unit - in
 * [0, 1). */
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t bound);
double rng_unit(struct rng *r);

/* rng_at - 64 even bits that depend on these three numbers alone: the draw of a request's choice at
 * a position. rng_unit_at - the same as a double in [0, 1), on a grid of 2^-53. */
uint64_t rng_at(uint64_t seed, uint32_t choice, uint64_t position);
double rng_unit_at(uint64_t seed, uint32_t choice, uint64_t position);

/* rng_philox - the block function itself: ten rounds over a counter and a key, in place. */
void rng_philox(uint32_t counter[4], uint32_t key0, uint32_t key1);

#endif
