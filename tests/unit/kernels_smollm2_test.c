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

static struct rig_config config(bool act_f32)
{
    return (struct rig_config){ .rows_max = CHUNK,
                                .outputs_max = CHUNK,
                                .ctx_max = CTX,
                                .sequences = 1,
                                .threads = 2,
                                .isa = cpu_isa(),
                                .act_f32 = act_f32 };
}

static void teacher_force(bool act_f32, double mean_max, double perplexity_max)
{
    static struct text t;
    static float found[CTX];
    double apart = 0, right = 0, ours = 0;
    uint32_t count = 0;
    struct rig r;
    if (access(MODEL, R_OK) != 0 || !load_text(&t, texts[0]))
        skip();
    struct rig_config c = config(act_f32);
    rig_open(&r, MODEL, &c);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_true(load_text(&t, texts[i]));
        rig_score(&r, 0, t.tokens, t.count, CHUNK, found);
        for (uint32_t k = 0; k + 1 < t.count; k++) {
            apart += fabs((double)found[k] - t.right[k]);
            right += t.right[k];
            ours += (double)found[k];
        }
        count += t.count - 1;
    }
    rig_close(&r);
    double mean = apart / count, ratio = exp((right - ours) / count);
    print_message("# %s activations: mean |difference| %.5f, perplexity ratio %.5f\n",
                  act_f32 ? "f32" : "int8", mean, ratio);
    if (!(mean <= mean_max) || !(fabs(ratio - 1) <= perplexity_max))
        fail_msg("mean %.5f above %.5f, or perplexity ratio %.5f off by more than %.5f", mean,
                 mean_max, ratio, perplexity_max);
}

static void test_smollm2_int8(void **state)
{
    (void)state;
    teacher_force(false, 0.056, 0.005);
}

static void test_smollm2_f32(void **state)
{
    (void)state;
    teacher_force(true, 0.0012, 0.0003);
}

#define SHORT 70u
#define MATES 5u

/* Sequences 0 .. batch - 1 are the same tokens shifted by one each, cut in chunks, in shared
 * steps. */
static void run_together(struct rig *r, const int32_t *tokens, uint32_t batch, uint32_t chunk,
                         float *logits)
{
    size_t vocab = r->model->vocab_count;
    for (uint32_t at = 0; at < SHORT; at += chunk) {
        struct rig_part parts[MATES];
        uint32_t n = SHORT - at < chunk ? SHORT - at : chunk;
        for (uint32_t i = 0; i < batch; i++)
            parts[i] = (struct rig_part){ .sequence = i,
                                          .pos = at,
                                          .count = n,
                                          .tokens = tokens + i + at,
                                          .logits = i == 0 ? logits + at * vocab : NULL };
        rig_step(r, parts, batch);
    }
}

static void test_smollm2_matrix(void **state)
{
    (void)state;
    static const uint32_t batches[] = { 1, 2, MATES }, chunks[] = { 7, 32, 200 };
    static int32_t tokens[SHORT + MATES];
    struct rig r;
    if (access(MODEL, R_OK) != 0)
        skip();
    struct rig_config c = config(false);
    c.rows_max = MATES * SHORT;
    c.outputs_max = SHORT;
    c.ctx_max = 96;
    c.sequences = MATES;
    c.seed = 3;
    rig_open(&r, MODEL, &c);
    for (uint32_t i = 0; i < SHORT + MATES; i++)
        tokens[i] = (int32_t)(i * 7919u % r.model->vocab_count);
    size_t bytes = (size_t)SHORT * r.model->vocab_count * sizeof(float);
    float *right = malloc(bytes), *found = malloc(bytes);
    assert_true(right != NULL && found != NULL);
    rig_run(&r, 0, tokens, SHORT, 1, right);
    for (size_t i = 0; i < 9; i++) {
        run_together(&r, tokens, batches[i % 3], chunks[i / 3], found);
        if (memcmp(right, found, bytes) != 0)
            fail_msg("batch %u, chunk %u: not the bits of the run alone", batches[i % 3],
                     chunks[i / 3]);
    }
    free(right);
    free(found);
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
