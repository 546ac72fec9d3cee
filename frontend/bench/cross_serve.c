/* SPDX-License-Identifier: MIT */
/* cross_serve - one loop for all rungs: sessions begin when they are due, their requests stand in a
 * queue, and a server takes them from there.
 *
 *   due -> [queue] -> server (a loop, or the scheduler's inbox) -> tokens -> next turn -> [queue]
 *                                                                       \-> session ends -> due
 *
 * Every run has a namespace of its own in the prefix cache (salt), and the loops forget, so nothing
 * is carried over from one run to the next. */
#include "frontend/bench/cross_serve.h"

#include <string.h>
#include <time.h>

#include "core/mem.h"
#include "core/must.h"
#include "frontend/interrupt.h"
#include "kvpool/table.h"

/* A conversation. */
struct session {
    int32_t *tokens; /* [workload_tokens] */
    uint32_t index, count, turn;
    uint32_t answered; /* tokens of this turn's answer */
    uint64_t due_us;   /* open load: its arrival */
    uint64_t sent_us, last_us;
    struct request *request;
};

struct serving {
    struct cross_rig *rig;
    const struct workload *w;
    const struct cross_run *run;
    struct cross_result *out;
    struct clock clock;
    struct sampling sampling;
    struct session *sessions; /* [run->sessions] */
    struct session **queue;   /* [run->sessions] a ring */
    uint32_t queue_head, queue_count;
    uint32_t begun, ended;
    struct hash *texts; /* [run->sessions] */
};

uint32_t cross_rig_tokens(uint32_t users, uint32_t tokens)
{
    /* Two more conversations for B and C, one that stays cached. */
    return (users + 3) * kv_blocks_for(tokens) * KV_BLOCK_TOKENS;
}

/* ---- the rig ---- */

