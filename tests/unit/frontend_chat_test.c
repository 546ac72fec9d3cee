/* SPDX-License-Identifier: MIT */
/* Tests of frontend/chat and the dialect of chat completions: replayed answers, as bodies and as
 * streams, field by field. */
#include "tests/unit/test.h"

#include "frontend/api/dialect.h"
#include "tests/unit/api_rig.h"

#define LEN_OF(array) (sizeof(array) / sizeof(array)[0])
#define HI "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "        \
    "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}}}}]"

static struct api_rig rig;

static json_t *body(const char *request)
{
    return api_rig_body(&rig, &dialect_chat, request);
}

static json_t *choice(json_t *answer, size_t k)
{
    return json_array_get(json_object_get(answer, "choices"), k);
}

static json_t *message(json_t *answer, size_t k)
{
    return json_object_get(choice(answer, k), "message");
}

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static long long number_of(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* A stream added up, as a client does it. */
struct sum {
    char role[16], content[512], reasoning[256], calls[512], finish[32], order[256];
    int chunks, contents, usages, tokens;
    double logprob;
};

static void put(char *to, size_t cap, const char *text)
{
    size_t len = strlen(to);
    if (text != NULL)
        snprintf(to + len, cap - len, "%s", text);
}

static void add_delta(struct sum *s, json_t *delta)
{
    size_t i;
    json_t *call;
    const char *content = text_of(delta, "content");
    put(s->role, sizeof s->role, text_of(delta, "role"));
    put(s->content, sizeof s->content, content);
    put(s->reasoning, sizeof s->reasoning, text_of(delta, "reasoning_content"));
    s->contents += content != NULL && content[0] != '\0';
    json_array_foreach(json_object_get(delta, "tool_calls"), i, call)
    {
        json_t *function = json_object_get(call, "function");
        if (json_object_get(call, "id") != NULL) {
            char head[128];
            assert_string_equal(text_of(call, "type"), "function");
            snprintf(head, sizeof head, "[%lld %s %s]", number_of(call, "index"),
                     text_of(call, "id"), text_of(function, "name"));
            put(s->calls, sizeof s->calls, head);
            assert_string_equal(text_of(function, "arguments"), "");
        }
        put(s->calls, sizeof s->calls, text_of(function, "arguments"));
    }
}

static void add_choice(struct sum *s, json_t *c)
{
    size_t i;
    json_t *entry;
    const char *finish = text_of(c, "finish_reason");
    if (s->chunks == 0)
        assert_string_equal(text_of(json_object_get(c, "delta"), "role"), "assistant");
    s->chunks++;
    assert_int_equal(s->finish[0], '\0');
    put(s->finish, sizeof s->finish, finish);
    assert_true(finish == NULL || json_object_size(json_object_get(c, "delta")) == 0);
    add_delta(s, json_object_get(c, "delta"));
    json_array_foreach(json_object_get(json_object_get(c, "logprobs"), "content"), i, entry)
    {
        s->tokens++;
        s->logprob += json_number_value(json_object_get(entry, "logprob"));
    }
}

/* The chunks of choice k; what all chunks share is checked. */
static struct sum stream(const char *request, size_t k)
{
    struct sum s = { .chunks = 0 };
    char name[64];
    const char *at = api_rig_stream(&rig, &dialect_chat, request), *last = at;
    for (json_t *event; (event = api_rig_event(&at, name)) != NULL; json_decref(event)) {
        last = at;
        assert_string_equal(name, "");
        assert_string_equal(text_of(event, "id"), "chatcmpl-0123abcd");
        assert_string_equal(text_of(event, "object"), "chat.completion.chunk");
        assert_string_equal(text_of(event, "model"), "replay");
        assert_int_equal(number_of(event, "created"), 7);
        json_t *c = choice(event, 0);
        if (c == NULL)
            s.usages += json_object_get(event, "usage") != NULL;
        else if (number_of(c, "index") == (long long)k)
            add_choice(&s, c);
    }
    assert_string_equal(last, "data: [DONE]\n\n");
    return s;
}

static void test_plain_answer(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "Yes.\n");
    json_t *a = body("{" HI "}");
    assert_string_equal(text_of(a, "object"), "chat.completion");
    assert_string_equal(text_of(a, "id"), "chatcmpl-0123abcd");
    assert_string_equal(text_of(message(a, 0), "content"), "Yes.\n");
    assert_string_equal(text_of(message(a, 0), "role"), "assistant");
    assert_null(json_object_get(message(a, 0), "tool_calls"));
    assert_null(json_object_get(message(a, 0), "reasoning_content"));
    assert_true(json_is_null(json_object_get(choice(a, 0), "logprobs")));
    assert_string_equal(text_of(choice(a, 0), "finish_reason"), "stop");
    json_t *usage = json_object_get(a, "usage");
    assert_int_equal(number_of(usage, "completion_tokens"), 6);
    assert_int_equal(number_of(usage, "total_tokens"), number_of(usage, "prompt_tokens") + 6);
    assert_int_equal(number_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"),
                     0);
    struct sum s = stream("{" HI ", \"stream\": true}", 0);
    assert_string_equal(s.content, "Yes.\n");
    assert_string_equal(s.role, "assistant");
    assert_string_equal(s.finish, "stop");
    assert_int_equal(s.usages, 0);
    assert_int_equal(s.chunks, 1 + 5 + 1);
}

