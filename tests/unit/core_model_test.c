/* SPDX-License-Identifier: MIT */
/* Tests of core/model: sizes and views of good files, and one clear line for each way in which a
 * file can disagree with itself or ask for what is not there. Bad files are good ones with a few
 * bytes changed, so everything else about them is right. */
#include "tests/unit/test.h"

#include <math.h>
#include <unistd.h>

#include "core/limits.h"
#include "core/mem.h"
#include "core/model.h"
#include "tests/mkmodel/mkmodel.h"

struct image {
    uint8_t *data;
    size_t bytes;
};

static const char *temp_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/quire-model-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return path;
}

static struct mkmodel_spec tiny(void)
{
    struct mkmodel_spec spec;
    assert_true(mkmodel_shape(&spec, "tiny") && mkmodel_type(&spec, "F32"));
    spec.width = 64;
    spec.head_dim = 16;
    spec.ffn = 32;
    spec.vocab = 264;
    spec.bias = true;
    return spec;
}

static struct image make_image(const struct mkmodel_spec *spec)
{
    struct fault fault;
    const char *path = temp_path();
    if (mkmodel_write(spec, path, &fault) != RC_OK)
        fail_msg("mkmodel: %s", fault.text);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    struct image image = { malloc(4u << 20), 0 };
    assert_non_null(image.data);
    image.bytes = fread(image.data, 1, 4u << 20, f);
    assert_true(image.bytes > 0 && image.bytes < 4u << 20);
    fclose(f);
    unlink(path);
    return image;
}

/* Offset just behind the stored name (its length in front of it, so no part of a longer one
 * matches). */
static size_t after(const struct image *image, const char *name)
{
    uint8_t stored[128];
    uint64_t len = strlen(name);
    memcpy(stored, &len, 8);
    memcpy(stored + 8, name, len);
    uint8_t *at = memmem(image->data, image->bytes, stored, 8 + len);
    if (at == NULL)
        fail_msg("the fixture has no %s", name);
    return (size_t)(at - image->data) + 8 + len;
}

static void set_u32(struct image *image, const char *key, uint32_t value)
{
    memcpy(image->data + after(image, key) + 4, &value, sizeof value);
}

static void set_f32(struct image *image, const char *key, float value)
{
    memcpy(image->data + after(image, key) + 4, &value, sizeof value);
}

/* The name's last letter changes, so the reader no longer finds it. */
static void hide(struct image *image, const char *name)
{
    image->data[after(image, name) - 1] ^= 1;
}

static void set_dims(struct image *image, const char *tensor, uint64_t d0, uint64_t d1)
{
    uint64_t dims[2] = { d0, d1 };
    memcpy(image->data + after(image, tensor) + 4, dims, sizeof dims);
}

/* Tensor names end in dim_count, dims, type, offset. */
static void set_type(struct image *image, const char *tensor, uint32_t dim_count, enum dtype type)
{
    uint32_t number = (uint32_t)type;
    memcpy(image->data + after(image, tensor) + 4 + 8 * dim_count, &number, sizeof number);
}

static enum rc open_image(const struct image *image, struct fault *fault)
{
    const char *path = temp_path();
    struct gguf *g = NULL;
    struct model *m = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(image->data, 1, image->bytes, f), image->bytes);
    fclose(f);
    enum rc rc = gguf_open(&g, path, fault);
    if (rc != RC_OK)
        fail_msg("the directory itself is refused: %s", fault->text);
    rc = model_open(&m, g, fault);
    if (rc == RC_OK)
        model_close(m);
    gguf_close(g);
    unlink(path);
    return rc;
}

/* The changed image is refused with this code and a line that has the word; image is consumed. */
static void refuse(struct image image, enum rc code, const char *word)
{
    struct fault fault = { 0 };
    enum rc rc = open_image(&image, &fault);
    if (rc != code || strstr(fault.text, word) == NULL)
        fail_msg("wanted %s and \"%s\", got %s and \"%s\"", rc_text(code), word, rc_text(rc),
                 fault.text);
    assert_null(strchr(fault.text, '\n'));
    free(image.data);
}

static void test_model_sizes(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    struct fault fault = { 0 };
    const char *path = temp_path();
    struct gguf *g;
    struct model *m;
    size_t live = mem_live_bytes();
    assert_int_equal(mkmodel_write(&spec, path, &fault), RC_OK);
    assert_int_equal(gguf_open(&g, path, &fault), RC_OK);
    assert_int_equal(model_open(&m, g, &fault), RC_OK);
    assert_string_equal(m->arch->name, "llama");
    assert_int_equal(m->layer_count, 2);
    assert_int_equal(m->width, 64);
    assert_int_equal(m->ff_width, 32);
    assert_int_equal(m->head_count, 4);
    assert_int_equal(m->kv_head_count, 2);
    assert_int_equal(m->head_dim, 16);
    assert_int_equal(m->vocab_count, 264);
    assert_true(m->norm_eps == 1e-5f && m->attn_scale == 0.25f);
    assert_non_null(m->layers[1].q_bias);
    assert_non_null(m->layers[1].o_bias);
    /* q and o, k and v, three of the feed-forward; in each layer; and the output. */
    uint64_t weights = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 32) + 264 * 64;
    assert_int_equal(m->weight_bytes, weights * sizeof(float));
    assert_ptr_not_equal(m->output.data, m->embed.data);
    model_close(m);
    gguf_close(g);
    unlink(path);
    assert_int_equal(mem_live_bytes(), live);
}

