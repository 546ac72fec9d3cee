/* SPDX-License-Identifier: MIT */
/* Tests of the dialects of messages and responses: bodies to conversations, and the order and
 * shape of every event. */
#include "tests/unit/test.h"

#include "frontend/api/dialect.h"
#include "frontend/api/messages_body.h"
#include "tests/unit/api_rig.h"

#define LEN_OF(array) (sizeof(array) / sizeof(array)[0])
#define HI "\"max_tokens\": 200, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
#define CALL "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 7}}</tool_call>"

static struct api_rig rig;

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static long long number_of(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

typedef enum rc make_body(json_t **out, json_t *body, struct api_error *error);

static void expect_turns(make_body *make, const char *body, const char *wanted)
{
    struct api_error error;
    json_t *in = json_loads(body, 0, NULL), *out, *want = json_loads(wanted, 0, NULL);
    assert_non_null(in);
    assert_non_null(want);
    if (make(&out, in, &error) != RC_OK)
        fail_msg("%s", error.message);
    if (!json_equal(out, want))
        fail_msg("%s\n  wanted %s\n  got    %s", body, json_dumps(want, 0), json_dumps(out, 0));
    json_decref(in);
    json_decref(out);
    json_decref(want);
}

static void test_messages_become_a_chat(void **state)
{
    (void)state;
    expect_turns(
        messages_body,
        "{\"model\": \"m\", \"max_tokens\": 9, \"stop_sequences\": [\"x\"], \"system\": "
        "[{\"type\": \"text\", \"text\": \"S\"}], \"metadata\": {}, \"thinking\": "
        "{\"type\": \"disabled\"}, \"tools\": [{\"name\": \"f\", \"input_schema\": "
        "{\"type\": \"object\"}}], \"tool_choice\": {\"type\": \"auto\", "
        "\"disable_parallel_tool_use\": true}, \"messages\": ["
        "{\"role\": \"user\", \"content\": \"q\"},"
        "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": "
        "\"hm\", \"signature\": \"\"}, {\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
        "\"tool_use\", \"id\": \"t1\", \"name\": \"f\", \"input\": {\"n\": 1}}]},"
        "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": "
        "\"t1\", \"content\": \"42\"}, {\"type\": \"text\", \"text\": \"go on\"}]}]}",
        "{\"max_tokens\": 9, \"stop\": [\"x\"], \"enable_thinking\": false, \"tools\": "
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"\", "
        "\"parameters\": {\"type\": \"object\"}}}], \"tool_choice\": \"auto\", "
        "\"parallel_tool_calls\": false, \"messages\": ["
        "{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"S\"}]},"
        "{\"role\": \"user\", \"content\": \"q\"},"
        "{\"role\": \"assistant\", \"reasoning_content\": \"hm\", \"content\": [{\"type\":"
        " \"text\", \"text\": \"a\"}], \"tool_calls\": [{\"id\": \"t1\", \"type\": "
        "\"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"n\": 1}}}]},"
        "{\"role\": \"tool\", \"tool_call_id\": \"t1\", \"content\": \"42\"},"
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"go on\"}]}]}");
}

static void test_text_of_the_assistant_at_the_end_is_gone_on_with(void **state)
{
    (void)state;
    static const char *const said[][2] = { { "\"Sure, \"", "true" },
                                           { "[{\"type\": \"text\", \"text\": \"Sure\"}]", "true" },
                                           { "\" \"", NULL },
                                           { "[]", NULL } };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        char body[512], wanted[512];
        const char *content = strcmp(said[i][0], "[]") == 0 ? "\"\"" : said[i][0];
        snprintf(body, sizeof body,
                 "{\"messages\": [%s, {\"role\": \"assistant\", \"content\": %s}]}",
                 "{\"role\": \"user\", \"content\": \"q\"}", said[i][0]);
        snprintf(wanted, sizeof wanted,
                 "{%s\"messages\": [%s, {\"role\": \"assistant\", \"content\": %s}]}",
                 said[i][1] != NULL ? "\"continue_final_message\": true, " : "",
                 "{\"role\": \"user\", \"content\": \"q\"}", content);
        expect_turns(messages_body, body, wanted);
    }
}