/* The loops' own blocks: in order for B, in disorder for C. */
static enum rc hold_blocks(struct cross_rig *rig, struct fault *fault)
{
    struct engine *e = rig->engine;
    uint32_t blocks = kv_blocks_for(e->options.ctx_tokens);
    struct rng rng = rng_seeded(rig->seed);
    rig->held = mem_alloc_array(2 * blocks, sizeof *rig->held);
    rig->tables = mem_alloc_array(2 * blocks, sizeof *rig->tables);
    if (rig->held == NULL || rig->tables == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    for (; rig->held_count < 2 * blocks; rig->held_count++) {
        if (kvpool_take_block(&rig->held[rig->held_count], e->pool) != RC_OK)
            return fault_set(fault, RC_NO_FIT, "--kv-tokens %u: too few for the loops",
                             e->options.kv_tokens);
        rig->tables[rig->held_count] = rig->held[rig->held_count].index;
    }
    for (uint32_t i = blocks - 1; i > 0; i--) {
        uint32_t *c = rig->tables + blocks, k = (uint32_t)rng_below(&rng, i + 1), swap = c[i];
        c[i] = c[k];
        c[k] = swap;
    }
    return RC_OK;
}

static enum rc open_loops(struct cross_rig *rig, struct fault *fault)
{
    struct engine *e = rig->engine;
    const struct engine_options *o = &e->options;
    struct exec_cpu_config config = {
        .rows_max = o->chunk_tokens,
        .outputs_max = 1,
        .ctx_max = o->ctx_tokens,
        .isa = (enum isa)(o->isa - 1),
        .act_f32 = o->act == 1,
        .kv_types = { (enum kv_type)o->kv_type_k, (enum kv_type)o->kv_type_v },
    };
    enum rc rc = single_open(&rig->loops[0], e->model, e->workers, &config, fault);
    if (rc != RC_OK)
        return rc;
    exec_cpu_stream(rig->loops[0].exec, e->weights.stream);
    memset(rig->loops[0].map, 0, rig->loops[0].map_bytes);
    for (uint32_t i = 1; i < LOOPS && rc == RC_OK; i++) {
        const uint32_t *table = rig->tables + (i - 1) * (rig->held_count / 2);
        rc = single_over(&rig->loops[i], exec_cpu_executor(e->exec), table, fault);
        rig->loops[i].chunk_tokens = o->chunk_tokens;
    }
    return rc;
}

enum rc cross_rig_open(struct cross_rig *rig, struct engine *e, uint64_t seed, struct fault *fault)
{
    *rig = (struct cross_rig){ .engine = e, .seed = seed };
    sched_close(e->sched); /* every run opens one of its own */
    e->sched = NULL;
    memset(kvpool_base(e->pool), 0, kvpool_block_bytes(e->pool) * kvpool_block_count(e->pool));
    enum rc rc = hold_blocks(rig, fault);
    if (rc == RC_OK)
        rc = open_loops(rig, fault);
    if (rc != RC_OK)
        cross_rig_close(rig);
    return rc;
}

void cross_rig_close(struct cross_rig *rig)
{
    for (uint32_t i = 0; i < LOOPS; i++)
        single_close(&rig->loops[i]);
    for (uint32_t i = 0; i < rig->held_count; i++)
        kvpool_drop_block(rig->engine->pool, rig->held[i]);
    mem_free(rig->held);
    mem_free(rig->tables);
    rig->held = NULL;
    rig->tables = NULL;
    rig->held_count = 0;
}

/* ---- sessions ---- */

/* Token k of a text that seed, workload, session and turn name. */
static int32_t text_token(const struct serving *s, uint64_t session, uint32_t turn, uint32_t k)
{
    uint64_t place = (uint64_t)s->run->workload << 48 | session << 16 | turn;
    uint64_t bits = rng_at(s->rig->seed ^ place << 8, turn, k);
    return (int32_t)(bits % s->rig->engine->model->vocab_count);
}

static void send_turn(struct serving *s, struct session *u, uint64_t now_us)
{
    uint32_t text = session_text(s->w, u->index);
    for (uint32_t k = 0; k < text; k++)
        u->tokens[u->count++] = text_token(s, u->index + 1u, u->turn, k);
    u->answered = 0;
    u->sent_us = now_us;
    s->queue[(s->queue_head + s->queue_count++) % s->run->sessions] = u;
    s->out->requests++;
    s->out->prompt_tokens += u->count;
}

static void begin_session(struct serving *s, uint64_t now_us)
{
    struct session *u = &s->sessions[s->begun++];
    for (uint32_t k = 0; k < s->w->head; k++)
        u->tokens[u->count++] = text_token(s, 0, 0, k);
    send_turn(s, u, now_us);
}

/* Closed: as many as there are users. Open: those that have arrived, with the time at which they
 * did. */
static void begin_due(struct serving *s, uint64_t now_us)
{
    const struct cross_run *run = s->run;
    while (s->begun < run->sessions) {
        const struct session *next = &s->sessions[s->begun];
        if (run->open ? next->due_us > now_us : s->begun - s->ended >= run->load)
            return;
        begin_session(s, run->open ? next->due_us : now_us);
    }
}

/* Nothing to do before the next arrival. */
static void sleep_until_due(const struct serving *s)
{
    uint64_t now_us = clock_now_us(&s->clock);
    must(s->run->open && s->begun < s->run->sessions);
    if (s->sessions[s->begun].due_us <= now_us)
        return;
    uint64_t us = s->sessions[s->begun].due_us - now_us;
    struct timespec t = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };
    (void)nanosleep(&t, NULL); /* a signal ends it early: the caller looks */
}

/* One more token of an answer; at its end the next turn goes out, or the next session begins. */
static enum rc take_token(struct serving *s, struct session *u, int32_t token, uint64_t now_us)
{
    struct cross_result *out = s->out;
    bool first = u->answered == 0;
    double ms = (double)(now_us - (first ? u->sent_us : u->last_us)) / 1e3;
    enum rc rc = quantiles_add(first ? &out->ttft_ms : &out->itl_ms, ms);
    u->tokens[u->count++] = token;
    u->last_us = now_us;
    u->answered++;
    out->output_tokens++;
    if (rc != RC_OK || u->answered < session_answer(s->w, u->index))
        return rc;
    rc = quantiles_add(&out->latency_ms, (double)(now_us - u->sent_us) / 1e3);
    begin_due(s, now_us); /* who came meanwhile stands before this user's next turn */
    if (++u->turn < s->w->turns) {
        send_turn(s, u, now_us);
        return rc;
    }
    s->texts[u->index] = hash_bytes((struct hash){ 0 }, u->tokens, u->count * sizeof *u->tokens);
    s->ended++;
    begin_due(s, now_us);
    return rc;
}

static struct session *pop(struct serving *s)
{
    if (s->queue_count == 0)
        return NULL;
    struct session *u = s->queue[s->queue_head];
    s->queue_head = (s->queue_head + 1) % s->run->sessions;
    s->queue_count--;
    return u;
}

