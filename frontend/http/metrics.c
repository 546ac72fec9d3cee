/* SPDX-License-Identifier: MIT */
/* metrics - one table for the numbers, one for the histograms: a row gives our name, vLLM's, and
 * the help line of both. */
#include "frontend/http/metrics.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"

static const double seconds_short[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075,
                                        0.1,   0.15,   0.2,   0.3,  0.4,   0.5,  0.75,
                                        1,     2.5,    5,     10,   40,    80 };
static const double seconds_long[] = { 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,   2,    5,    10,
                                       20,   30,    60,   120, 240,  480, 960, 1920, 3600, 7200 };
static const double tokens[] = { 1,     2,      5,      10,     20,     50,    100,
                                 200,   500,    1000,   2000,   5000,   10000, 20000,
                                 50000, 100000, 200000, 500000, 1000000 };
_Static_assert(sizeof seconds_short / sizeof(double) <= METRICS_BUCKETS_MAX, "room");
_Static_assert(sizeof seconds_long / sizeof(double) <= METRICS_BUCKETS_MAX, "room");
_Static_assert(sizeof tokens / sizeof(double) <= METRICS_BUCKETS_MAX, "room");

#define BOUNDS(array) array, sizeof array / sizeof array[0]

static const struct {
    const char *own, *vllm, *help;
    const double *bounds;
    size_t bound_count;
} histogram_rows[METRICS_HISTOGRAM_COUNT] = {
    [METRICS_TTFT] = { "quire_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
                       "From the arrival of a request to its first token.", BOUNDS(seconds_long) },
    [METRICS_ITL] = { "quire_inter_token_latency_seconds", "vllm:inter_token_latency_seconds",
                      "Between two tokens of one choice.", BOUNDS(seconds_short) },
    [METRICS_E2E] = { "quire_request_seconds", "vllm:e2e_request_latency_seconds",
                      "From the arrival of a request to the end of a choice.",
                      BOUNDS(seconds_long) },
    [METRICS_QUEUE] = { "quire_request_queue_seconds", "vllm:request_queue_time_seconds",
                        "From the arrival of a request to its admission.", BOUNDS(seconds_long) },
    [METRICS_PREFILL] = { "quire_request_prefill_seconds", "vllm:request_prefill_time_seconds",
                          "From the admission to the first token.", BOUNDS(seconds_long) },
    [METRICS_DECODE] = { "quire_request_decode_seconds", "vllm:request_decode_time_seconds",
                         "From the first token to the end.", BOUNDS(seconds_long) },
    [METRICS_PROMPT_TOKENS] = { "quire_request_prompt_tokens", "vllm:request_prompt_tokens",
                                "Tokens of a prompt.", BOUNDS(tokens) },
    [METRICS_OUTPUT_TOKENS] = { "quire_request_output_tokens", "vllm:request_generation_tokens",
                                "Tokens of an answer.", BOUNDS(tokens) },
};

void metrics_observe(struct metrics *m, enum metrics_histogram which, double value)
{
    struct histogram *h = &m->histograms[which];
    size_t i = 0;
    while (i < histogram_rows[which].bound_count && value > histogram_rows[which].bounds[i])
        i++;
    h->buckets[i]++;
    h->count++;
    h->sum += value;
}

void metrics_note_status(struct metrics *m, int status)
{
    for (size_t i = 0; i < METRICS_STATUS_COUNT; i++)
        if (m->replies[i].status == status || m->replies[i].status == 0) {
            m->replies[i].status = status;
            m->replies[i].count++;
            return;
        }
}

struct page {
    struct text *out;
    enum rc rc;
};

static void put(struct page *p, const char *format, ...) ATTR_PRINTF(2, 3);
static void put(struct page *p, const char *format, ...)
{
    char line[384];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (p->rc == RC_OK && len > 0)
        p->rc = text_append(p->out, line, strnlen(line, sizeof line));
}

static void put_number(struct page *p, const char *name, const char *kind, const char *help,
                       double value)
{
    put(p, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, value);
}

/* Our name, and vLLM's with the label that its dashboards select by. */
static void put_both(struct page *p, const struct metrics_view *v, const char *own,
                     const char *vllm, const char *kind, const char *help, double value)
{
    put_number(p, own, kind, help, value);
    put(p, "# HELP %s %s\n# TYPE %s %s\n%s{model_name=\"%s\"} %.17g\n", vllm, help, vllm, kind,
        vllm, v->model, value);
}

