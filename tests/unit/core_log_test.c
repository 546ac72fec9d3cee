/* SPDX-License-Identifier: MIT */
/* Tests of core/log: both formats, escapes, cuts, levels, and the calendar. */
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"

/* A log into a pipe at a fixed moment: 2024-02-29T23:59:58.123Z. */
struct sink {
    struct log log;
    int fds[2];
    uint64_t now_us;
    char text[4096];
};

static void open_sink(struct sink *s, enum log_level level, enum log_format format)
{
    assert_int_equal(pipe(s->fds), 0);
    s->now_us = 1709251198123456u;
    s->log = (struct log){ s->fds[1], level, format, clock_virtual(&s->now_us) };
}

/* Closes the log and returns all that was written. */
static const char *close_sink(struct sink *s)
{
    close(s->fds[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(s->fds[0], s->text + len, sizeof s->text - 1 - len)) > 0;)
        len += (size_t)n;
    s->text[len] = '\0';
    close(s->fds[0]);
    return s->text;
}

static void write_sample(const struct log *log)
{
    struct log_line line;
    log_begin(&line, log, LOG_INFO, "request_done");
    log_u64(&line, "id", UINT64_MAX);
    log_f64(&line, "ms", 12.34567);
    log_f64(&line, "rate", (double)NAN);
    log_str(&line, "model", str_of("a b"));
    log_str(&line, "path", str_of("models/x-1.gguf"));
    log_str(&line, "empty", str_of(""));
    log_end(&line);
}

static void test_text_line(void **state)
{
    (void)state;
    struct sink s;
    open_sink(&s, LOG_INFO, LOG_TEXT);
    write_sample(&s.log);
    assert_string_equal(close_sink(&s),
                        "2024-02-29T23:59:58.123Z info request_done id=18446744073709551615 "
                        "ms=12.346 rate=null model=\"a b\" path=models/x-1.gguf empty=\"\"\n");
}

static void test_json_line(void **state)
{
    (void)state;
    struct sink s;
    open_sink(&s, LOG_INFO, LOG_JSON);
    write_sample(&s.log);
    assert_string_equal(
        close_sink(&s),
        "{\"time\":\"2024-02-29T23:59:58.123Z\",\"level\":\"info\",\"event\":\"request_done\","
        "\"id\":18446744073709551615,\"ms\":12.346,\"rate\":null,\"model\":\"a b\","
        "\"path\":\"models/x-1.gguf\",\"empty\":\"\"}\n");
}

static void test_levels(void **state)
{
    (void)state;
    struct sink s;
    open_sink(&s, LOG_WARN, LOG_TEXT);
    write_sample(&s.log); /* info: not written */
    log_message(&s.log, LOG_DEBUG, "x", "no");
    log_message(&s.log, LOG_WARN, "x", "yes");
    log_message(&s.log, LOG_ERROR, "x", "yes too");
    assert_string_equal(close_sink(&s), "2024-02-29T23:59:58.123Z warn x text=yes\n"
                                        "2024-02-29T23:59:58.123Z error x text=\"yes too\"\n");
    enum log_level level;
    assert_true(log_level_parse(&level, "debug"));
    assert_int_equal(level, LOG_DEBUG);
    assert_false(log_level_parse(&level, "verbose"));
}

static void test_nothing_from_outside_forges_a_line(void **state)
{
    (void)state;
    const char bytes[] = "a\nb\r\x1b[2J\x7f\"\\ \xc2\x85 \xe2\x80\xa8 \xff\xe9\xa2 \xc3\xa9";
    struct sink s;
    open_sink(&s, LOG_INFO, LOG_TEXT);
    log_message(&s.log, LOG_INFO, "x", bytes);
    assert_string_equal(close_sink(&s),
                        "2024-02-29T23:59:58.123Z info x text=\"a\\x0ab\\x0d\\x1b[2J\\x7f"
                        "\\\"\\\\ \\x85 \\u2028 \\xff\\xe9\\xa2 \xc3\xa9\"\n");
    open_sink(&s, LOG_INFO, LOG_JSON);
    log_message(&s.log, LOG_INFO, "x", bytes);
    json_error_t error;
    json_t *line = json_loads(close_sink(&s), 0, &error);
    assert_non_null(line);
    assert_string_equal(
        json_string_value(json_object_get(line, "text")),
        "a\nb\r\x1b[2J\x7f\"\\ \xc2\x85 \xe2\x80\xa8 \xef\xbf\xbd\xef\xbf\xbd \xc3\xa9");
    json_decref(line);
    assert_int_equal(strchr(s.text, '\n') - s.text, strlen(s.text) - 1);
}

static void test_long_lines_are_cut_and_stay_whole(void **state)
{
    (void)state;
    char big[3000];
    for (int fill = 0; fill < 2; fill++) {
        memset(big, fill == 0 ? 'x' : '\n', sizeof big - 1);
        big[sizeof big - 1] = '\0';
        for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
            struct sink s;
            open_sink(&s, LOG_INFO, (enum log_format)format);
            struct log_line line;
            log_begin(&line, &s.log, LOG_INFO, "x");
            log_str(&line, "big", str_of(big));
            for (uint64_t i = 0; i < 50; i++)
                log_u64(&line, "more", UINT64_MAX); /* none of them fits */
            log_end(&line);
            size_t len = strlen(close_sink(&s));
            assert_in_range(len, LOG_LINE_BYTES - 48, LOG_LINE_BYTES);
            assert_int_equal(s.text[len - 1], '\n');
            if (format == LOG_TEXT) {
                assert_non_null(strstr(s.text, "\" cut\n"));
                continue;
            }
            json_t *parsed = json_loads(s.text, JSON_REJECT_DUPLICATES, NULL);
            assert_true(json_is_true(json_object_get(parsed, "cut")));
            assert_true(json_string_length(json_object_get(parsed, "big")) > 100);
            json_decref(parsed);
        }
    }
}

static void test_calendar_agrees_with_the_library(void **state)
{
    (void)state;
    struct sink s;
    for (uint64_t day = 0; day < 60000; day += 13) {
        open_sink(&s, LOG_INFO, LOG_TEXT);
        s.now_us = (day * 86400 + day * 7919 % 86400) * 1000000;
        log_message(&s.log, LOG_INFO, "x", "y");
        time_t seconds = (time_t)(s.now_us / 1000000);
        struct tm tm;
        char want[64];
        strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.000Z info x text=y\n",
                 gmtime_r(&seconds, &tm));
        assert_string_equal(close_sink(&s), want);
    }
    struct clock wall = clock_wall();
    assert_true(clock_now_us(&wall) > 1700000000u * 1000000ull);
}

static void *write_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        write_sample(arg);
    return NULL;
}

static void test_lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    uint64_t now_us = 0;
    struct log log = { fileno(file), LOG_INFO, LOG_JSON, clock_virtual(&now_us) };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &log), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    rewind(file);
    char line[LOG_LINE_BYTES + 1];
    int lines = 0;
    for (; fgets(line, sizeof line, file) != NULL; lines++)
        assert_memory_equal(line, "{\"time\":\"1970-01-01T00:00:00.000Z\"", 34);
    assert_int_equal(lines, 600);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_line),
        cmocka_unit_test(test_json_line),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_nothing_from_outside_forges_a_line),
        cmocka_unit_test(test_long_lines_are_cut_and_stay_whole),
        cmocka_unit_test(test_calendar_agrees_with_the_library),
        cmocka_unit_test(test_lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
