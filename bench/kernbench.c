/* SPDX-License-Identifier: MIT */
/* kernbench - speed of the weight products, one core, by format and number of columns.
 *     kernbench [--format NAME] [--isa LEVEL] [-k COLS] [-t THREADS] [--ms TIME] [--quantize]
 * With -t, THREADS - 1 others do the same beside it, and the limits are taken so too: processors of
 * a guest may be two threads of one core.
 * Inside the clock: matmul_run of the table, from GGUF bytes to finished outputs: unpacking,
 * products and epilogue. Not inside: quantizing the activations (--quantize prints that). Two
 * working sets:
 *     L2      32 rows a window out of 192 KiB of weights: what the code can do
 *     memory  128 rows a window out of at least 256 MiB: what it does while streaming
 * MAC per cycle as minimum (best window) and median; the weights' GB/s of the median; and the
 * fraction of the limit: the lower of the arithmetic ceiling (int8 step or f32 FMA rate of
 * bench/machine.h; 8-bit codes take two multiplies on AVX2) and, for the memory rows, read
 * bandwidth times MAC per weight byte. Blocks are random with finite scales. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/machine.h"
#include "core/mem.h"
#include "kernels/kernels.h"

enum { COLS_MAX = 128, THREADS_MAX = 8, L2_BYTES = 192 << 10, MEMORY_BYTES = 256 << 20 };

static const enum dtype all_types[] = { DTYPE_Q4_K,  DTYPE_Q6_K, DTYPE_Q8_0,   DTYPE_Q4_0,
                                        DTYPE_Q4_1,  DTYPE_Q5_0, DTYPE_Q5_1,   DTYPE_Q5_K,
                                        DTYPE_Q2_K,  DTYPE_Q3_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS,
                                        DTYPE_MXFP4, DTYPE_F16,  DTYPE_BF16,   DTYPE_F32 };

struct options {
    const char *format;
    enum isa isa;
    uint32_t k, threads;
    double ms;
    bool quantize;
};

struct job {
    const struct kernels *kernels;
    struct matmul m;
    uint32_t at, rows_window;
};

static void run_window(void *ctx)
{
    struct job *j = ctx;
    if (j->at + j->rows_window > j->m.w.rows)
        j->at = 0;
    matmul_run(&j->kernels->matmul, &j->m, j->at, j->at + j->rows_window);
    j->at += j->rows_window;
}

/* Random bytes; f16 scales have a middle exponent wherever they lie, because every 16-bit word
 * has. */
static void fill(uint8_t *p, size_t bytes)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (uint8_t)(x >> 32) & 0xbf;
    }
}

static void *take(size_t bytes)
{
    void *p = mem_alloc(bytes);
    if (p == NULL) {
        fprintf(stderr, "kernbench: out of memory\n");
        exit(1);
    }
    return p;
}

struct set {
    const uint8_t *weights;
    float *x, *out[THREADS_MAX];
    void *act;
    struct machine machine;
    double read_gbs;
};

/* Every thread has outputs of its own, and in memory begins at another place. */
static struct spread time_job(const struct options *o, const struct set *s, const struct job *like)
{
    struct job jobs[THREADS_MAX];
    void *ctx[THREADS_MAX];
    for (uint32_t i = 0; i < o->threads; i++) {
        jobs[i] = *like;
        jobs[i].m.out = s->out[i];
        jobs[i].at = like->m.w.rows / o->threads * i / like->rows_window * like->rows_window;
        ctx[i] = &jobs[i];
        run_window(ctx[i]);
    }
    return time_windows_beside(run_window, ctx, o->threads, o->ms);
}

static void bench_format(const struct options *o, const struct kernels *kernels,
                         const struct set *s, enum dtype type)
{
    static const uint32_t cols[] = { 1, 2, 4, 8, 16, 32, 128 };
    size_t row_bytes;
    if (!dtype_row_bytes(&row_bytes, type, o->k))
        return;
    enum act_kind kind = act_kind_for(type);
    struct act act;
    act_open(&act, kind, COLS_MAX, o->k, s->act);
    for (uint32_t c = 0; c < COLS_MAX; c++)
        kernels->matmul.quantize[kind](act.data + (size_t)c * act.row_bytes, s->x + c, o->k);
    bool wide = type == DTYPE_Q8_0 || type == DTYPE_IQ4_NL || type == DTYPE_IQ4_XS;
    double ceiling = kind == ACT_F32 ? s->machine.f32_fma : s->machine.int8_step / (wide ? 2 : 1);
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        for (int memory = 0; memory < 2; memory++) {
            size_t rows = (memory ? MEMORY_BYTES : L2_BYTES) / row_bytes / 32 * 32;
            struct job j = { .kernels = kernels, .rows_window = memory ? 128 : 32 };
            j.m = (struct matmul){ .w = { s->weights, type, (uint32_t)rows, o->k, row_bytes },
                                   .x = &act,
                                   .x_count = cols[i],
                                   .out_stride = rows };
            if (rows < j.rows_window)
                continue;
            struct spread t = time_job(o, s, &j);
            double cycle = 1 / s->machine.ghz, mac = (double)o->k * j.rows_window * cols[i];
            double gbs = (double)row_bytes * j.rows_window / t.median;
            double rate = mac / (t.median / cycle), limit = ceiling;
            double stream = s->read_gbs * cycle * cols[i] * (double)o->k / (double)row_bytes;
            if (memory && (stream < limit || limit <= 0))
                limit = stream;
            printf("%-7s N=%-3u %-6s %6.1f best %6.1f median MAC/cycle  %5.1f GB/s",
                   dtype_find(type)->name, cols[i], memory ? "memory" : "L2", mac / (t.min / cycle),
                   rate, gbs);
            if (limit > 0)
                printf("  %3.0f%% best %3.0f%% median of limit %.1f",
                       100 * mac / (t.min / cycle) / limit, 100 * rate / limit, limit);
            printf("\n");
            fflush(stdout);
        }
    }
}

