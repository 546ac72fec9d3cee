/* SPDX-License-Identifier: MIT */
/* Tests of core/tokenizer, tok_spm and tok_bpe on small vocabularies: rules, trust, failing
 * allocations. */
#include "tests/unit/test.h"

#include "core/tokenizer.h"
#include "tests/unit/vocab_rig.h"

static const struct rig_token bpe_tokens[] = {
    { "he", RIG_NORMAL, 0 },            /* 256 */
    { "ll", RIG_NORMAL, 0 },            /* 257 */
    { "hell", RIG_NORMAL, 0 },          /* 258 */
    { "hello", RIG_NORMAL, 0 },         /* 259 */
    { "\xc4\xa0w", RIG_NORMAL, 0 },     /* 260, a blank and w */
    { "or", RIG_NORMAL, 0 },            /* 261 */
    { "\xc4\xa0wor", RIG_NORMAL, 0 },   /* 262 */
    { "ld", RIG_NORMAL, 0 },            /* 263 */
    { "\xc4\xa0world", RIG_NORMAL, 0 }, /* 264 */
    { "<|im_start|>", RIG_CONTROL, 0 }, /* 265 */
    { "<|im_end|>", RIG_CONTROL, 0 },   /* 266 */
    { "<tool>", RIG_USER, 0 },          /* 267 */
    { "<tool>>", RIG_USER, 0 },         /* 268 */
    { "bc", RIG_NORMAL, 0 },            /* 269 */
    { "ab", RIG_NORMAL, 0 },            /* 270 */
    { "<|", RIG_NORMAL, 0 },            /* 271 */
};
static const char *const bpe_merges[] = {
    "b c",        "a b", "h e",          "l l", "he ll",          "hell o",
    "\xc4\xa0 w", "o r", "\xc4\xa0w or", "l d", "\xc4\xa0wor ld", "< |",
};
static const struct rig_id bpe_ids[] = {
    { "tokenizer.ggml.bos_token_id", 265 },
    { "tokenizer.ggml.eos_token_id", 266 },
};
static const struct vocab_spec bpe_spec = {
    .model = "gpt2",
    .pre = "llama-bpe",
    .bytes = true,
    RIG_FIELDS(tokens, token_count, bpe_tokens),
    RIG_FIELDS(merges, merge_count, bpe_merges),
    RIG_FIELDS(ids, id_count, bpe_ids),
    .no_scores = true,
};

/* Blanks are written as U+2581 in the vocabulary. */
#define BLANK "\xe2\x96\x81"
static const struct rig_token spm_tokens[] = {
    { "<unk>", RIG_UNKNOWN, 0 },     /* 256 */
    { "<s>", RIG_CONTROL, 0 },       /* 257 */
    { "</s>", RIG_CONTROL, 0 },      /* 258 */
    { BLANK, RIG_NORMAL, -10 },      /* 259 */
    { "a", RIG_NORMAL, -11 },        /* 260 */
    { "b", RIG_NORMAL, -12 },        /* 261 */
    { "aa", RIG_NORMAL, -2 },        /* 262 */
    { BLANK "a", RIG_NORMAL, -1 },   /* 263 */
    { "ab", RIG_NORMAL, -3 },        /* 264 */
    { "<", RIG_NORMAL, -20 },        /* 265 */
    { "s", RIG_NORMAL, -21 },        /* 266 */
    { ">", RIG_NORMAL, -22 },        /* 267 */
    { "<s", RIG_NORMAL, -4 },        /* 268 */
    { "<mark>", RIG_USER, 0 },       /* 269 */
    { "\xc3\xa9", RIG_NORMAL, -5 },  /* 270: e acute */
    { BLANK BLANK, RIG_NORMAL, -6 }, /* 271 */
};
static const struct rig_id spm_ids[] = {
    { "tokenizer.ggml.bos_token_id", 257 },
    { "tokenizer.ggml.eos_token_id", 258 },
    { "tokenizer.ggml.unknown_token_id", 256 },
};
static const struct vocab_spec spm_spec = {
    .model = "llama",
    .bytes = true,
    RIG_FIELDS(tokens, token_count, spm_tokens),
    RIG_FIELDS(ids, id_count, spm_ids),
    .no_merges = true,
};

static struct vocab_rig open_spec(const struct vocab_spec *spec)
{
    struct vocab_rig r;
    vocab_rig_open(&r, spec);
    if (r.rc != RC_OK)
        fail_msg("%s", r.fault.text);
    return r;
}

