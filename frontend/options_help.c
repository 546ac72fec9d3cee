/* SPDX-License-Identifier: MIT */
/* options_help - the --help text of a command, from the same tables that parse it.
 * A row: names and value, the sentence, then in brackets the default (what the struct holds) and
 * the environment variable. Sentences wrap at 100 columns. */
#include "frontend/options.h"

#include <string.h>

enum { HELP_COLUMN = 30, HELP_WIDTH = 100 };

/* Writes text from the current column on, breaking lines at blanks. */
static void print_wrapped(FILE *out, const char *text, int column)
{
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + len > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", len, text);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* The default as text, empty when there is nothing to say. */
static void default_text(const struct option *o, const void *base, char *out, size_t cap)
{
    const void *value = (const char *)base + o->offset;
    out[0] = '\0';
    switch (o->kind) {
    case OPTION_U32:
        snprintf(out, cap, "%u", *(const uint32_t *)value);
        break;
    case OPTION_I32: /* below the range: not given */
        if (o->min == o->max || (double)*(const int32_t *)value >= o->min)
            snprintf(out, cap, "%d", *(const int32_t *)value);
        break;
    case OPTION_U64:
        snprintf(out, cap, "%llu", (unsigned long long)*(const uint64_t *)value);
        break;
    case OPTION_I64:
        snprintf(out, cap, "%lld", (long long)*(const int64_t *)value);
        break;
    case OPTION_F32:
        snprintf(out, cap, "%g", (double)*(const float *)value);
        break;
    case OPTION_CHOICE:
        snprintf(out, cap, "%s", o->choices[*(const uint32_t *)value]);
        break;
    case OPTION_TEXT:
        if (*(const char *const *)value != NULL)
            snprintf(out, cap, "%s", *(const char *const *)value);
        break;
    case OPTION_U32S: {
        const struct option_u32s *list = value;
        size_t used = 0;
        for (uint32_t i = 0; i < list->count && used < cap; i++)
            used +=
                (size_t)snprintf(out + used, cap - used, "%s%u", i > 0 ? "," : "", list->items[i]);
        break;
    }
    case OPTION_FLAG:
    case OPTION_COUNT:
    case OPTION_TEXTS:
        break;
    }
}

static void print_option(const struct option *o, const void *base, FILE *out)
{
    char left[96], sentence[512], initial[64], env[64];
    size_t used = 0;
    for (const char *p = o->names; *p != '\0' && used + 3 < sizeof left; p++) {
        if (*p == ' ')
            left[used++] = ',';
        left[used++] = *p;
    }
    left[used] = '\0';
    if (o->value != NULL)
        used += (size_t)snprintf(left + used, sizeof left - used, " %s", o->value);
    fprintf(out, "  %s", left);
    if (used + 4 > HELP_COLUMN)
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(out, "%*s", HELP_COLUMN - 2 - (int)used, "");
    default_text(o, base, initial, sizeof initial);
    bool named = option_env_name(o, env, sizeof env);
    snprintf(sentence, sizeof sentence, "%s [%s%s%s%s]", o->help,
             initial[0] != '\0' ? "default " : "", initial, initial[0] != '\0' && named ? ", " : "",
             named ? env : "");
    print_wrapped(out, sentence, HELP_COLUMN);
}

void options_print_help(const struct option_set *set, FILE *out)
{
    fprintf(out, "usage: quire %s %s\n\n%s\n", set->command, set->usage, set->purpose);
    for (size_t g = 0; g < set->group_count; g++) {
        const char *title = set->groups[g].title;
        fprintf(out, "\n%s:\n", title != NULL ? title : "flags");
        for (size_t i = 0; i < set->groups[g].count; i++)
            print_option(&set->groups[g].options[i], set->groups[g].base, out);
    }
    fprintf(out, "\nFlags win over the QUIRE_ variables. Sizes may be written 32K or 250M.\n");
}
