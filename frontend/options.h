/* SPDX-License-Identifier: MIT */
/* options - command lines from tables: one row per flag feeds parsing, --help, QUIRE_*, validation.
 *   owner    tables are constant; values are written through the group's base, text points into
 *            argv or the environment
 *   thread   the main thread, before others start
 *   errors   RC_USAGE with a text that names the flag, or RC_END when --help was printed
 *   order    defaults in the struct < QUIRE_NAME in the environment < flags; the last of equal
 *            flags wins */
#ifndef QUIRE_FRONTEND_OPTIONS_H
#define QUIRE_FRONTEND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"

enum option_kind {
    OPTION_FLAG,   /* bool: no value, or =on/off */
    OPTION_COUNT,  /* uint32_t: how often it was given */
    OPTION_U32,    /* uint32_t; sizes such as 32K are understood */
    OPTION_I32,    /* int32_t */
    OPTION_U64,    /* uint64_t; sizes such as 250M are understood */
    OPTION_I64,    /* int64_t */
    OPTION_F32,    /* float */
    OPTION_TEXT,   /* const char * */
    OPTION_CHOICE, /* uint32_t: index into choices */
    OPTION_TEXTS,  /* struct option_texts: may be repeated */
    OPTION_U32S    /* struct option_u32s: 1,2,4 */
};

#define OPTION_ITEMS_MAX 64u /* values of a repeated flag or of a list */

struct option_texts {
    const char *items[OPTION_ITEMS_MAX];
    uint32_t count;
};

struct option_u32s {
    uint32_t items[OPTION_ITEMS_MAX];
    uint32_t count;
};

struct option {
    const char *names; /* separated by blanks, short ones first: "-n --predict"; the first long one
                          is its name */
    enum option_kind kind;
    size_t offset;              /* of the value in the group's struct */
    double min, max;            /* of numbers; both 0 = any that the type holds */
    const char *value;          /* how --help calls the value; NULL for flags */
    const char *const *choices; /* of OPTION_CHOICE, ends with NULL */
    const char *help;
};

struct option_group {
    const char *title;
    const struct option *options;
    size_t count;
    void *base; /* struct that the offsets belong to, holding the defaults */
};

struct option_set {
    const char *command; /* "run" */
    const char *usage;   /* the line after "quire run" */
    const char *purpose; /* a sentence */
    const struct option_group *groups;
    size_t group_count;
    const char **operands; /* words that are no flags go here; NULL when there may be none */
    uint32_t operand_max;
    uint32_t operand_count; /* out */
};

/* options_parse - argv[0] is the command's name. Common flags of other engines that mean nothing
 * here are accepted with a note on stderr. */
enum rc options_parse(struct option_set *set, int argc, char **argv,
                      struct fault *fault) ATTR_MUST_USE;

/* options_begin - what every command does first: options_parse, and on RC_USAGE the complaint on
 * stderr. Returns -1 to go on, or the exit status. */
int options_begin(struct option_set *set, int argc, char **argv);

/* options_differ - the first row whose values in two structs are not the same, or NULL. */
const struct option *options_differ(const struct option *rows, size_t count, const void *a,
                                    const void *b);

/* options_print_help - what --help shows. */
void options_print_help(const struct option_set *set, FILE *out);

/* options_print_man - the same as a manual page, in roff. options_print_flags - the flags alone. */
void options_print_man(const struct option_set *set, FILE *out);
void options_print_flags(const struct option_set *set, FILE *out);

/* How `quire help` asks a command for these two. */
#define OPTIONS_MAN "--help=man"
#define OPTIONS_FLAGS "--help=flags"

/* option_name - the long name (else the first one); len without what follows it. */
const char *option_name(const struct option *o, size_t *len);

/* option_env_name - "QUIRE_TOP_K" for --top-k; false when the option has no long name. */
bool option_env_name(const struct option *o, char *out, size_t cap);

/* option_set_value - converts text into o's value under base. shown is how messages call the flag.
 */
enum rc option_set_value(const struct option *o, void *base, const char *shown, const char *text,
                         struct fault *fault) ATTR_MUST_USE;

/* options_distance - edits between two words (insert, drop, replace, swap of neighbours), for "did
 * you mean"; words over 31 bytes are far from everything. */
uint32_t options_distance(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
