/* SPDX-License-Identifier: MIT */
/* bench_crossover - `quire bench crossover`: from how many users on a server that batches over a
 * paged cache beats a loop that serves one after another; docs/CROSSOVER.md has the method.
 *   plan   speeds are measured once, sizes and rounds fitted to the time there is, and written down
 *          as the first row: from then on they are fixed
 *   rows   every finished run is a row of DIR/results.jsonl; the command, given again, goes on
 *          behind the last one. A signal or --seconds ends it between two runs, or drops the one
 *          that is being made
 *   texts  a rung whose texts differ from those of another ends the command with an error
 *   report is written at the end of every call, of what is there */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "frontend/bench/bench.h"
#include "frontend/bench/bench_limits.h"
#include "frontend/bench/cross_report.h"
#include "frontend/bench/cross_tax.h"
#include "frontend/bench/provenance.h"
#include "frontend/budget.h"
#include "frontend/engine_store.h"
#include "frontend/interrupt.h"
#include "frontend/version.h"

#define METHOD 1u /* rows of another method are not these rows */

struct cross_options {
    const char *dir;
    bool quick, report;
    struct option_u32s users;
    uint32_t rounds, minutes, seconds, percent;
    int64_t seed;
};

#define AT(member) offsetof(struct cross_options, member)
static const struct option rows[] = {
    { "-o --output", OPTION_TEXT, AT(dir), 0, 0, "DIR", NULL,
      "where rows, report and pictures go; rows that are there are not measured again" },
    { "--quick", OPTION_FLAG, AT(quick), 0, 0, NULL, NULL,
      "1, 2, 4, 8, 16 users and two workloads, in half an hour at most" },
    { "--users", OPTION_U32S, AT(users), 1, 64, "N,..", NULL,
      "other numbers of users, ascending, the first of them 1" },
    { "--rounds", OPTION_U32, AT(rounds), 0, CROSS_PLAN_ROUNDS_MAX, "N", NULL,
      "rounds; 0 = 5 (--quick: 3), or fewer where time is short" },
    { "--minutes", OPTION_U32, AT(minutes), 0, 10000, "N", NULL,
      "that all of it may take, by which texts are cut; 0 = 120 (--quick: 30)" },
    { "--size", OPTION_U32, AT(percent), 0, 100, "PERCENT", NULL,
      "length of all texts; 0 = as much of their full length as there is time for" },
    { "--seconds", OPTION_U32, AT(seconds), 0, 1000000, "N", NULL,
      "that this call may take; the next one goes on. 0 = to the end" },
    { "--report", OPTION_FLAG, AT(report), 0, 0, NULL, NULL,
      "measures nothing, writes the report of what is there" },
    { "-s --seed", OPTION_I64, AT(seed), 0, 0, "N", NULL, "of texts and arrivals" },
};

struct crossover {
    const struct cross_options *o;
    struct engine *engine;
    struct cross_rig rig;
    struct cross_plan plan;
    struct cross_speeds speeds;
    struct cross_file file;
    uint64_t begun_us;
    uint32_t done, all, made; /* runs: there, planned, made by this call */
};

static double elapsed_s(const struct crossover *c)
{
    return (double)(clock_now_us(&c->engine->clock) - c->begun_us) / 1e6;
}

static bool says(const struct crossover *c)
{
    return !c->engine->options.quiet;
}

/* ---- the plan ---- */

static struct cross_shape shape_of(const struct cross_options *o)
{
    struct cross_shape s = { .quick = o->quick,
                             .rounds = o->rounds > 0 ? o->rounds
                                       : o->quick    ? 3
                                                     : 5,
                             .scale = o->percent > 0 ? o->percent / 100.0 : 1,
                             .user_count = o->users.count };
    for (uint32_t i = 0; i < o->users.count && i < CROSS_USERS_MAX; i++)
        s.users[i] = o->users.items[i];
    return s;
}

static uint32_t tax_prompt(const struct cross_plan *p)
{
    return 16 + (uint32_t)(496 * p->shape.scale);
}

static uint32_t tax_output(const struct cross_plan *p)
{
    return TAX_PARTS * (1 + (uint32_t)(7 * p->shape.scale));
}

