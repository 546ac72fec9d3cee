/* SPDX-License-Identifier: MIT */
/* Tests of kernels/exec_cpu and what it stands on: results against the logits themselves, block
 * copies, weight bytes, refused limits, memory that runs out, rotation angles and
 * log-probabilities. */
#include "tests/unit/test.h"

#include <math.h>
#include <unistd.h>

#include "core/mem.h"
#include "kernels/laps.h"
#include "kernels/logprob.h"
#include "kernels/rope.h"
#include "tests/kernels/guard.h"
#include "tests/mkmodel/mkmodel.h"
#include "tests/unit/rig.h"

#define VOCAB 264u

static char model_path[64];
static const struct kv_types kv_pairs[] = { { KV_F16, KV_F16 },   { KV_Q8_0, KV_Q8_0 },
                                            { KV_Q4_0, KV_Q4_0 }, { KV_F16, KV_Q8_0 },
                                            { KV_Q8_0, KV_Q4_0 }, { KV_Q4_0, KV_F16 } };
#define KV_PAIRS (sizeof kv_pairs / sizeof *kv_pairs)

static struct rig_config config(uint32_t rows, uint32_t threads)
{
    return (struct rig_config){ .rows_max = rows,
                                .outputs_max = 8,
                                .ctx_max = 128,
                                .sequences = 3,
                                .threads = threads,
                                .isa = cpu_isa(),
                                .seed = 4 };
}

static void fill_tokens(int32_t *tokens, uint32_t count, uint64_t seed)
{
    struct dice d = { seed };
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (int32_t)dice_below(&d, VOCAB);
}

/* One sequence of rows tokens from position 0 in blocks of sequence 0, with these outputs. */
static void run_batch(struct rig *r, const int32_t *tokens, uint32_t rows,
                      struct batch_output *outputs, uint32_t output_count,
                      struct batch_result *results)
{
    struct batch_span span = { 0, rows, 0, r->blocks_per_sequence, r->table };
    struct batch b = { .tokens = tokens,
                       .row_count = rows,
                       .spans = &span,
                       .span_count = 1,
                       .outputs = outputs,
                       .output_count = output_count };
    assert_int_equal(r->executor.run(r->executor.ctx, &b, results), RC_OK);
}

static void test_exec_results_follow_logits(void **state)
{
    (void)state;
    int32_t tokens[10];
    struct rig r;
    struct rig_config c = config(10, 2);
    struct sampling greedy = sampling_default();
    struct batch_result results[4];
    greedy.temperature = 0;
    fill_tokens(tokens, 10, 1);
    rig_open(&r, model_path, &c);
    /* Two outputs of one row, as n = 2 choices have at their first token. */
    struct batch_output outputs[4] = {
        { .row = 2, .logits = true, .target = 7, .top_count = 5 },
        { .row = 9,
          .logits = true,
          .sample = true,
          .target = -1,
          .sampling = &greedy,
          .history = tokens,
          .history_count = 10,
          .prompt_count = 10 },
        { .row = 9,
          .sample = true,
          .target = 3,
          .sampling = &greedy,
          .top_count = OUTPUT_TOP_MAX,
          .history = tokens,
          .history_count = 10,
          .prompt_count = 10 },
        { .row = 9, .target = -1 },
    };
    run_batch(&r, tokens, 10, outputs, 4, results);
    for (uint32_t i = 0; i < 2; i++) {
        double sum = 0;
        uint32_t best = 0;
        for (uint32_t t = 0; t < VOCAB; t++) {
            sum += exp((double)results[i].logits[t]);
            if (results[i].logits[t] > results[i].logits[best])
                best = t;
        }
        int32_t wanted = i == 0 ? 7 : (int32_t)best;
        double right = (double)results[i].logits[wanted] - log(sum);
        assert_true(fabs((double)results[i].logprob - right) < 1e-5);
        assert_int_equal(results[i].token, i == 0 ? -1 : (int32_t)best);
    }
    assert_int_equal(results[0].top_count, 5);
    assert_int_equal(results[2].top_count, OUTPUT_TOP_MAX);
    assert_int_equal(results[2].top[0].token, results[1].token);
    assert_true(results[2].top[0].logprob == results[1].logprob);
    assert_int_equal(results[2].token, results[1].token);
    for (uint32_t k = 1; k < OUTPUT_TOP_MAX; k++)
        assert_true(results[2].top[k].logprob <= results[2].top[k - 1].logprob);
    assert_null(results[2].logits);
    assert_int_equal(results[3].token, -1);
    assert_int_equal(results[3].top_count, 0);
    rig_close(&r);
}

