/* SPDX-License-Identifier: MIT */
/* engine_store - --swap and --chaos. The size of the block file is known at start (P5): what the
 * flag says, or four times the pool if half of what is free on the disk holds that. */
#include "frontend/engine_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "core/str.h"
#include "frontend/engine.h"
#include "kvpool/blockfile.h"
#include "kvpool/store.h"
#include "sched/journal.h"

#define SLOTS_PER_BLOCK 4u

static enum rc say_chaos(struct fault *fault)
{
    return fault_set(fault, RC_USAGE,
                     "--chaos takes preempt=N,alloc=N,io=N, or some of them, with N from 1 on");
}

enum rc chaos_parse(struct chaos *out, const char *text, struct fault *fault)
{
    static const char *const names[] = { "preempt=", "alloc=", "io=" };
    *out = (struct chaos){ 0 };
    uint32_t *const values[] = { &out->preempt, &out->alloc, &out->io };
    for (const char *at = text; at != NULL;) {
        size_t len = strcspn(at, ","), n = 0;
        while (n < 3 && strncmp(at, names[n], strlen(names[n])) != 0)
            n++;
        if (n == 3)
            return say_chaos(fault);
        size_t name = strlen(names[n]);
        uint64_t value;
        struct str digits = { at + name, len - name };
        if (len <= name || !str_parse_u64(digits, 1, UINT32_MAX, &value))
            return say_chaos(fault);
        *values[n] = (uint32_t)value;
        at = at[len] == ',' ? at + len + 1 : NULL;
    }
    return RC_OK;
}

/* Blocks that the file shall hold; 0 when the disk has no room for one. */
static uint32_t slot_count_of(const struct engine *e)
{
    uint64_t block_bytes = kvpool_block_bytes(e->pool), count;
    if (e->options.swap_bytes > 0) {
        count = e->options.swap_bytes / block_bytes;
    } else {
        struct statvfs disk;
        count = (uint64_t)SLOTS_PER_BLOCK * kvpool_block_count(e->pool);
        if (statvfs(e->options.swap, &disk) == 0) {
            uint64_t fitting = (uint64_t)disk.f_bavail * disk.f_frsize / 2 / block_bytes;
            count = count < fitting ? count : fitting;
        }
    }
    return count < KVPOOL_BLOCKS_MAX ? (uint32_t)count : KVPOOL_BLOCKS_MAX;
}

enum rc engine_store_open(struct engine *e, uint32_t chaos_io, struct fault *fault)
{
    const struct engine_options *o = &e->options;
    if (o->swap == NULL)
        return chaos_io == 0 ? RC_OK
                             : fault_set(fault, RC_USAGE, "--chaos io=N needs --swap to fail");
    if (o->no_prefix_cache)
        return fault_set(fault, RC_USAGE, "--swap is of no use with --no-prefix-cache");
    uint32_t slots = slot_count_of(e);
    if (slots == 0)
        return fault_set(fault, RC_NO_FIT, "--swap %s: no room for a block of %zu KiB (%s)",
                         o->swap, kvpool_block_bytes(e->pool) >> 10,
                         o->swap_bytes > 0 ? "--swap-size" : "half of what is free on the disk");
    enum rc rc = blockfile_open(&e->blocks, o->swap, e->pool, slots, o->swap_io == 0, fault);
    if (rc != RC_OK)
        return rc;
    if (o->swap_io == 0 && !blockfile_uring(e->blocks))
        fprintf(stderr, "warning: io_uring is refused here: --swap uses plain calls\n");
    struct store_config config = {
        .io = blockfile_io(e->blocks),
        .clock = e->clock,
        .slot_count = slots,
        .write_bytes_day = o->swap_day_bytes,
        .chaos_io = chaos_io,
    };
    if (e->journal != NULL)
        journal_store(e->journal, &config);
    return kvpool_open_store(e->pool, &config, fault);
}

static double mib_of(const struct engine *e, uint64_t blocks)
{
    return (double)blocks * (double)kvpool_block_bytes(e->pool) / 1048576.0;
}

void engine_store_print(const struct engine *e)
{
    if (e->blocks == NULL)
        return;
    struct store_stats s = store_stats_get(e->pool);
    fprintf(stderr, "swap      %s: %u blocks, %.0f MiB", e->options.swap, s.slots_total,
            mib_of(e, s.slots_total));
    if (e->options.swap_day_bytes > 0)
        fprintf(stderr, ", %.0f MiB written a day at most",
                (double)e->options.swap_day_bytes / 1048576.0);
    fprintf(stderr, "; %s\n", blockfile_mode(e->blocks));
}

void engine_store_report(const struct engine *e)
{
    if (e->blocks == NULL)
        return;
    struct store_stats s = store_stats_get(e->pool);
    fprintf(stderr, "swap      %llu blocks written (%.1f MiB), %llu read, %llu failed; %s\n",
            (unsigned long long)s.writes, mib_of(e, s.writes), (unsigned long long)s.reads,
            (unsigned long long)s.failures, blockfile_mode(e->blocks));
}
