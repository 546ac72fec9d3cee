/* SPDX-License-Identifier: MIT */
/* interrupt - a sig_atomic_t flag; SA_RESETHAND puts the default action back, which is how the
 * second signal ends the process. */
#include "frontend/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "core/err.h"

static volatile sig_atomic_t received;

static void on_signal(int number)
{
    received = number;
}

void interrupt_install(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* Nothing but the mapped files can be short; anything else is a wrong program and ends as such. */
static void on_lost_bytes(int number, siginfo_t *info, void *context)
{
    static const char text[] =
        "quire: a model file was cut short, or cannot be read any more, while it was in use\n";
    (void)context;
    if (info->si_code == BUS_ADRERR) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        _exit(rc_exit_status(RC_CORRUPT));
    }
    signal(number, SIG_DFL);
    raise(number);
}

void interrupt_guard_files(void)
{
    struct sigaction action = { .sa_sigaction = on_lost_bytes, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

int interrupt_signal(void)
{
    return received;
}
