/* SPDX-License-Identifier: MIT */
/* cmd_inspect - `quire inspect`: what is in a model file, as text, as JSON, or one tensor as
 * floats. Everything is written as it is walked: a file with huge arrays costs no memory of ours.
 * Text shows the first elements of arrays and the start of long strings; JSON shows everything.
 * Bytes that are no UTF-8 come out as \xNN in text and as U+FFFD in JSON; numbers that JSON lacks
 * are null. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/gguf.h"
#include "core/load.h"
#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"
#include "frontend/commands.h"
#include "frontend/options.h"
#include "kernels/dequant.h"

#define TEXT_SHOWN_BYTES 100u
#define ELEMENTS_SHOWN 6u
#define NESTING_MAX 16u        /* more than gguf_open lets through */
#define CHUNK_ELEMS (1u << 16) /* whole blocks of every format */

struct flags {
    const char *model, *tensor, *output;
    bool json;
};

static const struct option rows[] = {
    { "-m --model", OPTION_TEXT, offsetof(struct flags, model), 0, 0, "FILE", NULL,
      "the same as the word MODEL" },
    { "--json", OPTION_FLAG, offsetof(struct flags, json), 0, 0, NULL, NULL,
      "everything, as one JSON object" },
    { "--tensor", OPTION_TEXT, offsetof(struct flags, tensor), 0, 0, "NAME", NULL,
      "write this tensor, dequantized, to the file of -o" },
    { "-o --output", OPTION_TEXT, offsetof(struct flags, output), 0, 0, "FILE", NULL,
      "float32 values, rows one after another; - is standard output" },
};

/* A string of the file as text: printable characters, the rest as \xNN, cut when it is long. */
static void print_plain(struct gguf_text t)
{
    size_t shown = t.len < TEXT_SHOWN_BYTES ? t.len : TEXT_SHOWN_BYTES;
    for (size_t i = 0; i < shown;) {
        struct utf8_step step = utf8_decode(t.text + i, t.len - i);
        bool plain =
            step.state == UTF8_OK && step.code >= 0x20 && (step.code < 0x7f || step.code >= 0xa0);
        for (size_t k = i; k < i + step.len; k++) {
            if (!plain)
                printf("\\x%02x", (unsigned char)t.text[k]);
            else
                putchar(t.text[k]);
        }
        i += step.len;
    }
    if (shown < t.len)
        printf("... (%zu bytes)", t.len);
}

static void print_json_text(struct gguf_text t)
{
    putchar('"');
    for (size_t i = 0; i < t.len;) {
        struct utf8_step step = utf8_decode(t.text + i, t.len - i);
        if (step.state != UTF8_OK)
            fputs("\xef\xbf\xbd", stdout);
        else if (step.code < 0x20)
            printf("\\u%04x", step.code);
        else if (step.code == '"' || step.code == '\\')
            printf("\\%c", (int)step.code);
        else
            fwrite(t.text + i, 1, step.len, stdout);
        i += step.len;
    }
    putchar('"');
}

/* The shortest of a few precisions that reads back as the same number. */
static void print_number(double v, bool single, bool json)
{
    char text[40];
    if (json && !isfinite(v)) {
        fputs("null", stdout);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (back == v || (single && (float)back == (float)v))
            break;
    }
    fputs(text, stdout);
}

/* One value of a kind that is no array, at p; returns what follows it. */
static const uint8_t *print_value(enum gguf_kind kind, const uint8_t *p, bool json)
{
    struct gguf_key key = { .kind = kind, .value = p };
    switch (kind) {
    case GGUF_STRING: {
        struct gguf_text t = gguf_next_text(&key, &p);
        (json ? print_json_text : print_plain)(t);
        return p;
    }
    case GGUF_BOOL:
        fputs(gguf_key_i64(&key, 0) != 0 ? "true" : "false", stdout);
        return p + 1;
    case GGUF_F32:
        print_number(gguf_key_f64(&key, 0), true, json);
        return p + 4;
    case GGUF_F64:
        print_number(gguf_key_f64(&key, 0), false, json);
        return p + 8;
    case GGUF_U64: /* gguf_key_i64 would cap it */
        printf("%" PRIu64, load_u64(p));
        return p + 8;
    case GGUF_I64:
        printf("%" PRId64, gguf_key_i64(&key, 0));
        return p + 8;
    case GGUF_U32:
    case GGUF_I32:
        printf("%" PRId64, gguf_key_i64(&key, 0));
        return p + 4;
    case GGUF_U16:
    case GGUF_I16:
        printf("%" PRId64, gguf_key_i64(&key, 0));
        return p + 2;
    case GGUF_U8:
    case GGUF_I8:
        printf("%" PRId64, gguf_key_i64(&key, 0));
        return p + 1;
    case GGUF_ARRAY:
        break;
    }
    must(kind != GGUF_ARRAY);
    return p;
}

