/* SPDX-License-Identifier: MIT */
/* replay_rig - token number i of every answer is tokens[i]; log-probabilities are -(i + 1) / 8 for
 * the chosen token, and half an eighth worse for each of the best beside it. */
#include "tests/unit/test.h"

#include "tests/unit/replay_rig.h"

static void fill_result(struct replay_rig *r, const struct batch_output *out,
                        struct token_logprob *top, struct batch_result *result)
{
    uint32_t at = out->history_count - out->prompt_count;
    *result = (struct batch_result){ .token = -1, .top = top };
    if (out->sample) {
        assert_true(at < r->count);
        result->token = r->tokens[at];
        result->logprob = -((float)at + 1.0f) / 8.0f;
    } else {
        result->logprob = -(float)(out->row + 1) / 8.0f;
    }
    int32_t base = out->sample ? result->token : out->target;
    result->top_count = out->top_count;
    for (uint32_t i = 0; i < out->top_count; i++)
        top[i] = (struct token_logprob){ (base + (int32_t)i) % REPLAY_VOCAB,
                                         result->logprob - 0.0625f * (float)i };
}

/* What a row's hidden state is: as many of its token's bits. */
static const float *hidden(void *ctx, uint32_t index)
{
    struct replay_rig *r = ctx;
    for (uint32_t i = 0; i < REPLAY_WIDTH; i++)
        r->hidden[i] = 1.0f + (float)(r->hidden_tokens[index] >> i & 1);
    return r->hidden;
}

static enum rc run(void *ctx, const struct batch *batch, struct batch_result *results)
{
    struct replay_rig *r = ctx;
    if (++r->steps == r->fail_step)
        return RC_IO;
    assert_true(batch->hidden_count <= REPLAY_ROWS);
    for (uint32_t i = 0; i < batch->hidden_count; i++)
        r->hidden_tokens[i] = batch->tokens[batch->hidden[i]];
    for (uint32_t i = 0; i < batch->output_count; i++)
        fill_result(r, &batch->outputs[i], r->tops[i], &results[i]);
    return RC_OK;
}

static void open_vocab(struct vocab_rig *vocab)
{
    static const struct rig_token tokens[] = {
        { "<unk>", RIG_UNKNOWN, 0.0f },
        { "<s>", RIG_CONTROL, 0.0f },
        { "</s>", RIG_CONTROL, 0.0f },
        { "\xe2\x96\x81"
          "four",
          RIG_NORMAL, -1.0f },
        { "\xe2\x96\x81"
          "five",
          RIG_NORMAL, -2.0f },
        { "\xe2\x96\x81"
          "six",
          RIG_NORMAL, -3.0f },
        { "\xe2\x96\x81"
          "seven",
          RIG_NORMAL, -4.0f },
        { "\xe2\x96\x81"
          "eight",
          RIG_NORMAL, -5.0f },
        { "a", RIG_NORMAL, -6.0f },
        { "\xe2\x96\x81", RIG_NORMAL, -7.0f },
    };
    static const struct rig_id ids[] = { { "tokenizer.ggml.unknown_token_id", REPLAY_UNK },
                                         { "tokenizer.ggml.bos_token_id", REPLAY_BOS },
                                         { "tokenizer.ggml.eos_token_id", REPLAY_EOS } };
    struct vocab_spec spec = { .model = "llama",
                               .bytes = true,
                               .tokens = tokens,
                               .token_count = sizeof tokens / sizeof tokens[0],
                               .ids = ids,
                               .id_count = 3 };
    vocab_rig_open(vocab, &spec);
    if (vocab->rc != RC_OK)
        fail_msg("%s", vocab->fault.text);
    assert_int_equal(tokenizer_vocab_count(vocab->tokenizer), REPLAY_VOCAB);
}

void replay_rig_open(struct replay_rig *r, uint32_t ctx_tokens, uint32_t requests_max)
{
    struct fault fault;
    *r = (struct replay_rig){ 0 };
    open_vocab(&r->vocab);
    assert_int_equal(kvpool_open(&r->pool, 64, 0, &fault), RC_OK);
    struct sched_config config = {
        .ctx_tokens = ctx_tokens, .rows_max = 4, .chunk_tokens = 16, .requests_max = requests_max
    };
    struct executor executor = { .ctx = r,
                                 .limits = { .rows_max = REPLAY_ROWS,
                                             .outputs_max = 64,
                                             .vocab_count = REPLAY_VOCAB,
                                             .ctx_max = ctx_tokens },
                                 .run = run,
                                 .hidden = hidden };
    struct engine *e = &r->engine;
    e->clock = clock_real();
    r->model.vocab_count = REPLAY_VOCAB;
    r->model.width = REPLAY_WIDTH;
    r->model.arch = arch_find((struct gguf_text){ "llama", 5 });
    e->model = &r->model;
    e->gguf = r->vocab.gguf;
    e->tokenizer = r->vocab.tokenizer;
    e->end_ids[0] = REPLAY_EOS;
    e->end_id_count = 1;
    snprintf(e->name, sizeof e->name, "replay");
    assert_int_equal(sched_open(&e->sched, &config, r->pool, executor, e->clock, &fault), RC_OK);
}

void replay_rig_answer(struct replay_rig *r, const int32_t *tokens, uint32_t count)
{
    r->tokens = tokens;
    r->count = count;
}

void replay_rig_text(struct replay_rig *r, const char *text)
{
    size_t len = strlen(text);
    assert_true(len < sizeof r->text_ids / sizeof r->text_ids[0]);
    for (size_t i = 0; i < len; i++)
        r->text_ids[i] = (unsigned char)text[i];
    r->text_ids[len] = REPLAY_EOS;
    replay_rig_answer(r, r->text_ids, (uint32_t)len + 1);
}

void replay_rig_close(struct replay_rig *r)
{
    sched_close(r->engine.sched);
    kvpool_close(r->pool);
    vocab_rig_close(&r->vocab);
}
