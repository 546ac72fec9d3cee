/* SPDX-License-Identifier: MIT */
/* Tests of frontend/answer: each way of writing calls, thoughts, odd text, and that no cut of the
 * text changes the answer or takes back what was shown. */
#include "tests/unit/test.h"

#include <jansson.h>

#include "core/rng.h"
#include "frontend/api/answer.h"
#include "tests/unit/golden.h"
#include "tests/unit/vocab_rig.h"

#define LEN_OF(array) (sizeof(array) / sizeof(array)[0])

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"o\": {\"type\": \"object\"},"
    "\"b\": {\"type\": \"boolean\"}}}}}, {\"type\": \"function\", \"function\": {\"name\": "
    "\"g\"}}]";
static json_t *tools;

enum { NO_TOOLS = 1, THOUGHT = 2, IN_THOUGHT = 4, ONE = 8, CUT = 16 };

struct sample {
    enum answer_calls calls;
    unsigned flags;
    const char *text;
    const char *want; /* reasoning> content | name(arguments) name(arguments; incomplete */
};

static void append(struct text *t, const struct text *part)
{
    assert_int_equal(text_append(t, part->data != NULL ? part->data : "", part->len), RC_OK);
}

static void put(struct text *t, const char *part)
{
    assert_int_equal(text_append(t, part, strlen(part)), RC_OK);
}

/* An answer in one line. */
static void show(struct text *out, const struct answer *a)
{
    out->len = 0;
    put(out, "");
    if (a->reasoning.len > 0) {
        append(out, &a->reasoning);
        put(out, "> ");
    }
    append(out, &a->content);
    for (uint32_t i = 0; i < a->call_count; i++) {
        put(out, " | ");
        append(out, &a->calls[i].name);
        put(out, "(");
        append(out, &a->calls[i].arguments);
        put(out, a->calls[i].complete ? ")" : ";");
    }
}

static void open_sample(struct answer *a, const struct sample *s)
{
    struct answer_config c = {
        .style = { .calls = s->calls, .think_open = "<think>", .think_close = "</think>" },
        .tools = (s->flags & NO_TOOLS) != 0 ? NULL : tools,
        .one_call = (s->flags & ONE) != 0,
        .thinks = (s->flags & (THOUGHT | IN_THOUGHT)) != 0,
        .in_thought = (s->flags & IN_THOUGHT) != 0
    };
    answer_open(a, &c);
}

/* What was shown stays: each part only grows. */
struct shown {
    struct text reasoning, content, arguments;
    uint32_t calls;
};

static void check_grows(struct text *before, const struct text *now)
{
    assert_true(now->len >= before->len);
    if (before->len > 0)
        assert_memory_equal(now->data, before->data, before->len);
    before->len = 0;
    append(before, now);
}

static void check_shown(struct shown *s, const struct answer *a)
{
    check_grows(&s->reasoning, &a->reasoning);
    check_grows(&s->content, &a->content);
    assert_true(a->call_count >= s->calls);
    if (a->call_count > s->calls)
        s->arguments.len = 0;
    s->calls = a->call_count;
    if (a->call_count > 0)
        check_grows(&s->arguments, &a->calls[a->call_count - 1].arguments);
}

/* Cuts at the bits of a counter-based generator; 0: no cut, 1: after every byte. */
static void read_cut(struct text *out, const struct sample *s, const char *text, size_t len,
                     uint64_t seed)
{
    struct answer a;
    struct shown shown = { .calls = 0 };
    open_sample(&a, s);
    for (size_t at = 0, next; at < len; at = next) {
        size_t step = seed == 0 ? len : seed == 1 ? 1 : 1 + rng_at(seed, 0, at) % 9;
        next = at + step < len ? at + step : len;
        assert_int_equal(answer_push(&a, text + at, next - at), RC_OK);
        check_shown(&shown, &a);
    }
    assert_int_equal(answer_end(&a, (s->flags & CUT) != 0), RC_OK);
    check_shown(&shown, &a);
    show(out, &a);
    text_close(&shown.reasoning);
    text_close(&shown.content);
    text_close(&shown.arguments);
    answer_close(&a);
}

