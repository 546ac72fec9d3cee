/* SPDX-License-Identifier: MIT */
/* journal - one step in the file:
 *
 *   T now  (R request | C order)*  [G]  S  (t now | O rc | E ends)*  P hash ... tokens  T now
 *
 * The inbox stands before S, so that a replay can fill its own before it takes the step. All is
 * written before the step is planned: what a crash leaves behind ends with the step that crashed.
 * Of a plan a hash and its size are kept, of its results what the scheduler looks at: code, pace,
 * tokens. */
#include "sched/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"

#define FIRST_LINE "quire events 2\n"
#define HEAD_BYTES 2048u
#define DEPTH_MAX 64u /* transfers under way that a replay believes in */
#define FILE_BUFFER_BYTES 65536u

/* A clock: the scheduler's, or the store's. */
struct timeline {
    struct journal *journal;
    enum journal_kind kind;
    struct clock inner;
    uint64_t now_us;
};

struct journal {
    FILE *file;
    bool playing;
    bool held; /* the time that was read last is still to be given out */
    bool ended;
    struct timeline step_time, store_time;
    struct executor executor;
    struct executor_pace pace; /* of the last step */
    struct blockio io;
    uint64_t busy; /* transfers under way, a bit each */
    char difference[200];
    char buffer[FILE_BUFFER_BYTES];
};

/* A value of a head, found by its name. */
struct field {
    const char *name;
    size_t offset, bytes;
};
#define FIELD(type, member)                                                                        \
    {                                                                                              \
#member, offsetof(type, member), sizeof(((type *)0)->member)                               \
    }

static const struct field pool_fields[] = {
    FIELD(struct journal_pool, block_count),
    FIELD(struct journal_pool, block_bytes),
    FIELD(struct journal_pool, hash_seed),
};

static const struct field store_fields[] = {
    FIELD(struct store_config, io.depth),
    FIELD(struct store_config, slot_count),
    FIELD(struct store_config, write_bytes_day),
    FIELD(struct store_config, chaos_io),
    FIELD(struct store_config, keep),
    FIELD(struct store_config, io.seed),
    FIELD(struct store_config, io.day_bytes),
    FIELD(struct store_config, io.day_age_us),
};

static const struct field sched_fields[] = {
    FIELD(struct journal_sched, config.ctx_tokens),
    FIELD(struct journal_sched, config.rows_max),
    FIELD(struct journal_sched, config.rows_calm),
    FIELD(struct journal_sched, config.chunk_tokens),
    FIELD(struct journal_sched, config.step_prefill_tokens),
    FIELD(struct journal_sched, config.itl_us),
    FIELD(struct journal_sched, config.requests_max),
    FIELD(struct journal_sched, config.patience_us),
    FIELD(struct journal_sched, config.no_prefix_cache),
    FIELD(struct journal_sched, config.pin_tokens),
    FIELD(struct journal_sched, config.pin_tenant_tokens),
    FIELD(struct journal_sched, config.chaos_preempt_steps),
    FIELD(struct journal_sched, config.chaos_alloc),
    FIELD(struct journal_sched, limits.rows_max),
    FIELD(struct journal_sched, limits.outputs_max),
    FIELD(struct journal_sched, limits.vocab_count),
    FIELD(struct journal_sched, limits.ctx_max),
};
#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static enum rc open_file(struct journal **out, const char *path, bool playing, struct fault *fault)
{
    struct journal *j = mem_alloc(sizeof *j);
    *out = NULL;
    if (j == NULL)
        return fault_set(fault, RC_NO_MEMORY, "journal: out of memory");
    j->playing = playing;
    j->file = fopen(path, playing ? "rbe" : "wbe");
    if (j->file == NULL) {
        enum rc rc = fault_set_errno(fault, errno == ENOENT ? RC_NOT_FOUND : RC_IO, "%s", path);
        mem_free(j);
        return rc;
    }
    must(setvbuf(j->file, j->buffer, _IOFBF, sizeof j->buffer) == 0);
    *out = j;
    return RC_OK;
}

enum rc journal_create(struct journal **out, const char *path, struct fault *fault)
{
    enum rc rc = open_file(out, path, false, fault);
    if (rc == RC_OK)
        fputs(FIRST_LINE, (*out)->file);
    return rc;
}

enum rc journal_open(struct journal **out, const char *path, struct fault *fault)
{
    char line[sizeof FIRST_LINE] = { 0 };
    enum rc rc = open_file(out, path, true, fault);
    if (rc != RC_OK)
        return rc;
    if (fread(line, 1, sizeof line - 1, (*out)->file) == sizeof line - 1 &&
        strcmp(line, FIRST_LINE) == 0)
        return RC_OK;
    journal_close(*out);
    *out = NULL;
    return fault_set(fault, RC_CORRUPT, "%s: not a log of events of this version", path);
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    (void)fclose(j->file);
    mem_free(j);
}

