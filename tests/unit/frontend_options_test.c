/* SPDX-License-Identifier: MIT */
/* Tests of frontend/options: matching, values, environment, messages, help. */
#include "tests/unit/test.h"

#include "frontend/options.h"

struct target {
    const char *model, *prompt;
    uint32_t ctx, isa, verbose;
    int32_t predict;
    int64_t seed;
    uint64_t bytes;
    float temp;
    bool json;
    struct option_texts stops;
    struct option_u32s npl;
};

static const char *const isas[] = { "auto", "scalar", "avx2", NULL };
static const struct option rows[] = {
    { "-m --model", OPTION_TEXT, offsetof(struct target, model), 0, 0, "FILE", NULL, "model file" },
    { "-p --prompt", OPTION_TEXT, offsetof(struct target, prompt), 0, 0, "TEXT", NULL,
      "the prompt" },
    { "-c --ctx-size", OPTION_U32, offsetof(struct target, ctx), 1, 1048576, "N", NULL, "context" },
    { "-n --predict", OPTION_I32, offsetof(struct target, predict), -1, 1e6, "N", NULL, "tokens" },
    { "-s --seed", OPTION_I64, offsetof(struct target, seed), 0, 0, "N", NULL, "seed" },
    { "--bytes", OPTION_U64, offsetof(struct target, bytes), 0, 0, "N", NULL, "bytes" },
    { "--temp --temperature", OPTION_F32, offsetof(struct target, temp), 0, 100, "T", NULL,
      "heat" },
    { "--json", OPTION_FLAG, offsetof(struct target, json), 0, 0, NULL, NULL, "as JSON" },
    { "-v --verbose", OPTION_COUNT, offsetof(struct target, verbose), 0, 0, NULL, NULL,
      "say more" },
    { "--isa", OPTION_CHOICE, offsetof(struct target, isa), 0, 0, "X", isas, "level" },
    { "--stop", OPTION_TEXTS, offsetof(struct target, stops), 0, 0, "TEXT", NULL, "stop text" },
    { "-npl", OPTION_U32S, offsetof(struct target, npl), 1, 4096, "N,N", NULL, "rows" },
};

struct parsed {
    struct target t;
    struct fault fault;
    enum rc rc;
    const char *operands[2];
    uint32_t operand_count;
};

/* Splits line at '|' and parses it; the words stay in a buffer that lives as long as the process.
 */
static struct parsed parse(const char *line)
{
    static char buffers[64][400];
    static unsigned next;
    char *words[40] = { NULL }, *p = buffers[next++ % 64];
    snprintf(p, sizeof buffers[0], "run%s%s", line[0] != '\0' ? "|" : "", line);
    int count = 0;
    words[count++] = p;
    while ((p = strchr(p, '|')) != NULL) {
        *p++ = '\0';
        words[count++] = p;
    }
    struct parsed r = { .t = { .ctx = 4096, .predict = 128, .temp = 1.0f } };
    struct option_group group = { "flags", rows, sizeof rows / sizeof rows[0], &r.t };
    struct option_set set = { "run", "[FLAGS]", "Tests.", &group, 1, r.operands, 2, 0 };
    r.rc = options_parse(&set, count, words, &r.fault);
    r.operand_count = set.operand_count;
    return r;
}

static void test_options_every_kind(void **state)
{
    (void)state;
    struct parsed r =
        parse("-m|a.gguf|-p|-|-c|32K|-n|-1|--seed|-5|--bytes|250M|--temp|0.25|--json|-v|-v|"
              "--isa|avx2|--stop|x|--stop|y|-npl|1,2,4|file");
    assert_int_equal(r.rc, RC_OK);
    assert_string_equal(r.t.model, "a.gguf");
    assert_string_equal(r.t.prompt, "-");
    assert_int_equal(r.t.ctx, 32768);
    assert_int_equal(r.t.predict, -1);
    assert_int_equal(r.t.seed, -5);
    assert_int_equal(r.t.bytes, 250u << 20);
    assert_true(r.t.temp == 0.25f);
    assert_true(r.t.json);
    assert_int_equal(r.t.verbose, 2);
    assert_int_equal(r.t.isa, 2);
    assert_int_equal(r.t.stops.count, 2);
    assert_string_equal(r.t.stops.items[1], "y");
    assert_int_equal(r.t.npl.count, 3);
    assert_int_equal(r.t.npl.items[2], 4);
    assert_int_equal(r.operand_count, 1);
    assert_string_equal(r.operands[0], "file");
}

static void test_options_equals_underscore_last_wins(void **state)
{
    (void)state;
    struct parsed r =
        parse("--ctx_size=25.6k|-c=100|--json=off|-npl=7|--prompt=-m|--bytes=18446744073709551615|"
              "--|-x");
    assert_int_equal(r.rc, RC_OK);
    assert_int_equal(r.t.ctx, 100);
    assert_false(r.t.json);
    assert_int_equal(r.t.npl.items[0], 7);
    assert_string_equal(r.t.prompt, "-m");
    assert_true(r.t.bytes == UINT64_MAX);
    assert_string_equal(r.operands[0], "-x");
    assert_int_equal(parse("--ctx-size=25.6k").t.ctx, 25600);
}

