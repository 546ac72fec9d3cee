/* SPDX-License-Identifier: MIT */
/* batch_job - see batch_job.h. */
#include "frontend/batch/batch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"
#include "frontend/batch/batch_tell.h"
#include "frontend/interrupt.h"

enum { SYNC_US = 2000000, WAITING_BYTES_MAX = 64 << 20 };

static uint64_t now_us(const struct batch_job *b)
{
    return clock_now_us(&b->clock);
}

/* Writes a row where it belongs; takes the reference over. */
static enum rc write_row(struct batch_job *b, json_t *row)
{
    bool failed = row != NULL && batch_row_failed(row);
    if (failed)
        b->counts.failed++;
    else
        b->counts.ok++;
    if (b->options->check) {
        json_decref(row);
        return RC_OK;
    }
    enum rc rc = batch_file_put(failed && b->err.fd >= 0 ? &b->err : &b->out, row, &b->fault);
    if (rc == RC_IO && (b->fault.os_errno == ENOSPC || b->fault.os_errno == EDQUOT))
        rc = b->fault.code = RC_STOPPED;
    return rc;
}

static void free_line(struct batch_job *b, struct batch_line *line)
{
    json_decref(line->answer);
    batch_row_close(&line->row);
    *line = (struct batch_line){ 0 };
    b->live_count--;
}

static void close_work(struct batch_job *b, struct batch_line *line)
{
    if (line->work != NULL)
        b->way->close(b, line);
    line->work = NULL;
}

/* Rows whose turn has come. */
static enum rc write_in_order(struct batch_job *b)
{
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < b->line_max && rc == RC_OK; i++) {
        struct batch_line *line = &b->lines[i];
        if (line->state != LINE_DONE || line->order != b->order_written)
            continue;
        json_t *row = line->answer;
        line->answer = NULL;
        b->order_written++;
        free_line(b, line);
        rc = write_row(b, row);
        i = UINT32_MAX; /* the next one may stand anywhere */
    }
    return rc;
}

/* The line has its row: written now, or kept until those before it are there. */
static enum rc end_line(struct batch_job *b, struct batch_line *line, json_t *row)
{
    if (line->state == LINE_RUNNING)
        b->run_count--;
    else if (line->state == LINE_WAITING)
        b->waiting_bytes -= line->bytes;
    close_work(b, line);
    b->counts.done_bytes += line->bytes;
    if (b->options->ordered) {
        if (row == NULL)
            return fault_set(&b->fault, RC_NO_MEMORY, "out of memory");
        line->answer = row;
        line->state = LINE_DONE;
        return write_in_order(b);
    }
    enum rc rc = write_row(b, row);
    free_line(b, line);
    return rc;
}

/* A line has ended. */
static enum rc finish_line(struct batch_job *b, struct batch_line *line)
{
    if (b->pending == line)
        b->pending = NULL;
    return end_line(b, line, b->way->row(b, line));
}

static enum rc start_line(struct batch_job *b, struct batch_line *line)
{
    enum rc rc = b->way->start(b, line);
    b->pending = rc == RC_FULL ? line : NULL;
    if (rc == RC_END)
        return finish_line(b, line);
    return rc == RC_FULL ? RC_OK : rc;
}

void batch_job_put_back(struct batch_job *b, struct batch_line *line)
{
    line->state = LINE_WAITING;
    line->waited = BATCH_WAITED_MAX;
    b->waiting_bytes += line->bytes;
    b->run_count--;
}

/* Makes the request of a row whose line is good so far. */
static enum rc open_request(struct batch_job *b, struct batch_line *line, struct api_error *error)
{
    const struct batch_row *row = &line->row;
    if (json_is_true(json_object_get(row->body, "stream")))
        return api_error_set(error, 400, "not_supported", "stream",
                             "line %llu: stream must be false in a batch",
                             (unsigned long long)row->line);
    return b->way->open(b, line, error);
}

