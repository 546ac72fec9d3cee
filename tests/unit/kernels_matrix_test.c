/* SPDX-License-Identifier: MIT */
/* kernels_matrix - one request, one answer: the logits of a sequence are the same bits whatever
 * else is in its steps, however it is cut into chunks, on however many threads and at whatever
 * instruction set. Everything is compared with each sequence run alone, token by token, on one
 * thread, scalar. Blocks are scattered over a pool that is NaN where nothing was written. */
#include "tests/unit/test.h"

#include <unistd.h>

#include "tests/kernels/guard.h"
#include "tests/mkmodel/mkmodel.h"
#include "tests/unit/golden.h"
#include "tests/unit/rig.h"

#define SEQUENCES 16u
#define LENGTH_MAX 281u /* crosses a split of attention */
#define CHUNK_MAX 200u
#define SHORT 80u

struct score {
    int32_t tokens[SEQUENCES][LENGTH_MAX];
    uint32_t length[SEQUENCES];
    uint32_t vocab;
    float *right[SEQUENCES]; /* [length][vocab] */
    float *found[SEQUENCES];
};

static void score_open(struct score *s, uint32_t vocab, uint32_t longest)
{
    struct dice d = { 17 };
    s->vocab = vocab;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        s->length[i] = i == 0 ? longest : 1 + dice_below(&d, 40);
        for (uint32_t k = 0; k < s->length[i]; k++)
            s->tokens[i][k] = (int32_t)dice_below(&d, vocab);
        s->right[i] = malloc((size_t)s->length[i] * vocab * sizeof(float));
        s->found[i] = malloc((size_t)s->length[i] * vocab * sizeof(float));
        assert_true(s->right[i] != NULL && s->found[i] != NULL);
    }
}

static void score_close(struct score *s)
{
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        free(s->right[i]);
        free(s->found[i]);
    }
}

static struct kv_types kv_types; /* of every run: the test's choice */

static struct rig_config config(uint32_t threads, enum isa isa, uint32_t rows, uint64_t seed)
{
    return (struct rig_config){ .rows_max = rows,
                                .outputs_max = rows,
                                .ctx_max = LENGTH_MAX,
                                .sequences = SEQUENCES,
                                .threads = threads,
                                .isa = isa,
                                .kv_types = kv_types,
                                .seed = seed };
}

/* The first batch sequences together; sequence i joins at step 2 i, and takes chunks of its own
 * size. */
static void run_together(struct rig *r, struct score *s, uint32_t batch, uint32_t chunk,
                         struct dice *d)
{
    uint32_t at[SEQUENCES] = { 0 };
    for (uint32_t step = 0;; step++) {
        struct rig_part parts[SEQUENCES];
        uint32_t count = 0, waiting = 0;
        for (uint32_t i = 0; i < batch; i++) {
            uint32_t left = s->length[i] - at[i], n = i == 0 ? chunk : 1 + dice_below(d, chunk);
            waiting += left > 0;
            if (left == 0 || step < 2 * i)
                continue;
            n = n < left ? n : left;
            parts[count++] = (struct rig_part){ .sequence = i,
                                                .pos = at[i],
                                                .count = n,
                                                .tokens = s->tokens[i] + at[i],
                                                .logits = s->found[i] + (size_t)at[i] * s->vocab };
            at[i] += n;
        }
        if (waiting == 0)
            break;
        if (count > 0)
            rig_step(r, parts, count);
    }
}

static void check(const struct score *s, uint32_t batch, const char *what)
{
    for (uint32_t i = 0; i < batch; i++) {
        for (uint32_t k = 0; k < s->length[i]; k++) {
            size_t at = (size_t)k * s->vocab;
            if (memcmp(s->right[i] + at, s->found[i] + at, s->vocab * sizeof(float)) != 0)
                fail_msg("%s: sequence %u differs from its run alone at position %u", what, i, k);
        }
        memset(s->found[i], 0xee, (size_t)s->length[i] * s->vocab * sizeof(float));
    }
}

/* whole: every combination; else each batch and each chunk once. The first sequence has longest
 * tokens. */
