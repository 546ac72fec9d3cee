/* SPDX-License-Identifier: MIT */
/* Tests of kernels/sample and core/sampling: every filter against a float64 reference that sorts
 * the whole vocabulary, hand-made cases, both orders, and logits that are not numbers. */
#include "tests/unit/test.h"

#include <float.h>
#include <math.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/sampling.h"
#include "kernels/sample.h"

enum { VOCAB_MAX = 512, POSITION = 7 };

static struct sample_scratch *scratch;

static int open_scratch(void **state)
{
    (void)state;
    scratch = mem_alloc(sample_scratch_bytes(VOCAB_MAX));
    return scratch == NULL;
}

static int close_scratch(void **state)
{
    (void)state;
    mem_free(scratch);
    return 0;
}

/* A scratch belongs to one vocabulary; the cases here have several. */
static int32_t sample(const struct sampling *s, const float *logits, uint32_t vocab,
                      const int32_t *history, uint32_t history_count, uint32_t prompt_count,
                      const uint64_t *mask)
{
    static uint32_t last_vocab;
    if (vocab != last_vocab)
        memset(scratch, 0, sample_scratch_bytes(VOCAB_MAX));
    last_vocab = vocab;
    struct batch_output out = { .sample = true,
                                .sampling = s,
                                .history = history,
                                .history_count = history_count,
                                .prompt_count = prompt_count,
                                .mask = mask };
    return sample_token(&out, logits, vocab, scratch);
}

static int32_t sample_plain(const struct sampling *s, const float *logits, uint32_t vocab)
{
    return sample(s, logits, vocab, NULL, POSITION, POSITION, NULL);
}

static struct sampling greedy(void)
{
    struct sampling s = sampling_default();
    s.temperature = 0.0f;
    return s;
}

/* The reference: probabilities of every token, 0 for those that are filtered out. */
struct ref {
    uint32_t count;
    int id[VOCAB_MAX]; /* falling probability, then rising id */
    double l[VOCAB_MAX], p[VOCAB_MAX];
};

static void ref_softmax(struct ref *r)
{
    double largest = (double)-INFINITY, sum = 0;
    for (uint32_t i = 0; i < r->count; i++)
        largest = fmax(largest, r->l[r->id[i]]);
    for (uint32_t i = 0; i < r->count; i++)
        sum += exp(r->l[r->id[i]] - largest);
    for (uint32_t i = 0; i < r->count; i++)
        r->p[r->id[i]] = exp(r->l[r->id[i]] - largest) / sum;
}

static void ref_truncate(struct ref *r, uint32_t count)
{
    for (uint32_t i = count; i < r->count; i++)
        r->p[r->id[i]] = 0;
    r->count = count < r->count ? count : r->count;
}

static void ref_sort(struct ref *r, const double *key)
{
    for (uint32_t i = 1; i < r->count; i++) {
        int id = r->id[i];
        uint32_t j = i;
        while (j > 0 && (key[r->id[j - 1]] > key[id] ||
                         (key[r->id[j - 1]] == key[id] && r->id[j - 1] > id))) {
            r->id[j] = r->id[j - 1];
            j--;
        }
        r->id[j] = id;
    }
}

static void ref_by_mass(struct ref *r, double share, bool typical)
{
    double key[VOCAB_MAX] = { 0 }, entropy = 0, sum = 0;
    ref_softmax(r);
    for (uint32_t i = 0; i < r->count; i++)
        entropy -= r->p[r->id[i]] * log(r->p[r->id[i]]);
    for (uint32_t i = 0; i < r->count; i++)
        key[r->id[i]] = typical ? fabs(-log(r->p[r->id[i]]) - entropy) : -r->p[r->id[i]];
    ref_sort(r, key);
    uint32_t n = 0;
    while (n < r->count && (typical ? sum <= share : sum < share))
        sum += r->p[r->id[n++]];
    ref_truncate(r, n);
}

static void ref_min_p(struct ref *r, double min_p)
{
    double key[VOCAB_MAX] = { 0 }, largest = 0;
    ref_softmax(r);
    for (uint32_t i = 0; i < r->count; i++) {
        key[r->id[i]] = -r->p[r->id[i]];
        largest = fmax(largest, r->p[r->id[i]]);
    }
    ref_sort(r, key);
    uint32_t n = 0;
    while (n < r->count && r->p[r->id[n]] >= min_p * largest)
        n++;
    ref_truncate(r, n);
}

