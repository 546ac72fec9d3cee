/* SPDX-License-Identifier: MIT */
/* forecast - all sequences grow by a token a step; the shortest ends first and gives its blocks
 * back:
 *
 *   blocks |      /|        the need is largest just before an end: at each end the growth of all
 *                 that
 *          |   /|/ |/|      still run is compared with what is available now and what those that
 *              ended
 *          | _/    | |      before have returned
 *          +---------+-> tokens
 *
 * One pass over the ends, in order, with running sums. */
#include "sched/forecast.h"

#include "core/limits.h"

#define LENGTH_FIRST 256u /* an answer's length before any was seen */
/* one that is longer than expected goes on for a quarter more, at least so many */
#define LEFT_LEAST 32u

void lengths_note(struct lengths *l, uint32_t tokens)
{
    if (l->high == 0)
        l->high = LENGTH_FIRST;
    uint32_t step = l->high / 16 + 1;
    if (tokens > l->high)
        l->high += step;
    else if (l->high > step / 4 + 1)
        l->high -= step / 4 + (step % 4 != 0);
}

uint32_t lengths_left(const struct lengths *l, uint32_t done, uint32_t max)
{
    uint32_t high = l->high != 0 ? l->high : LENGTH_FIRST;
    uint32_t more = done / 4 > LEFT_LEAST ? done / 4 : LEFT_LEAST;
    uint32_t left = high > done && high - done > more ? high - done : more;
    return left < max - done ? left : max - done;
}

/* Shell sort by left: in place, no recursion, fast enough for what fits into a step. */
static void sort_items(struct forecast_item *items, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < count; i++) {
            struct forecast_item item = items[i];
            uint32_t at = i;
            for (; at >= gap && items[at - gap].left > item.left; at -= gap)
                items[at] = items[at - gap];
            items[at] = item;
        }
}

bool forecast_fits(struct forecast_item *items, uint32_t count, uint64_t available)
{
    uint64_t open = 0, left = 0, returned = 0;
    for (uint32_t i = 0; i < count; i++) {
        open += items[i].open;
        left += items[i].left;
    }
    if ((open + left) / KV_BLOCK_TOKENS <= available)
        return true; /* even if nothing came back */
    sort_items(items, count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t growth = (open + (uint64_t)(count - i) * items[i].left) / KV_BLOCK_TOKENS;
        if (growth > available + returned)
            return false;
        open -= items[i].open;
        returned += items[i].own; /* and what it had grown by, which is in no sum any more */
    }
    return true;
}