static void expect_ids(const struct tokenizer *t, const char *text, unsigned flags,
                       const char *want)
{
    const char *got = rig_ids(t, text, strlen(text), flags);
    if (strcmp(got, want) != 0)
        fail_msg("'%s' gives %s, not %s", text, got, want);
}

static void expect_way_back(const struct tokenizer *t, const char *text, size_t len)
{
    struct token_list list = { 0 };
    assert_int_equal(tokenizer_encode(t, text, len, 0, &list), RC_OK);
    size_t back_len;
    const char *back = rig_text(t, list.ids, list.count, &back_len);
    assert_int_equal(back_len, len);
    assert_memory_equal(back, text, len);
    token_list_close(&list);
}

static void test_bpe_joins_by_rank(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    expect_ids(r.tokenizer, "hello world", 0, "259 264");
    expect_ids(r.tokenizer, "abc", 0, "97 269");
    expect_ids(r.tokenizer, "ab", 0, "270");
    expect_ids(r.tokenizer, "hellol", 0, "259 108");
    expect_ids(r.tokenizer, "", 0, "");
    vocab_rig_close(&r);
}

static void test_bpe_whole_piece_needs_no_merges(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = { { "xyz", RIG_NORMAL, 0 } };
    struct vocab_spec spec = {
        .model = "gpt2", .bytes = true, .no_scores = true, RIG_FIELDS(tokens, token_count, tokens)
    };
    spec.pre = "llama-bpe";
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "xyz", 0, "256");
    expect_ids(r.tokenizer, "xyzx", 0, "120 121 122 120");
    vocab_rig_close(&r);
    spec.pre = "gpt-2";
    r = open_spec(&spec);
    expect_ids(r.tokenizer, "xyz", 0, "120 121 122");
    vocab_rig_close(&r);
}

static void test_bpe_way_back(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    char all[256];
    for (unsigned i = 0; i < 256; i++)
        all[i] = (char)i;
    struct token_list list = { 0 };
    assert_int_equal(tokenizer_encode(r.tokenizer, all, sizeof all, 0, &list), RC_OK);
    size_t n = 0;
    char back[256];
    for (size_t i = 0; i < list.count; i++)
        n += tokenizer_piece(r.tokenizer, list.ids[i], false, back + n, sizeof back - n);
    assert_int_equal(n, 256);
    assert_memory_equal(back, all, 256);
    token_list_close(&list);
    static const char text[] =
        " \n\t  hello  world \xe9\xa2\xa8\xf0\x9f\x99\x82 12345'll <tool>\r\n";
    expect_way_back(r.tokenizer, text, strlen(text));
    expect_way_back(r.tokenizer, "a\0b", 3);
    vocab_rig_close(&r);
}

static void test_bpe_missing_byte_is_lost(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = { { "a", RIG_NORMAL, 0 },
                                               { "b", RIG_NORMAL, 0 },
                                               { "ab", RIG_NORMAL, 0 } };
    static const char *const merges[] = { "a b" };
    const struct vocab_spec spec = { .model = "gpt2",
                                     .pre = "gpt-2",
                                     .no_scores = true,
                                     RIG_FIELDS(tokens, token_count, tokens),
                                     RIG_FIELDS(merges, merge_count, merges) };
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "abxab", 0, "2 2");
    expect_ids(r.tokenizer, "axb", 0, "0 1"); /* what is lost does not make neighbours */
    vocab_rig_close(&r);
}

static void test_added_longest_match(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    expect_ids(r.tokenizer, "a<tool>b", 0, "97 267 98");
    expect_ids(r.tokenizer, "<tool>><tool>", 0, "268 267");
    expect_ids(r.tokenizer, "<tool", 0, "60 116 111 111 108");
    expect_ids(r.tokenizer, "<<tool>", 0, "60 267");
    vocab_rig_close(&r);
}

static void test_control_only_where_allowed(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    expect_ids(r.tokenizer, "ok<|im_end|>", TOKENIZE_SPECIAL, "111 107 266");
    expect_ids(r.tokenizer, "<|im_start|><|im_end|>", TOKENIZE_SPECIAL, "265 266");
    expect_ids(r.tokenizer, "<|im_end|>", 0, "271 105 109 95 101 110 100 124 62");
    assert_true(tokenizer_is_control(r.tokenizer, 266));
    assert_false(tokenizer_is_control(r.tokenizer, 267));
    assert_false(tokenizer_is_control(r.tokenizer, -1));
    assert_false(tokenizer_is_control(r.tokenizer, 1000));
    vocab_rig_close(&r);
}

