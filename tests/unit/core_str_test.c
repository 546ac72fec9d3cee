/* SPDX-License-Identifier: MIT */
/* Tests of core/str: cuts, numbers at their edges, every character and every broken byte sequence.
 * */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "core/str.h"

#define LEN_OF(array) (sizeof(array) / sizeof(array)[0])

/* An own block of exactly len bytes, so that the sanitizer sees a read behind it. */
static struct str exact(const char *text)
{
    size_t len = strlen(text);
    char *copy = mem_alloc_raw(len);
    assert_non_null(copy);
    memcpy(copy, text, len);
    return (struct str){ copy, len };
}

static void drop(struct str s)
{
    char *text;
    memcpy(&text, &s.text, sizeof text);
    mem_free(text);
}

static void test_compare(void **state)
{
    (void)state;
    struct str s = str_of("token_embd.weight");
    assert_true(str_starts(s, str_of("token")));
    assert_true(str_ends(s, str_of(".weight")));
    assert_false(str_starts(str_of("tok"), str_of("token")));
    assert_false(str_ends(str_of("ight"), str_of(".weight")));
    assert_true(str_starts(s, str_of(NULL)) && str_ends(s, str_of("")) &&
                str_ends(str_of(NULL), str_of("")));
    assert_true(str_equal(str_of(NULL), str_of("")));
    assert_false(str_equal(str_of("a"), str_of("b")));
    struct str zero = { "a\0b", 3 };
    assert_false(str_equal(zero, str_of("a")));
    assert_true(str_equal(str_trim(str_of(" \t a b\r\n")), str_of("a b")));
    assert_int_equal(str_trim(str_of(" \n ")).len, 0);
}

static void test_cut(void **state)
{
    (void)state;
    struct str rest = str_of("a,,bc,"), part;
    static const char *const parts[] = { "a", "", "bc", "" };
    for (size_t i = 0; i < LEN_OF(parts); i++) {
        assert_true(str_cut(&rest, ',', &part));
        assert_true(str_equal(part, str_of(parts[i])));
    }
    assert_false(str_cut(&rest, ',', &part));
    rest = str_of("");
    assert_true(str_cut(&rest, ',', &part));
    assert_int_equal(part.len, 0);
    assert_false(str_cut(&rest, ',', &part));
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       " 1",
                                       "1 ",
                                       "+1",
                                       "-1",
                                       "0x10",
                                       "1e3",
                                       "1.0",
                                       "18446744073709551616",
                                       "99999999999999999999999999",
                                       "1,000",
                                       "\xc2\xb2" };
    uint64_t u64 = 77;
    for (size_t i = 0; i < LEN_OF(bad); i++) {
        struct str s = exact(bad[i]);
        assert_false(str_parse_u64(s, 0, UINT64_MAX, &u64));
        drop(s);
    }
    assert_true(u64 == 77);
    struct str top = exact("18446744073709551615");
    assert_true(str_parse_u64(top, 0, UINT64_MAX, &u64));
    drop(top);
    assert_true(u64 == UINT64_MAX);
    uint32_t u32 = 5;
    assert_true(str_parse_u32(str_of("0004294967295"), 0, UINT32_MAX, &u32));
    assert_true(u32 == UINT32_MAX);
    assert_false(str_parse_u32(str_of("4294967296"), 0, UINT32_MAX, &u32));
    assert_false(str_parse_u32(str_of("0"), 1, 10, &u32));
    assert_false(str_parse_u32(str_of("11"), 1, 10, &u32));
    assert_true(str_parse_u32(str_of("1"), 1, 10, &u32) &&
                str_parse_u32(str_of("10"), 1, 10, &u32));
    int64_t i64;
    assert_true(str_parse_i64(str_of("-9223372036854775808"), INT64_MIN, INT64_MAX, &i64));
    assert_true(i64 == INT64_MIN);
    assert_false(str_parse_i64(str_of("9223372036854775808"), INT64_MIN, INT64_MAX, &i64));
    assert_false(str_parse_i64(str_of("-"), INT64_MIN, INT64_MAX, &i64));
    assert_false(str_parse_i64(str_of("--1"), INT64_MIN, INT64_MAX, &i64));
    assert_false(str_parse_i64(str_of("-2"), -1, 1, &i64));
}

