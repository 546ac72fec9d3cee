/* SPDX-License-Identifier: MIT */
/* Ids of 1,000 strings in each of 13 published vocabularies against the right ones
 * (golden/tokenizers), and the way back. Skips a vocabulary that is not there. */
#include "tests/unit/test.h"

#include <jansson.h>

#include "tests/unit/golden.h"
#include "tests/unit/vocab_rig.h"

#define LINES 1000u

static FILE *open_lines(const char *name)
{
    const char *path = golden_path(name);
    return path != NULL ? fopen(path, "r") : NULL;
}

static json_t *next_line(FILE *f)
{
    static char line[1 << 20];
    if (fgets(line, sizeof line, f) == NULL)
        return NULL;
    json_t *value = json_loads(line, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    return value;
}

static void check_line(const struct tokenizer *t, unsigned number, const json_t *string,
                       const json_t *ids)
{
    struct token_list list = { 0 };
    const char *text = json_string_value(string);
    size_t len = json_string_length(string);
    assert_int_equal(tokenizer_encode(t, text, len, 0, &list), RC_OK);
    bool same = list.count == json_array_size(ids);
    for (size_t i = 0; same && i < list.count; i++)
        same = list.ids[i] == json_integer_value(json_array_get(ids, i));
    if (!same)
        fail_msg("line %u: ids are %s", number, rig_ids(t, text, len, 0));
    token_list_close(&list);
}

/* The same text back, where the vocabulary loses nothing: byte-level BPE with all bytes and no
 * normalization, and SentencePiece, whose blanks and U+2581 are one. */
static void check_way_back(const struct tokenizer *t, unsigned number, const json_t *string)
{
    const char *text = json_string_value(string);
    size_t len = json_string_length(string), back_len;
    struct token_list list = { 0 };
    assert_int_equal(tokenizer_encode(t, text, len, 0, &list), RC_OK);
    const char *back = rig_text(t, list.ids, list.count, &back_len);
    if (back_len != len || memcmp(back, text, len) != 0)
        fail_msg("line %u: decoded to %s", number, back);
    token_list_close(&list);
}

static void test_golden_ids(void **state)
{
    const char *name = *state;
    char file[64];
    snprintf(file, sizeof file, "tokenizers/%s.gguf", name);
    if (golden_path(file) == NULL)
        skip(); /* no ../shared/golden/tokenizers */
    struct vocab_rig r;
    vocab_rig_open_file(&r, golden_path(file));
    if (r.rc != RC_OK)
        fail_msg("%s", r.fault.text);
    static const char *const lossy[] = { "falcon", "smollm", "qwen2" };
    bool lossless = true;
    for (size_t i = 0; i < sizeof lossy / sizeof lossy[0]; i++)
        lossless = lossless && strcmp(lossy[i], name) != 0;
    FILE *strings = open_lines("tokenizers/strings.jsonl");
    snprintf(file, sizeof file, "tokenizers/%s.ids.jsonl", name);
    FILE *answers = open_lines(file);
    assert_non_null(strings);
    assert_non_null(answers);
    unsigned number = 0;
    for (json_t *s; (s = next_line(strings)) != NULL;) {
        json_t *ids = next_line(answers);
        number++;
        assert_non_null(ids);
        check_line(r.tokenizer, number, s, ids);
        if (lossless)
            check_way_back(r.tokenizer, number, s);
        json_decref(s);
        json_decref(ids);
    }
    assert_int_equal(number, LINES);
    fclose(strings);
    fclose(answers);
    vocab_rig_close(&r);
}

int main(void)
{
    static char names[][40] = {
        "test_golden_ids_deepseek-coder", "test_golden_ids_deepseek-llm",
        "test_golden_ids_falcon",         "test_golden_ids_gemma3",
        "test_golden_ids_gpt-2",          "test_golden_ids_llama-bpe",
        "test_golden_ids_llama-spm",      "test_golden_ids_mpt",
        "test_golden_ids_phi-3",          "test_golden_ids_qwen2",
        "test_golden_ids_refact",         "test_golden_ids_smollm",
        "test_golden_ids_starcoder",
    };
    struct CMUnitTest tests[sizeof names / sizeof names[0]];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tests[i] = (struct CMUnitTest){ names[i], test_golden_ids, NULL, NULL,
                                        names[i] + strlen("test_golden_ids_") };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