bool journal_failed(const struct journal *j)
{
    return ferror(j->file) != 0;
}

const char *journal_difference(const struct journal *j)
{
    return j->difference[0] != '\0' ? j->difference : NULL;
}

void journal_set_difference(struct journal *j, const char *fmt, ...)
{
    if (j->difference[0] != '\0')
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(j->difference, sizeof j->difference, fmt, args);
    va_end(args);
}

/* Integers, seven bits a byte, low ones first. */
static void put(struct journal *j, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        putc_unlocked((int)(value & 127) | 128, j->file);
    putc_unlocked((int)value, j->file);
}

static void put_kind(struct journal *j, enum journal_kind kind)
{
    putc_unlocked((int)kind, j->file);
}

uint64_t journal_take_value(struct journal *j)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        int c = getc_unlocked(j->file);
        if (c == EOF)
            break;
        value |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return value;
    }
    j->ended = true;
    return 0;
}

enum journal_kind journal_next(struct journal *j)
{
    int c = getc_unlocked(j->file);
    if (c == EOF || j->ended)
        return JOURNAL_END;
    ungetc(c, j->file);
    return (enum journal_kind)c;
}

/* Whether what comes next is of this kind; steps over its letter. */
static bool take_kind(struct journal *j, enum journal_kind kind)
{
    enum journal_kind next = journal_next(j);
    if (next == kind && !j->ended && j->difference[0] == '\0') {
        (void)getc_unlocked(j->file);
        return true;
    }
    if (next == JOURNAL_END)
        j->ended = true;
    else
        journal_set_difference(j, "the scheduler wants '%c', the log has '%c'", (int)kind,
                               (int)next);
    return false;
}

static void put_fields(struct journal *j, enum journal_kind kind, const struct field *fields,
                       size_t count, const void *base)
{
    put_kind(j, kind);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)base + fields[i].offset, fields[i].bytes);
        fprintf(j->file, " %s=%" PRIu64, fields[i].name, value);
    }
    putc_unlocked('\n', j->file);
}

/* Little-endian like everything quire runs on. All fields must be there, no others. */
static bool take_fields(struct journal *j, enum journal_kind kind, const struct field *fields,
                        size_t count, void *base)
{
    char line[HEAD_BYTES];
    if (!take_kind(j, kind) || fgets(line, sizeof line, j->file) == NULL)
        return false;
    struct str rest = str_trim(str_of(line)), word, name;
    size_t seen = 0;
    for (; str_cut(&rest, ' ', &word); seen++) {
        uint64_t value, most = UINT64_MAX;
        if (seen == count || !str_cut(&word, '=', &name) ||
            !str_equal(name, str_of(fields[seen].name)))
            return false;
        most >>= 64 - 8 * fields[seen].bytes;
        if (!str_parse_u64(word, 0, most, &value))
            return false;
        memcpy((char *)base + fields[seen].offset, &value, fields[seen].bytes);
    }
    return seen == count;
}

void journal_put_pool(struct journal *j, const struct journal_pool *head)
{
    put_fields(j, JOURNAL_POOL, pool_fields, COUNT_OF(pool_fields), head);
}

void journal_put_sched(struct journal *j, const struct journal_sched *head)
{
    put_fields(j, JOURNAL_SCHED, sched_fields, COUNT_OF(sched_fields), head);
}

bool journal_take_pool(struct journal *j, struct journal_pool *head)
{
    return take_fields(j, JOURNAL_POOL, pool_fields, COUNT_OF(pool_fields), head);
}

bool journal_take_store(struct journal *j, struct store_config *config)
{
    return take_fields(j, JOURNAL_STORE, store_fields, COUNT_OF(store_fields), config) &&
           config->io.depth > 0 && config->io.depth <= DEPTH_MAX && config->slot_count > 0 &&
           config->slot_count <= KVPOOL_BLOCKS_MAX;
}

bool journal_take_sched(struct journal *j, struct journal_sched *head)
{
    const struct executor_limits *l = &head->limits;
    return take_fields(j, JOURNAL_SCHED, sched_fields, COUNT_OF(sched_fields), head) &&
           l->rows_max <= STEP_ROWS_MAX && l->outputs_max <= STEP_ROWS_MAX && l->vocab_count > 0 &&
           l->vocab_count <= INT32_MAX && l->ctx_max <= CTX_TOKENS_MAX;
}