static enum rc check_options(const struct cross_options *o, const struct engine_options *e,
                             struct fault *fault)
{
    if (e->ctx_tokens != 0 || e->kv_tokens != 0)
        return fault_set(fault, RC_USAGE, "-c and --kv-tokens follow from what is measured");
    if (o->users.count > CROSS_USERS_MAX)
        return fault_set(fault, RC_USAGE, "--users: at most %u numbers", CROSS_USERS_MAX);
    for (uint32_t i = 0; i < o->users.count; i++)
        if (i == 0 ? o->users.items[0] != 1 : o->users.items[i] <= o->users.items[i - 1])
            return fault_set(fault, RC_USAGE, "--users: ascending numbers, the first of them 1");
    return RC_OK;
}

/* What the engine must have room for, at scale 1. */
static void size_engine(struct engine_options *e, const struct cross_options *o)
{
    struct cross_plan p;
    struct cross_shape shape = shape_of(o);
    cross_plan_open(&p, &shape);
    uint32_t longest = tax_prompt(&p) + tax_output(&p), most = 0;
    for (uint32_t w = 0; w < p.workload_count; w++)
        most = workload_tokens(&p.workloads[w]) > most ? workload_tokens(&p.workloads[w]) : most;
    e->rows_max = p.users[p.user_count - 1];
    e->ctx_tokens = 1 + (longest > most ? longest : most);
    e->kv_tokens = cross_rig_tokens(e->rows_max, e->ctx_tokens);
}

/* What the rows belong to. */
static void name_plan(struct crossover *c, char *out, size_t cap)
{
    const struct engine_options *o = &c->engine->options;
    struct hash digest = engine_digest(c->engine);
    const struct option_u32s *users = &c->o->users;
    uint64_t parts[] = { METHOD,          digest.a,  digest.b,     o->threads,
                         o->isa,          o->act,    o->kv_type_k, o->kv_type_v,
                         o->chunk_tokens, o->itl_ms, c->o->quick,  (uint64_t)c->o->seed,
                         c->o->percent };
    struct hash name = hash_bytes((struct hash){ 0 }, parts, sizeof parts);
    name = hash_bytes(name, users->items, users->count * sizeof *users->items);
    snprintf(out, cap, "%016" PRIx64, name.a);
}

/* One prompt and its answer by A, then sixteen by G. */
static enum rc measure_speeds(struct crossover *c, struct fault *fault)
{
    const struct workload w = { "speeds", "", 0, 1, 32, 16, 0, 0, 16 };
    struct cross_run one = { .rung = RUNG_A, .load = 1, .sessions = 2 };
    struct cross_run many = { .rung = RUNG_G, .load = 16, .sessions = 16 };
    struct cross_result a = { 0 }, g = { 0 };
    if (many.load > c->engine->options.rows_max)
        many.load = c->engine->options.rows_max;
    enum rc rc = cross_serve(&c->rig, &w, &one, 0, &a, fault);
    if (rc == RC_OK)
        rc = cross_serve(&c->rig, &w, &many, 0, &g, fault);
    if (rc == RC_OK) {
        double first_s = quantiles_at(&a.ttft_ms, 0.01) / 1e3;
        double gap_s = quantiles_at(&a.itl_ms, 0.5) / 1e3;
        c->speeds.prompt_s = w.text / (first_s > 1e-6 ? first_s : 1e-6);
        c->speeds.one_s = 1 / (gap_s > 1e-6 ? gap_s : 1e-6);
        double left = g.seconds - 16 * w.text / c->speeds.prompt_s;
        double least = 16 * w.answer / (c->speeds.one_s * 16);
        c->speeds.many_s = 16 * w.answer / (left > least ? left : least);
    }
    cross_result_close(&a);
    cross_result_close(&g);
    return rc;
}

static json_t *plan_json(struct crossover *c, const struct provenance_words *words)
{
    const struct cross_speeds *s = &c->speeds;
    return json_pack("{s:f, s:i, s:f, s:{s:f, s:f, s:f}, s:o}", "scale", c->plan.shape.scale,
                     "rounds", (int)c->plan.shape.rounds, "seconds", c->plan.seconds, "speeds",
                     "prompt", s->prompt_s, "one", s->one_s, "many", s->many_s, "provenance",
                     provenance_new(c->engine, words));
}

