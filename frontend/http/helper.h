/* SPDX-License-Identifier: MIT */
/* helper - threads that do what takes too long between two events of a server: reading JSON,
 * rendering templates, encoding prompts. A long text never holds up a short one.
 *   owner    the server
 *   thread   helper_post and helper_take: the I/O thread. work: a helper's, one item at a time each
 *   full     capacity items at once; helper_post beyond it is a wrong program */
#ifndef QUIRE_FRONTEND_HTTP_HELPER_H
#define QUIRE_FRONTEND_HTTP_HELPER_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct helper;

struct helper_config {
    uint32_t capacity; /* items posted and not yet taken */
    void (*work)(void *item);
    void (*done)(void *ctx); /* after each item, on the helper's thread: there is one to take */
    void *ctx;
};

enum rc helper_open(struct helper **out, const struct helper_config *config,
                    struct fault *fault) ATTR_MUST_USE;

/* helper_close - waits for the item that is worked on; items still waiting are not worked on. */
void helper_close(struct helper *h);

/* helper_post - bytes: how much work it is. */
void helper_post(struct helper *h, void *item, size_t bytes);

/* helper_take - an item that has been worked on; NULL when there is none. */
void *helper_take(struct helper *h);

#endif