static void test_items_become_a_chat(void **state)
{
    (void)state;
    expect_turns(responses_body,
                 "{\"instructions\": \"S\", \"max_output_tokens\": 9, \"store\": true, "
                 "\"reasoning\": {\"effort\": \"low\"}, \"text\": {\"format\": {\"type\": "
                 "\"text\"}}, \"tools\": [{\"type\": \"function\", \"name\": \"f\", "
                 "\"parameters\": {}}], \"input\": ["
                 "{\"role\": \"user\", \"content\": \"q\"},"
                 "{\"type\": \"reasoning\", \"summary\": []},"
                 "{\"type\": \"message\", \"role\": \"assistant\", \"content\": [{\"type\": "
                 "\"output_text\", \"text\": \"a\", \"annotations\": []}]},"
                 "{\"type\": \"function_call\", \"call_id\": \"c1\", \"name\": \"f\", "
                 "\"arguments\": \"{}\"},"
                 "{\"type\": \"function_call\", \"call_id\": \"c2\", \"name\": \"f\", "
                 "\"arguments\": \"{}\"},"
                 "{\"type\": \"function_call_output\", \"call_id\": \"c1\", \"output\": \"42\"}]}",
                 "{\"max_tokens\": 9, \"reasoning_effort\": \"low\", \"response_format\": "
                 "{\"type\": \"text\"}, \"tools\": [{\"type\": \"function\", \"function\": "
                 "{\"name\": \"f\", \"parameters\": {}}}], \"messages\": ["
                 "{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": "
                 "\"q\"}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": "
                 "\"a\"}], \"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", \"function\": "
                 "{\"name\": \"f\", \"arguments\": \"{}\"}}, {\"id\": \"c2\", \"type\": "
                 "\"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]},"
                 "{\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"42\"}]}");
    expect_turns(responses_body, "{\"input\": \"q\"}",
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}");
}

static void test_messages_body(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "<think>hm</think>Look. " CALL);
    json_t *m = api_rig_body(&rig, &dialect_messages,
                             "{" HI ", \"tools\": [{\"name\": \"f\", \"input_schema\": {}}]}");
    json_t *content = json_object_get(m, "content");
    assert_string_equal(text_of(m, "id"), "msg_0123abcd");
    assert_string_equal(text_of(m, "type"), "message");
    assert_string_equal(text_of(m, "role"), "assistant");
    assert_string_equal(text_of(m, "stop_reason"), "tool_use");
    assert_true(json_is_null(json_object_get(m, "stop_sequence")));
    assert_int_equal(json_array_size(content), 3);
    assert_string_equal(text_of(json_array_get(content, 0), "thinking"), "hm");
    assert_string_equal(text_of(json_array_get(content, 1), "text"), "Look.");
    json_t *call = json_array_get(content, 2);
    assert_string_equal(text_of(call, "type"), "tool_use");
    assert_string_equal(text_of(call, "id"), "toolu_0123abcd_0");
    assert_int_equal(number_of(json_object_get(call, "input"), "n"), 7);
    assert_int_equal(number_of(json_object_get(m, "usage"), "output_tokens"), 83);
    replay_rig_text(&rig.replay, "one two three");
    m = api_rig_body(&rig, &dialect_messages, "{" HI ", \"stop_sequences\": [\"tw\"]}");
    assert_string_equal(text_of(m, "stop_reason"), "stop_sequence");
    assert_string_equal(text_of(m, "stop_sequence"), "tw");
    m = api_rig_body(
        &rig, &dialect_messages,
        "{\"max_tokens\": 3, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    assert_string_equal(text_of(m, "stop_reason"), "max_tokens");
    m = api_rig_body(&rig, &dialect_messages, "{" HI "}");
    assert_string_equal(text_of(m, "stop_reason"), "end_turn");
}

/* The names of a stream's events, with what their deltas say. */
static void names_of(char out[4096], const struct dialect *d, const char *body)
{
    char name[64];
    const char *at = api_rig_stream(&rig, d, body);
    size_t n = 0;
    json_t *event;
    long long number = 0;
    for (out[0] = '\0'; (event = api_rig_event(&at, name)) != NULL; json_decref(event)) {
        json_t *delta = json_object_get(event, "delta");
        const char *say = json_string_value(delta);
        static const char *const keys[] = { "text", "thinking", "partial_json", "stop_reason" };
        assert_string_equal(text_of(event, "type"), name);
        if (d == &dialect_responses)
            assert_int_equal(number_of(event, "sequence_number"), number++);
        for (size_t i = 0; i < LEN_OF(keys) && say == NULL; i++)
            say = text_of(delta, keys[i]);
        const char *prefix = "response.", *content = "content_";
        const char *brief = strncmp(name, prefix, 9) == 0    ? name + 9
                            : strncmp(name, content, 8) == 0 ? name + 8
                                                             : name;
        bool more = say != NULL && strstr(name, "delta") != NULL && n > 0 && out[n - 1] == '"';
        if (more && strcmp(name, "message_delta") != 0)
            n += (size_t)snprintf(out + n - 1, 4096 - n, "%s\"", say) - 1;
        else
            n += (size_t)snprintf(out + n, 4096 - n, say != NULL ? "%s%s \"%s\"" : "%s%s",
                                  n > 0 ? " / " : "", brief, say);
    }
}

