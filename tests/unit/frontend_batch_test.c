/* SPDX-License-Identifier: MIT */
/* Tests of frontend/line_reader, batch_file and batch_row: lines of every length, torn tails, what
 * is done already, and the shapes of rows. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/batch/batch_file.h"
#include "frontend/batch/batch_row.h"
#include "frontend/batch/line_reader.h"

static char path[] = "/tmp/quire-batch-XXXXXX";

static int open_path(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    close(fd);
    return fd < 0;
}

static int close_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void put_file(const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static size_t get_file(char *out, size_t cap)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, out, cap - 1);
    close(fd);
    assert_true(n >= 0);
    out[n] = '\0';
    return (size_t)n;
}

static void test_line_reader_lines_and_limit(void **state)
{
    (void)state;
    static char text[400000];
    size_t n = 0;
    memcpy(text, "one\n\nthree\r\n", 12);
    n = 12;
    memset(text + n, 'x', 200000); /* over the limit */
    n += 200000;
    text[n++] = '\n';
    memset(text + n, 'y', 150000); /* just the limit */
    n += 150000;
    memcpy(text + n, "\nlast", 5);
    n += 5;
    put_file(text, n);
    struct line_reader r;
    const char *line;
    size_t len;
    bool whole;
    line_reader_open(&r, open(path, O_RDONLY), 150000);
    static const struct {
        enum rc rc;
        size_t len;
        char first;
        bool whole;
    } right[] = { { RC_OK, 3, 'o', true },  { RC_OK, 0, 0, true },        { RC_OK, 6, 't', true },
                  { RC_LIMIT, 0, 0, true }, { RC_OK, 150000, 'y', true }, { RC_OK, 4, 'l', false },
                  { RC_END, 0, 0, true } };
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(line_reader_next(&r, -1, &line, &len, &whole), right[i].rc);
        if (right[i].rc == RC_LIMIT)
            continue;
        assert_int_equal(len, right[i].len);
        if (right[i].rc == RC_END)
            break;
        assert_int_equal(whole, right[i].whole);
        assert_int_equal(r.line_number, i + 1);
        if (len > 0)
            assert_int_equal(line[0], right[i].first);
    }
    assert_int_equal(r.offset, n);
    line_reader_close(&r);
}

