/* SPDX-License-Identifier: MIT */
/* Tests of frontend/generation, frontend/completion and the answer body: replayed tokens through
 * the real scheduler, detokenizer and stop matcher. */
#include "tests/unit/test.h"

#include <jansson.h>

#include "core/mem.h"
#include "frontend/api/completion.h"
#include "tests/unit/replay_rig.h"

#define IDS(...)                                                                                   \
    (const int32_t[]){ __VA_ARGS__ }, sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t)

static struct replay_rig rig;

static void open_completion(struct completion *c, const char *body)
{
    struct api_error error;
    struct completion_params p, defaults = completion_params_default();
    json_t *json = json_loads(body, 0, NULL);
    assert_non_null(json);
    if (completion_params_open(&p, json, &defaults, REPLAY_VOCAB, &error) != RC_OK)
        fail_msg("%s", error.message);
    json_decref(json);
    if (completion_open(c, &rig.engine, &p, false, &error) != RC_OK)
        fail_msg("%s", error.message);
}

/* A record that was released is free once its last event is taken. */
static void drain_events(void)
{
    while (sched_next_event(rig.engine.sched, 0) != NULL)
        continue;
}

/* Steps until the completion ends; pieces collects the text after each step, separated by '|'. */
static void run(struct completion *c, struct text *pieces)
{
    size_t shown = 0;
    assert_int_equal(completion_submit(c), RC_OK);
    for (bool ended = false; !ended;) {
        sched_step(rig.engine.sched);
        drain_events();
        ended = completion_take(c);
        const struct text *text = &c->choices[0].text;
        if (pieces != NULL && text->len > shown) {
            if (shown > 0)
                assert_int_equal(text_append(pieces, "|", 1), RC_OK);
            assert_int_equal(text_append(pieces, text->data + shown, text->len - shown), RC_OK);
            shown = text->len;
        }
    }
}

static json_t *answer(const char *body)
{
    struct completion c;
    open_completion(&c, body);
    run(&c, NULL);
    assert_false(c.failed);
    json_t *json = completion_body(&c, "cmpl-1", 7);
    assert_non_null(json);
    completion_close(&c);
    return json;
}

static const json_t *choice(const json_t *body, size_t index)
{
    return json_array_get(json_object_get(body, "choices"), index);
}

static const char *string_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void check_text(const char *body, const char *text, const char *finish)
{
    json_t *json = answer(body);
    assert_string_equal(string_of(choice(json, 0), "text"), text);
    assert_string_equal(string_of(choice(json, 0), "finish_reason"), finish);
    json_decref(json);
}

static void test_completion_character_over_tokens(void **state)
{
    (void)state;
    struct completion c;
    struct text pieces = { 0 };
    replay_rig_answer(&rig, IDS(0xe9, 0xa2, 0xa8, 0xf0, 0x9f, 0x99, 0x82, REPLAY_A, REPLAY_EOS));
    open_completion(&c, "{\"prompt\": \"x\", \"max_tokens\": 20}");
    run(&c, &pieces);
    assert_string_equal(pieces.data, "\xe9\xa2\xa8|\xf0\x9f\x99\x82|a");
    assert_int_equal(c.choices[0].finish, FINISH_STOP);
    assert_int_equal(c.choices[0].token_count, 9);
    text_close(&pieces);
    completion_close(&c);
}

static void test_completion_unfinished_character_at_the_end(void **state)
{
    (void)state;
    replay_rig_answer(&rig, IDS(REPLAY_A, 0xf0, 0x9f, 0x99));
    check_text("{\"prompt\": \"x\", \"max_tokens\": 4}", "a\xef\xbf\xbd", "length");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 1}", "a", "length");
}

static const char count_up[] =
    "{\"prompt\": \"count up:\", \"max_tokens\": 5, \"stop\": [\"six seven\"]}";

static void test_completion_stop_over_tokens(void **state)
{
    (void)state;
    struct completion c;
    struct text pieces = { 0 };
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, REPLAY_FIVE, REPLAY_SIX, REPLAY_SEVEN, REPLAY_EIGHT));
    open_completion(&c, count_up);
    run(&c, &pieces);
    assert_string_equal(pieces.data, " four| five| ");
    assert_int_equal(c.choices[0].finish, FINISH_STOP);
    text_close(&pieces);
    completion_close(&c);
    check_text(count_up, " four five ", "stop");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 5, \"stop\": \"six seven\","
               "\"include_stop_str_in_output\": true}",
               " four five six seven", "stop");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 3, \"stop\": \"six seven\"}", " four five six",
               "length");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 5, \"stop_token_ids\": [261]}", " four five",
               "stop");
}

