/* SPDX-License-Identifier: MIT */
/* options_man - the manual page of a command, and its flags as words for a shell, from the same
 * tables that parse them and that --help shows. */
#include <string.h>

#include "frontend/options.h"

/* Text as roff takes it: backslashes, dashes that are to stay dashes, no control lines. */
static void print_roff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text != '\0'; text++)
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
}

static void print_man_option(const struct option *o, FILE *out)
{
    char env[64];
    fputs(".TP\n.B ", out);
    for (const char *p = o->names; *p != '\0'; p++) {
        char one[2] = { *p, '\0' };
        print_roff(out, *p == ' ' ? ", " : one);
    }
    if (o->value != NULL)
        fprintf(out, " \\fI%s\\fR", o->value);
    fputc('\n', out);
    print_roff(out, o->help);
    if (option_env_name(o, env, sizeof env))
        fprintf(out, " (environment: %s)", env);
    fputc('\n', out);
}

void options_print_man(const struct option_set *set, FILE *out)
{
    fprintf(out, ".TH QUIRE\\-%s 1\n.SH NAME\nquire\\-%s \\- ", set->command, set->command);
    print_roff(out, set->purpose);
    fprintf(out, "\n.SH SYNOPSIS\n.B quire %s\n", set->command);
    print_roff(out, set->usage);
    fputs("\n.SH OPTIONS\nFlags win over the environment. Sizes may be written 32K or 250M.\n",
          out);
    for (size_t g = 0; g < set->group_count; g++) {
        if (set->groups[g].title != NULL) {
            fputs(".SS ", out);
            print_roff(out, set->groups[g].title);
            fputc('\n', out);
        }
        for (size_t i = 0; i < set->groups[g].count; i++)
            print_man_option(&set->groups[g].options[i], out);
    }
    fputs(".SH EXIT STATUS\n0 fine, 1 failed while running, 2 wrong usage, 3 model unreadable or "
          "not supported, 4 does not fit in memory.\n.SH SEE ALSO\n.BR quire (1)\n",
          out);
}

void options_print_flags(const struct option_set *set, FILE *out)
{
    for (size_t g = 0; g < set->group_count; g++)
        for (size_t i = 0; i < set->groups[g].count; i++)
            fprintf(out, "%s\n", set->groups[g].options[i].names);
}
