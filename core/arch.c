/* SPDX-License-Identifier: MIT */
/* arch - the table behind arch.h. A new family is a row here, a line in arch_names, golden logits,
 * and code only for what no family before it needed. */
#include "core/arch.h"

#include <string.h>

static const struct arch archs[] = {
    { .name = "llama", .rope = ARCH_ROPE_PAIRS, .attn_bias = true, .experts = true },
};

const struct arch *arch_find(struct gguf_text name)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (strlen(archs[i].name) == name.len && memcmp(archs[i].name, name.text, name.len) == 0)
            return &archs[i];
    }
    return NULL;
}

const char *arch_names(void)
{
    return "llama";
}
