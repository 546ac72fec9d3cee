/* SPDX-License-Identifier: MIT */
/* bench_report - see bench_report.h. One JSON object is made for every row; csv and the json
 * formats print it, so that they cannot disagree. A figure's limit: the longer of the times in
 * which the machine would read these bytes and make these products; the fraction is that over the
 * median. Products of attention are in no limit, so a fraction falls with the depth. */
#include "frontend/bench/bench_report.h"

#include <stdio.h>
#include <string.h>

#include "frontend/bench/bench_layers.h"
#include "frontend/bench/provenance.h"
#include "frontend/bench/quantiles.h"

#define MOVED 0.10 /* of a limit: somebody else was busy */

/* One phase of a row. */
struct figures {
    double seconds, tps, low, high; /* medians; tokens/s at the 90th and 10th percentile of time */
    double read_s, macs_s;          /* reached */
    double fraction;
    const char *bound;
};

static enum rc figure(struct figures *out, const struct bench_row *row,
                      const struct bench_phase *phase, uint32_t tokens)
{
    struct quantiles q = { 0 };
    struct limits limits = limits_best(&row->before, &row->after);
    const struct bench_counts *c = &phase->counts;
    enum rc rc = RC_OK;
    *out = (struct figures){ .bound = "none" };
    if (tokens == 0)
        return RC_OK;
    for (uint32_t i = 0; i < row->done && rc == RC_OK; i++)
        rc = quantiles_add(&q, (double)(phase->us[i] > 0 ? phase->us[i] : 1) / 1e6);
    double n = (double)tokens * row->what.parallel, done = row->done;
    out->seconds = quantiles_median(&q);
    out->tps = n / out->seconds;
    out->low = n / quantiles_at(&q, 0.9);
    out->high = n / quantiles_at(&q, 0.1);
    quantiles_close(&q);
    double bytes = (double)(c->weight_bytes + c->kv_bytes) / done, macs = (double)c->macs / done;
    out->read_s = bytes / out->seconds;
    out->macs_s = macs / out->seconds;
    double read = limits.read_bytes_s > 0 ? bytes / limits.read_bytes_s : 0;
    double multiply = limits.int8_macs_s > 0 ? macs / limits.int8_macs_s : 0;
    out->bound = read > multiply ? "memory" : "arithmetic";
    out->fraction = (read > multiply ? read : multiply) / out->seconds;
    if (limits.read_bytes_s == 0) /* of which only the products are known */
        out->bound = "disk or arithmetic";
    return rc;
}

/* "pp512", "tg128 x8 @ d4096". */
static void name_row(const struct bench_report *r, const struct bench_case *what, char *out,
                     size_t cap)
{
    char prompt[16] = "", output[16] = "", parallel[16] = "", depth[20] = "", chunk[16] = "";
    if (what->prompt > 0)
        snprintf(prompt, sizeof prompt, "pp%u", what->prompt);
    if (what->output > 0)
        snprintf(output, sizeof output, "%stg%u", what->prompt > 0 ? "+" : "", what->output);
    if (what->parallel > 1)
        snprintf(parallel, sizeof parallel, " x%u", what->parallel);
    if (r->chunks && what->prompt > 0)
        snprintf(chunk, sizeof chunk, " b%u", what->chunk);
    if (what->depth > 0)
        snprintf(depth, sizeof depth, " @ d%u", what->depth);
    snprintf(out, cap, "%s%s%s%s%s", prompt, output, parallel, chunk, depth);
}

/* ---- a row as JSON ---- */

static json_t *samples_json(const struct bench_phase *phase, uint32_t count)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(out, json_integer((json_int_t)phase->us[i]));
    return out;
}

static bool add_phase(json_t *out, const char *name, const struct figures *f)
{
    char key[24];
    const struct {
        const char *form;
        double value;
    } rows[] = {
        { "t_%s", f->seconds },
        { "%s_tps", f->tps },
        { "%s_tps_p10", f->low },
        { "%s_tps_p90", f->high },
        { "%s_read_gbs", f->read_s / 1e9 },
        { "%s_gmacs", f->macs_s / 1e9 },
        { "%s_fraction", f->fraction },
    };
    bool good = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *cut = strstr(rows[i].form, "%s");
        snprintf(key, sizeof key, "%.*s%s%s", (int)(cut - rows[i].form), rows[i].form, name,
                 cut + 2);
        good = good && json_object_set_new(out, key, json_real(rows[i].value)) == 0;
    }
    snprintf(key, sizeof key, "%s_bound", name);
    return good && json_object_set_new(out, key, json_string(f->bound)) == 0;
}

