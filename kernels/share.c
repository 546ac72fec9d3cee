/* SPDX-License-Identifier: MIT */
/* share - see share.h. Refused: pieces of one size. Small ones cost each worker a start (8 cold
 * streams), large ones leave the last worker alone at the end. */
#include "kernels/share.h"

bool share_take(atomic_uint *taken, uint32_t units, uint32_t smallest, uint32_t workers,
                uint32_t *begin, uint32_t *end)
{
    uint32_t from = atomic_load_explicit(taken, memory_order_relaxed), count;
    if (units / workers < 2 * smallest)
        smallest = (units + workers - 1) / workers;
    do {
        if (from >= units)
            return false;
        uint32_t left = units - from, large = left / (2 * workers);
        count = large > smallest ? large : smallest;
        count = count < left ? count : left;
    } while (!atomic_compare_exchange_weak_explicit(taken, &from, from + count,
                                                    memory_order_relaxed, memory_order_relaxed));
    *begin = from;
    *end = from + count;
    return true;
}