static void check_samples(const struct sample *samples, size_t count)
{
    struct text whole = { 0 }, cut = { 0 };
    for (size_t i = 0; i < count; i++) {
        const struct sample *s = &samples[i];
        read_cut(&whole, s, s->text, strlen(s->text), 0);
        if (strcmp(whole.data, s->want) != 0)
            fail_msg("%s\n  wanted %s\n  got    %s", s->text, s->want, whole.data);
        for (uint64_t seed = 1; seed < 12; seed++) {
            read_cut(&cut, s, s->text, strlen(s->text), seed);
            assert_string_equal(cut.data, whole.data);
        }
    }
    text_close(&whole);
    text_close(&cut);
}

static void test_text_and_thoughts(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        { ANSWER_TAGS, 0, "", "" },
        { ANSWER_TAGS, 0, " plain text <b> \n", " plain text <b> \n" },
        { ANSWER_TAGS, NO_TOOLS, "<tool_call>{\"name\": \"f\"}</tool_call>",
          "<tool_call>{\"name\": \"f\"}</tool_call>" },
        { ANSWER_TAGS, THOUGHT, "<think>\nhm, so\n</think>\n\nYes ", "hm, so> Yes " },
        { ANSWER_TAGS, THOUGHT, "\n <think>a</think>b", "a> b" },
        { ANSWER_TAGS, THOUGHT, "\n <thin", "\n <thin" },
        { ANSWER_TAGS, THOUGHT, "Yes <think>no</think>", "Yes <think>no</think>" },
        { ANSWER_TAGS, THOUGHT, "<think></think>x", "x" },
        { ANSWER_TAGS, THOUGHT, "<think>for ever \n", "for ever> " },
        { ANSWER_TAGS, THOUGHT | CUT, "<think>for ever </thi", "for ever> " },
        { ANSWER_TAGS, THOUGHT, "<think>for ever </thi", "for ever </thi> " },
        { ANSWER_TAGS, IN_THOUGHT, "hm\n</think>\nYes", "hm> Yes" },
        { ANSWER_TAGS, IN_THOUGHT, "<think>hm</think>Yes", "hm> Yes" },
        { ANSWER_TAGS, 0, "<think>a</think>b", "<think>a</think>b" },
        { ANSWER_TAGS, THOUGHT,
          "<think>f?</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
          "f?>  | f({})" },
        { ANSWER_TAGS, THOUGHT,
          "<think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call></think>no",
          "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>> no" },
    };
    check_samples(samples, LEN_OF(samples));
}

static void test_calls_in_tags(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        { ANSWER_TAGS, 0,
          "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}\n</tool_call>",
          " | f({\"s\": \"x\"})" },
        { ANSWER_TAGS, 0,
          "Let me "
          "see.\n\n<tool_call>{\"arguments\":{\"n\":[1,{\"a\":2}]},\"name\":\"f\"}</tool_call>\n"
          "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n",
          "Let me see. | f({\"n\":[1,{\"a\":2}]}) | g({})" },
        { ANSWER_TAGS, ONE,
          "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call>more",
          " | f({})" },
        { ANSWER_TAGS, 0,
          "<tool_call>{\"name\": \"other\", \"parameters\": {\"}\": \"</tool_call>\"}}",
          " | other({\"}\": \"</tool_call>\"})" },
        { ANSWER_TAGS, 0,
          "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 1}\"}</tool_call>",
          " | f({\"n\": 1})" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>x",
          "x | f({})" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"\\u0066\",\"id\":7,\"arguments\":{}}</tool_call>",
          " | f({})" },
        { ANSWER_TAGS, 0, "<tool_call>[{\"name\":\"f\"}, {\"name\":\"g\"}]</tool_call>",
          " | f({}) | g({})" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"f\"}\n{\"name\":\"g\"}</tool_call>",
          " | f({}) | g({})" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"f\"}</tool_call>\nDone. ", "Done. | f({})" },
        { ANSWER_TAGS, 0, "a <tool_cal", "a <tool_cal" },
        { ANSWER_TAGS, CUT, "a <tool_cal", "a" },
    };
    check_samples(samples, LEN_OF(samples));
}

