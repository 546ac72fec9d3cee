/* SPDX-License-Identifier: MIT */
/* priority - classes by name, and which of two is the lower. */
#include "sched/request.h"

bool priority_parse(struct str name, enum priority *out)
{
    static const char *const names[] = { [PRIORITY_NORMAL] = "normal",
                                         [PRIORITY_INTERACTIVE] = "interactive",
                                         [PRIORITY_BATCH] = "batch",
                                         [PRIORITY_SPARE] = "spare" };
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_equal(name, str_of(names[i]))) {
            *out = (enum priority)i;
            return true;
        }
    return false;
}

enum priority priority_lower(enum priority a, enum priority b)
{
    static const int ranks[] = { [PRIORITY_INTERACTIVE] = 0,
                                 [PRIORITY_NORMAL] = 1,
                                 [PRIORITY_BATCH] = 2,
                                 [PRIORITY_SPARE] = 3 };
    return ranks[a] > ranks[b] ? a : b;
}
