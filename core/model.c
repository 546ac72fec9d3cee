/* SPDX-License-Identifier: MIT */
/* model - loading. The order is: architecture, sizes, rope, then tensors, each checked against the
 * sizes that came before it, so that after model_open no later code needs to doubt a shape.
 *   1 every number is within limits.h and non-zero before it divides or multiplies anything
 *   2 every weight has exactly the shape that the sizes ask for, in a format the kernels know
 *   3 vectors (norms, biases, frequency factors) are copied: the file promises them no alignment,
 *     and they are small. Matrices are views of the mapping
 * Sizes that a file may leave out are derived from tensors only where the format says so
 * (vocabulary, head width), never guessed. */
#include "core/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "core/mem.h"
#include "core/must.h"

struct loader {
    const struct gguf *g;
    struct fault *fault;
    struct model *m;
    uint64_t vector_bytes; /* copied so far */
    char name[96]; /* last key or tensor name that was built */
};

static const char *key_name(struct loader *l, const char *suffix)
{
    snprintf(l->name, sizeof l->name, "%s.%s", l->m->arch->name, suffix);
    return l->name;
}

static const char *layer_name(struct loader *l, uint32_t layer, const char *suffix)
{
    snprintf(l->name, sizeof l->name, "blk.%" PRIu32 ".%s", layer, suffix);
    return l->name;
}

/* A key that the file must have. */
static enum rc need_u32(struct loader *l, const char *suffix, uint32_t min, uint32_t max,
                        uint32_t *out)
{
    const char *name = key_name(l, suffix);
    enum rc rc = gguf_get_u32(l->g, name, min, max, out, l->fault);
    if (rc == RC_NOT_FOUND)
        return fault_set(l->fault, RC_CORRUPT, "metadata key %s is missing", name);
    return rc;
}

/* A key that may be absent: out keeps its default. */
static enum rc want_u32(struct loader *l, const char *suffix, uint32_t min, uint32_t max,
                        uint32_t *out)
{
    enum rc rc = gguf_get_u32(l->g, key_name(l, suffix), min, max, out, l->fault);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc want_f32(struct loader *l, const char *suffix, float min, float max, float *out)
{
    const char *name = key_name(l, suffix);
    enum rc rc = gguf_get_f32(l->g, name, out, l->fault);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK && !(*out >= min && *out <= max))
        return fault_set(l->fault, RC_CORRUPT, "metadata key %s is %g, not in [%g, %g]", name,
                         (double)*out, (double)min, (double)max);
    return rc;
}

/* head_count_kv may be a number or one number a layer; layers that differ are another
 * architecture's. */
static enum rc load_kv_heads(struct loader *l)
{
    struct model *m = l->m;
    const char *name = key_name(l, "attention.head_count_kv");
    const struct gguf_key *key = gguf_find_key(l->g, name);
    m->kv_head_count = m->head_count;
    if (key == NULL || key->kind != GGUF_ARRAY)
        return want_u32(l, "attention.head_count_kv", 1, m->head_count, &m->kv_head_count);
    if (key->count != m->layer_count || (key->elem_kind != GGUF_U32 && key->elem_kind != GGUF_I32))
        return fault_set(l->fault, RC_CORRUPT, "metadata key %s is not one integer a layer", name);
    int64_t first = gguf_key_i64(key, 0);
    for (uint64_t i = 1; i < key->count; i++) {
        if (gguf_key_i64(key, i) != first)
            return fault_set(l->fault, RC_UNSUPPORTED, "metadata key %s differs between layers",
                             name);
    }
    if (first < 1 || first > m->head_count)
        return fault_set(l->fault, RC_CORRUPT,
                         "metadata key %s is %" PRId64 ", not in [1, %" PRIu32 "]", name, first,
                         m->head_count);
    m->kv_head_count = (uint32_t)first;
    return RC_OK;
}

