/* SPDX-License-Identifier: MIT */
/* guard - memory whose last byte is followed by an unmapped page: reading past the end is a fault
 * at once.
 *   owner, thread   the test; errors end the program */
#ifndef QUIRE_TESTS_KERNELS_GUARD_H
#define QUIRE_TESTS_KERNELS_GUARD_H

#include <stddef.h>
#include <stdint.h>

struct guard {
    uint8_t *base;
    size_t bytes; /* usable, whole pages */
};

void guard_open(struct guard *g, size_t bytes);
void guard_close(struct guard *g);

/* guard_tail - the last `bytes` bytes. guard_at - bytes that start at an address with this offset
 * mod 64, as late as possible. */
uint8_t *guard_tail(const struct guard *g, size_t bytes);
uint8_t *guard_at(const struct guard *g, size_t bytes, size_t offset);

/* guard_read_only - the whole memory may be read only, or written again. */
void guard_read_only(const struct guard *g, int on);

/* few_shapes - QUIRE_FEW_SHAPES is set: every kernel on a sample of the shapes, for emulators. */
int few_shapes(void);

/* A small generator: the same numbers on every machine. Any seed. */
struct dice {
    uint64_t state;
};
uint64_t dice_u64(struct dice *d);
uint32_t dice_below(struct dice *d, uint32_t n);
float dice_float(struct dice *d); /* in [-1, 1) */

#endif
