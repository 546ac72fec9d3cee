/* SPDX-License-Identifier: MIT */
/* attnbench - speed of attention, one core, by cache type, context and rows of a task.
 *     attnbench [--kv TYPE[:TYPE]] [--head-dim N] [--group N] [--isa LEVEL] [--ms TIME]
 * Inside the clock: attn_run of the table: packing queries, scores, exponentials, values, merging.
 * The pool is a sequence of 4,096 tokens of a model of 22 layers and 4 KV heads, its blocks in
 * shuffled order; a window is one task, and the windows walk through all heads of all layers, so
 * keys and values come from memory as they do in a step. Tasks:
 *     decode   one row
 *     shared   rows of several sequences that hold the same blocks, as after a common prompt
 *     prefill  neighbouring rows at the end of the context
 * Cycles for each (key, head) that a row sees, minimum (best window) and median; the cache's GB/s
 * of the median; and the limit: the larger of what its multiply-adds take at the f32 FMA rate and
 * what its bytes take at read bandwidth. */
#include <stdbool.h>
#include <string.h>

#include "bench/machine.h"
#include "core/mem.h"
#include "kernels/act.h"
#include "kernels/kernels.h"

enum { TOKENS = 4096, BLOCKS = TOKENS / KV_BLOCK_TOKENS, HEADS = 22 * 4, HEAD_DIM_MAX = 256 };

struct options {
    enum isa isa;
    int pair; /* of cache types; -1 = the usual ones */
    uint32_t head_dim, group;
    double ms;
};

struct job {
    const struct kernels *kernels;
    struct attn a;
    struct attn_work work;
    const uint8_t *pool;
    size_t head_bytes;
    uint32_t head;
};

static void run_window(void *ctx)
{
    struct job *j = ctx;
    j->a.kv = j->pool + j->head * j->head_bytes;
    attn_run(&j->kernels->attn, &j->a, &j->work);
    j->head = (j->head + 1) % HEADS;
}

static void *take(size_t bytes)
{
    void *p = mem_alloc((bytes + 63) / 64 * 64);
    if (p == NULL || (uintptr_t)p % 64 != 0) {
        fprintf(stderr, "attnbench: out of memory\n");
        exit(1);
    }
    return p;
}

/* Random codes; every 16-bit word is a float of middle size. */
static void fill(uint8_t *p, size_t bytes)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (uint8_t)(x >> 32) & (i % 2 == 0 ? 0xff : 0xbb);
    }
}

struct scene {
    uint32_t blocks[BLOCKS];
    struct attn_row rows[ATTN_COLS_MAX];
    float *x, *out;
    uint8_t *q8;
    struct machine machine;
    double read_gbs;
};

static void open_rows(struct scene *s, const struct options *o, const struct kernels *k,
                      struct kv_types types, uint32_t count, uint32_t last, bool prefill)
{
    const uint32_t n = o->group * o->head_dim;
    const size_t bytes = n / KV_GROUP * sizeof(struct act_q8_32);
    for (uint32_t r = 0; r < count; r++) {
        s->rows[r] = (struct attn_row){ .blocks = s->blocks,
                                        .pos = prefill ? last - count + 1 + r : last,
                                        .q = s->x + r,
                                        .out = s->out + (size_t)r * n };
        if (types.k == KV_F16)
            continue;
        k->matmul.quantize[ACT_Q8_32](s->q8 + r * bytes, s->x + r, n);
        s->rows[r].q = s->q8 + r * bytes;
    }
}

static void bench_pair(struct scene *s, const struct options *o, const struct kernels *k,
                       struct kv_types types, const uint8_t *pool)
{
    static const char *const names[] = { "decode", "shared", "prefill" };
    const size_t key_bytes = kv_tile_bytes(types.k, o->head_dim);
    const size_t head_bytes = key_bytes + kv_tile_bytes(types.v, o->head_dim);
    struct job j = { .kernels = k, .pool = pool, .head_bytes = head_bytes };
    attn_work_open(&j.work, o->head_dim, take(attn_work_bytes(o->head_dim)));
    for (uint32_t ctx = 1024; ctx <= TOKENS; ctx *= 4) {
        for (uint32_t mode = 0; mode < 3; mode++) {
            uint32_t rows = mode == 0 ? 1 : ATTN_COLS_MAX / o->group;
            open_rows(s, o, k, types, rows, ctx - 1, mode == 2);
            j.a = (struct attn){ .block_bytes = HEADS * head_bytes,
                                 .value_offset = key_bytes,
                                 .types = types,
                                 .head_dim = o->head_dim,
                                 .row_count = rows,
                                 .head_count = o->group,
                                 .scale = 0.1f,
                                 .rows = s->rows };
            run_window(&j);
            struct spread t = time_windows(run_window, &j, o->ms);
            double pairs = (double)ctx * rows * o->group, ghz = s->machine.ghz;
            double bytes = (double)head_bytes / KV_BLOCK_TOKENS * ctx;
            double fma = 2.0 * o->head_dim / s->machine.f32_fma;
            double stream = bytes / s->read_gbs * ghz / pairs, limit = fma > stream ? fma : stream;
            printf("%-4s %-4s  %4u keys  %-7s %2u columns  %6.2f best %6.2f median cycles  "
                   "%5.1f GB/s  %3.0f%% of limit %.2f (%s)\n",
                   kv_type_name(types.k), kv_type_name(types.v), ctx, names[mode], rows * o->group,
                   t.min * ghz / pairs, t.median * ghz / pairs, bytes / t.median,
                   100 * limit / (t.median * ghz / pairs), limit,
                   fma > stream ? "arithmetic" : "memory");
            fflush(stdout);
        }
    }
    mem_free(j.work.q);
}