static void test_messages_events(void **state)
{
    (void)state;
    char names[4096];
    replay_rig_text(&rig.replay, "<think>hm</think>Look. " CALL);
    names_of(names, &dialect_messages,
             "{" HI ", \"stream\": true, \"tools\": [{\"name\": \"f\", \"input_schema\": {}}]}");
    assert_string_equal(names, "message_start / block_start / block_delta \"hm\" / block_stop / "
                               "block_start / block_delta \"Look.\" / block_stop / "
                               "block_start / block_delta \"{\"n\": 7}\" / block_stop / "
                               "message_delta \"tool_use\" / message_stop");
    replay_rig_text(&rig.replay, "");
    names_of(names, &dialect_messages, "{" HI ", \"stream\": true}");
    assert_string_equal(names, "message_start / message_delta \"end_turn\" / message_stop");
}

static void test_messages_blocks(void **state)
{
    (void)state;
    char name[64];
    replay_rig_text(&rig.replay, "a" CALL);
    const char *at = api_rig_stream(
        &rig, &dialect_messages,
        "{" HI ", \"stream\": true, \"tools\": [{\"name\": \"f\", \"input_schema\": {}}]}");
    json_t *event = api_rig_event(&at, name), *m = json_object_get(event, "message");
    assert_int_equal(json_array_size(json_object_get(m, "content")), 0);
    assert_true(json_is_null(json_object_get(m, "stop_reason")));
    assert_true(number_of(json_object_get(m, "usage"), "input_tokens") > 0);
    json_decref(event);
    int starts = 0;
    while ((event = api_rig_event(&at, name)) != NULL) {
        json_t *block = json_object_get(event, "content_block");
        if (block != NULL) {
            assert_int_equal(number_of(event, "index"), starts);
            assert_string_equal(text_of(block, "type"), starts == 0 ? "text" : "tool_use");
            if (starts++ == 1)
                assert_string_equal(text_of(block, "name"), "f");
        }
        if (strcmp(name, "message_delta") == 0)
            assert_int_equal(number_of(json_object_get(event, "usage"), "output_tokens"), 61);
        json_decref(event);
    }
    assert_int_equal(starts, 2);
}

static void test_responses_body(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "<think>hm</think>Look. " CALL);
    json_t *r = api_rig_body(&rig, &dialect_responses,
                             "{\"input\": \"hi\", \"tools\": [{\"type\": \"function\", \"name\": "
                             "\"f\", \"parameters\": {}}]}");
    json_t *output = json_object_get(r, "output");
    assert_string_equal(text_of(r, "id"), "resp_0123abcd");
    assert_string_equal(text_of(r, "object"), "response");
    assert_string_equal(text_of(r, "status"), "completed");
    assert_int_equal(json_array_size(output), 3);
    json_t *thought = json_array_get(output, 0), *message = json_array_get(output, 1);
    json_t *call = json_array_get(output, 2);
    assert_string_equal(text_of(thought, "type"), "reasoning");
    assert_string_equal(text_of(json_array_get(json_object_get(message, "content"), 0), "text"),
                        "Look.");
    assert_string_equal(text_of(call, "type"), "function_call");
    assert_string_equal(text_of(call, "arguments"), "{\"n\": 7}");
    assert_string_equal(text_of(call, "call_id"), "call_0123abcd_0");
    assert_string_equal(text_of(call, "status"), "completed");
    assert_int_equal(number_of(json_object_get(r, "usage"), "output_tokens"), 83);
    replay_rig_text(&rig.replay, "abc");
    r = api_rig_body(&rig, &dialect_responses, "{\"input\": \"hi\", \"max_output_tokens\": 2}");
    assert_string_equal(text_of(r, "status"), "incomplete");
    assert_string_equal(text_of(json_object_get(r, "incomplete_details"), "reason"),
                        "max_output_tokens");
    assert_string_equal(text_of(json_array_get(json_object_get(r, "output"), 0), "status"),
                        "incomplete");
}

static void test_responses_events(void **state)
{
    (void)state;
    char names[4096];
    replay_rig_text(&rig.replay, "<think>hm</think>Look. " CALL);
    names_of(names, &dialect_responses,
             "{\"input\": \"hi\", \"stream\": true, \"tools\": [{\"type\": \"function\", "
             "\"name\": \"f\", \"parameters\": {}}]}");
    assert_string_equal(
        names, "created / in_progress / output_item.added / content_part.added / "
               "reasoning_text.delta \"hm\" / reasoning_text.done / content_part.done / "
               "output_item.done / output_item.added / content_part.added / "
               "output_text.delta \"Look.\" / output_text.done / content_part.done / "
               "output_item.done / output_item.added / function_call_arguments.delta "
               "\"{\"n\": 7}\" / function_call_arguments.done / output_item.done / completed");
}

