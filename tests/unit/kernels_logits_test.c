/* SPDX-License-Identifier: MIT */
/* kernels_logits - the forward pass against logits computed outside in float64, on tiny models of
 * every weight format and every variant of the family. The bounds are 1.25 times the distance of
 * another engine's int8 activations, plus what the f16 cache may add. */
#include "tests/unit/test.h"

#include "tests/unit/golden.h"
#include "tests/unit/rig.h"

#define CACHE_NMSE 1e-6

struct golden_case {
    const char *model;
    double nmse; /* of the other engine */
};

static const struct golden_case cases[] = {
    { "llama-F32", 1e-9 },          { "llama-F16", 5.8e-7 },       { "llama-BF16", 3.4e-5 },
    { "llama-Q4_0", 3.6e-4 },       { "llama-Q4_1", 4.1e-4 },      { "llama-Q5_0", 4.5e-4 },
    { "llama-Q5_1", 4.2e-4 },       { "llama-Q8_0", 4.2e-4 },      { "llama-Q2_K", 7.3e-4 },
    { "llama-Q3_K_S", 6.5e-4 },     { "llama-Q4_K_S", 6.9e-4 },    { "llama-Q5_K_S", 6.1e-4 },
    { "llama-Q6_K", 7.4e-4 },       { "llama-IQ4_NL", 3.9e-4 },    { "llama-IQ4_XS", 7.7e-4 },
    { "llama-tied-Q8_0", 2.7e-4 },  { "llama-linear-Q8_0", 4e-4 }, { "llama-yarn-Q8_0", 5.3e-4 },
    { "llama3-rope-Q8_0", 3.9e-4 }, { "llama-bias-F16", 3.0e-7 },  { "llama-bias-Q8_0", 2.5e-4 },
    { "mixtral-Q8_0", 1.1e-3 },     { "mixtral-Q4_K_S", 1.7e-3 },
};

#define TOKENS 48u
#define VOCAB 512u

static bool load_tokens(int32_t *tokens)
{
    const char *path = golden_path("models/tokens.txt");
    if (path == NULL)
        return false;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (uint32_t i = 0; i < TOKENS; i++)
        assert_int_equal(fscanf(f, "%d", &tokens[i]), 1);
    fclose(f);
    return true;
}

static double nmse(const float *a, const float *b, size_t n)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        error += d * d;
        power += (double)b[i] * (double)b[i];
    }
    return error / power;
}

static double distance(const char *model, bool act_f32)
{
    int32_t tokens[TOKENS];
    static float logits[TOKENS * VOCAB];
    char name[128];
    size_t bytes;
    assert_true(load_tokens(tokens));
    snprintf(name, sizeof name, "models/%s.logits.f32", model);
    float *right = (float *)(void *)golden_read(name, &bytes);
    assert_non_null(right);
    assert_int_equal(bytes, sizeof logits);
    snprintf(name, sizeof name, "models/%s.gguf", model);
    struct rig r;
    rig_open(&r, golden_path(name),
             &(struct rig_config){ .rows_max = TOKENS,
                                   .outputs_max = TOKENS,
                                   .ctx_max = 64,
                                   .sequences = 1,
                                   .threads = 2,
                                   .isa = cpu_isa(),
                                   .act_f32 = act_f32 });
    rig_run(&r, 0, tokens, TOKENS, TOKENS, logits);
    rig_close(&r);
    double d = nmse(logits, right, (size_t)TOKENS * VOCAB);
    free(right);
    return d;
}

static void test_logits_golden_int8(void **state)
{
    (void)state;
    if (golden_path("models/tokens.txt") == NULL)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double d = distance(cases[i].model, false), bound = 1.25 * cases[i].nmse + CACHE_NMSE;
        print_message("# %-20s nmse %.2e, bound %.2e\n", cases[i].model, d, bound);
        if (!(d <= bound))
            fail_msg("%s: nmse %.3e is above %.3e", cases[i].model, d, bound);
    }
}

/* Without quantized activations only the cache and float rounding are left. */
static void test_logits_golden_f32(void **state)
{
    (void)state;
    if (golden_path("models/tokens.txt") == NULL)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double d = distance(cases[i].model, true);
        if (!(d <= CACHE_NMSE))
            fail_msg("%s with f32 activations: nmse %.3e is above %.3e", cases[i].model, d,
                     CACHE_NMSE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_golden_int8),
        cmocka_unit_test(test_logits_golden_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