/* *again: the line needs no row of this run. */
static enum rc check_key(struct batch_job *b, const struct batch_row *row, bool *again,
                         struct api_error *error)
{
    bool added = true, by_id = row->custom_id != NULL;
    const char *id = json_string_value(row->custom_id);
    size_t len = json_string_length(row->custom_id);
    *again = false;
    if (by_id && key_set_add_id(&b->seen, id, len, &added) != RC_OK)
        return api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    if (!added)
        return api_error_set(error, 400, "duplicate_custom_id", "custom_id",
                             "line %llu: custom_id '%.60s' was there before",
                             (unsigned long long)row->line, id);
    const struct key_set *sets[] = { &b->out.done, &b->err.done, &b->retry };
    bool found[3];
    for (int i = 0; i < 3; i++)
        found[i] = by_id ? key_set_has_id(sets[i], id, len) : key_set_has_line(sets[i], row->line);
    *again = found[0] || found[1] || (b->options->retry_errors && !found[2]);
    return RC_OK;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static struct batch_line *take_slot(struct batch_job *b)
{
    for (uint32_t i = 0; i < b->line_max; i++) {
        if (b->lines[i].state == LINE_FREE) {
            b->live_count++;
            return &b->lines[i];
        }
    }
    must(false);
    return NULL;
}

/* The row of a line that may be too long, or no JSON. */
static enum rc read_row(struct batch_job *b, enum rc read, const char *text, size_t len,
                        struct batch_row *row, bool *again, struct api_error *error)
{
    uint64_t number = b->in.line_number;
    if (read == RC_LIMIT) {
        *row = (struct batch_row){ .line = number };
        *again = key_set_has_line(&b->out.done, number) || key_set_has_line(&b->err.done, number);
        return api_error_set(error, 400, "line_too_long", NULL, "line %llu is longer than %u bytes",
                             (unsigned long long)number, BODY_BYTES_MAX);
    }
    enum rc rc =
        batch_row_open(row, number, (enum batch_format)b->options->format, text, len, error);
    struct api_error key_error;
    enum rc key = check_key(b, row, again, &key_error);
    if (key == RC_OK)
        return rc;
    row->custom_id = NULL; /* the row must not carry an id that another row has */
    *again = key_set_has_line(&b->out.done, number) || key_set_has_line(&b->err.done, number);
    *error = key_error;
    return key;
}

/* One line: skipped, an error row, or a line of the window. */
static enum rc take_line(struct batch_job *b, enum rc read, const char *text, size_t len)
{
    struct api_error error;
    struct batch_row row;
    bool again = false;
    if (b->options->shard_count > 1 &&
        (b->in.line_number - 1) % b->options->shard_count != b->options->shard_index) {
        b->counts.others++;
        b->counts.skipped_bytes += len + 1;
        return RC_OK;
    }
    enum rc rc = read_row(b, read, text, len, &row, &again, &error);
    if (again) {
        b->counts.skipped++;
        b->counts.skipped_bytes += len + 1;
        batch_row_close(&row);
        return RC_OK;
    }
    struct batch_line *line = take_slot(b);
    *line = (struct batch_line){
        .state = LINE_WAITING, .row = row, .bytes = len + 1, .order = b->order_next++
    };
    b->waiting_bytes += line->bytes;
    if (rc == RC_OK)
        rc = open_request(b, line, &error);
    if (rc != RC_OK)
        return end_line(b, line, batch_row_error(&line->row, &error));
    if (!b->options->check)
        return RC_OK;
    b->counts.prompt_tokens += line->prompt_tokens;
    b->counts.output_tokens += line->output_tokens_max;
    return end_line(b, line, batch_row_answer(&line->row, json_object()));
}

/* Fills the window. Waits for input only when nothing is there to do. */
static enum rc read_lines(struct batch_job *b)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && !b->input_ended && b->live_count < b->line_max &&
           b->waiting_bytes < WAITING_BYTES_MAX && interrupt_signal() == 0) {
        const char *text;
        size_t len;
        bool whole;
        enum rc read = line_reader_next(&b->in, b->live_count > 0 ? 0 : 200, &text, &len, &whole);
        if (read == RC_AGAIN)
            return RC_OK;
        if (read == RC_OK && b->in.line_number == 1 && len >= 3 &&
            memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, as Windows writes it */
            text += 3;
            len -= 3;
        }
        if (read == RC_END)
            b->input_ended = true;
        else if (read == RC_CORRUPT)
            rc = fault_set(&b->fault, RC_IO, "-i: the packed stream is broken or cut off");
        else if (read != RC_OK && read != RC_LIMIT)
            rc = fault_set_errno(&b->fault, read, "-i cannot be read");
        else if (read == RC_LIMIT || !is_blank(text, len))
            rc = take_line(b, read, text, len);
    }
    return rc;
}

static enum rc start_lines(struct batch_job *b)
{
    enum rc rc = RC_OK;
    if (b->pending != NULL)
        rc = start_line(b, b->pending);
    while (rc == RC_OK && b->pending == NULL && b->run_count < b->run_max) {
        struct batch_line *line = batch_window_next(b);
        if (line == NULL)
            return RC_OK;
        b->waiting_bytes -= line->bytes;
        line->state = LINE_RUNNING;
        b->run_count++;
        rc = start_line(b, line);
    }
    return rc;
}

static enum rc take_ends(struct batch_job *b)
{
    struct batch_line *line;
    enum rc rc = b->way->next(b, 20000, &line);
    while (rc == RC_OK && line != NULL) {
        rc = finish_line(b, line);
        if (rc == RC_OK)
            rc = b->way->next(b, 0, &line);
    }
    return rc;
}

/* Everything in flight is given up; its rows are not written. */
static void cancel_lines(struct batch_job *b)
{
    b->pending = NULL;
    for (uint32_t i = 0; i < b->line_max; i++) {
        struct batch_line *line = &b->lines[i];
        bool running = line->state == LINE_RUNNING;
        if (line->state == LINE_FREE || (running && !b->way->cancel(b, line)))
            continue;
        b->run_count -= running;
        close_work(b, line);
        free_line(b, line);
    }
    while (b->run_count > 0) {
        struct batch_line *line;
        if (b->way->next(b, 20000, &line) == RC_OK && line != NULL) {
            b->run_count--;
            close_work(b, line);
            free_line(b, line);
        }
    }
}