static enum rc load_heads(struct loader *l)
{
    struct model *m = l->m;
    enum rc rc = need_u32(l, "attention.head_count", 1, MODEL_HEADS_MAX, &m->head_count);
    if (rc == RC_OK)
        rc = load_kv_heads(l);
    if (rc != RC_OK)
        return rc;
    if (m->head_count % m->kv_head_count != 0)
        return fault_set(l->fault, RC_CORRUPT,
                         "%" PRIu32 " query heads are not a multiple of %" PRIu32 " KV heads",
                         m->head_count, m->kv_head_count);
    m->head_dim = m->width / m->head_count;
    rc = want_u32(l, "attention.key_length", 1, MODEL_HEAD_DIM_MAX, &m->head_dim);
    uint32_t value_dim = m->head_dim;
    if (rc == RC_OK)
        rc = want_u32(l, "attention.value_length", 1, MODEL_HEAD_DIM_MAX, &value_dim);
    if (rc != RC_OK)
        return rc;
    if (value_dim != m->head_dim)
        return fault_set(l->fault, RC_UNSUPPORTED,
                         "keys of %" PRIu32 " but values of %" PRIu32 " elements a head",
                         m->head_dim, value_dim);
    if (m->head_dim < 16 || m->head_dim > MODEL_HEAD_DIM_MAX || m->head_dim % 8 != 0)
        return fault_set(l->fault, RC_UNSUPPORTED,
                         "head width %" PRIu32 " is not a multiple of 8 in [16, %u]", m->head_dim,
                         MODEL_HEAD_DIM_MAX);
    if (m->head_count * m->head_dim > MODEL_WIDTH_MAX)
        return fault_set(l->fault, RC_UNSUPPORTED,
                         "%" PRIu32 " heads of %" PRIu32 " elements are more than %u",
                         m->head_count, m->head_dim, MODEL_WIDTH_MAX);
    m->attn_scale = 1.0f / sqrtf((float)m->head_dim);
    return RC_OK;
}

static enum rc load_experts(struct loader *l)
{
    struct model *m = l->m;
    enum rc rc = want_u32(l, "expert_count", 0, MODEL_EXPERTS_MAX, &m->expert_count);
    if (rc != RC_OK || m->expert_count == 0)
        return rc;
    if (!m->arch->experts)
        return fault_set(l->fault, RC_UNSUPPORTED, "experts in architecture %s", m->arch->name);
    return need_u32(l, "expert_used_count", 1, m->expert_count, &m->expert_used_count);
}

static enum rc load_sizes(struct loader *l)
{
    struct model *m = l->m;
    enum rc rc = need_u32(l, "block_count", 1, MODEL_LAYERS_MAX, &m->layer_count);
    if (rc == RC_OK)
        rc = need_u32(l, "embedding_length", 1, MODEL_WIDTH_MAX, &m->width);
    if (rc == RC_OK)
        rc = need_u32(l, "feed_forward_length", 1, MODEL_WIDTH_MAX, &m->ff_width);
    if (rc == RC_OK)
        rc = need_u32(l, "context_length", 1, UINT32_MAX, &m->ctx_train);
    if (rc == RC_OK)
        rc = load_heads(l);
    if (rc == RC_OK)
        rc = load_experts(l);
    if (rc != RC_OK)
        return rc;
    m->norm_eps = -1;
    rc = want_f32(l, "attention.layer_norm_rms_epsilon", 1e-12f, 1.0f, &m->norm_eps);
    if (rc == RC_OK && m->norm_eps < 0)
        return fault_set(l->fault, RC_CORRUPT, "metadata key %s is missing", l->name);
    return rc;
}

/* Writers put 0 for "no stretch". */
static enum rc want_factor(struct loader *l, const char *suffix, float *factor)
{
    float value = 0;
    enum rc rc = want_f32(l, suffix, 0, 1e6f, &value);
    if (rc == RC_OK && value != 0 && value < 1)
        return fault_set(l->fault, RC_CORRUPT, "metadata key %s is %g, neither 0 nor at least 1",
                         l->name, (double)value);
    *factor = value == 0 ? 1 : value;
    return rc;
}

static enum rc load_rope_scaling(struct loader *l, struct model_rope *r)
{
    const char *name = key_name(l, "rope.scaling.type");
    struct gguf_text type = { "", 0 };
    enum rc rc = gguf_get_text(l->g, name, &type, l->fault);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_NOT_FOUND) {
        /* Files from before the type key existed have the linear factor alone. */
        rc = want_factor(l, "rope.scale_linear", &r->factor);
        r->scaling = r->factor > 1 ? MODEL_ROPE_LINEAR : MODEL_ROPE_PLAIN;
        return rc;
    }
    if (type.len == 4 && memcmp(type.text, "none", 4) == 0)
        return RC_OK;
    if (type.len == 6 && memcmp(type.text, "linear", 6) == 0)
        r->scaling = MODEL_ROPE_LINEAR;
    else if (type.len == 4 && memcmp(type.text, "yarn", 4) == 0)
        r->scaling = MODEL_ROPE_YARN;
    else
        return fault_set(l->fault, RC_UNSUPPORTED, "%s \"%.*s\"", name,
                         (int)(type.len < 32 ? type.len : 32), type.text);
    rc = want_factor(l, "rope.scaling.factor", &r->factor);
    if (r->scaling != MODEL_ROPE_YARN)
        return rc;
    r->ctx_orig = l->m->ctx_train;
    if (rc == RC_OK)
        rc = want_u32(l, "rope.scaling.original_context_length", 1, UINT32_MAX, &r->ctx_orig);
    if (rc == RC_OK)
        rc = want_f32(l, "rope.scaling.yarn_ext_factor", 0, 1, &r->ext_factor);
    if (rc == RC_OK)
        rc = want_f32(l, "rope.scaling.attn_factor", 1e-3f, 1e3f, &r->attn_factor);
    if (rc == RC_OK)
        rc = want_f32(l, "rope.scaling.yarn_attn_factor", 1e-3f, 1e3f, &r->attn_factor);
    if (rc == RC_OK)
        rc = want_f32(l, "rope.scaling.yarn_beta_fast", 1e-3f, 1e6f, &r->beta_fast);
    if (rc == RC_OK)
        rc = want_f32(l, "rope.scaling.yarn_beta_slow", 1e-3f, 1e6f, &r->beta_slow);
    return rc;
}

