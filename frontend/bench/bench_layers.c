/* SPDX-License-Identifier: MIT */
/* bench_layers - see bench_layers.h. "rest" is the step's time outside every stage: workers woken
 * and sent to sleep. */
#include "frontend/bench/bench_layers.h"

#include <stdio.h>

/* Stages that a layer has; the route is one of mixtures. */
static bool in_layers(const struct model *m, uint32_t stage)
{
    return stage <= LAP_DOWN && (stage != LAP_ROUTE || m->expert_count > 0);
}

/* Before the output matrix its input is prepared. */
static bool has_stage(const struct model *m, uint32_t layer, uint32_t stage)
{
    return layer < m->layer_count ? in_layers(m, stage) : stage == LAP_PREPARE || stage > LAP_DOWN;
}

static double mean_us(const struct laps *l, uint64_t us)
{
    return (double)us / (double)(l->steps > 0 ? l->steps : 1);
}

/* Of all layers and what belongs to none. */
static uint64_t stage_us(const struct laps *l, const struct model *m, uint32_t stage)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= m->layer_count; i++)
        sum += l->us[i][stage];
    return sum;
}

static uint64_t all_us(const struct laps *l, const struct model *m)
{
    uint64_t sum = 0;
    for (uint32_t stage = 0; stage < LAP_COUNT; stage++)
        sum += stage_us(l, m, stage);
    return sum;
}

/* Readings of the clock round, so a sum may pass the whole by a microsecond. */
static uint64_t rest_us(const struct laps *l, const struct model *m)
{
    uint64_t all = all_us(l, m);
    return l->steps_us > all ? l->steps_us - all : 0;
}

/* ---- JSON ---- */

/* A row that memory lacked for is none: NULL. */
static json_t *whole(json_t *made, int bad)
{
    if (bad == 0)
        return made;
    json_decref(made);
    return NULL;
}

static json_t *layer_json(const struct laps *l, const struct model *m, uint32_t layer)
{
    json_t *row = json_object();
    int bad = 0;
    for (uint32_t stage = 0; stage < LAP_COUNT; stage++)
        if (has_stage(m, layer, stage))
            bad |= json_object_set_new(row, laps_name((enum lap)stage),
                                       json_real(mean_us(l, l->us[layer][stage])));
    return whole(row, bad);
}

static json_t *phase_json(const struct laps *l, const struct model *m)
{
    json_t *layers = json_array(), *stages = json_object();
    int bad = 0;
    for (uint32_t i = 0; i <= m->layer_count; i++)
        bad |= json_array_append_new(layers, layer_json(l, m, i));
    for (uint32_t stage = 0; stage < LAP_COUNT; stage++)
        bad |= json_object_set_new(stages, laps_name((enum lap)stage),
                                   json_real(mean_us(l, stage_us(l, m, stage))));
    json_t *out = json_pack("{s:I, s:f, s:f, s:o, s:o}", "steps", (json_int_t)l->steps, "step_us",
                            mean_us(l, l->steps_us), "rest_us", mean_us(l, rest_us(l, m)),
                            "stages_us", stages, "layers_us", layers);
    return whole(out, bad);
}

json_t *bench_layers_json(const struct bench_row *row, const struct model *m)
{
    json_t *out = json_object();
    int bad = 0;
    if (row->prompt.laps.steps > 0)
        bad |= json_object_set_new(out, "pp", phase_json(&row->prompt.laps, m));
    if (row->output.laps.steps > 0)
        bad |= json_object_set_new(out, "tg", phase_json(&row->output.laps, m));
    return whole(out, bad);
}

/* ---- tables ---- */

static void print_line(const struct laps *l, const struct model *m, const char *name,
                       const uint64_t *us)
{
    uint64_t sum = 0;
    printf("| %-6s |", name);
    for (uint32_t stage = 0; stage < LAP_COUNT; stage++) {
        if (!in_layers(m, stage))
            continue;
        printf(" %9.1f |", mean_us(l, us[stage]));
        sum += us[stage];
    }
    printf(" %9.1f | %5.1f %% |\n", mean_us(l, sum),
           100 * (double)sum / (double)(l->steps_us > 0 ? l->steps_us : 1));
}

static void print_phase(const struct laps *l, const struct model *m, const char *what)
{
    char name[16];
    uint64_t sums[LAP_COUNT] = { 0 };
    if (l->steps == 0)
        return;
    printf("\n%s: microseconds a step, mean of %llu steps\n\n| layer  |", what,
           (unsigned long long)l->steps);
    for (uint32_t stage = 0; stage < LAP_COUNT; stage++)
        if (in_layers(m, stage))
            printf(" %9s |", laps_name((enum lap)stage));
    printf("       all | of step |\n|--------|");
    for (uint32_t stage = 0; stage < LAP_COUNT; stage++)
        if (in_layers(m, stage))
            printf("-----------|");
    printf("-----------|---------|\n");
    for (uint32_t i = 0; i < m->layer_count; i++) {
        snprintf(name, sizeof name, "%u", i);
        print_line(l, m, name, l->us[i]);
        for (uint32_t stage = 0; stage < LAP_COUNT; stage++)
            sums[stage] += l->us[i][stage];
    }
    print_line(l, m, "layers", sums);
    const uint64_t *ends = l->us[m->layer_count];
    printf("\nembed %.1f, prepare %.1f, output %.1f, sample %.1f, rest %.1f, step %.1f\n",
           mean_us(l, ends[LAP_EMBED]), mean_us(l, ends[LAP_PREPARE]), mean_us(l, ends[LAP_OUTPUT]),
           mean_us(l, ends[LAP_SAMPLE]), mean_us(l, rest_us(l, m)), mean_us(l, l->steps_us));
}

void bench_layers_print(const struct bench_row *row, const struct model *m)
{
    print_phase(&row->prompt.laps, m, "prompts");
    print_phase(&row->output.laps, m, "outputs");
    putchar('\n');
}
