/* SPDX-License-Identifier: MIT */
/* symbolic - see symbolic.h. A run does what a real executor does, in the order that hides least:
 *   1 shape of the plan: rows, spans, tables inside their limits and in order
 *   2 one writer for each block of the step, and nobody else has that block in a table of the step
 *   3 copies
 *   4 spans from the last to the first, so that a row which needs what another span computes in the
 *     same step finds it missing; every prefix is walked from its first slot
 *   5 results */
#include "tests/sim/symbolic.h"

#include <string.h>

#include "core/mem.h"

#define BLOCK KV_BLOCK_TOKENS

enum rc symbolic_open(struct symbolic *x, uint32_t block_count,
                      const struct executor_limits *limits)
{
    *x = (struct symbolic){ .limits = *limits, .block_count = block_count };
    x->step_us = 1000;
    x->row_us = 100;
    size_t slots = (size_t)block_count * BLOCK;
    x->slots = mem_alloc_array(slots, sizeof *x->slots);
    x->writer = mem_alloc_array(block_count, sizeof *x->writer);
    x->row_hashes = mem_alloc_array(limits->rows_max, sizeof *x->row_hashes);
    x->logits =
        mem_alloc_array((size_t)limits->outputs_max * limits->vocab_count, sizeof *x->logits);
    x->tops = mem_alloc_array((size_t)limits->outputs_max * OUTPUT_TOP_MAX, sizeof *x->tops);
    if (x->slots && x->writer && x->row_hashes && x->logits && x->tops)
        return RC_OK;
    symbolic_close(x);
    return RC_NO_MEMORY;
}

void symbolic_close(struct symbolic *x)
{
    mem_free(x->tops);
    mem_free(x->logits);
    mem_free(x->row_hashes);
    mem_free(x->writer);
    mem_free(x->slots);
    *x = (struct symbolic){ 0 };
}

static bool broken(struct symbolic *x, const char *rule, uint64_t a, uint64_t b)
{
    if (x->violation.code == RC_OK)
        fault_set(&x->violation, RC_CORRUPT, "executor: %s (%llu, %llu)", rule,
                  (unsigned long long)a, (unsigned long long)b);
    return false;
}

/* Rows, tables, and rule 2 for the blocks that are written. */
static bool check_spans(struct symbolic *x, const struct batch *b)
{
    uint64_t step = (x->steps + 1) << 32, *writers = x->writer;
    uint32_t row = 0, row_count = b->row_count, ctx_max = x->limits.ctx_max;
    for (uint32_t i = 0; i < b->span_count; i++) {
        const struct batch_span *span = &b->spans[i];
        uint32_t begin = span->pos_begin, rows = span->row_count;
        if (span->row_begin != row || rows == 0 || rows > row_count - row)
            return broken(x, "span rows do not follow each other", i, span->row_begin);
        if (begin >= ctx_max || rows > ctx_max - begin ||
            (begin + rows - 1) / BLOCK >= span->table_count)
            return broken(x, "table does not cover the span", begin, span->table_count);
        row += rows;
        for (uint32_t t = begin / BLOCK; t <= (begin + rows - 1) / BLOCK; t++) {
            uint32_t block = span->table[t];
            if (block >= x->block_count)
                return broken(x, "no such block", t, block);
            if (writers[block] >= step)
                return broken(x, "I3: two writers of a block", i, writers[block] - step);
            writers[block] = step | i;
        }
    }
    if (row != row_count)
        return broken(x, "rows without a span", row, row_count);
    return true;
}

/* The same for all other blocks of its table. */
static bool check_table(struct symbolic *x, const struct batch_span *span, uint32_t i)
{
    uint64_t step = (x->steps + 1) << 32;
    for (uint32_t t = 0; t < span->table_count; t++) {
        if (span->table[t] >= x->block_count)
            return broken(x, "no such block", t, span->table[t]);
        uint64_t writer = x->writer[span->table[t]];
        if (writer >= step && writer != (step | i))
            return broken(x, "I3: a block is written while another reads it", i, writer - step);
    }
    return true;
}