static uint64_t read_clock(void *ctx)
{
    struct timeline *t = ctx;
    struct journal *j = t->journal;
    if (!j->playing) {
        uint64_t now_us = clock_now_us(&t->inner);
        put_kind(j, t->kind);
        put(j, now_us - t->now_us);
        t->now_us = now_us;
    } else if (j->held && t == &j->step_time) {
        j->held = false;
    } else if (take_kind(j, t->kind)) {
        t->now_us += journal_take_value(j);
    }
    return t->now_us;
}

void journal_hold_time(struct journal *j)
{
    if (j->held) {
        journal_set_difference(j, "two times without a step between them");
        return;
    }
    (void)read_clock(&j->step_time);
    j->held = true;
}

static struct clock timeline_clock(struct timeline *t, struct journal *j, enum journal_kind kind,
                                   struct clock inner)
{
    *t = (struct timeline){ .journal = j, .kind = kind, .inner = inner };
    return (struct clock){ t, read_clock };
}

struct clock journal_clock(struct journal *j, struct clock inner)
{
    return timeline_clock(&j->step_time, j, JOURNAL_TIME, inner);
}

static uint64_t hash_words(uint64_t hash, const void *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, (const char *)words + i * sizeof word, sizeof word);
        hash = (hash ^ word) * 0x9fb21c651e98df25u;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t hash_plan(const struct batch *b)
{
    uint64_t hash = hash_words(b->step, b->tokens, b->row_count);
    for (uint32_t i = 0; i < b->span_count; i++) {
        const struct batch_span *span = &b->spans[i];
        uint32_t words[] = { span->row_begin, span->row_count, span->pos_begin };
        hash = hash_words(hash, words, COUNT_OF(words));
        hash = hash_words(hash, span->table, span->table_count);
    }
    hash = hash_words(hash, b->copies, b->copy_count * sizeof *b->copies / 4);
    for (uint32_t i = 0; i < b->output_count; i++) {
        const struct batch_output *o = &b->outputs[i];
        uint32_t words[] = { o->row, o->sample, o->logits, (uint32_t)o->target, o->history_count };
        hash = hash_words(hash, words, COUNT_OF(words));
    }
    return hash;
}

static enum rc record_run(struct journal *j, const struct batch *b, struct batch_result *results)
{
    enum rc rc = j->executor.run(j->executor.ctx, b, results);
    put_kind(j, JOURNAL_RESULT);
    put(j, hash_plan(b));
    put(j, b->row_count);
    put(j, b->span_count);
    put(j, rc);
    if (j->executor.pace != NULL)
        j->pace = j->executor.pace(j->executor.ctx);
    put(j, j->pace.read_us);
    put(j, j->pace.wait_us);
    for (uint32_t i = 0; i < b->output_count && rc == RC_OK; i++)
        if (b->outputs[i].sample)
            put(j, (uint64_t)results[i].token);
    return rc;
}

static enum rc play_run(struct journal *j, const struct batch *b, struct batch_result *results)
{
    if (!take_kind(j, JOURNAL_RESULT))
        return RC_IO;
    uint64_t hash = journal_take_value(j), rows = journal_take_value(j);
    uint64_t spans = journal_take_value(j), rc = journal_take_value(j);
    j->pace.read_us = journal_take_value(j);
    j->pace.wait_us = journal_take_value(j);
    if (!j->ended && (hash != hash_plan(b) || rc >= RC_COUNT)) {
        journal_set_difference(
            j, "the plan has %u rows of %u sequences, the log one of %" PRIu64 " rows of %" PRIu64,
            b->row_count, b->span_count, rows, spans);
        return RC_IO;
    }
    for (uint32_t i = 0; i < b->output_count && rc == RC_OK; i++) {
        results[i] = (struct batch_result){ .token = -1 };
        if (!b->outputs[i].sample)
            continue;
        uint64_t token = journal_take_value(j);
        if (token >= j->executor.limits.vocab_count)
            journal_set_difference(j, "token %" PRIu64 " is not in the vocabulary", token);
        results[i].token = token < j->executor.limits.vocab_count ? (int32_t)token : 0;
    }
    return j->ended ? RC_IO : (enum rc)rc;
}

static enum rc run(void *ctx, const struct batch *b, struct batch_result *results)
{
    struct journal *j = ctx;
    return j->playing ? play_run(j, b, results) : record_run(j, b, results);
}

static struct executor_pace pace(void *ctx)
{
    const struct journal *j = ctx;
    return j->pace;
}

