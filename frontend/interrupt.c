/* SPDX-License-Identifier: MIT */
/* interrupt - a sig_atomic_t flag; SA_RESETHAND puts the default action back, which is how the
 * second signal ends the process. */
#include "frontend/interrupt.h"

#include <signal.h>
#include <stddef.h>

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

int interrupt_signal(void)
{
    return received;
}
