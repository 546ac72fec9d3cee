/* SPDX-License-Identifier: MIT */
/* pretok - cuts text into the pieces that byte-level BPE never merges across. Each rule set is
 * known by its name in tokenizer.ggml.pre; the models define them as regular expressions, here
 * they are scanners.
 *   owner    a scan is a value of the caller; the text stays his
 *   thread   any
 *   cost     linear: every rule looks at a character a fixed number of times
 *   source   the split patterns published with the models, written out in pretok.c */
#ifndef QUIRE_CORE_PRETOK_H
#define QUIRE_CORE_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pretok {
    PRETOK_DEFAULT,
    PRETOK_GPT2,
    PRETOK_DIGITS, /* single digits, then the rules of GPT-2 */
    PRETOK_LLAMA3,
    PRETOK_QWEN2,
    PRETOK_FALCON,
    PRETOK_DEEPSEEK_LLM,
    PRETOK_DEEPSEEK_CODER,
    PRETOK_COUNT
};

/* What a name in tokenizer.ggml.pre stands for. */
struct pretok_rules {
    const char *name;
    enum pretok kind;
    bool nfc;          /* text is normalized to form C first */
    bool whole_pieces; /* a piece that is a token is taken as it is, without looking at merges */
    bool add_bos;      /* when the file does not say */
};

/* pretok_find - rules of a name, NULL when it is unknown. */
const struct pretok_rules *pretok_find(const char *name, size_t len);

#define PRETOK_STAGES_MAX 6u

struct pretok_scan {
    enum pretok kind;
    const char *text;
    size_t len;
    size_t pos;                     /* where the next piece begins */
    size_t ends[PRETOK_STAGES_MAX]; /* end of the current piece of each stage */
    uint64_t work;                  /* characters looked at */
};

void pretok_open(struct pretok_scan *s, enum pretok kind, const char *text, size_t len);

/* pretok_next - the next piece [*begin, *end), never empty; false at the end of the text. */
bool pretok_next(struct pretok_scan *s, size_t *begin, size_t *end);

#endif