static void test_character_over_tokens(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "\xe9\xa2\xa8\xf0\x9f\x99\x82"
                                 "a");
    struct sum s = stream("{" HI ", \"stream\": true}", 0);
    assert_string_equal(s.content, "\xe9\xa2\xa8\xf0\x9f\x99\x82"
                                   "a");
    assert_int_equal(s.contents, 3);
}

static void test_null_is_absent(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "abcdef");
    json_t *a = body("{" HI ", \"temperature\": null, \"top_p\": null, \"max_tokens\": null, "
                     "\"stop\": null, \"seed\": null, \"n\": null, \"stream\": null, "
                     "\"logit_bias\": null, \"response_format\": null, \"tools\": null, "
                     "\"tool_choice\": null, \"logprobs\": null, \"top_logprobs\": null, "
                     "\"user\": null, \"stream_options\": null, \"reasoning_effort\": null, "
                     "\"chat_template_kwargs\": null, \"parallel_tool_calls\": null}");
    assert_string_equal(text_of(message(a, 0), "content"), "abcdef");
    a = body("{" HI ", \"max_completion_tokens\": 3, \"foo\": 1}");
    assert_string_equal(text_of(message(a, 0), "content"), "abc");
    assert_string_equal(text_of(choice(a, 0), "finish_reason"), "length");
}

static void test_stop_text_and_usage(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "four five six seven");
    struct sum s = stream("{" HI ", \"stream\": true, \"stop\": \"six s\", "
                          "\"stream_options\": {\"include_usage\": true}}",
                          0);
    assert_string_equal(s.content, "four five ");
    assert_string_equal(s.finish, "stop");
    assert_int_equal(s.usages, 1);
}

static void test_several_choices(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "ab");
    json_t *a = body("{" HI ", \"n\": 3}");
    assert_int_equal(json_array_size(json_object_get(a, "choices")), 3);
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(number_of(choice(a, k), "index"), k);
        assert_string_equal(text_of(message(a, k), "content"), "ab");
        assert_string_equal(stream("{" HI ", \"n\": 3, \"stream\": true}", k).content, "ab");
    }
}

static void test_logprobs(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "a\xc3\xa9");
    json_t *a = body("{" HI ", \"logprobs\": true, \"top_logprobs\": 2}");
    json_t *list = json_object_get(json_object_get(choice(a, 0), "logprobs"), "content");
    assert_int_equal(json_array_size(list), 3); /* not the end token */
    json_t *first = json_array_get(list, 0), *part = json_array_get(list, 1);
    assert_string_equal(text_of(first, "token"), "a");
    assert_true(json_number_value(json_object_get(first, "logprob")) == -0.125);
    assert_int_equal(json_array_size(json_object_get(first, "top_logprobs")), 2);
    assert_string_equal(text_of(part, "token"), "\xef\xbf\xbd");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(part, "bytes"), 0)), 0xc3);
    struct sum s = stream("{" HI ", \"logprobs\": true, \"stream\": true}", 0);
    assert_int_equal(s.tokens, 3);
    assert_true(s.logprob == -0.75);
    assert_string_equal(s.content, "a\xc3\xa9");
}

static const char one_call[] = "Look: <tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 7}}\n"
                               "</tool_call>";

