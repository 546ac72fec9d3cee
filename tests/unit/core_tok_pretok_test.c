/* SPDX-License-Identifier: MIT */
/* Tests of core/pretok: pieces of every rule set, written with | between them. The rules as a whole
 * were compared with regular-expression engines over random texts; these are the cases to keep. */
#include "tests/unit/test.h"

#include "core/pretok.h"

struct split_case {
    const char *text;
    const char *pieces; /* joined by '|' */
};

static void check(const char *rules_name, const struct split_case *cases, size_t count)
{
    const struct pretok_rules *rules = pretok_find(rules_name, strlen(rules_name));
    assert_non_null(rules);
    for (size_t i = 0; i < count; i++) {
        char got[512];
        size_t n = 0, begin, end, at = 0;
        struct pretok_scan s;
        pretok_open(&s, rules->kind, cases[i].text, strlen(cases[i].text));
        while (pretok_next(&s, &begin, &end)) {
            assert_int_equal(begin, at); /* pieces are the text, without gaps */
            assert_true(end > begin);
            if (n > 0)
                got[n++] = '|';
            memcpy(got + n, cases[i].text + begin, end - begin);
            n += end - begin;
            at = end;
        }
        assert_int_equal(at, strlen(cases[i].text));
        got[n] = '\0';
        if (strcmp(got, cases[i].pieces) != 0)
            fail_msg("%s, case %zu: got %s, not %s", rules_name, i, got, cases[i].pieces);
    }
}
#define CHECK(name, cases) check(name, cases, sizeof(cases) / sizeof((cases)[0]))

static void test_pretok_llama3(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "I'M 12345  b\n\n  c", "I|'M| |123|45| | b|\n\n| | c" },
        { "a   b", "a|  | b" },
        { "", "" },
        { "it's THEY'LL don't", "it|'s| THEY|'LL| don|'t" },
        { "'\xc5\xbf"
          "x",
          "'\xc5\xbf|x" },
        { "(foo) [bar]", "(foo|)| [|bar|]" },
        { "\tfoo\t\tbar", "\tfoo|\t|\tbar" },
        { "a!!\n\nb", "a|!!\n\n|b" },
        { "a \n \n b", "a| \n \n| b" },
        { "x \n", "x| \n" },
        { "x  ", "x|  " },
        { " \n  ", " \n|  " },
        { "1234567890", "123|456|789|0" },
        { " 12", " |12" },
        { "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x93\xef\xbc\x94",
          "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x93|\xef\xbc\x94" },
        { "\xe3\x80\x80"
          "a",
          "\xe3\x80\x80"
          "a" },
        { " \xf0\x9f\x99\x82\xf0\x9f\x99\x82 a", " \xf0\x9f\x99\x82\xf0\x9f\x99\x82| a" },
        { "e\xcc\x81"
          "e",
          "e|\xcc\x81"
          "e" },
        { "\nfoo", "\n|foo" },
        { "foo\xff"
          "bar",
          "foo|\xff"
          "bar" },
    };
    CHECK("llama-bpe", cases);
    CHECK("llama3", cases);
    CHECK("dbrx", cases);
}

static void test_pretok_qwen2(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "I'M 123  b\n\n  c", "I|'M| |1|2|3| | b|\n\n| | c" },
        { "a\r\n\r\nb", "a|\r\n\r\n|b" },
        { "$x=1;\n", "$x|=|1|;\n" },
    };
    CHECK("qwen2", cases);
}

static void test_pretok_gpt2(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "I'm 12345  b\n\n  c", "I|'m| 12345| | b|\n\n | c" },
        { "I'M", "I|'|M" },
        { "we've 's", "we|'ve| '|s" },
        { "a!b ?!c", "a|!|b| ?!|c" },
        { "\ta", "\t|a" },
        { "  ", "  " },
        { " \xc2\xb2\xe2\x85\xa7 \xcc\x81", " \xc2\xb2\xe2\x85\xa7| \xcc\x81" },
        { "x\xc2\xa0y", "x|\xc2\xa0|y" },
    };
    CHECK("gpt-2", cases);
    CHECK("mpt", cases);
}

static void test_pretok_single_digits(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "a 12 b", "a| |1|2| b" },
        { "a  1", "a|  |1" }, /* blanks before a digit end their piece: none is kept back */
        { "x\xef\xbc\x91y", "x|\xef\xbc\x91|y" },
        { "it's", "it|'s" },
    };
    CHECK("smollm", cases);
    CHECK("starcoder", cases);
    CHECK("refact", cases);
}

static void test_pretok_falcon(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "a, b's 12345", "a|,| b|'|s| |123|45" },
        { " 12", " 12" },
        { "1234567", "123|456|7" },
        { "x+=`y`", "x|+=`|y|`" },
        { "a #1", "a| |#|1" },
        { "a \xe2\x82\xac"
          "1",
          "a| \xe2\x82\xac|1" },
    };
    CHECK("falcon", cases);
}

static void test_pretok_default(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "a, b's 12345", "a|,| b|'|s| |123|45" },
        { " 12", " |12" },
        { "x`y", "x|`|y" },
        { "a+`", "a|+|`" },
    };
    CHECK("default", cases);
}

static void test_pretok_deepseek_llm(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "a b\n\n c", "a| b|\n|\n| c" },
        { "x = 12 ", "x| =| |12| " },
        { "\xe6\xbc\xa2\xe5\xad\x97"
          "a",
          "\xe6\xbc\xa2\xe5\xad\x97|a" },
        { "\xd9\x85\xd8\xb1 \xd8\xa8",
          "\xd9\x85\xd8\xb1 \xd8\xa8" }, /* no cased letters: one piece */
        { "a  ,b", "a| | ,|b" },
        { "a\xef\xbc\x8c", "a|\xef\xbc\x8c" },
        { "1  ", "1|  " },
        { "\xf0\x9f\x99\x82  \n", "\xf0\x9f\x99\x82|  |\n" },
    };
    CHECK("deepseek-llm", cases);
}

static void test_pretok_deepseek_coder(void **state)
{
    (void)state;
    static const struct split_case cases[] = {
        { "a b\n\n c", "a| b|\n|\n| c" }, { "x = 12", "x| = |1|2" }, { "f(a) .b", "f|(|a|)| .|b" },
        { "a\t\tb", "a|\t|\tb" },         { "a$b", "a|$|b" },
    };
    CHECK("deepseek-coder", cases);
}

static void test_pretok_unknown_name(void **state)
{
    (void)state;
    assert_null(pretok_find("gpt-3", 5));
    assert_null(pretok_find("gpt-", 4));
    assert_null(pretok_find("gpt-22", 6));
    assert_null(pretok_find("", 0));
    assert_true(pretok_find("qwen2", 5)->nfc);
    assert_false(pretok_find("gpt-2", 5)->nfc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretok_llama3),       cmocka_unit_test(test_pretok_qwen2),
        cmocka_unit_test(test_pretok_gpt2),         cmocka_unit_test(test_pretok_single_digits),
        cmocka_unit_test(test_pretok_falcon),       cmocka_unit_test(test_pretok_default),
        cmocka_unit_test(test_pretok_deepseek_llm), cmocka_unit_test(test_pretok_deepseek_coder),
        cmocka_unit_test(test_pretok_unknown_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
