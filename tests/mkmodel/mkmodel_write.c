/* SPDX-License-Identifier: MIT */
/* mkmodel_write - the list of tensors, the keys, and the files of a made-up model.
 * The header is put together in memory, tensor data is streamed row by row. Formats per tensor
 * follow what llama.cpp's quantizer does, so that sizes and speeds are comparable: a row that is
 * not whole blocks of 256 falls back to a format of 32. */
#include "tests/mkmodel/mkmodel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "core/mem.h"
#include "core/must.h"
#include "kernels/quantize.h"

#define ALIGNMENT 32u
#define TENSORS_PER_LAYER_MAX 13u

struct plan {
    const struct mkmodel_spec *spec;
    struct mkmodel_tensor *tensors;
    uint32_t count;
};

static const struct mkmodel_spec shapes[] = {
    { .name = "tiny",
      .width = 256,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 64,
      .ffn = 512,
      .vocab = 512,
      .ctx = 512,
      .rope_base = 10000 },
    { .name = "tinyllama-1.1b",
      .width = 2048,
      .layers = 22,
      .heads = 32,
      .kv_heads = 4,
      .head_dim = 64,
      .ffn = 5632,
      .vocab = 32000,
      .ctx = 2048,
      .rope_base = 10000,
      .direct = true },
    { .name = "llama-3.2-1b",
      .width = 2048,
      .layers = 16,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 64,
      .ffn = 8192,
      .vocab = 128256,
      .ctx = 131072,
      .rope_base = 500000,
      .rope = MKMODEL_ROPE_LLAMA3,
      .rope_factor = 32,
      .tied = true,
      .direct = true },
    { .name = "llama-3-8b",
      .width = 4096,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .ffn = 14336,
      .vocab = 128256,
      .ctx = 8192,
      .rope_base = 500000,
      .direct = true },
};

bool mkmodel_shape(struct mkmodel_spec *out, const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strcmp(shapes[i].name, name) != 0)
            continue;
        *out = shapes[i];
        out->seed = 1;
        out->type = DTYPE_F32;
        if (out->rope_factor == 0)
            out->rope_factor = 8;
        return true;
    }
    return false;
}

bool mkmodel_type(struct mkmodel_spec *spec, const char *name)
{
    spec->mix = strcmp(name, "Q4_K_M") == 0;
    if (spec->mix) {
        spec->type = DTYPE_Q4_K;
        return true;
    }
    return dtype_parse(&spec->type, name) && quantize_has(spec->type);
}

uint32_t mkmodel_script_count(const struct mkmodel_spec *spec)
{
    size_t len = spec->script != NULL ? strlen(spec->script) : 0;
    return (uint32_t)((len + MKMODEL_SCRIPT_BYTES - 1) / MKMODEL_SCRIPT_BYTES);
}

void mkmodel_script(struct mkmodel_spec *spec, const char *text)
{
    must(mkmodel_shape(spec, "tiny"));
    spec->name = "script";
    spec->script = text;
    spec->layers = 1;
    spec->ctx = 4096;
    spec->vocab_kind = MKMODEL_VOCAB_GPT2;
    spec->vocab = mkmodel_vocab_min(spec->vocab_kind) + mkmodel_script_count(spec);
}

static enum rc check_spec(const struct mkmodel_spec *s, struct fault *fault)
{
    const struct {
        const char *name;
        uint32_t value, min, max;
    } fields[] = {
        { "width", s->width, 32, MODEL_WIDTH_MAX },
        { "layers", s->layers, 1, MODEL_LAYERS_MAX },
        { "heads", s->heads, 1, MODEL_HEADS_MAX },
        { "kv-heads", s->kv_heads, 1, s->heads },
        { "head-dim", s->head_dim, 2, MODEL_HEAD_DIM_MAX },
        { "ffn", s->ffn, 32, MODEL_WIDTH_MAX },
        { "vocab", s->vocab, mkmodel_vocab_min(s->vocab_kind), MODEL_VOCAB_MAX },
        { "ctx", s->ctx, 4, CTX_TOKENS_MAX },
        { "split", s->split, 0, 99 },
        { "experts", s->experts, 0, MODEL_EXPERTS_MAX },
        { "experts-used", s->experts_used, 0, s->experts },
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].value < fields[i].min || fields[i].value > fields[i].max)
            return fault_set(fault, RC_INVALID, "%s %u: %u to %u are allowed", fields[i].name,
                             fields[i].value, fields[i].min, fields[i].max);
    if (s->heads % s->kv_heads != 0)
        return fault_set(fault, RC_INVALID, "kv-heads %u do not divide heads %u", s->kv_heads,
                         s->heads);
    if (s->head_dim % 2 != 0)
        return fault_set(fault, RC_INVALID, "head-dim %u is odd", s->head_dim);
    return RC_OK;
}

