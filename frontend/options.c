/* SPDX-License-Identifier: MIT */
/* options - walks argv over the tables of a command.
 * Names that llama.cpp users know (-npp, -ngl) are long names behind one dash, which getopt cannot
 * match, so the walk is ours: a word is a flag when it starts with a dash and is not just "-"; "--"
 * ends the flags; "--name=value" works for every flag, and '_' in a name reads as '-'. The first
 * walk changes nothing and only looks for --help, so that help shows the defaults. */
#include "frontend/options.h"

#include <stdlib.h>
#include <string.h>

#include "core/must.h"

enum takes { TAKES_NOTHING, TAKES_VALUE, TAKES_SWITCH /* an optional on, off or auto */ };

/* Flags of other engines that have no meaning here: a script that has them still runs. */
static const struct {
    const char *name;
    enum takes takes;
} foreign[] = {
    { "-ngl", TAKES_VALUE },
    { "--gpu-layers", TAKES_VALUE },
    { "--n-gpu-layers", TAKES_VALUE },
    { "-sm", TAKES_VALUE },
    { "--split-mode", TAKES_VALUE },
    { "-ts", TAKES_VALUE },
    { "--tensor-split", TAKES_VALUE },
    { "-mg", TAKES_VALUE },
    { "--main-gpu", TAKES_VALUE },
    { "--device", TAKES_VALUE },
    { "-fa", TAKES_SWITCH },
    { "--flash-attn", TAKES_SWITCH },
    { "--mlock", TAKES_NOTHING }, /* by commands that compute nothing */
    { "--mmap", TAKES_NOTHING },
    { "--no-mmap", TAKES_NOTHING },
    { "--numa", TAKES_VALUE },
    { "-tb", TAKES_VALUE },
    { "--threads-batch", TAKES_VALUE },
    { "-b", TAKES_VALUE },
    { "--batch-size", TAKES_VALUE },
    { "-ub", TAKES_VALUE },
    { "--ubatch-size", TAKES_VALUE },
    { "-cb", TAKES_NOTHING },
    { "--cont-batching", TAKES_NOTHING },
    { "-kvu", TAKES_NOTHING },
    { "--kv-unified", TAKES_NOTHING },
    { "--no-warmup", TAKES_NOTHING },
    { "--no-perf", TAKES_NOTHING },
    { "-no-cnv", TAKES_NOTHING },
    { "--no-conversation", TAKES_NOTHING },
    { "--no-display-prompt", TAKES_NOTHING },
    { "-st", TAKES_NOTHING },
    { "--single-turn", TAKES_NOTHING },
    { "-co", TAKES_SWITCH },
    { "--color", TAKES_SWITCH },
    { "--no-context-shift", TAKES_NOTHING },
    { "--simple-io", TAKES_NOTHING },
    { "--log-disable", TAKES_NOTHING },
    { "--jinja", TAKES_NOTHING }, /* and what `quire serve` always has */
    { "--metrics", TAKES_NOTHING },
    { "--slots", TAKES_NOTHING },
    { "--props", TAKES_NOTHING },
    { "--no-webui", TAKES_NOTHING },
    { "--embedding", TAKES_NOTHING },
    { "--embeddings", TAKES_NOTHING },
    { "--enable-prefix-caching", TAKES_NOTHING },
    { "--enable-chunked-prefill", TAKES_NOTHING },
    { "--dtype", TAKES_VALUE },
    { "--gpu-memory-utilization", TAKES_VALUE },
    { "--tensor-parallel-size", TAKES_VALUE },
    { "--enforce-eager", TAKES_NOTHING },
};
#define FOREIGN_COUNT (sizeof foreign / sizeof foreign[0])

/* Next name in a blank-separated list; len 0 at its end. */
static const char *next_name(const char *names, size_t *len)
{
    names += strspn(names, " ");
    *len = strcspn(names, " ");
    return names;
}

static bool same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    for (size_t i = 0; i < a_len; i++) {
        char c = i > 1 && a[i] == '_' ? '-' : a[i];
        if (c != b[i])
            return false;
    }
    return true;
}

const char *option_name(const struct option *o, size_t *len)
{
    size_t n;
    const char *first = NULL;
    size_t first_len = 0;
    for (const char *p = next_name(o->names, &n); n > 0; p = next_name(p + n, &n)) {
        if (first == NULL) {
            first = p;
            first_len = n;
        }
        if (n > 2 && p[1] == '-') {
            *len = n;
            return p;
        }
    }
    must(first != NULL);
    *len = first_len;
    return first;
}

