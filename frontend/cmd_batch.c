/* SPDX-License-Identifier: MIT */
/* cmd_batch - a file of requests in, a file of answers out, several in flight.
 *
 *   line_reader -> batch_row -> schema -> completion -> scheduler
 *                     |            |          |             |  events, in any order
 *                     '--- error row ---------'             v
 *                                  batch_file  <-  answer row, written as soon as it is complete
 *
 * The window bounds what is in flight, so memory does not depend on the length of the input. A line
 * that was answered before is skipped: by its custom_id, or by its number when it has none. A
 * custom_id that comes twice in one input is an error of the second line. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"
#include "frontend/batch_file.h"
#include "frontend/batch_row.h"
#include "frontend/commands.h"
#include "frontend/api/completion.h"
#include "frontend/engine.h"
#include "frontend/interrupt.h"
#include "frontend/line_reader.h"
#include "frontend/sampling_options.h"

enum { SYNC_US = 2000000, PROGRESS_US = 1000000, PROGRESS_PLAIN_US = 15000000 };

struct batch_options {
    const char *input, *output;
};

#define AT(member) offsetof(struct batch_options, member)
static const struct option batch_rows[] = {
    { "-i --input", OPTION_TEXT, AT(input), 0, 0, "FILE", NULL,
      "JSONL file of requests; - is stdin" },
    { "-o --output", OPTION_TEXT, AT(output), 0, 0, "FILE", NULL,
      "JSONL file of answers, appended to; a job started again goes on; - is stdout" },
};

/* A line in flight. */
struct batch_line {
    struct batch_row row;
    struct completion completion;
    uint64_t bytes; /* of its line */
    bool used;
};

struct batch_job {
    struct engine *engine;
    struct completion_params bare_defaults, line_defaults;
    bool special;
    struct line_reader in;
    struct batch_file out;
    struct key_set seen; /* custom_ids of this input so far */
    struct batch_line *jobs;
    uint32_t job_max, job_count;
    struct batch_line *pending; /* not wholly submitted: the scheduler was full */
    bool input_ended;
    uint64_t input_bytes; /* 0 when not known */
    uint64_t skipped_bytes, done_bytes;
    uint64_t ok_count, failed_count, skipped_count;
    uint64_t prompt_tokens, output_tokens;
    uint64_t started_us, told_us;
    bool tty, told;
    struct fault fault;
};

static uint64_t now_us(const struct batch_job *b)
{
    return clock_now_us(&b->engine->clock);
}

static enum rc put_error(struct batch_job *b, const struct batch_row *row,
                         const struct api_error *error)
{
    b->failed_count++;
    return batch_file_put(&b->out, batch_row_error(row, error), &b->fault);
}

static void drop_job(struct batch_job *b, struct batch_line *job)
{
    completion_close(&job->completion);
    batch_row_close(&job->row);
    *job = (struct batch_line){ 0 };
    b->job_count--;
    if (b->pending == job)
        b->pending = NULL;
}

/* The row of a job whose last choice has ended. */
static enum rc finish_job(struct batch_job *b, struct batch_line *job)
{
    struct completion *c = &job->completion;
    enum rc rc;
    b->done_bytes += job->bytes;
    if (c->failed) {
        rc = put_error(b, &job->row, &c->error);
    } else {
        char id[40];
        snprintf(id, sizeof id, "cmpl-%llu", (unsigned long long)job->row.line);
        b->ok_count++;
        b->prompt_tokens += completion_prompt_tokens(c);
        b->output_tokens += completion_output_tokens(c);
        json_t *body = completion_body(c, id, (int64_t)time(NULL));
        rc = batch_file_put(&b->out, batch_row_answer(&job->row, body), &b->fault);
    }
    drop_job(b, job);
    return rc;
}

static enum rc submit_job(struct batch_job *b, struct batch_line *job)
{
    enum rc rc = completion_submit(&job->completion);
    b->pending = rc == RC_FULL ? job : NULL;
    if (rc == RC_OK || rc == RC_FULL || !completion_take(&job->completion))
        return RC_OK;
    return finish_job(b, job); /* refused before anything of it ran */
}

