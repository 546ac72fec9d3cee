/* SPDX-License-Identifier: MIT */
/* batch_tell - see batch_tell.h. Time left goes by bytes of input and tokens so far: rows of a job
 * differ in length, tokens in cost far less. */
#include "frontend/batch/batch_tell.h"

#include <stdio.h>

#include <jansson.h>

enum { PROGRESS_US = 1000000, PROGRESS_PLAIN_US = 15000000 };

static double seconds_of(const struct batch_job *b)
{
    return (double)(clock_now_us(&b->clock) - b->started_us) / 1e6;
}

static double per_second(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

static double cached_share(const struct batch_counts *c)
{
    return c->prompt_tokens > 0 ? (double)c->cached_tokens / (double)c->prompt_tokens : 0;
}

/* Seconds to the end of the input; below 0 when that cannot be known. */
static double seconds_left(const struct batch_job *b, double speed)
{
    const struct batch_counts *c = &b->counts;
    uint64_t tokens = c->prompt_tokens + c->output_tokens;
    /* Of a packed input the bytes read say how far it is. */
    uint64_t used = c->done_bytes + c->skipped_bytes;
    double whole = b->in.offset > 0
                       ? (double)b->input_bytes * (double)b->in.offset / (double)b->in.raw_bytes
                       : 0;
    if (c->done_bytes == 0 || speed <= 0 || whole <= (double)used)
        return -1;
    return (double)tokens * (whole - (double)used) / (double)c->done_bytes / speed;
}

void batch_tell(struct batch_job *b, bool last)
{
    const struct batch_counts *c = &b->counts;
    uint64_t now = clock_now_us(&b->clock);
    if (b->quiet || b->options->check ||
        (!last && now - b->told_us < (uint64_t)(b->tty ? PROGRESS_US : PROGRESS_PLAIN_US)))
        return;
    b->told_us = now;
    double seconds = seconds_of(b);
    double speed = per_second(c->prompt_tokens + c->output_tokens, seconds);
    fprintf(stderr,
            "%s%llu ok, %llu failed, %u running, %.1f tokens/s (%.1f generated), %.0f %% of "
            "prompts cached",
            b->tty ? "\r" : "", (unsigned long long)c->ok, (unsigned long long)c->failed,
            b->run_count, speed, per_second(c->output_tokens, seconds), 100 * cached_share(c));
    double left = seconds_left(b, speed);
    if (!last && left >= 0)
        fprintf(stderr, ", %.0f s left", left);
    fputs(b->tty && !last ? "   " : "\n", stderr);
}

/* Rows in the files. */
static uint64_t all_ok(const struct batch_job *b)
{
    return b->counts.ok + b->out.ok_count + b->err.ok_count;
}

static uint64_t all_failed(const struct batch_job *b)
{
    return b->counts.failed + b->out.failed_count + b->err.failed_count;
}

void batch_tell_end(const struct batch_job *b, bool stopped)
{
    fprintf(stderr, "%llu ok, %llu failed", (unsigned long long)all_ok(b),
            (unsigned long long)all_failed(b));
    if (b->counts.skipped > 0)
        fprintf(stderr, " (%llu of them from before)", (unsigned long long)b->counts.skipped);
    if (stopped)
        fprintf(stderr, "; stopped (%s), start it again to go on", b->fault.text);
    fputc('\n', stderr);
}

void batch_tell_check(const struct batch_job *b, const struct batch_speed *speed)
{
    const struct batch_counts *c = &b->counts;
    printf("%llu lines would run, %llu would fail, %llu are there already, %llu belong to other "
           "shards\n%llu prompt tokens, at most %llu tokens to generate\n",
           (unsigned long long)c->ok, (unsigned long long)c->failed, (unsigned long long)c->skipped,
           (unsigned long long)c->others, (unsigned long long)c->prompt_tokens,
           (unsigned long long)c->output_tokens);
    double seconds =
        (double)c->prompt_tokens / speed->prompt_tps + (double)c->output_tokens / speed->output_tps;
    uint64_t whole = seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
    printf("at most %llu:%02llu:%02llu (%.0f s)", (unsigned long long)(whole / 3600),
           (unsigned long long)(whole / 60 % 60), (unsigned long long)(whole % 60), seconds);
    if (speed->measured)
        printf(", at the speed measured here now with %u rows: %.1f prompt tokens/s, %.1f "
               "generated tokens/s; shared beginnings and short answers make it less\n",
               speed->rows, speed->prompt_tps, speed->output_tps);
    else
        printf(", at the %.1f tokens/s of --tokens-per-second\n", speed->prompt_tps);
}

enum rc batch_summary(const struct batch_job *b, const char *path, bool stopped,
                      struct fault *fault)
{
    const struct batch_counts *c = &b->counts;
    double seconds = seconds_of(b);
    if (path == NULL)
        return RC_OK;
    json_t *out =
        json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "model",
                  b->model, "stopped", stopped, "ok", (json_int_t)c->ok, "failed",
                  (json_int_t)c->failed, "skipped", (json_int_t)c->skipped, "ok_all",
                  (json_int_t)all_ok(b), "failed_all", (json_int_t)all_failed(b), "prompt_tokens",
                  (json_int_t)c->prompt_tokens, "cached_tokens", (json_int_t)c->cached_tokens,
                  "output_tokens", (json_int_t)c->output_tokens, "seconds", seconds, "tokens_per_s",
                  per_second(c->prompt_tokens + c->output_tokens, seconds), "output_tokens_per_s",
                  per_second(c->output_tokens, seconds), "cached_share", cached_share(c));
    int bad = out == NULL || json_dump_file(out, path, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
    json_decref(out);
    return bad == 0 ? RC_OK
                    : fault_set_errno(fault, RC_IO, "--summary %.100s cannot be written", path);
}
