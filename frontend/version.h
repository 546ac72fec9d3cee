/* SPDX-License-Identifier: MIT */
/* version - of the program: --version, answers of the server, make dist, rows of `quire bench`.
 * Constant, any thread. */
#ifndef QUIRE_FRONTEND_VERSION_H
#define QUIRE_FRONTEND_VERSION_H

#define QUIRE_VERSION "0.1.0"

/* The commit that was built, "-dirty" behind it when files differed; "unknown" outside of git. In
 * main.c: no other file is compiled anew for it. */
extern const char quire_commit[];

#endif
