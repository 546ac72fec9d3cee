/* SPDX-License-Identifier: MIT */
/* interrupt - SIGINT and SIGTERM as one flag that loops look at: the process's only signal state;
 * and SIGBUS, which is how a mapped file says that its bytes are gone.
 *   thread   the main thread installs; any may look
 * The first signal asks for an orderly end; a second one ends the process at once. */
#ifndef QUIRE_FRONTEND_INTERRUPT_H
#define QUIRE_FRONTEND_INTERRUPT_H

/* interrupt_install - a closed pipe and a file over its size limit are no signals from here on:
 * writes report them. */
void interrupt_install(void);

/* interrupt_signal - the signal that came, 0 when none did. */
int interrupt_signal(void);

/* interrupt_guard_files - called once, first of all: when a mapped model is cut short or cannot be
 * read while it is in use, the process ends with one line and the exit status of a bad model. */
void interrupt_guard_files(void);

#endif