/* All elements as JSON, nested arrays too: left[d] elements are still to come at depth d, the kind
 * of all but the deepest level being array. */
static void print_json_array(enum gguf_kind kind, uint64_t count, const uint8_t *p)
{
    uint64_t left[NESTING_MAX];
    uint32_t depth = 0;
    for (;;) {
        putchar('[');
        if (kind == GGUF_ARRAY && count > 0) {
            must(depth < NESTING_MAX);
            left[depth++] = count;
        } else {
            for (uint64_t i = 0; i < count; i++) {
                if (i > 0)
                    putchar(',');
                p = print_value(kind, p, true);
            }
            putchar(']');
            while (depth > 0 && left[depth - 1] == 0) {
                putchar(']');
                depth--;
            }
            if (depth == 0)
                return;
            putchar(',');
        }
        left[depth - 1]--;
        kind = (enum gguf_kind)load_u32(p);
        count = load_u64(p + 4);
        p += 12;
    }
}

static void print_json(const struct gguf *g)
{
    printf("{\"version\":%u,\"files\":[", gguf_version(g));
    for (uint32_t i = 0; i < gguf_file_count(g); i++) {
        const char *path = gguf_file_path(g, i);
        fputs(i > 0 ? ",{\"path\":" : "{\"path\":", stdout);
        print_json_text((struct gguf_text){ path, strlen(path) });
        printf(",\"bytes\":%" PRIu64 "}", gguf_file_bytes(g, i));
    }
    fputs("],\n\"metadata\":{", stdout);
    for (size_t i = 0; i < gguf_key_count(g); i++) {
        const struct gguf_key *key = gguf_key_at(g, i);
        fputs(i > 0 ? ",\n" : "\n", stdout);
        print_json_text(key->name);
        printf(":{\"kind\":\"%s\",", gguf_kind_name(key->kind));
        if (key->kind == GGUF_ARRAY)
            printf("\"elem_kind\":\"%s\",\"count\":%" PRIu64 ",", gguf_kind_name(key->elem_kind),
                   key->count);
        fputs("\"value\":", stdout);
        if (key->kind == GGUF_ARRAY)
            print_json_array(key->elem_kind, key->count, key->value);
        else
            (void)print_value(key->kind, key->value, true);
        putchar('}');
    }
    fputs("},\n\"tensors\":[", stdout);
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        fputs(i > 0 ? ",\n{\"name\":" : "\n{\"name\":", stdout);
        print_json_text(t->name);
        printf(",\"type\":\"%s\",\"dims\":[", dtype_find((uint32_t)t->type)->name);
        for (uint32_t d = 0; d < t->dim_count; d++)
            printf(d > 0 ? ",%" PRIu64 : "%" PRIu64, t->dims[d]);
        printf("],\"elements\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"file\":%u,\"offset\":%" PRIu64
               "}",
               t->elems, t->bytes, t->file_index, t->file_offset);
    }
    fputs("]}\n", stdout);
}

static void print_key(const struct gguf_key *key)
{
    fputs("  ", stdout);
    print_plain(key->name);
    if (key->kind != GGUF_ARRAY) {
        printf("  %s  ", gguf_kind_name(key->kind));
        (void)print_value(key->kind, key->value, false);
        putchar('\n');
        return;
    }
    printf("  %s[%" PRIu64 "]  ", gguf_kind_name(key->elem_kind), key->count);
    const uint8_t *p = key->value;
    uint64_t shown = key->count < ELEMENTS_SHOWN ? key->count : ELEMENTS_SHOWN;
    if (key->elem_kind == GGUF_ARRAY)
        shown = 0;
    for (uint64_t i = 0; i < shown; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        p = print_value(key->elem_kind, p, false);
    }
    puts(shown == key->count ? "" : shown == 0 ? "..." : ", ...");
}