static void test_broken_calls_in_tags(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        /* no call at all: the text as it was written */
        { ANSWER_TAGS, 0, "x \n<tool_call>hello</tool_call>", "x \n<tool_call>hello</tool_call>" },
        { ANSWER_TAGS, 0, "<tool_call>{\"nam\": 1}</tool_call>.",
          "<tool_call>{\"nam\": 1}</tool_call>." },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\": 5, \"arguments\": {}}",
          "<tool_call>{\"name\": 5, \"arguments\": {}}" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\": \"\"}", "<tool_call>{\"name\": \"\"}" },
        { ANSWER_TAGS, 0, "<tool_call>", "<tool_call>" },
        { ANSWER_TAGS, 0, "<tool_call>{'name': 'f'}", "<tool_call>{'name': 'f'}" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\": \"f\"", "<tool_call>{\"name\": \"f\"" },
        { ANSWER_TAGS, 0, "<tool_call><tool_call>{\"name\":\"f\"}</tool_call>",
          "<tool_call> | f({})" },
        /* sure, then broken: what came so far, and no mark */
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1}</tool_call>!",
          "! | f({\"n\":1};" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1</tool_call>!",
          "! | f({\"n\":1;" },
        { ANSWER_TAGS, 0, "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":[1}}</tool_call>",
          " | f({\"n\":[1;" },
        { ANSWER_TAGS, CUT, "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"ab",
          " | f({\"s\":\"ab;" },
        { ANSWER_TAGS, 0, "<tool_call>[{\"name\":\"f\"}, nonsense]</tool_call>y", "y | f({})" },
    };
    check_samples(samples, LEN_OF(samples));
}

static void test_calls_with_parameters(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        { ANSWER_TAGS, 0,
          "<tool_call>\n<function=f>\n<parameter=s>\nline \"1\"\n\tline 2\n</parameter>\n"
          "<parameter=n>\n42\n</parameter>\n</function>\n</tool_call>",
          " | f({\"s\": \"line \\\"1\\\"\\n\\u0009line 2\", \"n\": 42})" },
        { ANSWER_TAGS, 0, "<function=g>\n<parameter=any>7</parameter></function> x",
          "x | g({\"any\": \"7\"})" },
        { ANSWER_TAGS, 0,
          "<tool_call><function=f><parameter=o>{\"a\": "
          "[1]}</parameter><parameter=b>True</parameter>"
          "<parameter=n>many</parameter></tool_call>",
          " | f({\"o\": {\"a\": [1]}, \"b\": true, \"n\": \"many\"})" },
        { ANSWER_TAGS, 0, "<tool_call><function=f></function></tool_call>", " | f({})" },
        { ANSWER_TAGS, 0,
          "<tool_call><function=f><parameter=s>a</para</parameter></function></tool_call>",
          " | f({\"s\": \"a</para\"})" },
        { ANSWER_TAGS, CUT, "<tool_call><function=f><parameter=s>abc\n</par",
          " | f({\"s\": \"abc;" },
        { ANSWER_TAGS, 0, "<tool_call><function=f>junk</function></tool_call>z", "z | f({};" },
        { ANSWER_TAGS, 0, "<tool_call><function=f\n</tool_call>",
          "<tool_call><function=f\n</tool_call>" },
        { ANSWER_TAGS, 0, "<function=>", "<function=>" },
        { ANSWER_TAGS, 0, "<tool_call><function=f><parameter=\n>", " | f({};" },
    };
    check_samples(samples, LEN_OF(samples));
}

static void test_calls_of_llama(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        { ANSWER_LLAMA, 0, "{\"name\": \"f\", \"parameters\": {\"s\": \"x\"}}",
          " | f({\"s\": \"x\"})" },
        { ANSWER_LLAMA, 0, "\n {\"type\": \"function\", \"name\": \"g\", \"parameters\": {}}\n",
          " | g({})" },
        { ANSWER_LLAMA, 0, "<|python_tag|>{\"name\": \"own\", \"parameters\": {\"n\": 1}}",
          " | own({\"n\": 1})" },
        { ANSWER_LLAMA, 0,
          "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"n\": 2}}",
          " | f({}) | g({\"n\": 2})" },
        { ANSWER_LLAMA, ONE,
          "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
          " | f({})" },
        { ANSWER_LLAMA, 0, "I call: <|python_tag|>{\"name\": \"f\"}", "I call: | f({})" },
        /* JSON that is an answer */
        { ANSWER_LLAMA, 0, "{\"answer\": 42}", "{\"answer\": 42}" },
        { ANSWER_LLAMA, 0, "{\"name\": \"Bob\", \"parameters\": {}}",
          "{\"name\": \"Bob\", \"parameters\": {}}" },
        { ANSWER_LLAMA, 0, "{\"name\": \"f\"", "{\"name\": \"f\"" },
        { ANSWER_LLAMA, 0, "Say {\"name\": \"f\", \"parameters\": {}}",
          "Say {\"name\": \"f\", \"parameters\": {}}" },
        { ANSWER_LLAMA, 0, "{}", "{}" },
        { ANSWER_LLAMA, 0, "[1, 2]", "[1, 2]" },
        { ANSWER_LLAMA, 0, "<|python_tag|>print(1)", "<|python_tag|>print(1)" },
        { ANSWER_LLAMA, 0, "{\"name\": \"f\", \"parameters\": {}}\nand {\"x\": 1}",
          "and {\"x\": 1} | f({})" },
        { ANSWER_LLAMA, CUT, "ok <|pyth", "ok" },
    };
    check_samples(samples, LEN_OF(samples));
}