static void put_histogram(struct page *p, const struct histogram *h, size_t which, const char *name,
                          const char *label)
{
    const char *comma = label[0] != '\0' ? "," : "";
    uint64_t below = 0;
    put(p, "# HELP %s %s\n# TYPE %s histogram\n", name, histogram_rows[which].help, name);
    for (size_t i = 0; i < histogram_rows[which].bound_count; i++) {
        below += h->buckets[i];
        put(p, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, label, comma,
            histogram_rows[which].bounds[i], (unsigned long long)below);
    }
    put(p, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, label, comma, (unsigned long long)h->count);
    const char *open = label[0] != '\0' ? "{" : "", *close = label[0] != '\0' ? "}" : "";
    put(p, "%s_sum%s%s%s %.17g\n%s_count%s%s%s %llu\n", name, open, label, close, h->sum, name,
        open, label, close, (unsigned long long)h->count);
}

static void put_requests(struct page *p, const struct metrics *m, const struct metrics_view *v)
{
    const struct sched_stats *s = &v->sched;
    uint32_t used = s->blocks_total - s->blocks_free - s->blocks_cached;
    double usage = s->blocks_total > 0 ? (double)used / (double)s->blocks_total : 0;
    put_both(p, v, "quire_requests_running", "vllm:num_requests_running", "gauge",
             "Requests that run.", s->running);
    put_both(p, v, "quire_requests_waiting", "vllm:num_requests_waiting", "gauge",
             "Requests that wait for their turn.", s->waiting);
    put_both(p, v, "quire_kv_usage_ratio", "vllm:kv_cache_usage_perc", "gauge",
             "Share of the KV pool that requests use, 0 to 1.", usage);
    put_both(p, v, "quire_prompt_tokens_total", "vllm:prompt_tokens_total", "counter",
             "Prompt tokens of answered requests.", (double)m->prompt_tokens);
    put_both(p, v, "quire_output_tokens_total", "vllm:generation_tokens_total", "counter",
             "Tokens generated.", (double)m->output_tokens);
    put_both(p, v, "quire_preemptions_total", "vllm:num_preemptions_total", "counter",
             "Requests that had to give way to others.", (double)s->preemptions);
    put_both(p, v, "quire_prefix_queries_total", "vllm:prefix_cache_queries_total", "counter",
             "Prompt tokens looked up in the prefix cache.", (double)m->prompt_tokens);
    put_both(p, v, "quire_prefix_hits_total", "vllm:prefix_cache_hits_total", "counter",
             "Prompt tokens taken from the prefix cache.", (double)m->cached_tokens);
}

static void put_engine(struct page *p, const struct metrics *m, const struct metrics_view *v)
{
    const struct sched_stats *s = &v->sched;
    put_number(p, "quire_kv_blocks_total", "gauge", "Blocks of the KV pool.", s->blocks_total);
    put_number(p, "quire_kv_blocks_free", "gauge", "Blocks that hold nothing.", s->blocks_free);
    put_number(p, "quire_kv_blocks_cached", "gauge", "Blocks kept for later prompts.",
               s->blocks_cached);
    put_number(p, "quire_kv_blocks_relieved_total", "counter",
               "Cached blocks given back because memory was short.", (double)s->relieved_blocks);
    put_number(p, "quire_memory_short_looks_total", "counter",
               "Times that memory was looked at, twice a second, and was short.",
               (double)v->memory.short_looks);
    put_number(p, "quire_steps_total", "counter", "Steps of the scheduler.", (double)s->steps);
    put_number(p, "quire_rows_total", "counter", "Rows of all steps.", (double)s->rows);
    put_number(p, "quire_prefill_tokens_total", "counter", "Prompt tokens computed.",
               (double)s->prefill_tokens);
    put_number(p, "quire_decode_tokens_total", "counter", "Answer tokens computed.",
               (double)s->decode_tokens);
    put_number(p, "quire_engine_seconds_total", "counter", "Time spent in steps.",
               (double)s->engine_us / 1e6);
    put_number(p, "quire_requests_submitted_total", "counter", "Requests that were accepted.",
               (double)s->submitted);
    put_number(p, "quire_requests_cancelled_total", "counter", "Requests that were cancelled.",
               (double)s->cancelled);
    put_number(p, "quire_requests_failed_total", "counter", "Requests whose computation failed.",
               (double)s->failed);
    put_number(p, "quire_connections", "gauge", "Open connections.", v->connections);
    put_number(p, "quire_calls", "gauge", "Calls in flight.", v->calls);
    put_number(p, "quire_connections_total", "counter", "Connections accepted.",
               (double)m->connections_total);
    put_number(p, "quire_slow_readers_dropped_total", "counter",
               "Connections closed because they did not read.", (double)m->dropped_slow);
    put_number(p, "quire_uptime_seconds", "gauge", "Since the start.", (double)v->uptime_us / 1e6);
}

