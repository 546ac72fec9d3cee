/* SPDX-License-Identifier: MIT */
/* tokenizer - text to token ids and back, from the vocabulary in a GGUF file. Two kinds:
 * SentencePiece style (scores, byte fallback) and byte-level BPE (merges, pre-tokenizer).
 *   owner    the opener; it keeps its own tables and needs the gguf open while it lives
 *   thread   any after tokenizer_open: read-only
 *   errors   RC_CORRUPT / RC_UNSUPPORTED with the key's name from tokenizer_open; RC_NO_MEMORY,
 *            RC_LIMIT
 *   cost     near-linear in the text's length, counted in token_list.work */
#ifndef QUIRE_CORE_TOKENIZER_H
#define QUIRE_CORE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/gguf.h"
#include "core/span.h"

struct tokenizer;

enum tokenize_flag {
    TOKENIZE_BOS = 1,     /* add BOS (and EOS) where the vocabulary asks for it */
    TOKENIZE_SPECIAL = 2, /* control tokens in the text are recognized, else ordinary text */
};

/* A growing list of ids. Zero it before the first use; token_list_close frees it. */
struct token_list {
    int32_t *ids;
    size_t count;
    size_t capacity;
    uint64_t work; /* elementary steps spent (heap moves, table look-ups): for tests of the cost */
};

enum rc token_list_push(struct token_list *list, int32_t id) ATTR_MUST_USE;
void token_list_close(struct token_list *list);

enum rc tokenizer_open(struct tokenizer **out, const struct gguf *g,
                       struct fault *fault) ATTR_MUST_USE;
void tokenizer_close(struct tokenizer *t);

/* tokenizer_encode - appends the ids of text (any bytes; bad UTF-8 becomes byte tokens) to out. */
enum rc tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags,
                         struct token_list *out) ATTR_MUST_USE;

/* tokenizer_encode_spans - the ids of a rendered chat: control tokens are recognized only where all
 * of their bytes lie in spans that are not the user's. One BOS where the vocabulary asks for one or
 * the template has written it; no EOS, as the conversation goes on. */
enum rc tokenizer_encode_spans(const struct tokenizer *t, const char *text,
                               const struct text_span *spans, size_t span_count,
                               struct token_list *out) ATTR_MUST_USE;

uint32_t tokenizer_vocab_count(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1 when there is none; eos alike */
int32_t tokenizer_eos(const struct tokenizer *t);
bool tokenizer_adds_bos(const struct tokenizer *t);
bool tokenizer_adds_blank(const struct tokenizer *t); /* a dummy blank stands before the text */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id); /* EOS, EOT, EOM, <|im_end|> ... */
bool tokenizer_is_control(const struct tokenizer *t, int32_t id);

/* tokenizer_find - id of the token that stands for exactly this text (an added token's own text
 * first), -1 when there is none. */
int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len);

/* tokenizer_piece - the bytes a token stands for, at most cap of them written; returns the full
 * length. Control tokens give nothing unless special; ids behind the vocabulary never do: an
 * embedding may have more rows than the vocabulary has tokens, and their ids may be chosen. */
size_t tokenizer_piece(const struct tokenizer *t, int32_t id, bool special, char *out, size_t cap);

#endif
