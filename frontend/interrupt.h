/* SPDX-License-Identifier: MIT */
/* interrupt - SIGINT and SIGTERM as one flag that loops look at: the process's only signal state;
 * and SIGBUS, which is how a mapped file says that its bytes are gone.
 *   thread   the main thread installs; any may look
 * The first signal asks for an orderly end; a second one ends the process at once. */
#ifndef QUIRE_FRONTEND_INTERRUPT_H
#define QUIRE_FRONTEND_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>

/* interrupt_install - a closed pipe and a file over its size limit are no signals from here on:
 * writes report them. */
void interrupt_install(void);

/* interrupt_signal - the signal that came, 0 when none did. */
int interrupt_signal(void);

/* interrupt_guard_files - called once, first of all: when a mapped model is cut short or cannot be
 * read while it is in use, one line says so, and the process ends with the exit status of a bad
 * model. */
void interrupt_guard_files(void);

/* interrupt_survive_loss - from here on that mapping may lose bytes and the process stays: zeroes
 * take their place, and interrupt_lost_bytes says so. interrupt_forget_files - before it is
 * unmapped. */
void interrupt_survive_loss(const void *base, size_t bytes);
void interrupt_forget_files(void);
bool interrupt_lost_bytes(void);

#endif