/* The engine was sized for texts of at most their full length. */
static enum rc take_plan(struct crossover *c, const json_t *row, struct fault *fault)
{
    const json_t *s = json_object_get(row, "speeds");
    json_int_t rounds = json_integer_value(json_object_get(row, "rounds"));
    struct cross_shape shape = shape_of(c->o);
    c->speeds.prompt_s = json_number_value(json_object_get(s, "prompt"));
    c->speeds.one_s = json_number_value(json_object_get(s, "one"));
    c->speeds.many_s = json_number_value(json_object_get(s, "many"));
    shape.scale = json_number_value(json_object_get(row, "scale"));
    if (!(shape.scale > 0 && shape.scale <= 1) || rounds < 1 || rounds > CROSS_PLAN_ROUNDS_MAX ||
        !(c->speeds.prompt_s > 0 && c->speeds.one_s > 0 && c->speeds.many_s > 0))
        return fault_set(fault, RC_CORRUPT, "%.150s/results.jsonl: the row of the plan is damaged",
                         c->o->dir);
    if (c->o->rounds == 0)
        shape.rounds = (uint32_t)rounds;
    cross_plan_open(&c->plan, &shape);
    c->plan.seconds = json_number_value(json_object_get(row, "seconds"));
    return RC_OK;
}

static enum rc make_plan(struct crossover *c, const struct provenance_words *words,
                         struct fault *fault)
{
    const json_t *row = cross_file_find(&c->file, "plan", "plan");
    if (row != NULL)
        return take_plan(c, row, fault);
    uint32_t minutes = c->o->minutes > 0 ? c->o->minutes : c->o->quick ? 30 : 120;
    enum rc rc = measure_speeds(c, fault); /* the first time is for the caches */
    if (rc == RC_OK)
        rc = measure_speeds(c, fault);
    if (rc != RC_OK)
        return rc;
    struct cross_shape shape = shape_of(c->o);
    cross_plan_open(&c->plan, &shape);
    /* Forecasts are rough; a size that was asked for stays. */
    cross_plan_fit(&c->plan, &c->speeds,
                   c->o->percent > 0 ? (double)INFINITY : 60.0 * minutes * 0.8);
    return cross_file_add(&c->file, "plan", "plan", plan_json(c, words), fault);
}

static void print_plan(const struct crossover *c)
{
    const struct cross_plan *p = &c->plan;
    fprintf(stderr,
            "plan      %u runs, %u rounds, texts at %.0f %% of their full size, about %.0f "
            "minutes in all; %u runs are there\n",
            c->all, p->shape.rounds, 100 * p->shape.scale, p->seconds / 60, c->done);
    fprintf(stderr, "speeds    %.0f prompt tokens/s, %.0f tokens/s alone, %.0f at sixteen\n",
            c->speeds.prompt_s, c->speeds.one_s, c->speeds.many_s);
}

/* ---- rows ---- */

static json_t *list_json(struct quantiles *q)
{
    json_t *list = json_array();
    (void)quantiles_at(q, 0.5); /* sorts */
    for (size_t i = 0; i < q->count; i++)
        if (json_array_append_new(list, json_real(q->values[i])) != 0)
            break;
    return list;
}

static json_t *spread_json(struct quantiles *q)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", quantiles_mean(q), "p50",
                     quantiles_at(q, 0.5), "p95", quantiles_at(q, 0.95), "p99",
                     quantiles_at(q, 0.99), "max", quantiles_at(q, 1));
}

