/* SPDX-License-Identifier: MIT */
/* Tests of tests/mkmodel: its files open, hold what was asked for, and depend on the seed alone. */
#include "tests/unit/test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/gguf.h"
#include "core/mem.h"
#include "core/name_table.h"
#include "kernels/dequant.h"
#include "tests/mkmodel/mkmodel.h"

static char dir[64];
static char path[128];

static struct mkmodel_spec small_spec(void)
{
    struct mkmodel_spec s;
    assert_true(mkmodel_shape(&s, "tiny"));
    s.layers = 1;
    return s;
}

static struct gguf *write_and_open(const struct mkmodel_spec *s)
{
    struct gguf *g;
    struct fault f;
    char first[160];
    (void)unlink(path); /* overwriting would make some file systems wait for the disk */
    if (mkmodel_write(s, path, &f) != RC_OK)
        fail_msg("%s", f.text);
    mkmodel_path(first, sizeof first, s, path, 0);
    if (gguf_open(&g, first, &f) != RC_OK)
        fail_msg("%s", f.text);
    return g;
}

static void drop_files(const struct mkmodel_spec *s)
{
    for (uint32_t i = 0; i < (s->split > 1 ? s->split : 1); i++) {
        char file[160];
        mkmodel_path(file, sizeof file, s, path, i);
        assert_int_equal(unlink(file), 0);
    }
}

static float *tensor_floats(const struct gguf *g, const char *name, size_t *elems)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    assert_non_null(t);
    *elems = (size_t)t->elems;
    float *y = malloc(*elems * sizeof *y);
    assert_non_null(y);
    dequant_row(t->type, t->data, y, *elems);
    return y;
}

static uint64_t file_sum(const char *file)
{
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    uint64_t sum = 14695981039346656037u;
    for (int c; (c = getc(f)) != EOF;)
        sum = (sum ^ (uint64_t)c) * 1099511628211u;
    fclose(f);
    return sum;
}

/* The bytes are a promise: benchmarks and committed seeds rely on them. */
static void test_same_seed_same_bytes(void **state)
{
    (void)state;
    struct mkmodel_spec s = small_spec();
    gguf_close(write_and_open(&s));
    uint64_t first = file_sum(path);
    gguf_close(write_and_open(&s));
    assert_true(file_sum(path) == first);
    s.seed = 2;
    gguf_close(write_and_open(&s));
    assert_true(file_sum(path) != first);
    drop_files(&s);
}

/* Every format stands for the same weights, and a direct one has the same deviation. */
static void test_formats_share_their_weights(void **state)
{
    (void)state;
    static const char *const types[] = { "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",  "Q5_0",
                                         "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q4_K_M" };
    static const char name[] = "blk.0.ffn_down.weight";
    struct mkmodel_spec s = small_spec();
    size_t elems, again;
    struct gguf *g = write_and_open(&s);
    float *x = tensor_floats(g, name, &elems);
    gguf_close(g);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int direct = 0; direct < 2; direct++) {
            assert_true(mkmodel_type(&s, types[i]));
            s.direct = direct != 0;
            g = write_and_open(&s);
            float *y = tensor_floats(g, name, &again);
            assert_int_equal(again, elems);
            double error = 0, power = 0, mean = 0, cross = 0;
            for (size_t k = 0; k < elems; k++) {
                error += ((double)y[k] - (double)x[k]) * ((double)y[k] - (double)x[k]);
                power += (double)y[k] * (double)y[k];
                cross += (double)x[k] * (double)x[k];
                mean += (double)y[k];
            }
            double size = sqrt(power / (double)elems) * sqrt(512.0);
            if (!(size > 0.97 && size < 1.06) || fabs(mean / (double)elems) > 0.001)
                fail_msg("%s: deviation %g of 1, mean %g", types[i], size, mean / (double)elems);
            if (!s.direct && error / cross > 0.01)
                fail_msg("%s: relative error %g", types[i], sqrt(error / cross));
            free(y);
            gguf_close(g);
        }
    }
    assert_false(mkmodel_type(&s, "IQ1_S"));
    assert_false(mkmodel_type(&s, "Q9_9"));
    free(x);
    drop_files(&s);
}

static void test_mix_gives_more_bits_where_it_counts(void **state)
{
    (void)state;
    struct mkmodel_spec s = small_spec();
    s.layers = 17; /* more bits: 0, 1 | 4, 7, 10, 13 | 14, 15, 16 */
    s.width = 32;
    s.heads = 1;
    s.kv_heads = 1;
    s.head_dim = 256;
    s.ffn = 256;
    assert_true(mkmodel_type(&s, "Q4_K_M"));
    struct gguf *g = write_and_open(&s);
    for (uint32_t layer = 0; layer < 17; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.ffn_down.weight", layer);
        bool more = layer < 2 || layer >= 14 || layer % 3 == 1;
        assert_int_equal(gguf_find_tensor(g, name)->type, more ? DTYPE_Q6_K : DTYPE_Q4_K);
    }
    assert_int_equal(gguf_find_tensor(g, "output.weight")->type, DTYPE_Q8_0); /* 32 columns */
    gguf_close(g);
    drop_files(&s);
}