static void test_calls_of_mistral(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        { ANSWER_MISTRAL, 0,
          "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"]\"}, \"id\": \"abcdefghi\"}, "
          "{\"name\": \"g\", \"arguments\": {}}]",
          " | f({\"s\": \"]\"}) | g({})" },
        { ANSWER_MISTRAL, 0, "[TOOL_CALLS]f[ARGS]{\"n\": 1}[TOOL_CALLS]g[ARGS]{}",
          " | f({\"n\": 1}) | g({})" },
        { ANSWER_MISTRAL, 0, "Hm. [TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"n\": 1}",
          "Hm. | f({\"n\": 1})" },
        { ANSWER_MISTRAL, 0, "[TOOL_CALLS]f{\"n\": 1}", " | f({\"n\": 1})" },
        { ANSWER_MISTRAL, 0, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}] end",
          "end | f({})" },
        { ANSWER_MISTRAL, 0, "[TOOL_CALLS]no such thing", "[TOOL_CALLS]no such thing" },
        { ANSWER_MISTRAL, 0, "[TOOL_CALLS]f[ARGS]7", " | f(;" },
        { ANSWER_MISTRAL, CUT, "[TOOL_CALLS]f[AR", "[TOOL_CALLS]f[AR" },
        { ANSWER_MISTRAL, CUT, "x [TOOL_CA", "x" },
        { ANSWER_MISTRAL, 0, "a list: [1]", "a list: [1]" },
    };
    check_samples(samples, LEN_OF(samples));
}

/* Texts made of marks and their pieces, at random: never an error, never another answer for another
 * cut, no mark in the arguments' names. */
static void test_any_cut_of_anything(void **state)
{
    (void)state;
    static const char *const bits[] = {
        "<tool_call>",
        "</tool_call>",
        "<function=",
        "f>",
        "<parameter=",
        "s>",
        "</parameter>",
        "</function>",
        "{\"name\": \"f\"",
        ", \"arguments\": ",
        "{\"n\": 1}",
        "}",
        "{",
        "[",
        "]",
        "\"",
        "\\",
        ",",
        ":",
        " ",
        "\n",
        "text",
        "<think>",
        "</think>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|python_tag|>",
        "; ",
        "<",
        "{\"name\": \"g\", \"parameters\": {\"a\": \"b\"}}",
        "\xc3\xa9",
        "<tool_call>{\"name\": \"f\", \"arguments\": ",
        "<tool_call>\n<function=f>\n<parameter=s>",
        "[TOOL_CALLS]f[ARGS]",
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": ",
        "{\"name\": \"f\", \"parameters\": {}}",
        "<parameter=n>",
    };
    struct text text = { 0 }, whole = { 0 }, cut = { 0 };
    uint64_t calls = 0;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct rng r = rng_seeded(seed);
        struct sample s = { .calls = (enum answer_calls)(seed % 3),
                            .flags = (unsigned)(rng_next(&r) % 32) & ~(unsigned)NO_TOOLS };
        text.len = 0;
        for (uint64_t n = 1 + rng_next(&r) % 14; n > 0; n--)
            put(&text, bits[rng_next(&r) % LEN_OF(bits)]);
        read_cut(&whole, &s, text.data, text.len, 0);
        for (uint64_t k = 1; k < 4; k++) {
            read_cut(&cut, &s, text.data, text.len, k == 1 ? 1 : seed * 8 + k);
            if (strcmp(cut.data, whole.data) != 0)
                fail_msg("seed %u: '%s'\n  whole %s\n  cut   %s", (unsigned)seed, text.data,
                         whole.data, cut.data);
        }
        calls += strstr(whole.data, " | ") != NULL;
    }
    assert_true(calls > 300);
    text_close(&text);
    text_close(&whole);
    text_close(&cut);
}

