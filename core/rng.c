/* SPDX-License-Identifier: MIT */
/* rng - see rng.h. The counter of rng_at is [position low, position high, choice, 0] and its key
 * the seed: two draws share a block only when all three numbers are the same. The fourth word is
 * kept for draws that need several numbers at one position. These bits are part of what a seed
 * means to a user: never change. */
#include "core/rng.h"

#include "core/must.h"

#define PHILOX_ROUNDS 10

struct rng rng_seeded(uint64_t seed)
{
    return (struct rng){ seed };
}

uint64_t rng_next(struct rng *r)
{
    r->state += 0x9e3779b97f4a7c15u;
    uint64_t z = r->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    must(bound >= 1);
    uint64_t uneven =
        (0 - bound) % bound; /* 2^64 mod bound: draws below this would come once too often */
    uint64_t draw;
    do
        draw = rng_next(r);
    while (draw < uneven);
    return draw % bound;
}

static double to_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double rng_unit(struct rng *r)
{
    return to_unit(rng_next(r));
}

void rng_philox(uint32_t counter[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * counter[0];
        uint64_t b = (uint64_t)0xcd9e8d57u * counter[2];
        uint32_t c1 = counter[1], c3 = counter[3];
        counter[0] = (uint32_t)(b >> 32) ^ c1 ^ key0;
        counter[1] = (uint32_t)b;
        counter[2] = (uint32_t)(a >> 32) ^ c3 ^ key1;
        counter[3] = (uint32_t)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

uint64_t rng_at(uint64_t seed, uint32_t choice, uint64_t position)
{
    uint32_t words[4] = { (uint32_t)position, (uint32_t)(position >> 32), choice, 0 };
    rng_philox(words, (uint32_t)seed, (uint32_t)(seed >> 32));
    return (uint64_t)words[1] << 32 | words[0];
}

double rng_unit_at(uint64_t seed, uint32_t choice, uint64_t position)
{
    return to_unit(rng_at(seed, choice, position));
}