/* They are not written down: nothing that is planned depends on them. */
static const float *hidden(void *ctx, uint32_t index)
{
    const struct journal *j = ctx;
    return j->playing ? NULL : j->executor.hidden(j->executor.ctx, index);
}

struct executor journal_executor(struct journal *j, struct executor inner)
{
    j->executor = inner;
    bool shows = j->playing || inner.hidden != NULL;
    return (struct executor){ j, inner.limits, run, pace, shows ? hidden : NULL };
}

static enum rc start_transfer(void *ctx, bool write, uint32_t slot, uint32_t block, uint32_t tag)
{
    struct journal *j = ctx;
    enum rc rc = RC_IO;
    if (!j->playing) {
        rc = j->io.start(j->io.ctx, write, slot, block, tag);
        put_kind(j, JOURNAL_START);
        put(j, rc);
    } else if (take_kind(j, JOURNAL_START)) {
        uint64_t value = journal_take_value(j);
        rc = value < RC_COUNT && !j->ended ? (enum rc)value : RC_IO;
    } else {
        rc = RC_OK; /* nobody knows any more: it is going to fail */
    }
    if (j->playing)
        j->busy |= (uint64_t)(rc == RC_OK) << tag % DEPTH_MAX;
    return rc;
}

/* Where the log says nothing any more, what is under way fails, so that a store can be closed. */
static uint32_t fail_all(struct journal *j, struct blockio_end *out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t tag = 0; tag < DEPTH_MAX && count < max; tag++)
        if ((j->busy >> tag & 1) != 0)
            out[count++] = (struct blockio_end){ tag, RC_IO };
    for (uint32_t i = 0; i < count; i++)
        j->busy &= ~((uint64_t)1 << out[i].tag);
    return count;
}

static uint32_t play_ends(struct journal *j, struct blockio_end *out, uint32_t max)
{
    if (!take_kind(j, JOURNAL_ENDS))
        return fail_all(j, out, max);
    uint64_t count = journal_take_value(j);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t tag = journal_take_value(j), rc = journal_take_value(j);
        if (j->ended || i >= max || tag >= DEPTH_MAX || rc >= RC_COUNT ||
            (j->busy >> tag & 1) == 0) {
            journal_set_difference(j, "a transfer ends that is not under way");
            return (uint32_t)i;
        }
        j->busy &= ~((uint64_t)1 << tag);
        out[i] = (struct blockio_end){ (uint32_t)tag, (enum rc)rc };
    }
    return (uint32_t)count;
}

static uint32_t collect_ends(void *ctx, struct blockio_end *out, uint32_t max, bool wait)
{
    struct journal *j = ctx;
    if (j->playing)
        return play_ends(j, out, max);
    uint32_t count = j->io.collect(j->io.ctx, out, max, wait);
    put_kind(j, JOURNAL_ENDS);
    put(j, count);
    for (uint32_t i = 0; i < count; i++) {
        put(j, out[i].tag);
        put(j, out[i].rc);
    }
    return count;
}

static bool recall_slot(void *ctx, uint32_t slot, struct block_record *out)
{
    struct journal *j = ctx;
    bool found = !j->playing && j->io.recall(j->io.ctx, slot, out);
    if (j->playing && take_kind(j, JOURNAL_RECALL)) {
        found = journal_take_value(j) != 0;
        *out = (struct block_record){ 0 }; /* the sum of no bytes */
        out->chain_a = found ? journal_take_value(j) : 0;
        out->chain_b = found ? journal_take_value(j) : 0;
        for (uint32_t i = 0; found && i < KV_BLOCK_TOKENS; i++)
            out->tokens[i] = (int32_t)journal_take_value(j);
    } else if (!j->playing) {
        put_kind(j, JOURNAL_RECALL);
        put(j, found);
        if (found) {
            put(j, out->chain_a);
            put(j, out->chain_b);
        }
        for (uint32_t i = 0; found && i < KV_BLOCK_TOKENS; i++)
            put(j, (uint64_t)out->tokens[i]);
    }
    return found && !j->ended;
}

static void note_slot(void *ctx, uint32_t slot, const struct block_record *record)
{
    struct journal *j = ctx;
    if (!j->playing && j->io.note != NULL)
        j->io.note(j->io.ctx, slot, record);
}

static void tell_spent(void *ctx, uint64_t day_bytes, uint64_t day_age_us)
{
    const struct journal *j = ctx;
    if (!j->playing && j->io.spent != NULL)
        j->io.spent(j->io.ctx, day_bytes, day_age_us);
}

