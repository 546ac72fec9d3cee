/* SPDX-License-Identifier: MIT */
/* world - sizes and habits drawn from the seed. Small pools and many rows are drawn often,
 * because that is where scheduling is hard; every fifth world has room for everybody. */
#include "tests/sim/world.h"

#include <stdlib.h>

#include "core/mem.h"
#include "kvpool/internal.h"
#include "kvpool/store.h"

#define PINS_STREAM 3u

bool world_broken(struct world *w, const char *rule, uint64_t a, uint64_t b)
{
    if (w->violation.code == RC_OK)
        fault_set(&w->violation, RC_CORRUPT, "%s (%llu, %llu)", rule, (unsigned long long)a,
                  (unsigned long long)b);
    return false;
}

bool world_chance(struct world *w, uint32_t in_1000)
{
    return rng_below(&w->rng, 1000) < in_1000;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool world_event(struct world *w, uint32_t event)
{
    const struct sim_options *o = w->options;
    uint64_t id = w->tick * EVENTS + event;
    w->rng = rng_seeded((o->seed + 1) * 0x9e3779b97f4a7c15u ^ id * 0xff51afd7ed558ccdu);
    if (event == EVENT_DRAW)
        return true;
    if (o->only != NULL && bsearch(&id, o->only, o->only_count, sizeof id, by_value) == NULL)
        return false;
    if (o->events != NULL && w->event_count < o->event_room)
        o->events[w->event_count] = id;
    w->event_count++;
    return true;
}

uint32_t world_draw(struct world *w, uint32_t low, uint32_t high)
{
    return low + (uint32_t)rng_below(&w->rng, high - low + 1);
}

/* The workload that speed is measured with: 64 sequences in flight, prompts of up to 64, answers
 * of up to 400. */
static void draw_fixed(struct world *w, struct executor_limits *limits)
{
    w->block_count = 64 * 9;
    w->config = (struct sched_config){ .ctx_tokens = 500,
                                       .rows_max = 64,
                                       .chunk_tokens = 32,
                                       .step_prefill_tokens = 64,
                                       .requests_max = 96 };
    *limits = (struct executor_limits){
        .rows_max = 160, .outputs_max = 96, .vocab_count = 100, .ctx_max = WORLD_CTX_MAX
    };
    w->habits = (struct habits){
        .arrive = 1000, .burst = 4, .prompt_max = 64, .output_max = 400, .documents = 8, .read = 100
    };
}

static void draw_habits(struct world *w)
{
    bool calm = world_chance(w, 300);
    w->habits = (struct habits){
        .arrive = world_draw(w, 20, 700),
        .burst = world_draw(w, 1, 8),
        .prompt_max =
            world_draw(w, 1, world_chance(w, 200) ? WORLD_CTX_MAX : 1 + w->config.ctx_tokens / 2),
        .output_max = world_draw(w, 1, world_chance(w, 300) ? 30 : 400),
        .brief = world_chance(w, 500) ? world_draw(w, 700, 900) : 0,
        .documents = world_draw(w, 1, 6),
        .cancel = calm ? 0 : world_draw(w, 0, 150),
        .read = world_draw(w, 100, 1000),
        .fail_step = calm ? 0 : world_draw(w, 0, 30),
        .fail_memory = calm ? 0 : world_draw(w, 0, 100),
        .tenants = world_chance(w, 500)  ? world_draw(w, 1, 6)
                   : world_chance(w, 50) ? 300
                                         : 0,
        .classes = world_chance(w, 600) ? world_draw(w, 100, 1000) : 0,
        .hurry = world_chance(w, 300) ? world_draw(w, 1, 300) : 0,
        .stops = world_draw(w, 0, 600),
        .groups = world_draw(w, 0, 200),
        .extras = world_draw(w, 0, 400),
        .jump = world_chance(w, 200) ? world_draw(w, 1, 10) : 0,
    };
}

static void draw_sizes(struct world *w, struct executor_limits *limits)
{
    bool roomy = world_chance(w, 200);
    w->block_count = world_draw(w, roomy ? 60 : 1, roomy ? 300 : 60);
    limits->vocab_count = world_draw(w, 3, WORLD_VOCAB_MAX);
    limits->ctx_max = world_draw(w, world_chance(w, 200) ? 40 : 300, WORLD_CTX_MAX);
    limits->rows_max = world_draw(w, 1, 96);
    limits->outputs_max = world_draw(w, 1, 64);
    uint32_t rows = limits->rows_max < limits->outputs_max ? limits->rows_max : limits->outputs_max;
    w->config = (struct sched_config){
        .ctx_tokens = world_draw(w, world_chance(w, 200) ? 2 : 100, WORLD_CTX_MAX),
        .rows_max = world_draw(w, 1, rows),
        .chunk_tokens = world_draw(w, 1, 80),
        .step_prefill_tokens = world_chance(w, 500) ? 0 : world_draw(w, 1, 120),
        .patience_us = world_draw(w, 1, 200000),
        .itl_us = world_chance(w, 500) ? world_draw(w, 1, 50000) : 0,
        .requests_max = world_draw(w, 1, world_chance(w, 200) ? 200 : 60),
        .no_prefix_cache = world_chance(w, 150),
        .chaos_preempt_steps = world_chance(w, 200) ? world_draw(w, 1, 30) : 0,
        .chaos_alloc = world_chance(w, 150) ? world_draw(w, 1, 30) : 0,
    };
    if (w->options->seed % 5 == 0) /* nothing is read from disk here: no more than these run */
        w->config.rows_calm = 1 + (uint32_t)(w->options->seed % w->config.rows_max);
}

/* Pinned prompts in some worlds; drawn from a stream of their own. */
static void draw_pins(struct world *w)
{
    struct rng rng = rng_seeded(w->options->seed * 0x9e3779b97f4a7c15u ^ PINS_STREAM);
    if (w->block_count < 4 || rng_below(&rng, 1000) >= 300)
        return;
    w->config.pin_tokens = 1 + (uint32_t)rng_below(&rng, w->block_count * KV_BLOCK_TOKENS / 2);
    if (rng_below(&rng, 2) == 0)
        w->config.pin_tenant_tokens = 1 + (uint32_t)rng_below(&rng, w->config.pin_tokens);
    w->habits.pins = 1 + (uint32_t)rng_below(&rng, 300);
}

/* A disk that is slow, bad or worn out, as it comes. */
static bool open_store(struct world *w)
{
    uint32_t slots = world_draw(w, 1, 2 * w->block_count);
    if (disk_open(&w->disk, &w->symbolic, slots, w->options->seed) != RC_OK)
        return world_broken(w, "the simulator has no memory", 0, 0);
    w->disk.late = world_draw(w, 0, 8);
    w->disk.fail = world_chance(w, 300) ? world_draw(w, 1, 300) : 0;
    struct store_config config = {
        .io = disk_io(&w->disk),
        /* On a clock that stands still a disk takes no time, and writing always pays. */
        .clock = clock_virtual(world_chance(w, 700) ? &w->still_us : &w->now_us),
        .slot_count = slots,
        .write_bytes_day = world_chance(w, 200) ? world_draw(w, 1, 100) : 0,
        .chaos_io = world_chance(w, 200) ? world_draw(w, 2, 20) : 0,
        .keep = world_chance(w, 300),
    };
    if (w->journal != NULL)
        journal_store(w->journal, &config);
    return kvpool_open_store(w->pool, &config, &w->violation) == RC_OK;
}

/* A file for all that the scheduler is given. */
static bool open_journal(struct world *w)
{
    if (w->options->journal == NULL)
        return true;
    struct journal_pool head = { w->block_count, 0, kvpool_seed(w->pool) };
    if (journal_create(&w->journal, w->options->journal, &w->violation) != RC_OK)
        return false;
    journal_put_pool(w->journal, &head);
    return true;
}

static bool open_sched(struct world *w, const struct executor_limits *limits)
{
    struct journal_sched head = { w->config, *limits };
    if (w->journal != NULL)
        journal_put_sched(w->journal, &head);
    w->config.journal = w->journal;
    return sched_open(&w->sched, &w->config, w->pool, symbolic_executor(&w->symbolic),
                      clock_virtual(&w->now_us), &w->violation) == RC_OK;
}

bool world_open(struct world *w, const struct sim_options *options)
{
    *w = (struct world){ .options = options, .rng = rng_seeded(options->seed) };
    w->memory_before = mem_live_bytes();
    struct executor_limits limits;
    if (options->fixed) {
        draw_fixed(w, &limits);
    } else {
        draw_sizes(w, &limits);
        draw_habits(w);
        draw_pins(w);
    }
    w->clients = mem_alloc_array(w->config.requests_max, sizeof *w->clients);
    w->before = mem_alloc_array(w->config.rows_max, sizeof *w->before);
    if (w->clients == NULL || w->before == NULL ||
        symbolic_open(&w->symbolic, w->block_count, &limits) != RC_OK)
        return world_broken(w, "the simulator has no memory", 0, 0);
    w->symbolic.now_us = &w->now_us;
    if (!options->fixed && world_chance(w, 500))
        w->symbolic.row_us = world_draw(w, 0, 20000);
    if (options->fixed)
        w->symbolic.verify_mask = options->audit_every > 4 ? 63 : 3;
    if (kvpool_open(&w->pool, w->block_count, 0, &w->violation) != RC_OK)
        return false;
    if (!open_journal(w))
        return false;
    if (!options->fixed && world_chance(w, 400) && !open_store(w))
        return false;
    if (!options->fixed && world_chance(w, 100))
        /* every hash is the same: only the comparison tells blocks apart */
        w->pool->bucket_mask = 0;
    return open_sched(w, &limits);
}

void world_close(struct world *w)
{
    sched_close(w->sched);
    kvpool_close(w->pool);
    journal_close(w->journal);
    disk_close(&w->disk);
    symbolic_close(&w->symbolic);
    mem_free(w->before);
    mem_free(w->clients);
    if (mem_live_bytes() != w->memory_before)
        world_broken(w, "memory is left", mem_live_bytes(), w->memory_before);
}
