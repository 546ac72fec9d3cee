/* SPDX-License-Identifier: MIT */
/* engine_options - the flags that every command with a model has, under the same names. */
#include "frontend/engine.h"

static const char *const isa_choices[] = { "auto", "scalar",  "avx2", "avxvnni", "avx512vnni",
                                           "neon", "dotprod", "i8mm", NULL };
_Static_assert(sizeof isa_choices / sizeof isa_choices[0] == ISA_COUNT + 2,
               "a name for each level");

static const char *const act_choices[] = { "int8", "f32", NULL };

static const char *const swap_io_choices[] = { "auto", "plain", NULL };
static const char *const read_choices[] = { "auto", "uring", "threads", "mmap", NULL };
static const char *const kv_choices[] = { "f16", "q8_0", "q4_0", NULL };
_Static_assert(sizeof kv_choices / sizeof kv_choices[0] == KV_TYPES + 1, "a name for each type");

#define AT(member) offsetof(struct engine_options, member)

const struct option engine_option_rows[] = {
    { "-m --model", OPTION_TEXT, AT(model), 0, 0, "FILE", NULL,
      "the model, a GGUF file (the first one of a split model)" },
    { "-c --ctx-size --max-model-len", OPTION_U32, AT(ctx_tokens), 0, CTX_TOKENS_MAX, "N", NULL,
      "tokens a request may have, prompt and output; 0 = as trained, at most 4096" },
    { "--kv-tokens", OPTION_U32, AT(kv_tokens), 0, 1u << 30, "N", NULL,
      "tokens the KV pool holds for all requests together; 0 = chosen from -c and --max-rows" },
    { "-ctk --kv-type-k --cache-type-k", OPTION_CHOICE, AT(kv_type_k), 0, 0, "TYPE", kv_choices,
      "how keys are kept: f16, q8_0 (half the memory), q4_0 (a quarter, coarse)" },
    { "-ctv --kv-type-v --cache-type-v", OPTION_CHOICE, AT(kv_type_v), 0, 0, "TYPE", kv_choices,
      "how values are kept: f16, q8_0, q4_0" },
    { "-np --max-rows --parallel --max-num-seqs", OPTION_U32, AT(rows_max), 0, 1024, "N", NULL,
      "requests that run at once; 0 = 16, and where weights are read in every step up to 64, as "
      "long as they compute no longer than that takes" },
    { "--chunk", OPTION_U32, AT(chunk_tokens), 0, STEP_ROWS_MAX / 2, "N", NULL,
      "prompt tokens a request may get in one step; 0 = 64 in serve, 128 elsewhere, 256 where "
      "weights are read in every step" },
    { "--itl-ms", OPTION_U32, AT(itl_ms), 0, 60000, "MS", NULL,
      "while tokens stream, prompts get what lets a step end in that time; 0 = always --chunk" },
    { "-t --threads", OPTION_U32, AT(threads), 0, WORKERS_MAX, "N", NULL,
      "worker threads; 0 = usable physical cores" },
    { "--isa", OPTION_CHOICE, AT(isa), 0, 0, "LEVEL", isa_choices,
      "highest instruction set to use: auto, scalar, avx2, ... (same results)" },
    { "--act", OPTION_CHOICE, AT(act), 0, 0, "KIND", act_choices,
      "activations: int8, or f32 (slow; the yardstick)" },
    { "--swap", OPTION_TEXT, AT(swap), 0, 0, "PATH", NULL,
      "blocks that a preempted request will want again go to PATH: a directory (a nameless file "
      "there) or a file" },
    { "--cache-file", OPTION_TEXT, AT(cache_file), 0, 0, "FILE", NULL,
      "like --swap FILE, and all other finished blocks go there, too: the next start finds them" },
    { "--swap-size", OPTION_U64, AT(swap_bytes), 0, 0, "BYTES", NULL,
      "of that file; 0 = as it is, or four times the KV pool, at most half of what is free on the "
      "disk" },
    { "--swap-day", OPTION_U64, AT(swap_day_bytes), 0, 0, "BYTES", NULL,
      "written to it in a day at most (flash wears out); beyond that blocks are computed again. A "
      "file remembers what the day has had over restarts, a directory does not" },
    { "--swap-io", OPTION_CHOICE, AT(swap_io), 0, 0, "KIND", swap_io_choices,
      "auto: io_uring where the system allows it; plain: ordinary calls" },
    { "--no-prefix-cache", OPTION_FLAG, AT(no_prefix_cache), 0, 0, NULL, NULL,
      "no request takes over what another has computed" },
    { "--audit", OPTION_U32, AT(audit_steps), 0, 0, "N", NULL,
      "checks every invariant of scheduler and KV pool after every N steps; 0 = never" },
    { "--log-events", OPTION_TEXT, AT(log_events), 0, 0, "FILE", NULL,
      "all that the scheduler is given, for `quire replay`: tokens of prompts and answers too" },
    { "--chaos", OPTION_TEXT, AT(chaos), 0, 0, "LIST", NULL,
      "preempt=N,alloc=N,io=N: a preemption every N steps, every Nth allocation of blocks and "
      "transfer fails; answers stay the same" },
    { "--mem", OPTION_U64, AT(weights.mem_bytes), 0, 1e15, "SIZE", NULL,
      "memory the process may take, weights included (250M, 2G); a model that is larger is read "
      "again in every step. 0 = what the machine or the control group has" },
    { "--no-mmap", OPTION_FLAG, AT(weights.no_mmap), 0, 0, NULL, NULL,
      "read the weights into memory at start instead of mapping the file" },
    { "--mlock", OPTION_FLAG, AT(weights.mlock), 0, 0, NULL, NULL,
      "lock the weights that are kept in memory" },
    { "--prefault", OPTION_FLAG, AT(weights.prefault), 0, 0, NULL, NULL,
      "read the weights that fit before the first request" },
    { "--read", OPTION_CHOICE, AT(weights.read), 0, 0, "WAY", read_choices,
      "how weights that do not fit are read: auto, uring, threads, mmap (same results)" },
    { "--pressure", OPTION_TEXT, AT(pressure), 0, 0, "FILE", NULL,
      "where stalls for memory are read (PSI); off = nobody looks. While memory is short, cached "
      "KV blocks are given back" },
    { "-q --quiet", OPTION_FLAG, AT(quiet), 0, 0, NULL, NULL, "no start lines, no progress" },
    { "-v --verbose", OPTION_COUNT, AT(verbose), 0, 0, NULL, NULL, "say more" },
};
const size_t engine_option_count = sizeof engine_option_rows / sizeof engine_option_rows[0];

struct engine_options engine_options_default(void)
{
    return (struct engine_options){ .rows_max = 16, .chunk_tokens = 128 };
}

uint32_t engine_rows_most(const struct engine_options *o)
{
    return o->rows_max > 0 ? o->rows_max : ENGINE_ROWS_STREAMED;
}
