/* SPDX-License-Identifier: MIT */
/* cross_report - the answer first, then what was measured, the noise, the figures, and how to have
 * them again. Medians are over rounds; an interval is written "mid (low to high)". */
#include "frontend/bench/cross_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/bench/cross_plot.h"

static const enum rung compared[] = { RUNG_A, RUNG_E, RUNG_F, RUNG_G };
enum { COMPARED = sizeof compared / sizeof *compared };

struct report {
    FILE *out;
    const struct cross_table *t;
    const struct cross_plan *plan;
    const struct cross_file *file;
    bool drawn;
};

static void print_interval(FILE *out, const double *values, uint32_t count)
{
    struct cross_interval v = cross_interval_of(values, count);
    if (count == 0)
        fprintf(out, "-");
    else
        fprintf(out, "%.2f (%.2f to %.2f)", v.mid, v.low, v.high);
}

/* Of a ratio, as more or less in percent. */
static void print_percent(FILE *out, const double *values, uint32_t count)
{
    struct cross_interval v = cross_interval_of(values, count);
    if (count == 0)
        fprintf(out, "-");
    else
        fprintf(out, "%+.2f %% (%+.2f to %+.2f)", 100 * (v.mid - 1), 100 * (v.low - 1),
                100 * (v.high - 1));
}

static void print_users(FILE *out, const struct cross_plan *plan, uint32_t users)
{
    if (users == CROSS_NEVER)
        fprintf(out, "more than %u", plan->users[plan->user_count - 1]);
    else
        fprintf(out, "%u", users);
}

static void print_star(const struct report *r, struct cross_star s)
{
    fprintf(r->out, "**");
    print_users(r->out, r->plan, s.users);
    fprintf(r->out, "** (");
    print_users(r->out, r->plan, s.low);
    fprintf(r->out, " to ");
    print_users(r->out, r->plan, s.high);
    fprintf(r->out, ")");
}

static struct cross_place place(uint32_t workload, bool open, uint32_t load)
{
    return (struct cross_place){ .workload = workload, .open = open, .load = load };
}

/* The most users that have been measured. */
static uint32_t most_users(const struct report *r, uint32_t w)
{
    uint32_t users = r->plan->users[0];
    for (uint32_t u = 0; u < r->plan->user_count; u++)
        if (cross_table_median(r->t, place(w, false, r->plan->users[u]), RUNG_G, M_TOKENS_S) > 0)
            users = r->plan->users[u];
    return users;
}

static void print_picture(const struct report *r, const char *name, const char *title)
{
    if (r->drawn)
        fprintf(r->out, "\n![%s](%s)\n", title, name);
}

/* ---- the answer ---- */

static void print_answer(const struct report *r, uint32_t done, uint32_t all)
{
    FILE *out = r->out;
    fprintf(out,
            "# Where batching over a paged cache begins to pay\n\n"
            "A program that serves one person after another reads every weight of a model once for "
            "each token. A server that puts all users' next tokens into one step reads it once for "
            "all of them, and pays for it with blocks, tables and a scheduler. **C\\*** is the "
            "least number of users at once for whom the server wins both: more tokens a second "
            "together, and no longer a wait for whole answers (95th percentile).\n\n");
    if (done < all)
        fprintf(out, "**%u of %u runs are done; what follows is of these.**\n\n", done, all);
    fprintf(out,
            "| workload | C\\* of batching (E) | with the prefix cache (F) | with shared reads "
            "(G) | at the most users, G to A: tokens/s | wait for an answer |\n"
            "|---|---|---|---|---|---|\n");
    for (uint32_t w = 0; w < r->plan->workload_count; w++) {
        double values[CROSS_ROUNDS_MAX];
        struct cross_place at = place(w, false, most_users(r, w));
        fprintf(out, "| %s | ", r->plan->workloads[w].title);
        for (uint32_t rung = RUNG_E; rung <= RUNG_G; rung++) {
            print_star(r, cross_table_star(r->t, w, rung));
            fprintf(out, " | ");
        }
        fprintf(out, "%u users: ", at.load);
        print_interval(out, values,
                       cross_table_ratios(r->t, at, RUNG_G, RUNG_A, M_TOKENS_S, values));
        fprintf(out, " | ");
        print_interval(out, values,
                       cross_table_ratios(r->t, at, RUNG_G, RUNG_A, M_LATENCY_P95, values));
        fprintf(out, " |\n");
    }
    fprintf(out, "\nIn brackets: 95 %% intervals, by drawing rounds again and again. A number of "
                 "users counts as won where the interval of tokens/s is above that of A and the "
                 "wait is not longer; the interval of C\\* asks for the means alone.\n");
}

