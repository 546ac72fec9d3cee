/* SPDX-License-Identifier: MIT */
/* mkmodel - writes GGUF models of the llama family from a seed: small ones for tests, the real
 * sizes for benchmarks. The same spec gives the same bytes on every machine.
 *   owner    the caller; nothing is kept
 *   errors   RC_INVALID for a spec that makes no model, RC_IO; the fault names the field or file
 *   memory   one row and the vocabulary, whatever the model's size */
#ifndef QUIRE_TESTS_MKMODEL_MKMODEL_H
#define QUIRE_TESTS_MKMODEL_MKMODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/err.h"
#include "tests/mkmodel/gguf_write.h"

enum mkmodel_rope {
    MKMODEL_ROPE_PLAIN,
    MKMODEL_ROPE_LINEAR, /* factor 4 */
    MKMODEL_ROPE_YARN,   /* factor 4, original context a quarter of ctx */
    MKMODEL_ROPE_LLAMA3, /* rope_freqs.weight; original context 8192, or ctx / 4 if less */
};

enum mkmodel_vocab {
    MKMODEL_VOCAB_GPT2, /* byte-level BPE: 256 bytes, merges, three control tokens at the end */
    MKMODEL_VOCAB_SPM, /* <unk> <s> </s>, 256 byte tokens, pieces with scores, two control tokens */
};

struct mkmodel_spec {
    const char *name; /* general.name */
    uint64_t seed;
    uint32_t width;
    uint32_t layers;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t ffn;
    uint32_t vocab;
    uint32_t ctx;
    float rope_base;
    float rope_factor; /* of MKMODEL_ROPE_LLAMA3 */
    enum mkmodel_rope rope;
    enum mkmodel_vocab vocab_kind;
    enum dtype type; /* of matrices; norms and biases are F32 */
    bool mix;        /* Q4_K_M: more bits for output, attn_v and ffn_down; type is Q4_K */
    bool tied;       /* no output.weight */
    bool bias;       /* on q, k, v and o */
    bool direct;     /* random blocks instead of quantized floats: quick, for large shapes */
    uint32_t experts;      /* of each layer; 0 = no mixture */
    uint32_t experts_used; /* by a row; 0 = 2 */
    uint32_t split;  /* number of files; 0 and 1 = one */
    /* NULL, or the text that this model answers to everything, see mkmodel_script */
    const char *script;
};

/* mkmodel_shape - a spec by name: tiny, tinyllama-1.1b, llama-3.2-1b, llama-3-8b; F32, seed 1.
 * False when the name is unknown. */
bool mkmodel_shape(struct mkmodel_spec *out, const char *name);

/* mkmodel_type - sets the format by name: every format with a quantizer, and Q4_K_M. */
bool mkmodel_type(struct mkmodel_spec *spec, const char *name);

/* mkmodel_script - a model that knows one text: whatever it is given, it says this and ends its
 * turn. Tokens are MKMODEL_SCRIPT_BYTES bytes each, characters or not. The text stays the caller's.
 */
#define MKMODEL_SCRIPT_BYTES 3u
void mkmodel_script(struct mkmodel_spec *spec, const char *text);

/* mkmodel_write - writes the model to path; with split, to path's stem + -00001-of-0000N.gguf
 * etc. */
enum rc mkmodel_write(const struct mkmodel_spec *spec, const char *path,
                      struct fault *fault) ATTR_MUST_USE;

/* mkmodel_path - name of file index of a model written to path. */
void mkmodel_path(char *out, size_t cap, const struct mkmodel_spec *spec, const char *path,
                  uint32_t index);

/* The parts, in their own files. */

/* mkmodel_put_vocab - the tokenizer.* keys; returns how many. The size is at least
 * mkmodel_vocab_min. */
uint32_t mkmodel_put_vocab(struct bytes *b, const struct mkmodel_spec *spec);
uint32_t mkmodel_vocab_min(enum mkmodel_vocab kind);

/* mkmodel_script_count - tokens of the script: ids 256 .. 255 + count. */
uint32_t mkmodel_script_count(const struct mkmodel_spec *spec);

/* One tensor of the model. */
struct mkmodel_tensor {
    char name[64];
    enum dtype type;
    uint32_t cols;
    uint32_t rows;   /* 0 = a vector of cols */
    uint32_t slices; /* matrices that rows are of, one behind the other; 0 = one */
    float mean;
    float deviation;
    bool rope_factors; /* the Llama 3 frequency divisors instead of random numbers */
};

/* mkmodel_row - a row of a tensor, cols values in its format, into dst; depends on seed, name and
 * row alone. scratch has room for cols. */
void mkmodel_row(const struct mkmodel_spec *spec, const struct mkmodel_tensor *t, uint32_t row,
                 float *scratch, uint8_t *dst);

#endif