static void ref_top_k(struct ref *r, uint32_t k)
{
    double key[VOCAB_MAX] = { 0 };
    for (uint32_t i = 0; i < r->count; i++)
        key[r->id[i]] = -r->l[r->id[i]];
    ref_sort(r, key);
    ref_truncate(r, k);
}

static void ref_run(struct ref *r, const struct sampling *s, const float *logits, uint32_t vocab)
{
    bool vllm = s->order == SAMPLING_ORDER_VLLM;
    *r = (struct ref){ .count = vocab };
    for (uint32_t i = 0; i < vocab; i++) {
        r->id[i] = (int)i;
        r->l[i] = (double)logits[i] / (vllm ? (double)s->temperature : 1.0);
    }
    if (vllm && s->min_p > 0)
        ref_min_p(r, (double)s->min_p);
    if (s->top_k > 0)
        ref_top_k(r, s->top_k);
    if (vllm && s->top_p < 1)
        ref_by_mass(r, (double)s->top_p, false);
    if (s->typical_p < 1)
        ref_by_mass(r, (double)s->typical_p, true);
    if (!vllm && s->top_p < 1)
        ref_by_mass(r, (double)s->top_p, false);
    if (!vllm && s->min_p > 0)
        ref_min_p(r, (double)s->min_p);
    if (!vllm)
        for (uint32_t i = 0; i < vocab; i++)
            r->l[i] /= (double)s->temperature;
    ref_softmax(r);
}

static uint32_t lcg(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

static void random_logits(float *logits, uint32_t vocab, uint32_t seed)
{
    for (uint32_t i = 0; i < vocab; i++)
        logits[i] = (float)(lcg(&seed) % 100003) / 100003.0f * 6.0f - 3.0f;
}

/* The draw is the inverse of the distribution function in token order: exactly this token, unless
 * the random number is next to a border. */
static void check_draw(const struct ref *r, double unit, int32_t token, uint32_t vocab)
{
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        sum += r->p[i];
        if (fabs(sum - unit) < 1e-6)
            return;
        if (sum > unit) {
            assert_int_equal(token, i);
            return;
        }
    }
}

/* Draws often and compares: nothing outside the support, chi-square in bounds. */
static void check_distribution(const struct sampling *base, const float *logits, uint32_t vocab,
                               bool by_position)
{
    enum { DRAWS = 8000 };
    static struct ref r;
    static uint32_t hits[VOCAB_MAX];
    ref_run(&r, base, logits, vocab);
    memset(hits, 0, sizeof hits);
    struct sampling s = *base;
    for (uint32_t i = 0; i < DRAWS; i++) {
        s.seed = by_position ? 42 : i;
        uint32_t at = by_position ? i : POSITION;
        int32_t token = sample(&s, logits, vocab, NULL, at, at, NULL);
        assert_in_range(token, 0, vocab - 1);
        hits[token]++;
        check_draw(&r, rng_unit_at(s.seed, 0, at), token, vocab);
    }
    double chi = 0, rest_expected = 0, rest_hits = 0;
    int freedom = -1;
    for (uint32_t i = 0; i < vocab; i++) {
        double expected = r.p[i] * DRAWS;
        if (r.p[i] == 0)
            assert_int_equal(hits[i], 0);
        if (expected < 8) {
            rest_expected += expected;
            rest_hits += hits[i];
            continue;
        }
        chi += (hits[i] - expected) * (hits[i] - expected) / expected;
        freedom++;
    }
    if (rest_expected >= 8) {
        chi += (rest_hits - rest_expected) * (rest_hits - rest_expected) / rest_expected;
        freedom++;
    }
    if (freedom <= 0)
        return;
    double limit = freedom + 4.0 * sqrt(2.0 * freedom) + 4.0;
    if (chi > limit)
        fail_msg("chi-square %.1f with %d degrees of freedom", chi, freedom);
}

static void test_sample_distributions(void **state)
{
    (void)state;
    static const struct sampling cases[] = {
        { .temperature = 1.0f, .top_p = 1.0f, .typical_p = 1.0f },
        { .temperature = 0.5f, .top_p = 1.0f, .typical_p = 1.0f },
        { .temperature = 1.7f, .top_p = 1.0f, .typical_p = 1.0f, .top_k = 7 },
        { .temperature = 1.0f, .top_p = 0.8f, .typical_p = 1.0f },
        { .temperature = 0.8f, .top_p = 0.95f, .typical_p = 1.0f, .top_k = 40, .min_p = 0.05f },
        { .temperature = 1.3f, .top_p = 1.0f, .typical_p = 1.0f, .min_p = 0.2f },
        { .temperature = 1.0f, .top_p = 1.0f, .typical_p = 0.6f },
        { .temperature = 2.0f, .top_p = 0.7f, .typical_p = 0.5f, .top_k = 30, .min_p = 0.1f },
        { .temperature = 0.01f, .top_p = 1.0f, .typical_p = 0.3f },
    };
    float logits[VOCAB_MAX];
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int order = 0; order < 2; order++) {
            struct sampling s = cases[i];
            s.repeat_penalty = 1.0f;
            s.order = (enum sampling_order)order;
            random_logits(logits, 50, i + 1);
            check_distribution(&s, logits, 50, false);
            random_logits(logits, 300, i + 100);
            check_distribution(&s, logits, 300, true);
        }
    }
}

