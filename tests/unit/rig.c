/* SPDX-License-Identifier: MIT */
/* rig - see rig.h. Every sequence has its blocks scattered over the pool by a seeded shuffle. */
#include "tests/unit/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/must.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void must_ok(enum rc rc, const struct fault *fault)
{
    if (rc != RC_OK)
        fprintf(stderr, "rig: %s\n", fault->text);
    must(rc == RC_OK);
}

void rig_open(struct rig *r, const char *path, const struct rig_config *config)
{
    struct fault fault = { 0 };
    *r = (struct rig){ .config = *config };
    must_ok(gguf_open(&r->gguf, path, &fault), &fault);
    must_ok(model_open(&r->model, r->gguf, &fault), &fault);
    must_ok(workers_open(&r->workers, config->threads, NULL, true, &fault), &fault);
    r->blocks_per_sequence = (config->ctx_max + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    uint32_t blocks = r->blocks_per_sequence * config->sequences;
    must_ok(exec_cpu_block_bytes(&r->block_bytes, r->model, config->kv_types, &fault), &fault);
    r->kv = aligned_alloc(64, r->block_bytes * blocks);
    r->table = malloc(blocks * sizeof *r->table);
    must(r->kv != NULL && r->table != NULL);
    memset(r->kv, 0xff, r->block_bytes * blocks);
    uint64_t state = config->seed * 2654435761u + 88172645463325252u;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t j = (uint32_t)(next_random(&state) % (i + 1));
        r->table[i] = r->table[j];
        r->table[j] = i;
    }
    struct exec_cpu_config exec = { .rows_max = config->rows_max,
                                    .outputs_max = config->outputs_max,
                                    .ctx_max = config->ctx_max,
                                    .isa = config->isa,
                                    .act_f32 = config->act_f32,
                                    .kv_types = config->kv_types,
                                    .kv_base = r->kv,
                                    .kv_block_bytes = r->block_bytes,
                                    .kv_block_count = blocks };
    must_ok(exec_cpu_open(&r->exec, r->model, r->workers, &exec, &fault), &fault);
    r->executor = exec_cpu_executor(r->exec);
}

void rig_close(struct rig *r)
{
    exec_cpu_close(r->exec);
    workers_close(r->workers);
    model_close(r->model);
    gguf_close(r->gguf);
    free(r->kv);
    free(r->table);
}

void rig_step(struct rig *r, const struct rig_part *parts, uint32_t count)
{
    const uint32_t rows_max = r->config.rows_max, outputs_max = r->config.outputs_max;
    int32_t *tokens = calloc(rows_max, sizeof *tokens);
    struct batch_span *spans = calloc(count, sizeof *spans);
    struct batch_output *outputs = calloc(outputs_max, sizeof *outputs);
    struct batch_result *results = calloc(outputs_max, sizeof *results);
    must(tokens != NULL && spans != NULL && outputs != NULL && results != NULL);
    struct batch b = {
        .step = r->step++, .tokens = tokens, .spans = spans, .span_count = count, .outputs = outputs
    };
    for (uint32_t i = 0; i < count; i++) {
        const struct rig_part *p = &parts[i];
        must(b.row_count + p->count <= rows_max);
        spans[i] = (struct batch_span){ b.row_count, p->count, p->pos, r->blocks_per_sequence,
                                        r->table + p->sequence * r->blocks_per_sequence };
        for (uint32_t k = 0; k < p->count; k++) {
            tokens[b.row_count] = p->tokens[k];
            if (p->logits != NULL || p->logprobs != NULL) {
                must(b.output_count < outputs_max);
                outputs[b.output_count++] =
                    (struct batch_output){ .row = b.row_count,
                                           .logits = p->logits != NULL,
                                           .target = p->logprobs != NULL ? p->tokens[k + 1] : -1 };
            }
            b.row_count++;
        }
    }
    must(r->executor.run(r->executor.ctx, &b, results) == RC_OK);
    uint32_t output = 0, vocab = r->model->vocab_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct rig_part *p = &parts[i];
        for (uint32_t k = 0; (p->logits != NULL || p->logprobs != NULL) && k < p->count; k++) {
            if (p->logits != NULL)
                memcpy(p->logits + (size_t)k * vocab, results[output].logits,
                       vocab * sizeof(float));
            if (p->logprobs != NULL)
                p->logprobs[k] = results[output].logprob;
            output++;
        }
    }
    free(tokens);
    free(spans);
    free(outputs);
    free(results);
}

void rig_run(struct rig *r, uint32_t sequence, const int32_t *tokens, uint32_t count,
             uint32_t chunk, float *logits)
{
    for (uint32_t at = 0; at < count; at += chunk) {
        uint32_t n = count - at < chunk ? count - at : chunk;
        struct rig_part part = { sequence, at, n, tokens + at, NULL, NULL };
        if (logits != NULL)
            part.logits = logits + (size_t)at * r->model->vocab_count;
        rig_step(r, &part, 1);
    }
}

void rig_score(struct rig *r, uint32_t sequence, const int32_t *tokens, uint32_t count,
               uint32_t chunk, float *logprobs)
{
    for (uint32_t at = 0; at + 1 < count; at += chunk) {
        uint32_t n = count - 1 - at < chunk ? count - 1 - at : chunk;
        struct rig_part part = { sequence, at, n, tokens + at, NULL, logprobs + at };
        rig_step(r, &part, 1);
    }
}
