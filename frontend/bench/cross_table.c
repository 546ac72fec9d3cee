/* SPDX-License-Identifier: MIT */
/* cross_table - see cross_table.h. */
#include "frontend/bench/cross_table.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* Where each measure stands in a row: "name" or "name.part". */
static const char *const measure_names[MEASURES] = {
    [M_TOKENS_S] = "tokens_per_s",
    [M_TTFT_P50] = "ttft_ms.p50",
    [M_TTFT_P95] = "ttft_ms.p95",
    [M_TTFT_P99] = "ttft_ms.p99",
    [M_ITL_P50] = "itl_ms.p50",
    [M_ITL_P95] = "itl_ms.p95",
    [M_ITL_P99] = "itl_ms.p99",
    [M_ITL_MAX] = "itl_ms.max",
    [M_LATENCY_P50] = "latency_ms.p50",
    [M_LATENCY_P95] = "latency_ms.p95",
    [M_KV_PEAK] = "kv_peak_bytes",
    [M_KV_READ] = "kv_read_bytes",
    [M_WEIGHTS_READ] = "weight_read_bytes",
    [M_OUTPUT] = "output_tokens",
    [M_CACHED] = "cached_tokens",
    [M_PROMPT] = "prompt_tokens",
    [M_STEPS] = "steps",
};

static double number(const json_t *row, const char *name)
{
    const char *dot = strchr(name, '.');
    char head[32] = "";
    if (dot == NULL)
        return json_number_value(json_object_get(row, name));
    memcpy(head, name, (size_t)(dot - name));
    return json_number_value(json_object_get(json_object_get(row, head), dot + 1));
}

static uint32_t whole(const json_t *row, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(row, name));
}

static bool take_run(struct cross_table *t, const json_t *row)
{
    struct cross_row *r = &t->rows[t->count++];
    const char *workload = json_string_value(json_object_get(row, "workload"));
    const char *rung = json_string_value(json_object_get(row, "rung"));
    r->run.load = whole(row, "load");
    r->run.round = whole(row, "round");
    r->run.open = json_is_true(json_object_get(row, "open"));
    r->run.again = json_is_true(json_object_get(row, "again"));
    r->run.rung = rung != NULL ? (uint32_t)(rung[0] - 'A') : RUNGS;
    while (workload != NULL && r->run.workload < t->plan->workload_count &&
           strcmp(workload, t->plan->workloads[r->run.workload].name) != 0)
        r->run.workload++;
    for (uint32_t m = 0; m < MEASURES; m++)
        r->value[m] = number(row, measure_names[m]);
    return workload != NULL && r->run.workload < t->plan->workload_count && r->run.rung < RUNGS &&
           r->run.round < CROSS_ROUNDS_MAX && r->value[M_TOKENS_S] > 0 &&
           r->value[M_LATENCY_P95] > 0;
}

/* B to A, C to B, D to B: of times that the four rungs took. False when there are none. */
static bool tax_ratios(const json_t *ms, double out[3])
{
    static const uint32_t base[] = { 0, 1, 1 };
    for (uint32_t i = 0; i < 3; i++) {
        double of = json_number_value(json_array_get(ms, i + 1));
        double to = json_number_value(json_array_get(ms, base[i]));
        if (!(of > 0 && to > 0))
            return false;
        out[i] = of / to;
    }
    return true;
}

static bool take_tax(struct cross_table *t, const json_t *row)
{
    const json_t *parts = json_object_get(row, "token_ms");
    double ratios[3];
    if (t->tax_rounds == CROSS_ROUNDS_MAX ||
        t->tax_count + json_array_size(parts) > CROSS_ROUNDS_MAX * CROSS_POINTS_MAX)
        return true;
    if (!tax_ratios(json_object_get(row, "prompt_ms"), ratios))
        return false;
    for (uint32_t i = 0; i < 3; i++)
        t->prompt_tax[i][t->tax_rounds] = ratios[i];
    t->tax_rounds++;
    for (size_t p = 0; p < json_array_size(parts); p++) {
        if (!tax_ratios(json_array_get(parts, p), ratios))
            return false;
        for (uint32_t i = 0; i < 3; i++)
            t->tax[i][t->tax_count] = ratios[i];
        t->tax_count++;
    }
    return true;
}