static bool check_copy(struct symbolic *x, const struct batch *b, uint32_t i)
{
    const struct batch_copy *c = &b->copies[i];
    if (c->src_block >= x->block_count || c->dst_block >= x->block_count ||
        c->src_block == c->dst_block || c->token_count == 0 || c->token_count > BLOCK)
        return broken(x, "copy outside the pool or a block", c->src_block, c->dst_block);
    return true;
}

static bool check_plan(struct symbolic *x, const struct batch *b)
{
    if (b->row_count == 0 || b->row_count > x->limits.rows_max || b->span_count > b->row_count)
        return broken(x, "rows of the step", b->row_count, b->span_count);
    if (b->output_count > x->limits.outputs_max)
        return broken(x, "outputs of the step", b->output_count, x->limits.outputs_max);
    if (!check_spans(x, b))
        return false;
    for (uint32_t i = 0; i < b->span_count && (x->steps & x->verify_mask) == 0; i++)
        if (!check_table(x, &b->spans[i], i))
            return false;
    for (uint32_t i = 0; i < b->copy_count; i++)
        if (!check_copy(x, b, i))
            return false;
    return true;
}

static size_t slot_of(const struct batch_span *span, uint32_t position)
{
    return (size_t)span->table[position / BLOCK] * BLOCK + position % BLOCK;
}

/* I4: every slot before the span holds its prefix. */
static bool walk_prefix(struct symbolic *x, const struct batch_span *span)
{
    uint64_t hash = SYMBOLIC_EMPTY;
    for (uint32_t position = 0; position < span->pos_begin;) {
        size_t at = slot_of(span, position);
        uint32_t count = span->pos_begin - position < BLOCK ? span->pos_begin - position : BLOCK;
        for (uint32_t i = 0; i < count; i++) {
            const struct slot *slot = &x->slots[at + i];
            if (slot->hash != symbolic_extend(hash, (int32_t)slot->token))
                return broken(x, "I4: slot does not continue its prefix", position + i,
                              span->table[position / BLOCK]);
            hash = slot->hash;
        }
        position += count;
    }
    return true;
}

static bool run_span(struct symbolic *x, const struct batch *b, const struct batch_span *span)
{
    if (((x->steps + span->row_begin) & x->verify_mask) == 0 && !walk_prefix(x, span))
        return false;
    uint32_t position = span->pos_begin, row = span->row_begin;
    struct slot *slots = x->slots;
    uint64_t *row_hashes = x->row_hashes;
    uint64_t hash = position > 0 ? slots[slot_of(span, position - 1)].hash : SYMBOLIC_EMPTY;
    for (uint32_t end = row + span->row_count; row < end; row++, position++) {
        int32_t token = b->tokens[row];
        if (token < 0 || (uint32_t)token >= x->limits.vocab_count)
            return broken(x, "token outside the vocabulary", row, (uint64_t)token);
        hash = symbolic_extend(hash, token);
        slots[slot_of(span, position)] = (struct slot){ hash, token };
        row_hashes[row] = hash;
    }
    return true;
}

static void run_copies(struct symbolic *x, const struct batch *b)
{
    for (uint32_t i = 0; i < b->copy_count; i++) {
        const struct batch_copy *c = &b->copies[i];
        size_t src = (size_t)c->src_block * BLOCK, dst = (size_t)c->dst_block * BLOCK;
        memcpy(&x->slots[dst], &x->slots[src], c->token_count * sizeof *x->slots);
    }
}

