/* SPDX-License-Identifier: MIT */
/* bare_uring - core/uring.h where there is no liburing (BARE=1): open is refused with the reason,
 * as by a kernel that has it switched off, and readers take their other way. */
#include "core/must.h"
#include "core/uring.h"

enum rc uring_open(struct uring **out, uint32_t depth, struct fault *fault)
{
    (void)depth;
    *out = NULL;
    return fault_set(fault, RC_UNSUPPORTED, "io_uring: this build has no liburing");
}

void uring_close(struct uring *u)
{
    must(u == NULL);
}

enum rc uring_register(struct uring *u, void *base, size_t bytes, struct fault *fault)
{
    (void)base;
    (void)bytes;
    must(u != NULL);
    return fault_set(fault, RC_UNSUPPORTED, "io_uring: this build has no liburing");
}

void uring_start(struct uring *u, const struct uring_transfer *t)
{
    must(u != NULL && t != NULL);
}

bool uring_collect(struct uring *u, bool wait, uint64_t *tag, int32_t *result)
{
    (void)wait;
    (void)tag;
    (void)result;
    must(u != NULL);
    return false;
}
