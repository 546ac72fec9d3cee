/* SPDX-License-Identifier: MIT */
/* kernels_smollm2 - a real model (make model) teacher-forced on texts whose log-probabilities were
 * computed outside in float64, with int8 and with f32 activations; and the same bits whatever the
 * batch and the chunk. Skips, by name, without the model or the texts. */
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "tests/unit/golden.h"
#include "tests/unit/rig.h"

#define MODEL "models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define CTX 2048u
#define CHUNK 128u
/* Tokens of a text that f32 activations, which are slow, are tried on: few with sanitizers. */

static const char *const texts[] = { "prose", "code", "chat", "mixed", "long" };
#define TEXTS (sizeof texts / sizeof *texts)

struct text {
    int32_t tokens[CTX];
    double right[CTX]; /* [count - 1] */
    uint32_t count;
};

static bool load_text(struct text *t, const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "smollm2/%s.json", name);
    const char *path = golden_path(file);
    if (path == NULL)
        return false;
    json_t *root = json_load_file(path, 0, NULL);
    json_t *tokens = json_object_get(root, "tokens"), *logprob = json_object_get(root, "logprob");
    t->count = (uint32_t)json_array_size(tokens);
    assert_true(t->count > 1 && t->count <= CTX && json_array_size(logprob) == t->count - 1);
    for (uint32_t i = 0; i < t->count; i++)
        t->tokens[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    for (uint32_t i = 0; i + 1 < t->count; i++)
        t->right[i] = json_number_value(json_array_get(logprob, i));
    json_decref(root);
    return true;
}

static struct rig_config config(bool act_f32, struct kv_types kv_types)
{
    return (struct rig_config){ .rows_max = CHUNK,
                                .outputs_max = CHUNK,
                                .ctx_max = CTX,
                                .sequences = 1,
                                .threads = 2,
                                .isa = cpu_isa(),
                                .act_f32 = act_f32,
                                .kv_types = kv_types };
}

static const struct kv_types f16 = { KV_F16, KV_F16 };

/* How far the log-probabilities of all texts together are from the right ones. */
struct distance {
    double mean;  /* |difference| */
    double ratio; /* of perplexities */
};

/* The first count_max tokens of each text. */
static struct distance teacher_force(bool act_f32, struct kv_types types, uint32_t count_max)
{
    static struct text t;
    static float found[CTX];
    double apart = 0, right = 0, ours = 0;
    uint32_t count = 0;
    struct rig r;
    /* Sanitized builds take ten minutes for these texts; tiny models cover the code there. */
    if (QUIRE_SLOW_CHECKS || access(MODEL, R_OK) != 0 || !load_text(&t, texts[0]))
        skip();
    struct rig_config c = config(act_f32, types);
    rig_open(&r, MODEL, &c);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_true(load_text(&t, texts[i]));
        t.count = t.count < count_max ? t.count : count_max;
        rig_score(&r, 0, t.tokens, t.count, CHUNK, found);
        for (uint32_t k = 0; k + 1 < t.count; k++) {
            apart += fabs((double)found[k] - t.right[k]);
            right += t.right[k];
            ours += (double)found[k];
        }
        count += t.count - 1;
    }
    rig_close(&r);
    struct distance d = { apart / count, exp((right - ours) / count) };
    print_message("# %s activations, %s keys, %s values: mean |difference| %.5f, perplexity ratio "
                  "%.5f\n",
                  act_f32 ? "f32" : "int8", kv_type_name(types.k), kv_type_name(types.v), d.mean,
                  d.ratio);
    return d;
}

static void check(struct distance d, double mean_max, double perplexity_max)
{
    if (!(d.mean <= mean_max) || !(fabs(d.ratio - 1) <= perplexity_max))
        fail_msg("mean %.5f above %.5f, or perplexity ratio %.5f off by more than %.5f", d.mean,
                 mean_max, d.ratio, perplexity_max);
}

static void test_smollm2_int8(void **state)
{
    (void)state;
    check(teacher_force(false, f16, CTX), 0.056, 0.005);
}

