/* SPDX-License-Identifier: MIT */
/* tok_table - token texts by content, and the sorted list in which added tokens are found inside a
 * text. Constant after it is built; texts belong to the tokenizer.
 *   thread   any after building
 *   errors   RC_NO_MEMORY
 *   limits   texts are at most TOKEN_TEXT_BYTES_MAX bytes */
#ifndef QUIRE_CORE_TOK_TABLE_H
#define QUIRE_CORE_TOK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct tok_text {
    const char *text;
    uint32_t len;
};

/* Polynomial hash: hash(ab) = hash(a) * power(b) + hash(b), modulo 2^64. Only an index: texts are
 * compared. */
#define TOK_HASH_FACTOR 0x9e3779b97f4a7c15u
void tok_hash(const char *text, size_t len, uint64_t *hash, uint64_t *power);

struct tok_slot {
    uint32_t tag; /* other half of the hash: most misses end here */
    int32_t id;   /* -1 = empty */
};

struct tok_table {
    struct tok_slot *slots;
    uint32_t mask;
    uint32_t len_max; /* of the longest text */
};

enum rc tok_table_open(struct tok_table *t, size_t count) ATTR_MUST_USE;
void tok_table_close(struct tok_table *t);

#define TOK_PROBES_MAX                                                                             \
    512u /* slots looked at: real vocabularies need under 50, made-up ones any number */

/* tok_table_put - at most the count it was opened for; of equal texts the last one stays. False
 * when too many other texts have its hash, which only happens on purpose. */
bool tok_table_put(struct tok_table *t, const struct tok_text *texts, int32_t id) ATTR_MUST_USE;

/* tok_table_find - id of the text made of a and b (b may be empty), whose joint hash is given; -1
 * = none. */
int32_t tok_table_find(const struct tok_table *t, const struct tok_text *texts, uint64_t hash,
                       struct tok_text a, struct tok_text b);

/* Added tokens, sorted by text; bytes[c] .. bytes[c + 1] are those that begin with byte c. */
struct tok_added {
    int32_t *ids;
    uint32_t count;
    uint32_t bytes[257];
};

/* tok_added_open - takes over the block of ids (unsorted, none with an empty text). */
void tok_added_open(struct tok_added *a, const struct tok_text *texts, int32_t *ids,
                    uint32_t count);
void tok_added_close(struct tok_added *a);

/* tok_added_match - id of the longest added token that text begins with; -1 = none. Of equal texts
 * the last id. work grows by the comparisons. */
int32_t tok_added_match(const struct tok_added *a, const struct tok_text *texts, const char *text,
                        size_t len, uint64_t *work);

#endif