static void test_completion_does_not_depend_on_when_it_is_read(void **state)
{
    (void)state;
    struct completion c;
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, REPLAY_SIX, REPLAY_SEVEN, REPLAY_EIGHT, REPLAY_A));
    open_completion(&c, count_up);
    assert_int_equal(completion_submit(&c), RC_OK);
    while (sched_step(rig.engine.sched)) /* five tokens before the first look */
        drain_events();
    assert_true(completion_take(&c));
    assert_string_equal(c.choices[0].text.data, " four ");
    assert_int_equal(c.choices[0].finish, FINISH_STOP);
    assert_int_equal(completion_output_tokens(&c), 3);
    completion_close(&c);
}

static void test_completion_end_tokens(void **state)
{
    (void)state;
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, REPLAY_EOS, REPLAY_FIVE, REPLAY_SIX));
    check_text("{\"prompt\": \"x\"}", " four", "stop");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 4, \"ignore_eos\": true}", " four five six",
               "length");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 0}", "", "length");
    check_text("{\"prompt\": \"x\", \"max_tokens\": 0, \"echo\": true}", "x", "length");
}

static void test_completion_body_shape(void **state)
{
    (void)state;
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, 0xe9, 0xa2, 0xa8, REPLAY_EOS));
    json_t *json =
        answer("{\"prompt\": [\"a\", \"aa\"], \"n\": 2, \"logprobs\": 2, \"max_tokens\": 8}");
    assert_string_equal(string_of(json, "object"), "text_completion");
    assert_string_equal(string_of(json, "id"), "cmpl-1");
    assert_string_equal(string_of(json, "model"), "replay");
    assert_int_equal(json_integer_value(json_object_get(json, "created")), 7);
    assert_int_equal(json_array_size(json_object_get(json, "choices")), 4);
    const json_t *usage = json_object_get(json, "usage");
    json_int_t prompt = json_integer_value(json_object_get(usage, "prompt_tokens"));
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 20);
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), prompt + 20);
    for (size_t k = 0; k < 4; k++) {
        const json_t *c = choice(json, k), *l = json_object_get(c, "logprobs");
        assert_int_equal(json_integer_value(json_object_get(c, "index")), k);
        assert_string_equal(string_of(c, "text"), " four\xe9\xa2\xa8");
        assert_int_equal(json_array_size(json_object_get(l, "tokens")), 5);
        const json_t *offsets = json_object_get(l, "text_offset");
        static const json_int_t right[] = { 0, 5, 5, 5, 6 };
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(json_integer_value(json_array_get(offsets, i)), right[i]);
        const json_t *top = json_array_get(json_object_get(l, "top_logprobs"), 0);
        double own = json_real_value(json_array_get(json_object_get(l, "token_logprobs"), 0));
        assert_true(own == -0.125 && json_real_value(json_object_get(top, " four")) == own);
        assert_true(json_real_value(json_object_get(top, " five")) == -0.1875);
        assert_string_equal(json_string_value(json_array_get(json_object_get(l, "tokens"), 1)),
                            "\xef\xbf\xbd");
    }
    json_decref(json);
}

static void test_completion_echo(void **state)
{
    (void)state;
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, REPLAY_FIVE));
    json_t *json =
        answer("{\"prompt\": [264, 259, 260], \"max_tokens\": 2, \"echo\": true, \"logprobs\": 0}");
    const json_t *c = choice(json, 0), *l = json_object_get(c, "logprobs");
    assert_string_equal(string_of(c, "text"), "a four five four five");
    assert_int_equal(json_array_size(json_object_get(l, "tokens")), 5);
    assert_true(json_is_null(json_array_get(json_object_get(l, "token_logprobs"), 0)));
    assert_true(json_is_null(json_array_get(json_object_get(l, "top_logprobs"), 0)));
    assert_true(json_is_real(json_array_get(json_object_get(l, "token_logprobs"), 1)));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(l, "text_offset"), 3)), 11);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(l, "text_offset"), 4)), 16);
    json_decref(json);
}

static void test_completion_refuses_what_cannot_fit(void **state)
{
    (void)state;
    struct completion_params defaults = completion_params_default(), p;
    struct api_error error;
    struct completion c;
    json_t *ids = json_array();
    for (int i = 0; i < 64; i++)
        json_array_append_new(ids, json_integer(REPLAY_A));
    json_t *body = json_pack("{s:o, s:i}", "prompt", ids, "max_tokens", 1);
    assert_int_equal(completion_params_open(&p, body, &defaults, REPLAY_VOCAB, &error), RC_OK);
    assert_int_equal(completion_open(&c, &rig.engine, &p, false, &error), RC_INVALID);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.code, "context_length_exceeded");
    assert_int_equal(error.prompt_tokens, 64);
    assert_int_equal(error.context_tokens, 64);
    json_object_set_new(body, "max_tokens", json_integer(0));
    assert_int_equal(completion_params_open(&p, body, &defaults, REPLAY_VOCAB, &error), RC_OK);
    assert_int_equal(completion_open(&c, &rig.engine, &p, false, &error), RC_OK);
    completion_close(&c);
    json_decref(body);
    body = json_loads(
        "{\"prompt\": \"x\", \"stop_token_ids\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}", 0,
        NULL);
    assert_int_equal(completion_params_open(&p, body, &defaults, REPLAY_VOCAB, &error), RC_OK);
    assert_int_equal(completion_open(&c, &rig.engine, &p, false, &error), RC_INVALID);
    assert_string_equal(error.param, "stop_token_ids");
    json_decref(body);
}

