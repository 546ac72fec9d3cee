/* SPDX-License-Identifier: MIT */
/* cost - what a step takes, learned from the steps that were run. It decides how much is put into a
 * step, never what comes out of it: any answer of this file is correct.
 *   owner    the scheduler thread
 *   model    us = fixed + rows x row + pairs x pair; a pair is a query and a key that it reads
 *   source   recursive least squares with forgetting, from any textbook on adaptive filters */
#ifndef QUIRE_SCHED_COST_H
#define QUIRE_SCHED_COST_H

#include <stdint.h>

#define COST_TERMS 3

struct cost {
    double weight[COST_TERMS];
    double spread[COST_TERMS][COST_TERMS]; /* inverse correlation of what was seen */
    uint32_t seen;                         /* steps, up to the number that makes it trusted */
};

void cost_open(struct cost *c);

/* cost_observe - a step of so many rows and pairs took us. */
void cost_observe(struct cost *c, uint64_t rows, uint64_t pairs, uint64_t us);

/* cost_us - what a step would take; 0 while too little was seen. */
uint64_t cost_us(const struct cost *c, uint64_t rows, uint64_t pairs);

/* cost_free_rows - rows that make a step at most an eighth longer than what every step takes:
 * nearly free, because the weights are read anyway. 0 while too little was seen. */
uint32_t cost_free_rows(const struct cost *c);

/* cost_token_us - of a prompt's token in a chunk of a common size; 0 while too little was seen. */
uint32_t cost_token_us(const struct cost *c);

/* cost_rows_within - rows at position context, at most max, that may join a step of the given
 * rows and pairs so that it takes no more than us. */
uint32_t cost_rows_within(const struct cost *c, uint64_t rows, uint64_t pairs, uint32_t context,
                          uint32_t max, uint64_t us);

/* cost_pairs - query-key pairs of count rows from position begin on. */
static inline uint64_t cost_pairs(uint32_t begin, uint32_t count)
{
    return (uint64_t)count * begin + (uint64_t)count * (count + 1) / 2;
}

/* cost_work - the same beside rows, in one number: a row counts as much as 64 x 64 keys read. For
 * shares and comparisons that must not wait until anything was measured. */
static inline uint64_t cost_work(uint32_t begin, uint32_t count)
{
    return (uint64_t)count * 64 + (cost_pairs(begin, count) >> 6);
}

#endif
