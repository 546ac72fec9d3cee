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
#include "kernels/matmul.h"
#include "kernels/stream_plan.h"

#define MARGIN_BYTES (12u << 20)
#define KEEP_SHARE 4u /* of the margin is to stay free; the rest is being used */
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

void residency_split(struct residency_split *out, const struct residency_needs *n,
                     uint64_t file_bytes, size_t extent_bytes)
{
    uint64_t available = n->available_bytes;
    *out = (struct residency_split){ .margin_bytes = MARGIN_BYTES + available / 64 };
    if (available == UINT64_MAX) {
        *out = (struct residency_split){ .fits = true, .slot_count = SLOTS_MIN };
        out->pin_bytes = UINT64_MAX / 2;
        return;
    }
    uint64_t others = n->other_bytes + out->margin_bytes, slots = available / 16 / extent_bytes;
    out->fits = others <= available && file_bytes <= available - others;
    slots = slots < SLOTS_MIN ? SLOTS_MIN : slots > SLOTS_MAX ? SLOTS_MAX : slots;
    out->slot_count = (uint32_t)slots;
    out->slot_bytes = slots * extent_bytes;
    others += out->slot_bytes;
    if (others <= available)
        out->pin_bytes = available - others;
    else
        out->missing_bytes = others - available;
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

static enum rc open_stream(struct residency *r, const struct residency_needs *n,
                           struct stream_config *c, struct fault *fault)
{
    struct residency_split split;
    residency_split(&split, n, r->weight_bytes, stream_slot_bytes(c));
    c->slot_count = split.slot_count;
    c->pin_bytes = split.pin_bytes;
    if (split.missing_bytes > 0)
        return fault_set(fault, RC_NO_FIT,
                         "KV pool and scratch (%.0f MiB), %u buffers for weights (%.0f MiB) and a "
                         "margin of %.0f MiB are more than the %.0f MiB that are available; lower "
                         "--kv-tokens, -c, --max-rows or --chunk",
                         mib(n->other_bytes), split.slot_count, mib(split.slot_bytes),
                         mib(split.margin_bytes), mib(n->available_bytes));
    return stream_open(&r->stream, c, fault);
}

enum rc residency_open(struct residency *out, const struct residency_options *o,
                       const struct residency_needs *n, const struct model *m, const struct gguf *g,
                       struct fault *fault)
{
    *out = (struct residency){ 0 };
    for (uint32_t i = 0; i < gguf_file_count(g); i++)
        out->weight_bytes += gguf_file_bytes(g, i);
    struct residency_split split;
    residency_split(&split, n, out->weight_bytes, STREAM_EXTENT_BYTES);
    out->keep_bytes = split.margin_bytes / KEEP_SHARE;
    if (!o->no_mmap && split.fits) {
        out->keep_bytes += out->weight_bytes;
        settle_mapping(o, g);
        return RC_OK;
    }
    if (o->no_mmap && !split.fits)
        warn(NULL, "--no-mmap: the weights do not fit; they are streamed");
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
    enum rc rc = open_stream(out, n, &c, fault);
    mem_free(matrices);
    return rc;
}

void residency_close(struct residency *r)
{
    stream_close(r->stream);
    r->stream = NULL;
}

struct stream_stats residency_stats(const struct residency *r)
{
    return r->stream != NULL ? stream_stats(r->stream) : (struct stream_stats){ .mode = "mapped" };
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

void residency_report(const struct residency *r)
{
    if (r->stream == NULL)
        return;
    struct stream_stats s = stream_stats(r->stream);
    double seconds = (double)(s.busy_us > 0 ? s.busy_us : 1) / 1e6;
    fprintf(stderr, "reading   %.0f MiB at %.0f MB/s; %llu reads through io_uring, %llu dropped\n",
            mib(s.read_bytes), (double)s.read_bytes / 1e6 / seconds,
            (unsigned long long)s.ring_reads, (unsigned long long)s.dropped_reads);
}
