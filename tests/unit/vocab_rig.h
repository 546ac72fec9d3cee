/* SPDX-License-Identifier: MIT */
/* vocab_rig - small vocabularies for tests: described in C, written as a GGUF file, opened from it.
 *   owner    the test; vocab_rig_close gives everything back */
#ifndef QUIRE_TESTS_UNIT_VOCAB_RIG_H
#define QUIRE_TESTS_UNIT_VOCAB_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/gguf.h"
#include "core/tokenizer.h"
#include "tests/mkmodel/gguf_write.h"

enum { RIG_NORMAL = 1, RIG_UNKNOWN, RIG_CONTROL, RIG_USER, RIG_UNUSED, RIG_BYTE };

struct rig_token {
    const char *text;
    int type;
    float score;
};

struct vocab_spec {
    const char *model; /* NULL = the key is left out */
    const char *pre;
    const char *architecture;
    bool bytes; /* ids 0..255 are the bytes, in the way of the model; tokens follow */
    const struct rig_token *tokens;
    uint32_t token_count;
    const char *const *merges;
    uint32_t merge_count;
    bool no_types, no_scores, no_merges;
    int32_t scores_less, types_less; /* that many elements too few */
    const struct rig_id {
        const char *key;
        uint32_t value;
    } * ids;
    uint32_t id_count;
    const struct rig_flag {
        const char *key;
        bool value;
    } * flags;
    uint32_t flag_count;
};

/* RIG_FIELDS - a list and its length, for an initializer. */
#define RIG_FIELDS(list, count, array) .list = (array), .count = sizeof(array) / sizeof((array)[0])

struct vocab_rig {
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct fault fault;
    enum rc rc; /* of tokenizer_open */
};

void vocab_rig_open(struct vocab_rig *r, const struct vocab_spec *spec);

/* vocab_rig_open_file - a vocabulary that is there already. */
void vocab_rig_open_file(struct vocab_rig *r, const char *path);
void vocab_rig_close(struct vocab_rig *r);

/* rig_ids - ids of text as "1 2 3", in a static buffer. rig_text - what ids give back. */
const char *rig_ids(const struct tokenizer *t, const char *text, size_t len, unsigned flags);
const char *rig_text(const struct tokenizer *t, const int32_t *ids, size_t count, size_t *len);

#endif
