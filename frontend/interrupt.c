/* SPDX-License-Identifier: MIT */
/* interrupt - SA_RESETHAND puts the default action back, which is how the second signal ends the
 * process. A page of a model that is gone is replaced by zeroes, so that the step which touched it
 * comes to its end; its results are thrown away by whoever asks interrupt_lost_bytes. */
#include "frontend/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/err.h"

#define STRETCHES 64u /* a model in more files than that ends the process when it loses bytes */

/* A mapping whose bytes may go. */
struct stretch {
    uintptr_t begin, end;
};

/* Lock-free atomics, because the handlers may run in any thread. */
static struct {
    atomic_int received;
    atomic_int lost;
    _Atomic uint32_t count;
    struct stretch stretches[STRETCHES];
} signals;

static void on_signal(int number)
{
    atomic_store(&signals.received, number);
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

/* Zeroes in the place of what is gone, from this page to the end of its mapping. */
static bool put_zeroes(const struct stretch *s, uintptr_t at)
{
    uintptr_t page = at - at % (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t bytes = s->end - page;
    return mmap((void *)page, bytes, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

/* Nothing but the mapped files can be short; anything else is a wrong program and ends as such. */
static void on_lost_bytes(int number, siginfo_t *info, void *context)
{
    static const char text[] =
        "quire: a model file was cut short, or cannot be read any more, while it was in use\n";
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    int error = errno;
    if (atomic_exchange(&signals.lost, 1) == 0) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
    }
    uintptr_t at = (uintptr_t)info->si_addr;
    for (uint32_t i = 0; i < atomic_load(&signals.count); i++) {
        const struct stretch *s = &signals.stretches[i];
        if (at >= s->begin && at < s->end && put_zeroes(s, at)) {
            errno = error;
            return;
        }
    }
    _exit(rc_exit_status(RC_CORRUPT));
}

void interrupt_guard_files(void)
{
    struct sigaction action = { .sa_sigaction = on_lost_bytes, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

void interrupt_survive_loss(const void *base, size_t bytes)
{
    uint32_t n = atomic_load(&signals.count);
    if (n == STRETCHES)
        return;
    signals.stretches[n] = (struct stretch){ (uintptr_t)base, (uintptr_t)base + bytes };
    atomic_store(&signals.count, n + 1);
}

void interrupt_forget_files(void)
{
    atomic_store(&signals.count, 0);
    atomic_store(&signals.lost, 0);
}

bool interrupt_lost_bytes(void)
{
    return atomic_load(&signals.lost) != 0;
}

int interrupt_signal(void)
{
    return atomic_load(&signals.received);
}
