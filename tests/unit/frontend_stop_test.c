/* SPDX-License-Identifier: MIT */
/* Tests of frontend/stop: hand-made streams, and random ones against a search of the whole text. */
#include "tests/unit/test.h"

#include "core/rng.h"
#include "frontend/api/stop.h"

static void open_stop(struct stop *s, const char *const *patterns)
{
    *s = (struct stop){ 0 };
    struct fault f;
    for (; *patterns != NULL; patterns++)
        assert_int_equal(stop_add(s, *patterns, strlen(*patterns), &f), RC_OK);
}

/* Pushes the pieces and checks what is visible after each. */
static void check(const char *const *patterns, const char *const *pieces,
                  const char *const *visible, bool hit)
{
    struct stop s;
    struct text out = { 0 };
    open_stop(&s, patterns);
    for (size_t i = 0; pieces[i] != NULL; i++) {
        assert_int_equal(stop_push(&s, pieces[i], strlen(pieces[i]), &out), RC_OK);
        assert_string_equal(out.data != NULL ? out.data : "", visible[i]);
    }
    assert_int_equal(s.hit, hit);
    text_close(&out);
    stop_close(&s);
}

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_stop_over_token_boundaries(void **state)
{
    (void)state;
    check(LIST("six seven"), LIST(" four", " five", " six", " seven", " eight"),
          LIST(" four", " four five", " four five ", " four five ", " four five "), true);
    check(LIST("six seven"), LIST(" six", " sixty"), LIST(" ", " six sixty"), false);
    check(LIST("abab", "c"), LIST("aba", "a", "bab", "zzz"), LIST("", "aba", "aba", "aba"), true);
    check(LIST("\n\n"), LIST("a\n", "b\n", "\nc"), LIST("a", "a\nb", "a\nb"), true);
    check(LIST("\n\n"), LIST("a\n\n\n"), LIST("a"), true);
    check(LIST("x"), LIST("", "abc", "x", "y"), LIST("", "abc", "abc", "abc"), true);
}

static void test_stop_first_end_wins(void **state)
{
    (void)state;
    check(LIST("abcd", "bc"), LIST("xabcd"), LIST("xa"), true); /* "bc" is complete before "abcd" */
    check(LIST("d", "abcd", "cd"), LIST("xabcd"), LIST("x"), true); /* together: the longest */
}

/* What ends while nothing counts is no stop, what only begins there is one; its end may begin the
 * next. */
static void test_stop_that_does_not_count_yet(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *early, *late, *before, *after;
        bool hit;
    } rows[] = {
        { "ab", "xabab", "cab", "xabab", "xababc", true },
        { "abc", "abcab", "cd", "abc", "abc", true },
        { "aa", "aaaa", "b", "aaa", "aaaab", false },
        { "aa", "aaaa", "ab", "aaa", "aaa", true },
        { "a", "aaa", "", "aaa", "aaa", false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stop s;
        struct text out = { 0 };
        open_stop(&s, LIST(rows[i].pattern));
        s.deaf = true;
        assert_int_equal(stop_push(&s, rows[i].early, strlen(rows[i].early), &out), RC_OK);
        assert_string_equal(out.data, rows[i].before);
        s.deaf = false;
        assert_int_equal(stop_push(&s, rows[i].late, strlen(rows[i].late), &out), RC_OK);
        assert_string_equal(out.data, rows[i].after);
        assert_int_equal(s.hit, rows[i].hit);
        text_close(&out);
        stop_close(&s);
    }
}

static void test_stop_flush_gives_what_was_held(void **state)
{
    (void)state;
    struct stop s;
    struct text out = { 0 };
    open_stop(&s, LIST("END.", "D?"));
    assert_int_equal(stop_push(&s, "THE END", 7, &out), RC_OK);
    assert_string_equal(out.data, "THE ");
    assert_int_equal(stop_held_bytes(&s), 3);
    assert_int_equal(stop_flush(&s, &out), RC_OK);
    assert_string_equal(out.data, "THE END");
    assert_int_equal(stop_held_bytes(&s), 0);
    text_close(&out);
    stop_close(&s);
    out = (struct text){ 0 };
    assert_int_equal(stop_push(&s, "no patterns", 11, &out), RC_OK);
    assert_string_equal(out.data, "no patterns");
    assert_int_equal(stop_flush(&s, &out), RC_OK);
    text_close(&out);
}