static void count_step(struct cross_result *out, const struct exec_cpu *exec)
{
    out->steps++;
    out->kv_read_bytes += exec_cpu_kv_bytes(exec);
    out->weight_bytes += exec_cpu_weight_bytes(exec);
}

/* ---- A to C ---- */

/* Of the next prompt, what the loop has computed for the last one. */
static uint32_t kept_tokens(const struct single *loop, const struct session *u)
{
    uint32_t kept = 0;
    while (kept < loop->computed && kept + 1 < u->count && loop->tokens[kept] == u->tokens[kept])
        kept++;
    return kept;
}

static enum rc serve_one(struct serving *s, struct single *loop, struct session *u)
{
    struct engine *e = s->rig->engine;
    const struct exec_cpu *exec = loop->exec != NULL ? loop->exec : e->exec;
    uint32_t answer = session_answer(s->w, u->index);
    int32_t token;
    s->out->cached_tokens += kept_tokens(loop, u);
    enum rc rc = single_ask(loop, u->tokens, u->count, &token);
    for (uint32_t k = 0; rc == RC_OK; k++) {
        count_step(s->out, exec);
        rc = take_token(s, u, token, clock_now_us(&s->clock));
        if (rc != RC_OK || k + 1 == answer)
            break;
        if (interrupt_signal() != 0)
            return RC_CANCELLED;
        rc = single_next(loop, &token);
    }
    uint64_t held = kv_blocks_for(loop->computed) * (uint64_t)kvpool_block_bytes(e->pool);
    s->out->kv_peak_bytes = held > s->out->kv_peak_bytes ? held : s->out->kv_peak_bytes;
    return rc;
}

static enum rc serve_loop(struct serving *s)
{
    struct single *loop = &s->rig->loops[s->run->rung - RUNG_A];
    enum rc rc = RC_OK;
    loop->computed = 0; /* the last run's conversation is gone */
    while (s->ended < s->run->sessions && rc == RC_OK) {
        begin_due(s, clock_now_us(&s->clock));
        struct session *u = pop(s);
        if (interrupt_signal() != 0)
            return RC_CANCELLED;
        if (u == NULL)
            sleep_until_due(s);
        else
            rc = serve_one(s, loop, u);
    }
    return rc;
}

/* ---- D to G ---- */

static enum rc submit_queue(struct serving *s, struct sched *sched, struct fault *fault)
{
    enum rc rc = RC_OK;
    for (struct session *u; rc == RC_OK && (u = pop(s)) != NULL;) {
        struct request_params p = { .prompt = u->tokens,
                                    .prompt_count = u->count,
                                    .max_tokens = session_answer(s->w, u->index),
                                    .sampling = s->sampling,
                                    .cache_salt = s->rig->salt,
                                    .user = u };
        rc = sched_submit(&u->request, sched, &p, fault);
    }
    return rc;
}

static enum rc take_events(struct serving *s, struct sched *sched, struct fault *fault)
{
    uint64_t now_us = clock_now_us(&s->clock);
    for (struct request *r; (r = sched_next_event(sched, 0)) != NULL;) {
        struct session *u = request_user(r);
        uint32_t count = request_output_count(r);
        bool last = request_finish(r) != FINISH_NONE;
        if (last && request_finish(r) != FINISH_LENGTH)
            return fault_set(fault, RC_IO, "a request ended early: %s", rc_text(request_error(r)));
        /* The last token may end the session, or send its next request. */
        s->out->cached_tokens += last ? request_cached_count(r) : 0;
        for (uint32_t k = u->answered; k < count; k++) {
            enum rc rc = take_token(s, u, request_token(r, k), now_us);
            if (rc != RC_OK)
                return fault_set(fault, rc, "%s", rc_text(rc));
        }
        if (last)
            sched_release(sched, r);
    }
    return RC_OK;
}

static void note_peak(struct serving *s)
{
    const struct kvpool *pool = s->rig->engine->pool;
    uint64_t blocks = kvpool_block_count(pool) - kvpool_free_count(pool) -
                      kvpool_cached_count(pool) - s->rig->held_count;
    uint64_t bytes = blocks * kvpool_block_bytes(pool);
    s->out->kv_peak_bytes = bytes > s->out->kv_peak_bytes ? bytes : s->out->kv_peak_bytes;
}