static void test_deep_arguments(void **state)
{
    (void)state;
    struct text text = { 0 }, out = { 0 };
    struct sample s = { .calls = ANSWER_TAGS };
    for (uint32_t depth = 256; depth <= 257; depth++) {
        text.len = 0;
        put(&text, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ");
        for (uint32_t i = 1; i < depth; i++)
            put(&text, "[");
        for (uint32_t i = 1; i < depth; i++)
            put(&text, "]");
        put(&text, "}}</tool_call>.");
        read_cut(&out, &s, text.data, text.len, 0);
        assert_int_equal(out.data[out.len - 1], depth == 256 ? ')' : ';');
        assert_int_equal(out.data[0], '.');
    }
    text_close(&text);
    text_close(&out);
}

static void test_styles(void **state)
{
    (void)state;
    static const struct {
        const char *source, *name;
        bool thinks;
    } styles[] = {
        { "{{ messages }}", "tags", false },
        { "<tool_call> <think> </think>", "tags", true },
        { "[TOOL_CALLS] [THINK]", "mistral", true },
        { "<|python_tag|>", "llama", false },
        { "<|start_header_id|> {\"name\": .., \"parameters\": ..}", "llama", false },
        { "<|start_header_id|>", "tags", false },
    };
    for (size_t i = 0; i < LEN_OF(styles); i++) {
        struct answer_style s = answer_style_of(styles[i].source);
        assert_string_equal(answer_style_name(&s), styles[i].name);
        assert_int_equal(s.think_open != NULL, styles[i].thinks);
    }
}

static void test_golden_styles(void **state)
{
    (void)state;
    static const struct {
        const char *file, *name, *thinks;
    } styles[] = {
        { "templates/meta-llama-Llama-3.1-8B-Instruct.jinja", "llama", NULL },
        { "templates/mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral", NULL },
        { "templates/mistralai-Ministral-3-14B-Reasoning-2512.jinja", "mistral", "[THINK]" },
        { "templates/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", "tags", NULL },
        { "templates/Qwen-Qwen3-0.6B.jinja", "tags", "<think>" },
        { "templates/Qwen3-Coder.jinja", "tags", NULL },
    };
    for (size_t i = 0; i < LEN_OF(styles); i++) {
        size_t bytes;
        uint8_t *file = golden_read(styles[i].file, &bytes);
        if (file == NULL)
            skip();
        char *source = strndup((const char *)file, bytes);
        struct answer_style s = answer_style_of(source);
        assert_string_equal(answer_style_name(&s), styles[i].name);
        assert_int_equal(s.think_open != NULL, styles[i].thinks != NULL);
        if (s.think_open != NULL)
            assert_string_equal(s.think_open, styles[i].thinks);
        free(source);
        free(file);
    }
}

/* The marks that are control tokens must be written out, the others are text anyway. */
static void test_marks_that_are_tokens(void **state)
{
    (void)state;
    static const struct rig_token tokens[] = { { "[TOOL_CALLS]", RIG_CONTROL, 0 },
                                               { "[ARGS]", RIG_CONTROL, 0 },
                                               { "<tool_call>", RIG_CONTROL, 0 },
                                               { "[CALL_ID]", RIG_NORMAL, 0 } };
    struct vocab_spec spec = {
        .model = "gpt2", .bytes = true, .no_scores = true, RIG_FIELDS(tokens, token_count, tokens)
    };
    struct vocab_rig r;
    int32_t ids[ANSWER_MARKS_MAX];
    vocab_rig_open(&r, &spec);
    assert_int_equal(r.rc, RC_OK);
    struct answer_style s = answer_style_of("[TOOL_CALLS]");
    assert_int_equal(answer_style_ids(&s, r.tokenizer, ids), 2);
    assert_int_equal(ids[0], 256);
    assert_int_equal(ids[1], 257);
    vocab_rig_close(&r);
}

int main(void)
{
    tools = json_loads(tools_text, 0, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_and_thoughts),
        cmocka_unit_test(test_calls_in_tags),
        cmocka_unit_test(test_broken_calls_in_tags),
        cmocka_unit_test(test_calls_with_parameters),
        cmocka_unit_test(test_calls_of_llama),
        cmocka_unit_test(test_calls_of_mistral),
        cmocka_unit_test(test_any_cut_of_anything),
        cmocka_unit_test(test_deep_arguments),
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_golden_styles),
        cmocka_unit_test(test_marks_that_are_tokens),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(tools);
    return failed;
}
