/* SPDX-License-Identifier: MIT */
/* Tests of core/gguf: good files of every kind, and the classes of bad ones. Each bad file must
 * give one line that names the field and the offset, and nothing else. */
#include "tests/unit/test.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/gguf.h"
#include "core/limits.h"
#include "core/mem.h"
#include "tests/mkmodel/gguf_write.h"

static char dir[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Opens the bytes as a file. */
static enum rc open_bytes(struct gguf **g, const struct bytes *b, struct fault *f)
{
    *f = (struct fault){ 0 };
    const char *path = path_of("t.gguf");
    bytes_save(b, path);
    return gguf_open(g, path, f);
}

static void expect_bad(struct bytes *b, enum rc code, const char *field, uint64_t offset)
{
    struct gguf *g;
    struct fault f;
    char place[64];
    snprintf(place, sizeof place, "at byte %llu: ", (unsigned long long)offset);
    size_t before = mem_live_bytes();
    enum rc rc = open_bytes(&g, b, &f);
    if (rc != code || strstr(f.text, field) == NULL || strstr(f.text, place) == NULL)
        fail_msg("wanted code %d, \"%s\" %s; got %d, \"%s\"", code, field, place, rc, f.text);
    assert_null(g);
    assert_int_equal(f.code, code);
    assert_int_equal(rc_exit_status(rc), 3);
    assert_null(strchr(f.text, '\n'));
    assert_int_equal(mem_live_bytes(), before);
    bytes_close(b);
}

static const uint64_t dims_32_2[] = { 32, 2 };

/* A small good file: every kind of metadata, three tensors. */
static struct bytes good_file(void)
{
    struct bytes b = { 0 };
    gguf_put_head(&b, 3, 3, 17);
    gguf_put_string(&b, "general.architecture", "llama");
    gguf_put_u32(&b, "general.alignment", 64);
    gguf_put_scalar(&b, "k.u8", GGUF_U8, &(uint8_t){ 200 }, 1);
    gguf_put_scalar(&b, "k.i8", GGUF_I8, &(int8_t){ -3 }, 1);
    gguf_put_u16(&b, "k.u16", 65000);
    gguf_put_scalar(&b, "k.i16", GGUF_I16, &(int16_t){ -300 }, 2);
    gguf_put_u32(&b, "k.u32", 4000000000u);
    gguf_put_scalar(&b, "k.i32", GGUF_I32, &(int32_t){ -70000 }, 4);
    gguf_put_f32(&b, "k.f32", 0.5f);
    gguf_put_bool(&b, "k.bool", true);
    gguf_put_scalar(&b, "k.u64", GGUF_U64, &(uint64_t){ UINT64_MAX }, 8);
    gguf_put_scalar(&b, "k.i64", GGUF_I64, &(int64_t){ INT64_MIN }, 8);
    gguf_put_scalar(&b, "k.f64", GGUF_F64, &(double){ 1e-3 }, 8);
    gguf_put_array(&b, "a.texts", GGUF_STRING, 3);
    bytes_put_text(&b, "one", 3);
    bytes_put_text(&b, "", 0);
    bytes_put_text(&b, "t\0o", 3);
    gguf_put_array(&b, "a.i16", GGUF_I16, 2);
    bytes_put(&b, (int16_t[]){ -1, 7 }, 4);
    gguf_put_array(&b, "a.empty", GGUF_F32, 0);
    gguf_put_array(&b, "a.nested", GGUF_ARRAY, 2); /* [[1, 2], [["x"], []]] */
    bytes_put_u32(&b, GGUF_U8);
    bytes_put_u64(&b, 2);
    bytes_put(&b, "\1\2", 2);
    bytes_put_u32(&b, GGUF_ARRAY);
    bytes_put_u64(&b, 2);
    bytes_put_u32(&b, GGUF_STRING);
    bytes_put_u64(&b, 1);
    bytes_put_text(&b, "x", 1);
    bytes_put_u32(&b, GGUF_ARRAY);
    bytes_put_u64(&b, 0);
    gguf_put_tensor(&b, "w.q8", 2, dims_32_2, DTYPE_Q8_0, 0); /* 68 bytes */
    gguf_put_tensor(&b, "w.f32", 1, (uint64_t[]){ 3 }, DTYPE_F32, 128);
    gguf_put_tensor(&b, "w.f16", 4, (uint64_t[]){ 2, 1, 2, 1 }, DTYPE_F16, 192);
    bytes_pad(&b, 64);
    for (unsigned i = 0; i < 200; i++)
        bytes_put(&b, &(uint8_t){ (uint8_t)i }, 1);
    return b;
}

static void test_open_reads_every_kind(void **state)
{
    (void)state;
    struct bytes b = good_file();
    struct gguf *g;
    struct fault f;
    if (open_bytes(&g, &b, &f) != RC_OK)
        fail_msg("%s", f.text);
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_file_count(g), 1);
    assert_int_equal(gguf_file_bytes(g, 0), b.len);
    assert_string_equal(gguf_file_path(g, 0), path_of("t.gguf"));
    assert_int_equal(gguf_key_count(g), 17);
    static const struct {
        const char *name;
        int64_t value;
    } ints[] = { { "k.u8", 200 },        { "k.i8", -3 },          { "k.u16", 65000 },
                 { "k.i16", -300 },      { "k.u32", 4000000000 }, { "k.i32", -70000 },
                 { "k.u64", INT64_MAX }, { "k.i64", INT64_MIN },  { "k.bool", 1 } };
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++)
        assert_true(gguf_key_i64(gguf_find_key(g, ints[i].name), 0) == ints[i].value);
    assert_true(gguf_key_f64(gguf_find_key(g, "k.f32"), 0) == 0.5);
    assert_true(gguf_key_f64(gguf_find_key(g, "k.f64"), 0) == 1e-3);
    assert_true(gguf_key_f64(gguf_find_key(g, "k.i32"), 0) == -70000.0);

    const struct gguf_key *key;
    assert_int_equal(gguf_get_array(g, "a.texts", GGUF_STRING, &key, &f), RC_OK);
    assert_int_equal(key->count, 3);
    const uint8_t *cursor = key->value;
    struct gguf_text text = gguf_next_text(key, &cursor);
    assert_true(text.len == 3 && memcmp(text.text, "one", 3) == 0);
    assert_int_equal(gguf_next_text(key, &cursor).len, 0);
    text = gguf_next_text(key, &cursor);
    assert_true(text.len == 3 && memcmp(text.text, "t\0o", 3) == 0);
    assert_int_equal(gguf_get_array(g, "a.i16", GGUF_I16, &key, &f), RC_OK);
    assert_int_equal(gguf_key_i64(key, 0), -1);
    assert_int_equal(gguf_key_i64(key, 1), 7);
    assert_int_equal(gguf_get_array(g, "a.empty", GGUF_F32, &key, &f), RC_OK);
    assert_int_equal(key->count, 0);
    assert_int_equal(gguf_find_key(g, "a.nested")->count, 2);

    const struct gguf_tensor *t = gguf_find_tensor(g, "w.q8");
    assert_non_null(t);
    assert_int_equal(gguf_tensor_count(g), 3);
    assert_ptr_equal(t, gguf_tensor_at(g, 0));
    assert_int_equal(t->type, DTYPE_Q8_0);
    assert_int_equal(t->dim_count, 2);
    assert_int_equal(t->elems, 64);
    assert_int_equal(t->bytes, 68);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->file_offset % 64, 0);
    assert_int_equal(t->data[5], 5);
    assert_int_equal(gguf_find_tensor(g, "w.f32")->data[0], 128);
    t = gguf_find_tensor(g, "w.f16");
    assert_int_equal(t->data[0], 192);
    assert_int_equal(t->elems, 4);
    assert_int_equal(t->dim_count, 4);
    assert_null(gguf_find_tensor(g, "w.f"));
    assert_null(gguf_find_key(g, ""));
    gguf_close(g);
    bytes_close(&b);
}