static void test_smollm2_f32(void **state)
{
    (void)state;
    struct distance right = teacher_force(true, f16, CTX);
    check(right, 0.0012, 0.0003);
    /* An int8 cache with everything else as exact as it gets: 0.1 % of perplexity at most. */
    const struct kv_types q8_0 = { KV_Q8_0, KV_Q8_0 };
    double ratio = teacher_force(true, q8_0, CTX).ratio / right.ratio;
    print_message("# q8_0 cache against f16: perplexity ratio %.5f\n", ratio);
    assert_true(fabs(ratio - 1) <= 0.001);
}

#define MATES 16u
#define FIRST 203u /* longer than the largest chunk */
#define MATE 6u
#define CUT 40u /* tokens of the first sequence in small chunks */

/* Sequence i: the same tokens from the i-th on, so that nothing repeats a neighbour's. */
struct mates {
    int32_t tokens[FIRST + MATES];
    uint32_t vocab;
    float *right, *found; /* [FIRST + (MATES - 1) * MATE][vocab] */
};

static uint32_t mate_begin(uint32_t i)
{
    return i == 0 ? 0 : FIRST + (i - 1) * MATE;
}

/* The first batch sequences in shared steps, all from the first one on. */
static void run_together(struct rig *r, const struct mates *m, uint32_t batch, uint32_t chunk,
                         uint32_t first)
{
    for (uint32_t at = 0; at < first; at += chunk) {
        struct rig_part parts[MATES];
        uint32_t count = 0;
        for (uint32_t i = 0; i < batch; i++) {
            uint32_t length = i == 0 ? first : MATE;
            if (at >= length)
                continue;
            parts[count++] = (struct rig_part){
                .sequence = i,
                .pos = at,
                .count = length - at < chunk ? length - at : chunk,
                .tokens = m->tokens + i + at,
                .logits = m->found + (size_t)(mate_begin(i) + at) * m->vocab,
            };
        }
        rig_step(r, parts, count);
    }
}

static void check_mates(const struct mates *m, uint32_t batch, uint32_t chunk, uint32_t first)
{
    for (uint32_t i = 0; i < batch; i++)
        for (uint32_t k = 0; k < (i == 0 ? first : MATE); k++) {
            size_t at = (size_t)(mate_begin(i) + k) * m->vocab;
            if (memcmp(m->right + at, m->found + at, m->vocab * sizeof(float)) != 0)
                fail_msg("batch %u, chunk %u: sequence %u differs from its run alone at %u", batch,
                         chunk, i, k);
        }
}

static void test_smollm2_matrix(void **state)
{
    (void)state;
    static const uint32_t batches[] = { 1, 2, 5, MATES }, chunks[] = { 1, 7, 32, 200 };
    static struct mates m;
    struct rig r;
    if (QUIRE_SLOW_CHECKS || access(MODEL, R_OK) != 0)
        skip();
    struct rig_config c = config(false, f16);
    c.rows_max = c.outputs_max = FIRST + (MATES - 1) * MATE;
    c.ctx_max = 224;
    c.sequences = MATES;
    c.seed = 3;
    rig_open(&r, MODEL, &c);
    m.vocab = r.model->vocab_count;
    for (uint32_t i = 0; i < FIRST + MATES; i++)
        m.tokens[i] = (int32_t)(i * 7919u % m.vocab);
    size_t bytes = (size_t)c.rows_max * m.vocab * sizeof(float);
    m.right = malloc(bytes);
    m.found = malloc(bytes);
    assert_true(m.right != NULL && m.found != NULL);
    for (uint32_t i = 0; i < MATES; i++)
        rig_run(&r, i, m.tokens + i, i == 0 ? FIRST : MATE, 1,
                m.right + (size_t)mate_begin(i) * m.vocab);
    for (size_t i = 0; i < 16; i++) {
        uint32_t batch = batches[i % 4], chunk = chunks[i / 4], first = chunk < 32 ? CUT : FIRST;
        memset(m.found, 0xee, bytes);
        memset(r.kv, 0xff, r.block_bytes * r.blocks_per_sequence * MATES);
        run_together(&r, &m, batch, chunk, first);
        check_mates(&m, batch, chunk, first);
    }
    free(m.right);
    free(m.found);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2_int8),
        cmocka_unit_test(test_smollm2_f32),
        cmocka_unit_test(test_smollm2_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
