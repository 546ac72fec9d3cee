/* SPDX-License-Identifier: MIT */
/* tok_impl - what the files of the tokenizer share: its struct and the two encoders. Nobody else
 * includes it.
 *   owner    tokenizer.c fills it; constant after tokenizer_open
 *   source   token types and key names of the GGUF specification */
#ifndef QUIRE_CORE_TOK_IMPL_H
#define QUIRE_CORE_TOK_IMPL_H

#include "core/limits.h"
#include "core/pretok.h"
#include "core/tok_merge.h"
#include "core/tok_table.h"
#include "core/tokenizer.h"

enum tok_type {
    TOK_UNDEFINED = 0,
    TOK_NORMAL = 1,
    TOK_UNKNOWN = 2,
    TOK_CONTROL = 3,
    TOK_USER = 4,
    TOK_UNUSED = 5,
    TOK_BYTE = 6
};

enum tok_model { TOK_SPM, TOK_BPE };

#define TOK_ENDS_MAX 24u         /* tokens that end a turn: three keys and a list of known texts */
#define TOK_BLANK "\xe2\x96\x81" /* U+2581, what SentencePiece writes for a blank */
#define TOK_BLANK_BYTES 3u

/* A merge: what the pair of ids key = left << 32 | right becomes, and when. */
struct tok_pair {
    uint64_t key;
    uint32_t rank; /* MERGE_NO_RANK = empty slot */
    int32_t id;
};

struct tokenizer {
    enum tok_model model;
    uint32_t count;
    struct tok_text
        *texts; /* SPM: as in the file; BPE: normal tokens as the bytes they stand for */
    uint8_t *types;
    uint32_t *ranks;           /* SPM: scores, turned so that the best is lowest */
    char *blob;                /* BPE: what texts point into */
    struct tok_table table;    /* tokens that merging can give */
    struct tok_added added[2]; /* matched before the split: always; with TOKENIZE_SPECIAL */
    struct tok_pair *pairs;    /* BPE */
    uint32_t pair_mask;
    const struct pretok_rules *rules; /* BPE */
    int32_t byte_ids[256];            /* -1 = the vocabulary has no token for that byte */
    int32_t bos, eos, unknown;        /* -1 = none */
    int32_t ends[TOK_ENDS_MAX];
    uint32_t end_count;
    bool joins_blank[256]; /* SPM: a token has a blank after this byte */
    bool adds_bos, adds_eos;
    bool adds_blank;          /* SPM: a blank before the text and after each added token */
    bool eats_blanks;         /* Phi-3: blanks after an added token belong to it ... */
    int32_t spares_blanks[3]; /* ... but not after these */
};

/* tok_spm_open, tok_bpe_open - the tables of each kind; texts and types are set. */
enum rc tok_spm_open(struct tokenizer *t, const struct gguf *g, struct fault *fault) ATTR_MUST_USE;
enum rc tok_bpe_open(struct tokenizer *t, const struct gguf *g, struct fault *fault) ATTR_MUST_USE;

/* tok_spm_encode, tok_bpe_encode - ids of a stretch without added tokens. */
enum rc tok_spm_encode(const struct tokenizer *t, struct merge *m, const char *text, size_t len,
                       bool blank_before, struct token_list *out) ATTR_MUST_USE;
enum rc tok_bpe_encode(const struct tokenizer *t, struct merge *m, const char *text, size_t len,
                       struct token_list *out) ATTR_MUST_USE;

/* tok_spm_find - tokenizer_find for normal and byte tokens. tok_spm_byte - the byte that "<0xNN>"
 * stands for, -1 when the text is anything else. */
int32_t tok_spm_find(const struct tokenizer *t, const char *text, size_t len);
int tok_spm_byte(const struct tok_text *s);

#endif