/* How weights came into memory. */
static json_t *reading_json(const struct bench_report *r, const struct bench_row *row)
{
    struct stream_stats stats = residency_stats(&r->engine->weights);
    const struct bench_counts *c =
        row->output.counts.steps > 0 ? &row->output.counts : &row->prompt.counts;
    uint64_t steps = c->steps > 0 ? c->steps : 1;
    return json_pack("{s:I, s:I, s:I, s:s, s:i, s:I, s:I}", "weight_bytes_per_step",
                     (json_int_t)(c->weight_bytes / steps), "read_bytes_per_step",
                     (json_int_t)(c->file_bytes / steps), "pinned_bytes",
                     (json_int_t)stats.pinned_bytes, "read_mode", stats.mode, "read_fallbacks",
                     (int)stats.fallbacks, "ring_reads", (json_int_t)stats.ring_reads,
                     "kv_block_bytes", (json_int_t)kvpool_block_bytes(r->engine->pool));
}

static json_t *limits_json(const struct bench_report *r, const struct bench_row *row)
{
    struct limits best = limits_best(&row->before, &row->after);
    return json_pack("{s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:i}", "limit_read_gbs",
                     best.read_bytes_s / 1e9, "limit_int8_gmacs", best.int8_macs_s / 1e9,
                     "limit_int8_by", limits_by_kernel(r->limits) ? "kernel" : "instructions",
                     "limits_moved", limits_moved(&row->before, &row->after), "noise_low",
                     r->noise.low, "noise_median", r->noise.median, "noise_high", r->noise.high,
                     "noise_pairs", (int)r->noise.pairs);
}

/* Takes part. */
static bool merge(json_t *out, json_t *part)
{
    bool good = part != NULL && json_object_update(out, part) == 0;
    json_decref(part);
    return good;
}

static json_t *row_json(const struct bench_report *r, const struct bench_row *row,
                        const struct figures *pp, const struct figures *tg)
{
    char name[96];
    const struct bench_case *what = &row->what;
    double seconds = pp->seconds + tg->seconds;
    double tokens = ((double)what->prompt + what->output) * what->parallel;
    name_row(r, what, name, sizeof name);
    json_t *out =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "test", name, "n_pp", (int)what->prompt,
                  "n_tg", (int)what->output, "n_pl", (int)what->parallel, "n_depth",
                  (int)what->depth, "chunk", (int)what->chunk, "repetitions", (int)row->done);
    bool good = out != NULL && add_phase(out, "pp", pp) && add_phase(out, "tg", tg) &&
                json_object_set_new(out, "tps", json_real(tokens / seconds)) == 0 &&
                merge(out, limits_json(r, row)) && merge(out, reading_json(r, row)) &&
                json_object_update(out, r->provenance) == 0 &&
                json_object_set_new(out, "pp_us", samples_json(&row->prompt, row->done)) == 0 &&
                json_object_set_new(out, "tg_us", samples_json(&row->output, row->done)) == 0;
    if (good && r->layers)
        good = json_object_set_new(out, "layers", bench_layers_json(row, r->engine->model)) == 0;
    if (good)
        return out;
    json_decref(out);
    return NULL;
}

/* ---- formats ---- */

static void print_csv_text(const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != '\0'; text++)
        printf(*text == '"' ? "\"\"" : "%c", *text);
    putchar('"');
}

/* The single values of a row, or their names. */
static void print_csv(json_t *row, bool names)
{
    const char *key;
    json_t *value;
    const char *comma = "";
    json_object_foreach(row, key, value)
    {
        if (json_is_array(value) || json_is_object(value))
            continue;
        fputs(comma, stdout);
        comma = ",";
        if (names || json_is_string(value))
            print_csv_text(names ? key : json_string_value(value));
        else if (json_is_integer(value))
            printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else if (json_is_real(value))
            printf("%.7g", json_real_value(value));
    }
    putchar('\n');
}

/* Seven digits are more than a clock gives, and read well: 15.4 and not 15.400000000000001. */
static void print_json(const json_t *row)
{
    json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
}

