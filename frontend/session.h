/* SPDX-License-Identifier: MIT */
/* session - a named text that goes on from one run to the next: its tokens, each written as it
 * comes. What they took to compute is in a block file beside it and may be lost; the tokens are
 * enough for the same answer.
 *   where    $XDG_STATE_HOME/quire or ~/.local/state/quire: NAME.session, MODEL.blocks
 *   owner    one process at a time: the file is locked
 *   errors   RC_USAGE (name, model, another process, not a session), RC_IO
 *   killed   at any moment: what was written before is there; a torn end is cut off, with a
 *            warning */
#ifndef QUIRE_FRONTEND_SESSION_H
#define QUIRE_FRONTEND_SESSION_H

#include "core/err.h"
#include "core/hash.h"
#include "core/tokenizer.h"

#define SESSION_PATH_BYTES 1024u

struct session {
    int fd; /* -1 = closed */
    struct token_list tokens;
    char path[SESSION_PATH_BYTES];
};

/* session_paths - checks the name, makes the directory; the paths of the session and of the block
 * file that goes with a model. */
enum rc session_paths(char *session, char *blocks, const char *name, const char *model,
                      struct fault *fault) ATTR_MUST_USE;

/* session_open - at path, made when missing; tokens of another model (its digest) or not below
 * vocab_count are refused. */
enum rc session_open(struct session *s, const char *path, struct hash model, uint32_t vocab_count,
                     struct fault *fault) ATTR_MUST_USE;
void session_close(struct session *s);

/* session_append - tokens that have come. */
enum rc session_append(struct session *s, const int32_t *ids, uint32_t count,
                       struct fault *fault) ATTR_MUST_USE;

#endif