/* The choices of a prompt begin together or not at all; prompts one after the other. */
static void test_completion_more_choices_than_room(void **state)
{
    (void)state;
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, REPLAY_EOS));
    struct completion c;
    /* the scheduler holds 8 */
    open_completion(&c, "{\"prompt\": [\"x\", \"y\", \"z\"], \"n\": 3}");
    assert_int_equal(completion_submit(&c), RC_FULL);
    assert_int_equal(c.submitted_count, 6);
    assert_false(completion_take(&c));
    completion_cancel(&c);
    for (int i = 0; i < 100 && c.ended_count < c.submitted_count; i++) {
        sched_step(rig.engine.sched);
        (void)completion_take(&c);
    }
    assert_int_equal(c.ended_count, 6);
    completion_close(&c);
    drain_events();
    struct sched_stats stats = sched_stats_get(rig.engine.sched);
    assert_int_equal(stats.running + stats.waiting, 0);
}

static void test_completion_failed_run(void **state)
{
    (void)state;
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, REPLAY_FIVE, REPLAY_SIX));
    struct completion c;
    open_completion(&c, "{\"prompt\": [\"x\", \"y\"], \"max_tokens\": 3}");
    rig.fail_step = rig.steps + 2;
    run(&c, NULL);
    rig.fail_step = 0;
    assert_true(c.failed);
    assert_int_equal(c.error.status, 500);
    assert_string_equal(c.error.type, "server_error");
    completion_close(&c);
    check_text("{\"prompt\": \"x\", \"max_tokens\": 3}", " four five six", "length");
}

/* A whole request with the n-th allocation failing; true when it was answered all the same. */
static bool try_request(const char *text, uint64_t n)
{
    struct completion_params p, defaults = completion_params_default();
    struct api_error error;
    struct completion c;
    json_t *body = json_loads(text, 0, NULL), *out = NULL;
    mem_fail_after(n);
    enum rc rc = completion_params_open(&p, body, &defaults, REPLAY_VOCAB, &error);
    if (rc == RC_OK)
        rc = completion_open(&c, &rig.engine, &p, false, &error);
    if (rc == RC_OK) {
        assert_true(completion_submit(&c) == RC_OK || c.failed);
        for (bool ended = false; !ended; ended = completion_take(&c)) {
            sched_step(rig.engine.sched);
            drain_events();
        }
        if (!c.failed)
            out = completion_body(&c, "cmpl-1", 7);
        error = c.error;
        completion_close(&c);
        drain_events();
    }
    mem_fail_after(0);
    if (out == NULL && rc != RC_OK)
        assert_int_equal(error.status, 500);
    bool answered = out != NULL;
    json_decref(out);
    json_decref(body);
    return answered;
}

static void test_completion_every_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] =
        "{\"prompt\": [\"four five\", [264, 264]], \"n\": 2, \"max_tokens\": 6,"
        "\"stop\": [\"seven e\"], \"logit_bias\": {\"3\": 1}, \"echo\": true,"
        "\"logprobs\": 0}";
    replay_rig_answer(&rig, IDS(REPLAY_FOUR, 0xe9, 0xa2, 0xa8, REPLAY_SIX, REPLAY_SEVEN));
    size_t before = mem_live_bytes();
    uint64_t n = 1;
    int refused = 0;
    for (int good = 0; good < 3 && n < 1000; n++) { /* three in a row: beyond the last allocation */
        bool answered = try_request(text, n);
        good = answered ? good + 1 : 0;
        refused += !answered;
        assert_int_equal(mem_live_bytes(), before);
        assert_int_equal(sched_stats_get(rig.engine.sched).running, 0);
    }
    assert_in_range(n, 20, 999);
    assert_in_range(refused, 15, n);
    assert_true(try_request(text, 0));
}

static int open_rig(void **state)
{
    (void)state;
    replay_rig_open(&rig, 64, 8);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    replay_rig_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion_character_over_tokens),
        cmocka_unit_test(test_completion_unfinished_character_at_the_end),
        cmocka_unit_test(test_completion_stop_over_tokens),
        cmocka_unit_test(test_completion_does_not_depend_on_when_it_is_read),
        cmocka_unit_test(test_completion_end_tokens),
        cmocka_unit_test(test_completion_body_shape),
        cmocka_unit_test(test_completion_echo),
        cmocka_unit_test(test_completion_refuses_what_cannot_fit),
        cmocka_unit_test(test_completion_more_choices_than_room),
        cmocka_unit_test(test_completion_failed_run),
        cmocka_unit_test(test_completion_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