/* llama.cpp's answer to rows that are not whole blocks. */
static enum dtype fit_type(enum dtype type, uint32_t cols)
{
    const struct dtype_info *info = dtype_find((uint32_t)type);
    must(info != NULL);
    if (cols % info->block_elems == 0)
        return type;
    if (cols % 32 != 0)
        return DTYPE_F16;
    return type == DTYPE_Q4_K ? DTYPE_Q5_0 : type == DTYPE_Q5_K ? DTYPE_Q5_1 : DTYPE_Q8_0;
}

static struct mkmodel_tensor *add(struct plan *p, const char *name, uint32_t cols, uint32_t rows,
                                  enum dtype type)
{
    struct mkmodel_tensor *t = &p->tensors[p->count++];
    *t = (struct mkmodel_tensor){ .type = fit_type(type, cols), .cols = cols, .rows = rows };
    snprintf(t->name, sizeof t->name, "%s", name);
    t->deviation = 1.0f / sqrtf((float)cols); /* outputs keep the size of inputs */
    return t;
}

static void add_norm(struct plan *p, const char *name)
{
    struct mkmodel_tensor *t = add(p, name, p->spec->width, 0, DTYPE_F32);
    t->mean = 1.0f;
    t->deviation = 0.1f;
}

/* Matrix blk.LAYER.NAME.weight with, for attention and when asked for, its bias. */
static void add_matrix(struct plan *p, uint32_t layer, const char *name, uint32_t cols,
                       uint32_t rows, enum dtype type)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    (void)add(p, full, cols, rows, type);
    if (!p->spec->bias || strncmp(name, "attn", 4) != 0)
        return;
    snprintf(full, sizeof full, "blk.%u.%s.bias", layer, name);
    add(p, full, rows, 0, DTYPE_F32)->deviation = 0.1f;
}

/* A part of the feed-forward network; with experts, all of theirs in one tensor. */
static void add_feed(struct plan *p, uint32_t layer, const char *name, uint32_t cols, uint32_t rows,
                     enum dtype type)
{
    uint32_t experts = p->spec->experts;
    char full[48];
    snprintf(full, sizeof full, "%s%s", name, experts > 0 ? "_exps" : "");
    add_matrix(p, layer, full, cols, experts > 0 ? rows * experts : rows, type);
    p->tensors[p->count - 1].slices = experts;
}

static void add_layer(struct plan *p, uint32_t layer)
{
    const struct mkmodel_spec *s = p->spec;
    char name[64];
    uint32_t q_rows = s->heads * s->head_dim, kv_rows = s->kv_heads * s->head_dim, n = s->layers;
    /* Q4_K_M: more bits in the first and last eighth and in every third layer between. */
    bool more = s->mix && (layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2);
    enum dtype rich = more ? DTYPE_Q6_K : s->type;
    snprintf(name, sizeof name, "blk.%u.attn_norm.weight", layer);
    add_norm(p, name);
    add_matrix(p, layer, "attn_q", s->width, q_rows, s->type);
    add_matrix(p, layer, "attn_k", s->width, kv_rows, s->type);
    add_matrix(p, layer, "attn_v", s->width, kv_rows, rich);
    add_matrix(p, layer, "attn_output", q_rows, s->width, s->type);
    snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", layer);
    add_norm(p, name);
    if (s->experts > 0)
        add_matrix(p, layer, "ffn_gate_inp", s->width, s->experts, DTYPE_F32);
    add_feed(p, layer, "ffn_gate", s->width, s->ffn, s->type);
    add_feed(p, layer, "ffn_up", s->width, s->ffn, s->type);
    add_feed(p, layer, "ffn_down", s->ffn, s->width, rich);
}

