/* SPDX-License-Identifier: MIT */
/* What tokenizer_open must refuse, by the name of the key, and what it must survive: broken arrays,
 * tokens and merges, and the failure of every allocation in turn. */
#include "tests/unit/test.h"

#include <math.h>

#include "core/mem.h"
#include "core/tokenizer.h"
#include "tests/unit/vocab_rig.h"

static const struct rig_token bpe_tokens[] = { { "he", RIG_NORMAL, 0 }, { "<x>", RIG_CONTROL, 0 } };
static const char *const bpe_merges[] = { "h e" };
static const struct vocab_spec bpe_spec = {
    .model = "gpt2",
    .pre = "gpt-2",
    .bytes = true,
    RIG_FIELDS(tokens, token_count, bpe_tokens),
    RIG_FIELDS(merges, merge_count, bpe_merges),
    .no_scores = true,
};
static const struct rig_token spm_tokens[] = { { "<s>", RIG_CONTROL, 0 },
                                               { "aa", RIG_NORMAL, -1 } };
static const struct vocab_spec spm_spec = {
    .model = "llama",
    .bytes = true,
    RIG_FIELDS(tokens, token_count, spm_tokens),
    .no_merges = true,
};

static void expect_fault(struct vocab_spec spec, enum rc code, const char *text)
{
    struct vocab_rig r;
    vocab_rig_open(&r, &spec);
    assert_null(r.tokenizer);
    if (r.rc != code || strstr(r.fault.text, text) == NULL)
        fail_msg("%s (%s), not %s", r.fault.text, rc_text(r.rc), text);
    vocab_rig_close(&r);
}

static void test_broken_vocabularies_are_refused(void **state)
{
    (void)state;
    struct vocab_spec s = spm_spec;
    s.scores_less = 1;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.scores has 257 elements");
    s = spm_spec;
    s.types_less = -1;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.token_type has 259 elements");
    s = spm_spec;
    s.no_scores = true;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.scores is missing");
    s = spm_spec;
    s.no_types = true;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.token_type is missing");
    s = bpe_spec;
    s.no_merges = true;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.merges is missing");
    s = spm_spec;
    s.model = NULL;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.model is missing");
    s.model = "bert";
    expect_fault(s, RC_UNSUPPORTED, "'bert'");
    s = bpe_spec;
    s.pre = "tekken";
    expect_fault(s, RC_UNSUPPORTED, "tokenizer.ggml.pre 'tekken' is not supported");
    static const struct rig_id far[] = { { "tokenizer.ggml.eos_token_id", 258 } };
    s = bpe_spec;
    s.ids = far;
    s.id_count = 1;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.eos_token_id");
    s = bpe_spec;
    s.bytes = false;
    s.token_count = 0;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.tokens has 0 elements");
}

static void test_broken_tokens_are_refused(void **state)
{
    (void)state;
    static const char *const bad_bytes[] = { "<0x4>", "<0x441>", "<0xG1>", "<0x4",
                                             "0x41",  "<0X41>",  "<0x+1>" };
    for (size_t i = 0; i < sizeof bad_bytes / sizeof bad_bytes[0]; i++) {
        const struct rig_token token[] = { { bad_bytes[i], RIG_BYTE, 0 } };
        const struct vocab_spec s = { .model = "llama",
                                      .no_merges = true,
                                      RIG_FIELDS(tokens, token_count, token) };
        expect_fault(s, RC_CORRUPT, "tokenizer.ggml.tokens[0] is a byte token");
    }
    const struct rig_token type[] = { { "a", 7, 0 } };
    const struct rig_token score[] = { { "a", RIG_NORMAL, NAN } };
    static char long_text[70000], long_added[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    memset(long_added, 'x', sizeof long_added - 1);
    const struct rig_token far_too_long[] = { { long_text, RIG_NORMAL, 0 } };
    const struct rig_token too_long[] = { { long_added, RIG_CONTROL, 0 } };
    struct vocab_spec s = { .model = "llama", .no_merges = true, .token_count = 1 };
    s.tokens = type;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.token_type[0] is 7");
    s.tokens = score;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.scores[0] is not a number");
    s.tokens = far_too_long;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.tokens[0] has 69999 bytes");
    s.tokens = too_long;
    expect_fault(s, RC_UNSUPPORTED, "added token of 1999 bytes");
}

static void test_broken_merges_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", " ", "a", "ab", "a ", " b", "a b c", "a \x01", "\xff b"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const merges[] = { "h e", bad[i] };
        struct vocab_spec s = bpe_spec;
        s.merges = merges;
        s.merge_count = 2;
        expect_fault(s, RC_CORRUPT, "tokenizer.ggml.merges[1] is not two pieces");
    }
    const char *const merges[] = { "h e", "q q" };
    struct vocab_spec s = bpe_spec;
    s.merges = merges;
    s.merge_count = 2;
    expect_fault(s, RC_CORRUPT, "tokenizer.ggml.merges[1] has a piece that");
}

