/* SPDX-License-Identifier: MIT */
/* record - a request as the scheduler sees it, and the scheduler's own state. Only files of sched
 * include this; everybody else has request.h and sched.h.
 *   owner    fields say who; "published" means written by the scheduler with release, read by
 *            the submitter */
#ifndef QUIRE_SCHED_RECORD_H
#define QUIRE_SCHED_RECORD_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/arena.h"
#include "core/ring.h"
#include "kvpool/prefix.h"
#include "kvpool/store.h"
#include "sched/cost.h"
#include "sched/fair.h"
#include "sched/forecast.h"
#include "sched/sched.h"

#define REQUEST_MAGIC 0x72657131u
#define SCHED_MAGIC 0x73636831u
#define SAVES_AT_ONCE 4u /* blocks that go to the store together: enough to keep a disk busy */

/* Where a request is. sequence.c holds the table of legal changes. */
enum seq_state {
    SEQ_NEW,     /* in the inbox: not seen by the scheduler yet */
    SEQ_WAITING, /* in the queue, holds no block */
    SEQ_RUNNING, /* in the running list, holds its blocks */
    SEQ_PINNED,  /* its prompt is computed, and its whole blocks are kept */
    SEQ_DONE,    /* its finish is published; the scheduler never touches it again */
    SEQ_STATES
};

/* The scheduler's side of a request: tokens [0, computed) have their keys and values in the
 * table, tokens [computed, known) do not yet. A step lets the second number catch the first. */
struct sequence {
    enum seq_state state;
    uint32_t known;
    uint32_t computed;
    uint32_t written_from; /* first position that this step's copy and rows write */
    struct block_table table;
    uint32_t scored;        /* prompt positions whose logits have been delivered, when wanted */
    uint32_t most, base;    /* computed at best; at best before this admission */
    enum fair_class class;  /* of its priority, or lower when it is late */
    uint8_t tenant;         /* index of its account */
    bool elder;             /* the oldest when its patience ended: before everybody, see fair.c */
    bool gained;            /* has moved on since its admission: may be preempted again */
    bool again;             /* was preempted: what it takes over now is not news */
    uint64_t turn_ready_us; /* in this turn; 0 = its prompt is not done yet */
    uint64_t turn_begin_us;
    uint64_t order;     /* arrival number: older is smaller, first come first served */
    uint32_t turns;     /* admissions */
    uint32_t turn_rows; /* of its prompt, computed in this turn */
    uint64_t waits_since_us, waited_us;    /* now; before */
    uint64_t first_by_us, end_by_us;       /* UINT64_MAX: any time */
    struct request *prev, *next;           /* in the queue, by order */
    struct request *fair_prev, *fair_next; /* where it waits for its turn, see fair.c */
};

#define EVENT_QUEUED 1u   /* in the event ring, or about to be pushed */
#define EVENT_FINISH_AT 8 /* enum finish is kept from this bit up */

/* What every step touches comes first and together. */
struct request {
    uint32_t magic;
    uint32_t output_max;           /* constant: max_tokens, bounded by the context */
    _Atomic uint32_t output_count; /* published */
    _Atomic uint32_t event;        /* EVENT_QUEUED and the finish, changed together: see event.c */
    struct sched *sched;
    int32_t *tokens;            /* [prompt_count + output_max]: prompt, then output as published */
    float *logprobs;            /* [output_max] or NULL */
    struct token_logprob *tops; /* [output_max][top_count] or NULL */
    struct sequence seq;        /* the scheduler's */
    struct request_params params; /* constant; prompt points to tokens */

    uint64_t salt;          /* constant: its namespace in the prefix cache */
    uint64_t *stop_mask;    /* constant: all tokens but the stop ids; NULL without min_tokens */
    uint8_t *top_counts;    /* [output_max] or NULL */
    float *prompt_logprobs; /* [prompt_count] or NULL */
    struct token_logprob *prompt_tops; /* [prompt_count][top_count] or NULL */
    uint8_t *prompt_top_counts;        /* [prompt_count] or NULL */
    _Atomic uint32_t cached_count;     /* published with the first token */
    _Atomic uint32_t progress;         /* prompt tokens computed, with params.progress */
    enum rc error;                     /* published by the finish */
    _Atomic uint64_t arrival_us, admitted_us, first_token_us, finished_us; /* relaxed */
    atomic_bool cancel;    /* set by the submitter */
    _Atomic uint32_t refs; /* scheduler, submitter, a cancel notice: the last one frees */
    bool released;         /* the consumer's */
    struct request *registry_prev, *registry_next; /* guarded by sched.registry_lock */
};

/* Whose account a span's part of a step's time goes to. */
struct share {
    int64_t weight;
    enum fair_class class;
    uint8_t tenant;
};

/* The plan of one step, in the step arena. */
struct plan {
    struct batch batch;
    struct request **span_requests; /* [span_count] */
    struct share *shares;           /* [span_count] of the step's time */
    int64_t weight;                 /* sum of theirs */
    uint32_t decode_rows;
    uint32_t prefill_rows;
    uint64_t pairs; /* of a query and a key that it reads */
};

struct counters {
    _Atomic uint64_t steps, rows, prefill_tokens, decode_tokens;
    _Atomic uint64_t submitted, refused, finished, cancelled, failed, expired;
    _Atomic uint64_t preemptions, engine_us, plan_us;
    _Atomic uint64_t cached_tokens, io_waits, relieved_blocks;
    _Atomic uint32_t running, waiting, blocks_free, blocks_cached, step_us, free_rows;
    _Atomic uint32_t pins, blocks_pinned;
};

