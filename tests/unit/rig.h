/* SPDX-License-Identifier: MIT */
/* rig - a model, workers, KV memory and an executor in one, and runs of whole sequences through it,
 * for tests.
 *   owner    the opener; failures abort, as only tests link this */
#ifndef QUIRE_TESTS_UNIT_RIG_H
#define QUIRE_TESTS_UNIT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model.h"
#include "kernels/exec_cpu.h"

struct rig_config {
    uint32_t rows_max, outputs_max, ctx_max;
    uint32_t sequences; /* that have blocks of their own */
    uint32_t threads;
    enum isa isa;
    bool act_f32;
    struct kv_types kv_types;
    uint64_t seed; /* of the shuffle of blocks */
};

struct rig {
    struct gguf *gguf;
    struct model *model;
    struct workers *workers;
    struct exec_cpu *exec;
    struct executor executor;
    uint8_t *kv;
    size_t block_bytes;
    uint32_t blocks_per_sequence;
    uint32_t *table; /* [sequences][blocks_per_sequence], shuffled */
    struct rig_config config;
    uint64_t step;
};

/* Some tokens of one sequence. */
struct rig_part {
    uint32_t sequence;
    uint32_t pos;
    uint32_t count;
    const int32_t *tokens; /* [count] */
    float *logits;         /* [count][vocab], or NULL: not wanted */
    float *logprobs; /* [count] of the token that follows each, or NULL; tokens[count] is read */
};

/* A fresh mapping full of NaN: what is read without having been written shows. */
void rig_open(struct rig *r, const char *path, const struct rig_config *config);
void rig_close(struct rig *r);

/* rig_step - one step over these parts. */
void rig_step(struct rig *r, const struct rig_part *parts, uint32_t count);

/* rig_score - log-probabilities of tokens 1 .. count - 1 of a sequence, in chunks. */
void rig_score(struct rig *r, uint32_t sequence, const int32_t *tokens, uint32_t count,
               uint32_t chunk, float *logprobs);

/* rig_run - a whole sequence in chunks: logits of every position into logits. */
void rig_run(struct rig *r, uint32_t sequence, const int32_t *tokens, uint32_t count,
             uint32_t chunk, float *logits);

#endif
