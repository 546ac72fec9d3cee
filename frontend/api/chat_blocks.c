/* SPDX-License-Identifier: MIT */
/* chat_blocks - the block at hand grows as long as it can; then it closes, and the first of
 * thought, text and calls that has something new opens. */
#include "frontend/api/chat_blocks.h"

static const struct text *source(const struct chat_blocks *b, const struct answer *a)
{
    if (b->open == BLOCK_CALL)
        return &a->calls[b->calls - 1].arguments;
    return b->open == BLOCK_THOUGHT ? &a->reasoning : &a->content;
}

static size_t *given(struct chat_blocks *b)
{
    return b->open == BLOCK_CALL      ? &b->arguments
           : b->open == BLOCK_THOUGHT ? &b->thought
                                      : &b->text;
}

static enum block_kind waiting(const struct chat_blocks *b, const struct answer *a)
{
    if (a->reasoning.len > b->thought)
        return BLOCK_THOUGHT;
    if (a->content.len > b->text)
        return BLOCK_TEXT;
    return a->call_count > b->calls ? BLOCK_CALL : BLOCK_NONE;
}

bool chat_blocks_last(const struct chat_blocks *b, const struct answer *a)
{
    return waiting(b, a) == BLOCK_NONE;
}

enum block_event chat_blocks_next(struct chat_blocks *b, const struct answer *a, bool ended,
                                  struct str *grown)
{
    enum block_kind next = waiting(b, a);
    bool at_hand = b->open != BLOCK_NONE && !b->closed;
    if (at_hand) {
        const struct text *t = source(b, a);
        size_t *from = given(b);
        if (t->len > *from) {
            *grown = (struct str){ t->data + *from, t->len - *from };
            *from = t->len;
            return BLOCK_GROW;
        }
        if (next == BLOCK_NONE && !ended)
            return BLOCK_QUIET;
        b->closed = true;
        return BLOCK_CLOSE;
    }
    if (next == BLOCK_NONE)
        return BLOCK_QUIET;
    b->open = next;
    b->closed = false;
    b->index = b->opened++;
    if (next == BLOCK_CALL) {
        b->calls++;
        b->arguments = 0;
    }
    b->begin = *given(b);
    return BLOCK_OPEN;
}

struct str chat_blocks_text(const struct chat_blocks *b, const struct answer *a)
{
    struct chat_blocks at = *b;
    size_t end = *given(&at);
    return end > b->begin ? (struct str){ source(b, a)->data + b->begin, end - b->begin }
                          : str_of(NULL);
}
