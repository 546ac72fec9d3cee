/* SPDX-License-Identifier: MIT */
/* Tests of core/gguf: good files of every kind, and the classes of bad ones. Each bad file must
 * give one line that names the field and the offset, and nothing else. */
#include "tests/unit/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/gguf.h"
#include "core/limits.h"
#include "core/mem.h"
#include "core/rng.h"
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
    (void)unlink(path); /* overwriting would make some file systems wait for the disk */
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

/* A file with one key: name k of this kind, whose value the caller puts. */
static struct bytes one_key(uint32_t kind)
{
    struct bytes b = { 0 };
    gguf_put_head(&b, 3, 0, 1);
    bytes_put_text(&b, "k", 1);
    bytes_put_u32(&b, kind);
    return b;
}

#define VALUE_AT 37u /* offset of that value */

static void test_bad_heads(void **state)
{
    (void)state;
    struct bytes b = { 0 };
    for (uint32_t version = 0; version < 6; version++) {
        gguf_put_head(&b, version, 0, 0);
        if (version == 2 || version == 3) {
            struct gguf *g;
            struct fault f;
            assert_int_equal(open_bytes(&g, &b, &f), RC_OK);
            assert_int_equal(gguf_version(g), version);
            gguf_close(g);
            bytes_close(&b);
        } else {
            expect_bad(&b, RC_UNSUPPORTED, "version", 4);
        }
    }
    gguf_put_head(&b, 3, 0, UINT64_MAX);
    expect_bad(&b, RC_CORRUPT, "key count", 16);
    gguf_put_head(&b, 3, 2, 0); /* one entry short */
    bytes_pad(&b, 33 + 24);
    expect_bad(&b, RC_CORRUPT, "tensor count", 8);
    bytes_put(&b, "tjgg\1\0\0\0", 8);
    expect_bad(&b, RC_UNSUPPORTED, "older than GGUF", 0);
    bytes_put(&b, "version https://git-lfs", 23);
    expect_bad(&b, RC_UNSUPPORTED, "Git LFS pointer", 0);
    bytes_put(&b, "\1\2\3\4", 4);
    expect_bad(&b, RC_CORRUPT, "01 02 03 04 is not \"GGUF\"", 0);
    bytes_put(&b, "GGU", 3);
    expect_bad(&b, RC_CORRUPT, "magic", 0);
    expect_bad(&b, RC_CORRUPT, "magic", 0);
}

static void test_bad_keys(void **state)
{
    (void)state;
    struct bytes b = { 0 };
    gguf_put_head(&b, 3, 0, 1);
    gguf_put_u32(&b, "", 1);
    expect_bad(&b, RC_CORRUPT, "key 0 name", 24);
    gguf_put_head(&b, 3, 0, 1);
    bytes_put_text(&b, "a\0b", 3);
    bytes_put(&b, (uint8_t[8]){ 0 }, 8);
    expect_bad(&b, RC_CORRUPT, "holds a zero byte", 24);
    gguf_put_head(&b, 3, 0, 1);
    bytes_put_u64(&b, GGUF_NAME_BYTES_MAX + 1);
    for (uint32_t i = 0; i <= GGUF_NAME_BYTES_MAX / 8; i++)
        bytes_put_u64(&b, UINT64_MAX);
    gguf_put_u32(&b, "x", 1);
    expect_bad(&b, RC_CORRUPT, "65536 bytes", 24);
    gguf_put_head(&b, 3, 0, 3);
    gguf_put_u32(&b, "a", 1);
    gguf_put_u32(&b, "b", 1);
    gguf_put_u32(&b, "a", 1);
    expect_bad(&b, RC_CORRUPT, "key 'a' name", 24 + 2 * 17);
    b = one_key(13);
    bytes_put_u64(&b, 0);
    expect_bad(&b, RC_CORRUPT, "key 'k' kind", 33);
    b = one_key(GGUF_BOOL);
    bytes_put(&b, "\2", 1);
    expect_bad(&b, RC_CORRUPT, "2 is not a bool", VALUE_AT);
    b = one_key(GGUF_F64);
    bytes_put_u32(&b, 0);
    expect_bad(&b, RC_CORRUPT, "key 'k' value", VALUE_AT);
    b = one_key(GGUF_STRING);
    bytes_put_u64(&b, UINT64_MAX);
    expect_bad(&b, RC_CORRUPT, "key 'k' string", VALUE_AT + 8);
}

