/* SPDX-License-Identifier: MIT */
/* Tests of core/unicode: classes and normalization form C. */
#include "tests/unit/test.h"

#include "core/mem.h"
#include "core/unicode.h"

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp;
        unsigned cls;
    } cases[] = {
        { 'a', UNICODE_LETTER },
        { 'Z', UNICODE_LETTER },
        { '0', UNICODE_NUMBER },
        { '_', UNICODE_PUNCT },
        { '$', 0 },
        { '`', 0 },
        { ' ', UNICODE_SPACE },
        { '\v', UNICODE_SPACE },
        { 0x1c, 0 },
        { 0x7f, 0 },
        { 0, 0 },
        { '[', UNICODE_PUNCT },
        { 0x85, UNICODE_SPACE },
        { 0xa0, UNICODE_SPACE },
        { 0x3000, UNICODE_SPACE },
        { 0x200b, 0 },
        { 0xfeff, 0 },
        { 0x2028, UNICODE_SPACE },
        { 0xe9, UNICODE_LETTER },
        { 0x1c5, UNICODE_LETTER },
        { 0x2b0, UNICODE_LETTER },
        { 0x4e00, UNICODE_LETTER },
        { 0xb2, UNICODE_NUMBER },
        { 0x2167, UNICODE_NUMBER },
        { 0x660, UNICODE_NUMBER },
        { 0x2019, UNICODE_PUNCT },
        { 0x3002, UNICODE_PUNCT },
        { 0x301, 0 },
        { 0x1f642, 0 },
        { 0xfffd, 0 },
        { 0xe000, 0 },
        { 0x378, 0 },
        { 0x10ffff, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (unicode_class(cases[i].cp) != cases[i].cls)
            fail_msg("U+%04X has class %u", cases[i].cp, unicode_class(cases[i].cp));
}

static void check_nfc(const char *text, const char *want)
{
    char *out;
    size_t len;
    assert_int_equal(unicode_nfc(&out, &len, text, strlen(text), NULL), RC_OK);
    const char *got = out != NULL ? out : text;
    assert_int_equal(len, strlen(want));
    assert_memory_equal(got, want, len);
    mem_free(out);
}

static void test_nfc(void **state)
{
    (void)state;
    check_nfc("", "");
    check_nfc("plain \xc3\xa9", "plain \xc3\xa9");
    check_nfc("e\xcc\x81", "\xc3\xa9");
    check_nfc("ae\xcc\x81z", "a\xc3\xa9z");
    check_nfc("e\xcc\xa3\xcc\x82", "\xe1\xbb\x87"); /* dot below, circumflex: one letter */
    check_nfc("e\xcc\x82\xcc\xa3", "\xe1\xbb\x87"); /* in the other order too */
    check_nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); /* Hangul */
    check_nfc("\xe1\xbd\xb0\xe1\xbd\xb1", "\xe1\xbd\xb0\xce\xac");     /* singleton */
    check_nfc("\xe2\x84\xab", "\xc3\x85");                             /* Angstrom sign */
    check_nfc("\xef\xac\x81", "\xef\xac\x81");             /* a ligature is no matter of form C */
    check_nfc("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"); /* excluded from composition */
    check_nfc("\xcc\x81\xcc\xa3", "\xcc\xa3\xcc\x81");     /* marks without a letter are ordered */
    check_nfc("\xff"
              "e\xcc\x81\xe2\x82",
              "\xff\xc3\xa9\xe2\x82");           /* bad bytes stay */
    check_nfc("e\xff\xcc\x81", "e\xff\xcc\x81"); /* and part what they stand between */
}

static void test_nfc_leaves_marks_after_unicode_9(void **state)
{
    (void)state;
    /* U+0325 then U+0D3C, which is a mark of class 9 since version 10 */
    check_nfc("x\xcc\xa5\xe0\xb4\xbc", "x\xcc\xa5\xe0\xb4\xbc");
    check_nfc("e\xe0\xb4\xbc\xcc\x81", "e\xe0\xb4\xbc\xcc\x81");
}

static void test_nfc_long_runs_are_stable(void **state)
{
    (void)state;
    char text[1 + 2 * 60], want[1 + 2 * 60];
    text[0] = want[0] = 'q';
    for (int i = 0; i < 30; i++) { /* 230: U+0301 and U+0302 in turn; 220: U+0323 and U+0324 */
        memcpy(text + 1 + 4 * i, i % 2 ? "\xcc\x82\xcc\xa4" : "\xcc\x81\xcc\xa3", 4);
        memcpy(want + 1 + 2 * i, i % 2 ? "\xcc\xa4" : "\xcc\xa3", 2);
        memcpy(want + 1 + 60 + 2 * i, i % 2 ? "\xcc\x82" : "\xcc\x81", 2);
    }
    char *out;
    size_t len;
    assert_int_equal(unicode_nfc(&out, &len, text, sizeof text, NULL), RC_OK);
    assert_int_equal(len, sizeof want);
    assert_memory_equal(out, want, sizeof want);
    mem_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_nfc_leaves_marks_after_unicode_9),
        cmocka_unit_test(test_nfc_long_runs_are_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
