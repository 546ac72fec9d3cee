/* SPDX-License-Identifier: MIT */
/* Tests of kernels/single: the loop over a contiguous cache says what it says over shuffled blocks,
 * for every type of cache, and keeps its last conversation. */
#include "tests/unit/test.h"

#include <unistd.h>

#include "kernels/single.h"
#include "tests/mkmodel/mkmodel.h"
#include "tests/unit/rig.h"

#define CTX 700u /* three splits of attention */
#define PROMPT 600u
#define OUTPUT 40u

static char model_path[] = "/tmp/quire-single-XXXXXX";
static int32_t prompt[CTX];

static struct rig_config config_of(struct kv_types types)
{
    return (struct rig_config){ .rows_max = 64,
                                .outputs_max = 1,
                                .ctx_max = CTX,
                                .sequences = 1,
                                .threads = 2,
                                .isa = cpu_isa(),
                                .kv_types = types,
                                .seed = 3 };
}

static void open_single(struct single *s, const struct rig *r)
{
    struct fault fault = { 0 };
    struct exec_cpu_config c = { .rows_max = 50,
                                 .outputs_max = 1,
                                 .ctx_max = CTX,
                                 .isa = r->config.isa,
                                 .kv_types = r->config.kv_types };
    if (single_open(s, r->model, r->workers, &c, &fault) != RC_OK)
        fail_msg("%s", fault.text);
}

static void answer(struct single *s, uint32_t count, int32_t *out)
{
    assert_int_equal(single_ask(s, prompt, count, &out[0]), RC_OK);
    for (uint32_t i = 1; i < OUTPUT; i++)
        assert_int_equal(single_next(s, &out[i]), RC_OK);
}

static void test_contiguous_says_what_shuffled_blocks_say(void **state)
{
    (void)state;
    static const struct kv_types types[] = { { KV_F16, KV_F16 },
                                             { KV_Q8_0, KV_Q4_0 },
                                             { KV_Q4_0, KV_F16 } };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct rig_config c = config_of(types[i]);
        struct rig r;
        struct single contiguous, shuffled;
        int32_t one[OUTPUT], other[OUTPUT];
        rig_open(&r, model_path, &c);
        open_single(&contiguous, &r);
        assert_int_equal(single_over(&shuffled, r.executor, r.table, NULL), RC_OK);
        answer(&contiguous, PROMPT, one);
        answer(&shuffled, PROMPT, other);
        assert_memory_equal(one, other, sizeof one);
        assert_true(contiguous.result.logprob == shuffled.result.logprob);
        single_close(&shuffled);
        single_close(&contiguous);
        rig_close(&r);
    }
}

/* Rows that an executor is given. */
struct counter {
    struct executor inner;
    uint32_t rows;
};

static enum rc count_rows(void *ctx, const struct batch *b, struct batch_result *results)
{
    struct counter *c = ctx;
    c->rows += b->row_count;
    return c->inner.run(c->inner.ctx, b, results);
}

static void test_the_last_conversation_is_kept(void **state)
{
    (void)state;
    struct rig_config c = config_of((struct kv_types){ KV_F16, KV_F16 });
    struct rig r;
    struct single s;
    int32_t first[OUTPUT], again[OUTPUT];
    rig_open(&r, model_path, &c);
    open_single(&s, &r);
    struct counter counter = { .inner = s.executor };
    s.executor.ctx = &counter;
    s.executor.run = count_rows;
    answer(&s, PROMPT, first);
    assert_int_equal(counter.rows, PROMPT + OUTPUT - 1);
    counter.rows = 0;
    answer(&s, PROMPT, again); /* the same: its last token is computed, for the logits */
    assert_int_equal(counter.rows, OUTPUT);
    assert_memory_equal(first, again, sizeof first);
    memcpy(prompt + PROMPT, first, 20 * sizeof *prompt); /* the next turn */
    prompt[PROMPT + 20] = 5;
    counter.rows = 0;
    assert_int_equal(single_ask(&s, prompt, PROMPT + 21, &again[0]), RC_OK);
    assert_int_equal(counter.rows, 1);
    prompt[400] ^= 1; /* another text */
    counter.rows = 0;
    assert_int_equal(single_ask(&s, prompt, PROMPT, &again[0]), RC_OK);
    assert_int_equal(counter.rows, PROMPT - 400);
    prompt[400] ^= 1;
    single_close(&s);
    rig_close(&r);
}

static void test_the_context_has_an_end(void **state)
{
    (void)state;
    struct rig_config c = config_of((struct kv_types){ KV_F16, KV_F16 });
    struct rig r;
    struct single s;
    int32_t token;
    rig_open(&r, model_path, &c);
    open_single(&s, &r);
    assert_int_equal(single_ask(&s, prompt, CTX, &token), RC_LIMIT);
    assert_int_equal(single_ask(&s, prompt, 0, &token), RC_LIMIT);
    assert_int_equal(single_ask(&s, prompt, CTX - 2, &token), RC_OK);
    assert_int_equal(single_next(&s, &token), RC_OK);
    assert_int_equal(single_next(&s, &token), RC_LIMIT);
    single_close(&s);
    rig_close(&r);
}

static int prepare(void **state)
{
    (void)state;
    struct mkmodel_spec spec;
    struct fault fault = { 0 };
    int fd = mkstemp(model_path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(mkmodel_shape(&spec, "tiny") && mkmodel_type(&spec, "Q8_0"));
    spec.ctx = CTX;
    if (mkmodel_write(&spec, model_path, &fault) != RC_OK)
        fail_msg("%s", fault.text);
    for (uint32_t i = 0; i < CTX; i++)
        prompt[i] = (int32_t)(i * 2654435761u >> 8) & 127;
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unlink(model_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contiguous_says_what_shuffled_blocks_say),
        cmocka_unit_test(test_the_last_conversation_is_kept),
        cmocka_unit_test(test_the_context_has_an_end),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