static void test_model_tied_and_scaled(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    struct fault fault = { 0 };
    const enum mkmodel_rope ropes[] = { MKMODEL_ROPE_LINEAR, MKMODEL_ROPE_YARN,
                                        MKMODEL_ROPE_LLAMA3 };
    spec.tied = true;
    spec.rope_factor = 8;
    for (size_t i = 0; i < 3; i++) {
        const char *path = temp_path();
        struct gguf *g;
        struct model *m;
        spec.rope = ropes[i];
        assert_int_equal(mkmodel_write(&spec, path, &fault), RC_OK);
        assert_int_equal(gguf_open(&g, path, &fault), RC_OK);
        assert_int_equal(model_open(&m, g, &fault), RC_OK);
        assert_ptr_equal(m->output.data, m->embed.data);
        assert_int_equal(m->rope.scaling, i == 0   ? MODEL_ROPE_LINEAR
                                          : i == 1 ? MODEL_ROPE_YARN
                                                   : MODEL_ROPE_PLAIN);
        assert_true(m->rope.factor == (i == 2 ? 1.0f : 4.0f));
        assert_true((m->rope.freq_factors != NULL) == (i == 2));
        if (i == 1)
            assert_int_equal(m->rope.ctx_orig, 128);
        model_close(m);
        gguf_close(g);
        unlink(path);
    }
}

static void test_model_bad_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        enum rc code;
        const char *word;
    } cases[] = {
        { "llama.block_count", 0, RC_CORRUPT, "block_count" },
        { "llama.block_count", MODEL_LAYERS_MAX + 1, RC_CORRUPT, "block_count" },
        { "llama.block_count", 3, RC_CORRUPT, "blk.2." },
        { "llama.embedding_length", 0, RC_CORRUPT, "embedding_length" },
        { "llama.embedding_length", UINT32_MAX, RC_CORRUPT, "embedding_length" },
        { "llama.embedding_length", 128, RC_CORRUPT, "token_embd.weight" },
        { "llama.feed_forward_length", 0, RC_CORRUPT, "feed_forward_length" },
        { "llama.feed_forward_length", 64, RC_CORRUPT, "ffn_gate.weight" },
        { "llama.context_length", 0, RC_CORRUPT, "context_length" },
        { "llama.attention.head_count", 0, RC_CORRUPT, "head_count" },
        { "llama.attention.head_count", MODEL_HEADS_MAX + 1, RC_CORRUPT, "head_count" },
        { "llama.attention.head_count", 1, RC_CORRUPT, "head_count_kv" },
        { "llama.attention.head_count", 2, RC_CORRUPT, "" },
        { "llama.attention.head_count_kv", 0, RC_CORRUPT, "head_count_kv" },
        { "llama.attention.head_count_kv", 3, RC_CORRUPT, "multiple" },
        { "llama.attention.head_count_kv", 4, RC_CORRUPT, "attn_k.weight" },
        { "llama.attention.head_count_kv", 5, RC_CORRUPT, "head_count_kv" },
        { "llama.rope.dimension_count", 0, RC_CORRUPT, "dimension_count" },
        { "llama.rope.dimension_count", 7, RC_CORRUPT, "dimension_count" },
        { "llama.rope.dimension_count", 18, RC_CORRUPT, "dimension_count" },
    };
    struct mkmodel_spec spec = tiny();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image image = make_image(&spec);
        set_u32(&image, cases[i].key, cases[i].value);
        refuse(image, cases[i].code, cases[i].word);
    }
}

static void test_model_bad_numbers(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    static const float eps[] = { 0, -1, NAN, INFINITY, 2 }, base[] = { 0, 1, -5, NAN, INFINITY };
    for (size_t i = 0; i < 5; i++) {
        struct image image = make_image(&spec);
        set_f32(&image, "llama.attention.layer_norm_rms_epsilon", eps[i]);
        refuse(image, RC_CORRUPT, "epsilon");
        image = make_image(&spec);
        set_f32(&image, "llama.rope.freq_base", base[i]);
        refuse(image, RC_CORRUPT, "freq_base");
    }
    spec.rope = MKMODEL_ROPE_YARN;
    static const float factor[] = { 0.5f, -4, NAN, INFINITY };
    for (size_t i = 0; i < 4; i++) {
        struct image image = make_image(&spec);
        set_f32(&image, "llama.rope.scaling.factor", factor[i]);
        refuse(image, RC_CORRUPT, "scaling.factor");
    }
    struct image image = make_image(&spec);
    set_u32(&image, "llama.rope.scaling.original_context_length", 0);
    refuse(image, RC_CORRUPT, "original_context_length");
}

