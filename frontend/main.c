/* SPDX-License-Identifier: MIT */
/* main - names the command and hands over to it. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/cpu.h"
#include "core/mem.h"
#include "frontend/commands.h"
#include "frontend/interrupt.h"
#include "frontend/options.h"
#include "frontend/version.h"

#ifndef QUIRE_COMMIT /* a tool that knows no flags of the Makefile */
#define QUIRE_COMMIT "unknown"
#endif
const char quire_commit[] = QUIRE_COMMIT;

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

static int print_man(void)
{
    puts(".TH QUIRE 1\n.SH NAME\nquire \\- serves many people at once from one model on ordinary "
         "CPUs\n.SH SYNOPSIS\n.B quire\n.I COMMAND\n.RI [ FLAGS ]\n.SH COMMANDS");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf(".TP\n.B %s\n%.*s\n", commands[i].name, (int)strcspn(commands[i].purpose, ":"),
               commands[i].purpose);
    puts(".SH SEE ALSO\nThe page of each command: quire\\-run(1), quire\\-serve(1) and so on.");
    return 0;
}

/* The commands are known here, the flags are asked for when they are wanted. */
static int print_completion(void)
{
    fputs("# bash completion of quire (zsh: autoload bashcompinit first)\n_quire() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]}\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          stdout);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("%s%s", i > 0 ? " " : "", commands[i].name);
    puts("\" -- \"$cur\"))\n    elif [ \"${cur#-}\" != \"$cur\" ]; then\n"
         "        COMPREPLY=($(compgen -W \"$(quire help --flags \"${COMP_WORDS[1]}\" "
         "2>/dev/null)\" "
         "-- \"$cur\"))\n    else\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}\n"
         "complete -o filenames -F _quire quire");
    return 0;
}

/* quire help [--man | --flags] [COMMAND], quire help --completion */
int cmd_help(int argc, char **argv)
{
    char help[] = "--help", man[] = OPTIONS_MAN, flags[] = OPTIONS_FLAGS, *form = help;
    if (argc > 1 && strcmp(argv[1], "--completion") == 0)
        return print_completion();
    if (argc > 1 && strcmp(argv[1], "--man") == 0)
        form = man;
    else if (argc > 1 && strcmp(argv[1], "--flags") == 0)
        form = flags;
    const char *name = form == help ? argv[1] : argc > 2 ? argv[2] : NULL;
    const struct command *c = argc > 1 && name != NULL ? find_command(name) : NULL;
    if (argc > 1 && name != NULL && c == NULL)
        return say_unknown(name);
    if (c != NULL && c->run != cmd_help) {
        char *words[] = { argv[form == help ? 1 : 2], form, NULL };
        return c->run(2, words);
    }
    if (form == man && c == NULL)
        return print_man();
    print_commands(stdout);
    return 0;
}

static int dispatch(int argc, char **argv)
{
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

int main(int argc, char **argv)
{
    interrupt_guard_files();
    json_set_alloc_funcs(mem_foreign_alloc, mem_foreign_free);
    if (argc < 2) {
        print_commands(stderr);
        return rc_exit_status(RC_USAGE);
    }
    int status = dispatch(argc, argv);
    if (status == 0 && (fflush(stdout) != 0 || ferror(stdout))) {
        fputs("quire: stdout cannot be written\n", stderr);
        status = rc_exit_status(RC_IO);
    }
    return status;
}
