/* SPDX-License-Identifier: MIT */
/* The work counter of both tokenizer kinds on texts made to hurt: twice the text, less than 2.5
 * times the work, and never more than 100 steps a byte. */
#include "tests/unit/test.h"

#include "core/tokenizer.h"
#include "core/unicode.h"
#include "core/mem.h"
#include "tests/unit/vocab_rig.h"

#define LETTERS 200000u
#define SHORT_TEXT 6000u

/* Runs of a letter in powers of two, and pairs that keep breaking one another up. */
static const struct rig_token bpe_tokens[] = {
    { "aa", RIG_NORMAL, 0 },
    { "aaaa", RIG_NORMAL, 0 },
    { "aaaaaaaa", RIG_NORMAL, 0 },
    { "aaaaaaaaaaaaaaaa", RIG_NORMAL, 0 },
    { "ab", RIG_NORMAL, 0 },
    { "ba", RIG_NORMAL, 0 },
    { "aba", RIG_NORMAL, 0 },
    { "bab", RIG_NORMAL, 0 },
    { "\xc4\xa0\xc4\xa0", RIG_NORMAL, 0 },
    { "\xc4\xa0\xc4\xa0\xc4\xa0", RIG_NORMAL, 0 },
    { "11", RIG_NORMAL, 0 },
    { "!!", RIG_NORMAL, 0 },
    { "\xc4\x8a\xc4\x8a", RIG_NORMAL, 0 },
    { "<|im_start|>", RIG_CONTROL, 0 },
    { "<<<<<<<<>", RIG_USER, 0 },
};
static const char *const bpe_merges[] = {
    "a a",
    "aa aa",
    "aaaa aaaa",
    "aaaaaaaa aaaaaaaa",
    "b a",
    "a b",
    "ab a",
    "ba b",
    "\xc4\xa0 \xc4\xa0",
    "\xc4\xa0 \xc4\xa0\xc4\xa0",
    "1 1",
    "! !",
    "\xc4\x8a \xc4\x8a",
};
#define BLANK "\xe2\x96\x81"
static const struct rig_token spm_tokens[] = {
    { "<unk>", RIG_UNKNOWN, 0 },
    { "a", RIG_NORMAL, -1 },
    { "b", RIG_NORMAL, -1 },
    { "aa", RIG_NORMAL, -2 },
    { "aaa", RIG_NORMAL, -3 },
    { "aaaa", RIG_NORMAL, -4 },
    { "aaaaaaaa", RIG_NORMAL, -1 },
    { "ab", RIG_NORMAL, -6 },
    { "ba", RIG_NORMAL, -6 },
    { "aba", RIG_NORMAL, -3 },
    { BLANK, RIG_NORMAL, -1 },
    { BLANK BLANK, RIG_NORMAL, -1 },
    { BLANK BLANK BLANK, RIG_NORMAL, -1 },
    { "11", RIG_NORMAL, -1 },
    { "1", RIG_NORMAL, -1 },
    { "!", RIG_NORMAL, -1 },
    { "!!", RIG_NORMAL, -1 },
    { "<|im_start|>", RIG_CONTROL, 0 },
    { "<<<<<<<<>", RIG_USER, 0 },
};

static const char *const patterns[] = {
    "a",
    "ab",
    "aab",
    " ",
    "\n",
    "\r\n",
    " \n",
    "  \t",
    "1",
    "12 ",
    "!",
    "'",
    "'s",
    "<",
    "<|im_star",
    "a ",
    " a",
    "\xf0\x9f\x99\x82",
    "\xcc\x81",
    "\xcc\xa3\xcc\x81",
    "\xe3\x80\x80",
    "\xe4\xb8\x80",
    "e\xcc\x81",
    "\xff",
    "\xe4\xb8",
    "a\n",
    "'l",
    "\xc3\xa9 ",
    "$",
    "x1",
};

