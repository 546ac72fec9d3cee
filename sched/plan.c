/* SPDX-License-Identifier: MIT */
/* plan - one step on paper, in this order:
 *   1 every decoding sequence gets its row, oldest first, and its block if the row opens one;
 *     when none is free the youngest gives way
 *   2 waiting requests are admitted in order, each with the blocks of all tokens it knows; nobody
 *     passes the first one that does not fit. None is admitted in a step that preempted
 *   3 prompts get a budget of rows: a fixed number, or, with an inter-token target, as many as are
 *     nearly free beside the decode rows or as let the step end in that time. Prompts that end soon
 *     may use half of it first, so that none is stuck behind a long one; the rest goes by age, in
 *     chunks
 * A sequence that computes its prompt (or computes again what a preemption dropped) holds all
 * blocks for it since its admission, so 3 never needs one. A plan is written into the step arena,
 * which is sized at open for the largest one there can be. */
#include "core/must.h"
#include "sched/record.h"

#define ROWS_GRAIN 8u     /* rows of a kernel tile: a budget is whole tiles */
#define SHORT_TOKENS 256u /* a prompt with so few tokens left ends soon */
#define OLDEST_SHARE 8u   /* of the budget goes to the oldest prompt when it is not the first */
#define CHUNK_SHARED 128u /* largest chunk while others are there and tokens should flow */
#define SPARE_SHARE 25u   /* spare rows make a step longer by this part of it at most */

