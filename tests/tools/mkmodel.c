/* SPDX-License-Identifier: MIT */
/* mkmodel - command line of tests/mkmodel: writes a made-up model.
 *   mkmodel --shape tiny --type Q4_0 --seed 1 -o tiny.gguf */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "tests/mkmodel/mkmodel.h"

static const char usage[] =
    "usage: mkmodel [FLAGS] -o OUT.gguf\n"
    "  --shape NAME       tiny (default), tinyllama-1.1b, llama-3.2-1b, llama-3-8b, custom (tiny "
    "and the\n"
    "                     numbers given)\n"
    "  --script TEXT      instead of a shape: a model that answers this to everything\n"
    "  --type NAME        F32 (default) F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K Q4_K_M\n"
    "  --seed N           1\n"
    "  --width --layers --heads --kv-heads --head-dim --ffn --vocab --ctx N\n"
    "                     change a number of the shape; head-dim follows width / heads unless "
    "given\n"
    "  --experts N --experts-used N   a mixture; 2 are used unless given\n"
    "  --tied --untied    without or with output.weight\n"
    "  --bias             biases on q, k, v and o\n"
    "  --rope KIND        plain, linear, yarn, llama3\n"
    "  --vocab-kind KIND  gpt2 (default), spm\n"
    "  --split N          number of files\n"
    "  --exact --direct   quantize gaussian floats, or make random blocks (default for the large "
    "shapes)\n";

static int fail(const char *flag, const char *value)
{
    fprintf(stderr, "mkmodel: %s %s: not understood\n%s", flag, value != NULL ? value : "", usage);
    return 2;
}

/* One of names as its number; false when it is none. */
static bool parse_word(const char *value, const char *const *names, uint32_t count, uint32_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool set_number(struct mkmodel_spec *s, const char *flag, const char *value,
                       bool *head_dim_given)
{
    const struct {
        const char *flag;
        uint32_t *value;
    } numbers[] = {
        { "--width", &s->width },       { "--layers", &s->layers }, { "--heads", &s->heads },
        { "--kv-heads", &s->kv_heads }, { "--ffn", &s->ffn },       { "--head-dim", &s->head_dim },
        { "--vocab", &s->vocab },       { "--ctx", &s->ctx },       { "--split", &s->split },
        { "--experts", &s->experts },   { "--experts-used", &s->experts_used },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(flag, numbers[i].flag) != 0)
            continue;
        *head_dim_given = *head_dim_given || numbers[i].value == &s->head_dim;
        return str_parse_u32(str_of(value), 0, UINT32_MAX, numbers[i].value);
    }
    return false;
}

static bool set_valued(struct mkmodel_spec *s, const char *flag, const char *value,
                       bool *head_dim_given)
{
    static const char *const ropes[] = { "plain", "linear", "yarn", "llama3" };
    static const char *const vocabs[] = { "gpt2", "spm" };
    uint32_t word;
    if (strcmp(flag, "--type") == 0)
        return mkmodel_type(s, value);
    if (strcmp(flag, "--seed") == 0)
        return str_parse_u64(str_of(value), 0, UINT64_MAX, &s->seed);
    if (strcmp(flag, "--rope") == 0) {
        bool ok = parse_word(value, ropes, 4, &word);
        s->rope = ok ? (enum mkmodel_rope)word : s->rope;
        return ok;
    }
    if (strcmp(flag, "--vocab-kind") == 0) {
        bool ok = parse_word(value, vocabs, 2, &word);
        s->vocab_kind = ok ? (enum mkmodel_vocab)word : s->vocab_kind;
        return ok;
    }
    return set_number(s, flag, value, head_dim_given);
}

static bool set_plain(struct mkmodel_spec *s, const char *flag)
{
    if (strcmp(flag, "--tied") == 0)
        s->tied = true;
    else if (strcmp(flag, "--untied") == 0)
        s->tied = false;
    else if (strcmp(flag, "--bias") == 0)
        s->bias = true;
    else if (strcmp(flag, "--exact") == 0)
        s->direct = false;
    else if (strcmp(flag, "--direct") == 0)
        s->direct = true;
    else
        return false;
    return true;
}

/* The shape or script comes first whatever its place, as the other flags change it. */
static bool find_shape(struct mkmodel_spec *s, int argc, char **argv, const char **name)
{
    *name = "tiny";
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--script") == 0) {
            mkmodel_script(s, argv[i + 1]);
            return true;
        }
        if (strcmp(argv[i], "--shape") == 0)
            *name = argv[i + 1];
    }
    bool custom = strcmp(*name, "custom") == 0;
    return mkmodel_shape(s, custom ? "tiny" : *name);
}

int main(int argc, char **argv)
{
    struct mkmodel_spec spec;
    const char *out = NULL, *shape;
    bool head_dim_given = false;
    if (!find_shape(&spec, argc, argv, &shape))
        return fail("--shape", shape);
    uint32_t width = spec.width, heads = spec.heads;
    for (int i = 1; i < argc; i++) {
        if (set_plain(&spec, argv[i]))
            continue;
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value == NULL)
            return fail(argv[i], NULL);
        if (strcmp(argv[i], "-o") == 0)
            out = value;
        else if (strcmp(argv[i], "--shape") != 0 && strcmp(argv[i], "--script") != 0 &&
                 !set_valued(&spec, argv[i], value, &head_dim_given))
            return fail(argv[i], value);
        i++;
    }
    if (out == NULL)
        return fail("-o", NULL);
    if (!head_dim_given && spec.heads != 0 && (spec.width != width || spec.heads != heads))
        spec.head_dim = spec.width / spec.heads;
    struct fault fault;
    enum rc rc = mkmodel_write(&spec, out, &fault);
    if (rc != RC_OK)
        fprintf(stderr, "mkmodel: %s\n", fault.text);
    return rc_exit_status(rc);
}
