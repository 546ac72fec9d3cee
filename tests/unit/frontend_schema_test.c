/* SPDX-License-Identifier: MIT */
/* Tests of frontend/schema: null is absent, unknown is ignored, wrong is an error naming the field.
 * */
#include "tests/unit/test.h"

#include <math.h>

#include "frontend/api/schema.h"

static struct completion_params params;
static struct api_error error;

static enum rc parse(const char *text)
{
    struct completion_params defaults = completion_params_default();
    json_t *body = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(body);
    error = (struct api_error){ 0 };
    enum rc rc = completion_params_open(&params, body, &defaults, 1000, &error);
    json_decref(body);
    return rc;
}

static void test_schema_every_field(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"prompt\": \"hi\", \"temperature\": 0.5, \"top_p\": 1, \"top_k\": -1, \"min_p\": "
              "0.1,"
              "\"typical_p\": 0.9, \"repetition_penalty\": 1.5, \"repeat_last_n\": 64,"
              "\"frequency_penalty\": -2, \"presence_penalty\": 2.0, \"max_tokens\": 7.0, "
              "\"min_tokens\": 3,"
              "\"n\": 2, \"logprobs\": 5, \"seed\": -9, \"stop\": [\"a\", \"b\\u0000c\"],"
              "\"stop_token_ids\": [1, 2], \"ignore_eos\": true, \"include_stop_str_in_output\": "
              "true,"
              "\"logit_bias\": {\"5\": -300, \"6\": 1.5}, \"stream_options\": {\"include_usage\": "
              "true},"
              "\"best_of\": 2, \"response_format\": {\"type\": \"text\"}, \"suffix\": \"\"}"),
        RC_OK);
    const struct sampling *s = &params.sampling;
    assert_true(s->temperature == 0.5f && s->top_p == 1.0f && s->min_p == 0.1f);
    assert_int_equal(s->top_k, 0);
    assert_true(s->typical_p == 0.9f && s->repeat_penalty == 1.5f);
    assert_int_equal(s->repeat_last_n, 64);
    assert_true(s->frequency_penalty == -2.0f && s->presence_penalty == 2.0f);
    assert_true(s->seed == (uint64_t)-9);
    assert_int_equal(params.max_tokens, 7);
    assert_int_equal(params.min_tokens, 3);
    assert_int_equal(params.n, 2);
    assert_int_equal(params.logprobs, 5);
    assert_int_equal(params.stop_count, 2);
    assert_int_equal(params.stops[1].len, 3);
    assert_int_equal(params.stop_id_count, 2);
    assert_true(params.ignore_eos && params.include_stop_text && params.include_usage);
    assert_int_equal(s->bias_count, 2);
    assert_true(s->bias[0].token == 5 && s->bias[0].bias == -100.0f && s->bias[1].bias == 1.5f);
    completion_params_close(&params);
}

static void test_schema_null_is_absent_unknown_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"prompt\": \"hi\", \"temperature\": null, \"top_p\": null, \"max_tokens\": null,"
              "\"stop\": null, \"seed\": null, \"n\": null, \"stream\": null,"
              "\"logit_bias\": null, \"response_format\": null, \"suffix\": null,"
              "\"stream_options\": null, \"user\": \"x\", \"foo\": {\"bar\": [1]}}"),
        RC_OK);
    struct completion_params defaults = completion_params_default();
    assert_memory_equal(&params.sampling, &defaults.sampling, sizeof params.sampling);
    assert_int_equal(params.max_tokens, 16);
    assert_int_equal(params.n, 1);
    assert_int_equal(params.logprobs, -1);
    assert_int_equal(params.stop_count, 0);
    completion_params_close(&params);
    assert_int_equal(parse("{\"prompt\": \"hi\", \"max_completion_tokens\": 3}"), RC_OK);
    assert_int_equal(params.max_tokens, 3);
    completion_params_close(&params);
}

static void test_schema_prompt_forms(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"prompt\": [\"a\", \"b\", [1, 2]]}"), RC_OK);
    assert_int_equal(params.prompt_count, 3);
    assert_string_equal(params.prompts[1].text, "b");
    assert_int_equal(params.prompts[2].id_count, 2);
    completion_params_close(&params);
    assert_int_equal(parse("{\"prompt\": [7, 8, 9]}"), RC_OK);
    assert_int_equal(params.prompt_count, 1);
    assert_int_equal(params.prompts[0].ids[2], 9);
    completion_params_close(&params);
    assert_int_equal(parse("{\"prompt\": [[7], [8, 9]]}"), RC_OK);
    assert_int_equal(params.prompt_count, 2);
    completion_params_close(&params);
    assert_int_equal(parse("{\"prompt\": \"\"}"), RC_OK);
    assert_int_equal(params.prompts[0].len, 0);
    completion_params_close(&params);
}

static void test_schema_llama_cpp_bias_and_stop_string(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"prompt\": \"a\", \"logit_bias\": [[3, 1], [4, false]], \"stop\": \"x\"}"), RC_OK);
    assert_int_equal(params.sampling.bias_count, 2);
    assert_true(isinf(params.sampling.bias[1].bias));
    assert_int_equal(params.stop_count, 1);
    completion_params_close(&params);
}

/* The field that is wrong, the status, and a part of what is said about it. */
static void check(const char *body, const char *param, const char *text)
{
    assert_int_equal(parse(body), RC_INVALID);
    assert_string_equal(error.param, param);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.type, "invalid_request_error");
    if (strstr(error.message, text) == NULL)
        fail_msg("'%s' does not say '%s'", error.message, text);
}