/* How weights come into memory. A mapped file is read by the system: nothing is counted then. */
static void put_weights(struct page *p, const struct metrics_view *v)
{
    const struct stream_stats *w = &v->weights;
    if (w->mode == NULL)
        return;
    put(p,
        "# HELP quire_weights_info The way of reading weights that is in use.\n"
        "# TYPE quire_weights_info gauge\nquire_weights_info{read_mode=\"%s\"} 1\n",
        w->mode);
    put_number(p, "quire_weights_read_fallbacks", "gauge",
               "Better ways of reading that the system refused.", w->fallbacks);
    put_number(p, "quire_weights_pinned_bytes", "gauge", "Weights that are kept in memory.",
               (double)w->pinned_bytes);
    put_number(p, "quire_weights_streamed_bytes", "gauge", "Weights that a step reads.",
               (double)w->streamed_bytes);
    put_number(p, "quire_weights_read_bytes_total", "counter", "Bytes of weights read.",
               (double)w->read_bytes);
    put_number(p, "quire_weights_ring_reads_total", "counter", "Reads through io_uring.",
               (double)w->ring_reads);
    put_number(p, "quire_weights_dropped_reads_total", "counter",
               "Reads that ended when nobody wanted them any more.", (double)w->dropped_reads);
    put_number(p, "quire_model_lost", "gauge", "Whether bytes of the model file are gone for good.",
               v->model_lost);
}

static void put_labelled(struct page *p, const struct metrics *m, const struct metrics_view *v)
{
    const struct {
        const char *reason;
        uint64_t count;
    } ends[] = { { "stop", m->stopped },
                 { "length", m->by_length },
                 { "abort", m->cancelled },
                 { "error", m->failed } };
    static const char *const names[] = { "quire_request_success_total",
                                         "vllm:request_success_total" };
    for (size_t k = 0; k < 2; k++) {
        put(p, "# HELP %s Choices by how they ended.\n# TYPE %s counter\n", names[k], names[k]);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
            put(p, "%s{finished_reason=\"%s\",model_name=\"%s\"} %llu\n", names[k], ends[i].reason,
                v->model, (unsigned long long)ends[i].count);
    }
    put(p,
        "# HELP vllm:cache_config_info The KV pool.\n# TYPE vllm:cache_config_info gauge\n"
        "vllm:cache_config_info{block_size=\"%u\",num_gpu_blocks=\"%u\",num_cpu_blocks=\"%u\"} "
        "1\n",
        KV_BLOCK_TOKENS, v->sched.blocks_total, v->sched.blocks_total);
    put(p, "# HELP quire_http_replies_total Replies by status.\n"
           "# TYPE quire_http_replies_total counter\n");
    for (size_t i = 0; i < METRICS_STATUS_COUNT && m->replies[i].status != 0; i++)
        put(p, "quire_http_replies_total{code=\"%d\"} %llu\n", m->replies[i].status,
            (unsigned long long)m->replies[i].count);
}

enum rc metrics_write(const struct metrics *m, const struct metrics_view *view, struct text *out)
{
    struct page p = { .out = out };
    char label[160];
    snprintf(label, sizeof label, "model_name=\"%s\"", view->model);
    put_requests(&p, m, view);
    put_engine(&p, m, view);
    put_weights(&p, view);
    put_labelled(&p, m, view);
    for (size_t i = 0; i < METRICS_HISTOGRAM_COUNT; i++) {
        put_histogram(&p, &m->histograms[i], i, histogram_rows[i].own, "");
        put_histogram(&p, &m->histograms[i], i, histogram_rows[i].vllm, label);
    }
    return p.rc;
}
