/* SPDX-License-Identifier: MIT */
/* residency - the sum that decides:
 *
 *   available = KV pool + scratch + margin + weights                      mapped
 *   available = KV pool + scratch + margin + slots + what is kept         streamed
 *
 * The margin is for what nobody counts: page tables, stacks, sockets, the pages of the program and
 * of the file's header. Weights that nearly fit are streamed too: a mapping that is a little too
 * large is read from its start again and again, and the kernel throws away just what comes next. */
#include "frontend/residency.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "kernels/matmul.h"
#include "kernels/stream_plan.h"

#define MARGIN_BYTES (12u << 20)
#define SLOTS_MIN 4u
#define SLOTS_MAX 32u

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void warn(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "warning: %s\n", text);
}

static uint64_t margin(uint64_t available)
{
    return MARGIN_BYTES + available / 64;
}

bool residency_fits(uint64_t weight_bytes, const struct residency_needs *n)
{
    uint64_t others = n->other_bytes + margin(n->available_bytes);
    return n->available_bytes == UINT64_MAX ||
           (others <= n->available_bytes && weight_bytes <= n->available_bytes - others);
}

uint32_t residency_slots(uint64_t available_bytes, size_t slot_bytes)
{
    uint64_t count = available_bytes / 16 / slot_bytes;
    return (uint32_t)(count < SLOTS_MIN ? SLOTS_MIN : count > SLOTS_MAX ? SLOTS_MAX : count);
}

static void complain(const char *what)
{
    fprintf(stderr, "warning: the model cannot be %s: %s\n", what, strerror(errno));
}

/* Refusals cost speed and nothing else. */
static void settle_mapping(const struct residency_options *o, const struct gguf *g)
{
    if (gguf_advise(g, GGUF_STRETCHES) != RC_OK)
        complain("read in stretches");
    if (o->mlock && gguf_advise(g, GGUF_LOCK) != RC_OK)
        complain("locked in memory");
    if (o->prefault && !o->mlock && gguf_advise(g, GGUF_TOUCH) != RC_OK)
        complain("read ahead of time");
}

static enum rc open_stream(struct residency *r, const struct residency_options *o,
                           const struct residency_needs *n, struct stream_config *c,
                           struct fault *fault)
{
    size_t slot = stream_slot_bytes(c);
    uint64_t others = n->other_bytes + margin(n->available_bytes);
    c->slot_count = residency_slots(n->available_bytes, slot);
    uint64_t need = others + (uint64_t)c->slot_count * slot;
    if (n->available_bytes == UINT64_MAX)
        c->pin_bytes = UINT64_MAX / 2;
    else if (need <= n->available_bytes)
        c->pin_bytes = n->available_bytes - need;
    else
        return fault_set(fault, RC_NO_FIT,
                         "KV pool and scratch (%.0f MiB), %u buffers for weights (%.0f MiB) and a "
                         "margin of %.0f MiB are more than the %.0f MiB that are available; lower "
                         "--kv-tokens, -c, --max-rows or --chunk",
                         mib(n->other_bytes), c->slot_count, mib(need - others),
                         mib(others - n->other_bytes), mib(n->available_bytes));
    if (o->no_mmap && !residency_fits(r->weight_bytes, n))
        warn(NULL, "--no-mmap: the weights do not fit; they are streamed");
    return stream_open(&r->stream, c, fault);
}

enum rc residency_open(struct residency *out, const struct residency_options *o,
                       const struct residency_needs *n, const struct model *m, const struct gguf *g,
                       struct fault *fault)
{
    *out = (struct residency){ 0 };
    for (uint32_t i = 0; i < gguf_file_count(g); i++)
        out->weight_bytes += gguf_file_bytes(g, i);
    if (!o->no_mmap && residency_fits(out->weight_bytes, n)) {
        settle_mapping(o, g);
        return RC_OK;
    }
    struct stream_matrix *matrices;
    struct stream_config c = { .row_grain = MATMUL_GRAIN,
                               .consumers = n->workers,
                               .way = (enum stream_way)o->read,
                               .lock = o->mlock,
                               .warm = o->prefault || o->no_mmap,
                               .clock = clock_real(),
                               .warn = warn };
    if (stream_plan_make(&matrices, &c.matrix_count, m, g) != RC_OK)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    c.matrices = matrices;
    enum rc rc = open_stream(out, o, n, &c, fault);
    mem_free(matrices);
    return rc;
}

void residency_close(struct residency *r)
{
    stream_close(r->stream);
    r->stream = NULL;
}

void residency_print(const struct residency *r, const struct residency_options *o)
{
    if (r->stream == NULL) {
        fprintf(stderr, "weights   mapped%s\n",
                o->mlock      ? ", locked"
                : o->prefault ? ", read at start"
                              : "");
        return;
    }
    struct stream_stats s = stream_stats(r->stream);
    fprintf(stderr, "weights   %.0f MiB kept, %.0f MiB read in every step; %s\n",
            mib(s.pinned_bytes), mib(s.streamed_bytes), s.mode);
}
