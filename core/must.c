/* SPDX-License-Identifier: MIT */
/* must - the abort path. It allocates nothing and takes no lock: it may run in any broken state. */
#include "core/must.h"

#include <stdio.h>
#include <stdlib.h>

#define NOTES 16u

struct note {
    const char *what;
    long a, b;
};

static _Thread_local struct note notes[NOTES];
static _Thread_local unsigned note_count;

void must_note(const char *what, long a, long b)
{
    notes[note_count++ % NOTES] = (struct note){ what, a, b };
}

void must_fail(const char *file, int line, const char *func, const char *expr)
{
    fprintf(stderr, "%s:%d: %s: must hold: %s\n", file, line, func, expr);
    unsigned first = note_count > NOTES ? note_count - NOTES : 0;
    for (unsigned i = first; i < note_count; i++) {
        const struct note *n = &notes[i % NOTES];
        fprintf(stderr, "  before: %s %ld %ld\n", n->what, n->a, n->b);
    }
    fflush(stderr);
    abort();
}
