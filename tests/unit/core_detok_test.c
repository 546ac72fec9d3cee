/* SPDX-License-Identifier: MIT */
/* Tests of core/detok: characters split over tokens, what is not UTF-8, the dummy blank. */
#include "tests/unit/test.h"

#include "core/detok.h"
#include "core/str.h"
#include "tests/unit/vocab_rig.h"

#define BLANK "\xe2\x96\x81"
#define BAD "\xef\xbf\xbd"

static const struct rig_token spm_tokens[] = {
    { "<s>", RIG_CONTROL, 0 },      { BLANK "a", RIG_NORMAL, -1 }, { "b", RIG_NORMAL, -2 },
    { BLANK BLANK, RIG_NORMAL, 0 }, { BLANK, RIG_NORMAL, 0 },
};
static const struct vocab_spec spm_spec = {
    .model = "llama", .bytes = true, .no_merges = true, RIG_FIELDS(tokens, token_count, spm_tokens)
};

static void open_spm(struct vocab_rig *r)
{
    vocab_rig_open(r, &spm_spec);
    assert_int_equal(r->rc, RC_OK);
}

/* T01: bytes of two characters, then a letter, come out as three texts. */
static void test_character_split_over_tokens(void **state)
{
    (void)state;
    struct vocab_rig r;
    open_spm(&r);
    static const int32_t ids[] = { 0xe9, 0xa2, 0xa8, 0xf0, 0x9f, 0x99, 0x82, 'a' };
    static const size_t lens[] = { 0, 0, 3, 3, 3, 3, 7, 8 };
    struct detok d;
    struct text out = { 0 };
    detok_open(&d, r.tokenizer, true, false);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(detok_push(&d, ids[i], &out), RC_OK);
        assert_int_equal(out.len, lens[i]);
    }
    assert_int_equal(detok_flush(&d, &out), RC_OK);
    assert_string_equal(out.data, "\xe9\xa2\xa8\xf0\x9f\x99\x82"
                                  "a");
    text_close(&out);
    vocab_rig_close(&r);
}

/* Rows that pad an embedding have ids, and no text. */
static void test_id_behind_the_vocabulary_has_no_text(void **state)
{
    (void)state;
    struct vocab_rig r;
    open_spm(&r);
    int32_t behind = (int32_t)tokenizer_vocab_count(r.tokenizer);
    char piece[4];
    assert_int_equal(tokenizer_piece(r.tokenizer, behind, true, piece, sizeof piece), 0);
    assert_int_equal(tokenizer_piece(r.tokenizer, INT32_MAX, false, piece, sizeof piece), 0);
    struct detok d;
    struct text out = { 0 };
    detok_open(&d, r.tokenizer, true, false);
    const int32_t ids[] = { 0xc3, behind, 0xa9 };
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(detok_push(&d, ids[i], &out), RC_OK);
    assert_string_equal(out.data, "\xc3\xa9");
    text_close(&out);
    vocab_rig_close(&r);
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "\xc3", BAD },
        { "\xc3"
          "a",
          BAD "a" },
        { "\x80"
          "a",
          BAD "a" },
        { "\xc0\x80", BAD BAD },
        { "\xe2\x82", BAD },
        { "\xe2\x82"
          "a",
          BAD "a" },
        { "\xe2\x82\xe2\x82\xac", BAD "\xe2\x82\xac" },
        { "\xed\xa0\x80", BAD BAD BAD },
        { "\xf0\x9f\x99", BAD },
        { "\xf0\x9f\x99\xf0\x9f\x99\x82", BAD "\xf0\x9f\x99\x82" },
        { "\xf4\x90\x80\x80", BAD BAD BAD BAD },
        { "\xf5\xff", BAD BAD },
        { "\xe0\x80\x80", BAD BAD BAD },
        { "\xf0\x9f"
          "a\xc3\xa9",
          BAD "a\xc3\xa9" },
        { "\xe2\xe2\xe2", BAD BAD BAD },
    };
    struct vocab_rig r;
    open_spm(&r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct detok d;
        struct text out = { 0 };
        detok_open(&d, r.tokenizer, true, false);
        for (const char *p = cases[i][0]; *p != '\0'; p++)
            assert_int_equal(detok_push(&d, (unsigned char)*p, &out), RC_OK);
        assert_int_equal(detok_flush(&d, &out), RC_OK);
        if (strcmp(out.data, cases[i][1]) != 0)
            fail_msg("case %zu gives %s", i, out.data);
        text_close(&out);
    }
    vocab_rig_close(&r);
}

