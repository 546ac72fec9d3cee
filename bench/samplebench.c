/* SPDX-License-Identifier: MIT */
/* samplebench - what comes after the last layer, one core: the output projection, the peaks that
 * log-probabilities are made of, and one draw for each row, by settings.
 *     samplebench [--vocab N] [--width N] [--rows N] [--format NAME] [--isa LEVEL] [--ms TIME]
 * Inside the clock: matmul_run of the whole output matrix for all rows; vec.peak over all logits;
 * sample_token for all rows, each over its own logits, which come from memory as they do in a step.
 * Logits are sums of random numbers, a few of them high. Milliseconds of all rows, minimum and
 * median, and the share that drawing has of the projection: rows are shared out between workers in
 * both, so that it is the same on any number of cores. */
#include <stdbool.h>
#include <string.h>

#include "bench/machine.h"
#include "core/mem.h"
#include "core/rng.h"
#include "kernels/act.h"
#include "kernels/forward.h"
#include "kernels/kernels.h"
#include "kernels/sample.h"

enum { HISTORY = 512 };

struct options {
    uint32_t vocab, width, rows;
    enum dtype type;
    enum isa isa;
    double ms;
};

struct job {
    const struct options *o;
    const struct kernels *k;
    struct matmul product;
    struct vec_peak *peaks;
    float *logits;
    struct batch_output output;
    struct sample_scratch *scratch;
    int32_t drawn; /* of the last row: something must be done with the draw */
};

static void run_product(void *ctx)
{
    struct job *j = ctx;
    matmul_run(&j->k->matmul, &j->product, 0, j->o->vocab);
}

static void run_peaks(void *ctx)
{
    struct job *j = ctx;
    const uint32_t vocab = j->o->vocab;
    for (uint32_t r = 0; r < j->o->rows; r++) {
        for (uint32_t at = 0; at < vocab; at += FORWARD_PEAK_LOGITS)
            j->k->vec.peak(&j->peaks[at / FORWARD_PEAK_LOGITS], j->logits + (size_t)r * vocab + at,
                           vocab - at < FORWARD_PEAK_LOGITS ? vocab - at : FORWARD_PEAK_LOGITS);
    }
}

static void run_draws(void *ctx)
{
    struct job *j = ctx;
    for (uint32_t r = 0; r < j->o->rows; r++)
        j->drawn =
            sample_token(&j->output, j->logits + (size_t)r * j->o->vocab, j->o->vocab, j->scratch);
}

static void *take(size_t bytes)
{
    void *p = mem_alloc((bytes + 63) / 64 * 64);
    if (p == NULL) {
        fprintf(stderr, "samplebench: out of memory\n");
        exit(1);
    }
    return p;
}

/* Random blocks with finite scales, random activations. */
static void open_product(struct job *j, struct act *act)
{
    const struct options *o = j->o;
    enum act_kind kind = act_kind_for(o->type);
    struct rng rng = rng_seeded(1);
    size_t row_bytes;
    if (!dtype_row_bytes(&row_bytes, o->type, o->width)) {
        fprintf(stderr, "samplebench: %u is not a width of whole blocks\n", o->width);
        exit(2);
    }
    uint8_t *weights = take(o->vocab * row_bytes + 64);
    float *x = take(o->width * sizeof *x);
    for (size_t i = 0; i < o->vocab * row_bytes; i++)
        weights[i] = (uint8_t)(rng_next(&rng) & 0xbf);
    act_open(act, kind, o->rows, o->width, take(o->rows * act_row_bytes(kind, o->width)));
    for (uint32_t r = 0; r < o->rows; r++) {
        for (uint32_t i = 0; i < o->width; i++)
            x[i] = (float)rng_unit(&rng) - 0.5f;
        j->k->matmul.quantize[kind](act->data + (size_t)r * act->row_bytes, x, o->width);
    }
    j->product = (struct matmul){ .w = { weights, o->type, o->vocab, o->width, row_bytes },
                                  .x = act,
                                  .x_count = o->rows,
                                  .out = j->logits,
                                  .out_stride = o->vocab };
}

/* Standard deviation 3, and one token in 4,096 up to 12 higher. */
static void fill_logits(struct job *j)
{
    struct rng rng = rng_seeded(2);
    for (size_t i = 0; i < (size_t)j->o->rows * j->o->vocab; i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++)
            sum += rng_unit(&rng);
        if (rng_below(&rng, 4096) == 0)
            sum += 4 * rng_unit(&rng);
        j->logits[i] = (float)(3 * sum);
    }
}