static struct bytes one_array(uint32_t elem_kind, uint64_t count)
{
    struct bytes b = one_key(GGUF_ARRAY);
    bytes_put_u32(&b, elem_kind);
    bytes_put_u64(&b, count);
    return b;
}

static void test_bad_arrays(void **state)
{
    (void)state;
    struct bytes b = one_array(13, 0);
    expect_bad(&b, RC_CORRUPT, "element kind", VALUE_AT);
    for (uint32_t kind = 0; kind <= GGUF_F64; kind++) {
        b = one_array(kind, UINT64_MAX / 4);
        bytes_put_u64(&b, 0);
        expect_bad(&b, RC_CORRUPT, "element count", VALUE_AT + 4);
        b = one_array(kind, 9);
        bytes_put_u64(&b, 0);
        expect_bad(&b, RC_CORRUPT, "element count", VALUE_AT + 4);
    }
    b = one_array(GGUF_BOOL, 3);
    bytes_put(&b, "\1\0\377", 3);
    expect_bad(&b, RC_CORRUPT, "255 is not a bool", VALUE_AT + 14);
    b = one_array(GGUF_STRING, 2);
    bytes_put_text(&b, "ab", 2);
    bytes_put_u64(&b, 1);
    expect_bad(&b, RC_CORRUPT, "string", VALUE_AT + 12 + 18);
    b = one_array(GGUF_ARRAY, 1);
    for (int depth = 1; depth < 9; depth++) {
        bytes_put_u32(&b, GGUF_ARRAY);
        bytes_put_u64(&b, 1);
    }
    bytes_pad(&b, 256);
    expect_bad(&b, RC_UNSUPPORTED, "nested deeper than 8", VALUE_AT + 9 * 12);
    b = one_array(GGUF_ARRAY, 3); /* the third one is cut off */
    for (int i = 0; i < 2; i++) {
        bytes_put_u32(&b, GGUF_U8);
        bytes_put_u64(&b, 6);
        bytes_put(&b, "123456", 6);
    }
    expect_bad(&b, RC_CORRUPT, "element kind", VALUE_AT + 12 + 36);
}

static void test_bad_alignment(void **state)
{
    (void)state;
    static const uint32_t bad[] = { 0, 3, 48, 65537, 131072, 1u << 31 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bytes b = { 0 };
        gguf_put_head(&b, 3, 0, 1);
        gguf_put_u32(&b, "general.alignment", bad[i]);
        expect_bad(&b, RC_CORRUPT, "key 'general.alignment' value", 24 + 8 + 17 + 4);
    }
    struct bytes b = { 0 };
    gguf_put_head(&b, 3, 0, 1);
    gguf_put_f32(&b, "general.alignment", 32);
    expect_bad(&b, RC_CORRUPT, "is f32, not an integer", 24 + 8 + 17 + 4);
    gguf_put_head(&b, 3, 0, 1);
    gguf_put_scalar(&b, "general.alignment", GGUF_I64, &(int64_t){ -32 }, 8);
    expect_bad(&b, RC_CORRUPT, "-32", 24 + 8 + 17 + 4);
}

static struct bytes one_tensor(uint32_t dim_count, const uint64_t *dims, uint32_t type,
                               uint64_t offset)
{
    struct bytes b = { 0 };
    gguf_put_head(&b, 3, 1, 0);
    gguf_put_tensor(&b, "t", dim_count, dims, type, offset);
    bytes_pad(&b, 32);
    for (int i = 0; i < 16; i++)
        bytes_put_u64(&b, 0);
    return b;
}