/* A copy of a partly filled block continues as the original does. */
static void run_fork(struct kv_types types)
{
    int32_t tokens[50];
    float right[VOCAB], found[VOCAB];
    struct rig r;
    struct rig_config c = config(50, 2);
    c.kv_types = types;
    fill_tokens(tokens, 50, 2);
    rig_open(&r, model_path, &c);
    rig_run(&r, 0, tokens, 49, 49, NULL);
    struct rig_part last = {
        .sequence = 0, .pos = 49, .count = 1, .tokens = tokens + 49, .logits = right
    };
    rig_step(&r, &last, 1);
    for (uint32_t pos = 32; pos <= 49;
         pos += 17) { /* fork inside the second block, redo the rest */
        uint32_t table[4], n = 50 - pos;
        memcpy(table, r.table, sizeof table);
        table[1] = r.table[r.blocks_per_sequence + 1];
        struct batch_copy copy = { r.table[1], table[1], pos - 32 + (pos == 32) };
        struct batch_span span = { 0, n, pos, 4, table };
        struct batch_output output = { .row = n - 1, .logits = true, .target = -1 };
        struct batch_result result;
        struct batch b = { .tokens = tokens + pos,
                           .row_count = n,
                           .spans = &span,
                           .span_count = 1,
                           .copies = &copy,
                           .copy_count = 1,
                           .outputs = &output,
                           .output_count = 1 };
        memset(r.kv + table[1] * r.block_bytes, 0xff, r.block_bytes);
        assert_int_equal(r.executor.run(r.executor.ctx, &b, &result), RC_OK);
        memcpy(found, result.logits, sizeof found);
        assert_memory_equal(right, found, sizeof right);
    }
    rig_close(&r);
}

static void test_exec_copies_come_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < KV_PAIRS; i++)
        run_fork(kv_pairs[i]);
}

/* Sequences whose tables begin with the same blocks: the same bits as with blocks of their own, in
 * fewer bytes unless that is switched off; alone in a step they read what they see. */
static void run_shared(struct kv_types types, uint32_t threads)
{
    int32_t tokens[3][120];
    uint32_t tables[3][4];
    float right[3][VOCAB];
    struct rig r;
    struct rig_config c = config(120, threads);
    c.kv_types = types;
    rig_open(&r, model_path, &c);
    for (uint32_t i = 0; i < 3; i++) {
        fill_tokens(tokens[i], 120, 7);
        fill_tokens(tokens[i] + 64, 56, 20 + i);
        rig_run(&r, i, tokens[i], 99, 99, NULL);
        struct rig_part last = { i, 99, 1, tokens[i] + 99, right[i], NULL };
        rig_step(&r, &last, 1);
        uint64_t seen = 4 * (r.block_bytes / r.model->layer_count) * r.model->layer_count;
        assert_int_equal(exec_cpu_kv_bytes(r.exec), seen);
        memcpy(tables[i], r.table + i * r.blocks_per_sequence, sizeof tables[i]);
        if (i > 0) /* the other two keep their own last two blocks */
            memcpy(tables[i], r.table, 2 * sizeof **tables);
    }
    for (uint32_t i = 1; i < 3; i++)
        for (uint32_t b = 0; b < 2; b++)
            memset(r.kv + r.table[i * r.blocks_per_sequence + b] * r.block_bytes, 0xff,
                   r.block_bytes);
    int32_t step_tokens[3] = { tokens[0][99], tokens[1][99], tokens[2][99] };
    struct batch_span spans[3] = { { 0, 1, 99, 4, tables[0] },
                                   { 1, 1, 99, 4, tables[1] },
                                   { 2, 1, 99, 4, tables[2] } };
    struct batch_output outputs[3];
    struct batch_result results[3];
    for (uint32_t i = 0; i < 3; i++)
        outputs[i] = (struct batch_output){ .row = i, .logits = true, .target = -1 };
    struct batch b = { .tokens = step_tokens,
                       .row_count = 3,
                       .spans = spans,
                       .span_count = 3,
                       .outputs = outputs,
                       .output_count = 3 };
    for (uint32_t apart = 0; apart < 2; apart++) {
        exec_cpu_share_reads(r.exec, apart == 0);
        assert_int_equal(r.executor.run(r.executor.ctx, &b, results), RC_OK);
        for (uint32_t i = 0; i < 3; i++)
            assert_memory_equal(results[i].logits, right[i], sizeof right[i]);
        assert_int_equal(exec_cpu_kv_bytes(r.exec), (apart ? 3 * 4 : 2 + 3 * 2) * r.block_bytes);
    }
    rig_close(&r);
}