/* Whatever comes, only whole characters come out, and nothing but the end changes them. */
static void test_always_valid_at_every_step(void **state)
{
    (void)state;
    struct vocab_rig r;
    open_spm(&r);
    uint32_t seed = 12345;
    struct detok d;
    struct text out = { 0 };
    detok_open(&d, r.tokenizer, true, false);
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t kind = seed >> 28, byte = seed >> 16 & 0x3f;
        int32_t id = (int32_t)(kind < 8 ? 0x80 + byte : kind < 14 ? 0xc0 + byte : byte);
        size_t before = out.len;
        assert_int_equal(detok_push(&d, id, &out), RC_OK);
        if (out.len > before)
            assert_true(utf8_valid(out.data + before, out.len - before));
    }
    assert_int_equal(detok_flush(&d, &out), RC_OK);
    assert_true(utf8_valid(out.data, out.len));
    text_close(&out);
    vocab_rig_close(&r);
}

static void push_all(struct detok *d, const int32_t *ids, size_t count, struct text *out)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(detok_push(d, ids[i], out), RC_OK);
    assert_int_equal(detok_flush(d, out), RC_OK);
}

static void check_text(const struct tokenizer *t, bool continues, bool special, const int32_t *ids,
                       size_t count, const char *want)
{
    struct detok d;
    struct text out = { 0 };
    assert_int_equal(text_append(&out, "", 0), RC_OK);
    detok_open(&d, t, continues, special);
    push_all(&d, ids, count, &out);
    assert_string_equal(out.data, want);
    text_close(&out);
}

static void test_dummy_blank_goes_once(void **state)
{
    (void)state;
    struct vocab_rig r;
    open_spm(&r);
    check_text(r.tokenizer, false, false, (const int32_t[]){ 257, 257 }, 2, "a a");
    check_text(r.tokenizer, true, false, (const int32_t[]){ 257, 257 }, 2, " a a");
    check_text(r.tokenizer, false, false, (const int32_t[]){ 256, 257 }, 2, "a");
    check_text(r.tokenizer, false, true, (const int32_t[]){ 256, 257 }, 2, "<s>a");
    check_text(r.tokenizer, false, false, (const int32_t[]){ 258, 257 }, 2, "b a");
    check_text(r.tokenizer, false, false, (const int32_t[]){ 259, 258 }, 2, " b");
    vocab_rig_close(&r);
    static const struct rig_flag flags[] = { { "tokenizer.ggml.add_space_prefix", false } };
    struct vocab_spec spec = spm_spec;
    spec.flags = flags;
    spec.flag_count = 1;
    vocab_rig_open(&r, &spec);
    check_text(r.tokenizer, false, false, (const int32_t[]){ 257 }, 1, " a");
    vocab_rig_close(&r);
}

static void test_long_piece(void **state)
{
    (void)state;
    static char text[1001];
    memset(text, 'x', sizeof text - 1);
    const struct rig_token tokens[] = { { text, RIG_CONTROL, 0 } };
    const struct vocab_spec spec = { .model = "gpt2",
                                     .pre = "gpt-2",
                                     .bytes = true,
                                     .no_scores = true,
                                     RIG_FIELDS(tokens, token_count, tokens) };
    struct vocab_rig r;
    vocab_rig_open(&r, &spec);
    assert_int_equal(r.rc, RC_OK);
    check_text(r.tokenizer, false, true, (const int32_t[]){ 256 }, 1, text);
    check_text(r.tokenizer, false, false, (const int32_t[]){ 256, 'y' }, 2, "y");
    vocab_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_character_split_over_tokens),
        cmocka_unit_test(test_id_behind_the_vocabulary_has_no_text),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_always_valid_at_every_step),
        cmocka_unit_test(test_dummy_blank_goes_once),
        cmocka_unit_test(test_long_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