static json_t *run_json(const struct crossover *c, const struct cross_run *run, double sessions_s,
                        struct cross_result *r)
{
    char texts[40];
    snprintf(texts, sizeof texts, "%016" PRIx64 "%016" PRIx64, r->texts.a, r->texts.b);
    json_t *row =
        json_pack("{s:s, s:s, s:b, s:i, s:i, s:b, s:i, s:i, s:f, s:f}", "workload",
                  c->plan.workloads[run->workload].name, "rung", rung_texts[run->rung].letter,
                  "open", (int)run->open, "load", (int)run->load, "round", (int)run->round, "again",
                  (int)run->again, "sessions", (int)run->sessions, "requests", (int)r->requests,
                  "sessions_per_s", sessions_s, "seconds", r->seconds);
    json_t *sums =
        json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "tokens_per_s",
                  (double)r->output_tokens / r->seconds, "prompt_tokens",
                  (json_int_t)r->prompt_tokens, "output_tokens", (json_int_t)r->output_tokens,
                  "cached_tokens", (json_int_t)r->cached_tokens, "steps", (json_int_t)r->steps,
                  "kv_peak_bytes", (json_int_t)r->kv_peak_bytes, "kv_read_bytes",
                  (json_int_t)r->kv_read_bytes, "weight_read_bytes", (json_int_t)r->weight_bytes,
                  "own_bytes", (json_int_t)budget_own_bytes(""), "texts", texts);
    json_t *times =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "ttft_ms", spread_json(&r->ttft_ms), "itl_ms",
                  spread_json(&r->itl_ms), "latency_ms", spread_json(&r->latency_ms), "all_ttft_ms",
                  list_json(&r->ttft_ms), "all_latency_ms", list_json(&r->latency_ms));
    int bad = row == NULL || sums == NULL || times == NULL || json_object_update(row, sums) != 0 ||
              json_object_update(row, times) != 0;
    json_decref(sums);
    json_decref(times);
    if (bad) {
        json_decref(row);
        return NULL;
    }
    return row;
}

/* Equal requests must have equal answers, whoever gave them. */
static enum rc check_texts(const struct crossover *c, const json_t *row, struct fault *fault)
{
    static const char *const same[] = { "row", "workload", "open", "load" };
    for (size_t i = 0; i < json_array_size(c->file.rows); i++) {
        const json_t *other = json_array_get(c->file.rows, i);
        bool like = json_object_get(other, "texts") != NULL;
        for (size_t k = 1; k < sizeof same / sizeof *same; k++)
            like =
                like && json_equal(json_object_get(row, same[k]), json_object_get(other, same[k]));
        if (like && !json_equal(json_object_get(row, "texts"), json_object_get(other, "texts")))
            return fault_set(fault, RC_CORRUPT,
                             "rung %s gives other texts than rung %s to the same requests (%s, "
                             "load %d)",
                             json_string_value(json_object_get(row, "rung")),
                             json_string_value(json_object_get(other, "rung")),
                             json_string_value(json_object_get(row, "workload")),
                             (int)json_integer_value(json_object_get(row, "load")));
    }
    return RC_OK;
}

static void name_run(const struct crossover *c, const struct cross_run *run, char *out, size_t cap)
{
    snprintf(out, cap, "%s %s %u %s%s %u", c->plan.workloads[run->workload].name,
             run->open ? "open" : "closed", run->load, rung_texts[run->rung].letter,
             run->again ? " again" : "", run->round);
}

/* ---- measuring ---- */

/* Sessions a second that an open load brings: its share of what G serves with the most users. */
static enum rc arrivals(const struct crossover *c, const struct cross_run *run, double *out,
                        struct fault *fault)
{
    struct cross_table t;
    const struct workload *w = &c->plan.workloads[run->workload];
    struct cross_place at = { run->workload, c->plan.users[c->plan.user_count - 1], false };
    double answers = 0;
    enum rc rc = cross_table_open(&t, &c->plan, &c->file, fault);
    if (rc != RC_OK)
        return rc;
    for (uint32_t i = 0; i < 5; i++)
        answers += (double)w->turns * session_answer(w, i) / 5;
    *out = cross_table_median(&t, at, RUNG_G, M_TOKENS_S) / answers * run->load / 100;
    cross_table_close(&t);
    return *out > 0 ? RC_OK : fault_set(fault, RC_CORRUPT, "the closed loads are not there");
}

static enum rc make_run(struct crossover *c, const struct cross_run *run, const char *key,
                        struct fault *fault)
{
    struct cross_result r = { 0 };
    double sessions_s = 0;
    enum rc rc = run->open ? arrivals(c, run, &sessions_s, fault) : RC_OK;
    if (rc == RC_OK)
        rc = cross_serve(&c->rig, &c->plan.workloads[run->workload], run, sessions_s, &r, fault);
    if (rc == RC_OK) {
        json_t *row = run_json(c, run, sessions_s, &r);
        rc = row != NULL ? check_texts(c, row, fault) : RC_OK;
        if (rc == RC_OK)
            rc = cross_file_add(&c->file, "run", key, row, fault);
        else
            json_decref(row);
    }
    if (rc == RC_OK && says(c))
        fprintf(stderr, "%4u of %u  %-32s %8.1f tokens/s  %6.1f s\n", c->done + 1, c->all, key,
                (double)r.output_tokens / r.seconds, r.seconds);
    cross_result_close(&r);
    return rc;
}