static void test_line_reader_does_not_wait(void **state)
{
    (void)state;
    int ends[2];
    struct line_reader r;
    const char *line;
    size_t len;
    bool whole;
    assert_int_equal(pipe(ends), 0);
    line_reader_open(&r, ends[0], 1000);
    assert_int_equal(line_reader_next(&r, 0, &line, &len, &whole), RC_AGAIN);
    assert_int_equal(write(ends[1], "ab", 2), 2);
    assert_int_equal(line_reader_next(&r, 0, &line, &len, &whole), RC_AGAIN);
    assert_int_equal(write(ends[1], "c\nd", 3), 3);
    assert_int_equal(line_reader_next(&r, 0, &line, &len, &whole), RC_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(line, "abc", 3);
    close(ends[1]);
    assert_int_equal(line_reader_next(&r, 0, &line, &len, &whole), RC_OK);
    assert_false(whole);
    assert_int_equal(line_reader_next(&r, 0, &line, &len, &whole), RC_END);
    line_reader_close(&r);
}

#define ROW(id, line, status)                                                                      \
    "{\"id\":\"batch_req\",\"custom_id\":" id ",\"line\":" line                                    \
    ",\"response\":{\"status_code\":" status ",\"body\":{}},\"error\":null}\n"

static void test_batch_file_cuts_torn_tail_and_knows_rows(void **state)
{
    (void)state;
    static const char whole[] = ROW("\"a\"", "1", "200") ROW("null", "2", "400");
    static const char torn[] = ROW("\"b\"", "3", "200");
    for (size_t cut = 0; cut < sizeof torn - 1; cut++) { /* every place a kill can leave */
        char text[sizeof whole + sizeof torn], now[1000];
        struct batch_file f;
        struct fault fault;
        memcpy(text, whole, sizeof whole - 1);
        memcpy(text + sizeof whole - 1, torn, cut);
        put_file(text, sizeof whole - 1 + cut);
        assert_int_equal(batch_file_open(&f, path, "-o", &fault), RC_OK);
        assert_int_equal(f.ok_count, 1);
        assert_int_equal(f.failed_count, 1);
        assert_true(key_set_has_id(&f.done, "a", 1));
        assert_false(key_set_has_id(&f.done, "b", 1));
        assert_true(key_set_has_line(&f.done, 2));
        assert_false(key_set_has_line(&f.done, 1));
        assert_int_equal(batch_file_put(&f, json_pack("{s:i}", "x", 1), &fault), RC_OK);
        assert_int_equal(batch_file_sync(&f, 1, 0, &fault), RC_OK);
        assert_false(f.dirty);
        batch_file_close(&f);
        get_file(now, sizeof now);
        assert_memory_equal(now, whole, sizeof whole - 1);
        assert_string_equal(now + sizeof whole - 1, "{\"x\":1}\n");
    }
}

static void test_batch_file_refuses_other_files(void **state)
{
    (void)state;
    static const char *const others[] = { "hello\n", "{\"prompt\": 1}\n", "\n",
                                          ROW("\"a\"", "1", "200") "x\n" };
    for (size_t i = 0; i < 4; i++) {
        struct batch_file f;
        struct fault fault;
        char now[1000];
        put_file(others[i], strlen(others[i]));
        assert_int_equal(batch_file_open(&f, path, "-o", &fault), RC_USAGE);
        assert_non_null(strstr(fault.text, i == 3 ? "line 2 is no row" : "line 1 is no row"));
        get_file(now, sizeof now);
        assert_string_equal(now, others[i]); /* untouched */
    }
}

static void test_batch_file_one_job_at_a_time(void **state)
{
    (void)state;
    struct batch_file a, b;
    struct fault fault;
    put_file("", 0);
    assert_int_equal(batch_file_open(&a, path, "-o", &fault), RC_OK);
    assert_int_equal(batch_file_open(&b, path, "-o", &fault), RC_IO);
    assert_non_null(strstr(fault.text, "another job"));
    batch_file_close(&a);
    assert_int_equal(batch_file_open(&b, path, "-o", &fault), RC_OK);
    batch_file_close(&b);
}

static void test_batch_file_full_disk_leaves_whole_rows(void **state)
{
    (void)state;
    struct batch_file f;
    struct fault fault;
    assert_int_equal(batch_file_open(&f, "/dev/full", "-o", &fault), RC_OK);
    assert_int_equal(batch_file_put(&f, json_pack("{s:i}", "x", 1), &fault), RC_IO);
    assert_non_null(strstr(fault.text, "No space left"));
    batch_file_close(&f);
}

static void test_key_set_many(void **state)
{
    (void)state;
    struct key_set s = { 0 };
    bool added;
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 20000; i++) {
            char id[32];
            int n = snprintf(id, sizeof id, "%llu", (unsigned long long)i);
            assert_int_equal(key_set_add_id(&s, id, (size_t)n, &added), RC_OK);
            assert_int_equal(added, round == 0);
            assert_int_equal(key_set_add_line(&s, i, &added), RC_OK);
            assert_int_equal(added, round == 0);
        }
    }
    assert_int_equal(s.count, 40000);
    assert_false(key_set_has_id(&s, "20000", 5));
    assert_false(key_set_has_id(&s, "", 0));
    assert_int_equal(key_set_add_id(&s, "", 0, &added), RC_OK);
    assert_true(added && key_set_has_id(&s, "", 0));
    assert_false(key_set_has_id(&s, "\0", 1)); /* length counts */
    assert_false(key_set_has_id(&s, "7\0", 2));
    key_set_close(&s);
}