static void test_tool_calls(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, one_call);
    json_t *a = body("{" HI ", " TOOLS "}");
    json_t *calls = json_object_get(message(a, 0), "tool_calls");
    assert_int_equal(json_array_size(calls), 1);
    json_t *call = json_array_get(calls, 0), *function = json_object_get(call, "function");
    assert_string_equal(text_of(call, "id"), "call_0123abcd_0_0");
    assert_string_equal(text_of(function, "name"), "f");
    assert_string_equal(text_of(function, "arguments"), "{\"n\": 7}");
    assert_string_equal(text_of(message(a, 0), "content"), "Look:");
    assert_string_equal(text_of(choice(a, 0), "finish_reason"), "tool_calls");
    struct sum s = stream("{" HI ", " TOOLS ", \"stream\": true}", 0);
    assert_string_equal(s.content, "Look:");
    assert_string_equal(s.calls, "[0 call_0123abcd_0_0 f]{\"n\": 7}");
    assert_string_equal(s.finish, "tool_calls");
    /* no tools, or none wanted: it is text */
    a = body("{" HI "}");
    assert_string_equal(text_of(message(a, 0), "content"), one_call);
    a = body("{" HI ", " TOOLS ", \"tool_choice\": \"none\"}");
    assert_string_equal(text_of(message(a, 0), "content"), one_call);
    assert_string_equal(text_of(choice(a, 0), "finish_reason"), "stop");
}

static void test_several_calls(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "<tool_call>{\"name\": \"f\"}</tool_call>"
                                 "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 2}}"
                                 "</tool_call>");
    json_t *a = body("{" HI ", " TOOLS "}");
    assert_int_equal(json_array_size(json_object_get(message(a, 0), "tool_calls")), 2);
    assert_true(json_is_null(json_object_get(message(a, 0), "content")));
    struct sum s = stream("{" HI ", " TOOLS ", \"stream\": true}", 0);
    assert_string_equal(s.calls, "[0 call_0123abcd_0_0 f]{}[1 call_0123abcd_0_1 f]{\"n\": 2}");
    a = body("{" HI ", " TOOLS ", \"parallel_tool_calls\": false}");
    assert_int_equal(json_array_size(json_object_get(message(a, 0), "tool_calls")), 1);
    assert_string_equal(text_of(choice(a, 0), "finish_reason"), "tool_calls");
    assert_int_equal(number_of(json_object_get(a, "usage"), "completion_tokens"),
                     strlen("<tool_call>{\"name\": \"f\"}"));
    s = stream("{" HI ", " TOOLS ", \"parallel_tool_calls\": false, \"stream\": true}", 0);
    assert_string_equal(s.calls, "[0 call_0123abcd_0_0 f]{}");
    assert_string_equal(s.finish, "tool_calls");
}

static void test_cut_call(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, one_call);
    json_t *a = body("{" HI ", " TOOLS ", \"max_tokens\": 10}");
    assert_string_equal(text_of(message(a, 0), "content"), "Look:"); /* not half a mark */
    a = body("{" HI ", " TOOLS ", \"max_tokens\": 53}");
    assert_string_equal(text_of(choice(a, 0), "finish_reason"), "length");
    assert_int_equal(json_array_size(json_object_get(message(a, 0), "tool_calls")), 1);
}