/* Offsets in such a file: dimension count 33, dimensions from 37, type and offset behind them. */
static void test_bad_tensors(void **state)
{
    (void)state;
    static const uint64_t two_32[] = { 1ull << 32, 1ull << 32 };
    static const uint64_t ones[] = { 1, 1, 1, 1, 1 };
    struct bytes b = one_tensor(0, ones, DTYPE_F32, 0);
    expect_bad(&b, RC_CORRUPT, "dimension count", 33);
    b = one_tensor(2, two_32, DTYPE_F32, 0);
    expect_bad(&b, RC_CORRUPT, "dimension", 45);
    b = one_tensor(1, (uint64_t[]){ 1ull << 62 }, DTYPE_F32, 0);
    expect_bad(&b, RC_CORRUPT, "exceeds 64 bits", 37);
    b = one_tensor(1, (uint64_t[]){ 1ull << 63 }, DTYPE_Q8_0, 0);
    expect_bad(&b, RC_CORRUPT, "dimension", 37);
    b = one_tensor(1, (uint64_t[]){ 33 }, DTYPE_Q8_0, 0);
    expect_bad(&b, RC_CORRUPT, "not whole blocks of 32 (Q8_0)", 37);
    b = one_tensor(1, (uint64_t[]){ 128 }, DTYPE_Q4_K, 0);
    expect_bad(&b, RC_CORRUPT, "not whole blocks of 256 (Q4_K)", 37);
    for (uint32_t type = 0; type < 256; type++) {
        if (dtype_find(type) != NULL)
            continue;
        b = one_tensor(1, (uint64_t[]){ 256 }, type, 0);
        const char *name = dtype_withdrawn_name(type);
        expect_bad(&b, RC_UNSUPPORTED, name != NULL ? name : "is unknown", 45);
    }
    b = one_tensor(1, ones, DTYPE_F32, 4);
    expect_bad(&b, RC_CORRUPT, "not a multiple of the alignment", 49);
    b = one_tensor(1, ones, DTYPE_F32, 128);
    expect_bad(&b, RC_CORRUPT, "tensor 't' data", 64);
    b = one_tensor(1, ones, DTYPE_F32, UINT64_MAX - 31);
    expect_bad(&b, RC_CORRUPT, "tensor 't' data", 64);
    b = one_tensor(1, (uint64_t[]){ 33 }, DTYPE_F32, 0);
    expect_bad(&b, RC_CORRUPT, "132 bytes from 0 on, the file has 128", 64);
    gguf_put_head(&b, 3, 2, 0);
    gguf_put_tensor(&b, "t", 1, ones, DTYPE_F32, 0);
    gguf_put_tensor(&b, "t", 1, ones, DTYPE_F32, 0);
    bytes_pad(&b, 32);
    bytes_put_u32(&b, 0);
    expect_bad(&b, RC_CORRUPT, "tensor 't' name", 24 + 33 + 8);
}

/* Counts over our limits in a file that is large enough for them: sparse, so it costs no disk. */
static void test_limits_hold_in_large_files(void **state)
{
    (void)state;
    static const struct {
        uint64_t tensors, keys;
        const char *field;
        uint64_t offset;
    } cases[] = { { GGUF_TENSORS_MAX + 1, 0, "tensor count", 8 },
                  { 0, GGUF_KEYS_MAX + 1, "key count", 16 } };
    const char *path = path_of("t.gguf");
    struct gguf *g;
    struct fault f;
    for (size_t i = 0; i < 2; i++) {
        struct bytes b = { 0 };
        gguf_put_head(&b, 3, cases[i].tensors, cases[i].keys);
        bytes_save(&b, path);
        bytes_close(&b);
        assert_int_equal(truncate(path, 1 << 30), 0);
        assert_int_equal(gguf_open(&g, path, &f), RC_UNSUPPORTED);
        assert_non_null(strstr(f.text, cases[i].field));
    }
    struct bytes b = one_key(GGUF_STRING); /* one value beyond the header's limit */
    bytes_put_u64(&b, GGUF_METADATA_BYTES_MAX);
    bytes_save(&b, path);
    bytes_close(&b);
    assert_int_equal(truncate(path, 1 << 30), 0);
    assert_int_equal(gguf_open(&g, path, &f), RC_UNSUPPORTED);
    assert_non_null(strstr(f.text, "the header's limit"));
}

static void test_things_that_are_no_files(void **state)
{
    (void)state;
    struct gguf *g;
    struct fault f;
    assert_int_equal(gguf_open(&g, path_of("none.gguf"), &f), RC_NOT_FOUND);
    assert_null(g);
    assert_int_equal(gguf_open(&g, dir, &f), RC_UNSUPPORTED);
    assert_int_equal(gguf_open(&g, "/dev/zero", &f), RC_UNSUPPORTED);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(gguf_open(&g, path_of("pipe"), &f), RC_UNSUPPORTED); /* and does not wait */
    assert_int_equal(unlink(path_of("pipe")), 0);
    gguf_close(NULL);
}

/* Names with the worst of bytes make one plain line. */
static void test_hostile_names_stay_on_one_line(void **state)
{
    (void)state;
    struct bytes b = { 0 };
    char name[301];
    memset(name, '\n', 300);
    name[300] = '\0';
    gguf_put_head(&b, 3, 0, 2);
    gguf_put_u32(&b, name, 1);
    gguf_put_u32(&b, name, 1);
    struct gguf *g;
    struct fault f;
    assert_int_equal(open_bytes(&g, &b, &f), RC_CORRUPT);
    assert_null(strchr(f.text, '\n'));
    assert_non_null(strstr(f.text, "\\x0a"));
    bytes_close(&b);
}