static void test_begin_and_end_ids(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    assert_int_equal(tokenizer_bos(r.tokenizer), 265);
    assert_int_equal(tokenizer_eos(r.tokenizer), 266);
    assert_int_equal(tokenizer_vocab_count(r.tokenizer), 272);
    assert_true(tokenizer_adds_bos(r.tokenizer)); /* llama-bpe does unless told otherwise */
    expect_ids(r.tokenizer, "ab", TOKENIZE_BOS, "265 270");
    expect_ids(r.tokenizer, "", TOKENIZE_BOS, "265");
    vocab_rig_close(&r);
    static const struct rig_flag flags[] = { { "tokenizer.ggml.add_bos_token", false },
                                             { "tokenizer.ggml.add_eos_token", true } };
    struct vocab_spec spec = bpe_spec;
    spec.flags = flags;
    spec.flag_count = 2;
    r = open_spec(&spec);
    assert_false(tokenizer_adds_bos(r.tokenizer));
    expect_ids(r.tokenizer, "ab", TOKENIZE_BOS, "270 266");
    expect_ids(r.tokenizer, "ab", 0, "270");
    vocab_rig_close(&r);
}

static void test_ends_of_turn(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = {
        { "<|eot_id|>", RIG_CONTROL, 0 }, { "<|endoftext|>", RIG_CONTROL, 0 },
        { "<|im_end|>", RIG_NORMAL, 0 },  { "<x>", RIG_CONTROL, 0 },
        { "<y>", RIG_CONTROL, 0 },        { "<z>", RIG_CONTROL, 0 },
        { "<end_of_turn>", RIG_USER, 0 },
    };
    static const struct rig_id ids[] = { { "tokenizer.ggml.eos_token_id", 259 },
                                         { "tokenizer.ggml.eot_token_id", 260 },
                                         { "tokenizer.ggml.eom_token_id", 261 } };
    const struct vocab_spec spec = { .model = "gpt2",
                                     .pre = "qwen2",
                                     .bytes = true,
                                     .no_scores = true,
                                     RIG_FIELDS(tokens, token_count, tokens),
                                     RIG_FIELDS(ids, id_count, ids) };
    struct vocab_rig r = open_spec(&spec);
    static const bool want[] = { true, true, false, true, true, true, false };
    for (int i = 0; i < 7; i++)
        assert_int_equal(tokenizer_is_end(r.tokenizer, 256 + i), want[i]);
    assert_false(tokenizer_is_end(r.tokenizer, 0));
    assert_int_equal(tokenizer_bos(r.tokenizer), -1);
    expect_ids(r.tokenizer, "a", TOKENIZE_BOS, "97");
    vocab_rig_close(&r);
}

static void test_qwen_normalizes(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = { { "\xc3\x83\xc2\xa9", RIG_NORMAL, 0 } };
    static const char *const merges[] = { "\xc3\x83 \xc2\xa9" }; /* the bytes c3 and a9 */
    struct vocab_spec spec = { .model = "gpt2",
                               .pre = "qwen2",
                               .bytes = true,
                               .no_scores = true,
                               RIG_FIELDS(tokens, token_count, tokens),
                               RIG_FIELDS(merges, merge_count, merges) };
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "e\xcc\x81", 0, "256");
    vocab_rig_close(&r);
    spec.pre = "dbrx";
    r = open_spec(&spec);
    expect_ids(r.tokenizer, "e\xcc\x81", 0, "101 204 129");
    vocab_rig_close(&r);
}

static void test_spm_blanks_and_scores(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&spm_spec);
    assert_true(tokenizer_adds_blank(r.tokenizer));
    expect_ids(r.tokenizer, "a", 0, "263");
    expect_ids(r.tokenizer, " a", 0, "259 263");       /* "_a" is better than "__" */
    expect_ids(r.tokenizer, "aaaa", 0, "263 262 260"); /* equals from the left */
    expect_ids(r.tokenizer, "", 0, "");
    expect_ids(r.tokenizer, "", TOKENIZE_BOS, "257");
    expect_ids(r.tokenizer, "a<mark>a", 0, "263 269 263"); /* a blank after an added token too */
    expect_ids(r.tokenizer, "</s>a", TOKENIZE_SPECIAL, "258 263");
    static const struct rig_flag flags[] = { { "tokenizer.ggml.add_space_prefix", false } };
    struct vocab_spec spec = spm_spec;
    spec.flags = flags;
    spec.flag_count = 1;
    vocab_rig_close(&r);
    r = open_spec(&spec);
    expect_ids(r.tokenizer, "aab", 0, "262 261");
    expect_ids(r.tokenizer, BLANK "a", 0, "263"); /* U+2581 in a text is a blank */
    expect_way_back(r.tokenizer, " a  b\xf0\x9f\x99\x82", 9);
    vocab_rig_close(&r);
}

