/* SPDX-License-Identifier: MIT */
/* paging - what block tables cost one sequence: the same loop and kernels over three caches.
 *     paging -m MODEL [--depth N] [--tokens N] [--rounds N] [--arm NAME] [flags of the engine]
 * Arms:
 *     contiguous  one run of memory by layer and head (kernels/single.h), no pool
 *     paged       blocks of the pool, in the order in which a fresh one gives them out
 *     shuffled    blocks of the pool, in random order
 * Every window decodes the same tokens at the same depth. A round runs one window of each arm, the
 * order rotating, and a second contiguous one, whose ratio to the first is noise. Inside the clock:
 * the executor, and with the pool all that it does for a step: the table grows, blocks are claimed,
 * committed and offered to others. With --arm there is one window, in `window`, for callgrind. */
#include <stdlib.h>
#include <string.h>

#include "bench/machine.h"
#include "core/mem.h"
#include "core/rng.h"
#include "frontend/engine.h"
#include "kernels/single.h"
#include "kvpool/prefix.h"

enum arm { CONTIGUOUS, PAGED, SHUFFLED, ARMS };
enum { AGAIN = ARMS, WINDOWS, ROUNDS_MAX = 1000 }; /* of a round: a second contiguous one */

static const char *const arm_names[] = { "contiguous", "paged", "shuffled" };

struct flags {
    uint32_t depth, tokens, rounds;
    const char *arm;
    bool jsonl;
};

#define AT(member) offsetof(struct flags, member)
static const struct option flag_rows[] = {
    { "--depth", OPTION_U32, AT(depth), 32, CTX_TOKENS_MAX, "N", NULL,
      "tokens before each window, whole blocks of 32" },
    { "--tokens", OPTION_U32, AT(tokens), 1, CTX_TOKENS_MAX, "N", NULL, "decoded in a window" },
    { "--rounds", OPTION_U32, AT(rounds), 1, ROUNDS_MAX, "N", NULL, "windows of each arm" },
    { "--arm", OPTION_TEXT, AT(arm), 0, 0, "NAME", NULL,
      "one window of contiguous, paged or shuffled alone" },
    { "--jsonl", OPTION_FLAG, AT(jsonl), 0, 0, NULL, NULL, "one JSON object a round" },
};

/* A sequence in the pool, without a scheduler. */
struct paged {
    struct kvpool *pool;
    struct block_table table;
    uint64_t step;
    uint32_t begin, end; /* of the step before, not committed yet */
};

struct bench {
    struct engine engine;
    struct flags flags;
    int32_t *prompt; /* [depth + 1] */
    int32_t *answer; /* [tokens] of the first window: of all */
    struct single arms[ARMS];
    struct paged paged[ARMS];
};

static void commit(struct paged *p)
{
    if (p->end > p->begin)
        prefix_commit(&p->table, p->pool, p->begin, p->end);
    p->begin = p->end = 0;
}

static enum rc grow(void *ctx, const int32_t *tokens, uint32_t begin, uint32_t end)
{
    struct paged *p = ctx;
    commit(p);
    enum rc rc = table_extend(&p->table, p->pool, end);
    if (rc != RC_OK)
        return rc;
    p->step++;
    prefix_claim(&p->table, p->pool, tokens, begin, end, p->step);
    p->begin = begin;
    p->end = end;
    return RC_OK;
}

static void complain(const char *what, enum rc rc)
{
    fprintf(stderr, "paging: %s: %s\n", what, rc_text(rc));
    exit(1);
}

/* Decodes the answer; false: the tokens are not those of the first window. */
ATTR_NOINLINE static bool window(struct bench *b, struct single *s)
{
    int32_t token;
    bool same = true;
    enum rc rc = single_ask(s, b->prompt, b->flags.depth + 1, &token);
    for (uint32_t i = 0; rc == RC_OK; i++) {
        if (b->answer[i] < 0)
            b->answer[i] = token;
        same = same && b->answer[i] == token;
        if (i + 1 == b->flags.tokens)
            break;
        rc = single_next(s, &token);
    }
    if (rc != RC_OK)
        complain("window", rc);
    return same;
}

/* Computes the prompt, or goes back to its end. */
static void rewind_to_depth(struct bench *b, enum arm arm)
{
    struct single *s = &b->arms[arm];
    struct paged *p = &b->paged[arm];
    int32_t token;
    if (s->known == 0) {
        enum rc rc = single_ask(s, b->prompt, b->flags.depth, &token);
        if (rc != RC_OK)
            complain("prompt", rc);
    }
    if (arm == CONTIGUOUS)
        return;
    commit(p);
    table_truncate(&p->table, p->pool, b->flags.depth / KV_BLOCK_TOKENS);
}