/* A step that fails leaves rubbish wherever it wrote. */
static void spoil(struct symbolic *x, const struct batch *b)
{
    for (uint32_t i = 0; i < b->copy_count; i++)
        memset(&x->slots[(size_t)b->copies[i].dst_block * BLOCK], 0,
               b->copies[i].token_count * sizeof *x->slots);
    for (uint32_t i = 0; i < b->span_count; i++)
        for (uint32_t r = 0; r < b->spans[i].row_count; r++)
            x->slots[slot_of(&b->spans[i], b->spans[i].pos_begin + r)].hash = 0;
}

static bool fill_result(struct symbolic *x, const struct batch *b, uint32_t i,
                        struct batch_result *result)
{
    const struct batch_output *o = &b->outputs[i];
    uint32_t vocab_count = x->limits.vocab_count;
    if (o->row >= b->row_count || (i > 0 && o->row <= o[-1].row))
        return broken(x, "outputs out of order", i, o->row);
    uint64_t hash = x->row_hashes[o->row];
    result->token = -1;
    result->logits = NULL;
    result->top_count = o->top_count < vocab_count ? o->top_count : vocab_count;
    if (o->sample) {
        if (o->history[o->history_count - 1] != b->tokens[o->row])
            return broken(x, "history does not end in the row's token", i, o->history_count);
        result->token = symbolic_next(hash, o->sampling, o->mask, vocab_count);
    }
    int32_t scored = o->target >= 0 ? o->target : result->token;
    result->logprob = scored >= 0 ? symbolic_logprob(hash, scored) : 0.0f;
    struct token_logprob *top = &x->tops[(size_t)i * OUTPUT_TOP_MAX];
    for (uint32_t t = 0; t < result->top_count; t++)
        top[t] = (struct token_logprob){ (int32_t)t, symbolic_logprob(hash, (int32_t)t) };
    result->top = top;
    if (o->logits) {
        float *logits = &x->logits[(size_t)i * vocab_count];
        for (uint32_t t = 0; t < vocab_count; t++)
            logits[t] = symbolic_logprob(hash, (int32_t)t);
        result->logits = logits;
    }
    return true;
}

static void log_plan(const struct symbolic *x, const struct batch *b)
{
    fprintf(x->log, "step %llu:%s", (unsigned long long)b->step, x->fail_next ? " (fails)" : "");
    for (uint32_t i = 0; i < b->copy_count; i++)
        fprintf(x->log, " copy %u>%u:%u", b->copies[i].src_block, b->copies[i].dst_block,
                b->copies[i].token_count);
    for (uint32_t i = 0; i < b->span_count; i++) {
        const struct batch_span *span = &b->spans[i];
        fprintf(x->log, " [%u+%u:", span->pos_begin, span->row_count);
        for (uint32_t t = 0; t < span->table_count; t++)
            fprintf(x->log, "%s%u", t > 0 ? "," : "", span->table[t]);
        fputc(']', x->log);
    }
    fputc('\n', x->log);
}

static enum rc run(void *ctx, const struct batch *b, struct batch_result *results)
{
    struct symbolic *x = ctx;
    if (x->log != NULL)
        log_plan(x, b);
    bool whole = check_plan(x, b);
    if (whole)
        run_copies(x, b);
    for (uint32_t i = b->span_count; whole && i > 0; i--)
        whole = run_span(x, b, &b->spans[i - 1]);
    for (uint32_t i = 0; whole && i < b->output_count; i++)
        whole = fill_result(x, b, i, &results[i]);
    if (whole && x->fail_next)
        spoil(x, b);
    x->steps++;
    x->rows += b->row_count;
    uint32_t slow = b->row_count > x->knee_rows ? b->row_count - x->knee_rows : 0;
    if (x->now_us != NULL)
        *x->now_us += x->step_us + x->row_us * (uint64_t)slow;
    bool failed = x->fail_next || !whole;
    x->fail_next = false;
    return failed ? RC_IO : RC_OK;
}

struct executor symbolic_executor(struct symbolic *x)
{
    return (struct executor){ .ctx = x, .limits = x->limits, .run = run };
}
