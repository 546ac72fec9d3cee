/* SPDX-License-Identifier: MIT */
/* batch - the frozen plan of one step: plain arrays that sched writes and an executor reads.
 *   owner    sched's step arena; constant from the hand-over until the executor returns
 *   shapes   rows of one span are consecutive tokens of one sequence, positions ascending by one
 *   rule     nothing in a plan may change the bits of any row's result: it says what is computed
 *            when */
#ifndef QUIRE_CORE_BATCH_H
#define QUIRE_CORE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/sampling.h"

/* Rows [row_begin, row_begin + row_count) are tokens pos_begin .. of one sequence. Entry i of its
 * block table holds positions 32 i .. 32 i + 31; it covers every position up to the span's last. */
struct batch_span {
    uint32_t row_begin;
    uint32_t row_count;
    uint32_t pos_begin;
    uint32_t table_count;
    const uint32_t *table; /* [table_count] the sequence's own, which stays as it is meanwhile */
};

/* Copy of the first token_count tokens of a block, all layers: before any row is computed. */
struct batch_copy {
    uint32_t src_block;
    uint32_t dst_block;
    uint32_t token_count; /* 1..KV_BLOCK_TOKENS */
};

/* A row whose logits are wanted. */
struct batch_output {
    uint32_t row;
    bool sample;                     /* choose a token; else only scores or logits are wanted */
    bool logits;                     /* the raw logits stay readable until the next run */
    uint32_t top_count;              /* top log-probabilities wanted, <= OUTPUT_TOP_MAX; 0 = none */
    int32_t target;                  /* whose log-probability is wanted; -1 = the sampled one */
    const struct sampling *sampling; /* when sample */
    const int32_t *history;          /* prompt and output so far, for penalties; when sample */
    uint32_t history_count;          /* = position of the token being chosen */
    uint32_t prompt_count;           /* how many of history are the prompt */
    const uint64_t *mask;            /* allowed tokens, a bit each, or NULL for all */
};

struct batch {
    uint64_t step;         /* number of the step, for logs */
    const int32_t *tokens; /* [row_count] */
    uint32_t row_count;
    const struct batch_span *spans;
    uint32_t span_count;
    const struct batch_copy *copies;
    uint32_t copy_count;
    const struct batch_output *outputs; /* rows ascending */
    uint32_t output_count;
    const uint32_t *hidden; /* rows, ascending, whose hidden state is wanted: executor.hidden */
    uint32_t hidden_count;
};

struct token_logprob {
    int32_t token;
    float logprob; /* natural, of the model itself: before penalties and temperature */
};

/* Result of one output, in the order of batch.outputs. */
struct batch_result {
    int32_t token; /* chosen token, -1 when not sampled */
    float logprob; /* of the chosen token or the target */
    /* [vocab] when asked for; and best first, lowest id first among equals. The executor's, valid
     * until the next run. */
    const float *logits;
    const struct token_logprob *top; /* [top_count] */
    uint32_t top_count;
};

#endif