struct queue {
    struct request *head, *tail; /* by order */
    struct request *cursor;      /* next to be looked at for deadlines */
    uint32_t count;
};

/* A request that did not fit, so that its prompt is not looked up again before something
 * changes. */
struct blocked {
    uint64_t order;
    uint64_t until_step;
    uint32_t available, running;
};

struct sched {
    uint32_t magic;
    struct sched_config config;
    struct kvpool *pool;
    struct executor executor;
    struct clock clock;      /* of submitters */
    struct clock step_clock; /* of the scheduler thread */
    uint32_t ctx_tokens;     /* what -c, the executor and the pool allow, the least of them */

    /* the scheduler thread's */
    struct queue waiting, spare; /* the second of spare requests */
    struct queue pinned;
    uint32_t blocks_pinned;
    struct fair fair;
    struct request **running; /* [rows_max], by rank and order: who gives way is behind */
    struct request **prompts; /* [rows_max] scratch */
    uint32_t running_count;
    uint64_t order_next;
    uint32_t timed; /* live requests with a wish or a deadline */
    uint64_t step;
    uint64_t now_us; /* one time for all that happens in a step, another one for its commit */
    struct cost cost;
    uint64_t read_us; /* a step takes that at least: weights are read while it computes */
    struct lengths lengths;
    struct forecast_item *forecast; /* [rows_max] scratch */
    struct blocked blocked;
    struct arena arena; /* a step's plan */
    struct batch_result *results;
    uint32_t preempted; /* in this step */
    uint32_t allocs;    /* counted for chaos */
    bool published;     /* events, in this step */
    uint32_t io_waits;  /* sequences that this step leaves out until the store has moved a block */

    /* shared */
    struct ring *inbox;  /* new requests and cancel notices; any thread -> scheduler */
    struct ring *events; /* requests with news; scheduler -> consumer */
    atomic_bool stop;
    atomic_bool relieve; /* sched_relieve was called */
    struct counters counters;
    _Atomic uint64_t salt_next;    /* without a prefix cache each request has its own */
    pthread_mutex_t registry_lock; /* never held on the step path */
    struct request *registry;      /* every live record */
    uint32_t registry_count;
    uint32_t pin_tokens; /* bounds those of the registry; constant */
};

/* request.c: records. */
enum rc request_make(struct request **out, struct sched *s, const struct request_params *params,
                     struct fault *fault) ATTR_MUST_USE;
void request_ref(struct request *r);
void request_drop(struct request *r); /* frees the record with the last reference; any thread */
void request_free(struct request *r);

/* event.c: what is published. */
void event_token(struct request *r, const struct batch_result *result, uint64_t now_us);
void event_progress(struct request *r, uint32_t computed);
void event_pinned(struct request *r, uint64_t now_us);
void event_finish(struct request *r, enum finish finish, enum rc error, uint64_t now_us);
static inline bool request_cancelled(const struct request *r)
{
    return atomic_load_explicit(&r->cancel, memory_order_relaxed);
}

/* sequence.c: the only place where states change. */
void sequence_wait(struct sched *s, struct request *r); /* new or preempted: into the queue */
/* out of the queue, to run; blocks are there */
void sequence_admit(struct sched *s, struct request *r);
void sequence_pin(struct sched *s, struct request *r); /* its prompt is computed, and stays */
void sequence_finish(struct sched *s, struct request *r, enum finish finish, enum rc error);
/* Blocks that it holds when it is pinned: the whole ones of its prompt. */
static inline uint32_t sequence_pin_blocks(const struct request *r)
{
    return r->params.prompt_count / KV_BLOCK_TOKENS;
}
/* What the pool has to know of it. */
struct prefix_view sequence_view(const struct request *r);
/* Whether a stands before b in the running list. */
bool sequence_before(const struct request *a, const struct request *b);
/* Its next row is the token it chose last. */
static inline bool sequence_decodes(const struct request *r)
{
    return r->seq.computed + 1 == r->seq.known && r->seq.known > r->params.prompt_count;
}
/* Logits of its prompt are still wanted. */
static inline bool sequence_scores(const struct request *r)
{
    return (r->params.prompt_logprobs || r->params.on_logits != NULL) &&
           r->seq.scored < r->params.prompt_count;
}
/* The hidden state of the row at this position is wanted. */
static inline bool sequence_shows(const struct request *r, uint32_t position)
{
    return position < r->params.prompt_count && r->params.on_hidden != NULL &&
           position >= r->seq.scored && position >= r->params.hidden_from;
}

/* queue.c */
void queue_insert(struct queue *q, struct request *r);
void queue_remove(struct queue *q, struct request *r);

/* admit.c: waiting requests that fit begin to run. */
void admit_waiting(struct sched *s);
void admit_yield(struct sched *s);  /* before a step: who runs gives way to who should */
void admit_expire(struct sched *s); /* ends what is past its deadline */

/* plan.c, preempt.c, commit.c: one step. */
bool plan_step(struct sched *s, struct plan *plan);
size_t plan_arena_bytes(const struct sched *s);
enum rc make_room(struct sched *s, uint32_t needy);
void preempt(struct sched *s, struct request *victim);
void preempt_chaos(struct sched *s);
bool alloc_chaos(struct sched *s); /* whether to behave as if no block were to be had */
void commit_step(struct sched *s, const struct plan *plan, enum rc rc);

/* stats.c */
void stats_publish(struct sched *s);

static inline void count_up(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
