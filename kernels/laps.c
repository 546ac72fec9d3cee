/* SPDX-License-Identifier: MIT */
/* laps - see laps.h. Each time is a difference of two readings of one clock, so what the readings
 * round away at the end of a stage comes back at the end of the next. */
#include "kernels/laps.h"

const char *laps_name(enum lap stage)
{
    static const char *const names[LAP_COUNT] = {
        [LAP_PREPARE] = "prepare",     [LAP_QKV] = "q k v",
        [LAP_ATTENTION] = "attention", [LAP_O] = "o",
        [LAP_ROUTE] = "route",         [LAP_GATE_UP] = "gate up",
        [LAP_DOWN] = "down",           [LAP_EMBED] = "embed",
        [LAP_OUTPUT] = "output",       [LAP_SAMPLE] = "sample",
    };
    return names[stage];
}

void laps_begin(struct laps *l, uint32_t layer_count)
{
    l->layer = layer_count;
    l->begun_us = l->last_us = clock_now_us(&l->clock);
    l->steps++;
}

void laps_take(struct laps *l, enum lap stage)
{
    uint64_t now = clock_now_us(&l->clock);
    l->us[l->layer][stage] += now - l->last_us;
    l->last_us = now;
}

void laps_end(struct laps *l)
{
    l->steps_us += clock_now_us(&l->clock) - l->begun_us;
}