/* Reads everything that an open file offers; the bytes must lie in the mapping. */
static uint64_t read_everything(const struct gguf *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < gguf_key_count(g); i++) {
        const struct gguf_key *key = gguf_key_at(g, i);
        enum gguf_kind kind = key->kind == GGUF_ARRAY ? key->elem_kind : key->kind;
        uint64_t count = key->kind == GGUF_ARRAY ? key->count : 1;
        const uint8_t *cursor = key->value;
        for (uint64_t k = 0; k < count && kind != GGUF_ARRAY; k++) {
            if (kind == GGUF_STRING) {
                struct gguf_text t = gguf_next_text(key, &cursor);
                for (size_t c = 0; c < t.len; c++)
                    sum += (uint8_t)t.text[c];
            } else if (kind == GGUF_F32 || kind == GGUF_F64) {
                sum += gguf_key_f64(key, k) > 0;
            } else {
                sum += (uint64_t)gguf_key_i64(key, k);
            }
        }
    }
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        assert_true(t->file_offset + t->bytes <= gguf_file_bytes(g, t->file_index));
        assert_true(t->dim_count >= 1 && t->dim_count <= 4);
        for (uint64_t k = 0; k < t->bytes; k++)
            sum += t->data[k];
    }
    return sum;
}

/* Thousands of files, each good but for a few bytes: refused in one line, or open and readable. */
static void test_mutated_files_are_refused_or_readable(void **state)
{
    (void)state;
    struct bytes b = good_file();
    struct rng r = rng_seeded(20);
    size_t header = b.len - 200, opened = 0, refused = 0, before = mem_live_bytes();
    static const uint8_t edges[] = { 0, 1, 2, 4, 8, 9, 0x7f, 0x80, 0xfe, 0xff };
    uint64_t sum = 0;
    for (int round = 0; round < 6000; round++) {
        struct bytes copy = { 0 };
        bytes_put(&copy, b.data, b.len);
        for (uint64_t n = rng_below(&r, 4) + 1; n > 0; n--) {
            size_t at = (size_t)rng_below(&r, header);
            size_t len = (size_t)rng_below(&r, 3) == 0 ? 8 : 1;
            for (size_t k = at; k < at + len && k < header; k++)
                copy.data[k] = rng_below(&r, 2) == 0 ? edges[rng_below(&r, sizeof edges)]
                                                     : (uint8_t)rng_next(&r);
        }
        struct gguf *g;
        struct fault f;
        enum rc rc = open_bytes(&g, &copy, &f);
        bytes_close(&copy);
        if (rc == RC_OK) {
            opened++;
            sum += read_everything(g);
            gguf_close(g);
        } else {
            refused++;
            assert_true(rc == RC_CORRUPT || rc == RC_UNSUPPORTED);
            assert_true(strlen(f.text) > 10 && strchr(f.text, '\n') == NULL);
        }
    }
    if (opened < 300 || refused < 2000 || sum == 0)
        fail_msg("%zu opened, %zu refused", opened, refused);
    assert_int_equal(mem_live_bytes(), before);
    bytes_close(&b);
}

/* The n-th allocation fails, for every n: an error each time, and nothing is lost. */
static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    struct bytes b = good_file();
    const char *path = path_of("t.gguf");
    bytes_save(&b, path);
    size_t before = mem_live_bytes();
    struct gguf *g;
    struct fault f;
    uint64_t n = 1;
    for (;; n++) {
        mem_fail_after(n);
        enum rc rc = gguf_open(&g, path, &f);
        mem_fail_after(0);
        if (rc == RC_OK)
            break;
        assert_int_equal(rc, RC_NO_MEMORY);
        assert_int_equal(f.code, RC_NO_MEMORY);
        assert_null(g);
        assert_int_equal(mem_live_bytes(), before);
    }
    gguf_close(g);
    assert_true(n > 5 && n < 20);
    bytes_close(&b);
}