static enum rc load_rope(struct loader *l)
{
    struct model_rope *r = &l->m->rope;
    *r = (struct model_rope){ .base = 10000,
                              .dim_count = l->m->head_dim,
                              .factor = 1,
                              .ext_factor = 1,
                              .attn_factor = 1,
                              .beta_fast = 32,
                              .beta_slow = 1 };
    enum rc rc = want_f32(l, "rope.freq_base", 1.001f, 1e12f, &r->base);
    if (rc == RC_OK)
        rc = want_u32(l, "rope.dimension_count", 2, l->m->head_dim, &r->dim_count);
    if (rc == RC_OK && r->dim_count % 2 != 0)
        return fault_set(l->fault, RC_CORRUPT, "metadata key %s is odd", l->name);
    if (rc == RC_OK)
        rc = load_rope_scaling(l, r);
    return rc;
}

/* Formats that hold weights; integers and doubles are data of other kinds. */
static bool is_weight_type(enum dtype type)
{
    return type != DTYPE_I8 && type != DTYPE_I16 && type != DTYPE_I32 && type != DTYPE_I64 &&
           type != DTYPE_F64;
}

static enum rc missing_tensor(struct loader *l)
{
    return fault_set(l->fault, RC_CORRUPT, "tensor %s is missing", l->name);
}

/* The matrix called l->name as a stack of count matrices of rows x cols; count 1 is a plain matrix.
 * */
static enum rc take_stack(struct loader *l, uint32_t rows, uint32_t cols, uint32_t count,
                          struct weight *out)
{
    const struct gguf_tensor *t = gguf_find_tensor(l->g, l->name);
    if (t == NULL)
        return missing_tensor(l);
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != count || t->dims[3] != 1)
        return fault_set(l->fault, RC_CORRUPT,
                         "tensor %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                         ", expected %" PRIu32 " x %" PRIu32 " x %" PRIu32 " x 1",
                         l->name, t->dims[0], t->dims[1], t->dims[2], t->dims[3], cols, rows,
                         count);
    if (!is_weight_type(t->type))
        return fault_set(l->fault, RC_UNSUPPORTED, "tensor %s has type %s, not one of weights",
                         l->name, dtype_find((uint32_t)t->type)->name);
    *out = (struct weight){ t->data, t->type, rows, cols, 0 };
    if (!dtype_row_bytes(&out->row_bytes, t->type, cols) ||
        t->bytes / count / rows < out->row_bytes)
        return fault_set(l->fault, RC_CORRUPT,
                         "tensor %s has rows of %" PRIu32 " elements, not whole %s blocks", l->name,
                         cols, dtype_find((uint32_t)t->type)->name);
    l->m->weight_bytes += out->row_bytes * rows * count;
    return RC_OK;
}

static enum rc take_matrix(struct loader *l, uint32_t rows, uint32_t cols, struct weight *out)
{
    return take_stack(l, rows, cols, 1, out);
}