static void test_model_missing(void **state)
{
    (void)state;
    static const char *const names[] = {
        "general.architecture",
        "llama.block_count",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.context_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "token_embd.weight",
        "output_norm.weight",
        "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight",
        "blk.1.attn_k.weight",
        "blk.0.attn_v.weight",
        "blk.1.attn_output.weight",
        "blk.0.ffn_norm.weight",
        "blk.0.ffn_gate.weight",
        "blk.1.ffn_up.weight",
        "blk.0.ffn_down.weight",
    };
    struct mkmodel_spec spec = tiny();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct image image = make_image(&spec);
        hide(&image, names[i]);
        refuse(image, RC_CORRUPT, names[i]);
    }
}

static void test_model_bad_tensors(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    struct image image = make_image(&spec);
    set_dims(&image, "blk.0.ffn_down.weight", 64, 32);
    refuse(image, RC_CORRUPT, "blk.0.ffn_down.weight");
    image = make_image(&spec);
    set_dims(&image, "blk.1.attn_q.weight", 32, 128);
    refuse(image, RC_CORRUPT, "blk.1.attn_q.weight");
    image = make_image(&spec);
    set_dims(&image, "token_embd.weight", 64, 200); /* fewer rows than the tokenizer has tokens */
    refuse(image, RC_CORRUPT, "tokenizer.ggml.tokens");
    image = make_image(&spec);
    set_dims(&image, "output.weight", 64, 263);
    refuse(image, RC_CORRUPT, "output.weight");
    image = make_image(&spec);
    set_type(&image, "blk.0.attn_v.weight", 2, DTYPE_I32);
    refuse(image, RC_UNSUPPORTED, "blk.0.attn_v.weight");
    image = make_image(&spec);
    set_type(&image, "blk.0.attn_norm.weight", 1, DTYPE_F16);
    refuse(image, RC_UNSUPPORTED, "blk.0.attn_norm.weight");
    image = make_image(&spec);
    uint64_t short_bias = 32;
    memcpy(image.data + after(&image, "blk.0.attn_q.bias") + 4, &short_bias, sizeof short_bias);
    refuse(image, RC_CORRUPT, "blk.0.attn_q.bias");
}

static void test_model_unsupported(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    struct image image = make_image(&spec);
    memcpy(image.data + after(&image, "general.architecture") + 12, "lla\x1b[", 5);
    refuse(image, RC_UNSUPPORTED, "this build knows: llama");
    spec.rope = MKMODEL_ROPE_YARN;
    image = make_image(&spec);
    memcpy(image.data + after(&image, "llama.rope.scaling.type") + 12, "yarm", 4);
    refuse(image, RC_UNSUPPORTED, "yarm");
}

/* Divisors from the file. */
static void test_model_bad_freq_factors(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    spec.rope = MKMODEL_ROPE_LLAMA3;
    spec.rope_factor = 8;
    static const float bad[] = { 0, -1, NAN, INFINITY };
    for (size_t i = 0; i < 4; i++) {
        struct image image = make_image(&spec);
        struct gguf *g;
        struct fault fault = { 0 };
        const char *path = temp_path();
        assert_int_equal(mkmodel_write(&spec, path, &fault), RC_OK);
        assert_int_equal(gguf_open(&g, path, &fault), RC_OK);
        const struct gguf_tensor *t = gguf_find_tensor(g, "rope_freqs.weight");
        assert_non_null(t);
        memcpy(image.data + t->file_offset + 4, &bad[i], sizeof bad[i]);
        gguf_close(g);
        unlink(path);
        refuse(image, RC_CORRUPT, "rope_freqs.weight");
    }
}

/* The n-th allocation fails, for every n: an error and nothing leaked. */
static void test_model_no_memory(void **state)
{
    (void)state;
    struct mkmodel_spec spec = tiny();
    struct fault fault = { 0 };
    const char *path = temp_path();
    struct gguf *g;
    assert_int_equal(mkmodel_write(&spec, path, &fault), RC_OK);
    assert_int_equal(gguf_open(&g, path, &fault), RC_OK);
    size_t live = mem_live_bytes();
    uint32_t failures = 0;
    for (uint64_t n = 1;; n++) {
        struct model *m = NULL;
        mem_fail_after(n);
        enum rc rc = model_open(&m, g, &fault);
        mem_fail_after(0);
        if (rc == RC_OK) {
            model_close(m);
            break;
        }
        assert_int_equal(rc, RC_NO_MEMORY);
        assert_int_equal(mem_live_bytes(), live);
        failures++;
    }
    assert_int_equal(failures, 3 + 1 + 2 * 6); /* model, layers, list; vectors */
    gguf_close(g);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_sizes),       cmocka_unit_test(test_model_tied_and_scaled),
        cmocka_unit_test(test_model_bad_sizes),   cmocka_unit_test(test_model_bad_numbers),
        cmocka_unit_test(test_model_missing),     cmocka_unit_test(test_model_bad_tensors),
        cmocka_unit_test(test_model_unsupported), cmocka_unit_test(test_model_bad_freq_factors),
        cmocka_unit_test(test_model_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
