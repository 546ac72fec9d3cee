/* SPDX-License-Identifier: MIT */
/* residency - how the weights of a model get into memory, decided once at start:
 *   mapped    they fit: the shared mapping, as ever (--mlock, --prefault: locked, read at once)
 *   copied    --no-mmap: read into memory of our own, all of them, before the first request
 *   streamed  they do not fit: a part is kept, the rest read again in every step (core/stream.h)
 *   owner     the scheduler thread
 *   errors    RC_NO_FIT with numbers, RC_NO_MEMORY */
#ifndef QUIRE_FRONTEND_RESIDENCY_H
#define QUIRE_FRONTEND_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/gguf.h"
#include "core/model.h"
#include "core/stream.h"

struct residency_options {
    uint64_t mem_bytes; /* --mem: of the whole process, page cache included; 0 = what there is */
    uint32_t read;      /* --read: an enum stream_way */
    bool no_mmap;       /* --no-mmap */
    bool mlock;         /* --mlock */
    bool prefault;      /* --prefault */
};

/* What is known when the decision is taken. */
struct residency_needs {
    uint64_t available_bytes; /* that the process may still take; UINT64_MAX = not known */
    uint64_t other_bytes;     /* of these, KV pool and scratch */
    uint32_t workers;
};

struct residency {
    struct stream *stream; /* NULL: mapped */
    uint64_t weight_bytes; /* of the file */
    uint64_t keep_bytes;   /* fewer than these available: weights are about to be evicted */
};

/* What is left for weights. */
struct residency_split {
    bool fits;              /* all of them */
    uint64_t margin_bytes;  /* for what nobody counts */
    uint32_t slot_count;    /* extents read ahead, when they do not fit */
    uint64_t slot_bytes;    /* of all slots */
    uint64_t pin_bytes;     /* that may be kept beside them */
    uint64_t missing_bytes; /* not even the slots fit */
};

/* residency_split - the sum; file_bytes is the size of the model, extent_bytes of one slot. */
void residency_split(struct residency_split *out, const struct residency_needs *n,
                     uint64_t file_bytes, size_t extent_bytes);

enum rc residency_open(struct residency *out, const struct residency_options *o,
                       const struct residency_needs *n, const struct model *m, const struct gguf *g,
                       struct fault *fault) ATTR_MUST_USE;
void residency_close(struct residency *r);

/* residency_stats - any thread; mode "mapped" and zeroes where nothing is streamed. */
struct stream_stats residency_stats(const struct residency *r);

/* residency_print - the start line, on stderr. residency_report - what was read until now. */
void residency_print(const struct residency *r, const struct residency_options *o);
void residency_report(const struct residency *r);

#endif