static enum rc run_sched(struct serving *s, struct sched *sched, struct fault *fault)
{
    enum rc rc = RC_OK;
    while (s->ended < s->run->sessions && rc == RC_OK) {
        begin_due(s, clock_now_us(&s->clock));
        rc = submit_queue(s, sched, fault);
        if (rc == RC_OK && interrupt_signal() != 0)
            return RC_CANCELLED;
        if (rc == RC_OK && !sched_step(sched)) {
            sleep_until_due(s);
            continue;
        }
        note_peak(s);
        count_step(s->out, s->rig->engine->exec);
        if (rc == RC_OK)
            rc = take_events(s, sched, fault);
    }
    return rc;
}

enum rc cross_open_sched(struct sched **out, struct cross_rig *rig, enum rung rung,
                         uint32_t requests, struct fault *fault)
{
    struct engine *e = rig->engine;
    const struct engine_options *o = &e->options;
    struct sched_config config = {
        .ctx_tokens = o->ctx_tokens,
        .rows_max = rung == RUNG_D ? 1 : o->rows_max,
        .chunk_tokens = o->chunk_tokens,
        .step_prefill_tokens = e->needs.step_prefill_tokens,
        .itl_us = o->itl_ms * 1000,
        .requests_max = 2 * requests, /* a released one may still be on its way */
        .no_prefix_cache = rung < RUNG_F,
    };
    rig->salt++;
    exec_cpu_share_reads(e->exec, rung == RUNG_G);
    return sched_open(out, &config, e->pool, exec_cpu_executor(e->exec), e->clock, fault);
}

static enum rc serve_sched(struct serving *s, struct fault *fault)
{
    struct sched *sched;
    enum rc rc = cross_open_sched(&sched, s->rig, (enum rung)s->run->rung, s->run->sessions, fault);
    if (rc == RC_OK)
        rc = run_sched(s, sched, fault);
    sched_close(sched);
    return rc;
}

/* ---- a run ---- */

static enum rc open_serving(struct serving *s, double sessions_s)
{
    uint32_t count = s->run->sessions, longest = workload_tokens(s->w);
    uint64_t *due_us = mem_alloc_array(count, sizeof *due_us);
    s->sessions = mem_alloc_array(count, sizeof *s->sessions);
    s->queue = mem_alloc_array(count, sizeof *s->queue);
    s->texts = mem_alloc_array(count, sizeof *s->texts);
    bool good = s->sessions != NULL && s->queue != NULL && s->texts != NULL && due_us != NULL;
    if (good && s->run->open)
        cross_arrivals(s->rig->seed, s->run->round, sessions_s, count, due_us);
    for (uint32_t i = 0; good && i < count; i++) {
        struct session *u = &s->sessions[i];
        u->index = i;
        u->due_us = s->run->open ? due_us[i] : 0;
        u->tokens = mem_alloc_array(longest, sizeof *u->tokens);
        good = u->tokens != NULL;
    }
    mem_free(due_us);
    return good ? RC_OK : RC_NO_MEMORY;
}

static void close_serving(struct serving *s)
{
    for (uint32_t i = 0; s->sessions != NULL && i < s->run->sessions; i++)
        mem_free(s->sessions[i].tokens);
    mem_free(s->sessions);
    mem_free(s->queue);
    mem_free(s->texts);
}

enum rc cross_serve(struct cross_rig *rig, const struct workload *w, const struct cross_run *run,
                    double sessions_s, struct cross_result *out, struct fault *fault)
{
    struct serving s = { .rig = rig, .w = w, .run = run, .out = out, .clock = clock_real() };
    *out = (struct cross_result){ 0 };
    *fault = (struct fault){ 0 };
    s.sampling = sampling_default();
    s.sampling.temperature = 0;
    enum rc rc = open_serving(&s, sessions_s);
    uint64_t begun_us = clock_now_us(&s.clock);
    for (uint32_t i = 0; rc == RC_OK && i < run->sessions; i++)
        s.sessions[i].due_us += begun_us;
    if (rc == RC_OK)
        rc = run->rung < RUNG_D ? serve_loop(&s) : serve_sched(&s, fault);
    out->seconds = (double)(clock_now_us(&s.clock) - begun_us) / 1e6;
    if (rc == RC_OK)
        out->texts = hash_bytes((struct hash){ 0 }, s.texts, run->sessions * sizeof *s.texts);
    close_serving(&s);
    if (rc != RC_OK && fault->text[0] == '\0')
        return fault_set(fault, rc, "%s", rc == RC_CANCELLED ? "interrupted" : rc_text(rc));
    return rc;
}

void cross_result_close(struct cross_result *r)
{
    quantiles_close(&r->ttft_ms);
    quantiles_close(&r->itl_ms);
    quantiles_close(&r->latency_ms);
}