/* status 0: fine. */
static void check_row(const char *text, int status, const char *code, const char *id, bool bare)
{
    struct batch_row r;
    struct api_error error = { 0 };
    enum rc rc = batch_row_open(&r, 7, BATCH_JSONL, text, strlen(text), &error);
    assert_int_equal(rc, status == 0 ? RC_OK : RC_INVALID);
    if (status != 0) {
        assert_int_equal(error.status, status);
        assert_string_equal(error.code, code);
        assert_non_null(strstr(error.message, "line 7"));
    } else {
        assert_int_equal(r.bare, bare);
        assert_non_null(json_object_get(r.body, "prompt"));
    }
    json_t *row = status != 0 ? batch_row_error(&r, &error) : batch_row_answer(&r, json_object());
    assert_non_null(row);
    const json_t *response = json_object_get(row, "response");
    assert_string_equal(json_string_value(json_object_get(row, "id")), "batch_req_7");
    assert_int_equal(json_integer_value(json_object_get(response, "status_code")),
                     status != 0 ? status : 200);
    assert_string_equal(json_string_value(json_object_get(response, "request_id")), "req_7");
    const json_t *custom_id = json_object_get(row, "custom_id");
    if (id == NULL)
        assert_true(json_is_null(custom_id));
    else
        assert_string_equal(json_string_value(custom_id), id);
    assert_int_equal(json_is_null(json_object_get(row, "error")), status == 0);
    json_decref(row);
    batch_row_close(&r);
}

#define URL "\"url\": \"/v1/completions\""
#define BODY "\"body\": {\"prompt\": \"x\"}"

static void test_batch_row_shapes(void **state)
{
    (void)state;
    check_row("{\"prompt\": \"x\"}", 0, NULL, NULL, true);
    check_row("{\"prompt\": \"x\", \"custom_id\": \"k\"}", 0, NULL, "k", true);
    check_row("{\"custom_id\": \"k\", \"method\": \"POST\", " URL ", " BODY "}", 0, NULL, "k",
              false);
    check_row("{\"custom_id\": \"k\", " URL ", " BODY "}", 0, NULL, "k", false);
    check_row("{\"custom_id\": \"k\", \"meth", 400, "invalid_json", NULL, false);
    check_row("[1]", 400, "invalid_type", NULL, false);
    check_row("\"text\"", 400, "invalid_type", NULL, false);
    check_row("{" URL ", " BODY "}", 400, "missing_field", NULL, false);
    check_row("{\"custom_id\": null, " URL ", " BODY "}", 400, "missing_field", NULL, false);
    check_row("{\"custom_id\": 4, " URL ", " BODY "}", 400, "invalid_type", NULL, false);
    check_row("{\"custom_id\": \"k\", \"method\": \"GET\", " URL ", " BODY "}", 405,
              "method_not_allowed", "k", false);
    check_row("{\"custom_id\": \"k\", " BODY "}", 400, "missing_field", "k", false);
    check_row("{\"custom_id\": \"k\", \"url\": 4, " BODY "}", 400, "invalid_type", "k", false);
    check_row("{\"custom_id\": \"k\", \"url\": \"/v1/unknown\", " BODY "}", 404, "unknown_url", "k",
              false);
    check_row("{\"custom_id\": \"k\", " URL "}", 400, "missing_field", "k", false);
    check_row("{\"custom_id\": \"k\", " URL ", \"body\": [1]}", 400, "invalid_type", "k", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_reader_lines_and_limit),
        cmocka_unit_test(test_line_reader_does_not_wait),
        cmocka_unit_test(test_key_set_many),
        cmocka_unit_test(test_batch_file_cuts_torn_tail_and_knows_rows),
        cmocka_unit_test(test_batch_file_refuses_other_files),
        cmocka_unit_test(test_batch_file_one_job_at_a_time),
        cmocka_unit_test(test_batch_file_full_disk_leaves_whole_rows),
        cmocka_unit_test(test_batch_row_shapes),
    };
    return cmocka_run_group_tests(tests, open_path, close_path);
}