static void test_sample_order_changes_the_support(void **state)
{
    (void)state;
    /* p at T=1: 0.636 0.234 0.086 ...: top-p 0.85 keeps two. At T=3 it keeps four. */
    const float logits[5] = { 3.0f, 2.0f, 1.0f, 0.0f, -1.0f };
    struct sampling s = sampling_default();
    s.temperature = 3.0f;
    s.top_p = 0.85f;
    bool seen[2][5] = { { false } };
    for (int order = 0; order < 2; order++) {
        s.order = (enum sampling_order)order;
        for (s.seed = 0; s.seed < 2000; s.seed++)
            seen[order][sample_plain(&s, logits, 5)] = true;
    }
    assert_true(seen[SAMPLING_ORDER_VLLM][0] && seen[SAMPLING_ORDER_VLLM][2]);
    assert_true(seen[SAMPLING_ORDER_VLLM][3] && !seen[SAMPLING_ORDER_VLLM][4]);
    assert_true(seen[SAMPLING_ORDER_LLAMA_CPP][0] && seen[SAMPLING_ORDER_LLAMA_CPP][1]);
    assert_false(seen[SAMPLING_ORDER_LLAMA_CPP][2] || seen[SAMPLING_ORDER_LLAMA_CPP][3]);
}

static void test_sample_greedy_and_ties(void **state)
{
    (void)state;
    struct sampling s = greedy();
    const float logits[6] = { 1.0f, 5.0f, 2.0f, 5.0f, 5.0f, -1.0f };
    assert_int_equal(sample_plain(&s, logits, 6), 1);
    s.temperature = 9e-6f;
    for (s.seed = 0; s.seed < 50; s.seed++) /* no draw among the three */
        assert_int_equal(sample_plain(&s, logits, 6), 1);
    s.top_k = 1;
    s.temperature = 1.0f; /* of three equal ones the lowest id is the one that top-k keeps */
    for (s.seed = 0; s.seed < 50; s.seed++)
        assert_int_equal(sample_plain(&s, logits, 6), 1);
    s.top_k = 2;
    bool seen[6] = { false };
    for (s.seed = 0; s.seed < 200; s.seed++)
        seen[sample_plain(&s, logits, 6)] = true;
    assert_true(seen[1] && seen[3]);
    assert_false(seen[0] || seen[2] || seen[4] || seen[5]);
}

static void test_sample_typical_may_drop_the_best(void **state)
{
    (void)state;
    /* One token with 0.4 of the mass and 64 with the rest: H is nearer to their surprise. */
    float logits[65];
    logits[0] = logf(64.0f * 0.4f / 0.6f);
    for (int i = 1; i < 65; i++)
        logits[i] = 0.0f;
    struct sampling s = sampling_default();
    s.typical_p = 0.31f;
    for (int order = 0; order < 2; order++) {
        s.order = (enum sampling_order)order;
        s.temperature = order == 1 ? 0.01f : 1.0f;
        int different = 0, last = -1;
        for (s.seed = 0; s.seed < 100; s.seed++) {
            int32_t t = sample_plain(&s, logits, 65);
            assert_in_range(t, 1, 34); /* 34 of 0.6/64 are the first to pass 0.31 */
            different += t != last;
            last = t;
        }
        assert_in_range(different, 80, 100);
    }
}

static void test_sample_typical_takes_the_likelier_of_two_as_near(void **state)
{
    (void)state;
    /* Half the mass on one token: its surprise is as far below H as that of the 64 others above. */
    float logits[65] = { 0 };
    logits[64] = logf(64.0f);
    struct sampling s = sampling_default();
    s.typical_p = 0.3f;
    for (s.seed = 0; s.seed < 50; s.seed++)
        assert_int_equal(sample_plain(&s, logits, 65), 64);
}