static void test_exec_shared_blocks_are_read_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < KV_PAIRS; i++)
        for (uint32_t threads = 1; threads <= 3; threads++)
            run_shared(kv_pairs[i], threads);
}

/* Heads that are not whole groups have no quantized cache. */
static void test_exec_refuses_kv_types(void **state)
{
    (void)state;
    struct model m = { .head_dim = 80, .kv_head_count = 1, .layer_count = 1 };
    struct fault fault;
    size_t bytes;
    for (size_t i = 0; i < KV_PAIRS; i++) {
        m.head_dim = 80;
        assert_int_equal(exec_cpu_block_bytes(&bytes, &m, kv_pairs[i], &fault),
                         i == 0 ? RC_OK : RC_USAGE);
        if (i > 0)
            assert_non_null(strstr(fault.text, "multiple of 32, this model's have 80"));
        m.head_dim = 96;
        assert_int_equal(exec_cpu_block_bytes(&bytes, &m, kv_pairs[i], &fault), RC_OK);
    }
    assert_int_equal(kv_rotation_size(96), 32);
    assert_int_equal(kv_rotation_size(128), 128);
    assert_int_equal(bytes, 32 * 96 * 18 / 32 + 32 * 96 * 2); /* q4_0 keys, f16 values */
}

/* A step of copies alone, and chains of copies, in their order. */
static void test_exec_copies_in_order(void **state)
{
    (void)state;
    struct rig r;
    struct rig_config c = config(4, 2);
    rig_open(&r, model_path, &c);
    for (uint32_t i = 0; i < 3; i++)
        memset(r.kv + i * r.block_bytes, 0x11 * (int)(i + 1), r.block_bytes);
    struct batch_copy copies[] = { { 0, 1, 32 }, { 1, 2, 32 } };
    struct batch b = { .copies = copies, .copy_count = 2 };
    assert_int_equal(r.executor.run(r.executor.ctx, &b, NULL), RC_OK);
    assert_memory_equal(r.kv, r.kv + r.block_bytes, r.block_bytes);
    assert_memory_equal(r.kv, r.kv + 2 * r.block_bytes, r.block_bytes);
    rig_close(&r);
}

static void test_exec_reads_each_weight_once(void **state)
{
    (void)state;
    int32_t tokens[40];
    fill_tokens(tokens, 40, 3);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct rig r;
        struct rig_config c = config(40, threads);
        rig_open(&r, model_path, &c);
        for (uint32_t rows = 1; rows <= 40; rows += 13) {
            struct batch_output output = { .row = rows - 1, .target = -1 };
            struct batch_result result;
            run_batch(&r, tokens, rows, &output, 1, &result);
            assert_int_equal(exec_cpu_weight_bytes(r.exec), r.model->weight_bytes);
        }
        rig_close(&r);
    }
}

