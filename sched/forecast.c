/* SPDX-License-Identifier: MIT */
/* forecast - all sequences grow by a token a step; the shortest ends first and gives its blocks
 * back:
 *
 *   blocks |      /|       the need is largest just before an end: at each end the growth of
 *          |   /|/ |/|     all that still run is compared with what is available now and what
 *          | _/    | |     those that ended before have returned
 *          +---------+-> tokens
 *
 * One pass over the ends, in order, with running sums; mostly the first few decide, so they are
 * taken from a heap. */
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

/* The item at this place of the heap, least left on top, goes down to where it belongs. */
static void sift_down(struct forecast_item *items, uint32_t count, uint32_t at)
{
    struct forecast_item item = items[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && items[child + 1].left < items[child].left)
            child++;
        if (items[child].left >= item.left)
            break;
        items[at] = items[child];
    }
    items[at] = item;
}

bool forecast_fits(struct forecast_item *items, uint32_t count, uint64_t available)
{
    uint64_t open = 0, left = 0;
    for (uint32_t i = 0; i < count; i++) {
        open += items[i].open;
        left += items[i].left;
    }
    if ((open + left) / KV_BLOCK_TOKENS <= available)
        return true; /* even if nothing came back */
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(items, count, i);
    do {
        const struct forecast_item *first = &items[0];
        if ((open + (uint64_t)count * first->left) / KV_BLOCK_TOKENS > available)
            return false;
        open -= first->open;
        left -= first->left;
        available += first->own; /* and what it had grown by, which is in no sum any more */
        items[0] = items[--count];
        sift_down(items, count, 0);
    } while ((open + left) / KV_BLOCK_TOKENS > available); /* else the rest fits as it is */
    return true;
}