/* One part of a split model with one tensor. */
static void save_part(uint32_t no, uint32_t count, const char *tensor, uint32_t name_no,
                      uint32_t name_count, int32_t total)
{
    struct bytes b = { 0 };
    char name[64];
    gguf_put_head(&b, 3, 1, 3);
    gguf_put_u16(&b, "split.no", (uint16_t)no);
    gguf_put_u16(&b, "split.count", (uint16_t)count);
    gguf_put_scalar(&b, "split.tensors.count", GGUF_I32, &total, 4);
    gguf_put_tensor(&b, tensor, 1, (uint64_t[]){ 1 }, DTYPE_F32, 0);
    bytes_pad(&b, 32);
    bytes_put_u32(&b, 100 + no);
    snprintf(name, sizeof name, "s-%05u-of-%05u.gguf", name_no, name_count);
    bytes_save(&b, path_of(name));
    bytes_close(&b);
}

static void expect_split(enum rc code, const char *text)
{
    struct gguf *g;
    struct fault f;
    size_t before = mem_live_bytes();
    enum rc rc = gguf_open(&g, path_of("s-00001-of-00003.gguf"), &f);
    if (rc != code || (code != RC_OK && strstr(f.text, text) == NULL))
        fail_msg("wanted code %d \"%s\", got %d \"%s\"", code, text, rc, rc == RC_OK ? "" : f.text);
    gguf_close(g);
    assert_int_equal(mem_live_bytes(), before);
}

static void test_split_models(void **state)
{
    (void)state;
    struct gguf *g;
    struct fault f;
    save_part(0, 3, "a", 1, 3, 3);
    save_part(1, 3, "b", 2, 3, 3);
    expect_split(RC_CORRUPT, "s-00003-of-00003.gguf: is missing: part 3 of 3");
    save_part(2, 3, "c", 3, 3, 3);
    assert_int_equal(gguf_open(&g, path_of("s-00001-of-00003.gguf"), &f), RC_OK);
    assert_int_equal(gguf_file_count(g), 3);
    assert_int_equal(gguf_tensor_count(g), 3);
    const struct gguf_tensor *t = gguf_find_tensor(g, "c");
    assert_int_equal(t->file_index, 2);
    assert_int_equal(t->data[0], 102);
    assert_non_null(strstr(gguf_file_path(g, 1), "s-00002-of-00003.gguf"));
    gguf_close(g);

    save_part(1, 3, "a", 2, 3, 3);
    expect_split(RC_CORRUPT, "s-00002-of-00003.gguf: tensor 'a' name at byte");
    save_part(2, 3, "b", 2, 3, 3);
    expect_split(RC_CORRUPT, "split.no 2 of split.count 3, expected 1 of 3");
    save_part(1, 4, "b", 2, 3, 3);
    expect_split(RC_CORRUPT, "split.no 1 of split.count 4, expected 1 of 3");
    save_part(1, 3, "b", 2, 3, 3);
    save_part(0, 3, "a", 1, 3, 4);
    expect_split(RC_CORRUPT, "split.tensors.count is 4, the 3 parts have 3 tensors");
    save_part(0, 2, "a", 1, 3, 3);
    expect_split(RC_CORRUPT, "the name does not end in -00001-of-00002.gguf");
    save_part(1, 3, "a", 1, 3, 3);
    expect_split(RC_CORRUPT, "is part 2 of 3 of a model: open the first part");
    save_part(0, 2000, "a", 1, 3, 3);
    expect_split(RC_CORRUPT, "key 'split.count' value at byte");
    for (uint32_t i = 1; i <= 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "s-%05u-of-00003.gguf", i);
        assert_int_equal(unlink(path_of(name)), 0);
    }
}

/* All names different and all found, whatever the table's size. */
static void test_many_tensors_are_found(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct bytes b = { 0 };
    struct gguf *g;
    struct fault f;
    char name[32];
    gguf_put_head(&b, 3, COUNT, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "blk.%u.w", i);
        gguf_put_tensor(&b, name, 1, (uint64_t[]){ 1 }, DTYPE_I8, 0);
    }
    bytes_pad(&b, 32);
    bytes_put(&b, "x", 1);
    assert_int_equal(open_bytes(&g, &b, &f), RC_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "blk.%u.w", i);
        assert_ptr_equal(gguf_find_tensor(g, name), gguf_tensor_at(g, i));
    }
    assert_null(gguf_find_tensor(g, "blk.20000.w"));
    gguf_close(g);
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
        cmocka_unit_test(test_bad_heads),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_bad_alignment),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_limits_hold_in_large_files),
        cmocka_unit_test(test_things_that_are_no_files),
        cmocka_unit_test(test_hostile_names_stay_on_one_line),
        cmocka_unit_test(test_mutated_files_are_refused_or_readable),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_split_models),
        cmocka_unit_test(test_many_tensors_are_found),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