static void test_sample_bias_and_mask(void **state)
{
    (void)state;
    const float logits[70] = { [3] = 4.0f, [9] = 3.0f, [69] = 1.0f };
    struct sampling s = greedy();
    struct logit_bias bias[2] = { { 3, -2.0f }, { 69, 10.0f } };
    s.bias = bias;
    s.bias_count = 1;
    assert_int_equal(sample_plain(&s, logits, 70), 9);
    s.bias_count = 2;
    assert_int_equal(sample_plain(&s, logits, 70), 69);
    bias[1].bias = -INFINITY;
    assert_int_equal(sample_plain(&s, logits, 70), 9);
    uint64_t mask[2] = { UINT64_C(1) << 40 | UINT64_C(1) << 3, 0 };
    assert_int_equal(sample(&s, logits, 70, NULL, 1, 1, mask), 3);
    s.temperature = 1.0f;
    for (s.seed = 0; s.seed < 100; s.seed++) {
        int32_t t = sample(&s, logits, 70, NULL, 1, 1, mask);
        assert_true(t == 3 || t == 40);
    }
    bias[0] = (struct logit_bias){ 3, -INFINITY };
    bias[1] = (struct logit_bias){ 40, -INFINITY };
    assert_int_equal(sample(&s, logits, 70, NULL, 1, 1, mask), 3); /* all forbidden */
    mask[0] = 0;
    assert_int_equal(sample(&s, logits, 70, NULL, 1, 1, mask), 0);
}

static void test_sample_penalties(void **state)
{
    (void)state;
    /* prompt 0 0 1, output 2 2 2 3 */
    const int32_t history[7] = { 0, 0, 1, 2, 2, 2, 3 };
    const float logits[6] = { 4.0f, 3.9f, 3.8f, 3.7f, 1.0f, -8.0f };
    struct sampling s = greedy();
    assert_int_equal(sample(&s, logits, 6, history, 7, 3, NULL), 0);
    s.repeat_penalty = 2.0f; /* 2.0 1.95 1.9 1.85 1.0: once per token */
    assert_int_equal(sample(&s, logits, 6, history, 7, 3, NULL), 0);
    s.repeat_last_n = 4; /* only 2 and 3 are in the window */
    assert_int_equal(sample(&s, logits + 2, 4, (const int32_t[]){ 0, 0, 1, 1 }, 4, 4, NULL), 0);
    s.repeat_last_n = 2;
    const float near[3] = { 4.0f, 3.0f, 2.5f };
    assert_int_equal(sample(&s, near, 3, (const int32_t[]){ 1, 0, 0 }, 3, 3, NULL), 1);
    s.repeat_last_n = 0;
    assert_int_equal(sample(&s, near, 3, (const int32_t[]){ 1, 0, 0 }, 3, 3, NULL), 0);
    s.repeat_last_n = -1;
    const float negative[2] = { -1.0f, -1.5f }; /* l * r below 0 */
    assert_int_equal(sample(&s, negative, 2, (const int32_t[]){ 0 }, 1, 1, NULL), 1);
    s = greedy();
    s.frequency_penalty = 0.1f; /* 2 loses 0.3, 3 loses 0.1; the prompt's do not */
    const float even[4] = { 0.0f, 0.0f, 1.25f, 1.0f };
    assert_int_equal(sample(&s, even, 4, history, 7, 3, NULL), 2);
    s.frequency_penalty = 0.2f; /* 0.65 against 0.8 */
    assert_int_equal(sample(&s, even, 4, history, 7, 3, NULL), 3);
    s.presence_penalty = 2.0f; /* both 2 less: the prompt's own zeros win */
    assert_int_equal(sample(&s, even, 4, history, 7, 3, NULL), 0);
    s.presence_penalty = -2.0f;
    s.frequency_penalty = 0.0f;
    assert_int_equal(sample(&s, even, 4, history, 7, 3, NULL), 2);
    s = greedy(); /* the counts were cleared */
    assert_int_equal(sample(&s, even, 4, history, 7, 3, NULL), 2);
}