static json_t *tax_json(const struct crossover *c, const struct cross_tax *tax)
{
    json_t *prompt = json_array(), *parts = json_array();
    int bad = 0;
    for (uint32_t i = 0; i < TAX_RUNGS; i++)
        bad |= json_array_append_new(prompt, json_real(tax->prompt_ms[i]));
    for (uint32_t p = 0; p < TAX_PARTS; p++)
        bad |= json_array_append_new(parts, json_pack("[f, f, f, f]", tax->token_ms[p][0],
                                                      tax->token_ms[p][1], tax->token_ms[p][2],
                                                      tax->token_ms[p][3]));
    json_t *out = json_pack("{s:i, s:i, s:o, s:o}", "prompt", (int)tax_prompt(&c->plan), "output",
                            (int)tax_output(&c->plan), "prompt_ms", prompt, "token_ms", parts);
    if (bad == 0)
        return out;
    json_decref(out);
    return NULL;
}

static enum rc make_tax(struct crossover *c, uint32_t round, const char *key, struct fault *fault)
{
    struct cross_tax tax;
    enum rc rc =
        cross_tax_run(&c->rig, tax_prompt(&c->plan), tax_output(&c->plan), round, &tax, fault);
    if (rc == RC_OK)
        rc = cross_file_add(&c->file, "tax", key, tax_json(c, &tax), fault);
    if (rc == RC_OK && says(c))
        fprintf(stderr, "%4u of %u  %-32s\n", c->done + 1, c->all, key);
    return rc;
}

/* Whether there is time for something that takes so long; one thing is made in any case. */
static bool in_time(const struct crossover *c, double seconds)
{
    return c->o->seconds == 0 || c->made == 0 || elapsed_s(c) + seconds <= c->o->seconds;
}

static enum rc measure_limits(struct crossover *c, struct limits_probe *probe, struct fault *fault)
{
    struct limits l;
    char key[32];
    limits_measure(&l, probe);
    snprintf(key, sizeof key, "%zu", json_array_size(c->file.rows));
    return cross_file_add(&c->file, "limits", key,
                          json_pack("{s:f, s:f, s:s}", "read_bytes_s", l.read_bytes_s,
                                    "int8_macs_s", l.int8_macs_s, "commit", quire_commit),
                          fault);
}

/* Every tax and run of the plan, in its order: missing ones are made while there is time, unless
 * they are only to be counted. */
static enum rc walk_plan(struct crossover *c, bool make, struct fault *fault)
{
    struct cross_run runs[CROSS_RUNS_MAX];
    uint32_t count = cross_plan_runs(&c->plan, runs), round = UINT32_MAX;
    double tax_s =
        4 * (tax_prompt(&c->plan) / c->speeds.prompt_s + tax_output(&c->plan) / c->speeds.one_s);
    char key[96];
    c->done = 0;
    c->all = count + c->plan.shape.rounds;
    for (uint32_t i = 0; i < count; i++) {
        bool tax = !runs[i].open && runs[i].round != round;
        for (int part = tax ? 0 : 1; part < 2; part++) {
            enum rc rc = RC_OK;
            double seconds = part == 0 ? tax_s : cross_run_seconds(&c->plan, &runs[i], &c->speeds);
            if (part == 0)
                snprintf(key, sizeof key, "tax %u", round = runs[i].round);
            else
                name_run(c, &runs[i], key, sizeof key);
            if (cross_file_find(&c->file, part == 0 ? "tax" : "run", key) == NULL) {
                if (!make)
                    continue;
                if (!in_time(c, seconds))
                    return RC_OK;
                rc = part == 0 ? make_tax(c, round, key, fault) : make_run(c, &runs[i], key, fault);
                c->made++;
            }
            if (rc != RC_OK)
                return rc;
            c->done++;
        }
    }
    return RC_OK;
}

