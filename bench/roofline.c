/* SPDX-License-Identifier: MIT */
/* roofline - what this machine can do at most, printed as facts: core clock, int8 and f32 multiply
 * rates, and read bandwidth for 1 .. T threads in the four patterns that weights are read in.
 *     roofline [-m FILE] [-t THREADS] [--mib SIZE] [--ms WINDOW_TIME]
 * Inside the clock: reading alone, of a mapped file (page cache hot, one pass before the first) or
 * of anonymous memory of at least four times the last-level cache. A rate of T threads is the sum
 * of their median windows of 1 MiB. The multiply loops run alone, then on all threads at once (two
 * processors of a guest may be one core), and alone again at the end: a difference above 3 % says
 * that a neighbour took part of the core, and the run should be repeated. */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/machine.h"

enum { THREADS_MAX = 64 };

struct options {
    const char *file;
    int threads;
    size_t mib;
    double ms;
};

struct member {
    struct reader reader;
    double ms, gbs;
    pthread_barrier_t *start;
};

/* time_windows keeps static memory: threads have their own loop. */
static void *read_member(void *ctx)
{
    struct member *m = ctx;
    size_t count = 0, limit = 4096;
    double *windows = calloc(limit, sizeof *windows);
    pthread_barrier_wait(m->start);
    for (double end = now_ns() + m->ms * 1e6; count < limit && (count < 3 || now_ns() < end);) {
        double begin = now_ns();
        read_window(&m->reader);
        if (windows != NULL)
            windows[count] = now_ns() - begin;
        count++;
    }
    if (windows != NULL) {
        qsort(windows, count, sizeof *windows, by_value);
        m->gbs = READ_WINDOW / windows[count / 2];
    }
    free(windows);
    return NULL;
}

/* As like has it: streams, row_bytes and prefetch. */
static double read_rate(const uint8_t *data, size_t bytes, int threads, struct reader like,
                        double ms)
{
    static struct member members[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t start;
    double sum = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    size_t share = bytes / (size_t)threads / 4096 * 4096;
    for (int t = 0; t < threads; t++) {
        like.data = data + (size_t)t * share;
        like.bytes = share;
        members[t] = (struct member){ .reader = like, .ms = ms, .start = &start };
        if (t > 0 && pthread_create(&ids[t], NULL, read_member, &members[t]) != 0)
            exit(1);
    }
    read_member(&members[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(ids[t], NULL);
    for (int t = 0; t < threads; t++)
        sum += members[t].gbs;
    pthread_barrier_destroy(&start);
    return sum;
}

static const uint8_t *map_file(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size < 8 * READ_WINDOW) {
        fprintf(stderr, "roofline: %s: cannot be read, or is smaller than 8 MiB\n", path);
        exit(2);
    }
    *bytes = (size_t)st.st_size;
    void *p = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    return p;
}

static const uint8_t *map_memory(size_t bytes, bool huge)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    (void)madvise(p, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

static void print_rates(const char *what, const uint8_t *data, size_t bytes,
                        const struct options *o)
{
    for (size_t at = 0; at + 64 <= bytes; at += 4096)
        __asm__ volatile("" ::"r"(data[at]));
    static const struct {
        const char *name;
        struct reader like;
    } patterns[] = {
        { "sequential", { .row_bytes = 0 } },
        { "8 streams", { .streams = 8 } },
        { "16 rows", { .row_bytes = 2048 } },
        { "16 rows with prefetch", { .row_bytes = 2048, .prefetch = 1 } },
    };
    for (int threads = 1; threads <= o->threads; threads++) {
        printf("read GB/s, %s, %d thread%s", what, threads, threads > 1 ? "s" : "");
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
            printf("%s %s %.1f", i == 0 ? ":" : ",", patterns[i].name,
                   read_rate(data, bytes, threads, patterns[i].like, o->ms));
        printf("\n");
    }
}

static struct options parse(int argc, char **argv)
{
    struct options o = { .threads = (int)sysconf(_SC_NPROCESSORS_ONLN), .mib = 512, .ms = 300 };
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end = NULL;
        double number = value != NULL ? strtod(value, &end) : 0;
        bool good = value != NULL && end != value && *end == '\0' && number >= 1;
        if (strcmp(argv[i], "-m") == 0 && value != NULL)
            o.file = value;
        else if (strcmp(argv[i], "-t") == 0 && good && number <= THREADS_MAX)
            o.threads = (int)number;
        else if (strcmp(argv[i], "--mib") == 0 && good && number >= 64 && number <= 65536)
            o.mib = (size_t)number;
        else if (strcmp(argv[i], "--ms") == 0 && good)
            o.ms = number;
        else {
            fprintf(stderr, "usage: roofline [-m FILE] [-t THREADS] [--mib 64..] [--ms TIME]\n");
            exit(2);
        }
    }
    if (o.threads > THREADS_MAX)
        o.threads = THREADS_MAX;
    return o;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    struct machine before, after, all;
    machine_measure(&before, 1, o.ms);
    machine_print(&before);
    machine_measure(&all, (uint32_t)o.threads, o.ms);
    printf("%d threads at once: ", o.threads);
    machine_print(&all);
    size_t bytes = o.mib << 20;
    const uint8_t *data = o.file != NULL ? map_file(o.file, &bytes) : map_memory(bytes, false);
    print_rates(o.file != NULL ? "mapped file" : "4 KiB pages", data, bytes, &o);
    bytes = o.mib << 20;
    print_rates("huge pages", map_memory(bytes, true), bytes, &o);
    machine_measure(&after, 1, o.ms);
    machine_print(&after);
    double a = before.int8_multiply * before.ghz, b = after.int8_multiply * after.ghz;
    if (a > 0 && (b / a > 1.03 || a / b > 1.03))
        printf("contended: the multiply rate moved by more than 3 %%, repeat the run\n");
    return 0;
}