struct planner {
    struct sched *s;
    struct plan *plan;
    int32_t *tokens;
    struct batch_span *spans;
    struct batch_copy *copies;
    struct batch_output *outputs;
    uint32_t *hidden;
    uint32_t rows_left;
    uint32_t outputs_left;
    uint32_t outputs_kept; /* of outputs_left, for the lane that comes after this one */
    uint32_t prefill_left; /* of the lane that is being planned */
    uint32_t chunk;        /* rows that one prompt may get */
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t at_least_1(uint32_t n)
{
    return n > 0 ? n : 1;
}

size_t plan_arena_bytes(const struct sched *s)
{
    const struct executor_limits *l = &s->executor.limits;
    size_t row = sizeof(int32_t) + sizeof(uint32_t);
    size_t seq = sizeof(struct batch_span) + sizeof(struct batch_copy) + sizeof(struct request *) +
                 sizeof(struct share);
    return l->rows_max * row + l->outputs_max * sizeof(struct batch_output) +
           s->config.rows_max * seq + 8 * 64;
}

static void planner_open(struct planner *p, struct sched *s, struct plan *plan)
{
    const struct executor_limits *l = &s->executor.limits;
    uint32_t rows_max = s->config.rows_max;
    struct arena *a = &s->arena;
    *plan = (struct plan){ 0 };
    *p = (struct planner){ .s = s, .plan = plan, .rows_left = l->rows_max };
    p->outputs_left = l->outputs_max;
    p->chunk = s->config.chunk_tokens;
    p->tokens = arena_take(a, l->rows_max, sizeof *p->tokens);
    p->spans = arena_take(a, rows_max, sizeof *p->spans);
    p->copies = arena_take(a, rows_max, sizeof *p->copies);
    p->outputs = arena_take(a, l->outputs_max, sizeof *p->outputs);
    p->hidden = arena_take(a, l->rows_max, sizeof *p->hidden);
    plan->span_requests = arena_take(a, rows_max, sizeof(struct request *));
    plan->shares = arena_take(a, rows_max, sizeof *plan->shares);
    must(p->tokens && p->spans && p->copies && p->outputs && p->hidden && plan->span_requests &&
         plan->shares);
    plan->batch.step = s->step;
    plan->batch.tokens = p->tokens;
    plan->batch.spans = p->spans;
    plan->batch.copies = p->copies;
    plan->batch.outputs = p->outputs;
    plan->batch.hidden = p->hidden;
}

/* What is wanted of the logits of the row at this position. */
static bool wants_token(const struct request *r, uint32_t position)
{
    return position + 1 == r->seq.known && r->output_max > 0;
}

static bool wants_score(const struct request *r, uint32_t position)
{
    return position + 1 < r->params.prompt_count && r->params.prompt_logprobs &&
           position >= r->seq.scored;
}

static bool wants_logits(const struct request *r, uint32_t position)
{
    return position < r->params.prompt_count && r->params.on_logits != NULL &&
           position >= r->seq.scored;
}

/* A row of r, and what is wanted of it. */
ATTR_INLINE void add_row(struct planner *p, struct request *r, uint32_t row, uint32_t position)
{
    struct batch *b = &p->plan->batch;
    const struct request_params *params = &r->params;
    bool token = wants_token(r, position), score = wants_score(r, position);
    bool logits = wants_logits(r, position);
    if (sequence_shows(r, position))
        p->hidden[b->hidden_count++] = row;
    if (!token && !score && !logits)
        return;
    must(p->outputs_left > 0);
    p->outputs_left--;
    p->outputs[b->output_count++] = (struct batch_output){
        .row = row,
        .sample = token,
        .logits = logits,
        .top_count = token || score ? params->top_count : 0,
        .target = score ? r->tokens[position + 1] : -1,
        .sampling = &params->sampling,
        .history = r->tokens,
        .history_count = position + 1,
        .prompt_count = params->prompt_count,
        .mask = r->seq.known - params->prompt_count < params->min_tokens ? r->stop_mask : NULL,
    };
}

/* Appends rows [begin, begin + row_count) of r; what lies between computed and begin is copied.
 * Inline: half of it falls away where row_count is 1, as in nearly all calls. */
ATTR_INLINE void add_span(struct planner *p, struct request *r, uint32_t begin, uint32_t row_count)
{
    struct plan *plan = p->plan;
    struct batch *b = &plan->batch;
    struct sequence *seq = &r->seq;
    uint32_t row = b->row_count, at = b->span_count++, end = begin + row_count;
    uint32_t table_count = kv_blocks_for(end);
    must(row_count <= p->rows_left && table_count <= seq->table.count);
    int64_t weight = (int64_t)(cost_work(begin, row_count) + seq->table.count);
    plan->span_requests[at] = r;
    plan->shares[at] = (struct share){ weight, seq->class, seq->tenant };
    plan->weight += weight;
    plan->pairs += cost_pairs(begin, row_count);
    p->spans[at] = (struct batch_span){ row, row_count, begin, table_count, seq->table.blocks };
    b->row_count += row_count;
    p->rows_left -= row_count;
    for (uint32_t i = 0; i < row_count; i++)
        p->tokens[row + i] = r->tokens[begin + i];
    /* of rows behind the prompt only the last one can be of interest */
    for (uint32_t i = begin < r->params.prompt_count ? 0 : row_count - 1; i < row_count; i++)
        add_row(p, r, row + i, begin + i);
    seq->written_from = seq->computed;
    prefix_claim(&seq->table, p->s->pool, r->tokens, seq->computed, end, p->s->step + 1);
}

/* A row for running[*i] if there is a block for it; *i moves on to the next. */
static void plan_decode_row(struct planner *p, uint32_t *i)
{
    struct sched *s = p->s;
    struct request *r = s->running[*i];
    bool opens = kv_blocks_for(r->seq.known) > r->seq.table.count;
    enum rc rc = opens && alloc_chaos(s) ? make_room(s, *i) : RC_OK;
    while (opens && rc == RC_OK && table_extend(&r->seq.table, s->pool, r->seq.known) == RC_FULL)
        rc = make_room(s, *i);
    if (rc == RC_FULL)
        return; /* r was the last of the list, and has left it */
    *i += 1;
    if (rc == RC_AGAIN)
        return;
    add_span(p, r, r->seq.computed, 1);
    p->plan->decode_rows++;
}

static bool is_spare(const struct request *r)
{
    return r->seq.class == CLASS_SPARE;
}

static void plan_decode(struct planner *p)
{
    struct sched *s = p->s;
    for (uint32_t i = 0; i < s->running_count && !is_spare(s->running[i]);) {
        if (sequence_decodes(s->running[i]))
            plan_decode_row(p, &i);
        else
            i++;
    }
}

static uint32_t outputs_for(const struct planner *p)
{
    return p->outputs_left > p->outputs_kept ? p->outputs_left - p->outputs_kept : 0;
}

/* Rows that r may have from position begin on: its missing tokens, cut by every limit of the
 * step. */
static uint32_t chunk_rows(const struct planner *p, const struct request *r, uint32_t begin)
{
    uint32_t missing = r->seq.known - begin;
    uint32_t rows = min_u32(missing, p->chunk);
    rows = min_u32(rows, min_u32(p->rows_left, p->prefill_left));
    if (sequence_scores(r))
        return min_u32(rows, outputs_for(p)); /* one for each row, at most */
    if (rows == missing && outputs_for(p) == 0)
        rows--; /* the last row chooses a token */
    return rows;
}

static void count_cached(struct sched *s, struct request *r, uint32_t tokens)
{
    if (r->seq.again || tokens == 0)
        return;
    atomic_fetch_add_explicit(&r->cached_count, tokens, memory_order_relaxed);
    count_up(&s->counters.cached_tokens, tokens);
}

/* Takes over what others have computed of r's tokens, then gives it rows from there on. */
static void plan_chunk(struct planner *p, struct request *r)
{
    struct sched *s = p->s;
    struct sequence *seq = &r->seq;
    struct prefix_view view = sequence_view(r);
    uint32_t reach = prefix_advance(&seq->table, s->pool, &view, seq->computed);
    count_cached(s, r, reach - seq->computed);
    seq->computed = reach;
    if (chunk_rows(p, r, reach) == 0 || outputs_for(p) == 0)
        return;
    struct prefix_turn turn = prefix_turn_of(&seq->table, s->pool, &view, reach, s->step + 1);
    if (turn.wait) {
        s->io_waits += turn.reads;
        return;
    }
    struct batch *b = &p->plan->batch;
    if (turn.copy_tokens > 0)
        p->copies[b->copy_count++] = (struct batch_copy){
            .src_block = turn.copy_from,
            .dst_block = seq->table.blocks[reach / KV_BLOCK_TOKENS],
            .token_count = turn.copy_tokens,
        };
    count_cached(s, r, turn.copy_tokens);
    uint32_t rows = chunk_rows(p, r, reach + turn.copy_tokens);
    rows = prefix_writable(&seq->table, s->pool, reach + turn.copy_tokens, rows);
    add_span(p, r, reach + turn.copy_tokens, rows);
    p->prefill_left -= rows;
    p->plan->prefill_rows += rows;
}

/* Rows that prompts may have in this step. */
static uint32_t prefill_budget(const struct planner *p, const struct request *first)
{
    const struct sched *s = p->s;
    uint32_t most = min_u32(s->config.step_prefill_tokens, p->rows_left);
    uint32_t decode = p->plan->decode_rows;
    if (s->config.itl_us == 0 || decode == 0)
        return most;
    /* Where weights are read while a step computes, it takes that long anyway. */
    uint64_t us = s->config.itl_us > s->read_us ? s->config.itl_us : s->read_us;
    uint32_t rows =
        cost_rows_within(&s->cost, decode, p->plan->pairs, first->seq.computed, most, us);
    uint32_t free = cost_free_rows(&s->cost);
    if (free > decode && free - decode > rows)
        rows = free - decode;
    rows = rows / ROWS_GRAIN * ROWS_GRAIN;
    return min_u32(rows < ROWS_GRAIN ? ROWS_GRAIN : rows, most);
}

static bool ends_soon(const struct request *r)
{
    return r->seq.known - r->seq.computed <= SHORT_TOKENS;
}

/* One chunk for each prompt that has none yet (else it waits for its own claim): all, or those
 * that end soon. */
static void plan_lane(struct planner *p, uint32_t count, bool only_short)
{
    for (uint32_t i = 0; i < count && p->prefill_left > 0; i++) {
        struct request *r = p->s->prompts[i];
        if (!only_short || ends_soon(r))
            plan_chunk(p, r);
    }
}

/* Prompts in the order in which they are served: by class, then whose tenant has used least, then
 * by age. */
static bool prompt_before(const struct sched *s, const struct request *a, const struct request *b)
{
    if (a->seq.class != b->seq.class)
        return a->seq.class < b->seq.class;
    uint64_t used_a = fair_used_us(s, a), used_b = fair_used_us(s, b);
    return used_a != used_b ? used_a < used_b : a->seq.order < b->seq.order;
}

/* Fills s->prompts; the oldest of them in *oldest. */
static uint32_t sort_prompts(struct sched *s, struct request **oldest)
{
    uint32_t count = 0;
    *oldest = NULL;
    for (uint32_t i = 0; i < s->running_count && !is_spare(s->running[i]); i++) {
        struct request *r = s->running[i];
        if (sequence_decodes(r))
            continue;
        uint32_t at = count++;
        for (; at > 0 && prompt_before(s, r, s->prompts[at - 1]); at--)
            s->prompts[at] = s->prompts[at - 1];
        s->prompts[at] = r;
        if (*oldest == NULL || r->seq.order < (*oldest)->seq.order)
            *oldest = r;
    }
    return count;
}

/* A chunk for r out of the budget; how much of it is left. */
static uint32_t spend_on(struct planner *p, struct request *r, uint32_t budget, uint32_t rows)
{
    p->prefill_left = rows;
    plan_chunk(p, r);
    return budget - (rows - p->prefill_left);
}

static void plan_prefill(struct planner *p)
{
    struct sched *s = p->s;
    struct request *oldest;
    if (p->plan->decode_rows == s->running_count)
        return;
    uint32_t count = sort_prompts(s, &oldest), shorts = 0;
    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        shorts += ends_soon(s->prompts[i]);
    uint32_t budget = prefill_budget(p, s->prompts[0]);
    bool alone = s->running_count == 1 && s->waiting.count == 0;
    if (s->config.itl_us > s->read_us && !alone)
        p->chunk = min_u32(p->chunk, CHUNK_SHARED);
    if (oldest != s->prompts[0]) /* whatever its class and tenant, it moves in every step */
        budget = spend_on(p, oldest, budget, at_least_1(budget / OLDEST_SHARE));
    bool two_lanes = shorts > 0 && shorts < count;
    uint32_t lane = two_lanes ? budget / 2 : budget;
    p->outputs_kept = two_lanes ? (p->outputs_left + 1) / 2 : 0;
    if (two_lanes && ends_soon(s->prompts[0])) { /* first in both lanes: it gets from both */
        uint32_t left = spend_on(p, s->prompts[0], budget, budget);
        lane -= min_u32(lane, budget - left);
        budget = left;
    }
    p->prefill_left = lane;
    plan_lane(p, count, true);
    p->outputs_kept = 0;
    p->prefill_left += budget - lane;
    plan_lane(p, count, false);
}

/* Rows of r that fit into what spare requests may add: they may make the step SPARE_SHARE longer
 * than it is without them. All, when they are among themselves. */
static uint32_t spare_rows(const struct planner *p, const struct request *r, uint32_t max,
                           uint64_t until_us)
{
    const struct plan *plan = p->plan;
    if (until_us == UINT64_MAX)
        return max;
    return cost_rows_within(&p->s->cost, plan->batch.row_count, plan->pairs, r->seq.computed, max,
                            until_us);
}

/* Spare requests come last: rows that nobody else has taken, and that hardly cost time. */
static void plan_spare(struct planner *p)
{
    struct sched *s = p->s;
    uint32_t first = s->running_count;
    while (first > 0 && is_spare(s->running[first - 1]))
        first--;
    uint64_t us = cost_us(&s->cost, p->plan->batch.row_count, p->plan->pairs);
    uint64_t until_us = first == 0 ? UINT64_MAX : us + us / SPARE_SHARE;
    for (uint32_t i = first; i < s->running_count && p->rows_left > 0 && p->outputs_left > 0;) {
        if (!sequence_decodes(s->running[i]))
            i++;
        else if (spare_rows(p, s->running[i], 1, until_us) > 0)
            plan_decode_row(p, &i);
        else
            return;
    }
    uint32_t budget = s->config.step_prefill_tokens - p->plan->prefill_rows;
    for (uint32_t i = first; i < s->running_count && budget > 0; i++) {
        if (sequence_decodes(s->running[i]))
            continue;
        uint32_t rows = spare_rows(p, s->running[i], min_u32(budget, p->rows_left), until_us);
        p->prefill_left = rows;
        plan_chunk(p, s->running[i]);
        budget -= rows - p->prefill_left;
    }
}

bool plan_step(struct sched *s, struct plan *plan)
{
    struct planner p;
    s->preempted = s->io_waits = 0;
    planner_open(&p, s, plan);
    admit_yield(s);
    preempt_chaos(s);
    plan_decode(&p);
    if (s->preempted == 0)
        admit_waiting(s);
    plan_prefill(&p);
    plan_spare(&p);
    must(plan->batch.row_count > 0 || s->running_count == 0 || s->io_waits > 0);
    must(s->running_count > 0 || s->waiting.count + s->spare.count == 0 || s->io_waits > 0);
    return plan->batch.row_count > 0;
}