static enum rc measure(struct crossover *c, struct fault *fault)
{
    struct limits_probe probe;
    const struct engine_options *o = &c->engine->options;
    enum rc rc = limits_open(&probe, c->engine->workers, (enum isa)(o->isa - 1), DTYPE_Q4_0, true);
    if (rc != RC_OK)
        return fault_set(fault, rc, "out of memory");
    rc = measure_limits(c, &probe, fault);
    if (rc == RC_OK)
        rc = walk_plan(c, true, fault);
    if (rc == RC_OK)
        rc = measure_limits(c, &probe, fault);
    limits_close(&probe);
    return rc;
}

/* ---- the command ---- */

static enum rc write_report(struct crossover *c, struct fault *fault)
{
    struct cross_table t;
    bool drawn = false;
    enum rc rc = walk_plan(c, false, fault);
    if (rc == RC_OK)
        rc = cross_table_open(&t, &c->plan, &c->file, fault);
    if (rc != RC_OK)
        return rc;
    rc = cross_report_write(&t, &c->file, c->o->dir, c->done, c->all, &drawn, fault);
    cross_table_close(&t);
    if (rc != RC_OK)
        return rc;
    printf("%s/report.md: %u of %u runs%s\n", c->o->dir, c->done, c->all,
           c->done < c->all ? "; the same command goes on" : "");
    if (!drawn)
        printf("no pictures: gnuplot (Debian package gnuplot-nox) is not there; afterwards, "
               "--report draws them\n");
    return fflush(stdout) == 0 ? RC_OK : fault_set(fault, RC_IO, "stdout cannot be written");
}

static enum rc open_file(struct crossover *c, struct fault *fault)
{
    char path[4200], plan[40];
    if (mkdir(c->o->dir, 0777) != 0 && errno != EEXIST)
        return fault_set_errno(fault, RC_IO, "%.150s", c->o->dir);
    snprintf(path, sizeof path, "%s/results.jsonl", c->o->dir);
    name_plan(c, plan, sizeof plan);
    return cross_file_open(&c->file, path, plan, fault);
}

static enum rc run_all(struct crossover *c, const struct provenance_words *words,
                       struct fault *fault)
{
    enum rc rc = open_file(c, fault);
    if (rc == RC_OK && c->o->report && cross_file_find(&c->file, "plan", "plan") == NULL)
        rc = fault_set(fault, RC_USAGE, "%.150s has no rows of this model and these flags",
                       c->o->dir);
    if (rc == RC_OK)
        rc = make_plan(c, words, fault);
    if (rc == RC_OK)
        rc = walk_plan(c, false, fault);
    if (rc != RC_OK)
        return rc;
    if (says(c))
        print_plan(c);
    if (!c->o->report && c->done < c->all)
        rc = measure(c, fault);
    struct fault later;
    enum rc written = rc == RC_OK || rc == RC_CANCELLED ? write_report(c, &later) : RC_OK;
    if (rc == RC_OK && written != RC_OK) {
        *fault = later;
        rc = written;
    }
    return rc;
}

int bench_crossover(int argc, char **argv)
{
    struct cross_options o = { .dir = "crossover", .seed = 1 };
    struct engine_options options = engine_options_default();
    struct option_group groups[] = {
        { "crossover", rows, sizeof rows / sizeof rows[0], &o },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = {
        "bench crossover",
        "-m MODEL [-o DIR] [--quick]",
        "From how many users on batching over a paged cache beats a loop that "
        "serves one after another; writes DIR/report.md.",
        groups,
        2,
        NULL,
        0,
        0
    };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    struct engine e;
    struct engine_needs needs = { .requests_max = 1 };
    const char *command[64] = { "bench" };
    struct provenance_words words = { 1, (char **)(uintptr_t)command };
    for (int i = 0; i < argc && words.argc < 64; i++)
        words.argv[words.argc++] = argv[i];
    enum rc rc = check_options(&o, &options, &fault);
    if (rc == RC_OK)
        size_engine(&options, &o);
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &fault)) == RC_OK) {
        struct crossover c = { .o = &o, .engine = &e, .file = { .fd = -1 } };
        c.begun_us = clock_now_us(&e.clock);
        rc = cross_rig_open(&c.rig, &e, (uint64_t)o.seed, &fault);
        if (rc == RC_OK) {
            rc = run_all(&c, &words, &fault);
            cross_rig_close(&c.rig);
        }
        cross_file_close(&c.file);
        engine_close(&e);
    }
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    return rc == RC_OK ? 0 : engine_complain("bench crossover", &fault);
}
