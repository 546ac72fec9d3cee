/* SPDX-License-Identifier: MIT */
/* score_base - the whole distributions that a model gave over a text, kept in a file, and how far
 * another model's are from them.
 *   file     "QUIREKL1" | u32 vocab, tokens, positions, 0 | tokens i32 [tokens] | a record each
 *            position: f32 low, f32 step, u16 [vocab], padded to 4: ln p = low + step q
 *   owner    the opener; a file that is being written is complete after score_base_finish alone
 *   thread   one at a time
 *   errors   RC_IO, RC_NO_MEMORY; RC_CORRUPT for a file that is none or is cut off; RC_USAGE when
 *            it is about another text, vocabulary or cut */
#ifndef QUIRE_FRONTEND_SCORE_BASE_H
#define QUIRE_FRONTEND_SCORE_BASE_H

#include <stdint.h>

#include "core/err.h"
#include "core/tokenizer.h"

struct score_base;

/* What the distributions are about: both sides must agree. */
struct score_base_subject {
    uint32_t vocab_count;
    uint32_t position_count; /* scored positions of the text, in its order */
    const struct token_list *tokens;
};

/* score_base_create - a new file; score_base_open - one that was written before. */
enum rc score_base_create(struct score_base **out, const char *path,
                          const struct score_base_subject *s, struct fault *fault) ATTR_MUST_USE;
enum rc score_base_open(struct score_base **out, const char *path,
                        const struct score_base_subject *s, struct fault *fault) ATTR_MUST_USE;
void score_base_close(struct score_base *b);

/* score_base_put - the distribution at position index. Errors stick until score_base_finish. */
void score_base_put(struct score_base *b, uint32_t index, const float *logits);
enum rc score_base_finish(struct score_base *b, struct fault *fault) ATTR_MUST_USE;

/* How far a distribution q is from the base's p at a position. */
struct divergence {
    double kl;       /* sum p ln(p / q), nats */
    double base_nll; /* -ln p of the text's token */
    double shift;    /* q - p of the text's token */
    bool same_top;   /* both like the same token best */
};

/* score_base_compare - target is the token that the text has there. */
struct divergence score_base_compare(const struct score_base *b, uint32_t index,
                                     const float *logits, int32_t target);

#endif