struct quantize_job {
    const struct kernels *kernels;
    enum act_kind kind;
    uint8_t *dst;
    const float *x;
    uint32_t k;
};

static void run_quantize(void *ctx)
{
    struct quantize_job *j = ctx;
    j->kernels->matmul.quantize[j->kind](j->dst, j->x, j->k);
}

static void bench_quantize(const struct options *o, const struct kernels *kernels,
                           const struct set *s)
{
    static const char *const names[ACT_KINDS] = { "f32", "q8_32", "q8_256" };
    for (uint32_t kind = 0; kind < ACT_KINDS; kind++) {
        struct quantize_job j = { kernels, (enum act_kind)kind, s->act, s->x, o->k };
        struct spread t = time_windows(run_quantize, &j, o->ms);
        printf("quantize %-6s %6.2f best %6.2f median cycles per value\n", names[kind],
               t.min * s->machine.ghz / o->k, t.median * s->machine.ghz / o->k);
    }
}

static struct options parse(int argc, char **argv)
{
    struct options o = { .isa = cpu_isa(), .k = 2048, .threads = 1, .ms = 60 };
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        char *end;
        double number = strtod(value, &end);
        bool good = end != value && *end == '\0';
        enum dtype type;
        if (strcmp(argv[i], "--quantize") == 0) {
            o.quantize = true;
            continue;
        }
        if (strcmp(argv[i], "--format") == 0 && dtype_parse(&type, value)) {
            o.format = dtype_find((uint32_t)type)->name;
        } else if (strcmp(argv[i], "-k") == 0 && good && number >= 256 && number <= 65536) {
            o.k = (uint32_t)number;
        } else if (strcmp(argv[i], "-t") == 0 && good && number >= 1 && number <= THREADS_MAX) {
            o.threads = (uint32_t)number;
        } else if (strcmp(argv[i], "--ms") == 0 && good && number >= 1) {
            o.ms = number;
        } else if (strcmp(argv[i], "--isa") != 0 || !isa_parse(&o.isa, value)) {
            fprintf(stderr,
                    "usage: kernbench [--format NAME] [--isa LEVEL] [-k 256..65536] "
                    "[-t 1..%d] [--ms TIME] [--quantize]\n",
                    THREADS_MAX);
            exit(2);
        }
        i++;
    }
    return o;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    struct kernels kernels;
    struct set s;
    kernels_open(&kernels, o.isa);
    machine_measure(&s.machine, o.threads, 100);
    machine_print(&s.machine);
    uint8_t *weights = take(MEMORY_BYTES + 4096);
    fill(weights, MEMORY_BYTES);
    s.weights = weights;
    s.x = take((o.k + COLS_MAX) * sizeof *s.x);
    for (uint32_t i = 0; i < o.k + COLS_MAX; i++)
        s.x[i] = sinf((float)i) * (i % 64 == 5 ? 8 : 1);
    for (uint32_t i = 0; i < o.threads; i++)
        s.out[i] = take((size_t)COLS_MAX * (MEMORY_BYTES / 64) * sizeof(float) / 8);
    s.act = take(COLS_MAX * act_row_bytes(ACT_F32, o.k));
    struct reader readers[THREADS_MAX];
    void *ctx[THREADS_MAX];
    for (uint32_t i = 0; i < o.threads; i++) {
        size_t at = MEMORY_BYTES / o.threads * i / READ_WINDOW * READ_WINDOW;
        readers[i] =
            (struct reader){ .data = weights, .bytes = MEMORY_BYTES, .at = at, .streams = 8 };
        ctx[i] = &readers[i];
    }
    s.read_gbs = READ_WINDOW / time_windows_beside(read_window, ctx, o.threads, 300).median;
    printf("level %s, %u weights a row, %u threads at once, read %.1f GB/s in 8 streams\n",
           isa_name(kernels.isa), o.k, o.threads, s.read_gbs);
    if (o.quantize)
        bench_quantize(&o, &kernels, &s);
    for (size_t i = 0; i < sizeof all_types / sizeof *all_types; i++)
        if (o.format == NULL || strcmp(o.format, dtype_find((uint32_t)all_types[i])->name) == 0)
            bench_format(&o, &kernels, &s, all_types[i]);
    return 0;
}
