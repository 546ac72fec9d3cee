/* SPDX-License-Identifier: MIT */
/* replay_rig - an engine without a model: a small vocabulary, the real scheduler, and an executor
 * that answers every request with the same listed tokens.
 *   owner    the test; replay_rig_close gives everything back
 *   thread   the test's: replay_rig_run steps the scheduler */
#ifndef QUIRE_TESTS_UNIT_REPLAY_RIG_H
#define QUIRE_TESTS_UNIT_REPLAY_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/engine.h"
#include "tests/unit/vocab_rig.h"

/* Ids after the 256 bytes: <unk> <s> </s> (its EOS), then the words " four" .. " eight", "a". */
enum {
    REPLAY_UNK = 256,
    REPLAY_BOS,
    REPLAY_EOS,
    REPLAY_FOUR,
    REPLAY_FIVE,
    REPLAY_SIX,
    REPLAY_SEVEN,
    REPLAY_EIGHT,
    REPLAY_A,
    REPLAY_BLANK,
    REPLAY_VOCAB
};

enum { REPLAY_ROWS = 64, REPLAY_WIDTH = 8 };

struct replay_rig {
    struct engine engine;
    struct vocab_rig vocab;
    struct kvpool *pool;
    struct model model; /* its sizes only */
    float hidden[REPLAY_WIDTH];
    int32_t hidden_tokens[REPLAY_ROWS];
    struct token_logprob tops[REPLAY_ROWS][OUTPUT_TOP_MAX];
    int32_t text_ids[1024];
    const int32_t *tokens; /* the answer, by position after the prompt */
    uint32_t count;
    uint32_t fail_step; /* the executor fails in this step; 0 = never */
    uint32_t steps;
};

void replay_rig_open(struct replay_rig *r, uint32_t ctx_tokens, uint32_t requests_max);
void replay_rig_close(struct replay_rig *r);

/* replay_rig_answer - what is replayed from now on. */
void replay_rig_answer(struct replay_rig *r, const int32_t *tokens, uint32_t count);

/* replay_rig_text - the same for a text: its bytes, a token each, and EOS. */
void replay_rig_text(struct replay_rig *r, const char *text);

#endif