static bool parse_types(const char *text, int *pair)
{
    for (int k = 0; k < KV_TYPES; k++) {
        size_t len = strlen(kv_type_name((enum kv_type)k));
        if (strncmp(text, kv_type_name((enum kv_type)k), len) != 0)
            continue;
        for (int v = 0; v < KV_TYPES; v++)
            if (text[len] == '\0' ? v == k
                                  : text[len] == ':' &&
                                        strcmp(text + len + 1, kv_type_name((enum kv_type)v)) == 0)
                *pair = k * KV_TYPES + v;
    }
    return *pair >= 0;
}

static struct options parse(int argc, char **argv)
{
    struct options o = { .isa = cpu_isa(), .pair = -1, .head_dim = 64, .group = 4, .ms = 200 };
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        char *end;
        double number = strtod(value, &end);
        bool good = end != value && *end == '\0' && number >= 1 && number <= 10000;
        if (strcmp(argv[i], "--kv") == 0 && parse_types(value, &o.pair))
            continue;
        if (strcmp(argv[i], "--isa") == 0 && isa_parse(&o.isa, value))
            continue;
        if (good && strcmp(argv[i], "--head-dim") == 0 && number <= HEAD_DIM_MAX)
            o.head_dim = (uint32_t)number / KV_GROUP * KV_GROUP;
        else if (good && strcmp(argv[i], "--group") == 0 && number <= ATTN_COLS_MAX)
            o.group = (uint32_t)number;
        else if (good && strcmp(argv[i], "--ms") == 0)
            o.ms = number;
        else
            o.head_dim = 0;
        if (o.head_dim != 0)
            continue;
        fprintf(stderr,
                "usage: attnbench [--kv TYPE[:TYPE]] [--head-dim 32..%d] [--group 1..%u] "
                "[--isa LEVEL] [--ms TIME]\n",
                HEAD_DIM_MAX, ATTN_COLS_MAX);
        exit(2);
    }
    return o;
}

int main(int argc, char **argv)
{
    static struct scene s;
    static const int usual[] = { 0, KV_Q8_0 * KV_TYPES + KV_Q8_0, KV_Q8_0 * KV_TYPES + KV_Q4_0,
                                 KV_Q4_0 * KV_TYPES + KV_Q4_0 };
    struct options o = parse(argc, argv);
    struct kernels kernels;
    kernels_open(&kernels, o.isa);
    machine_measure(&s.machine, 1, 100);
    machine_print(&s.machine);
    const size_t pool_bytes = 2 * kv_tile_bytes(KV_F16, o.head_dim) * HEADS * BLOCKS;
    uint8_t *pool = take(pool_bytes);
    fill(pool, pool_bytes);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t k = i * 2654435761u % (i + 1);
        s.blocks[i] = s.blocks[k];
        s.blocks[k] = i;
    }
    const uint32_t floats = ATTN_COLS_MAX * o.head_dim;
    s.x = take((floats + ATTN_COLS_MAX) * sizeof *s.x);
    s.out = take(floats * sizeof *s.out);
    s.q8 = take(floats / KV_GROUP * sizeof(struct act_q8_32));
    for (uint32_t i = 0; i < floats + ATTN_COLS_MAX; i++)
        s.x[i] = (float)(int32_t)(i * 2654435761u) * 0x1p-31f;
    struct reader reader = { .data = pool, .bytes = pool_bytes };
    s.read_gbs = READ_WINDOW / time_windows(read_window, &reader, 300).median;
    printf("level %s, heads of %u, %u query heads a KV head, read %.1f GB/s\n",
           isa_name(kernels.isa), o.head_dim, o.group, s.read_gbs);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && (o.pair < 0 || i == 0); i++) {
        int pair = o.pair < 0 ? usual[i] : o.pair;
        bench_pair(
            &s, &o, &kernels,
            (struct kv_types){ (enum kv_type)(pair / KV_TYPES), (enum kv_type)(pair % KV_TYPES) },
            pool);
    }
    return 0;
}