/* Makes the request of a row whose line is good so far. */
static enum rc open_completion(struct batch_job *b, struct batch_line *job, struct api_error *error)
{
    struct completion_params p;
    const struct completion_params *defaults =
        job->row.bare ? &b->bare_defaults : &b->line_defaults;
    enum rc rc =
        completion_params_open(&p, job->row.body, defaults, b->engine->model->vocab_count, error);
    if (rc != RC_OK)
        return rc;
    if (p.stream) {
        completion_params_close(&p);
        return api_error_set(error, 400, "not_supported", "stream",
                             "line %llu: stream must be false in a batch",
                             (unsigned long long)job->row.line);
    }
    return completion_open(&job->completion, b->engine, &p, b->special, error);
}

/* *again: the line was answered by an earlier run. */
static enum rc check_key(struct batch_job *b, const struct batch_row *row, bool *again,
                         struct api_error *error)
{
    bool added = true;
    if (row->custom_id == NULL) {
        *again = key_set_has_line(&b->out.done, row->line);
        return RC_OK;
    }
    const char *id = json_string_value(row->custom_id);
    size_t len = json_string_length(row->custom_id);
    *again = false;
    if (key_set_add_id(&b->seen, id, len, &added) != RC_OK)
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    if (!added)
        return api_error_set(error, 400, "duplicate_custom_id", "custom_id",
                             "line %llu: custom_id '%.60s' was there before",
                             (unsigned long long)row->line, id);
    *again = key_set_has_id(&b->out.done, id, len);
    return RC_OK;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static struct batch_line *free_job(struct batch_job *b)
{
    for (uint32_t i = 0; i < b->job_max; i++)
        if (!b->jobs[i].used)
            return &b->jobs[i];
    must(false);
    return NULL;
}

/* One line: skipped, an error row, or a job. */
static enum rc take_line(struct batch_job *b, enum rc read, const char *line, size_t len)
{
    struct api_error error;
    struct batch_row row = { .line = b->in.line_number };
    bool again = false;
    enum rc rc;
    if (read == RC_LIMIT) {
        again = key_set_has_line(&b->out.done, row.line);
        rc = api_error_set(&error, 400, "line_too_long", NULL, "line %llu is longer than %u bytes",
                           (unsigned long long)row.line, BODY_BYTES_MAX);
    } else {
        rc = batch_row_open(&row, b->in.line_number, line, len, &error);
        struct api_error key_error;
        enum rc key = check_key(b, &row, &again, &key_error);
        if (key != RC_OK) { /* the row must not carry an id that another row has */
            row.custom_id = NULL;
            again = key_set_has_line(&b->out.done, row.line);
            error = key_error;
            rc = key;
        }
    }
    struct batch_line *job = free_job(b);
    *job = (struct batch_line){ .row = row, .bytes = len + 1, .used = true };
    b->job_count++;
    if (again) {
        b->skipped_count++;
        b->skipped_bytes += job->bytes;
        drop_job(b, job);
        return RC_OK;
    }
    if (rc == RC_OK)
        rc = open_completion(b, job, &error);
    job->completion.user = job;
    if (rc == RC_OK)
        return submit_job(b, job);
    rc = put_error(b, &job->row, &error);
    b->done_bytes += job->bytes;
    drop_job(b, job);
    return rc;
}

/* Fills the window. Waits for input only when nothing runs. */
static enum rc read_lines(struct batch_job *b)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && !b->input_ended && b->pending == NULL && b->job_count < b->job_max &&
           interrupt_signal() == 0) {
        const char *line;
        size_t len;
        bool whole;
        enum rc read = line_reader_next(&b->in, b->job_count > 0 ? 0 : 200, &line, &len, &whole);
        if (read == RC_AGAIN)
            return RC_OK;
        if (read == RC_OK && b->in.line_number == 1 && len >= 3 &&
            memcmp(line, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, as Windows writes it */
            line += 3;
            len -= 3;
        }
        if (read == RC_END)
            b->input_ended = true;
        else if (read != RC_OK && read != RC_LIMIT)
            rc = fault_set_errno(&b->fault, read, "-i cannot be read");
        else if (read == RC_LIMIT || !is_blank(line, len))
            rc = take_line(b, read, line, len);
    }
    return rc;
}