static void make_plan(struct plan *p, const struct mkmodel_spec *s)
{
    *p = (struct plan){ .spec = s };
    p->tensors = mem_alloc_array(4 + (size_t)s->layers * TENSORS_PER_LAYER_MAX, sizeof *p->tensors);
    must(p->tensors != NULL);
    enum dtype output = s->mix ? DTYPE_Q6_K : s->type;
    float deviation = 2.0f / sqrtf((float)s->width); /* logits of deviation 2 */
    add(p, "token_embd.weight", s->width, s->vocab, s->tied ? output : s->type)->deviation =
        deviation;
    add_norm(p, "output_norm.weight");
    if (!s->tied)
        add(p, "output.weight", s->width, s->vocab, output)->deviation = deviation;
    if (s->rope == MKMODEL_ROPE_LLAMA3)
        add(p, "rope_freqs.weight", s->head_dim / 2, 0, DTYPE_F32)->rope_factors = true;
    for (uint32_t layer = 0; layer < s->layers; layer++)
        add_layer(p, layer);
    must(p->count <= 4 + s->layers * TENSORS_PER_LAYER_MAX);
}

/* general.file_type: what llama.cpp calls the mix. */
static uint32_t file_type(const struct mkmodel_spec *s)
{
    switch ((int)s->type) {
    case DTYPE_F16:
        return 1;
    case DTYPE_Q4_0:
        return 2;
    case DTYPE_Q4_1:
        return 3;
    case DTYPE_Q8_0:
        return 7;
    case DTYPE_Q5_0:
        return 8;
    case DTYPE_Q5_1:
        return 9;
    case DTYPE_Q4_K:
        return s->mix ? 15 : 14;
    case DTYPE_Q5_K:
        return 16;
    case DTYPE_Q6_K:
        return 18;
    case DTYPE_BF16:
        return 32;
    default:
        return 0;
    }
}

static uint32_t put_rope(struct bytes *b, const struct mkmodel_spec *s)
{
    gguf_put_f32(b, "llama.rope.freq_base", s->rope_base);
    gguf_put_u32(b, "llama.rope.dimension_count", s->head_dim);
    if (s->rope != MKMODEL_ROPE_LINEAR && s->rope != MKMODEL_ROPE_YARN)
        return 2;
    gguf_put_string(b, "llama.rope.scaling.type", s->rope == MKMODEL_ROPE_YARN ? "yarn" : "linear");
    gguf_put_f32(b, "llama.rope.scaling.factor", 4.0f);
    if (s->rope == MKMODEL_ROPE_LINEAR)
        return 4;
    gguf_put_u32(b, "llama.rope.scaling.original_context_length", s->ctx / 4);
    return 5;
}

static uint32_t put_model_keys(struct bytes *b, const struct mkmodel_spec *s)
{
    uint32_t count = 13;
    gguf_put_string(b, "general.architecture", "llama");
    gguf_put_string(b, "general.name", s->name);
    gguf_put_u32(b, "general.alignment", ALIGNMENT);
    gguf_put_u32(b, "general.file_type", file_type(s));
    gguf_put_u32(b, "general.quantization_version", 2);
    gguf_put_u32(b, "llama.context_length", s->ctx);
    gguf_put_u32(b, "llama.embedding_length", s->width);
    gguf_put_u32(b, "llama.block_count", s->layers);
    gguf_put_u32(b, "llama.feed_forward_length", s->ffn);
    gguf_put_u32(b, "llama.attention.head_count", s->heads);
    gguf_put_u32(b, "llama.attention.head_count_kv", s->kv_heads);
    gguf_put_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_put_u32(b, "llama.vocab_size", s->vocab);
    if (s->width != s->heads * s->head_dim) {
        gguf_put_u32(b, "llama.attention.key_length", s->head_dim);
        gguf_put_u32(b, "llama.attention.value_length", s->head_dim);
        count += 2;
    }
    if (s->experts > 0) {
        gguf_put_u32(b, "llama.expert_count", s->experts);
        gguf_put_u32(b, "llama.expert_used_count", s->experts_used > 0 ? s->experts_used : 2);
        count += 2;
    }
    count += put_rope(b, s);
    return count + mkmodel_put_vocab(b, s);
}

