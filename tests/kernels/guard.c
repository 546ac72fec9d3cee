/* SPDX-License-Identifier: MIT */
/* guard - one mapping, its last page without access; and the generator of the kernel tests. */
#include "tests/kernels/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

void guard_open(struct guard *g, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    g->bytes = (bytes + page - 1) / page * page;
    g->base =
        mmap(NULL, g->bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(g->base != MAP_FAILED, "mmap");
    check(mprotect(g->base + g->bytes, page, PROT_NONE) == 0, "mprotect");
}

void guard_close(struct guard *g)
{
    check(munmap(g->base, g->bytes + (size_t)sysconf(_SC_PAGESIZE)) == 0, "munmap");
}

uint8_t *guard_tail(const struct guard *g, size_t bytes)
{
    check(bytes <= g->bytes, "guard_tail");
    return g->base + g->bytes - bytes;
}

uint8_t *guard_at(const struct guard *g, size_t bytes, size_t offset)
{
    check(bytes + 64 <= g->bytes, "guard_at");
    uint8_t *last = g->base + g->bytes - bytes;
    return last - ((uintptr_t)last - offset) % 64;
}

void guard_read_only(const struct guard *g, int on)
{
    check(mprotect(g->base, g->bytes, on ? PROT_READ : PROT_READ | PROT_WRITE) == 0, "mprotect");
}

int few_shapes(void)
{
    return getenv("QUIRE_FEW_SHAPES") != NULL;
}

uint64_t dice_u64(struct dice *d)
{
    d->state += 0x9e3779b97f4a7c15u;
    uint64_t z = d->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t dice_below(struct dice *d, uint32_t n)
{
    return (uint32_t)((dice_u64(d) >> 32) * n >> 32);
}

float dice_float(struct dice *d)
{
    return (float)(int32_t)(dice_u64(d) >> 32) * 0x1p-31f;
}