static void assert_refused(const char *line, const char *text)
{
    struct parsed r = parse(line);
    assert_int_equal(r.rc, RC_USAGE);
    assert_string_equal(r.fault.text, text);
}

static void test_options_refusals_say_what_is_right(void **state)
{
    (void)state;
    assert_refused("--tmep|1", "unknown flag --tmep; the nearest is --temp");
    assert_refused("--modle=x", "unknown flag --modle; the nearest is --model");
    assert_refused("-c|0", "-c takes a whole number from 1 to 1048576, not '0'");
    assert_refused("-c|12x", "-c takes a whole number from 1 to 1048576, not '12x'");
    assert_refused("-c", "-c needs a value: N");
    assert_refused("-c|1.5", "-c takes a whole number from 1 to 1048576, not '1.5'");
    assert_refused("-c|4294967297", "-c takes a whole number from 1 to 1048576, not '4294967297'");
    assert_refused("-c| 5", "-c takes a whole number from 1 to 1048576, not ' 5'");
    assert_refused("--bytes|-1", "--bytes takes a whole number, not '-1'");
    assert_refused("--bytes|18446744073709551616",
                   "--bytes takes a whole number, not '18446744073709551616'");
    assert_refused("-s|9223372036854775808", "-s takes a whole number, not '9223372036854775808'");
    assert_refused("--temp|nan", "--temp takes a number from 0 to 100, not 'nan'");
    assert_refused("--temp|0x10", "--temp takes a number from 0 to 100, not '0x10'");
    assert_refused("--isa|mmx", "--isa takes one of auto, scalar, avx2, not 'mmx'");
    assert_refused("--json=maybe", "--json is a switch: on or off, not 'maybe'");
    assert_refused("-npl|1,,2", "-npl takes a whole number from 1 to 4096, not ''");
    assert_refused("-m|-p|x", "-m needs a value: FILE");
    assert_refused("a|b|c", "unexpected word 'c'");
    assert_refused("-m", "-m needs a value: FILE");
}

static void test_options_foreign_flags_are_ignored(void **state)
{
    (void)state;
    struct parsed r =
        parse("-ngl|99|--mlock|-fa|on|--flash-attn|-c|7|--no_mmap|--numa=isolate|-fa|word");
    assert_int_equal(r.rc, RC_OK);
    assert_int_equal(r.t.ctx, 7);
    assert_int_equal(r.operand_count, 1);
    assert_string_equal(r.operands[0], "word");
}

static void test_options_environment_below_flags(void **state)
{
    (void)state;
    setenv("QUIRE_CTX_SIZE", "64", 1);
    setenv("QUIRE_TEMP", "2", 1);
    setenv("QUIRE_JSON", "yes", 1);
    struct parsed r = parse("--temp|3");
    assert_int_equal(r.rc, RC_OK);
    assert_int_equal(r.t.ctx, 64);
    assert_true(r.t.temp == 3.0f);
    assert_true(r.t.json);
    setenv("QUIRE_CTX_SIZE", "many", 1);
    assert_refused("", "QUIRE_CTX_SIZE takes a whole number from 1 to 1048576, not 'many'");
    unsetenv("QUIRE_CTX_SIZE");
    unsetenv("QUIRE_TEMP");
    unsetenv("QUIRE_JSON");
    char name[16];
    assert_false(option_env_name(&rows[11], name, sizeof name));
    assert_false(option_env_name(&rows[6], name, 8));
}

static void test_options_help_names_everything(void **state)
{
    (void)state;
    struct target t = { .ctx = 4096 };
    struct option_group group = { "flags", rows, sizeof rows / sizeof rows[0], &t };
    struct option_set set = { "run", "[FLAGS]", "Tests.", &group, 1, NULL, 0, 0 };
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    options_print_help(&set, f);
    fclose(f);
    assert_non_null(strstr(text, "-c, --ctx-size N"));
    assert_non_null(strstr(text, "[default 4096, QUIRE_CTX_SIZE]"));
    assert_non_null(strstr(text, "[default auto, QUIRE_ISA]"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_non_null(strstr(text, rows[i].help));
    free(text);
}

static void test_options_distance(void **state)
{
    (void)state;
    assert_int_equal(options_distance("abc", 3, "abc", 3), 0);
    assert_int_equal(options_distance("abc", 3, "acb", 3), 1);
    assert_int_equal(options_distance("abc", 3, "", 0), 3);
    assert_int_equal(options_distance("kitten", 6, "sitting", 7), 3);
    assert_true(options_distance("0123456789012345678901234567890123", 34, "a", 1) == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_every_kind),
        cmocka_unit_test(test_options_equals_underscore_last_wins),
        cmocka_unit_test(test_options_refusals_say_what_is_right),
        cmocka_unit_test(test_options_foreign_flags_are_ignored),
        cmocka_unit_test(test_options_environment_below_flags),
        cmocka_unit_test(test_options_help_names_everything),
        cmocka_unit_test(test_options_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