/* Header of the file that holds tensors [begin, end). */
static void put_header(struct bytes *b, const struct plan *p, uint32_t index, uint32_t begin,
                       uint32_t end)
{
    struct bytes keys = { 0 };
    uint32_t key_count = index == 0 ? put_model_keys(&keys, p->spec) : 0;
    if (p->spec->split > 1) {
        gguf_put_u16(&keys, "split.no", (uint16_t)index);
        gguf_put_u16(&keys, "split.count", (uint16_t)p->spec->split);
        gguf_put_scalar(&keys, "split.tensors.count", GGUF_I32, &(int32_t){ (int32_t)p->count }, 4);
        key_count += 3;
    }
    gguf_put_head(b, 3, end - begin, key_count);
    bytes_put(b, keys.data, keys.len);
    bytes_close(&keys);
    uint64_t offset = 0;
    for (uint32_t i = begin; i < end; i++) {
        const struct mkmodel_tensor *t = &p->tensors[i];
        size_t row_bytes;
        must(dtype_row_bytes(&row_bytes, t->type, t->cols));
        uint64_t dims[] = { t->cols, t->rows, t->slices };
        if (t->slices > 0)
            dims[1] /= t->slices;
        gguf_put_tensor(b, t->name, t->slices > 0 ? 3 : t->rows == 0 ? 1 : 2, dims,
                        (uint32_t)t->type, offset);
        offset += row_bytes * (t->rows == 0 ? 1 : t->rows);
        offset = (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    bytes_pad(b, ALIGNMENT);
}

static bool write_tensor(FILE *f, const struct plan *p, const struct mkmodel_tensor *t)
{
    static const uint8_t zeros[ALIGNMENT];
    size_t row_bytes, rows = t->rows == 0 ? 1 : t->rows;
    must(dtype_row_bytes(&row_bytes, t->type, t->cols));
    float *scratch = mem_alloc_array(t->cols, sizeof *scratch);
    uint8_t *row = mem_alloc(row_bytes);
    must(scratch != NULL && row != NULL);
    bool ok = true;
    for (uint32_t r = 0; r < rows && ok; r++) {
        mkmodel_row(p->spec, t, r, scratch, row);
        ok = fwrite(row, 1, row_bytes, f) == row_bytes;
    }
    size_t pad = (ALIGNMENT - row_bytes * rows % ALIGNMENT) % ALIGNMENT;
    ok = ok && fwrite(zeros, 1, pad, f) == pad;
    mem_free(row);
    mem_free(scratch);
    return ok;
}

static enum rc write_file(const struct plan *p, uint32_t index, const char *path,
                          struct fault *fault)
{
    uint32_t parts = p->spec->split > 1 ? p->spec->split : 1;
    uint32_t begin = (uint32_t)((uint64_t)p->count * index / parts);
    uint32_t end = (uint32_t)((uint64_t)p->count * (index + 1) / parts);
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return fault_set_errno(fault, RC_IO, "%s: cannot be written", path);
    struct bytes header = { 0 };
    put_header(&header, p, index, begin, end);
    bool ok = fwrite(header.data, 1, header.len, f) == header.len;
    bytes_close(&header);
    for (uint32_t i = begin; i < end && ok; i++)
        ok = write_tensor(f, p, &p->tensors[i]);
    ok = fclose(f) == 0 && ok;
    return ok ? RC_OK : fault_set_errno(fault, RC_IO, "%s: cannot be written", path);
}

void mkmodel_path(char *out, size_t cap, const struct mkmodel_spec *spec, const char *path,
                  uint32_t index)
{
    size_t len = strlen(path);
    if (spec->split <= 1) {
        snprintf(out, cap, "%s", path);
        return;
    }
    if (len > 5 && strcmp(path + len - 5, ".gguf") == 0)
        len -= 5;
    snprintf(out, cap, "%.*s-%05u-of-%05u.gguf", (int)len, path, index + 1, spec->split);
}

enum rc mkmodel_write(const struct mkmodel_spec *spec, const char *path, struct fault *fault)
{
    enum rc rc = check_spec(spec, fault);
    if (rc != RC_OK)
        return rc;
    struct plan plan;
    make_plan(&plan, spec);
    if (spec->split > plan.count)
        rc = fault_set(fault, RC_INVALID, "split %u: the model has %u tensors", spec->split,
                       plan.count);
    for (uint32_t i = 0; rc == RC_OK && i < (spec->split > 1 ? spec->split : 1); i++) {
        char file[4096];
        mkmodel_path(file, sizeof file, spec, path, i);
        rc = write_file(&plan, i, file, fault);
    }
    mem_free(plan.tensors);
    return rc;
}
