/* SPDX-License-Identifier: MIT */
/* tok_merge - joins neighbours of a row of symbols, the pair of lowest rank first and the leftmost
 * of equals, until no pair has a rank. What both tokenizer kinds share; they differ in what gives
 * a pair its rank.
 *   owner    the encoder of one text; memory is kept from piece to piece until merge_close
 *   errors   RC_NO_MEMORY
 *   cost     n log n for n symbols, counted in work */
#ifndef QUIRE_CORE_TOK_MERGE_H
#define QUIRE_CORE_TOK_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define MERGE_END UINT32_MAX     /* no neighbour */
#define MERGE_NO_RANK UINT32_MAX /* no pair, or a symbol that was joined to its left neighbour */

/* Text [begin, end). hash is a polynomial over its bytes and power the multiplier to the number of
 * them, so that the hash of a joined pair costs two products (tok_table.h). */
struct merge_symbol {
    uint64_t hash, power;
    uint32_t begin, end;
    uint32_t prev, next;
    int32_t id;      /* token, -1 when the text is none */
    uint32_t rank;   /* of the pair with next */
    int32_t pair_id; /* what the pair becomes */
};

/* Gives the pair its rank and id; false when the two do not join. */
typedef bool merge_pair_fn(const void *ctx, const struct merge_symbol *left,
                           const struct merge_symbol *right, uint32_t *rank, int32_t *id);

#define MERGE_INLINE 64u /* symbols without an allocation: almost all words are shorter */

struct merge {
    struct merge_symbol *symbols;
    uint64_t *heap;
    size_t capacity; /* symbols; the heap has twice as many entries */
    size_t heap_count;
    uint64_t work;
    struct merge_symbol symbols_inline[MERGE_INLINE];
    uint64_t heap_inline[2 * MERGE_INLINE];
};

void merge_open(struct merge *m);
void merge_close(struct merge *m);

/* merge_reserve - room for count symbols, whose old content is lost. */
enum rc merge_reserve(struct merge *m, size_t count) ATTR_MUST_USE;

/* merge_run - joins symbols[0 .. count), of which begin, end, id, hash and power are set. The
 * result is the chain from symbols[0] over next. */
void merge_run(struct merge *m, uint32_t count, merge_pair_fn *pair, const void *ctx);

#endif
