/* SPDX-License-Identifier: MIT */
/* commands - the commands of the program; each is one cmd_NAME.c.
 * A command gets argv with its own name first and returns the exit status:
 *   0 fine, 1 failed while running, 2 wrong usage, 3 model unreadable or unsupported,
 *   4 does not fit, 5 batch finished with failed rows, 75 stopped and resumable,
 *   130 ended by Ctrl-C */
#ifndef QUIRE_FRONTEND_COMMANDS_H
#define QUIRE_FRONTEND_COMMANDS_H

/* X(name, what it is for). A new command adds its line here and its file. */
#define COMMAND_LIST(X)                                                                            \
    X(run, "continue one prompt: quire run -m MODEL -p TEXT")                                      \
    X(chat, "talk with the model: quire chat -m MODEL")                                            \
    X(batch, "answer a file of requests: quire batch -m MODEL -i IN.jsonl -o OUT.jsonl")           \
    X(serve, "HTTP endpoint for several people: quire serve -m MODEL --port 8080")               \
    X(bench, "measure prefill and decode: quire bench -m MODEL -npp 128 -ntg 32 -npl 1,2,4")       \
    X(perplexity, "score a text: quire perplexity -m MODEL -f FILE")                               \
    X(logits, "logits of every position: quire logits -m MODEL --tokens FILE -o OUT.f32")          \
    X(tokenize, "text to token ids and back: quire tokenize -m MODEL -p TEXT")                     \
    X(quantize, "a model in another format: quire quantize IN.gguf OUT.gguf Q4_K_M")               \
    X(replay, "run a log of --log-events through the scheduler: quire replay LOG")                 \
    X(inspect, "what a model file holds: quire inspect MODEL [--json | --tensor NAME -o FILE]")    \
    X(fit, "will a model fit, and how fast: quire fit MODEL [--device NAME]")                      \
    X(help, "list the commands, or show a command's flags: quire help run")

#define COMMAND_DECLARE(name, purpose) int cmd_##name(int argc, char **argv);
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

#endif