static void test_sample_survives_bad_logits(void **state)
{
    (void)state;
    float logits[8];
    struct sampling s = sampling_default();
    s.top_k = 3;
    s.top_p = 0.9f;
    s.typical_p = 0.9f;
    s.min_p = 0.01f;
    for (int order = 0; order < 2; order++) {
        s.order = (enum sampling_order)order;
        for (int i = 0; i < 8; i++)
            logits[i] = NAN;
        assert_int_equal(sample_plain(&s, logits, 8), 0);
        logits[5] = -FLT_MAX;
        assert_int_equal(sample_plain(&s, logits, 8), 5);
        logits[2] = 0.0f;
        assert_int_equal(sample_plain(&s, logits, 8), 2);
        logits[6] = INFINITY;
        logits[7] = -INFINITY;
        assert_int_equal(sample_plain(&s, logits, 8), 6);
        logits[1] = FLT_MAX;
        for (s.seed = 0; s.seed < 64; s.seed++) {
            int32_t t = sample_plain(&s, logits, 8);
            assert_true(t == 1 || t == 6);
        }
    }
    float same[8] = { 0 };
    s = sampling_default();
    s.typical_p = 0.5f;
    s.top_p = 0.999f;
    assert_in_range(sample_plain(&s, same, 8), 0, 7);
    s.temperature = 1.1e-5f;
    same[3] = FLT_MAX;
    same[4] = -FLT_MAX;
    assert_int_equal(sample_plain(&s, same, 8), 3);
}

static void test_sample_depends_on_seed_choice_position(void **state)
{
    (void)state;
    float logits[VOCAB_MAX] = { 0 };
    struct sampling s = sampling_default();
    int32_t first[64];
    int differ_seed = 0, differ_choice = 0, differ_position = 0;
    for (uint32_t i = 0; i < 64; i++) {
        s.seed = i;
        first[i] = sample_plain(&s, logits, VOCAB_MAX);
    }
    for (uint32_t i = 0; i < 64; i++) {
        s.seed = i;
        assert_int_equal(sample_plain(&s, logits, VOCAB_MAX), first[i]);
        s.choice = 1;
        differ_choice += sample_plain(&s, logits, VOCAB_MAX) != first[i];
        s.choice = 0;
        differ_position += sample(&s, logits, VOCAB_MAX, NULL, 8, 8, NULL) != first[i];
        differ_seed += first[i] != first[(i + 1) % 64];
    }
    assert_true(differ_seed > 55 && differ_choice > 55 && differ_position > 55);
}

static void assert_bad(struct sampling s, const char *field)
{
    struct fault f;
    assert_int_equal(sampling_check(&s, 100, &f), RC_INVALID);
    assert_non_null(strstr(f.text, field));
}

static void test_sampling_check_names_the_field(void **state)
{
    (void)state;
    struct sampling s = sampling_default();
    struct fault f;
    assert_int_equal(sampling_check(&s, 100, &f), RC_OK);
#define BAD(field, value, name)                                                                    \
    do {                                                                                           \
        struct sampling bad = sampling_default();                                                  \
        bad.field = (value);                                                                       \
        assert_bad(bad, name);                                                                     \
    } while (0)
    BAD(temperature, -0.1f, "temperature");
    BAD(temperature, NAN, "temperature");
    BAD(temperature, INFINITY, "temperature");
    BAD(top_p, 0.0f, "top_p");
    BAD(top_p, 1.01f, "top_p");
    BAD(top_p, NAN, "top_p");
    BAD(min_p, 1.0f, "min_p");
    BAD(min_p, -1.0f, "min_p");
    BAD(typical_p, 0.0f, "typical_p");
    BAD(repeat_penalty, 0.0f, "repetition_penalty");
    BAD(repeat_penalty, INFINITY, "repetition_penalty");
    BAD(frequency_penalty, 2.1f, "frequency_penalty");
    BAD(presence_penalty, NAN, "presence_penalty");
    BAD(repeat_last_n, -2, "repeat_last_n");
    struct logit_bias bias[1] = { { 100, 1.0f } };
    s.bias = bias;
    s.bias_count = 1;
    assert_bad(s, "logit_bias");
    bias[0] = (struct logit_bias){ 99, NAN };
    assert_bad(s, "logit_bias");
    bias[0] = (struct logit_bias){ 99, -INFINITY };
    assert_int_equal(sampling_check(&s, 100, &f), RC_OK);
    s.bias_count = 1025;
    assert_bad(s, "logit_bias");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampling_check_names_the_field),
        cmocka_unit_test(test_sample_greedy_and_ties),
        cmocka_unit_test(test_sample_bias_and_mask),
        cmocka_unit_test(test_sample_penalties),
        cmocka_unit_test(test_sample_survives_bad_logits),
        cmocka_unit_test(test_sample_typical_may_drop_the_best),
        cmocka_unit_test(test_sample_typical_takes_the_likelier_of_two_as_near),
        cmocka_unit_test(test_sample_order_changes_the_support),
        cmocka_unit_test(test_sample_depends_on_seed_choice_position),
        cmocka_unit_test(test_sample_distributions),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
