/* SPDX-License-Identifier: MIT */
/* disk - a block file for the symbolic executor: transfers end late, out of order, or badly; memory
 * that is being read holds rubbish until the end, memory that is being written must not change
 * before it.
 *   owner   one world, its thread */
#ifndef QUIRE_TESTS_SIM_DISK_H
#define QUIRE_TESTS_SIM_DISK_H

#include "core/rng.h"
#include "kvpool/blockio.h"
#include "tests/sim/symbolic.h"

#define DISK_DEPTH 6u

struct disk_op {
    bool busy, write;
    uint32_t slot, block, tag;
    uint32_t due;                       /* looks until it ends */
    struct slot slots[KV_BLOCK_TOKENS]; /* of the block when its writing began */
};

struct disk {
    struct symbolic *memory;
    struct rng rng;
    uint32_t late;      /* a transfer takes at most so many looks */
    uint32_t fail;      /* of 1000 */
    struct slot *slots; /* [slot of the file][32] */
    struct disk_op ops[DISK_DEPTH];
};

enum rc disk_open(struct disk *d, struct symbolic *memory, uint32_t slot_count,
                  uint64_t seed) ATTR_MUST_USE;
void disk_close(struct disk *d);
struct blockio disk_io(struct disk *d);

#endif
