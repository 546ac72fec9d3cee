/* SPDX-License-Identifier: MIT */
/* kernels_levels - --isa changes no bit: the logits of whole models at each level of this machine's
 * architecture against the scalar ones. One test a level, so that what the processor lacks is
 * skipped by name. Models of the formats that files are made of, with int8 and (Q4_K_M) with f32
 * activations, over two kinds of cache; steps of many rows, of two and of one. */
#include "tests/unit/test.h"

#include <unistd.h>

#include "tests/mkmodel/mkmodel.h"
#include "tests/unit/rig.h"

#define VOCAB 264u
#define TOKENS 24u
#define ROWS (2 * TOKENS)

static const char *const types[] = { "F32",  "F16",  "BF16", "Q8_0", "Q4_0",  "Q4_1",
                                     "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q4_K_M" };
enum { TYPES = sizeof types / sizeof *types, ACTS = 2 };

/* f32 activations: one path for all formats, which the last one (Q4_K and Q6_K) shows. */
static int acts_of(int type)
{
    return type == TYPES - 1 ? ACTS : 1;
}

static char paths[TYPES][40];
static float scalar[TYPES][ACTS][ROWS * VOCAB], found[ROWS * VOCAB];

/* Two sequences: a prompt each, together; then one token of the first, then one of both, .. */
static void compute(const char *path, enum isa isa, bool act_f32, float *logits)
{
    struct rig r;
    rig_open(&r, path,
             &(struct rig_config){
                 .rows_max = ROWS,
                 .outputs_max = ROWS,
                 .ctx_max = 64,
                 .sequences = 2,
                 .threads = 2,
                 .isa = isa,
                 .act_f32 = act_f32,
                 .kv_types = { act_f32 ? KV_F16 : KV_Q8_0, act_f32 ? KV_F16 : KV_Q4_0 } });
    assert_int_equal(r.model->vocab_count, VOCAB);
    int32_t tokens[2][TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[0][i] = (int32_t)((i * 2654435761u >> 8) % VOCAB);
        tokens[1][i] = (int32_t)((i * 40503u + 77) % VOCAB);
    }
    uint32_t done[2] = { 0, 0 };
    for (uint32_t step = 0; done[1] < TOKENS; step++) {
        uint32_t count[2] = { step == 0 ? 17 : 1, step == 0 ? 6 : step % 2 };
        struct rig_part parts[2];
        uint32_t part_count = 0;
        for (uint32_t i = 0; i < 2; i++) {
            if (count[i] == 0 || done[i] + count[i] > TOKENS)
                continue;
            parts[part_count++] = (struct rig_part){ .sequence = i,
                                                     .pos = done[i],
                                                     .count = count[i],
                                                     .tokens = tokens[i] + done[i],
                                                     .logits = logits };
            logits += (size_t)count[i] * VOCAB;
            done[i] += count[i];
        }
        if (part_count > 0)
            rig_step(&r, parts, part_count);
    }
    rig_close(&r);
}

static int open_models(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        struct mkmodel_spec spec;
        struct fault fault;
        snprintf(paths[i], sizeof paths[i], "/tmp/quire-levels-XXXXXX");
        int fd = mkstemp(paths[i]);
        if (fd < 0)
            return 1;
        close(fd);
        if (!mkmodel_shape(&spec, "tiny") || !mkmodel_type(&spec, types[i]))
            return 1;
        spec.seed = 11;
        spec.layers = 1;
        spec.ffn = 256;
        spec.vocab = VOCAB;
        spec.bias = true;
        if (mkmodel_write(&spec, paths[i], &fault) != RC_OK)
            return 1;
        for (int act = 0; act < acts_of(i); act++)
            compute(paths[i], ISA_SCALAR, act == 1, scalar[i][act]);
    }
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++)
        unlink(paths[i]);
    return 0;
}

static void check_level(void **state)
{
    enum isa isa = *(const enum isa *)*state;
    if (!isa_usable(isa))
        skip();
    for (int i = 0; i < TYPES; i++) {
        for (int act = 0; act < acts_of(i); act++) {
            memset(found, 0xee, sizeof found);
            compute(paths[i], isa, act == 1, found);
            for (uint32_t row = 0; row < 2 * TOKENS; row++)
                if (memcmp(&found[row * VOCAB], &scalar[i][act][row * VOCAB],
                           VOCAB * sizeof *found) != 0)
                    fail_msg("%s, %s activations, at %s: row %u differs from scalar", types[i],
                             act == 1 ? "f32" : "int8", isa_name(isa), row);
        }
    }
}

int main(void)
{
    static enum isa levels[] = { ISA_AVX2, ISA_AVXVNNI, ISA_AVX512VNNI,
                                 ISA_NEON, ISA_DOTPROD, ISA_I8MM };
#define LEVEL(level, i)                                                                            \
    {                                                                                              \
        .name = "test_levels_" #level, .test_func = check_level, .initial_state = &levels[i]       \
    }
    const struct CMUnitTest tests[] = { LEVEL(avx2, 0), LEVEL(avxvnni, 1), LEVEL(avx512vnni, 2),
                                        LEVEL(neon, 3), LEVEL(dotprod, 4), LEVEL(i8mm, 5) };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