static void test_getters_check_kind_and_range(void **state)
{
    (void)state;
    struct bytes b = good_file();
    struct gguf *g;
    struct fault f;
    assert_int_equal(open_bytes(&g, &b, &f), RC_OK);
    uint32_t n = 77;
    float x = 7.0f;
    bool flag = false;
    struct gguf_text text;
    const struct gguf_key *key;
    assert_int_equal(gguf_get_u32(g, "none", 0, 9, &n, &f), RC_NOT_FOUND);
    assert_int_equal(n, 77);
    assert_int_equal(gguf_get_u32(g, "k.u8", 0, 200, &n, &f), RC_OK);
    assert_int_equal(n, 200);
    assert_int_equal(gguf_get_u32(g, "k.u8", 201, 300, &n, &f), RC_CORRUPT);
    assert_non_null(strstr(f.text, "k.u8 is 200"));
    assert_int_equal(gguf_get_u32(g, "k.u16", 0, 64999, &n, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_u32(g, "k.i8", 0, UINT32_MAX, &n, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_u32(g, "k.i64", 0, UINT32_MAX, &n, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_u32(g, "k.u64", 0, UINT32_MAX, &n, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_u32(g, "k.f32", 0, 1, &n, &f), RC_CORRUPT);
    assert_non_null(strstr(f.text, "k.f32 is f32, not an integer"));
    assert_int_equal(gguf_get_u32(g, "k.bool", 0, 1, &n, &f), RC_CORRUPT);
    assert_int_equal(n, 200);
    assert_int_equal(gguf_get_f32(g, "k.f64", &x, &f), RC_OK);
    assert_true(x == 1e-3f);
    assert_int_equal(gguf_get_f32(g, "k.u8", &x, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_bool(g, "k.bool", &flag, &f), RC_OK);
    assert_true(flag);
    assert_int_equal(gguf_get_bool(g, "k.u8", &flag, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_text(g, "general.architecture", &text, &f), RC_OK);
    assert_true(text.len == 5 && memcmp(text.text, "llama", 5) == 0);
    assert_int_equal(gguf_get_text(g, "a.texts", &text, &f), RC_CORRUPT);
    assert_non_null(strstr(f.text, "an array of string"));
    assert_int_equal(gguf_get_array(g, "a.i16", GGUF_I32, &key, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_array(g, "k.u8", GGUF_U8, &key, &f), RC_CORRUPT);
    assert_int_equal(gguf_get_array(g, "none", GGUF_U8, &key, NULL), RC_NOT_FOUND);
    gguf_close(g);
    bytes_close(&b);
}

/* CASES T20: the bytes as they were reported. */
static void test_bad_files_as_reported(void **state)
{
    (void)state;
    struct bytes b = { 0 };
    bytes_put(&b, "GGUF", 4); /* a: magic only */
    expect_bad(&b, RC_CORRUPT, "version", 4);
    gguf_put_head(&b, 3, 1ull << 63, 0); /* b */
    expect_bad(&b, RC_CORRUPT, "tensor count", 8);
    gguf_put_head(&b, 3, 0, 1); /* c */
    bytes_put_u64(&b, INT64_MAX);
    bytes_put(&b, "0123456789", 10);
    expect_bad(&b, RC_CORRUPT, "key 0 name", 32);
    gguf_put_head(&b, 3, 1, 0); /* d */
    gguf_put_tensor(&b, "t", 5, (uint64_t[]){ 1, 1, 1, 1, 1 }, DTYPE_F32, 0);
    bytes_pad(&b, 32);
    expect_bad(&b, RC_CORRUPT, "tensor 't' dimension count", 33);
    gguf_put_head(&b, 3, 1, 0); /* e */
    gguf_put_tensor(&b, "t", 2, (uint64_t[]){ 32, 0 }, DTYPE_F32, 0);
    expect_bad(&b, RC_CORRUPT, "tensor 't' dimension", 45);
    bytes_put(&b, "GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24); /* f */
    expect_bad(&b, RC_UNSUPPORTED, "version", 4);
    bytes_put(&b, "<!DOCTYPE html><html></html>", 28); /* g */
    expect_bad(&b, RC_UNSUPPORTED, "magic", 0);
    gguf_put_head(&b, 3, 1, 0); /* i */
    gguf_put_tensor(&b, "t", 1, (uint64_t[]){ 32 }, 255, 0);
    bytes_pad(&b, 32);
    expect_bad(&b, RC_UNSUPPORTED, "tensor 't' type", 45);
}

/* CASES T20 h and more: a good file cut anywhere is refused, at every length. */
static void test_truncation_at_every_byte(void **state)
{
    (void)state;
    struct bytes b = good_file();
    struct gguf *g;
    struct fault f;
    assert_int_equal(open_bytes(&g, &b, &f), RC_OK);
    const struct gguf_tensor *last = gguf_find_tensor(g, "w.f16");
    size_t data_end = (size_t)(last->file_offset + last->bytes);
    gguf_close(g);
    const char *path = path_of("t.gguf");
    for (size_t len = data_end; len-- > 0;) {
        assert_int_equal(truncate(path, (off_t)len), 0);
        enum rc rc = gguf_open(&g, path, &f);
        if (rc != RC_CORRUPT || strstr(f.text, "at byte") == NULL)
            fail_msg("%zu bytes: code %d, %s", len, rc, f.text);
    }
    bytes_close(&b);
}

static int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/quire-gguf-XXXXXX",
             tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path_of("t.gguf"));
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_reads_every_kind),
        cmocka_unit_test(test_getters_check_kind_and_range),
        cmocka_unit_test(test_bad_files_as_reported),
        cmocka_unit_test(test_truncation_at_every_byte),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