static void print_tax(const struct report *r)
{
    FILE *out = r->out;
    const struct cross_table *t = r->t;
    double same[CROSS_ROUNDS_MAX * CROSS_POINTS_MAX];
    static const char *const names[] = {
        "paging: blocks in order, B to A",
        "disorder: a shuffled table, C to B",
        "scheduler: with one place, D to B",
    };
    fprintf(out, "\n## What one user pays\n\nOne conversation, computed by A, B, C and D in turn, "
                 "token by token; time of the one over time of the other (median tokens of sixteen "
                 "parts of each answer).\n\n"
                 "| | a token | a prompt |\n|---|---|---|\n");
    for (uint32_t i = 0; i < 3; i++) {
        fprintf(out, "| %s | ", names[i]);
        print_percent(out, t->tax[i], t->tax_count);
        fprintf(out, " | ");
        print_percent(out, t->prompt_tax[i], t->tax_rounds);
        fprintf(out, " |\n");
    }
    fprintf(out, "\nNoise: a whole run of A, made again in the same round, gave ");
    print_percent(out, same, cross_table_same(t, same));
    fprintf(out, " tokens/s. At one user alone, batching gains nothing: what is left is what "
                 "the caches keep.\n");
    print_picture(r, "tax.svg", "what one user pays");
}

/* ---- the figures ---- */

static void print_speed(const struct report *r, uint32_t w)
{
    FILE *out = r->out;
    fprintf(out,
            "\n### %s\n\n| users | A tokens/s | E | F | G | G to A | answer, s (p95): A | E | "
            "F | G | G wins |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
            r->plan->workloads[w].title);
    for (uint32_t u = 0; u < r->plan->user_count; u++) {
        struct cross_place at = place(w, false, r->plan->users[u]);
        struct cross_point p = { .users = at.load };
        p.rounds = cross_table_ratios(r->t, at, RUNG_G, RUNG_A, M_TOKENS_S, p.speed);
        (void)cross_table_ratios(r->t, at, RUNG_G, RUNG_A, M_LATENCY_P95, p.wait);
        if (p.rounds == 0)
            continue;
        fprintf(out, "| %u ", at.load);
        for (uint32_t i = 0; i < COMPARED; i++)
            fprintf(out, "| %.1f ", cross_table_median(r->t, at, compared[i], M_TOKENS_S));
        fprintf(out, "| ");
        print_interval(out, p.speed, p.rounds);
        for (uint32_t i = 0; i < COMPARED; i++)
            fprintf(out, " | %.2f", cross_table_median(r->t, at, compared[i], M_LATENCY_P95) / 1e3);
        fprintf(out, " | %s |\n", cross_wins(&p) ? "yes" : "no");
    }
}

static void print_gaps(const struct report *r, uint32_t w)
{
    static const enum rung shown[] = { RUNG_A, RUNG_G };
    FILE *out = r->out;
    fprintf(out, "\n| users | first token, ms: A p50 | p95 | p99 | G p50 | p95 | p99 | between "
                 "tokens, ms: A p50 | p95 | p99 | G p50 | p95 | p99 | longest |\n"
                 "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t u = 0; u < r->plan->user_count; u++) {
        struct cross_place at = place(w, false, r->plan->users[u]);
        if (cross_table_median(r->t, at, RUNG_G, M_TOKENS_S) <= 0)
            continue;
        fprintf(out, "| %u ", at.load);
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t m = M_TTFT_P50; m <= M_TTFT_P99; m++)
                fprintf(out, "| %.0f ", cross_table_median(r->t, at, shown[i], m));
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t m = M_ITL_P50; m <= M_ITL_P99; m++)
                fprintf(out, "| %.1f ", cross_table_median(r->t, at, shown[i], m));
        fprintf(out, "| %.0f |\n", cross_table_median(r->t, at, RUNG_G, M_ITL_MAX));
    }
}

static void print_ladder(const struct report *r)
{
    FILE *out = r->out;
    fprintf(out, "\n## The ladder at one user\n\nTokens/s of whole runs (medians). D and E keep "
                 "nothing between the turns of a chat, A to C their last conversation, F and G "
                 "what fits the pool.\n\n| workload |");
    for (uint32_t rung = 0; rung < RUNGS; rung++)
        fprintf(out, " %s |", rung_texts[rung].letter);
    fprintf(out, "\n|---|---|---|---|---|---|---|---|\n");
    for (uint32_t w = 0; w < r->plan->workload_count; w++) {
        fprintf(out, "| %s |", r->plan->workloads[w].title);
        for (uint32_t rung = 0; rung < RUNGS; rung++)
            fprintf(out, " %.1f |", cross_table_median(r->t, place(w, false, 1), rung, M_TOKENS_S));
        fprintf(out, "\n");
    }
}

