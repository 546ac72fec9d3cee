/* SPDX-License-Identifier: MIT */
/* world - what one seed makes: sizes, habits of its clients, rates of its faults; and the clients
 * with what each of them must receive, worked out from the model alone.
 *   owner   sim.c, one thread */
#ifndef QUIRE_TESTS_SIM_WORLD_H
#define QUIRE_TESTS_SIM_WORLD_H

#include "core/rng.h"
#include "sched/journal.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim.h"
#include "tests/sim/symbolic.h"

#define WORLD_VOCAB_MAX 128u
#define WORLD_CTX_MAX 512u

/* Chances are out of 1000, per step unless said otherwise. */
struct habits {
    uint32_t arrive;      /* a step brings requests */
    uint32_t burst;       /* at most so many at once */
    uint32_t prompt_max;  /* tokens */
    uint32_t output_max;  /* tokens */
    uint32_t brief;       /* an answer is short, so that long ones are not foreseen, per request */
    uint32_t documents;   /* prompts begin like one of so many texts */
    uint32_t cancel;      /* a step cancels somebody */
    uint32_t read;        /* the consumer looks at its events */
    uint32_t fail_step;   /* the executor fails */
    uint32_t fail_memory; /* an allocation of a submission fails, per submission */
    uint32_t tenants;     /* requests come from so many and nobody */
    uint32_t classes;     /* a request has a priority, per request */
    uint32_t hurry;       /* a request has a wish or a deadline, per request */
    uint32_t stops;       /* a request names stop ids, per request */
    uint32_t groups;      /* a request has several choices, per request */
    uint32_t extras;      /* a request wants scores, logits or top lists, per request */
    uint32_t jump;        /* the clock jumps */
    uint32_t pins;        /* a request pins its prompt, per request */
};

struct client {
    struct request *request; /* NULL: a free place */
    struct request_params params;
    int32_t prompt[WORLD_CTX_MAX];
    uint64_t mask[WORLD_VOCAB_MAX / 64];
    uint32_t output_max;
    uint64_t order;
    uint64_t hash;       /* of prompt and the tokens seen */
    uint32_t seen;       /* tokens */
    int32_t last;        /* of them */
    uint64_t score_hash; /* of the prompt so far, as on_logits came */
    uint32_t scored;     /* calls of on_logits */
    bool cancelled;
    bool alone; /* the only choice of its prompt */
    bool pinned;
};

/* What has become of the oldest request, while it is that. */
struct progress {
    uint64_t order;
    bool running;
    uint32_t turns;
    uint32_t reached;
    uint32_t idle;   /* steps it ran without moving */
    uint64_t waited; /* steps */
    uint64_t drain;  /* most that ran meanwhile, in tokens */
};

/* A sequence that runs, as it was before a step. */
struct before {
    const struct request *request;
    uint32_t turns, computed;
    bool decodes; /* every step gives it its row; not of spare ones */
    bool gained, spare;
};

struct world {
    const struct sim_options *options;
    struct rng rng;
    struct habits habits;
    uint64_t now_us, still_us;
    struct sched_config config;
    uint32_t block_count;
    struct symbolic symbolic;
    struct disk disk;
    struct kvpool *pool;
    struct sched *sched;
    struct journal *journal;
    struct client *clients; /* [requests_max] */
    uint32_t live;
    const struct client *cancelled; /* since the last step */
    /* cancels since the last step: each may keep a record alive until the next one */
    uint32_t notices;
    uint64_t order_next, failures, io_waits, waits_on_end, prefill_tokens;
    uint64_t pinned; /* prompts that came to be pinned */
    struct progress progress;
    uint64_t tick; /* calls of the scheduler, those with arrivals at least */
    uint32_t event_count;
    struct before *before; /* [rows_max] scratch */
    size_t memory_before;
    struct fault violation;
};

bool world_open(struct world *w, const struct sim_options *options);
void world_close(struct world *w);

/* Notes the first broken rule; always false. */
bool world_broken(struct world *w, const char *rule, uint64_t a, uint64_t b);

/* What may happen in a tick; arrivals are EVENT_ARRIVE and up. EVENT_DRAW says what will. */
enum event { EVENT_DRAW, EVENT_CANCEL, EVENT_FAIL, EVENT_JUMP, EVENT_ARRIVE, EVENTS = 16 };

/* From here on chances are drawn for this event alone. False when it is to be left out. */
bool world_event(struct world *w, uint32_t event);

/* A seeded event with that many chances in 1000. */
bool world_chance(struct world *w, uint32_t in_1000);
uint32_t world_draw(struct world *w, uint32_t low, uint32_t high); /* both ends included */

/* client.c: one request more, one cancelled, all news read and compared. False when a rule was
 * broken. */
bool client_arrive(struct world *w);
void client_cancel_one(struct world *w);
void client_cancel_pins(struct world *w);
bool client_read_all(struct world *w);

#endif
