/* SPDX-License-Identifier: MIT */
/* fit - the sums. Nothing is rounded in anybody's favour: a model that just fits is streamed when
 * the margin is missing, as at start.
 * Figures of boards: a card or disk read in a row, memory read and written in a row, products of
 * weights as published prompt speeds show them. Where each comes from, and which are estimates,
 * stands in docs/MEMORY.md. Every one can be given on the command line instead. */
#include "frontend/fit.h"

#include <string.h>

#include "core/limits.h"
#include "core/stream.h"
#include "frontend/residency.h"

#define MIB (1ull << 20)
#define SLOT_BYTES (STREAM_EXTENT_BYTES + 65536u) /* a matrix seldom divides evenly */

static const struct fit_device devices[] = {
    { "pi-zero-2w", "Raspberry Pi Zero 2 W, 512 MB", 425 * MIB, { 0, 20e6, 2.6e9, 3e9 } },
    { "pi-4", "Raspberry Pi 4, 4 GB, card", 3792 * MIB, { 0, 41e6, 5.5e9, 11e9 } },
    { "pi-4-ssd", "Raspberry Pi 4, 4 GB, USB disk", 3792 * MIB, { 0, 297e6, 5.5e9, 11e9 } },
    { "pi-5", "Raspberry Pi 5, 8 GB, card", 7942 * MIB, { 0, 85e6, 11.4e9, 50e9 } },
    { "pi-5-nvme", "Raspberry Pi 5, 8 GB, NVMe", 7942 * MIB, { 0, 416e6, 11.4e9, 50e9 } },
    { "licheerv", "LicheeRV, 512 MB", 496 * MIB, { 0, 20e6, 1.0e9, 0.7e9 } },
    { "licheerv-nano", "LicheeRV Nano, 256 MB", 240 * MIB, { 0, 10.7e6, 1.0e9, 0.7e9 } },
};

const struct fit_device *fit_device_at(size_t index)
{
    return index < sizeof devices / sizeof devices[0] ? &devices[index] : NULL;
}

const struct fit_device *fit_device(const char *name)
{
    for (size_t i = 0; fit_device_at(i) != NULL; i++)
        if (strcmp(devices[i].name, name) == 0)
            return &devices[i];
    return NULL;
}

uint64_t fit_system_bytes(uint64_t ram_bytes)
{
    uint64_t share = ram_bytes / 8;
    return share < 40 * MIB ? 40 * MIB : share < 512 * MIB ? share : 512 * MIB;
}

static uint64_t blocks_of(uint32_t tokens)
{
    return (tokens + (uint64_t)KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Seconds of a step of `users` rows in the middle of their contexts. */
static double step_seconds(const struct fit_input *in, const struct fit_result *r, uint32_t users,
                           const char **bound)
{
    const struct fit_machine *m = &in->machine;
    double kv = (double)r->kv_token_bytes * users * in->ctx_tokens / 2;
    double disk = (double)r->streamed_bytes / m->disk_bytes_s;
    double memory = ((double)in->weight_bytes + kv) / m->memory_bytes_s;
    double arithmetic = (double)in->params * users / m->macs_s;
    double longest = larger(disk, larger(memory, arithmetic));
    *bound = longest == disk && disk > 0 ? "disk" : longest == memory ? "memory" : "arithmetic";
    return longest;
}

void fit_compute(struct fit_result *out, const struct fit_input *in)
{
    uint64_t heads = (uint64_t)in->layers * in->kv_heads * in->head_dim;
    *out = (struct fit_result){ .kv_token_bytes = heads * (in->key_bits + in->value_bits) / 256 };
    out->kv_bytes = out->kv_token_bytes * KV_BLOCK_TOKENS * blocks_of(in->ctx_tokens) * in->users;
    struct residency_needs needs = { .available_bytes = in->machine.available_bytes,
                                     .other_bytes = out->kv_bytes + in->scratch_bytes };
    struct residency_split split;
    residency_split(&split, &needs, in->file_bytes,
                    in->extent_bytes > 0 ? in->extent_bytes : SLOT_BYTES);
    out->margin_bytes = split.margin_bytes;
    if (split.fits) {
        out->pinned_bytes = in->weight_bytes;
    } else {
        out->slot_bytes = split.slot_bytes;
        out->pinned_bytes = split.pin_bytes < in->weight_bytes ? split.pin_bytes : in->weight_bytes;
        out->streamed_bytes = in->weight_bytes - out->pinned_bytes;
        out->missing_bytes = split.missing_bytes;
    }
    out->verdict = split.fits ? FIT_WHOLE : split.missing_bytes == 0 ? FIT_STREAMED : FIT_NOT;
    const char *bound;
    out->step_s = step_seconds(in, out, in->users, &out->bound);
    out->tokens_s = in->users / out->step_s;
    out->tokens_s_one = 1 / step_seconds(in, out, 1, &bound);
}

static bool good(const struct fit_input *in, enum fit_verdict wanted)
{
    struct fit_result r;
    fit_compute(&r, in);
    return r.verdict <= wanted;
}

/* The most of *value, up to max, in steps, with which in is good. */
static uint32_t most(struct fit_input *in, uint32_t *value, uint32_t step, uint32_t max,
                     enum fit_verdict wanted)
{
    uint32_t low = 0, high = max / step; /* in steps; low is good */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        *value = middle * step;
        if (good(in, wanted))
            low = middle;
        else
            high = middle - 1;
    }
    return low * step;
}

uint32_t fit_ctx(const struct fit_input *in, enum fit_verdict wanted)
{
    struct fit_input test = *in;
    return most(&test, &test.ctx_tokens, KV_BLOCK_TOKENS, CTX_TOKENS_MAX, wanted);
}

uint32_t fit_users(const struct fit_input *in, enum fit_verdict wanted)
{
    struct fit_input test = *in;
    return most(&test, &test.users, 1, 1024, wanted);
}