static void print_open(const struct report *r)
{
    FILE *out = r->out;
    bool any = false;
    for (uint32_t w = 0; w < r->plan->workload_count; w++)
        for (uint32_t i = 0; i < OPEN_LOADS; i++) {
            struct cross_place at = place(w, true, open_loads[i]);
            if (cross_table_median(r->t, at, RUNG_A, M_TOKENS_S) <= 0)
                continue;
            if (!any)
                fprintf(out,
                        "\n## When people come as they like\n\nSessions arrive at random (Poisson) "
                        "at a share of what G serves with the most users. Seconds, 95th "
                        "percentile.\n\n| workload | load | first token: A | E | F | G | whole "
                        "answer: A | E | F | G |\n|---|---|---|---|---|---|---|---|---|---|\n");
            any = true;
            fprintf(out, "| %s | %u %% ", r->plan->workloads[w].title, at.load);
            for (uint32_t k = 0; k < COMPARED; k++)
                fprintf(out, "| %.2f ",
                        cross_table_median(r->t, at, compared[k], M_TTFT_P95) / 1e3);
            for (uint32_t k = 0; k < COMPARED; k++)
                fprintf(out, "| %.2f ",
                        cross_table_median(r->t, at, compared[k], M_LATENCY_P95) / 1e3);
            fprintf(out, "|\n");
        }
}

/* Share of keys and values in what a run read. */
static double kv_share(const struct report *r, struct cross_place at, uint32_t rung)
{
    double kv = cross_table_median(r->t, at, rung, M_KV_READ);
    double all = kv + cross_table_median(r->t, at, rung, M_WEIGHTS_READ);
    return all > 0 ? kv / all : 0;
}

static void print_memory(const struct report *r)
{
    FILE *out = r->out;
    fprintf(out, "\n## Memory\n\nKeys and values that conversations held at once, at the most "
                 "users; the share of keys and values in all bytes that steps read, the rest being "
                 "weights; and from how many users on it is above 30 %%.\n\n| workload | users | "
                 "held, MiB: A | E | F | G | read, F | read, G | above 30 %% in G |\n"
                 "|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t w = 0; w < r->plan->workload_count; w++) {
        struct cross_place at = place(w, false, most_users(r, w));
        uint32_t above = CROSS_NEVER;
        fprintf(out, "| %s | %u ", r->plan->workloads[w].title, at.load);
        for (uint32_t i = 0; i < COMPARED; i++)
            fprintf(out, "| %.1f ",
                    cross_table_median(r->t, at, compared[i], M_KV_PEAK) / 1048576.0);
        fprintf(out, "| %.0f %% | %.0f %% | ", 100 * kv_share(r, at, RUNG_F),
                100 * kv_share(r, at, RUNG_G));
        for (uint32_t u = r->plan->user_count; u-- > 0;)
            if (kv_share(r, place(w, false, r->plan->users[u]), RUNG_G) > 0.3)
                above = r->plan->users[u];
        print_users(out, r->plan, above);
        fprintf(out, " |\n");
    }
}

/* ---- what was measured ---- */

static void print_method(const struct report *r)
{
    FILE *out = r->out;
    const struct cross_plan *p = r->plan;
    fprintf(out, "\n## What was measured\n\nThe same kernels, model, threads and greedy sampler "
                 "everywhere; each rung adds one thing:\n\n");
    for (uint32_t i = 0; i < RUNGS; i++)
        fprintf(out, "- **%s**, %s: %s\n", rung_texts[i].letter, rung_texts[i].title,
                rung_texts[i].adds);
    fprintf(out, "\n| workload | common tokens | turns | new text | answer | of all prompt tokens, "
                 "seen before |\n|---|---|---|---|---|---|\n");
    for (uint32_t w = 0; w < p->workload_count; w++) {
        const struct workload *x = &p->workloads[w];
        fprintf(out, "| %s | %u | %u | %u", x->title, x->head, x->turns, x->text);
        if (x->long_text > 0)
            fprintf(out, "; every fifth %u", x->long_text);
        fprintf(out, " | %u", x->answer);
        if (x->long_text > 0)
            fprintf(out, "; %u", x->long_answer);
        fprintf(out, " | %.0f %% |\n", 100 * workload_shared(x));
    }
    fprintf(
        out,
        "\nClosed loop: a user sends the next request as soon as the last answer is whole. "
        "Every rung gets the same requests and must give the same texts, or the command fails: "
        "all runs of this report did. Rounds: %u, rungs in turn within each; every run is of "
        "fixed work, and its percentiles are over its requests (nearest rank). Texts are random "
        "tokens, answers of fixed length; a token is there when its step has returned. All "
        "memory was touched before the first clock.\n",
        p->shape.rounds);
}