void journal_store(struct journal *j, struct store_config *config)
{
    if (!j->playing) {
        must(config->io.depth <= DEPTH_MAX);
        put_fields(j, JOURNAL_STORE, store_fields, COUNT_OF(store_fields), config);
    }
    config->clock = timeline_clock(&j->store_time, j, JOURNAL_STORE_TIME, config->clock);
    j->io = config->io;
    config->io.ctx = j;
    config->io.start = start_transfer;
    config->io.collect = collect_ends;
    config->io.note = note_slot;
    config->io.spent = tell_spent;
    if (config->io.seed != 0) /* a file that outlives the process */
        config->io.recall = recall_slot;
}

void journal_note_request(struct journal *j, const struct request_params *p, uint64_t arrival_us,
                          uint64_t salt, bool cancelled)
{
    if (j->playing)
        return;
    put_kind(j, JOURNAL_REQUEST);
    put(j, (uint64_t)cancelled | (uint64_t)p->prompt_logprobs << 1 |
               (uint64_t)(p->on_logits != NULL) << 2 | (uint64_t)(p->on_hidden != NULL) << 3 |
               (uint64_t)p->pin << 4);
    put(j, arrival_us);
    put(j, salt);
    put(j, p->tenant);
    put(j, p->priority);
    put(j, p->ttft_us);
    put(j, p->deadline_us);
    put(j, p->max_tokens);
    put(j, p->stop_id_count);
    for (uint32_t i = 0; i < p->stop_id_count; i++)
        put(j, (uint64_t)p->stop_ids[i]);
    if (p->on_hidden != NULL)
        put(j, p->hidden_from);
    put(j, p->prompt_count);
    for (uint32_t i = 0; i < p->prompt_count; i++)
        put(j, (uint64_t)p->prompt[i]);
}

static enum rc say_corrupt(struct fault *fault, const char *what, uint64_t value)
{
    return fault_set(fault, RC_CORRUPT, "log of events: %s %" PRIu64 " of a request", what, value);
}

enum rc journal_take_request(struct journal *j, struct journal_request *r, int32_t *tokens,
                             uint32_t prompt_max, struct fault *fault)
{
    (void)getc_unlocked(j->file); /* the letter, seen by journal_next */
    *r = (struct journal_request){ .params = { .sampling = sampling_default() } };
    struct request_params *p = &r->params;
    uint64_t flags = journal_take_value(j);
    r->cancelled = (flags & 1) != 0;
    r->scores = (flags & 2) != 0;
    r->logits = (flags & 4) != 0;
    r->hidden = (flags & 8) != 0;
    p->pin = (flags & 16) != 0;
    r->arrival_us = journal_take_value(j);
    p->cache_salt = journal_take_value(j);
    p->tenant = journal_take_value(j);
    uint64_t priority = journal_take_value(j);
    if (priority > PRIORITY_SPARE)
        return say_corrupt(fault, "priority", priority);
    p->priority = (enum priority)priority;
    p->ttft_us = journal_take_value(j);
    p->deadline_us = journal_take_value(j);
    uint64_t max_tokens = journal_take_value(j), stop_ids = journal_take_value(j);
    p->max_tokens = (uint32_t)max_tokens;
    if (stop_ids > STOP_IDS_MAX)
        return say_corrupt(fault, "stop ids", stop_ids);
    p->stop_id_count = (uint32_t)stop_ids;
    for (uint32_t i = 0; i < p->stop_id_count; i++)
        p->stop_ids[i] = (int32_t)journal_take_value(j);
    uint64_t hidden_from = r->hidden ? journal_take_value(j) : 0;
    uint64_t prompt = journal_take_value(j);
    if (hidden_from > prompt)
        return say_corrupt(fault, "first hidden state", hidden_from);
    p->hidden_from = (uint32_t)hidden_from;
    if (prompt > prompt_max)
        return say_corrupt(fault, "prompt length", prompt);
    p->prompt = tokens;
    p->prompt_count = (uint32_t)prompt;
    for (uint32_t i = 0; i < p->prompt_count; i++)
        tokens[i] = (int32_t)journal_take_value(j);
    return RC_OK;
}

void journal_note_cancel(struct journal *j, uint64_t order)
{
    if (j->playing)
        return;
    put_kind(j, JOURNAL_CANCEL);
    put(j, order);
}

void journal_note_relief(struct journal *j)
{
    if (!j->playing)
        put_kind(j, JOURNAL_RELIEF);
}

void journal_note_step(struct journal *j)
{
    if (j->playing)
        return;
    put_kind(j, JOURNAL_STEP);
    (void)fflush(j->file); /* a crash in the step that follows leaves all of its causes behind */
}