static void test_schema_wrong_values_name_the_field(void **state)
{
    (void)state;
    check("{\"prompt\": \"a\", \"max_tokens\": \"4\"}", "max_tokens",
          "a whole number, not a string");
    check("{\"prompt\": \"a\", \"max_tokens\": 1.5}", "max_tokens", "not a fraction");
    check("{\"prompt\": \"a\", \"max_tokens\": -1}", "max_tokens", "at least 0");
    check("{\"prompt\": \"a\", \"max_tokens\": 1e300}", "max_tokens", "whole number");
    check("{\"prompt\": \"a\", \"max_tokens\": 9223372036854775807}", "max_tokens", "at most");
    check("{\"prompt\": \"a\", \"temperature\": -0.5}", "temperature", "at least 0");
    check("{\"prompt\": \"a\", \"temperature\": [1]}", "temperature", "a number, not a list");
    check("{\"prompt\": \"a\", \"top_p\": 0}", "top_p", "above 0");
    check("{\"prompt\": \"a\", \"top_p\": 1.5}", "top_p", "at most 1");
    check("{\"prompt\": \"a\", \"min_p\": 1}", "min_p", "below 1");
    check("{\"prompt\": \"a\", \"top_k\": -2}", "top_k", "at least -1");
    check("{\"prompt\": \"a\", \"presence_penalty\": 2.5}", "presence_penalty", "at most 2");
    check("{\"prompt\": \"a\", \"repetition_penalty\": 0}", "repetition_penalty", "above 0");
    check("{\"prompt\": \"a\", \"n\": 0}", "n", "at least 1");
    check("{\"prompt\": \"a\", \"n\": 129}", "n", "at most 128");
    check("{\"prompt\": \"a\", \"logprobs\": true}", "logprobs", "a whole number");
    check("{\"prompt\": \"a\", \"logprobs\": 21}", "logprobs", "at most 20");
    check("{\"prompt\": \"a\", \"stream\": 1}", "stream", "true or false");
    check("{\"prompt\": \"a\", \"stop\": [\"\"]}", "stop", "1 to");
    check("{\"prompt\": \"a\", \"stop\": [4]}", "stop", "strings");
    check("{\"prompt\": \"a\", \"stop\": {}}", "stop", "strings");
    check("{\"prompt\": \"a\", \"stop_token_ids\": [1000]}", "stop_token_ids", "1000");
    check("{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "logit_bias", "'x'");
    check("{\"prompt\": \"a\", \"logit_bias\": {\"1000\": 1}}", "logit_bias", "1000");
    check("{\"prompt\": \"a\", \"logit_bias\": {\"1\": \"2\"}}", "logit_bias", "map");
    check("{\"prompt\": \"a\", \"logit_bias\": 3}", "logit_bias", "map");
    check("{\"prompt\": \"a\", \"logit_bias\": [[1]]}", "logit_bias", "list of");
    check("{\"prompt\": \"a\", \"stream_options\": 3}", "stream_options", "object");
    check("{\"prompt\": \"a\", \"min_tokens\": 20}", "min_tokens", "more than max_tokens");
    check("{}", "prompt", "missing");
    check("{\"prompt\": null}", "prompt", "missing");
    check("{\"prompt\": 4}", "prompt", "a string");
    check("{\"prompt\": []}", "prompt", "empty");
    check("{\"prompt\": [[]]}", "prompt", "empty");
    check("{\"prompt\": [1000]}", "prompt", "1000");
    check("{\"prompt\": [-1]}", "prompt", "-1");
    check("{\"prompt\": [1, \"a\"]}", "prompt", "token ids");
    check("{\"prompt\": [\"a\", 1]}", "prompt", "a string");
    check("{\"prompt\": [\"a\", \"b\"], \"n\": 65}", "prompt", "choices");
    check("[]", "", "an object");
    check("\"x\"", "", "an object");
}

static void test_schema_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    check("{\"prompt\": \"a\", \"suffix\": \"b\"}", "suffix", "not supported");
    check("{\"prompt\": \"a\", \"grammar\": \"root ::= x\"}", "grammar", "not supported");
    check("{\"prompt\": \"a\", \"best_of\": 3}", "best_of", "equal to n");
    check("{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}}",
          "response_format", "text");
}

static void test_schema_error_json_is_always_valid(void **state)
{
    (void)state;
    check("{\"prompt\": \"a\", \"logit_bias\": "
          "{\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
          "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
          "\xc3\xa9"
          "x\xc3\xa9\xc3\xa9\": 1}}",
          "logit_bias", "no token id");
    error.prompt_tokens = 9;
    error.context_tokens = 8;
    json_t *json = api_error_json(&error);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "param")), "logit_bias");
    assert_int_equal(json_integer_value(json_object_get(json, "n_ctx")), 8);
    json_decref(json);
    api_error_set(&error, 404, "x", NULL, "%s", "cut \xe9\xa2");
    assert_string_equal(error.message, "cut ??");
    json = api_error_json(&error);
    assert_true(json_is_null(json_object_get(json, "param")));
    assert_string_equal(json_string_value(json_object_get(json, "type")), "not_found_error");
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_every_field),
        cmocka_unit_test(test_schema_null_is_absent_unknown_is_ignored),
        cmocka_unit_test(test_schema_prompt_forms),
        cmocka_unit_test(test_schema_llama_cpp_bias_and_stop_string),
        cmocka_unit_test(test_schema_wrong_values_name_the_field),
        cmocka_unit_test(test_schema_refuses_what_it_cannot_do),
        cmocka_unit_test(test_schema_error_json_is_always_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