static void print_text(const struct gguf *g)
{
    uint64_t elems = 0, bytes = 0;
    for (uint32_t i = 0; i < gguf_file_count(g); i++)
        printf("%s  %" PRIu64 " bytes\n", gguf_file_path(g, i), gguf_file_bytes(g, i));
    printf("GGUF version %u, %zu keys, %zu tensors\n\nkeys\n", gguf_version(g), gguf_key_count(g),
           gguf_tensor_count(g));
    for (size_t i = 0; i < gguf_key_count(g); i++)
        print_key(gguf_key_at(g, i));
    puts("\ntensors");
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        fputs("  ", stdout);
        print_plain(t->name);
        printf("  %s  [", dtype_find((uint32_t)t->type)->name);
        for (uint32_t d = 0; d < t->dim_count; d++)
            printf(d > 0 ? " x %" PRIu64 : "%" PRIu64, t->dims[d]);
        printf("]  %" PRIu64 " bytes at %" PRIu64 "%s", t->bytes, t->file_offset,
               gguf_file_count(g) > 1 ? "" : "\n");
        if (gguf_file_count(g) > 1)
            printf(" of file %u\n", t->file_index + 1);
        /* Sums may not wrap even if a file says that all tensors share the same bytes. */
        elems = __builtin_add_overflow(elems, t->elems, &elems) ? UINT64_MAX : elems;
        bytes = __builtin_add_overflow(bytes, t->bytes, &bytes) ? UINT64_MAX : bytes;
    }
    printf("\n%" PRIu64 " values in %" PRIu64 " bytes", elems, bytes);
    if (elems > 0)
        printf(", %.2f bits each", (double)bytes * 8 / (double)elems);
    putchar('\n');
}

static enum rc write_floats(const struct gguf_tensor *t, FILE *out, const char *path,
                            struct fault *fault)
{
    const struct dtype_info *info = dtype_find((uint32_t)t->type);
    must(info != NULL && CHUNK_ELEMS % info->block_elems == 0);
    float *chunk = mem_alloc_array(CHUNK_ELEMS, sizeof *chunk);
    if (chunk == NULL)
        return fault_set(fault, RC_NO_MEMORY, "%s", rc_text(RC_NO_MEMORY));
    const uint8_t *src = t->data;
    bool ok = true;
    for (uint64_t left = t->elems; left > 0 && ok;) {
        size_t count = left < CHUNK_ELEMS ? (size_t)left : CHUNK_ELEMS;
        dequant_row(t->type, src, chunk, count);
        ok = fwrite(chunk, sizeof *chunk, count, out) == count;
        src += count / info->block_elems * info->block_bytes;
        left -= count;
    }
    mem_free(chunk);
    if (fflush(out) != 0)
        ok = false;
    return ok ? RC_OK : fault_set_errno(fault, RC_IO, "%s: cannot be written", path);
}

static enum rc write_tensor(const struct gguf *g, const struct flags *f, struct fault *fault)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, f->tensor);
    if (t == NULL)
        return fault_set(fault, RC_INVALID, "%s has no tensor %s", gguf_file_path(g, 0), f->tensor);
    if (strcmp(f->output, "-") == 0)
        return write_floats(t, stdout, "standard output", fault);
    FILE *out = fopen(f->output, "wb");
    if (out == NULL)
        return fault_set_errno(fault, RC_IO, "%s: cannot be written", f->output);
    enum rc rc = write_floats(t, out, f->output, fault);
    if (fclose(out) != 0 && rc == RC_OK)
        rc = fault_set_errno(fault, RC_IO, "%s: cannot be written", f->output);
    if (rc != RC_OK)
        (void)unlink(f->output); /* half a tensor looks like a whole one */
    return rc;
}

static enum rc inspect(const struct flags *f, struct fault *fault)
{
    struct gguf *g;
    enum rc rc = gguf_open(&g, f->model, fault);
    if (rc == RC_IO || rc == RC_NOT_FOUND)
        return RC_CORRUPT; /* for the exit status an unreadable file is a bad model */
    if (rc != RC_OK)
        return rc;
    if (f->tensor != NULL)
        rc = write_tensor(g, f, fault);
    else
        (f->json ? print_json : print_text)(g);
    gguf_close(g);
    if (rc == RC_OK && (fflush(stdout) != 0 || ferror(stdout)))
        rc = fault_set_errno(fault, RC_IO, "standard output");
    return rc;
}

int cmd_inspect(int argc, char **argv)
{
    struct flags f = { 0 };
    struct fault fault;
    const struct option_group group = { NULL, rows, sizeof rows / sizeof rows[0], &f };
    struct option_set set = { .command = "inspect",
                              .usage = "MODEL [--json | --tensor NAME -o FILE]",
                              .purpose = "Lists the metadata and tensors of a GGUF file.",
                              .groups = &group,
                              .group_count = 1,
                              .operands = &f.model,
                              .operand_max = 1 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    enum rc rc;
    if (f.model == NULL)
        rc = fault_set(&fault, RC_USAGE, "no model: quire inspect MODEL");
    else if ((f.tensor == NULL) != (f.output == NULL))
        rc = fault_set(&fault, RC_USAGE, "--tensor NAME and -o FILE go together");
    else if (f.tensor != NULL && f.json)
        rc = fault_set(&fault, RC_USAGE, "--tensor and --json exclude each other");
    else
        rc = inspect(&f, &fault);
    if (rc != RC_OK)
        fprintf(stderr, "quire inspect: %s\n", fault.text);
    return rc_exit_status(rc);
}