static void test_exec_refuses_limits(void **state)
{
    (void)state;
    struct rig r;
    struct rig_config c = config(4, 1);
    struct exec_cpu *e = NULL;
    struct fault fault;
    rig_open(&r, model_path, &c);
    struct exec_cpu_config good = { .rows_max = 4,
                                    .outputs_max = 1,
                                    .ctx_max = 64,
                                    .kv_base = r.kv,
                                    .kv_block_bytes = r.block_bytes,
                                    .kv_block_count = 4 };
    const struct exec_cpu_config base = good;
    good.rows_max = STEP_ROWS_MAX + 1;
    assert_int_equal(exec_cpu_open(&e, r.model, r.workers, &good, &fault), RC_USAGE);
    good = base;
    good.ctx_max = CTX_TOKENS_MAX + 1;
    assert_int_equal(exec_cpu_open(&e, r.model, r.workers, &good, &fault), RC_USAGE);
    good = base;
    good.rows_max = 0;
    assert_int_equal(exec_cpu_open(&e, r.model, r.workers, &good, &fault), RC_USAGE);
    good = base;
    size_t live = mem_live_bytes();
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_after(n);
        assert_int_equal(exec_cpu_open(&e, r.model, r.workers, &good, &fault), RC_NO_MEMORY);
        mem_fail_after(0);
        assert_int_equal(mem_live_bytes(), live);
    }
    assert_int_equal(exec_cpu_open(&e, r.model, r.workers, &good, &fault), RC_OK);
    assert_true(mem_live_bytes() - live >= exec_cpu_scratch_bytes(e));
    exec_cpu_close(e);
    exec_cpu_close(NULL);
    rig_close(&r);
}

static void test_rope_angles(void **state)
{
    (void)state;
    float factors[8] = { 1, 1, 1, 2, 4, 8, 8, 8 }, cos_row[16], sin_row[16];
    struct model m = { .rope = { .base = 10000, .dim_count = 16, .factor = 1, .attn_factor = 1 } };
    for (int variant = 0; variant < 3; variant++) {
        struct rope r;
        m.rope.factor = variant == 1 ? 4 : 1;
        m.rope.scaling = variant == 1 ? MODEL_ROPE_LINEAR : MODEL_ROPE_PLAIN;
        m.rope.freq_factors = variant == 2 ? factors : NULL;
        assert_int_equal(rope_open(&r, &m), RC_OK);
        for (uint32_t pos = 0; pos < 1u << 20; pos = pos * 3 + 1) {
            rope_angles(&r, pos, cos_row, sin_row);
            for (uint32_t i = 0; i < 8; i++) {
                double angle = pos * pow(10000, -2.0 * i / 16);
                angle /= variant == 1 ? 4 : variant == 2 ? (double)factors[i] : 1;
                assert_true(fabs((double)cos_row[2 * i] - cos(angle)) < 1e-7);
                assert_true(fabs((double)sin_row[2 * i + 1] - sin(angle)) < 1e-7);
                assert_true(cos_row[2 * i + 1] == cos_row[2 * i]);
                assert_true(sin_row[2 * i] == -sin_row[2 * i + 1]);
            }
        }
        rope_close(&r);
    }
}

/* YaRN at its ends: fast pairs keep their angle, slow ones are stretched; sines, cosines grow. */
static void test_rope_yarn(void **state)
{
    (void)state;
    float cos_row[64], sin_row[64];
    struct rope r;
    struct model m = { .rope = { .base = 10000,
                                 .dim_count = 64,
                                 .factor = 4,
                                 .ext_factor = 1,
                                 .attn_factor = 1,
                                 .beta_fast = 32,
                                 .beta_slow = 1,
                                 .ctx_orig = 128,
                                 .scaling = MODEL_ROPE_YARN } };
    assert_int_equal(rope_open(&r, &m), RC_OK);
    rope_angles(&r, 3, cos_row, sin_row);
    double grown = 1 + 0.1 * log(4), slow = 3 * pow(10000, -62.0 / 64) / 4;
    assert_true(fabs((double)cos_row[0] - cos(3) * grown) < 1e-6);
    assert_true(fabs((double)sin_row[63] - sin(slow) * grown) < 1e-9);
    for (uint32_t i = 1; i < 32; i++)
        assert_true(r.freq[i] < r.freq[i - 1]);
    rope_close(&r);
}

