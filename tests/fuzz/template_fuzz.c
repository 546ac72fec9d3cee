/* SPDX-License-Identifier: MIT */
/* template_fuzz - a model may carry any text as its chat template. */
#include "core/must.h"
#include "frontend/api/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct chat_template *t;
    struct chat_template_config config = {
        .source = (const char *)data,
        .source_len = len,
        .bos = "<s>",
        .eos = "</s>",
        .options = jinja_options_default(),
    };
    config.options.limits = (struct jinja_limits){ 20000, 4u << 20, 1u << 20, 32 };
    struct fault fault;
    if (chat_template_open(&t, &config, &fault) != RC_OK)
        return 0;
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content",
                                 "be brief", "role", "user", "content", "hi");
    struct chat_request request = { .messages = messages, .add_generation_prompt = true };
    struct chat_prompt prompt;
    if (chat_template_render(&prompt, t, &request, &fault) == RC_OK)
        chat_prompt_close(&prompt);
    json_decref(messages);
    chat_template_close(t);
    return 0;
}