static void run_matrix(const char *path, bool whole, uint32_t longest)
{
    static const uint32_t batches[] = { 1, 2, 5, 16 }, chunks[] = { 1, 7, 32, CHUNK_MAX };
    struct score s;
    struct rig r;
    struct dice d = { 23 };
    struct rig_config alone = config(1, ISA_SCALAR, 1, 0);
    rig_open(&r, path, &alone);
    score_open(&s, r.model->vocab_count, longest);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        rig_run(&r, i, s.tokens[i], s.length[i], 1, s.right[i]);
    rig_close(&r);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (uint32_t threads = 1; isa_usable((enum isa)isa) && threads <= 2; threads++) {
            struct rig_config c = config(threads, (enum isa)isa, SEQUENCES * CHUNK_MAX, threads);
            rig_open(&r, path, &c);
            for (uint32_t i = 0; i < 16; i += whole ? 1 : 5) {
                char what[128];
                uint32_t batch = batches[i % 4], chunk = chunks[i / 4];
                snprintf(what, sizeof what, "%s, %u threads, batch %u, chunk %u",
                         isa_name((enum isa)isa), threads, batch, chunk);
                memset(r.kv, 0xff, r.block_bytes * r.blocks_per_sequence * SEQUENCES);
                run_together(&r, &s, batch, chunk, &d);
                check(&s, batch, what);
            }
            rig_close(&r);
        }
    }
    score_close(&s);
}

struct shape {
    const char *type;
    uint32_t width, ffn, layers, heads, kv_heads, head_dim;
    bool bias_and_tied;
};

static void run_shape(const struct shape *shape, bool whole, uint32_t longest)
{
    struct mkmodel_spec spec;
    struct fault fault;
    char path[] = "/tmp/quire-matrix-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(mkmodel_shape(&spec, "tiny") && mkmodel_type(&spec, shape->type));
    spec.seed = 5;
    spec.width = shape->width;
    spec.ffn = shape->ffn;
    spec.layers = shape->layers;
    spec.heads = shape->heads;
    spec.kv_heads = shape->kv_heads;
    spec.head_dim = shape->head_dim;
    spec.vocab = 264;
    spec.ctx = 512;
    spec.bias = spec.tied = shape->bias_and_tied;
    if (mkmodel_write(&spec, path, &fault) != RC_OK)
        fail_msg("mkmodel: %s", fault.text);
    run_matrix(path, whole, longest);
    unlink(path);
}

static void test_matrix_q4_0(void **state)
{
    (void)state;
    run_shape(&(struct shape){ "Q4_0", 64, 96, 2, 4, 2, 16, false }, true, LENGTH_MAX);
}

/* Odd head width, three heads of one KV head, biases, tied output. */
static void test_matrix_f16_odd(void **state)
{
    (void)state;
    run_shape(&(struct shape){ "F16", 72, 40, 2, 3, 1, 24, true }, false, SHORT);
}

static void test_matrix_q4_k_m(void **state)
{
    (void)state;
    run_shape(&(struct shape){ "Q4_K_M", 256, 256, 1, 4, 2, 16, false }, false, SHORT);
}

/* A mixture of experts, from outside: rows of other sequences share experts. */
static void test_matrix_mixture(void **state)
{
    (void)state;
    const char *path = golden_path("models/mixtral-Q8_0.gguf");
    if (path == NULL)
        skip();
    run_matrix(path, false, SHORT);
}

/* Every pair of cache types; keys and values of the same type across a split of attention. */
static void test_matrix_kv_types(void **state)
{
    (void)state;
    for (int pair = 1; pair < KV_TYPES * KV_TYPES; pair++) {
        kv_types.k = (enum kv_type)(pair / KV_TYPES);
        kv_types.v = (enum kv_type)(pair % KV_TYPES);
        run_shape(&(struct shape){ "Q8_0", 32, 32, 1, 4, 2, 32, false }, false,
                  kv_types.k == kv_types.v ? LENGTH_MAX : SHORT);
    }
    kv_types = (struct kv_types){ KV_F16, KV_F16 };
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_q4_0),     cmocka_unit_test(test_matrix_f16_odd),
        cmocka_unit_test(test_matrix_q4_k_m),   cmocka_unit_test(test_matrix_mixture),
        cmocka_unit_test(test_matrix_kv_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