static void print_md_head(const struct bench_report *r)
{
    if (r->batched)
        fputs("|    PP |     TG |    B |    N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |    "
              "  T s |    S t/s | PP of limit | TG of limit | limits GB/s, GMAC/s |\n"
              "|-------|--------|------|---------|----------|----------|----------|----------|----"
              "------|----------|-------------|-------------|---------------------|\n",
              stdout);
    else
        fputs("| test                     |      t/s |      p10 to p90     | of limit | bound by   "
              "| read GB/s, limit | int8 GMAC/s, limit |\n"
              "|--------------------------|----------|---------------------|----------|------------"
              "|------------------|--------------------|\n",
              stdout);
}

static void print_md(const struct bench_report *r, const struct bench_row *row,
                     const struct figures *pp, const struct figures *tg)
{
    const struct bench_case *w = &row->what;
    struct limits best = limits_best(&row->before, &row->after);
    const char *mark = limits_moved(&row->before, &row->after) > MOVED ? " ~" : "";
    double tokens = ((double)w->prompt + w->output) * w->parallel;
    double seconds = pp->seconds + tg->seconds;
    char name[96];
    name_row(r, w, name, sizeof name);
    if (r->batched) {
        printf("|%6u | %6u | %4u | %7.0f | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f | %9.0f "
               "%% | %9.0f %% | %8.1f, %7.0f%s |\n",
               w->prompt, w->output, w->parallel, tokens + (double)w->depth * w->parallel,
               pp->seconds, pp->tps, tg->seconds, tg->tps, seconds, tokens / seconds,
               100 * pp->fraction, 100 * tg->fraction, best.read_bytes_s / 1e9,
               best.int8_macs_s / 1e9, mark);
        return;
    }
    const struct figures *f = w->prompt > 0 ? pp : tg;
    printf("| %-24s | %8.2f | %8.2f - %8.2f | %6.0f %% | %-10s | %7.2f, %7.2f | %7.1f, %7.1f%s |\n",
           name, f->tps, f->low, f->high, 100 * f->fraction, f->bound, f->read_s / 1e9,
           best.read_bytes_s / 1e9, f->macs_s / 1e9, best.int8_macs_s / 1e9, mark);
}

static enum rc check_stdout(struct fault *fault)
{
    return fflush(stdout) == 0 && !ferror(stdout)
               ? RC_OK
               : fault_set(fault, RC_IO, "stdout cannot be written");
}

enum rc bench_report_open(struct bench_report *r, struct fault *fault)
{
    if (r->format != BENCH_MD)
        return RC_OK;
    printf("noise: one row against itself, %u pairs: %.3f (%.3f to %.3f); differences within that "
           "say nothing\n",
           r->noise.pairs, r->noise.median, r->noise.low, r->noise.high);
    if (limits_by_kernel(r->limits))
        puts("int8 limit: what the kernels themselves reach out of the nearest cache");
    putchar('\n');
    if (!r->layers)
        print_md_head(r);
    return check_stdout(fault);
}

enum rc bench_report_row(struct bench_report *r, const struct bench_row *row, struct fault *fault)
{
    struct figures pp, tg;
    enum rc rc = figure(&pp, row, &row->prompt, row->what.prompt);
    if (rc == RC_OK)
        rc = figure(&tg, row, &row->output, row->what.output);
    json_t *json = rc == RC_OK ? row_json(r, row, &pp, &tg) : NULL;
    if (json == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    if (r->format == BENCH_MD) {
        if (r->layers)
            print_md_head(r);
        print_md(r, row, &pp, &tg);
        if (r->layers)
            bench_layers_print(row, r->engine->model);
    } else if (r->format == BENCH_CSV) {
        if (r->rows == 0)
            print_csv(json, true);
        print_csv(json, false);
    } else {
        if (r->format == BENCH_JSON)
            fputs(r->rows > 0 ? "," : "[\n", stdout);
        print_json(json);
        putchar('\n');
    }
    json_decref(json);
    r->rows++;
    r->moved += limits_moved(&row->before, &row->after) > MOVED;
    return check_stdout(fault);
}

enum rc bench_report_close(struct bench_report *r, struct fault *fault)
{
    if (r->format == BENCH_JSON)
        puts(r->rows > 0 ? "]" : "[]");
    if (r->format == BENCH_MD && r->rows > 0) {
        if (r->moved > 0)
            printf("\n~ the machine's limits moved by more than %.0f %% from before the row to "
                   "after it\n",
                   100 * MOVED);
        provenance_print(r->provenance);
    }
    return check_stdout(fault);
}