static void test_real_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = { "",    ".",        "-",     "e5",    "1e",
                                       "1e+", "0x1p3",    "inf",   "nan",   " 1",
                                       "1 ",  "1..2",     "1.2.3", "1e400", "-1e400",
                                       "1f",  "infinity", "1_000", "--1",   ".e1" };
    double value = 7;
    for (size_t i = 0; i < LEN_OF(bad); i++) {
        struct str s = exact(bad[i]);
        assert_false(str_parse_f64(s, -1e308, 1e308, &value));
        drop(s);
    }
    char nines[100];
    memset(nines, '9', sizeof nines);
    assert_false(str_parse_f64((struct str){ nines, sizeof nines }, -1e308, 1e308, &value));
    assert_true(value == 7);
    static const struct {
        const char *text;
        double value;
    } good[] = { { "0.7", 0.7 },         { "1.", 1 },     { ".5", 0.5 },
                 { "-2.5e-3", -0.0025 }, { "+1E2", 100 }, { "00", 0 } };
    for (size_t i = 0; i < LEN_OF(good); i++) {
        struct str s = exact(good[i].text);
        assert_true(str_parse_f64(s, -1e3, 1e3, &value));
        drop(s);
        assert_true(value == good[i].value);
    }
    assert_false(str_parse_f64(str_of("2.0001"), 0, 2, &value));
    assert_true(str_parse_f64(str_of("2"), 0, 2, &value));
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        { "0", 0 },
        { "32K", 32768 },
        { "32k", 32000 },
        { "250M", 262144000 },
        { "25.6k", 25600 },
        { "1.5G", 1610612736 },
        { "4GiB", 1ull << 32 },
        { "2T", 2ull << 40 },
        { "1t", 1000000000000 },
        { "1.000", 1 },
        { "16m", 16000000 },
        { "18446744073709551615", UINT64_MAX },
    };
    static const char *const bad[] = { "",
                                       "K",
                                       "1.",
                                       ".5K",
                                       "25.6K",
                                       "1.5",
                                       "1 K",
                                       "1KB",
                                       "1kiB",
                                       "1Ki",
                                       "-1K",
                                       "1KK",
                                       "1e3",
                                       "16777216T",
                                       "18446744073709551616",
                                       "1.0000000000000000000k",
                                       "0.x" };
    uint64_t value = 7;
    for (size_t i = 0; i < LEN_OF(good); i++) {
        struct str s = exact(good[i].text);
        assert_true(str_parse_size(s, 0, UINT64_MAX, &value));
        drop(s);
        assert_true(value == good[i].value);
    }
    value = 7;
    for (size_t i = 0; i < LEN_OF(bad); i++) {
        struct str s = exact(bad[i]);
        assert_false(str_parse_size(s, 0, UINT64_MAX, &value));
        drop(s);
    }
    assert_false(str_parse_size(str_of("1K"), 0, 1023, &value));
    assert_false(str_parse_size(str_of("1K"), 1025, 2048, &value));
    assert_true(value == 7);
}

static void test_utf8_every_character_goes_round(void **state)
{
    (void)state;
    char bytes[4];
    for (uint32_t code = 0; code <= 0x110000; code++) {
        bool character = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        size_t len = utf8_encode(bytes, code);
        struct utf8_step step = utf8_decode(bytes, len);
        if (step.state != UTF8_OK || step.len != len ||
            step.code != (character ? code : UTF8_REPLACEMENT))
            fail_msg("U+%X: state %d, len %d, code %x", code, step.state, step.len, step.code);
    }
}

/* All pairs of bytes, and for each the answer that follows from table 3-7 written another way. */
static void test_utf8_every_pair(void **state)
{
    (void)state;
    for (unsigned a = 0x80; a < 0x100; a++) {
        for (unsigned b = 0; b < 0x100; b++) {
            char pair[2] = { (char)a, (char)b };
            struct utf8_step step = utf8_decode(pair, 2);
            bool tail = b >= 0x80 && b <= 0xbf;
            enum utf8_state want = UTF8_BAD;
            if (a >= 0xc2 && a <= 0xdf && tail)
                want = UTF8_OK;
            else if (a >= 0xe0 && a <= 0xef && tail && !(a == 0xe0 && b < 0xa0) &&
                     !(a == 0xed && b > 0x9f))
                want = UTF8_SHORT;
            else if (a >= 0xf0 && a <= 0xf4 && tail && !(a == 0xf0 && b < 0x90) &&
                     !(a == 0xf4 && b > 0x8f))
                want = UTF8_SHORT;
            if (step.state != want || step.len != (want == UTF8_BAD ? 1 : 2))
                fail_msg("%02x %02x: state %d, len %d", a, b, step.state, step.len);
        }
    }
}

static void test_utf8_maximal_subparts(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        enum utf8_state state;
        uint8_t step;
    } cases[] = {
        { "\xe9\xa2", 2, UTF8_SHORT, 2 },       { "\xe9\xa2\x41", 3, UTF8_BAD, 2 },
        { "\xf0\x9f\x99", 3, UTF8_SHORT, 3 },   { "\xf0\x9f\x99\x41", 4, UTF8_BAD, 3 },
        { "\xf0\x9f\x99\x82", 4, UTF8_OK, 4 },  { "\xf0\x9f\x41", 3, UTF8_BAD, 2 },
        { "\xed\xa0\x80", 3, UTF8_BAD, 1 },     { "\xc0\xaf", 2, UTF8_BAD, 1 },
        { "\xf5\x80\x80\x80", 4, UTF8_BAD, 1 }, { "\x80", 1, UTF8_BAD, 1 },
        { "\xe2", 1, UTF8_SHORT, 1 },           { "\xff", 1, UTF8_BAD, 1 },
        { "\xc3\xa9\xff", 3, UTF8_OK, 2 },      { "a\xff", 2, UTF8_OK, 1 },
    };
    for (size_t i = 0; i < LEN_OF(cases); i++) {
        struct utf8_step step = utf8_decode(cases[i].bytes, cases[i].len);
        if (step.state != cases[i].state || step.len != cases[i].step)
            fail_msg("case %zu: state %d, len %d", i, step.state, step.len);
    }
    assert_true(utf8_valid("", 0) && utf8_valid("gr\xc3\xbc\xc3\x9f", 6));
    assert_false(utf8_valid("gr\xc3", 3));
    assert_false(utf8_valid("\xa0 a", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_utf8_every_character_goes_round),
        cmocka_unit_test(test_utf8_every_pair),
        cmocka_unit_test(test_utf8_maximal_subparts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