static void test_spm_token_with_a_blank_inside(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = {
        { ">" BLANK, RIG_NORMAL, -1 }, { ">" BLANK "</", RIG_NORMAL, -3 }, { "</", RIG_NORMAL, -2 },
        { BLANK "a", RIG_NORMAL, -4 }, { BLANK, RIG_NORMAL, -5 },          { ">", RIG_NORMAL, -6 },
    };
    const struct vocab_spec spec = {
        .model = "llama", .bytes = true, .no_merges = true, RIG_FIELDS(tokens, token_count, tokens)
    };
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "a> </b a", 0, "259 257 98 259");
    expect_ids(r.tokenizer, "> a", 0, "260 256 97");
    vocab_rig_close(&r);
}

static void test_spm_bytes_for_what_is_no_token(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&spm_spec);
    expect_ids(r.tokenizer, "\xc3\xa9\xc3\xa8", 0, "259 270 195 168");
    expect_ids(r.tokenizer, "\xc3", 0, "259 195");             /* unfinished */
    expect_ids(r.tokenizer, "\xff\xc3\xa9", 0, "259 255 270"); /* never valid */
    vocab_rig_close(&r);
}

static void test_spm_control_never_comes_from_joining(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&spm_spec);
    expect_ids(r.tokenizer, "<s>", 0, "259 268 267");
    expect_ids(r.tokenizer, "<s>", TOKENIZE_SPECIAL, "257");
    expect_ids(r.tokenizer, "<unk>", TOKENIZE_SPECIAL, "256");
    expect_ids(r.tokenizer, "<0x41>", 0, "259 265 48 120 52 49 267");
    expect_ids(r.tokenizer, "<0x41>", TOKENIZE_SPECIAL, "259 265 48 120 52 49 267");
    vocab_rig_close(&r);
}

static void test_spm_unknown_once_for_neighbours(void **state)
{
    (void)state;
    struct vocab_spec spec = spm_spec;
    spec.bytes = false;
    spec.id_count = 0;
    struct vocab_rig r = open_spec(&spec);
    assert_int_equal(tokenizer_bos(r.tokenizer), 1);
    assert_int_equal(tokenizer_eos(r.tokenizer), 2);
    expect_ids(r.tokenizer, "axyaz", 0, "7 0 4 0");
    vocab_rig_close(&r);
    spec.tokens++; /* and without an unknown token */
    spec.token_count--;
    r = open_spec(&spec);
    expect_ids(r.tokenizer, "a", 0, "6");
    expect_ids(r.tokenizer, "x", 0, "invalid input");
    vocab_rig_close(&r);
}

static void test_phi3_added_tokens_eat_blanks(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = {
        { "<unk>", RIG_CONTROL, 0 },
        { "<s>", RIG_CONTROL, 0 },
        { "</s>", RIG_USER, 0 },
        { "<|user|>", RIG_CONTROL, 0 },
        { "<|endoftext|>", RIG_CONTROL, 0 },
        { BLANK, RIG_NORMAL, -1 },
    };
    struct vocab_spec spec = { .model = "llama",
                               .architecture = "phi3",
                               .bytes = true,
                               .no_merges = true,
                               RIG_FIELDS(tokens, token_count, tokens) };
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "<|user|>\n a", TOKENIZE_SPECIAL, "259 261 97");
    expect_ids(r.tokenizer, "<|endoftext|>\na", TOKENIZE_SPECIAL, "260 261 10 97");
    expect_ids(r.tokenizer, "<s> a", TOKENIZE_SPECIAL, "257 261 261 97");
    expect_ids(r.tokenizer, "</s>", 0, "261 60 47 115 62"); /* the file is wrong about its type */
    assert_true(tokenizer_is_end(r.tokenizer, 258));
    spec.architecture = "llama";
    vocab_rig_close(&r);
    r = open_spec(&spec);
    expect_ids(r.tokenizer, "<|user|>\na", TOKENIZE_SPECIAL, "259 261 10 97");
    vocab_rig_close(&r);
}

