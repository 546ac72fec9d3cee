/* SPDX-License-Identifier: MIT */
/* exec_cpu - the executor on this machine's processors: runs a plan through the model's forward
 * pass.
 *   owner    the opener; the scheduler thread calls its executor and is worker 0
 *   memory   scratch is allocated at open for the limits given, and printed in
 *            exec_cpu_scratch_bytes */
#ifndef QUIRE_KERNELS_EXEC_CPU_H
#define QUIRE_KERNELS_EXEC_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cpu.h"
#include "core/executor.h"
#include "core/model.h"
#include "core/stream.h"
#include "core/workers.h"
#include "kernels/kv_layout.h"

struct exec_cpu;
struct laps;

struct exec_cpu_config {
    uint32_t rows_max;    /* rows of a step */
    uint32_t outputs_max; /* outputs of a step */
    uint32_t ctx_max;     /* positions */
    enum isa isa;         /* highest level to use */
    bool act_f32;         /* --act f32: activations stay unquantized */
    bool (*lost)(void);   /* whether bytes of the model are gone for good; may be NULL */
    struct kv_types kv_types;
    void *kv_base; /* the pool's mapping */
    size_t kv_block_bytes;
    uint32_t kv_block_count;
    /* For one sequence alone: the same memory without blocks (kv_layout_contiguous); block table
     * entry i is i. */
    bool kv_contiguous;
};

/* exec_cpu_block_bytes - bytes that a KV block of this model takes; what kvpool_open is given.
 * RC_USAGE when the model's heads do not suit the types. */
enum rc exec_cpu_block_bytes(size_t *out, const struct model *m, struct kv_types types,
                             struct fault *fault) ATTR_MUST_USE;

enum rc exec_cpu_open(struct exec_cpu **out, const struct model *m, struct workers *w,
                      const struct exec_cpu_config *config, struct fault *fault) ATTR_MUST_USE;
void exec_cpu_close(struct exec_cpu *e);

/* exec_cpu_stream - weights come from s from the next step on; s outlives the executor. A step
 * whose weights cannot be read fails with RC_IO or RC_CORRUPT. */
void exec_cpu_stream(struct exec_cpu *e, struct stream *s);

/* exec_cpu_share_reads - whether sequences with common blocks read them once a step; true at first.
 * The same bits either way: for measuring what it gains. */
void exec_cpu_share_reads(struct exec_cpu *e, bool share);

/* exec_cpu_time - steps from the next one on add the time of their stages to laps (kernels/laps.h),
 * which outlives them; NULL = no longer. */
void exec_cpu_time(struct exec_cpu *e, struct laps *laps);

/* exec_cpu_lost - any thread: bytes of the model are gone. The step that found it, and all later
 * ones, fail with RC_CORRUPT. */
bool exec_cpu_lost(const struct exec_cpu *e);

struct executor exec_cpu_executor(struct exec_cpu *e);
size_t exec_cpu_scratch_bytes(const struct exec_cpu *e);

/* exec_cpu_weight_bytes - weight bytes read by the last step: the same whatever its rows. */
uint64_t exec_cpu_weight_bytes(const struct exec_cpu *e);

/* exec_cpu_kv_bytes - bytes of keys and values that attention read in the last step. Rows of one
 * sequence, and of sequences with common blocks, share reads: so it may be far below the sum of
 * what each row sees. */
uint64_t exec_cpu_kv_bytes(const struct exec_cpu *e);

/* exec_cpu_macs - multiply-adds with weights in the last step; attention's own are not in it. */
uint64_t exec_cpu_macs(const struct exec_cpu *e);

/* exec_cpu_kv_id - what the bytes of a KV block depend on besides the weights and its tokens: the
 * numerics, the kind of activations, the layout with its types. */
uint64_t exec_cpu_kv_id(const struct exec_cpu *e);
enum isa exec_cpu_isa(const struct exec_cpu *e);

#endif