static void test_logprob_top_ties_and_nan(void **state)
{
    (void)state;
    float logits[6] = { 1, 3, NAN, 3, -INFINITY, 2 };
    struct token_logprob top[OUTPUT_TOP_MAX];
    struct vec_peak peaks[2] = { { 3, 1 + expf(-2) }, { 3, 1 + expf(-1) } };
    struct logprob l;
    logprob_open(&l, peaks, 2);
    assert_int_equal(logprob_top(&l, logits, 6, 3, top), 3);
    assert_int_equal(top[0].token, 1);
    assert_int_equal(top[1].token, 3);
    assert_int_equal(top[2].token, 5);
    assert_true(top[0].logprob == top[1].logprob && top[2].logprob < top[1].logprob);
    assert_true(fabs((double)top[0].logprob + log(2 + exp(-2) + exp(-1))) < 1e-6);
    assert_int_equal(logprob_top(&l, logits, 6, OUTPUT_TOP_MAX, top), 5);
    assert_int_equal(top[4].token, 4);
    assert_true(isinf(top[4].logprob));
    assert_int_equal(logprob_top(&l, logits, 6, 0, top), 0);
}

static int set_up(void **state)
{
    (void)state;
    struct mkmodel_spec spec;
    struct fault fault;
    snprintf(model_path, sizeof model_path, "/tmp/quire-exec-XXXXXX");
    int fd = mkstemp(model_path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(mkmodel_shape(&spec, "tiny") && mkmodel_type(&spec, "Q8_0"));
    spec.width = 64;
    spec.head_dim = 32;
    spec.ffn = 96;
    spec.vocab = VOCAB;
    if (mkmodel_write(&spec, model_path, &fault) != RC_OK)
        fail_msg("mkmodel: %s", fault.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(model_path);
}

/* A clock that moves by one at every look, so that stages are counted. */
static uint64_t count_looks(void *ctx)
{
    return ++*(uint64_t *)ctx;
}

static void test_exec_laps_change_nothing(void **state)
{
    (void)state;
    int32_t tokens[6];
    static float right[6 * VOCAB], found[6 * VOCAB];
    struct rig r;
    struct rig_config c = config(6, 2);
    uint64_t looks = 0, us[16][LAP_COUNT] = { 0 };
    struct laps laps = { .clock = { &looks, count_looks }, .us = us };
    fill_tokens(tokens, 6, 3);
    rig_open(&r, model_path, &c);
    const uint32_t layers = r.model->layer_count;
    assert_true(layers < 16);
    rig_run(&r, 0, tokens, 6, 6, right);
    exec_cpu_time(r.exec, &laps);
    rig_run(&r, 0, tokens, 6, 6, found);
    assert_memory_equal(found, right, sizeof right);
    for (uint32_t i = 0; i <= layers; i++)
        for (uint32_t stage = 0; stage < LAP_COUNT; stage++) {
            uint64_t in_layer = stage == LAP_PREPARE ? 4 : stage != LAP_ROUTE && stage <= LAP_DOWN;
            uint64_t behind = stage == LAP_PREPARE || stage > LAP_DOWN;
            assert_int_equal(us[i][stage], i < layers ? in_layer : behind);
        }
    assert_int_equal(laps.steps, 1);
    assert_int_equal(laps.steps_us, looks - 1);
    exec_cpu_time(r.exec, NULL);
    rig_run(&r, 0, tokens, 6, 6, found);
    assert_int_equal(laps.steps, 1);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec_results_follow_logits),
        cmocka_unit_test(test_exec_copies_come_first),
        cmocka_unit_test(test_exec_shared_blocks_are_read_once),
        cmocka_unit_test(test_exec_refuses_kv_types),
        cmocka_unit_test(test_exec_copies_in_order),
        cmocka_unit_test(test_exec_reads_each_weight_once),
        cmocka_unit_test(test_exec_laps_change_nothing),
        cmocka_unit_test(test_exec_refuses_limits),
        cmocka_unit_test(test_rope_angles),
        cmocka_unit_test(test_rope_yarn),
        cmocka_unit_test(test_logprob_top_ties_and_nan),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