enum rc cross_table_open(struct cross_table *t, const struct cross_plan *plan,
                         const struct cross_file *file, struct fault *fault)
{
    size_t count = json_array_size(file->rows);
    memset(t, 0, sizeof *t);
    t->plan = plan;
    t->rows = mem_alloc_array(count, sizeof *t->rows);
    if (t->rows == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(file->rows, i);
        const char *kind = json_string_value(json_object_get(row, "row"));
        bool good = kind != NULL;
        if (good && strcmp(kind, "run") == 0)
            good = take_run(t, row);
        else if (good && strcmp(kind, "tax") == 0)
            good = take_tax(t, row);
        if (!good) {
            cross_table_close(t);
            return fault_set(fault, RC_CORRUPT, "row %zu of this plan lacks what it must have",
                             i + 1);
        }
    }
    return RC_OK;
}

void cross_table_close(struct cross_table *t)
{
    mem_free(t->rows);
    t->rows = NULL;
}

const struct cross_row *cross_table_find(const struct cross_table *t, struct cross_place at,
                                         uint32_t rung, bool again, uint32_t round)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const struct cross_run *r = &t->rows[i].run;
        if (r->workload == at.workload && r->load == at.load && r->open == at.open &&
            r->rung == rung && r->again == again && r->round == round)
            return &t->rows[i];
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cross_table_median(const struct cross_table *t, struct cross_place at, uint32_t rung,
                          enum measure m)
{
    double values[CROSS_ROUNDS_MAX];
    uint32_t count = 0;
    for (uint32_t round = 0; round < CROSS_ROUNDS_MAX; round++) {
        const struct cross_row *r = cross_table_find(t, at, rung, false, round);
        if (r != NULL)
            values[count++] = r->value[m];
    }
    qsort(values, count, sizeof *values, by_value);
    return count == 0 ? 0 : (values[(count - 1) / 2] + values[count / 2]) / 2;
}

uint32_t cross_table_ratios(const struct cross_table *t, struct cross_place at, uint32_t rung,
                            uint32_t base, enum measure m, double out[CROSS_ROUNDS_MAX])
{
    uint32_t count = 0;
    for (uint32_t round = 0; round < CROSS_ROUNDS_MAX; round++) {
        const struct cross_row *of = cross_table_find(t, at, rung, false, round);
        const struct cross_row *to = cross_table_find(t, at, base, false, round);
        if (of != NULL && to != NULL && to->value[m] > 0 && of->value[m] > 0)
            out[count++] = of->value[m] / to->value[m];
    }
    return count;
}

uint32_t cross_table_same(const struct cross_table *t,
                          double out[CROSS_ROUNDS_MAX * CROSS_POINTS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count && count < CROSS_ROUNDS_MAX * CROSS_POINTS_MAX; i++) {
        const struct cross_run *r = &t->rows[i].run;
        const struct cross_row *first =
            r->again ? cross_table_find(t, (struct cross_place){ r->workload, r->load, r->open },
                                        RUNG_A, false, r->round)
                     : NULL;
        if (first != NULL)
            out[count++] = t->rows[i].value[M_TOKENS_S] / first->value[M_TOKENS_S];
    }
    return count;
}

struct cross_star cross_table_star(const struct cross_table *t, uint32_t workload, uint32_t rung)
{
    struct cross_point points[CROSS_POINTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->plan->user_count; i++) {
        struct cross_place at = { .workload = workload, .load = t->plan->users[i] };
        struct cross_point *p = &points[count];
        p->users = at.load;
        p->rounds = cross_table_ratios(t, at, rung, RUNG_A, M_TOKENS_S, p->speed);
        (void)cross_table_ratios(t, at, rung, RUNG_A, M_LATENCY_P95, p->wait);
        count += p->rounds > 0;
    }
    return cross_star_of(points, count);
}
