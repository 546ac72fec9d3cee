/* SPDX-License-Identifier: MIT */
/* cross_plot - one panel a workload, one line a rung, named at its right end: names that would
 * cover each other are pushed apart. Bars are the 95 % intervals of cross_stats over rounds. */
#include "frontend/bench/cross_plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 4 };
static const enum rung lines[LINES] = { RUNG_A, RUNG_E, RUNG_F, RUNG_G };
static const char *const colours[LINES] = { "#777777", "#d9822b", "#2f9e8f", "#1f4e9c" };

/* A picture: what is drawn over the number of users. */
struct picture {
    const char *file, *axis;
    enum measure measure;
    double unit; /* of the axis, in the measure's */
    bool log;
};

static const struct picture pictures[] = {
    { "throughput.svg", "tokens/s of all users", M_TOKENS_S, 1, false },
    { "completion.svg", "seconds to a whole answer (p95)", M_LATENCY_P95, 1000, true },
};

FILE *cross_open_output(const char *dir, const char *name, struct fault *fault)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        (void)!fault_set_errno(fault, RC_IO, "%.150s", path);
    return f;
}

static struct cross_interval interval_at(const struct cross_table *t, struct cross_place at,
                                         uint32_t rung, enum measure m)
{
    double values[CROSS_ROUNDS_MAX];
    uint32_t count = 0;
    for (uint32_t round = 0; round < CROSS_ROUNDS_MAX; round++) {
        const struct cross_row *r = cross_table_find(t, at, rung, false, round);
        if (r != NULL && r->value[m] > 0)
            values[count++] = r->value[m];
    }
    return cross_interval_of(values, count);
}

/* A panel's numbers, and what its axes span. */
struct panel {
    double last[LINES]; /* right end of each line; 0 = it has none */
    double low, high;
    uint32_t users; /* at the right end */
};

static void write_data(FILE *f, const struct cross_table *t, const struct picture *p, uint32_t w,
                       struct panel *panel)
{
    *panel = (struct panel){ .low = 1e300, .users = t->plan->users[0] };
    for (uint32_t i = 0; i < LINES; i++) {
        fprintf(f, "$%c%u << EOD\n", 'a' + (char)i, w);
        for (uint32_t u = 0; u < t->plan->user_count; u++) {
            struct cross_place at = { .workload = w, .load = t->plan->users[u] };
            struct cross_interval v = interval_at(t, at, lines[i], p->measure);
            if (v.mid <= 0)
                continue;
            fprintf(f, "%u %.6g %.6g %.6g\n", at.load, v.mid / p->unit, v.low / p->unit,
                    v.high / p->unit);
            panel->last[i] = v.mid / p->unit;
            panel->low = fmin(panel->low, v.low / p->unit);
            panel->high = fmax(panel->high, v.high / p->unit);
            panel->users = at.load > panel->users ? at.load : panel->users;
        }
        fprintf(f, "EOD\n");
    }
}

