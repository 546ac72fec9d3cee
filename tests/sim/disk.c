/* SPDX-License-Identifier: MIT */
/* disk - see disk.h. Data moves at the end of a transfer, so that whatever frees, reuses or
 * trusts a block too early is found by the executor's walk over the prefixes. */
#include "tests/sim/disk.h"

#include <string.h>

#include "core/mem.h"

#define BLOCK KV_BLOCK_TOKENS

enum rc disk_open(struct disk *d, struct symbolic *memory, uint32_t slot_count, uint64_t seed)
{
    *d = (struct disk){ .memory = memory, .rng = rng_seeded(seed) };
    d->slots = mem_alloc_array((size_t)slot_count * BLOCK, sizeof *d->slots);
    return d->slots != NULL ? RC_OK : RC_NO_MEMORY;
}

void disk_close(struct disk *d)
{
    mem_free(d->slots);
    d->slots = NULL;
}

static enum rc start(void *ctx, bool write, uint32_t slot, uint32_t block, uint32_t tag)
{
    struct disk *d = ctx;
    uint32_t at = 0;
    while (at < DISK_DEPTH && d->ops[at].busy)
        at++;
    if (at == DISK_DEPTH)
        return RC_FULL;
    struct disk_op *op = &d->ops[at];
    *op =
        (struct disk_op){ .busy = true, .write = write, .slot = slot, .block = block, .tag = tag };
    op->due = (uint32_t)rng_below(&d->rng, d->late + 1);
    struct slot *memory = &d->memory->slots[(size_t)block * BLOCK];
    memcpy(op->slots, memory, sizeof op->slots);
    if (!write)
        memset(memory, 0, sizeof op->slots);
    return RC_OK;
}

static enum rc finish(struct disk *d, struct disk_op *op)
{
    size_t memory = (size_t)op->block * BLOCK, file = (size_t)op->slot * BLOCK;
    struct symbolic *x = d->memory;
    op->busy = false;
    if (op->write && memcmp(op->slots, &x->slots[memory], sizeof op->slots) != 0) {
        fault_set(&x->violation, RC_CORRUPT, "I7: block %u changed while it was written",
                  op->block);
        return RC_IO;
    }
    if (rng_below(&d->rng, 1000) < d->fail)
        return RC_IO;
    if (op->write)
        memcpy(&d->slots[file], &x->slots[memory], BLOCK * sizeof *d->slots);
    else
        memcpy(&x->slots[memory], &d->slots[file], BLOCK * sizeof *d->slots);
    return RC_OK;
}

static uint32_t collect(void *ctx, struct blockio_end *out, uint32_t max, bool wait)
{
    struct disk *d = ctx;
    uint32_t count = 0;
    do {
        uint32_t first = (uint32_t)rng_below(&d->rng, DISK_DEPTH);
        for (uint32_t i = 0; i < DISK_DEPTH && count < max; i++) {
            struct disk_op *op = &d->ops[(first + i) % DISK_DEPTH];
            if (!op->busy || op->due-- > 0)
                continue;
            out[count++] = (struct blockio_end){ op->tag, finish(d, op) };
        }
    } while (wait && count == 0);
    return count;
}

struct blockio disk_io(struct disk *d)
{
    return (struct blockio){ .ctx = d, .depth = DISK_DEPTH, .start = start, .collect = collect };
}