/* The rows "limits": what the machine gave meanwhile. */
static void print_limits(const struct report *r, const char *name, const char *title, double unit)
{
    double low = 1e300, high = 0, last = 0;
    for (size_t i = 0; i < json_array_size(r->file->rows); i++) {
        const json_t *row = json_array_get(r->file->rows, i);
        const char *kind = json_string_value(json_object_get(row, "row"));
        if (kind == NULL || strcmp(kind, "limits") != 0)
            continue;
        last = json_number_value(json_object_get(row, name)) / unit;
        low = fmin(low, last);
        high = fmax(high, last);
    }
    if (high > 0)
        fprintf(r->out, "- machine limit, %s: %.1f to %.1f, before and after each part%s\n", title,
                low, high, high > low * 1.1 ? " (**moved: somebody else was there**)" : "");
}

/* Parts may have been measured by other builds than the first one. */
static void print_commits(const struct report *r, const char *last)
{
    for (size_t i = 0; i < json_array_size(r->file->rows) && last != NULL; i++) {
        const json_t *commit = json_object_get(json_array_get(r->file->rows, i), "commit");
        const char *text = json_string_value(commit);
        if (text == NULL || strcmp(text, last) == 0)
            continue;
        fprintf(r->out, "- commit, from row %zu on: %s\n", i + 1, text);
        last = text;
    }
}

static void print_value(FILE *out, const char *name, const json_t *value)
{
    const char *text = json_string_value(value);
    if (text != NULL)
        fprintf(out, "- %s: %s\n", name, text);
    else if (json_is_number(value))
        fprintf(out, "- %s: %.10g\n", name, json_number_value(value));
    else if (json_is_boolean(value))
        fprintf(out, "- %s: %s\n", name, json_is_true(value) ? "yes" : "no");
}

static void print_provenance(const struct report *r)
{
    const json_t *plan = cross_file_find(r->file, "plan", "plan"), *value;
    const char *name;
    fprintf(r->out, "\n## Where these figures come from\n\n");
    json_object_foreach((json_t *)(uintptr_t)json_object_get(plan, "provenance"), name, value)
        print_value(r->out, name, value);
    print_commits(
        r, json_string_value(json_object_get(json_object_get(plan, "provenance"), "commit")));
    print_limits(r, "read_bytes_s", "bytes read, GB/s", 1e9);
    print_limits(r, "int8_macs_s", "int8 products, G/s", 1e9);
    fprintf(
        r->out,
        "- rows: `results.jsonl`, plan %s; the same command goes on where it stopped, and writes "
        "this page again\n- pictures: `gnuplot plot.gp`\n",
        r->file->plan);
}

static void print_report(const struct report *r, uint32_t done, uint32_t all)
{
    print_answer(r, done, all);
    print_picture(r, "throughput.svg", "tokens a second over users");
    print_picture(r, "completion.svg", "time to the whole answer over users");
    print_tax(r);
    fprintf(r->out, "\n## By number of users\n");
    for (uint32_t w = 0; w < r->plan->workload_count; w++) {
        print_speed(r, w);
        print_gaps(r, w);
    }
    print_ladder(r);
    print_open(r);
    print_memory(r);
    print_method(r);
    print_provenance(r);
}

enum rc cross_report_write(const struct cross_table *t, const struct cross_file *file,
                           const char *dir, uint32_t done, uint32_t all, bool *drawn,
                           struct fault *fault)
{
    struct report r = { .t = t, .plan = t->plan, .file = file };
    enum rc rc = cross_plot_write(t, dir, &r.drawn, fault);
    if (rc != RC_OK)
        return rc;
    *drawn = r.drawn;
    r.out = cross_open_output(dir, "report.md", fault);
    if (r.out == NULL)
        return RC_IO;
    print_report(&r, done, all);
    bool failed = ferror(r.out) != 0;
    if (fclose(r.out) != 0 || failed)
        return fault_set(fault, RC_IO, "%.150s/report.md cannot be written", dir);
    return RC_OK;
}