/* A copy of the vector called l->name; *out stays NULL when it is absent and optional. */
static enum rc take_vector(struct loader *l, uint32_t count, bool required, const float **out)
{
    const struct gguf_tensor *t = gguf_find_tensor(l->g, l->name);
    if (t == NULL)
        return required ? missing_tensor(l) : RC_OK;
    if (t->type != DTYPE_F32)
        return fault_set(l->fault, RC_UNSUPPORTED, "tensor %s has type %s, expected F32", l->name,
                         dtype_find((uint32_t)t->type)->name);
    if (t->elems != count || t->dims[0] != count)
        return fault_set(l->fault, RC_CORRUPT,
                         "tensor %s has %" PRIu64 " elements, expected %" PRIu32, l->name, t->elems,
                         count);
    /* Tensors may overlap, so the file's own size bounds no sum of copies. */
    l->vector_bytes += t->bytes;
    if (l->vector_bytes > MODEL_VECTOR_BYTES_MAX)
        return fault_set(l->fault, RC_UNSUPPORTED,
                         "tensor %s: norms and biases up to it have %" PRIu64
                         " bytes, the limit is %u",
                         l->name, l->vector_bytes, MODEL_VECTOR_BYTES_MAX);
    float *copy = mem_alloc_array(count, sizeof *copy);
    if (copy == NULL)
        return fault_set(l->fault, RC_NO_MEMORY, "no memory for tensor %s", l->name);
    memcpy(copy, t->data, (size_t)count * sizeof *copy);
    l->m->vectors[l->m->vector_count++] = copy;
    *out = copy;
    return RC_OK;
}

static enum rc load_attention(struct loader *l, uint32_t i)
{
    struct model *m = l->m;
    struct model_layer *layer = &m->layers[i];
    uint32_t q_rows = m->head_count * m->head_dim, kv_rows = m->kv_head_count * m->head_dim;
    const struct {
        const char *weight, *bias;
        uint32_t rows, cols;
        struct weight *out;
        const float **out_bias;
    } parts[] = {
        { "attn_q.weight", "attn_q.bias", q_rows, m->width, &layer->q, &layer->q_bias },
        { "attn_k.weight", "attn_k.bias", kv_rows, m->width, &layer->k, &layer->k_bias },
        { "attn_v.weight", "attn_v.bias", kv_rows, m->width, &layer->v, &layer->v_bias },
        { "attn_output.weight", "attn_output.bias", m->width, q_rows, &layer->o, &layer->o_bias },
    };
    layer_name(l, i, "attn_norm.weight");
    enum rc rc = take_vector(l, m->width, true, &layer->attn_norm);
    for (size_t p = 0; rc == RC_OK && p < sizeof parts / sizeof parts[0]; p++) {
        layer_name(l, i, parts[p].weight);
        rc = take_matrix(l, parts[p].rows, parts[p].cols, parts[p].out);
        if (rc != RC_OK)
            break;
        layer_name(l, i, parts[p].bias);
        rc = take_vector(l, parts[p].rows, false, parts[p].out_bias);
        if (rc == RC_OK && *parts[p].out_bias != NULL && !m->arch->attn_bias)
            rc = fault_set(l->fault, RC_UNSUPPORTED, "tensor %s in architecture %s", l->name,
                           m->arch->name);
    }
    return rc;
}

static enum rc load_feed_forward(struct loader *l, uint32_t i)
{
    struct model *m = l->m;
    struct model_layer *layer = &m->layers[i];
    bool mixture = m->expert_count != 0;
    uint32_t count = mixture ? m->expert_count : 1;
    layer_name(l, i, "ffn_norm.weight");
    enum rc rc = take_vector(l, m->width, true, &layer->ffn_norm);
    if (rc == RC_OK && mixture) {
        layer_name(l, i, "ffn_gate_inp.weight");
        rc = take_matrix(l, m->expert_count, m->width, &layer->router);
    }
    if (rc == RC_OK) {
        layer_name(l, i, mixture ? "ffn_gate_exps.weight" : "ffn_gate.weight");
        rc = take_stack(l, m->ff_width, m->width, count, &layer->gate);
    }
    if (rc == RC_OK) {
        layer_name(l, i, mixture ? "ffn_up_exps.weight" : "ffn_up.weight");
        rc = take_stack(l, m->ff_width, m->width, count, &layer->up);
    }
    if (rc == RC_OK) {
        layer_name(l, i, mixture ? "ffn_down_exps.weight" : "ffn_down.weight");
        rc = take_stack(l, m->width, m->ff_width, count, &layer->down);
    }
    return rc;
}

/* The vocabulary is as long as the embedding; a tokenizer that knows more tokens could feed an id
 * beyond it. */
