/* SPDX-License-Identifier: MIT */
/* metrics - what /metrics says: counters, gauges and histograms in Prometheus' text format, under
 * names of our own and under the names of vLLM that dashboards and autoscalers know.
 *   owner    the server
 *   thread   the I/O thread: it alone counts, so nothing is atomic. The scheduler's numbers come as
 *            a copy
 *   source   Prometheus exposition format 0.0.4; names as vLLM has them */
#ifndef QUIRE_FRONTEND_HTTP_METRICS_H
#define QUIRE_FRONTEND_HTTP_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/detok.h"
#include "core/stream.h"
#include "frontend/pressure.h"
#include "sched/sched.h"

#define METRICS_BUCKETS_MAX 20u

enum metrics_histogram {
    METRICS_TTFT,
    METRICS_ITL,
    METRICS_E2E,
    METRICS_QUEUE,
    METRICS_PREFILL,
    METRICS_DECODE,
    METRICS_PROMPT_TOKENS,
    METRICS_OUTPUT_TOKENS,
    METRICS_HISTOGRAM_COUNT
};

struct histogram {
    uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* the last one: above all bounds */
    uint64_t count;
    double sum;
};

#define METRICS_STATUS_COUNT 24u

struct metrics {
    struct histogram histograms[METRICS_HISTOGRAM_COUNT];
    uint64_t stopped, by_length, cancelled, failed; /* choices, by their end */
    uint64_t prompt_tokens, cached_tokens, output_tokens;
    uint64_t connections_total, dropped_slow;
    struct {
        int status;
        uint64_t count;
    } replies[METRICS_STATUS_COUNT];
};

/* Numbers that somebody else counts. */
struct metrics_view {
    const char *model;
    struct sched_stats sched; /* zero while loading */
    struct stream_stats weights; /* mode NULL while loading */
    bool model_lost;
    struct pressure_stats memory;
    uint32_t connections, calls;
    uint64_t uptime_us;
};

void metrics_observe(struct metrics *m, enum metrics_histogram which, double value);
void metrics_note_status(struct metrics *m, int status);

/* metrics_write - appends the whole page. */
enum rc metrics_write(const struct metrics *m, const struct metrics_view *view,
                      struct text *out) ATTR_MUST_USE;

#endif