/* After a signal nothing new begins; what runs has a while to end. */
static bool goes_on(const struct batch_job *b, uint64_t *stop_us)
{
    if (b->input_ended && b->live_count == 0)
        return false;
    if (interrupt_signal() == 0)
        return true;
    uint64_t now = now_us(b);
    if (*stop_us == 0)
        *stop_us = now + (uint64_t)b->options->grace_s * 1000000;
    return now < *stop_us && b->run_count > 0;
}

/* Room for the ids of all lines, so that a long job takes no more memory in the end than it does
 * soon. How many lines there are is judged by the first ones; a packed input (it has zero bytes)
 * says nothing. */
static enum rc reserve_ids(struct batch_job *b)
{
    enum { LOOK_BYTES = 65536 };
    char *head = mem_alloc_raw(LOOK_BYTES);
    ssize_t got = head != NULL && b->input_bytes > 0 ? pread(b->in.fd, head, LOOK_BYTES, 0) : 0;
    uint64_t count = 0;
    for (ssize_t i = 0; i < got; i++)
        count += head[i] == '\n';
    if (got > 0 && memchr(head, 0, (size_t)got) == NULL)
        count = b->input_bytes / (uint64_t)got * count;
    else
        count = 0;
    mem_free(head);
    return key_set_reserve(&b->seen,
                           count / (b->options->shard_count > 0 ? b->options->shard_count : 1));
}

enum rc batch_job_run(struct batch_job *b)
{
    enum rc rc = reserve_ids(b);
    uint64_t stop_us = 0;
    if (rc != RC_OK)
        return fault_set(&b->fault, rc, "out of memory");
    b->started_us = b->told_us = now_us(b);
    while (rc == RC_OK && goes_on(b, &stop_us)) {
        rc = read_lines(b);
        if (rc == RC_OK && interrupt_signal() == 0)
            rc = start_lines(b);
        if (rc == RC_OK && b->run_count > 0)
            rc = take_ends(b);
        if (rc == RC_OK)
            rc = batch_file_sync(&b->out, now_us(b), SYNC_US, &b->fault);
        if (rc == RC_OK)
            rc = batch_file_sync(&b->err, now_us(b), SYNC_US, &b->fault);
        batch_tell(b, false);
    }
    bool finished = b->input_ended && b->live_count == 0;
    cancel_lines(b);
    if (rc == RC_OK)
        rc = batch_file_sync(&b->out, now_us(b), 0, &b->fault);
    if (rc == RC_OK)
        rc = batch_file_sync(&b->err, now_us(b), 0, &b->fault);
    batch_tell(b, true);
    if (rc == RC_OK && !finished)
        rc = fault_set(&b->fault, RC_STOPPED, "a signal came");
    return rc;
}

enum rc batch_job_defaults(struct batch_job *b, struct sampling_options *sampling,
                           uint32_t vocab_count, struct completion_params *bare,
                           struct completion_params *line, struct completion_params *chat)
{
    *bare = completion_params_default();
    bare->max_tokens = 128;
    enum rc rc = sampling_options_apply(sampling, bare, vocab_count, &b->fault);
    *line = *chat = *bare;
    if (sampling->predict == -2) {
        line->max_tokens = completion_params_default().max_tokens;
        chat->max_tokens = -1;
    }
    return rc;
}

enum rc batch_job_open_input(struct batch_job *b, const char *path)
{
    int fd = STDIN_FILENO;
    struct stat in, out;
    if (strcmp(path, "-") != 0)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set_errno(&b->fault, RC_USAGE, "-i %.100s cannot be opened", path);
    line_reader_open(&b->in, fd, BODY_BYTES_MAX);
    if (fstat(fd, &in) != 0)
        return fault_set_errno(&b->fault, RC_USAGE, "-i %.100s", path);
    if (S_ISDIR(in.st_mode))
        return fault_set(&b->fault, RC_USAGE, "-i %.100s is a folder", path);
    if (S_ISREG(in.st_mode))
        b->input_bytes = (uint64_t)in.st_size;
    const struct batch_file *files[] = { &b->out, &b->err };
    for (int i = 0; i < 2 && S_ISREG(in.st_mode); i++)
        if (files[i]->fd >= 0 && files[i]->regular && fstat(files[i]->fd, &out) == 0 &&
            in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return fault_set(&b->fault, RC_USAGE, "-i and %s are the same file", files[i]->flag);
    return RC_OK;
}

void batch_job_close(struct batch_job *b)
{
    line_reader_close(&b->in);
    batch_file_close(&b->out);
    batch_file_close(&b->err);
    key_set_close(&b->seen);
    key_set_close(&b->retry);
    text_close(&b->last);
    json_decref(b->stamp);
    mem_free(b->lines);
}
