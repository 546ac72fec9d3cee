/* SPDX-License-Identifier: MIT */
/* logits - runs fixed token sequences through the forward pass of a model and writes every logit,
 * raw float32: the same bytes on every machine and level, or something is wrong. It needs no
 * library beside libc, so that it also runs where only a cross compiler and an emulator are.
 *     logits MODEL LEVEL OUT.f32        LEVEL as of --isa, a usable one
 *     logits --level                    the highest usable one
 * Two sequences of 37 and 6 tokens together, then four steps of one token each; once with quantized
 * activations and once with f32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "tests/unit/rig.h"

enum { LONG = 37, SHORT = 6, STEPS = 4, ROWS = LONG + SHORT };

static bool write_step(FILE *out, const float *logits, size_t count)
{
    return fwrite(logits, sizeof *logits, count, out) == count;
}

static bool run(FILE *out, const char *path, enum isa isa, bool act_f32)
{
    struct rig r;
    rig_open(&r, path,
             &(struct rig_config){ .rows_max = ROWS,
                                   .outputs_max = ROWS,
                                   .ctx_max = 64,
                                   .sequences = 2,
                                   .threads = 2,
                                   .isa = isa,
                                   .act_f32 = act_f32 });
    const uint32_t vocab = r.model->vocab_count;
    int32_t tokens[2][LONG + STEPS];
    float *logits = calloc((size_t)ROWS * vocab, sizeof *logits);
    bool ok = logits != NULL;
    for (uint32_t i = 0; i < LONG + STEPS; i++) {
        tokens[0][i] = (int32_t)((i * 2654435761u >> 8) % vocab);
        tokens[1][i] = (int32_t)((i * 40503u + 77) % vocab);
    }
    uint32_t done[2] = { 0, 0 };
    for (int step = 0; step <= STEPS && ok; step++) {
        uint32_t count[2] = { step == 0 ? LONG : 1, step == 0 ? SHORT : 1 };
        struct rig_part parts[2] = {
            { 0, done[0], count[0], tokens[0] + done[0], logits, NULL },
            { 1, done[1], count[1], tokens[1] + done[1], logits + (size_t)count[0] * vocab, NULL },
        };
        rig_step(&r, parts, 2);
        ok = write_step(out, logits, (size_t)(count[0] + count[1]) * vocab);
        done[0] += count[0];
        done[1] += count[1];
    }
    free(logits);
    rig_close(&r);
    return ok;
}

int main(int argc, char **argv)
{
    enum isa isa;
    if (argc == 2 && strcmp(argv[1], "--level") == 0) {
        puts(isa_name(cpu_isa()));
        return 0;
    }
    if (argc != 4 || !isa_parse(&isa, argv[2])) {
        fprintf(stderr, "usage: logits MODEL LEVEL OUT.f32\n");
        return 2;
    }
    if (!isa_usable(isa)) {
        fprintf(stderr, "logits: this machine has no %s\n", argv[2]);
        return 1;
    }
    FILE *out = fopen(argv[3], "wb");
    if (out == NULL) {
        perror(argv[3]);
        return 1;
    }
    bool ok = run(out, argv[1], isa, false) && run(out, argv[1], isa, true);
    if (fclose(out) != 0 || !ok) {
        perror(argv[3]);
        return 1;
    }
    return 0;
}