/* Two texts whose polynomial hash is equal whatever its odd factor: the Thue-Morse word and its
 * complement. Rows of ten of them make a thousand texts that collide. */
static void test_colliding_texts_are_refused(void **state)
{
    (void)state;
    enum { BLOCK = 1024, BLOCKS = 10, TEXTS = 600 };
    static struct rig_token tokens[TEXTS];
    char *all = malloc((size_t)TEXTS * (BLOCKS * BLOCK + 1)), *p = all;
    for (unsigned i = 0; i < TEXTS; i++) {
        tokens[i] = (struct rig_token){ p, RIG_NORMAL, 0 };
        for (unsigned k = 0; k < BLOCKS * BLOCK; k++) {
            unsigned odd = (unsigned)__builtin_popcount(k % BLOCK) & 1;
            *p++ = (char)('a' + (odd ^ (i >> (k / BLOCK) & 1)));
        }
        *p++ = '\0';
    }
    struct vocab_spec s = spm_spec;
    s.tokens = tokens;
    s.token_count = TEXTS;
    expect_fault(s, RC_UNSUPPORTED, "tokenizer.ggml.tokens has colliding texts");
    s.token_count = 500;
    struct vocab_rig r;
    vocab_rig_open(&r, &s);
    assert_int_equal(r.rc, RC_OK);
    vocab_rig_close(&r);
    free(all);
}

/* The n-th allocation fails, n = 1, 2, ... until opening and encoding get through. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    const struct vocab_spec *specs[] = { &bpe_spec, &spm_spec };
    char text[4000];
    memset(text, 'a', sizeof text);
    memcpy(text + 2000, "e\xcc\x81", 3);
    for (size_t k = 0; k < 2; k++) {
        struct vocab_spec spec = *specs[k];
        if (k == 0)
            spec.pre = "qwen2";
        struct vocab_rig r;
        vocab_rig_open(&r, &spec);
        assert_int_equal(r.rc, RC_OK);
        size_t before = mem_live_bytes();
        bool done = false;
        for (uint64_t n = 1; !done; n++) {
            assert_true(n < 100);
            struct tokenizer *t;
            struct fault fault;
            struct token_list list = { 0 };
            mem_fail_after(n);
            enum rc rc = tokenizer_open(&t, r.gguf, &fault);
            if (rc == RC_OK) {
                rc = tokenizer_encode(t, text, sizeof text, TOKENIZE_BOS, &list);
                done = rc == RC_OK;
            }
            mem_fail_after(0);
            assert_true(rc == RC_OK || rc == RC_NO_MEMORY);
            assert_int_equal(list.count > 0, done);
            token_list_close(&list);
            tokenizer_close(t);
            assert_int_equal(mem_live_bytes(), before);
        }
        vocab_rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_vocabularies_are_refused),
        cmocka_unit_test(test_broken_tokens_are_refused),
        cmocka_unit_test(test_broken_merges_are_refused),
        cmocka_unit_test(test_colliding_texts_are_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