bool option_env_name(const struct option *o, char *out, size_t cap)
{
    size_t len;
    const char *name = option_name(o, &len);
    if (len < 3 || name[1] != '-' || len + sizeof "QUIRE_" > cap)
        return false;
    size_t n = (size_t)snprintf(out, cap, "QUIRE_");
    for (size_t i = 2; i < len; i++) {
        char c = name[i];
        out[n++] = c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    out[n] = '\0';
    return true;
}

uint32_t options_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    enum { WORD = 32 };
    uint32_t d[WORD][WORD];
    if (a_len >= WORD || b_len >= WORD)
        return UINT32_MAX;
    for (size_t i = 0; i <= a_len; i++) {
        for (size_t j = 0; j <= b_len; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (uint32_t)(i + j);
                continue;
            }
            uint32_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[a_len][b_len];
}

static const struct option *find_option(const struct option_set *set, const char *word,
                                        size_t word_len, void **base)
{
    for (size_t g = 0; g < set->group_count; g++) {
        for (size_t i = 0; i < set->groups[g].count; i++) {
            const struct option *o = &set->groups[g].options[i];
            size_t n;
            for (const char *p = next_name(o->names, &n); n > 0; p = next_name(p + n, &n)) {
                if (same_name(word, word_len, p, n)) {
                    *base = set->groups[g].base;
                    return o;
                }
            }
        }
    }
    return NULL;
}

static enum rc say_unknown(const struct option_set *set, const char *word, size_t word_len,
                           struct fault *fault)
{
    uint32_t best = UINT32_MAX;
    const char *near = NULL;
    size_t near_len = 0;
    for (size_t g = 0; g < set->group_count; g++) {
        for (size_t i = 0; i < set->groups[g].count; i++) {
            size_t n;
            const char *p = next_name(set->groups[g].options[i].names, &n);
            for (; n > 0; p = next_name(p + n, &n)) {
                uint32_t d = options_distance(word, word_len, p, n);
                if (d < best) {
                    best = d;
                    near = p;
                    near_len = n;
                }
            }
        }
    }
    if (near == NULL)
        return fault_set(fault, RC_USAGE, "unknown flag %.*s", (int)(word_len < 60 ? word_len : 60),
                         word);
    return fault_set(fault, RC_USAGE, "unknown flag %.*s; the nearest is %.*s",
                     (int)(word_len < 60 ? word_len : 60), word, (int)near_len, near);
}

/* Position after a foreign flag's value, or 0 when the word is none. */
static int skip_foreign(const char *word, size_t word_len, bool has_value, int index, int argc,
                        char **argv, bool apply)
{
    for (size_t i = 0; i < FOREIGN_COUNT; i++) {
        if (!same_name(word, word_len, foreign[i].name, strlen(foreign[i].name)))
            continue;
        if (apply)
            fprintf(stderr, "note: %s is ignored: it has no meaning here\n", foreign[i].name);
        int next = index + 1;
        if (has_value || next >= argc || foreign[i].takes == TAKES_NOTHING)
            return next;
        if (foreign[i].takes == TAKES_VALUE)
            return next + 1;
        static const char *const switches[] = { "on", "off", "auto", "0", "1" };
        for (size_t k = 0; k < sizeof switches / sizeof switches[0]; k++)
            if (strcmp(argv[next], switches[k]) == 0)
                return next + 1;
        return next;
    }
    return 0;
}

/* One flag at argv[*index]; *index moves behind it and its value. */
static enum rc take_flag(struct option_set *set, int argc, char **argv, int *index, bool apply,
                         struct fault *fault)
{
    const char *word = argv[*index];
    const char *equals = strchr(word, '=');
    size_t word_len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    void *base;
    const struct option *o = find_option(set, word, word_len, &base);
    if (o == NULL) {
        int next = skip_foreign(word, word_len, equals != NULL, *index, argc, argv, apply);
        if (next == 0)
            return say_unknown(set, word, word_len, fault);
        *index = next;
        return RC_OK;
    }
    char shown[40];
    snprintf(shown, sizeof shown, "%.*s", (int)(word_len < 39 ? word_len : 39), word);
    *index += 1;
    const char *text = equals != NULL ? equals + 1 : NULL;
    if (text == NULL && (o->kind == OPTION_FLAG || o->kind == OPTION_COUNT)) {
        if (apply && o->kind == OPTION_FLAG)
            *(bool *)((char *)base + o->offset) = true;
        else if (apply)
            *(uint32_t *)(void *)((char *)base + o->offset) += 1;
        return RC_OK;
    }
    void *ignored;
    if (text == NULL) {
        if (*index >= argc ||
            find_option(set, argv[*index], strlen(argv[*index]), &ignored) != NULL)
            return fault_set(fault, RC_USAGE, "%s needs a value: %s", shown, o->value);
        text = argv[(*index)++];
    }
    return apply ? option_set_value(o, base, shown, text, fault) : RC_OK;
}

static enum rc walk(struct option_set *set, int argc, char **argv, bool apply, struct fault *fault)
{
    bool flags = true;
    set->operand_count = 0;
    for (int i = 1; i < argc;) {
        const char *word = argv[i];
        if (flags && strcmp(word, "--") == 0) {
            flags = false;
            i++;
        } else if (flags && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            return RC_END;
        } else if (flags && word[0] == '-' && word[1] != '\0') {
            enum rc rc = take_flag(set, argc, argv, &i, apply, fault);
            if (rc != RC_OK)
                return rc;
        } else if (set->operand_count < set->operand_max) {
            set->operands[set->operand_count++] = word;
            i++;
        } else {
            return fault_set(fault, RC_USAGE, "unexpected word '%.60s'", word);
        }
    }
    return RC_OK;
}

static enum rc take_environment(struct option_set *set, struct fault *fault)
{
    for (size_t g = 0; g < set->group_count; g++) {
        for (size_t i = 0; i < set->groups[g].count; i++) {
            const struct option *o = &set->groups[g].options[i];
            char name[64];
            if (!option_env_name(o, name, sizeof name))
                continue;
            const char *text = getenv(name);
            if (text == NULL || text[0] == '\0')
                continue;
            enum rc rc = option_set_value(o, set->groups[g].base, name, text, fault);
            if (rc != RC_OK)
                return rc;
        }
    }
    return RC_OK;
}

const struct option *options_differ(const struct option *rows, size_t count, const void *a,
                                    const void *b)
{
    static const size_t bytes[] = { [OPTION_FLAG] = sizeof(bool),
                                    [OPTION_COUNT] = sizeof(uint32_t),
                                    [OPTION_U32] = sizeof(uint32_t),
                                    [OPTION_I32] = sizeof(int32_t),
                                    [OPTION_U64] = sizeof(uint64_t),
                                    [OPTION_I64] = sizeof(int64_t),
                                    [OPTION_F32] = sizeof(float),
                                    [OPTION_TEXT] = sizeof(const char *),
                                    [OPTION_CHOICE] = sizeof(uint32_t),
                                    [OPTION_TEXTS] = sizeof(struct option_texts),
                                    [OPTION_U32S] = sizeof(struct option_u32s) };
    for (size_t i = 0; i < count; i++)
        if (memcmp((const char *)a + rows[i].offset, (const char *)b + rows[i].offset,
                   bytes[rows[i].kind]) != 0)
            return &rows[i];
    return NULL;
}

enum rc options_parse(struct option_set *set, int argc, char **argv, struct fault *fault)
{
    must(set->operand_max == 0 || set->operands != NULL);
    if (walk(set, argc, argv, false, NULL) == RC_END) {
        options_print_help(set, stdout);
        return RC_END;
    }
    enum rc rc = take_environment(set, fault);
    return rc == RC_OK ? walk(set, argc, argv, true, fault) : rc;
}

int options_begin(struct option_set *set, int argc, char **argv)
{
    struct fault fault;
    if (argc == 2 && strcmp(argv[1], OPTIONS_MAN) == 0) {
        options_print_man(set, stdout);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], OPTIONS_FLAGS) == 0) {
        options_print_flags(set, stdout);
        return 0;
    }
    enum rc rc = options_parse(set, argc, argv, &fault);
    if (rc == RC_OK)
        return -1;
    if (rc == RC_END)
        return 0;
    fprintf(stderr, "quire %s: %s (see quire %s --help)\n", set->command, fault.text, set->command);
    return rc_exit_status(rc);
}
