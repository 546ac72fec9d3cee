/* SPDX-License-Identifier: MIT */
/* main - names the command and hands over to it. */
#include <stdio.h>
#include <string.h>

#include "core/cpu.h"
#include "core/mem.h"
#include "frontend/commands.h"
#include "frontend/interrupt.h"
#include "frontend/options.h"
#include "frontend/version.h"

static const struct command {
    const char *name;
    const char *purpose;
    int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND_ROW(name, purpose) { #name, purpose, cmd_##name },
    COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_commands(FILE *out)
{
    fprintf(out,
            "usage: quire COMMAND [FLAGS]\n\n"
            "Serves many people at once from one memory-mapped GGUF model on ordinary CPUs.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].purpose);
    fprintf(
        out,
        "\n  quire COMMAND --help shows its flags; quire --version how this program was built.\n");
}

static void print_version(void)
{
#if defined(__clang__)
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const char *build = "sanitized";
#else
    const char *build = QUIRE_SLOW_CHECKS ? "slow checks" : "release";
#endif
    printf("quire %s\ncompiler   %s\nisa        %s\nallocator  %s\nbuild      %s\n", QUIRE_VERSION,
           compiler, isa_name(cpu_isa()), mem_allocator_name(), build);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int say_unknown(const char *name)
{
    const struct command *near = &commands[0];
    uint32_t best = UINT32_MAX;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        uint32_t d =
            options_distance(name, strlen(name), commands[i].name, strlen(commands[i].name));
        if (d < best) {
            best = d;
            near = &commands[i];
        }
    }
    struct fault fault;
    fault_set(&fault, RC_USAGE, "unknown command '%.60s'; the nearest is %s", name, near->name);
    fprintf(stderr, "quire: %s (quire help lists them)\n", fault.text);
    return rc_exit_status(RC_USAGE);
}

int cmd_help(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stdout);
        return 0;
    }
    const struct command *c = find_command(argv[1]);
    if (c == NULL)
        return say_unknown(argv[1]);
    if (c->run == cmd_help) {
        print_commands(stdout);
        return 0;
    }
    char flag[] = "--help";
    char *words[] = { argv[1], flag, NULL };
    return c->run(2, words);
}

int main(int argc, char **argv)
{
    interrupt_guard_files();
    if (argc < 2) {
        print_commands(stderr);
        return rc_exit_status(RC_USAGE);
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        print_version();
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return cmd_help(1, argv);
    const struct command *c = find_command(name);
    return c != NULL ? c->run(argc - 1, argv + 1) : say_unknown(name);
}