/* What is fed back in is understood. */
static void test_whole_conversation(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "ok");
    struct sum s =
        stream("{\"messages\":[{\"role\":\"developer\",\"content\":\"be brief\"},"
               "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},"
               "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
               "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
               "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":[{\"type\":\"text\","
               "\"text\":\"42\"}]}],\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"max_tokens\":4}",
               0);
    assert_string_equal(s.content, "ok");
    assert_int_equal(s.usages, 1);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *request, *param, *part;
    } cases[] = {
        { "[]", NULL, "the body must be an object" },
        { "{}", "messages", "messages is missing" },
        { "{\"messages\": []}", "messages", "messages" },
        { "{\"messages\": \"hi\"}", "messages", "messages" },
        { "{\"messages\": [{\"role\": \"user\"}]}", "messages", "messages[0].content is missing" },
        { "{" HI ", \"max_tokens\": \"4\"}", "max_tokens", "a whole number" },
        { "{" HI ", \"top_logprobs\": 3}", "top_logprobs", "needs logprobs" },
        { "{" HI ", \"logprobs\": 3}", "logprobs", "true or false" },
        { "{" HI ", \"echo\": true}", "echo", "/v1/completions" },
        { "{" HI ", \"response_format\": {\"type\": \"json_object\"}}", "response_format", "text" },
        { "{" HI ", \"tool_choice\": \"required\"}", "tool_choice", "auto" },
        { "{" HI ", \"tool_choice\": {\"type\": \"function\"}}", "tool_choice", "auto" },
        { "{" HI ", \"tools\": [{\"type\": \"web_search\"}]}", "tools", "tools[0]" },
        { "{" HI ", \"tools\": [{\"type\": \"function\"}]}", "tools", "tools[0].function.name" },
        { "{" HI ", \"tools\": {}}", "tools", "a list" },
        { "{" HI ", \"functions\": []}", "functions", "use tools" },
        { "{" HI ", \"parallel_tool_calls\": 1}", "parallel_tool_calls", "true or false" },
        { "{" HI ", \"reasoning_format\": \"x\"}", "reasoning_format", "none" },
        { "{" HI ", \"reasoning_effort\": 1}", "reasoning_effort", "a string" },
        { "{" HI ", \"chat_template_kwargs\": []}", "chat_template_kwargs", "an object" },
        { "{" HI ", \"chat_template_kwargs\": {\"messages\": []}}", "messages", "own field" },
        { "{" HI ", \"continue_final_message\": true}", "messages", "an assistant's" },
        { "{" HI ", \"continue_final_message\": true, \"add_generation_prompt\": true}",
          "continue_final_message", "exclude" },
        { "{" HI ", \"stop\": \"\"}", "stop", "1 to" },
    };
    for (size_t i = 0; i < LEN_OF(cases); i++) {
        json_t *e = json_object_get(api_rig_error(&rig, &dialect_chat, cases[i].request), "error");
        const char *param = text_of(e, "param");
        if (strstr(text_of(e, "message"), cases[i].part) == NULL ||
            strcmp(param != NULL ? param : "", cases[i].param != NULL ? cases[i].param : "") != 0)
            fail_msg("%s: %s: %s", cases[i].request, param, text_of(e, "message"));
        assert_string_equal(text_of(e, "type"), "invalid_request_error");
    }
}

static void test_too_long(void **state)
{
    (void)state;
    char request[4096] = "{\"messages\": [{\"role\": \"user\", \"content\": \"";
    for (int i = 0; i < 1500; i++)
        put(request, sizeof request, "x");
    put(request, sizeof request, "\"}]}");
    json_t *e = json_object_get(api_rig_error(&rig, &dialect_chat, request), "error");
    assert_string_equal(text_of(e, "code"), "context_length_exceeded");
    assert_string_equal(text_of(e, "param"), "messages");
    assert_int_equal(number_of(e, "n_ctx"), 1024);
    assert_true(number_of(e, "n_prompt_tokens") > 1500);
    assert_int_equal(rig.replay.engine.end_id_count, 1);
}

static void test_failing_run(void **state)
{
    (void)state;
    replay_rig_text(&rig.replay, "abcdef");
    rig.replay.fail_step = rig.replay.steps + 4;
    const char *at = api_rig_stream(&rig, &dialect_chat, "{" HI ", \"stream\": true}");
    rig.replay.fail_step = 0;
    char name[64];
    int errors = 0;
    json_t *event;
    while ((event = api_rig_event(&at, name)) != NULL) {
        assert_int_equal(errors, 0);
        errors += json_object_get(event, "error") != NULL;
        json_decref(event);
    }
    assert_int_equal(errors, 1);
    assert_string_equal(at, "");
}

/* A template that opens the thought itself when it is told to. */
static const char thinking[] =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]"
    "{{ '<think>\n\n</think>\n' if enable_thinking is false else '<think>\n' }}{% endif %}";