static void test_html_marks_are_no_end_marks(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = { { "<s>", RIG_USER, 0 }, { "</s>", RIG_USER, 0 } };
    const struct vocab_spec spec = {
        .model = "llama", .bytes = true, .no_merges = true, RIG_FIELDS(tokens, token_count, tokens)
    };
    struct vocab_rig r = open_spec(&spec);
    static const char *const want = "256 257";
    expect_ids(r.tokenizer, "<s></s>", 0, want);
    vocab_rig_close(&r);
}

static void test_pieces_and_find(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    char out[16];
    assert_int_equal(tokenizer_piece(r.tokenizer, 264, false, out, sizeof out), 6);
    assert_memory_equal(out, " world", 6);
    assert_int_equal(tokenizer_piece(r.tokenizer, 264, false, out, 0), 6);
    assert_int_equal(tokenizer_piece(r.tokenizer, 266, false, out, sizeof out), 0);
    assert_int_equal(tokenizer_piece(r.tokenizer, 266, true, out, sizeof out), 10);
    assert_int_equal(tokenizer_find(r.tokenizer, " world", 6), 264);
    assert_int_equal(tokenizer_find(r.tokenizer, "<|im_end|>", 10), 266);
    assert_int_equal(tokenizer_find(r.tokenizer, "<|im_end|>x", 11), -1);
    assert_int_equal(tokenizer_find(r.tokenizer, "", 0), -1);
    vocab_rig_close(&r);
    r = open_spec(&spm_spec);
    assert_int_equal(tokenizer_piece(r.tokenizer, 263, false, out, sizeof out), 2);
    assert_memory_equal(out, " a", 2);
    assert_int_equal(tokenizer_piece(r.tokenizer, 10, false, out, sizeof out), 1);
    assert_int_equal(out[0], '\n');
    assert_int_equal(tokenizer_find(r.tokenizer, " a", 2), 263);
    assert_int_equal(tokenizer_find(r.tokenizer, "\n", 1), 10);
    assert_int_equal(tokenizer_find(r.tokenizer, "zz", 2), -1);
    vocab_rig_close(&r);
}

static void test_last_of_equal_texts_counts(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = {
        { "ab", RIG_NORMAL, 0 }, { "ab", RIG_NORMAL, 0 }, { "<t>", RIG_USER, 0 },
        { "<t>", RIG_USER, 0 },  { "", RIG_NORMAL, 0 },   { "", RIG_CONTROL, 0 },
    };
    static const char *const merges[] = { "a b", "a b" };
    const struct vocab_spec spec = { .model = "gpt2",
                                     .pre = "gpt-2",
                                     .bytes = true,
                                     .no_scores = true,
                                     RIG_FIELDS(tokens, token_count, tokens),
                                     RIG_FIELDS(merges, merge_count, merges) };
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "ab<t>", TOKENIZE_SPECIAL, "257 259");
    vocab_rig_close(&r);
}

static void test_merge_to_a_control_token_is_left_out(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = { { "ab", RIG_CONTROL, 0 }, { "abc", RIG_NORMAL, 0 } };
    static const char *const merges[] = { "a b", "ab c" };
    const struct vocab_spec spec = { .model = "gpt2",
                                     .pre = "gpt-2",
                                     .bytes = true,
                                     .no_scores = true,
                                     RIG_FIELDS(tokens, token_count, tokens),
                                     RIG_FIELDS(merges, merge_count, merges) };
    struct vocab_rig r = open_spec(&spec);
    expect_ids(r.tokenizer, "abc", 0, "97 98 99");
    expect_ids(r.tokenizer, "abc", TOKENIZE_SPECIAL, "256 99");
    vocab_rig_close(&r);
}

/* Pieces of a prompt, one after the other: the template's, and those that begin with '!' a user's.
 */
