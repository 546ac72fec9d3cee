/* SPDX-License-Identifier: MIT */
/* arch - what distinguishes one model architecture from another: the small constant description
 * from which the one forward pass runs, and by which a file is checked. A field is added together
 * with the code that reads it, never before.
 *   thread any: constants
 *   source the names are the values of general.architecture in GGUF files */
#ifndef QUIRE_CORE_ARCH_H
#define QUIRE_CORE_ARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/gguf.h"

/* Which elements of a head the rotation pairs. */
enum arch_rope {
    ARCH_ROPE_PAIRS, /* 2i with 2i + 1 */
};

struct arch {
    const char *name; /* also the prefix of its metadata keys */
    enum arch_rope rope;
    bool attn_bias; /* q, k, v and o may carry a bias */
    bool experts;   /* layers may be mixtures of experts */
};

/* arch_find - the description of this architecture; NULL when there is none. */
const struct arch *arch_find(struct gguf_text name);

/* arch_names - every name in one line, for messages. */
const char *arch_names(void);

#endif