static void print(const char *what, struct spread t, double share)
{
    printf("%-34s %8.2f best %8.2f median ms", what, t.min / 1e6, t.median / 1e6);
    if (share > 0)
        printf("  %5.1f%% of the projection", 100 * share);
    printf("\n");
    fflush(stdout);
}

static void bench_draws(struct job *j, double product)
{
    struct sampling plain = sampling_default();
    const struct {
        const char *name;
        float temperature, top_p, min_p, typical_p, repeat_penalty;
        uint32_t top_k;
    } cases[] = {
        { "greedy", 0, 1, 0, 1, 1, 0 },
        { "temperature alone", 1, 1, 0, 1, 1, 0 },
        { "top-k 40", 0.8f, 1, 0, 1, 1, 40 },
        { "top-k 40, top-p 0.95, min-p 0.05", 0.8f, 0.95f, 0.05f, 1, 1, 40 },
        { "the same, repeat penalty 1.1", 0.8f, 0.95f, 0.05f, 1, 1.1f, 40 },
        { "min-p 0.05", 0.8f, 1, 0.05f, 1, 1, 0 },
        { "top-p 0.95", 0.8f, 0.95f, 0, 1, 1, 0 },
        { "typical 0.9", 0.8f, 1, 0, 0.9f, 1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sampling s = plain;
        s.temperature = cases[i].temperature;
        s.top_k = cases[i].top_k;
        s.top_p = cases[i].top_p;
        s.min_p = cases[i].min_p;
        s.typical_p = cases[i].typical_p;
        s.repeat_penalty = cases[i].repeat_penalty;
        s.repeat_last_n = -1;
        j->output.sampling = &s;
        struct spread t = time_windows(run_draws, j, j->o->ms);
        print(cases[i].name, t, t.median / product);
    }
}

static struct options parse(int argc, char **argv)
{
    struct options o = { 151936, 1024, 32, DTYPE_Q6_K, cpu_isa(), 500 };
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        char *end;
        double number = strtod(value, &end);
        bool good = end != value && *end == '\0' && number >= 1;
        if (good && strcmp(argv[i], "--vocab") == 0 && number <= 1e6)
            o.vocab = (uint32_t)number;
        else if (good && strcmp(argv[i], "--width") == 0 && number <= 65536)
            o.width = (uint32_t)number;
        else if (good && strcmp(argv[i], "--rows") == 0 && number <= 64)
            o.rows = (uint32_t)number;
        else if (good && strcmp(argv[i], "--ms") == 0)
            o.ms = number;
        else if (!(strcmp(argv[i], "--format") == 0 && dtype_parse(&o.type, value)) &&
                 !(strcmp(argv[i], "--isa") == 0 && isa_parse(&o.isa, value))) {
            fprintf(stderr, "usage: samplebench [--vocab N] [--width N] [--rows 1..64] "
                            "[--format NAME] [--isa LEVEL] [--ms TIME]\n");
            exit(2);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    struct kernels kernels;
    struct act act;
    static int32_t history[HISTORY];
    kernels_open(&kernels, o.isa);
    struct job j = { .o = &o, .k = &kernels };
    j.logits = take((size_t)o.rows * o.vocab * sizeof *j.logits);
    j.peaks = take((o.vocab / FORWARD_PEAK_LOGITS + 1) * sizeof *j.peaks);
    j.scratch = take(sample_scratch_bytes(o.vocab));
    for (uint32_t i = 0; i < HISTORY; i++)
        history[i] = (int32_t)(i * 2654435761u % o.vocab);
    j.output = (struct batch_output){ .sample = true,
                                      .target = -1,
                                      .history = history,
                                      .history_count = HISTORY,
                                      .prompt_count = HISTORY / 2 };
    open_product(&j, &act);
    printf("level %s, %u rows, %u tokens, width %u, one core\n", isa_name(kernels.isa), o.rows,
           o.vocab, o.width);
    struct spread product = time_windows(run_product, &j, o.ms);
    char name[64];
    snprintf(name, sizeof name, "output projection, %s", dtype_find((uint32_t)o.type)->name);
    print(name, product, 0);
    fill_logits(&j);
    struct spread peaks = time_windows(run_peaks, &j, o.ms);
    print("peaks of log-probabilities", peaks, peaks.median / product.median);
    bench_draws(&j, product.median);
    return 0;
}
