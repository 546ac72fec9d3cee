/* SPDX-License-Identifier: MIT */
/* engine - a model ready to answer: file, weights, vocabulary, workers, KV pool, executor and
 * scheduler, opened in that order from one set of flags that every command shares.
 *   owner    the opener: one struct engine per process
 *   thread   engine_open with needs.thread starts the scheduler thread, which owns workers, pool
 *            metadata and executor; without it the opener's thread is all of these and steps itself
 *   errors   RC_CORRUPT, RC_UNSUPPORTED (model), RC_NO_FIT (memory), RC_USAGE (flags), with a text
 *   memory   KV pool and scratch are known, printed and compared with what is available first */
#ifndef QUIRE_FRONTEND_ENGINE_H
#define QUIRE_FRONTEND_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/gguf.h"
#include "core/model.h"
#include "core/tokenizer.h"
#include "core/workers.h"
#include "frontend/options.h"
#include "frontend/pressure.h"
#include "frontend/residency.h"
#include "kernels/exec_cpu.h"
#include "kvpool/pool.h"
#include "sched/sched.h"

/* The flags. 0 means: choose. */
struct engine_options {
    const char *model;
    uint32_t ctx_tokens;   /* -c */
    uint32_t kv_tokens;    /* --kv-tokens */
    uint32_t rows_max;     /* --max-rows */
    uint32_t chunk_tokens; /* --chunk */
    uint32_t itl_ms;       /* --itl-ms */
    uint32_t threads;      /* -t */
    uint32_t isa;          /* --isa: 0 = best, else 1 + enum isa */
    uint32_t act;          /* --act: 0 = int8, 1 = f32 */
    uint32_t kv_type_k;    /* -ctk: enum kv_type */
    uint32_t kv_type_v;    /* -ctv */
    uint32_t verbose;      /* -v */
    bool quiet;            /* -q */
    /* what fails when, and who looks (frontend/engine_store.h) */
    const char *swap;        /* --swap */
    const char *cache_file;  /* --cache-file */
    uint64_t swap_bytes;     /* --swap-size */
    uint64_t swap_day_bytes; /* --swap-day */
    uint32_t swap_io;        /* --swap-io: 0 = auto, 1 = plain */
    bool no_prefix_cache;    /* --no-prefix-cache */
    uint32_t audit_steps;    /* --audit */
    const char *log_events;  /* --log-events */
    const char *chaos;       /* --chaos */
    struct residency_options weights;
    const char *pressure; /* --pressure */
};

extern const struct option engine_option_rows[];
extern const size_t engine_option_count;

struct engine_options engine_options_default(void);

/* engine_rows_most - requests that may run at once with these flags, before the engine is open:
 * what is kept for each of them is allocated by it. */
#define ENGINE_ROWS 16u
#define ENGINE_ROWS_STREAMED 64u
uint32_t engine_rows_most(const struct engine_options *o);

/* What a command needs beyond the flags. */
struct engine_needs {
    bool thread;                  /* a scheduler thread of its own */
    uint32_t requests_max;        /* live requests */
    uint32_t outputs_max;         /* rows of a step whose logits are wanted; at least rows_max */
    uint32_t chunk_tokens;        /* of --chunk 0 where weights stay in memory; 0 = 128 */
    uint32_t step_prefill_tokens; /* prefill tokens of all sequences in a step; 0 = chunk */
    void (*on_events)(void *ctx); /* see sched_config */
    void *on_events_ctx;
};

struct engine {
    struct engine_options options; /* resolved: no zeroes left */
    uint32_t rows_calm;            /* see sched_config */
    struct engine_needs needs;
    struct gguf *gguf;
    struct model *model;
    struct tokenizer *tokenizer;
    struct workers *workers;
    struct kvpool *pool;
    struct blockfile *blocks; /* behind the pool, or NULL */
    struct hash digest;       /* of the model's files, once digested */
    bool digested;
    struct journal *journal;  /* of all that the scheduler is given, or NULL */
    struct exec_cpu *exec;
    struct residency weights;
    struct sched *sched;
    struct pressure *pressure; /* NULL: not watched */
    struct clock clock;
    int32_t end_ids[STOP_IDS_MAX]; /* end-of-turn tokens of the vocabulary */
    uint32_t end_id_count;
    char name[96]; /* what answers call the model: the file's name without .gguf */
    struct engine_thread *thread;
};

/* engine_open - prints the start lines on stderr unless quiet. */
enum rc engine_open(struct engine *e, const struct engine_options *options,
                    const struct engine_needs *needs, struct fault *fault) ATTR_MUST_USE;

/* engine_close - stops the scheduler thread; half-opened engines too. */
void engine_close(struct engine *e);

/* engine_encode - a prompt as given: BOS where the vocabulary asks for one, control tokens in the
 * text recognized when special. */
enum rc engine_encode(const struct engine *e, const char *text, size_t len, bool special,
                      struct token_list *out) ATTR_MUST_USE;

/* engine_complain - the fault on stderr and the exit status that goes with it. */
int engine_complain(const char *command, const struct fault *fault);

#endif