/* Gives every free block back in another order than it was taken. */
static void shuffle_free(struct kvpool *p)
{
    uint32_t count = kvpool_free_count(p);
    struct block_id *ids = mem_alloc_array(count, sizeof *ids);
    struct rng rng = rng_seeded(7);
    for (uint32_t i = 0; i < count; i++)
        if (ids == NULL || kvpool_take_block(&ids[i], p) != RC_OK)
            complain("blocks", RC_NO_MEMORY);
    for (uint32_t i = count; i > 0; i--) {
        uint32_t at = (uint32_t)rng_below(&rng, i);
        kvpool_drop_block(p, ids[at]);
        ids[at] = ids[i - 1];
    }
    mem_free(ids);
}

static enum rc open_paged(struct bench *b, enum arm arm, struct fault *fault)
{
    struct engine *e = &b->engine;
    struct paged *p = &b->paged[arm];
    uint32_t capacity = kv_blocks_for(e->options.ctx_tokens);
    if (arm == SHUFFLED)
        shuffle_free(e->pool);
    uint32_t *blocks = mem_alloc_array(capacity, sizeof *blocks);
    if (blocks == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    /* Namespaces of their own: equal blocks would be merged. */
    *p = (struct paged){ .pool = e->pool,
                         .table = { .blocks = blocks, .capacity = capacity, .salt = arm } };
    enum rc rc = single_over(&b->arms[arm], exec_cpu_executor(e->exec), blocks, fault);
    b->arms[arm].grow = grow;
    b->arms[arm].grow_ctx = p;
    /* All of them, so that the next arm's come after these. */
    return rc != RC_OK ? rc : table_extend(&p->table, e->pool, b->flags.depth + b->flags.tokens);
}

static enum rc open_arm(struct bench *b, enum arm arm, struct fault *fault)
{
    const struct engine *e = &b->engine;
    const struct engine_options *o = &e->options;
    if (arm != CONTIGUOUS)
        return open_paged(b, arm, fault);
    struct exec_cpu_config config = { .rows_max = 1 + o->chunk_tokens,
                                      .outputs_max = 1,
                                      .ctx_max = o->ctx_tokens,
                                      .isa = (enum isa)(o->isa - 1),
                                      .act_f32 = o->act == 1,
                                      .kv_types = { (enum kv_type)o->kv_type_k,
                                                    (enum kv_type)o->kv_type_v } };
    return single_open(&b->arms[arm], e->model, e->workers, &config, fault);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_ratio(FILE *f, const char *name, const double *us, const double *base,
                        uint32_t rounds)
{
    double ratio[ROUNDS_MAX];
    uint32_t above = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        ratio[i] = 100 * (us[i] / base[i] - 1);
        above += ratio[i] > 0;
    }
    qsort(ratio, rounds, sizeof ratio[0], compare);
    fprintf(f, "%-22s median %+.2f %%, quartiles %+.2f to %+.2f %%, slower in %u of %u\n", name,
            ratio[rounds / 2], ratio[rounds / 4], ratio[rounds - 1 - rounds / 4], above, rounds);
}

static void print_summary(const struct flags *f, double us[WINDOWS][ROUNDS_MAX])
{
    FILE *out = f->jsonl ? stderr : stdout;
    double sorted[ROUNDS_MAX];
    memcpy(sorted, us[CONTIGUOUS], f->rounds * sizeof sorted[0]);
    qsort(sorted, f->rounds, sizeof sorted[0], compare);
    fprintf(out, "depth %u, windows of %u tokens: contiguous %.0f us a token (median of %u)\n",
            f->depth, f->tokens, sorted[f->rounds / 2] / f->tokens, f->rounds);
    print_ratio(out, "contiguous again", us[AGAIN], us[CONTIGUOUS], f->rounds);
    print_ratio(out, "paged / contiguous", us[PAGED], us[CONTIGUOUS], f->rounds);
    print_ratio(out, "shuffled / paged", us[SHUFFLED], us[PAGED], f->rounds);
    print_ratio(out, "shuffled / contiguous", us[SHUFFLED], us[CONTIGUOUS], f->rounds);
}

static void run_rounds(struct bench *b)
{
    static double us[WINDOWS][ROUNDS_MAX];
    const struct flags *f = &b->flags;
    for (uint32_t round = 0; round < f->rounds; round++) {
        for (uint32_t i = 0; i < WINDOWS; i++) {
            uint32_t place = (i + round) % WINDOWS;
            enum arm arm = place == AGAIN ? CONTIGUOUS : (enum arm)place;
            rewind_to_depth(b, arm);
            double begin_ns = now_ns();
            bool same = window(b, &b->arms[arm]);
            us[place][round] = (now_ns() - begin_ns) / 1000;
            if (!same)
                complain("arms decode different tokens", RC_CORRUPT);
        }
        if (f->jsonl)
            printf("{\"depth\":%u,\"tokens\":%u,\"round\":%u,\"contiguous_us\":%.0f,"
                   "\"again_us\":%.0f,\"paged_us\":%.0f,\"shuffled_us\":%.0f}\n",
                   f->depth, f->tokens, round, us[CONTIGUOUS][round], us[AGAIN][round],
                   us[PAGED][round], us[SHUFFLED][round]);
    }
    print_summary(f, us);
}

/* The arms, or only one of them. */
static enum rc open_bench(struct bench *b, enum arm only, struct fault *fault)
{
    const struct flags *f = &b->flags;
    b->prompt = mem_alloc_array(f->depth + 1, sizeof *b->prompt);
    b->answer = mem_alloc_array(f->tokens, sizeof *b->answer);
    if (b->prompt == NULL || b->answer == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    struct rng rng = rng_seeded(1);
    for (uint32_t i = 0; i <= f->depth; i++)
        b->prompt[i] = (int32_t)rng_below(&rng, b->engine.model->vocab_count);
    for (uint32_t i = 0; i < f->tokens; i++)
        b->answer[i] = -1;
    kvpool_keep_cached(b->engine.pool, false);
    for (enum arm arm = CONTIGUOUS; arm < ARMS; arm++) {
        enum rc rc = only == ARMS || only == arm ? open_arm(b, arm, fault) : RC_OK;
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static void close_bench(struct bench *b)
{
    for (enum arm arm = CONTIGUOUS; arm < ARMS; arm++) {
        if (b->paged[arm].pool != NULL)
            table_truncate(&b->paged[arm].table, b->paged[arm].pool, 0);
        mem_free(b->paged[arm].table.blocks);
        single_close(&b->arms[arm]);
    }
    mem_free(b->prompt);
    mem_free(b->answer);
    engine_close(&b->engine);
}

static enum arm arm_of(const char *name)
{
    enum arm arm = CONTIGUOUS;
    while (arm < ARMS && (name == NULL || strcmp(name, arm_names[arm]) != 0))
        arm++;
    return arm;
}

static int run(struct engine_options *o, const struct flags *flags)
{
    static struct bench b;
    struct fault fault = { 0 };
    struct engine_needs needs = { .requests_max = 1 };
    enum arm only = arm_of(flags->arm);
    b.flags = *flags;
    b.flags.depth = flags->depth / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    o->ctx_tokens = b.flags.depth + b.flags.tokens + 1;
    o->kv_tokens = 2 * kv_blocks_for(o->ctx_tokens) * KV_BLOCK_TOKENS;
    o->rows_max = 1;
    if (flags->arm != NULL && only == ARMS) {
        fault_set(&fault, RC_USAGE, "--arm %s: contiguous, paged and shuffled are known",
                  flags->arm);
        return engine_complain("paging", &fault);
    }
    enum rc rc = engine_open(&b.engine, o, &needs, &fault);
    if (rc == RC_OK)
        rc = open_bench(&b, only, &fault);
    if (rc == RC_OK && only == ARMS) {
        run_rounds(&b);
    } else if (rc == RC_OK) {
        rewind_to_depth(&b, only);
        (void)window(&b, &b.arms[only]);
    }
    close_bench(&b);
    return rc == RC_OK ? 0 : engine_complain("paging", &fault);
}

int main(int argc, char **argv)
{
    struct flags flags = { .depth = 512, .tokens = 8, .rounds = 20 };
    struct engine_options options = engine_options_default();
    options.quiet = true;
    struct option_group groups[] = {
        { "paging", flag_rows, sizeof flag_rows / sizeof flag_rows[0], &flags },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { .command = "paging",
                              .usage = "-m MODEL",
                              .purpose = "What block tables cost one sequence.",
                              .groups = groups,
                              .group_count = 2 };
    int status = options_begin(&set, argc, argv);
    return status >= 0 ? status : run(&options, &flags);
}