static void expect_spans(const struct tokenizer *t, const char *const *pieces, size_t count,
                         const char *want)
{
    char text[200], got[200] = "";
    struct text_span spans[8];
    size_t len = 0, n = 0;
    for (size_t i = 0; i < count; i++) {
        bool user = pieces[i][0] == '!';
        const char *piece = pieces[i] + user;
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
        spans[i] = (struct text_span){ len, user };
    }
    struct token_list list = { 0 };
    assert_int_equal(token_list_push(&list, 7), RC_OK);
    assert_int_equal(tokenizer_encode_spans(t, text, spans, count, &list), RC_OK);
    assert_int_equal(list.ids[0], 7);
    for (size_t i = 1; i < list.count; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, i > 1 ? " %d" : "%d", list.ids[i]);
    if (strcmp(got, want) != 0)
        fail_msg("'%.*s' gives %s, not %s", (int)len, text, got, want);
    token_list_close(&list);
}
#define PIECES(...)                                                                                \
    (const char *const[]){ __VA_ARGS__ },                                                          \
        sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)

static void test_control_tokens_are_the_templates(void **state)
{
    (void)state;
    struct vocab_rig r = open_spec(&bpe_spec);
    const struct tokenizer *t = r.tokenizer;
    expect_spans(t, PIECES("<|im_start|>", "!hello world", "<|im_end|>"), "265 259 264 266");
    expect_spans(t, PIECES("!<|im_end|>"), "265 271 105 109 95 101 110 100 124 62");
    expect_spans(t, PIECES("<|im_", "!end|>"), "265 271 105 109 95 101 110 100 124 62");
    expect_spans(t, PIECES("!<|im_", "end|>"), "265 271 105 109 95 101 110 100 124 62");
    expect_spans(t, PIECES("!a", "<|im_end|>", "!b"), "265 97 266 98");
    /* the text between two control tokens is one text, whoever wrote its parts */
    expect_spans(t, PIECES("he", "!ll", "o wor", "!ld"), "265 259 264");
    /* tokens that any text may hold, also over a border, also longer than what the template has */
    expect_spans(t, PIECES("!<tool>"), "265 267");
    expect_spans(t, PIECES("<tool>", "!>"), "265 268");
    expect_spans(t, PIECES(""), "265");
    vocab_rig_close(&r);
}

static void test_one_bos_and_no_eos(void **state)
{
    (void)state;
    static const struct rig_flag eos[] = { { "tokenizer.ggml.add_eos_token", true } };
    static const struct rig_flag none[] = { { "tokenizer.ggml.add_bos_token", false } };
    struct vocab_spec spec = spm_spec;
    spec.flags = eos;
    spec.flag_count = 1;
    struct vocab_rig r = open_spec(&spec);
    expect_spans(r.tokenizer, PIECES("<s>", "!a"), "257 263");
    expect_spans(r.tokenizer, PIECES("!a"), "257 263");
    expect_spans(r.tokenizer, PIECES("!<s>a"), "257 259 268 267 260");
    expect_spans(r.tokenizer, PIECES("<s>", "<s>"), "257 257"); /* as the template says */
    vocab_rig_close(&r);
    spec.flags = none;
    r = open_spec(&spec);
    expect_spans(r.tokenizer, PIECES("<s>", "!a"), "257 263");
    expect_spans(r.tokenizer, PIECES("!a"), "263");
    vocab_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_joins_by_rank),
        cmocka_unit_test(test_bpe_whole_piece_needs_no_merges),
        cmocka_unit_test(test_bpe_way_back),
        cmocka_unit_test(test_bpe_missing_byte_is_lost),
        cmocka_unit_test(test_added_longest_match),
        cmocka_unit_test(test_control_only_where_allowed),
        cmocka_unit_test(test_begin_and_end_ids),
        cmocka_unit_test(test_ends_of_turn),
        cmocka_unit_test(test_qwen_normalizes),
        cmocka_unit_test(test_spm_blanks_and_scores),
        cmocka_unit_test(test_spm_token_with_a_blank_inside),
        cmocka_unit_test(test_spm_bytes_for_what_is_no_token),
        cmocka_unit_test(test_spm_control_never_comes_from_joining),
        cmocka_unit_test(test_spm_unknown_once_for_neighbours),
        cmocka_unit_test(test_phi3_added_tokens_eat_blanks),
        cmocka_unit_test(test_html_marks_are_no_end_marks),
        cmocka_unit_test(test_pieces_and_find),
        cmocka_unit_test(test_last_of_equal_texts_counts),
        cmocka_unit_test(test_merge_to_a_control_token_is_left_out),
        cmocka_unit_test(test_control_tokens_are_the_templates),
        cmocka_unit_test(test_one_bos_and_no_eos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