static enum rc take_events(struct batch_job *b)
{
    enum rc rc = RC_OK;
    uint64_t wait_us = 20000;
    for (struct request *r;
         rc == RC_OK && (r = sched_next_event(b->engine->sched, wait_us)) != NULL;) {
        struct completion *c = request_user(r);
        wait_us = 0;
        if (completion_take(c))
            rc = finish_job(b, c->user);
    }
    if (rc == RC_OK && b->pending != NULL)
        rc = submit_job(b, b->pending);
    return rc;
}

/* Rows, speed, and the time left by the tokens that the rest of the input should have. */
static void tell(struct batch_job *b, bool last)
{
    uint64_t now = now_us(b);
    if (b->engine->options.quiet ||
        (!last && now - b->told_us < (uint64_t)(b->tty ? PROGRESS_US : PROGRESS_PLAIN_US)))
        return;
    b->told_us = now;
    b->told = true;
    double seconds = (double)(now - b->started_us) / 1e6;
    uint64_t tokens = b->prompt_tokens + b->output_tokens;
    double speed = seconds > 0 ? (double)tokens / seconds : 0;
    fprintf(stderr, "%s%llu ok, %llu failed, %u running, %.1f tokens/s (%.1f generated)",
            b->tty ? "\r" : "", (unsigned long long)b->ok_count,
            (unsigned long long)b->failed_count, b->job_count, speed,
            seconds > 0 ? (double)b->output_tokens / seconds : 0);
    if (b->input_bytes > b->skipped_bytes && b->done_bytes > 0 && speed > 0 && !last) {
        double all =
            (double)tokens * (double)(b->input_bytes - b->skipped_bytes) / (double)b->done_bytes;
        double left = all > (double)tokens ? (all - (double)tokens) / speed : 0;
        fprintf(stderr, ", %.0f s left", left);
    }
    fputs(b->tty && !last ? "   " : "\n", stderr);
}

/* Everything in flight is given up; its rows are not written. */
static void cancel_jobs(struct batch_job *b)
{
    for (uint32_t i = 0; i < b->job_max; i++)
        if (b->jobs[i].used)
            completion_cancel(&b->jobs[i].completion);
    b->pending = NULL;
    while (b->job_count > 0) {
        sched_next_event(b->engine->sched, 20000);
        for (uint32_t i = 0; i < b->job_max; i++) {
            struct batch_line *job = &b->jobs[i];
            if (!job->used)
                continue;
            (void)completion_take(&job->completion);
            if (job->completion.ended_count == job->completion.submitted_count)
                drop_job(b, job);
        }
    }
}

static enum rc run_jobs(struct batch_job *b)
{
    enum rc rc = RC_OK;
    b->started_us = b->told_us = now_us(b);
    while (rc == RC_OK && interrupt_signal() == 0 && !(b->input_ended && b->job_count == 0)) {
        rc = read_lines(b);
        if (rc == RC_OK && b->job_count > 0)
            rc = take_events(b);
        if (rc == RC_OK)
            rc = batch_file_sync(&b->out, now_us(b), SYNC_US, &b->fault);
        tell(b, false);
    }
    bool finished = b->input_ended && b->job_count == 0;
    cancel_jobs(b);
    if (rc == RC_OK)
        rc = batch_file_sync(&b->out, now_us(b), 0, &b->fault);
    tell(b, true);
    return rc != RC_OK ? rc : finished ? RC_OK : RC_STOPPED;
}