static void test_failing_runs(void **state)
{
    (void)state;
    static const struct dialect *const dialects[] = { &dialect_messages, &dialect_responses };
    static const char *const last[] = { "error", "response.failed" };
    for (size_t i = 0; i < 2; i++) {
        replay_rig_text(&rig.replay, "abcdef");
        rig.replay.fail_step = rig.replay.steps + 5;
        const char *at = api_rig_stream(
            &rig, dialects[i], "{" HI ", \"input\": \"hi\", \"stream\": true, \"max_tokens\": 20}");
        rig.replay.fail_step = 0;
        char name[64];
        json_t *event;
        while ((event = api_rig_event(&at, name)) != NULL) {
            if (*at == '\0')
                assert_string_equal(name, last[i]);
            json_decref(event);
        }
    }
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const struct dialect *dialect;
        const char *body, *part;
    } cases[] = {
        { &dialect_messages, "{}", "messages must be a list" },
        { &dialect_messages, "[]", "an object" },
        { &dialect_messages, "{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}",
          "messages[0]: role" },
        { &dialect_messages,
          "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
          "messages[0]: only blocks" },
        { &dialect_messages, "{" HI ", \"tools\": [{\"type\": \"web_search_20250305\"}]}",
          "tools[0]" },
        { &dialect_messages, "{" HI ", \"tool_choice\": {\"type\": \"any\"}}", "tool_choice" },
        { &dialect_messages, "{" HI ", \"thinking\": {\"type\": \"x\"}}", "thinking.type" },
        { &dialect_messages, "{" HI ", \"temperature\": \"x\"}", "temperature" },
        { &dialect_responses, "{}", "input must be" },
        { &dialect_responses, "{\"input\": \"x\", \"previous_response_id\": \"r\"}",
          "previous_response_id" },
        { &dialect_responses, "{\"input\": [{\"type\": \"item_reference\"}]}", "input[0]" },
        { &dialect_responses,
          "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\"}]}]}",
          "input[0]: a message" },
        { &dialect_responses, "{\"input\": \"x\", \"tools\": [{\"type\": \"web_search\"}]}",
          "tools[0]" },
        { &dialect_responses,
          "{\"input\": \"x\", \"text\": {\"format\": {\"type\": \"json_schema\"}}}", "text" },
    };
    for (size_t i = 0; i < LEN_OF(cases); i++) {
        json_t *e = api_rig_error(&rig, cases[i].dialect, cases[i].body);
        if (strstr(text_of(json_object_get(e, "error"), "message"), cases[i].part) == NULL)
            fail_msg("%s: %s", cases[i].body, json_dumps(e, 0));
        if (cases[i].dialect == &dialect_messages)
            assert_string_equal(text_of(e, "type"), "error");
    }
}

static void test_queries(void **state)
{
    (void)state;
    struct api_error error;
    json_t *body = json_loads("{" HI "}", 0, NULL);
    json_t *count = query_count_tokens(&rig.context, body, &error);
    json_t *applied = query_apply_template(&rig.context, body, &error);
    assert_string_equal(text_of(applied, "prompt"),
                        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(number_of(count, "input_tokens"),
                     json_array_size(json_object_get(applied, "tokens")));
    json_decref(count);
    json_decref(applied);
    json_decref(body);
    body = json_array();
    assert_null(query_count_tokens(&rig.context, body, &error));
    assert_null(query_apply_template(&rig.context, body, &error));
    assert_int_equal(error.status, 400);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_become_a_chat), cmocka_unit_test(test_items_become_a_chat),
        cmocka_unit_test(test_text_of_the_assistant_at_the_end_is_gone_on_with),
        cmocka_unit_test(test_messages_body),          cmocka_unit_test(test_messages_events),
        cmocka_unit_test(test_messages_blocks),        cmocka_unit_test(test_responses_body),
        cmocka_unit_test(test_responses_events),       cmocka_unit_test(test_failing_runs),
        cmocka_unit_test(test_what_is_refused),        cmocka_unit_test(test_queries),
    };
    /* ChatML that thinks aloud */
    api_rig_open(&rig, "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
                       "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
                       "{{ '<|im_start|>assistant\n' }}{% endif %}{# </think> #}");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    api_rig_close(&rig);
    return failed;
}
