/* SPDX-License-Identifier: MIT */
/* cmd_logits - the logits of every position of a list of tokens, as raw float32, through the same
 * scheduler and paged cache that answers requests.
 * --rows N adds N - 1 copies of the tokens, each turned by one more place, as neighbours: all are
 * submitted before the first step and get the same chunks, so each step holds rows of all of them.
 * Only the first one's logits are written; what the neighbours are may not change a bit of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/mem.h"
#include "frontend/commands.h"
#include "frontend/engine.h"
#include "frontend/input.h"

struct logits_options {
    const char *tokens, *output;
    uint32_t rows;
};

#define AT(member) offsetof(struct logits_options, member)
static const struct option logits_rows[] = {
    { "--tokens", OPTION_TEXT, AT(tokens), 0, 0, "FILE", NULL,
      "token ids, separated by blanks or commas; - is stdin" },
    { "-o --output", OPTION_TEXT, AT(output), 0, 0, "FILE", NULL,
      "float32 logits, [position][vocabulary]" },
    { "--rows", OPTION_U32, AT(rows), 1, 1024, "N", NULL,
      "sequences that run in the same steps, the others being turned copies" },
};

struct sink {
    int fd;
    size_t row_bytes;
    int os_errno; /* of the first write that failed */
};

static void take_logits(void *ctx, uint32_t position, const float *logits)
{
    struct sink *s = ctx;
    size_t done = 0;
    while (done < s->row_bytes && s->os_errno == 0) {
        off_t at = (off_t)(position * s->row_bytes + done);
        ssize_t n = pwrite(s->fd, (const char *)logits + done, s->row_bytes - done, at);
        if (n < 0 && errno != EINTR)
            s->os_errno = errno;
        done += n > 0 ? (size_t)n : 0;
    }
}

static enum rc submit_copy(struct engine *e, int32_t *turned, const int32_t *ids, uint32_t count,
                           uint32_t by, struct sink *sink, struct fault *fault)
{
    for (uint32_t i = 0; i < count; i++)
        turned[i] = ids[(i + by) % count];
    struct request_params p = { .prompt = turned,
                                .prompt_count = count,
                                .sampling = sampling_default(),
                                .on_logits = by == 0 ? take_logits : NULL,
                                .on_logits_ctx = sink };
    struct request *r;
    return sched_submit(&r, e->sched, &p, fault);
}

static enum rc run_copies(struct engine *e, const int32_t *ids, uint32_t count, uint32_t rows,
                          struct sink *sink, struct fault *fault)
{
    int32_t *turned = mem_alloc_array(count, sizeof *turned);
    enum rc rc = turned != NULL ? RC_OK : fault_set(fault, RC_NO_MEMORY, "out of memory");
    for (uint32_t by = 0; by < rows && rc == RC_OK; by++)
        rc = submit_copy(e, turned, ids, count, by, sink, fault);
    mem_free(turned);
    if (rc != RC_OK)
        return rc;
    while (sched_step(e->sched))
        continue;
    for (uint32_t ended = 0; ended < rows;) {
        struct request *r = sched_next_event(e->sched, 0);
        if (r == NULL)
            return fault_set(fault, RC_IO, "the scheduler stopped before the end");
        if (request_finish(r) == FINISH_NONE)
            continue;
        if (request_finish(r) == FINISH_ERROR)
            rc = fault_set(fault, request_error(r), "the model run failed: %s",
                           rc_text(request_error(r)));
        ended++;
        sched_release(e->sched, r);
    }
    errno = sink->os_errno;
    return rc == RC_OK && errno != 0 ? fault_set_errno(fault, RC_IO, "-o cannot be written") : rc;
}

/* Context and pool are as large as the tokens need, unless flags say otherwise. */
static void size_engine(struct engine_options *o, uint32_t count, uint32_t rows)
{
    uint32_t blocks = (count + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    o->rows_max = rows;
    if (o->ctx_tokens == 0)
        o->ctx_tokens = count;
    if (o->kv_tokens == 0)
        o->kv_tokens = blocks * KV_BLOCK_TOKENS * rows;
    if (o->chunk_tokens > count)
        o->chunk_tokens = count;
}

/* The ids are checked against the vocabulary only once the model is open; their count is needed
 * before. */
static enum rc run_logits(struct engine_options *options, const struct logits_options *o,
                          const struct text *text, struct fault *fault)
{
    int32_t *ids = NULL;
    uint32_t count;
    struct sink sink = { .fd = -1 };
    struct engine e = { 0 };
    enum rc rc = input_parse_ids(&ids, &count, text, MODEL_VOCAB_MAX, "--tokens", fault);
    if (rc == RC_OK && count > CTX_TOKENS_MAX)
        rc = fault_set(fault, RC_USAGE, "--tokens: %u ids, at most %u", count, CTX_TOKENS_MAX);
    if (rc == RC_OK) {
        size_engine(options, count, o->rows);
        struct engine_needs needs = { .requests_max = o->rows,
                                      .outputs_max = options->chunk_tokens,
                                      .step_prefill_tokens = o->rows * options->chunk_tokens };
        rc = engine_open(&e, options, &needs, fault);
    }
    if (rc == RC_OK) {
        sink.row_bytes = e.model->vocab_count * sizeof(float);
        sink.fd = open(o->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (sink.fd < 0)
            rc = fault_set_errno(fault, RC_IO, "-o %.100s cannot be opened", o->output);
        else
            rc = run_copies(&e, ids, count, o->rows, &sink, fault);
        if (rc == RC_INVALID || rc == RC_LIMIT)
            rc = fault->code = RC_USAGE;
        if (sink.fd >= 0 && close(sink.fd) != 0 && rc == RC_OK)
            rc = fault_set_errno(fault, RC_IO, "-o %.100s cannot be written", o->output);
        engine_close(&e);
    }
    mem_free(ids);
    return rc;
}

int cmd_logits(int argc, char **argv)
{
    struct logits_options o = { .rows = 1 };
    struct engine_options options = engine_options_default();
    struct option_group groups[] = {
        { "logits", logits_rows, sizeof logits_rows / sizeof logits_rows[0], &o },
        { "engine", engine_option_rows, engine_option_count, &options },
    };
    struct option_set set = { "logits",
                              "-m MODEL --tokens FILE -o OUT.f32",
                              "Writes the logits of every position of a list of tokens.",
                              groups,
                              2,
                              NULL,
                              0,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    struct fault fault;
    struct text text = { 0 };
    enum rc rc;
    if (o.tokens == NULL || o.output == NULL)
        rc = fault_set(&fault, RC_USAGE, "%s is missing", o.tokens == NULL ? "--tokens" : "-o");
    else
        rc = input_read(&text, o.tokens, "--tokens", &fault);
    if (rc == RC_OK)
        rc = run_logits(&options, &o, &text, &fault);
    text_close(&text);
    return rc == RC_OK ? 0 : engine_complain("logits", &fault);
}