/* Where the names stand, as shares of the axis, none nearer to another than a line of text. */
static void place_names(const struct panel *panel, bool log, double at[LINES])
{
    const double gap = 0.075;
    uint32_t order[LINES], count = 0;
    double low = log ? log2(panel->low) : 0, high = log ? log2(panel->high) : panel->high;
    for (uint32_t i = 0; i < LINES; i++) {
        if (panel->last[i] <= 0)
            continue;
        at[i] = ((log ? log2(panel->last[i]) : panel->last[i]) - low) / (high - low);
        uint32_t k = count++;
        for (; k > 0 && at[order[k - 1]] > at[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (uint32_t pass = 0; pass < 20; pass++)
        for (uint32_t k = 1; k < count; k++) {
            double *below = &at[order[k - 1]], *above = &at[order[k]];
            double push = (gap - (*above - *below)) / 2;
            if (push <= 0)
                continue;
            *below -= push;
            *above += push;
        }
}

/* 1, 2, 5, 10, 20, .. as far as the axis goes. */
static void write_log_tics(FILE *f, const struct panel *panel)
{
    static const double steps[] = { 1, 2, 5 };
    const char *glue = "set ytics (";
    for (double decade = pow(10, floor(log10(panel->low))); decade <= panel->high; decade *= 10)
        for (uint32_t i = 0; i < 3; i++) {
            double at = steps[i] * decade;
            if (at < panel->low || at > panel->high)
                continue;
            fprintf(f, "%s\"%.6g\" %.6g", glue, at, at);
            glue = ", ";
        }
    fprintf(f, "%s\n", glue[0] == ',' ? ")" : "set ytics auto");
}

static void write_panel(FILE *f, const struct cross_table *t, const struct picture *p, uint32_t w,
                        struct panel *panel)
{
    double at[LINES] = { 0 };
    if (!(panel->high > 0))
        panel->low = panel->high = 1;
    panel->low = p->log ? panel->low / 1.3 : 0;
    panel->high *= p->log ? 1.3 : 1.1;
    place_names(panel, p->log, at);
    fprintf(f, "unset label\nset label \"%s\" at graph 0, graph 1.07 left font ',13'\n",
            t->plan->workloads[w].title);
    fprintf(f, "%s logscale y\nset yrange [%.6g:%.6g]\nset xrange [%.6g:%.6g]\n",
            p->log ? "set" : "unset", panel->low, panel->high, t->plan->users[0] / 1.15,
            panel->users * 1.15);
    for (uint32_t i = 0; i < LINES; i++)
        if (panel->last[i] > 0)
            fprintf(f, "set label '%s  %s' at graph 1.02, graph %.4f left tc rgb '%s' font ',12'\n",
                    rung_texts[lines[i]].letter, rung_texts[lines[i]].title, at[i], colours[i]);
    if (p->log)
        write_log_tics(f, panel);
    const char *glue = "plot ";
    for (uint32_t i = 0; i < LINES; i++) {
        const double aside = 0.97 + 0.02 * i; /* bars do not cover each other */
        if (panel->last[i] <= 0)
            continue;
        fprintf(f,
                "%s$%c%u using ($1*%.3f):2 with lines lw 2 lc rgb '%s', "
                "$%c%u using ($1*%.3f):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '%s'",
                glue, 'a' + (char)i, w, aside, colours[i], 'a' + (char)i, w, aside, colours[i]);
        glue = ", \\\n     ";
    }
    fprintf(f, "%s\n", glue[0] == 'p' ? "plot NaN" : "");
}

static void write_picture(FILE *f, const struct cross_table *t, const struct picture *p)
{
    uint32_t panels = t->plan->workload_count, columns = panels < 2 ? 1 : 2;
    uint32_t rows = (panels + columns - 1) / columns;
    struct panel panel[WORKLOADS];
    fprintf(f, "reset\n");
    for (uint32_t w = 0; w < panels; w++)
        write_data(f, t, p, w, &panel[w]);
    fprintf(
        f,
        "set terminal svg size %u,%u enhanced font 'Helvetica,12' background rgb 'white'\n"
        "set output '%s'\nset multiplot layout %u,%u\nunset key\nset border 3 lc rgb '#555555'\n"
        "set tics nomirror out\nset grid y lc rgb '#e6e6e6' lt 1\nset logscale x 2\n"
        "set rmargin 18\nset lmargin 11\nset tmargin 2.5\nset xlabel 'users at once' offset 0,0.4\n"
        "set ylabel '%s' offset 0.5,0\nset xtics (",
        columns * 520, rows * 330, p->file, rows, columns, p->axis);
    for (uint32_t u = 0; u < t->plan->user_count; u++)
        fprintf(f, "%s%u", u > 0 ? ", " : "", t->plan->users[u]);
    fprintf(f, ")\n");
    for (uint32_t w = 0; w < panels; w++)
        write_panel(f, t, p, w, &panel[w]);
    fprintf(f, "unset multiplot\nset output\n");
}

/* What one user pays, as intervals on one axis. */
static void write_tax(FILE *f, const struct cross_table *t)
{
    static const char *const names[] = { "B to A: blocks", "C to B: disorder",
                                         "D to B: scheduler" };
    double same[CROSS_ROUNDS_MAX * CROSS_POINTS_MAX], widest = 3;
    struct cross_interval v[4];
    v[3] = cross_interval_of(same, cross_table_same(t, same));
    for (uint32_t i = 0; i < 3; i++)
        v[i] = cross_interval_of(t->tax[i], t->tax_count);
    fprintf(f, "reset\n$tax << EOD\n");
    for (uint32_t i = 0; i < 4; i++) {
        if (v[i].mid <= 0)
            continue;
        /* A round of A again says tokens/s; the others time. */
        double mid = i == 3 ? 1 / v[i].mid : v[i].mid, low = i == 3 ? 1 / v[i].high : v[i].low;
        double high = i == 3 ? 1 / v[i].low : v[i].high;
        fprintf(f, "%.4f %u %.4f %.4f \"%s\"\n", 100 * (mid - 1), i, 100 * (low - 1),
                100 * (high - 1), i == 3 ? "A to A again: noise" : names[i]);
        widest = fmax(widest, fmax(fabs(low - 1), fabs(high - 1)) * 110);
    }
    fprintf(
        f,
        "EOD\nset terminal svg size 760,230 enhanced font 'Helvetica,12' background rgb "
        "'white'\nset output 'tax.svg'\nunset key\nset border 1 lc rgb '#555555'\n"
        "set tics nomirror out\nset ytics scale 0\nset yrange [3.6:-0.6]\nset xrange [%.3f:%.3f]\n"
        "set lmargin 20\nset grid x lc rgb '#eeeeee' lt 1\n"
        "set xlabel 'more time for a token than the other, %% (one user; 95 %% interval)'\n"
        "set arrow from 0,graph 0 to 0,graph 1 nohead lc rgb '#555555'\n"
        "set arrow from 2,graph 0 to 2,graph 1 nohead dt 2 lc rgb '#c0392b'\n"
        "set label 'wanted: at most 2 %%' at 2,graph 1.06 center tc rgb '#c0392b' font ',11'\n"
        "plot $tax using 1:2:3:4:ytic(5) with xerrorbars pt 7 ps 0.7 lw 1.6 lc rgb '#1f4e9c'\n"
        "set output\n",
        -widest, widest);
}

/* In DIR, so that names in the script are plain. False when there is no gnuplot, or it fails. */
static bool run_gnuplot(const char *dir)
{
    char name[] = "gnuplot", script[] = "plot.gp";
    char *words[] = { name, script, NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    bool good = posix_spawn_file_actions_addchdir_np(&actions, dir) == 0 &&
                posix_spawnp(&pid, name, &actions, NULL, words, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    while (good && waitpid(pid, &status, 0) < 0)
        good = errno == EINTR;
    return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

enum rc cross_plot_write(const struct cross_table *t, const char *dir, bool *drawn,
                         struct fault *fault)
{
    FILE *f = cross_open_output(dir, "plot.gp", fault);
    if (f == NULL)
        return RC_IO;
    fprintf(f, "# gnuplot plot.gp draws the pictures of report.md\nset encoding utf8\n");
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        write_picture(f, t, &pictures[i]);
    if (t->tax_count > 0)
        write_tax(f, t);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed)
        return fault_set(fault, RC_IO, "%.150s/plot.gp cannot be written", dir);
    *drawn = run_gnuplot(dir);
    return RC_OK;
}
