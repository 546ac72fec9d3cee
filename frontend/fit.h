/* SPDX-License-Identifier: MIT */
/* fit - will a model fit a machine, and how fast will it be? Arithmetic on plain numbers, the same
 * sum as frontend/residency.c takes at start.
 *   owner    the caller; plain values
 *   errors   none: a size that does not fit is a verdict
 *   source   a step takes the longest of: reading what is not kept, reading memory once, and the
 *            products of all its rows */
#ifndef QUIRE_FRONTEND_FIT_H
#define QUIRE_FRONTEND_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fit_verdict { FIT_WHOLE, FIT_STREAMED, FIT_NOT };

struct fit_machine {
    uint64_t available_bytes; /* for this process */
    double disk_bytes_s;      /* reads in a row, past the page cache */
    double memory_bytes_s;
    double macs_s; /* integer multiply-adds of weights, all cores */
};

struct fit_input {
    struct fit_machine machine;
    uint64_t file_bytes;   /* of the model */
    uint64_t weight_bytes; /* that a step reads */
    uint64_t params;       /* weights that a row is multiplied with */
    size_t extent_bytes;   /* one slot of the stream; 0 = the usual size */
    uint32_t layers, kv_heads, head_dim;
    uint32_t key_bits, value_bits; /* of 32 cached elements */
    uint64_t scratch_bytes;
    uint32_t ctx_tokens;
    uint32_t users;
};

struct fit_result {
    enum fit_verdict verdict;
    uint64_t kv_token_bytes;
    uint64_t kv_bytes; /* of all users */
    uint64_t slot_bytes, margin_bytes;
    uint64_t pinned_bytes;
    uint64_t streamed_bytes; /* read from disk in every step */
    uint64_t missing_bytes;  /* FIT_NOT */
    double step_s;           /* one row for each user */
    double tokens_s;         /* of all users */
    double tokens_s_one;     /* of one user alone */
    const char *bound;       /* what a step waits for: "disk", "memory", "arithmetic" */
};

void fit_compute(struct fit_result *out, const struct fit_input *in);

/* fit_ctx - the longest context, in whole blocks, with which the verdict is `wanted` or better;
 * 0 = none. */
uint32_t fit_ctx(const struct fit_input *in, enum fit_verdict wanted);

/* fit_users - the most users, likewise. */
uint32_t fit_users(const struct fit_input *in, enum fit_verdict wanted);

/* fit_device - a board by name; NULL when there is none. */
struct fit_device {
    const char *name, *title;
    uint64_t ram_bytes;
    struct fit_machine machine;
};
const struct fit_device *fit_device(const char *name);
const struct fit_device *fit_device_at(size_t index); /* NULL behind the last */

/* fit_system_bytes - memory of a machine that the system keeps for itself. */
uint64_t fit_system_bytes(uint64_t ram_bytes);

#endif
