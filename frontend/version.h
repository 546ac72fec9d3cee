/* SPDX-License-Identifier: MIT */
/* version - of the program: --version, answers of the server, make dist. Constant, any thread. */
#ifndef QUIRE_FRONTEND_VERSION_H
#define QUIRE_FRONTEND_VERSION_H

#define QUIRE_VERSION "0.1.0"

#endif