static uint64_t work_of(const struct tokenizer *t, const char *pattern, size_t bytes)
{
    size_t step = strlen(pattern);
    char *text = malloc(bytes + step);
    size_t n = 0;
    for (; n < bytes; n += step)
        memcpy(text + n, pattern, step);
    struct token_list list = { 0 };
    assert_int_equal(tokenizer_encode(t, text, n, TOKENIZE_SPECIAL, &list), RC_OK);
    uint64_t work = list.work;
    token_list_close(&list);
    free(text);
    return work;
}

static void check_pattern(const struct tokenizer *t, const char *kind, const char *pattern,
                          size_t bytes)
{
    uint64_t one = work_of(t, pattern, bytes), two = work_of(t, pattern, 2 * bytes);
    double factor = (double)two / (double)one, each = (double)two / (double)(2 * bytes);
    if (factor >= 2.5 || each > 100)
        fail_msg("%s, '%s' x %zu: twice the text is %.2f times the work, %.1f steps a byte", kind,
                 pattern, bytes, factor, each);
}

static const char *const pres[] = {
    "gpt-2", "llama-bpe", "qwen2", "smollm", "falcon", "deepseek-llm", "deepseek-coder", "default",
};

static void open_bpe(struct vocab_rig *r, const char *pre)
{
    const struct vocab_spec spec = { .model = "gpt2",
                                     .pre = pre,
                                     .bytes = true,
                                     .no_scores = true,
                                     RIG_FIELDS(tokens, token_count, bpe_tokens),
                                     RIG_FIELDS(merges, merge_count, bpe_merges) };
    vocab_rig_open(r, &spec);
    assert_int_equal(r->rc, RC_OK);
}

static void open_spm(struct vocab_rig *r)
{
    const struct vocab_spec spec = { .model = "llama",
                                     .bytes = true,
                                     .no_merges = true,
                                     RIG_FIELDS(tokens, token_count, spm_tokens) };
    vocab_rig_open(r, &spec);
    assert_int_equal(r->rc, RC_OK);
}

static void test_cost_of_equal_letters(void **state)
{
    (void)state;
    struct vocab_rig r;
    for (size_t i = 0; i < 3; i++) {
        open_bpe(&r, pres[i]);
        check_pattern(r.tokenizer, pres[i], "a", LETTERS);
        vocab_rig_close(&r);
    }
    open_spm(&r);
    check_pattern(r.tokenizer, "sentencepiece", "a", LETTERS);
    vocab_rig_close(&r);
}

static void test_cost_of_bpe_patterns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        struct vocab_rig r;
        open_bpe(&r, pres[i]);
        for (size_t k = 0; k < sizeof patterns / sizeof patterns[0]; k++)
            check_pattern(r.tokenizer, pres[i], patterns[k], SHORT_TEXT);
        vocab_rig_close(&r);
    }
}

static void test_cost_of_spm_patterns(void **state)
{
    (void)state;
    struct vocab_rig r;
    open_spm(&r);
    for (size_t k = 0; k < sizeof patterns / sizeof patterns[0]; k++)
        check_pattern(r.tokenizer, "sentencepiece", patterns[k], SHORT_TEXT);
    vocab_rig_close(&r);
}

/* Half a million marks in the worst order: an exchange sort would need hours. */
static void test_cost_of_marks(void **state)
{
    (void)state;
    size_t pairs = 250000, len = 4 * pairs;
    char *text = malloc(len + 1);
    text[0] = 'x';
    for (size_t i = 0; i < pairs; i++)
        memcpy(text + 1 + 4 * i, "\xcc\x81\xcc\xa3", 4); /* class 230, then 220 */
    char *out;
    size_t out_len;
    uint64_t work = 0;
    assert_int_equal(unicode_nfc(&out, &out_len, text, len + 1, &work), RC_OK);
    assert_non_null(out);
    assert_int_equal(out_len, len + 1);
    for (size_t i = 0; i < pairs; i++) {
        assert_memory_equal(out + 1 + 2 * i, "\xcc\xa3", 2);
        assert_memory_equal(out + 1 + 2 * (pairs + i), "\xcc\x81", 2);
    }
    mem_free(out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_of_equal_letters),
        cmocka_unit_test(test_cost_of_bpe_patterns),
        cmocka_unit_test(test_cost_of_spm_patterns),
        cmocka_unit_test(test_cost_of_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