static void test_reasoning(void **state)
{
    (void)state;
    struct api_rig *r = &rig;
    api_rig_close(r);
    api_rig_open(r, thinking);
    replay_rig_text(&r->replay, "hm, well\n</think>\n\nYes");
    json_t *a = body("{" HI "}");
    assert_string_equal(text_of(message(a, 0), "reasoning_content"), "hm, well");
    assert_string_equal(text_of(message(a, 0), "content"), "Yes");
    struct sum s = stream("{" HI ", \"stream\": true}", 0);
    assert_string_equal(s.reasoning, "hm, well");
    assert_string_equal(s.content, "Yes");
    a = body("{" HI ", \"reasoning_format\": \"none\"}");
    assert_string_equal(text_of(message(a, 0), "content"), "hm, well\n</think>\n\nYes");
    /* no thought is open, so the mark is text */
    a = body("{" HI ", \"enable_thinking\": false}");
    assert_string_equal(text_of(message(a, 0), "content"), "hm, well\n</think>\n\nYes");
    a = body("{" HI ", \"reasoning_effort\": \"none\"}");
    assert_string_equal(text_of(message(a, 0), "content"), "hm, well\n</think>\n\nYes");
    a = body("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": "
             "\"assistant\", \"content\": \"<think>so\"}], \"continue_final_message\": true}");
    assert_string_equal(text_of(message(a, 0), "reasoning_content"), "hm, well");
    api_rig_close(r);
    api_rig_open(r, NULL);
}

static void test_prompt_of(void **state)
{
    (void)state;
    struct chat_prompt prompt;
    struct token_list ids = { 0 };
    struct api_error error;
    json_t *request = json_loads("{" HI ", \"add_generation_prompt\": false}", 0, NULL);
    assert_int_equal(chat_prompt_of(&prompt, &ids, &rig.chat, request, &error), RC_OK);
    assert_string_equal(prompt.out.text, "<|im_start|>user\nhi<|im_end|>\n");
    assert_true(ids.count > 4);
    chat_prompt_close(&prompt);
    token_list_close(&ids);
    json_decref(request);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    static const char *const more[] = { "", ", \"stream\": true",
                                        ", \"stream\": true, \"logprobs\": true, "
                                        "\"top_logprobs\": 1, \"return_progress\": true, "
                                        "\"stream_options\": {\"include_usage\": true}",
                                        ", \"n\": 2, \"logprobs\": true, "
                                        "\"chat_template_kwargs\": {\"a\": [1, \"b\"]}" };
    char body[1024];
    replay_rig_text(&rig.replay, one_call);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        snprintf(body, sizeof body, "{" HI ", " TOOLS "%s}", more[i]);
        assert_true(api_rig_starve(&rig, &dialect_chat, body) > 150);
    }
}

/* The other APIs, over the same text. */
static void test_memory_runs_out_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const struct dialect *dialect;
        const char *body;
    } asks[] = {
        { &dialect_completions, "{\"prompt\": [\"four\", [72, 73]], \"n\": 2, \"echo\": true, "
                                "\"logprobs\": 2, \"stop\": [\"x\"], \"max_tokens\": 5" },
        { &dialect_native, "{\"prompt\": \"a text of some length\", \"n_probs\": 2, "
                           "\"n_predict\": 6, \"return_tokens\": true, \"stop\": [\"x\"]" },
        { &dialect_messages, "{\"max_tokens\": 9, \"system\": \"be brief\", " HI },
        { &dialect_responses, "{\"max_output_tokens\": 9, \"input\": \"hi there\"" },
    };
    char body[1024];
    replay_rig_text(&rig.replay, "Good morning to you.");
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        for (int stream = 0; stream < 2; stream++) {
            snprintf(body, sizeof body, "%s, \"stream\": %s}", asks[i].body,
                     stream ? "true" : "false");
            assert_true(api_rig_starve(&rig, asks[i].dialect, body) > 100);
        }
    assert_true(api_rig_starve(&rig, &dialect_embeddings,
                               "{\"input\": [\"a text of some length\", [72, 73]]}") > 30);
    assert_true(api_rig_starve(&rig, &dialect_embeddings,
                               "{\"input\": \"ab\", \"encoding_format\": \"base64\"}") > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_answer),
        cmocka_unit_test(test_character_over_tokens),
        cmocka_unit_test(test_null_is_absent),
        cmocka_unit_test(test_stop_text_and_usage),
        cmocka_unit_test(test_several_choices),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_tool_calls),
        cmocka_unit_test(test_several_calls),
        cmocka_unit_test(test_cut_call),
        cmocka_unit_test(test_whole_conversation),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_failing_run),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_prompt_of),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_memory_runs_out_elsewhere),
    };
    api_rig_open(&rig, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    api_rig_close(&rig);
    return failed;
}
