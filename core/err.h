/* SPDX-License-Identifier: MIT */
/* err - one result code for the whole engine, and the text that goes with it at the edges.
 *   enum rc        what a call returns; RC_OK is 0. Wrong programs fail a must(), they get no code.
 *   struct fault   code + errno + one line of text, filled only at edges: flags, files, requests.
 *   thread         any; a fault belongs to its caller. */
#ifndef QUIRE_CORE_ERR_H
#define QUIRE_CORE_ERR_H

#include "core/attr.h"

#define RC_LIST(X)                                                                                 \
    X(RC_OK, "ok")                                                                                 \
    X(RC_FULL, "full")                      /* no room now: wait, shed or preempt; not an error */ \
    X(RC_AGAIN, "try again")                                                                       \
    X(RC_END, "end of data")                                                                       \
    X(RC_USAGE, "wrong usage")              /* flags: exit 2 */                                    \
    X(RC_INVALID, "invalid input")          /* a request or row: 400 */                            \
    X(RC_LIMIT, "over a limit")             /* a request that can never fit: 400 */                \
    X(RC_CORRUPT, "broken file")            /* model file: exit 3 */                               \
    X(RC_UNSUPPORTED, "not supported")      /* model file: exit 3 */                               \
    X(RC_NOT_FOUND, "not found")                                                                   \
    X(RC_NO_MEMORY, "out of memory")                                                               \
    X(RC_NO_FIT, "does not fit")            /* configuration against memory: exit 4 */             \
    X(RC_IO, "input/output error")                                                                 \
    X(RC_CANCELLED, "cancelled")                                                                   \
    X(RC_STOPPED, "stopped, resumable")     /* exit 75 */                                          \
    X(RC_PARTIAL, "finished with failures") /* exit 5 */

enum rc {
#define RC_ENUM(name, text) name,
    RC_LIST(RC_ENUM)
#undef RC_ENUM
    RC_COUNT
};

struct fault {
    enum rc code;
    int os_errno;   /* 0 when the system is not to blame */
    char text[240]; /* one line, no newline, control bytes escaped */
};

/* rc_text - short text of a code; never NULL. */
const char *rc_text(enum rc code);

/* rc_exit_status - the process exit status that a code stands for (docs: 0 1 2 3 4 5 75). */
int rc_exit_status(enum rc code);

/* fault_set - fills f (which may be NULL) and returns code, for `return fault_set(...)`. */
enum rc fault_set(struct fault *f, enum rc code, const char *fmt, ...) ATTR_PRINTF(3, 4);

/* fault_set_errno - the same with the current errno's text appended. */
enum rc fault_set_errno(struct fault *f, enum rc code, const char *fmt, ...) ATTR_PRINTF(3, 4);

#endif