static enum rc load_ends(struct loader *l)
{
    struct model *m = l->m;
    snprintf(l->name, sizeof l->name, "token_embd.weight");
    const struct gguf_tensor *t = gguf_find_tensor(l->g, l->name);
    if (t == NULL)
        return missing_tensor(l);
    if (t->dims[1] > MODEL_VOCAB_MAX)
        return fault_set(l->fault, RC_UNSUPPORTED,
                         "a vocabulary of %" PRIu64 " tokens is more than %u", t->dims[1],
                         MODEL_VOCAB_MAX);
    m->vocab_count = (uint32_t)t->dims[1];
    const struct gguf_key *tokens = gguf_find_key(l->g, "tokenizer.ggml.tokens");
    if (tokens != NULL && tokens->kind == GGUF_ARRAY && tokens->count > m->vocab_count)
        return fault_set(l->fault, RC_CORRUPT,
                         "tokenizer.ggml.tokens has %" PRIu64 " tokens, token_embd.weight %" PRIu32,
                         tokens->count, m->vocab_count);
    enum rc rc = take_matrix(l, m->vocab_count, m->width, &m->embed);
    if (rc != RC_OK)
        return rc;
    uint64_t embed_bytes = m->embed.row_bytes * (uint64_t)m->vocab_count;
    snprintf(l->name, sizeof l->name, "output.weight");
    if (gguf_find_tensor(l->g, l->name) == NULL) {
        m->output = m->embed;
    } else {
        m->weight_bytes -= embed_bytes; /* A step reads only its tokens' rows of it. */
        rc = take_matrix(l, m->vocab_count, m->width, &m->output);
    }
    if (rc != RC_OK)
        return rc;
    snprintf(l->name, sizeof l->name, "output_norm.weight");
    return take_vector(l, m->width, true, &m->output_norm);
}

static enum rc load_freq_factors(struct loader *l)
{
    struct model_rope *r = &l->m->rope;
    snprintf(l->name, sizeof l->name, "rope_freqs.weight");
    enum rc rc = take_vector(l, r->dim_count / 2, false, &r->freq_factors);
    for (uint32_t i = 0; rc == RC_OK && r->freq_factors != NULL && i < r->dim_count / 2; i++) {
        if (!(r->freq_factors[i] > 1e-6f && r->freq_factors[i] < 1e6f))
            rc = fault_set(l->fault, RC_CORRUPT, "tensor %s: element %" PRIu32 " is %g", l->name, i,
                           (double)r->freq_factors[i]);
    }
    return rc;
}

static enum rc load_tensors(struct loader *l)
{
    struct model *m = l->m;
    enum rc rc = load_ends(l);
    if (rc == RC_OK)
        rc = load_freq_factors(l);
    for (uint32_t i = 0; rc == RC_OK && i < m->layer_count; i++) {
        rc = load_attention(l, i);
        if (rc == RC_OK)
            rc = load_feed_forward(l, i);
    }
    return rc;
}

static enum rc find_arch(struct loader *l)
{
    struct gguf_text name = { "", 0 };
    enum rc rc = gguf_get_text(l->g, "general.architecture", &name, l->fault);
    if (rc == RC_NOT_FOUND)
        return fault_set(l->fault, RC_CORRUPT, "metadata key general.architecture is missing");
    if (rc != RC_OK)
        return rc;
    l->m->arch = arch_find(name);
    if (l->m->arch == NULL)
        return fault_set(l->fault, RC_UNSUPPORTED, "architecture \"%.*s\"; this build knows: %s",
                         (int)(name.len < 64 ? name.len : 64), name.text, arch_names());
    return RC_OK;
}

enum rc model_open(struct model **out, const struct gguf *g, struct fault *fault)
{
    struct model *m = mem_alloc(sizeof *m);
    if (m == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for a model");
    struct loader l = { .g = g, .fault = fault, .m = m };
    enum rc rc = find_arch(&l);
    if (rc == RC_OK)
        rc = load_sizes(&l);
    if (rc == RC_OK)
        rc = load_rope(&l);
    if (rc != RC_OK)
        goto fail;
    m->layers = mem_alloc_array(m->layer_count, sizeof *m->layers);
    m->vectors = mem_alloc_array(2 + (size_t)m->layer_count * 6, sizeof *m->vectors);
    if (m->layers == NULL || m->vectors == NULL) {
        rc = fault_set(fault, RC_NO_MEMORY, "no memory for %" PRIu32 " layers", m->layer_count);
        goto fail;
    }
    rc = load_tensors(&l);
    if (rc != RC_OK)
        goto fail;
    *out = m;
    return RC_OK;
fail:
    model_close(m);
    return rc;
}

void model_close(struct model *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->vector_count; i++)
        mem_free(m->vectors[i]);
    mem_free(m->vectors);
    mem_free(m->layers);
    mem_free(m);
}

struct weight weight_slice(const struct weight *w, uint32_t index)
{
    struct weight slice = *w;
    slice.data += (size_t)index * w->rows * w->row_bytes;
    return slice;
}
