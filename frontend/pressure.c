/* SPDX-License-Identifier: MIT */
/* pressure - two signs, whichever comes first:
 *
 *   available    what budget.h counts: falls when others take memory, before anything is evicted
 *   stalls       total= of the line "some": grows while tasks wait for pages
 *
 * The files are looked at twice a second and not waited for: triggers need a privilege on kernels
 * before 6.5, and a group of version 1 has none. Where the process's own group has no such file,
 * the machine's is taken; then others' trouble costs us cached blocks, which is what manners
 * ask for. */
#include "frontend/pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/futex.h"
#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"
#include "frontend/budget.h"

#define STALL_SHARE 10u /* of the time, this part of it spent waiting is pressure */

struct pressure {
    struct pressure_watch watch;
    struct clock clock;
    pthread_t thread;
    _Atomic uint32_t stop;
    _Atomic uint64_t looks, short_looks;
};

static struct str read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, size) : -1;
    if (fd >= 0)
        close(fd);
    return (struct str){ text, got > 0 ? (size_t)got : 0 };
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": the last value. */
static bool read_stalls(const char *path, uint64_t *out)
{
    char bytes[512];
    struct str text = read_file(path, bytes, sizeof bytes), line, word;
    if (!str_cut(&text, '\n', &line) || !str_starts(line, str_of("some ")))
        return false;
    while (str_cut(&line, ' ', &word)) {
        struct str name;
        if (str_cut(&word, '=', &name) && str_equal(name, str_of("total")))
            return str_parse_u64(word, 0, UINT64_MAX, out);
    }
    return false;
}

/* The group's own file (version 2), else the machine's. */
static void find_file(struct pressure_watch *w)
{
    const char *root = w->config.root;
    char path[sizeof w->path], bytes[4096];
    uint64_t ignored;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    struct str lines = read_file(path, bytes, sizeof bytes), line;
    while (str_cut(&lines, '\n', &line)) {
        if (!str_starts(line, str_of("0::")))
            continue;
        int n = snprintf(w->path, sizeof w->path, "%s/sys/fs/cgroup%.*s/memory.pressure", root,
                         (int)line.len - 3, line.text + 3);
        if (n < (int)sizeof w->path && read_stalls(w->path, &ignored))
            return;
    }
    snprintf(w->path, sizeof w->path, "%s/proc/pressure/memory", root);
    if (!read_stalls(w->path, &ignored))
        w->path[0] = '\0';
}

enum rc pressure_watch_open(struct pressure_watch *out, const struct pressure_config *config,
                            uint64_t now_us, struct fault *fault)
{
    *out = (struct pressure_watch){ .config = *config, .at_us = now_us };
    if (config->file == NULL) {
        find_file(out);
    } else if (strlen(config->file) >= sizeof out->path) {
        return fault_set(fault, RC_USAGE, "--pressure: the path is too long");
    } else {
        memcpy(out->path, config->file, strlen(config->file) + 1);
        if (!read_stalls(out->path, &out->stall_us))
            return fault_set(fault, RC_IO,
                             "--pressure %.200s: no line \"some ... total=\" can be read there",
                             config->file);
    }
    if (out->path[0] != '\0')
        (void)!read_stalls(out->path, &out->stall_us);
    return RC_OK;
}

bool pressure_watch_look(struct pressure_watch *w, uint64_t now_us)
{
    uint64_t stall_us = w->stall_us, elapsed_us = now_us - w->at_us;
    if (w->path[0] != '\0')
        (void)!read_stalls(w->path, &stall_us);
    bool stalls = stall_us > w->stall_us && (stall_us - w->stall_us) * STALL_SHARE >= elapsed_us;
    w->stall_us = stall_us;
    w->at_us = now_us;
    struct budget b;
    budget_read(&b, w->config.root);
    if (w->config.mem_bytes > 0)
        budget_limit(&b, w->config.mem_bytes, budget_own_bytes(w->config.root));
    return stalls || b.available_bytes < w->config.keep_bytes;
}

static void *watch_main(void *arg)
{
    struct pressure *p = arg;
    while (atomic_load(&p->stop) == 0) {
        (void)futex_wait(&p->stop, 0, futex_deadline_us(PRESSURE_LOOK_US));
        bool low = pressure_watch_look(&p->watch, clock_now_us(&p->clock));
        atomic_fetch_add(&p->looks, 1);
        if (low && atomic_load(&p->stop) == 0) {
            p->watch.config.relieve(p->watch.config.ctx);
            atomic_fetch_add(&p->short_looks, 1);
        }
    }
    return NULL;
}

enum rc pressure_open(struct pressure **out, const struct pressure_config *config,
                      struct fault *fault)
{
    *out = NULL;
    if (config->file != NULL && strcmp(config->file, "off") == 0)
        return RC_OK;
    struct pressure *p = mem_alloc(sizeof *p);
    if (p == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    p->clock = clock_real();
    enum rc rc = pressure_watch_open(&p->watch, config, clock_now_us(&p->clock), fault);
    if (rc == RC_OK) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        errno = pthread_create(&p->thread, NULL, watch_main, p);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (errno != 0)
            rc = fault_set_errno(fault, RC_NO_MEMORY, "the thread that watches memory");
    }
    if (rc != RC_OK) {
        mem_free(p);
        return rc;
    }
    *out = p;
    return RC_OK;
}

void pressure_close(struct pressure *p)
{
    if (p == NULL)
        return;
    atomic_store(&p->stop, 1);
    futex_wake(&p->stop, 1);
    must(pthread_join(p->thread, NULL) == 0);
    mem_free(p);
}

struct pressure_stats pressure_stats(const struct pressure *p)
{
    if (p == NULL)
        return (struct pressure_stats){ 0 };
    return (struct pressure_stats){ atomic_load(&p->looks), atomic_load(&p->short_looks) };
}
