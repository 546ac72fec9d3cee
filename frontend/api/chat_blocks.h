/* SPDX-License-Identifier: MIT */
/* chat_blocks - an answer as a row of blocks (a thought, a text, calls), each opened, grown and
 * closed before the next: the order in which two of the APIs stream it.
 *   owner, thread   one answer's reader; no memory of its own */
#ifndef QUIRE_FRONTEND_API_CHAT_BLOCKS_H
#define QUIRE_FRONTEND_API_CHAT_BLOCKS_H

#include "core/str.h"
#include "frontend/api/answer.h"

enum block_kind { BLOCK_NONE, BLOCK_THOUGHT, BLOCK_TEXT, BLOCK_CALL };
enum block_event { BLOCK_QUIET, BLOCK_OPEN, BLOCK_GROW, BLOCK_CLOSE };

/* Zero it before the first use. */
struct chat_blocks {
    enum block_kind open; /* the block at hand; after BLOCK_CLOSE still the one that closed */
    bool closed;
    uint32_t index;                  /* of the block at hand, from 0 */
    uint32_t opened;                 /* blocks so far */
    uint32_t calls;                  /* calls that were opened; the last is at hand */
    size_t thought, text, arguments; /* bytes that were given out */
    size_t begin;                    /* where the block at hand begins in its text */
};

/* chat_blocks_next - the next thing that happened, BLOCK_QUIET when there is nothing new. *grown
 * is what BLOCK_GROW adds. ended: the answer grows no more. */
enum block_event chat_blocks_next(struct chat_blocks *b, const struct answer *a, bool ended,
                                  struct str *grown);

/* chat_blocks_last - nothing is there yet that would be a block behind the one at hand. */
bool chat_blocks_last(const struct chat_blocks *b, const struct answer *a);

/* chat_blocks_text - all that the block at hand has given out. */
struct str chat_blocks_text(const struct chat_blocks *b, const struct answer *a);

#endif