static void test_stop_refuses_bad_patterns(void **state)
{
    (void)state;
    struct stop s = { 0 };
    struct fault f;
    static char big[STOP_TEXT_BYTES_MAX + 1];
    memset(big, 'a', sizeof big);
    assert_int_equal(stop_add(&s, "", 0, &f), RC_INVALID);
    assert_string_equal(f.text, "stop: a stop text may not be empty");
    assert_int_equal(stop_add(&s, big, sizeof big, &f), RC_INVALID);
    assert_int_equal(stop_add(&s, big, sizeof big - 1, &f), RC_OK);
    for (uint32_t i = 1; i < STOP_TEXTS_MAX; i++)
        assert_int_equal(stop_add(&s, "b", 1, &f), RC_OK);
    assert_int_equal(stop_add(&s, "b", 1, &f), RC_INVALID);
    stop_close(&s);
}

/* The same by looking at the whole text: end of the first match to end, and its beginning. */
static bool search(const char *text, size_t len, char patterns[][8], int count, size_t *begin)
{
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (int i = 0; i < count; i++) {
            size_t n = strlen(patterns[i]);
            if (n <= end && n > longest && memcmp(text + end - n, patterns[i], n) == 0)
                longest = n;
        }
        if (longest > 0) {
            *begin = end - longest;
            return true;
        }
    }
    return false;
}

static size_t longest_held(const char *text, size_t len, char patterns[][8], int count)
{
    size_t held = 0;
    for (int i = 0; i < count; i++)
        for (size_t n = strlen(patterns[i]) - 1; n > held; n--)
            if (n <= len && memcmp(text + len - n, patterns[i], n) == 0)
                held = n;
    return held;
}

static void test_stop_random_streams(void **state)
{
    (void)state;
    struct rng r = rng_seeded(7);
    int hits = 0;
    for (int round = 0; round < 3000; round++) {
        char patterns[3][8], text[64];
        int count = (int)rng_below(&r, 3) + 1;
        struct stop s = { 0 };
        struct text out = { 0 };
        struct fault f;
        for (int i = 0; i < count; i++) {
            size_t n = rng_below(&r, 6) + 1;
            for (size_t k = 0; k < n; k++)
                patterns[i][k] = "ab"[rng_below(&r, 2)];
            patterns[i][n] = '\0';
            assert_int_equal(stop_add(&s, patterns[i], n, &f), RC_OK);
        }
        size_t len = rng_below(&r, sizeof text), fed = 0, begin;
        for (size_t k = 0; k < len; k++)
            text[k] = "abc"[rng_below(&r, 8) / 3 % 3];
        while (fed < len) {
            size_t n = rng_below(&r, len - fed) + 1;
            assert_int_equal(stop_push(&s, text + fed, n, &out), RC_OK);
            fed += n;
            bool found = search(text, fed, patterns, count, &begin);
            assert_int_equal(s.hit, found);
            size_t shown = found ? begin : fed - longest_held(text, fed, patterns, count);
            assert_int_equal(out.len, shown);
            assert_memory_equal(out.len > 0 ? out.data : text, text, shown);
        }
        hits += s.hit;
        text_close(&out);
        stop_close(&s);
    }
    assert_in_range(hits, 500, 2900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_over_token_boundaries),
        cmocka_unit_test(test_stop_first_end_wins),
        cmocka_unit_test(test_stop_that_does_not_count_yet),
        cmocka_unit_test(test_stop_flush_gives_what_was_held),
        cmocka_unit_test(test_stop_refuses_bad_patterns),
        cmocka_unit_test(test_stop_random_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