static enum rc open_input(struct batch_job *b, const char *path)
{
    int fd = STDIN_FILENO;
    struct stat in, out;
    if (strcmp(path, "-") != 0)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set_errno(&b->fault, RC_USAGE, "-i %.100s cannot be opened", path);
    line_reader_open(&b->in, fd, BODY_BYTES_MAX);
    if (fstat(fd, &in) == 0 && S_ISREG(in.st_mode)) {
        b->input_bytes = (uint64_t)in.st_size;
        if (b->out.regular && fstat(b->out.fd, &out) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return fault_set(&b->fault, RC_USAGE, "-i and -o are the same file");
    } else if (fstat(fd, &in) == 0 && S_ISDIR(in.st_mode)) {
        return fault_set(&b->fault, RC_USAGE, "-i %.100s is a folder", path);
    }
    return RC_OK;
}

static enum rc open_batch(struct batch_job *b, struct sampling_options *sampling, uint32_t job_max)
{
    b->bare_defaults = completion_params_default();
    b->bare_defaults.max_tokens = 128;
    b->special = !sampling->no_special;
    b->tty = isatty(STDERR_FILENO) == 1;
    b->jobs = mem_alloc_array(job_max, sizeof *b->jobs);
    if (b->jobs == NULL)
        return fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
    b->job_max = job_max;
    enum rc rc = sampling_options_apply(sampling, &b->bare_defaults, b->engine->model->vocab_count,
                                        &b->fault);
    b->line_defaults = b->bare_defaults;
    if (sampling->predict == -2)
        b->line_defaults.max_tokens = completion_params_default().max_tokens;
    return rc;
}

static void close_batch(struct batch_job *b)
{
    line_reader_close(&b->in);
    batch_file_close(&b->out);
    key_set_close(&b->seen);
    completion_params_close(&b->bare_defaults);
    mem_free(b->jobs);
}

static int report(struct batch_job *b, enum rc rc)
{
    uint64_t ok = b->ok_count + b->out.ok_count, failed = b->failed_count + b->out.failed_count;
    if (rc != RC_OK && rc != RC_STOPPED)
        return engine_complain("batch", &b->fault);
    fprintf(stderr, "%llu ok, %llu failed", (unsigned long long)ok, (unsigned long long)failed);
    if (b->skipped_count > 0)
        fprintf(stderr, " (%llu of them from before)", (unsigned long long)b->skipped_count);
    fprintf(stderr, "%s\n", rc == RC_STOPPED ? "; stopped, start it again to go on" : "");
    if (rc == RC_OK && failed > 0)
        rc = RC_PARTIAL;
    return rc_exit_status(rc);
}

int cmd_batch(int argc, char **argv)
{
    struct batch_options o = { 0 };
    struct engine_options options = engine_options_default();
    struct sampling_options sampling = sampling_options_default();
    struct option_group groups[] = {
        { "files", batch_rows, sizeof batch_rows / sizeof batch_rows[0], &o },
        { "generation, where a line does not say it", sampling_option_rows, sampling_option_count,
          &sampling },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = {
        "batch",
        "-m MODEL -i IN.jsonl -o OUT.jsonl",
        "Answers a file of requests, several at a time; can be stopped at any "
        "moment and started again.",
        groups,
        3,
        NULL,
        0,
        0
    };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    if (o.input == NULL || o.output == NULL) {
        fprintf(stderr, "quire batch: %s is missing (see quire batch --help)\n",
                o.input == NULL ? "-i" : "-o");
        return rc_exit_status(RC_USAGE);
    }
    interrupt_install();
    struct batch_job b = { .in.fd = -1, .out.fd = -1 };
    struct engine e;
    uint32_t job_max = options.rows_max * 2 + 2;
    struct engine_needs needs = { .thread = true, .requests_max = job_max + CHOICES_MAX };
    b.engine = &e;
    enum rc rc = batch_file_open(&b.out, o.output, &b.fault);
    if (rc == RC_OK)
        rc = open_input(&b, o.input);
    if (rc == RC_OK && (rc = engine_open(&e, &options, &needs, &b.fault)) == RC_OK) {
        rc = open_batch(&b, &sampling, job_max);
        if (rc == RC_OK)
            rc = run_jobs(&b);
        status = report(&b, rc);
        close_batch(&b);
        engine_close(&e);
        return status;
    }
    status = engine_complain("batch", &b.fault);
    close_batch(&b);
    return status;
}