static void test_split_holds_the_same_tensors(void **state)
{
    (void)state;
    struct mkmodel_spec s = small_spec();
    s.bias = true;
    struct gguf *whole = write_and_open(&s);
    char keep[160];
    snprintf(keep, sizeof keep, "%s.whole", path);
    assert_int_equal(rename(path, keep), 0);
    s.split = 3;
    struct gguf *parts = write_and_open(&s);
    assert_int_equal(gguf_file_count(parts), 3);
    assert_int_equal(gguf_key_count(parts), gguf_key_count(whole) + 3);
    assert_int_equal(gguf_tensor_count(parts), gguf_tensor_count(whole));
    uint32_t last = 0;
    for (size_t i = 0; i < gguf_tensor_count(whole); i++) {
        const struct gguf_tensor *a = gguf_tensor_at(whole, i), *b = gguf_tensor_at(parts, i);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, (size_t)a->bytes);
        assert_true(b->file_index == last || b->file_index == last + 1);
        last = b->file_index;
    }
    assert_int_equal(last, 2);
    gguf_close(parts);
    gguf_close(whole);
    drop_files(&s);
    assert_int_equal(unlink(keep), 0);
}

/* Llama 3 divisors: none for the fast turns, the whole factor for the slow ones, rising between. */
static void test_rope_factors_rise(void **state)
{
    (void)state;
    struct mkmodel_spec s = small_spec();
    size_t count;
    s.rope = MKMODEL_ROPE_LLAMA3;
    s.ctx = 8192;
    s.rope_base = 500000;
    struct gguf *g = write_and_open(&s);
    float *y = tensor_floats(g, "rope_freqs.weight", &count);
    assert_int_equal(count, 32);
    assert_true(y[0] == 1.0f);
    assert_true(y[31] == 8.0f);
    uint32_t blends = 0;
    for (size_t i = 1; i < count; i++) {
        assert_true(y[i] >= y[i - 1]);
        blends += y[i] > 1.0f && y[i] < 8.0f;
    }
    assert_true(blends >= 3);
    free(y);
    gguf_close(g);
    drop_files(&s);
}

/* Both kinds, at sizes small and large: as many tokens as asked for, all different; every merge
 * joins two tokens into a third. */
static void check_vocab(enum mkmodel_vocab kind, uint32_t count)
{
    struct mkmodel_spec s = small_spec();
    s.vocab_kind = kind;
    s.vocab = count;
    struct gguf *g = write_and_open(&s);
    struct fault f;
    const struct gguf_key *tokens, *types, *merges;
    assert_int_equal(gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, &f), RC_OK);
    assert_int_equal(gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_I32, &types, &f), RC_OK);
    assert_int_equal(tokens->count, count);
    assert_int_equal(types->count, count);
    struct name_table known;
    assert_int_equal(name_table_open(&known, count), RC_OK);
    const uint8_t *cursor = tokens->value;
    for (uint32_t i = 0; i < count; i++) {
        struct gguf_text t = gguf_next_text(tokens, &cursor);
        assert_int_equal(name_table_add(&known, t.text, t.len, i), NAME_NONE);
    }
    if (kind == MKMODEL_VOCAB_GPT2) {
        assert_int_equal(gguf_get_array(g, "tokenizer.ggml.merges", GGUF_STRING, &merges, &f),
                         RC_OK);
        assert_int_equal(merges->count, count - 259);
        cursor = merges->value;
        for (uint32_t i = 0; i < merges->count; i++) {
            struct gguf_text m = gguf_next_text(merges, &cursor);
            const char *blank = memchr(m.text, ' ', m.len);
            assert_non_null(blank);
            size_t left = (size_t)(blank - m.text), right = m.len - left - 1;
            char joined[128];
            memcpy(joined, m.text, left);
            memcpy(joined + left, blank + 1, right);
            assert_true(name_table_find(&known, m.text, left) < 256 + i);
            assert_true(name_table_find(&known, blank + 1, right) < 256 + i);
            assert_int_equal(name_table_find(&known, joined, left + right), 256 + i);
        }
    }
    name_table_close(&known);
    gguf_close(g);
    drop_files(&s);
}

static void test_vocabularies_are_complete(void **state)
{
    (void)state;
    check_vocab(MKMODEL_VOCAB_GPT2, 259);
    check_vocab(MKMODEL_VOCAB_GPT2, 20000);
    check_vocab(MKMODEL_VOCAB_SPM, 261);
    check_vocab(MKMODEL_VOCAB_SPM, 20000);
}

static void test_bad_specs_are_refused(void **state)
{
    (void)state;
    struct fault f;
    struct mkmodel_spec s = small_spec();
    s.kv_heads = 3;
    assert_int_equal(mkmodel_write(&s, path, &f), RC_INVALID);
    s = small_spec();
    s.vocab = 258;
    assert_int_equal(mkmodel_write(&s, path, &f), RC_INVALID);
    assert_non_null(strstr(f.text, "vocab 258"));
    s = small_spec();
    s.split = 90;
    assert_int_equal(mkmodel_write(&s, path, &f), RC_INVALID);
    s = small_spec();
    assert_int_equal(mkmodel_write(&s, "/nowhere/at/all.gguf", &f), RC_IO);
    assert_false(mkmodel_shape(&s, "huge"));
    assert_int_equal(access(path, F_OK), -1);
}

static int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/quire-mk-XXXXXX", tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_same_bytes),
        cmocka_unit_test(test_formats_share_their_weights),
        cmocka_unit_test(test_mix_gives_more_bits_where_it_counts),
        cmocka_unit_test(test_split_holds_the_same_tensors),
        cmocka_unit_test(test_rope_factors_rise),
        cmocka_unit_test(test_vocabularies_are_complete),
        cmocka_unit_test(test_bad_specs_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
