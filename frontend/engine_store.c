/* SPDX-License-Identifier: MIT */
/* engine_store - --swap, --cache-file and --chaos. The size of the block file is known at start
 * (P5): what the flag says, or four times the pool if half of what is free on the disk holds
 * that. */
#include "frontend/engine_store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

static const char *path_of(const struct engine *e)
{
    return e->options.cache_file != NULL ? e->options.cache_file : e->options.swap;
}

/* What is free on the disk of a path, or of the directory it will be in; without one there is no
 * limit, and opening the file says what is wrong. */
static uint64_t free_bytes(const char *path)
{
    struct statvfs disk;
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash != NULL ? (int)(slash - path) + 1 : 0;
    if (statvfs(path, &disk) == 0 ||
        (snprintf(directory, sizeof directory, "%.*s.", len, path) < (int)sizeof directory &&
         statvfs(directory, &disk) == 0))
        return (uint64_t)disk.f_bavail * disk.f_frsize;
    return UINT64_MAX;
}

/* Blocks that the file shall hold; 0 when the disk has no room for one. */
static uint32_t slot_count_of(const struct engine *e)
{
    uint64_t block_bytes = kvpool_block_bytes(e->pool);
    uint64_t count = e->options.swap_bytes / block_bytes;
    if (e->options.swap_bytes == 0) {
        uint64_t fitting = free_bytes(path_of(e)) / 2 / block_bytes;
        count = (uint64_t)SLOTS_PER_BLOCK * kvpool_block_count(e->pool);
        count = count < fitting ? count : fitting;
    }
    return count < KVPOOL_BLOCKS_MAX ? (uint32_t)count : KVPOOL_BLOCKS_MAX;
}

static enum rc check_flags(const struct engine_options *o, uint32_t chaos_io, struct fault *fault)
{
    if (o->swap != NULL && o->cache_file != NULL)
        return fault_set(fault, RC_USAGE, "--cache-file serves as --swap, too: give one of them");
    if (o->swap == NULL && o->cache_file == NULL && chaos_io > 0)
        return fault_set(fault, RC_USAGE, "--chaos io=N needs --swap or --cache-file");
    if ((o->swap != NULL || o->cache_file != NULL) && o->no_prefix_cache)
        return fault_set(fault, RC_USAGE, "--no-prefix-cache leaves nothing to keep in a file");
    return RC_OK;
}

struct hash engine_digest(struct engine *e)
{
    if (!e->digested)
        e->digest = gguf_digest(e->gguf);
    e->digested = true;
    return e->digest;
}

/* A block's bytes depend on its tokens, and on this. */
static struct hash key_of(struct engine *e)
{
    uint64_t id = exec_cpu_kv_id(e->exec);
    return hash_bytes(engine_digest(e), &id, sizeof id);
}

/* Says what is not as it was left; none of it is worse than computing again. */
static void warn(const struct engine *e)
{
    const struct blockindex *x = blockfile_index(e->blocks);
    if (e->options.swap_io == 0 && !blockfile_uring(e->blocks))
        fprintf(stderr, "warning: io_uring is refused here: %s is used with plain calls\n",
                path_of(e));
    if (x != NULL && x->anew != NULL)
        fprintf(stderr, "warning: block file %s is begun anew: %s\n", path_of(e), x->anew);
    if (x != NULL && x->damaged > 0)
        fprintf(stderr, "warning: block file %s: %u damaged records are ignored\n", path_of(e),
                x->damaged);
}

static void warn_of_failure(const char *text)
{
    fprintf(stderr, "warning: %s\n", text);
}

enum rc engine_store_open(struct engine *e, uint32_t chaos_io, struct fault *fault)
{
    const struct engine_options *o = &e->options;
    const char *path = path_of(e);
    enum rc rc = check_flags(o, chaos_io, fault);
    if (rc != RC_OK || path == NULL)
        return rc;
    struct blockfile_config file = {
        .path = path,
        .slot_count = slot_count_of(e),
        .exact = o->swap_bytes > 0,
        .plain = o->swap_io == 1,
        .on_failure = warn_of_failure,
    };
    if (file.slot_count == 0)
        return fault_set(fault, RC_NO_FIT, "block file %s: no room for a block of %zu KiB (%s)",
                         path, kvpool_block_bytes(e->pool) >> 10,
                         o->swap_bytes > 0 ? "--swap-size" : "half of what is free on the disk");
    struct stat st;
    bool named = stat(path, &st) != 0 || !S_ISDIR(st.st_mode);
    if (named)
        file.key = key_of(e);
    rc = blockfile_open(&e->blocks, &file, e->pool, fault);
    if (rc == RC_CORRUPT || rc == RC_AGAIN) {
        fprintf(stderr, "warning: %s; going on without\n", fault->text);
        return RC_OK;
    }
    if (rc != RC_OK)
        return rc;
    struct store_config config = {
        .io = blockfile_io(e->blocks),
        .clock = e->clock,
        .slot_count = blockfile_slot_count(e->blocks),
        .write_bytes_day = o->swap_day_bytes,
        .chaos_io = chaos_io,
        .keep = o->cache_file != NULL,
    };
    if (e->journal != NULL)
        journal_store(e->journal, &config);
    rc = kvpool_open_store(e->pool, &config, fault);
    if (rc == RC_OK)
        warn(e);
    return rc;
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
    fprintf(stderr, "swap      %s: %u blocks, %.0f MiB", path_of(e), s.slots_total,
            mib_of(e, s.slots_total));
    if (s.recalled > 0)
        fprintf(stderr, ", %u of them filled", s.recalled);
    if (e->options.swap_day_bytes > 0)
        fprintf(stderr, ", %.0f MiB written a day at most",
                (double)e->options.swap_day_bytes / 1048576.0);
    fprintf(stderr, "; %s\n", blockfile_mode(e->blocks));
}

void engine_store_report(struct engine *e)
{
    if (e->blocks == NULL)
        return;
    store_flush(e->pool);
    if (e->options.verbose == 0)
        return;
    struct store_stats s = store_stats_get(e->pool);
    fprintf(stderr, "swap      %llu blocks written (%.1f MiB), %llu read, %llu failed; %s\n",
            (unsigned long long)s.writes, mib_of(e, s.writes), (unsigned long long)s.reads,
            (unsigned long long)s.failures, blockfile_mode(e->blocks));
}
