/* SPDX-License-Identifier: MIT */
/* mem - see mem.h. Layout of a block: [head, 64 bytes][payload]. The head keeps the size, so that
 * the live count is exact with either allocator, and a magic word that a double free loses. */
#include "core/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if QUIRE_JEMALLOC
#include <jemalloc/jemalloc.h>
#else
#include <malloc.h>
#endif

#include "core/limits.h"
#include "core/must.h"

#define MEM_MAGIC 0x6d656d51u
#define MEM_DEAD 0xdeadbeefu
#define MEM_ALIGN 64u
#define MEM_JUNK 0xa5

struct head {
    _Alignas(MEM_ALIGN) size_t bytes;
    uint32_t magic;
};

static struct {
    atomic_size_t live_bytes, budget_bytes, foreign_bytes;
    _Atomic uint64_t fail_after;
} state;
static _Thread_local uint64_t failures;

static void *take(size_t bytes)
{
#if QUIRE_JEMALLOC
    return mallocx(bytes, MALLOCX_ALIGN(MEM_ALIGN));
#else
    void *p; /* exact size: aligned_alloc would hide a read past the end */
    return posix_memalign(&p, MEM_ALIGN, bytes) == 0 ? p : NULL;
#endif
}

static bool must_fail_now(void)
{
    uint64_t n = atomic_load_explicit(&state.fail_after, memory_order_relaxed);
    if (n == 0)
        return false;
    return atomic_fetch_sub(&state.fail_after, 1) == 1;
}

void *mem_alloc_raw(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - 2 * MEM_ALIGN || must_fail_now()) {
        failures++;
        return NULL;
    }
    size_t budget = atomic_load_explicit(&state.budget_bytes, memory_order_relaxed);
    size_t live = atomic_fetch_add(&state.live_bytes, bytes) + bytes;
    struct head *h = budget != 0 && live > budget ? NULL : take(sizeof *h + bytes);
    if (h == NULL) {
        failures++;
        atomic_fetch_sub(&state.live_bytes, bytes);
        return NULL;
    }
    h->bytes = bytes;
    h->magic = MEM_MAGIC;
#if QUIRE_SLOW_CHECKS
    memset(h + 1, MEM_JUNK, bytes);
#endif
    return h + 1;
}

void *mem_alloc(size_t bytes)
{
    void *p = mem_alloc_raw(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

void *mem_alloc_array(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return mem_alloc(bytes);
}

void *mem_grow(void *p, size_t old_bytes, size_t bytes)
{
    must(bytes >= old_bytes);
    char *q = mem_alloc_raw(bytes);
    if (q == NULL)
        return NULL;
    if (old_bytes > 0)
        memcpy(q, p, old_bytes);
    memset(q + old_bytes, 0, bytes - old_bytes);
    mem_free(p);
    return q;
}

void mem_free(void *p)
{
    if (p == NULL)
        return;
    struct head *h = (struct head *)p - 1;
    must(h->magic == MEM_MAGIC);
    h->magic = MEM_DEAD;
    atomic_fetch_sub(&state.live_bytes, h->bytes);
#if QUIRE_SLOW_CHECKS
    memset(p, MEM_JUNK, h->bytes);
#endif
#if QUIRE_JEMALLOC
    dallocx(h, 0);
#else
    free(h);
#endif
}

char *mem_copy_text(const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = mem_alloc_raw(len + 1);
    if (copy == NULL)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

static void *foreign_take(size_t bytes)
{
#if QUIRE_JEMALLOC
    return mallocx(bytes, 0);
#else
    return malloc(bytes);
#endif
}

static size_t foreign_bytes_of(void *p)
{
#if QUIRE_JEMALLOC
    return sallocx(p, 0);
#else
    return malloc_usable_size(p);
#endif
}

static void foreign_give(void *p)
{
#if QUIRE_JEMALLOC
    dallocx(p, 0);
#else
    free(p);
#endif
}

void *mem_foreign_alloc(size_t bytes)
{
    bool refused = bytes > MEM_FOREIGN_BYTES_MAX || must_fail_now();
    void *p = refused ? NULL : foreign_take(bytes > 0 ? bytes : 1);
    if (p != NULL) {
        size_t own = foreign_bytes_of(p);
        if (atomic_fetch_add(&state.foreign_bytes, own) + own <= MEM_FOREIGN_BYTES_MAX)
            return p;
        mem_foreign_free(p);
    }
    failures++;
    return NULL;
}

void mem_foreign_free(void *p)
{
    if (p == NULL)
        return;
    atomic_fetch_sub(&state.foreign_bytes, foreign_bytes_of(p));
    foreign_give(p);
}

uint64_t mem_failures(void)
{
    return failures;
}

void mem_set_budget(size_t bytes)
{
    atomic_store(&state.budget_bytes, bytes);
}

size_t mem_live_bytes(void)
{
    return atomic_load(&state.live_bytes);
}

void mem_fail_after(uint64_t n)
{
    atomic_store(&state.fail_after, n);
}

const char *mem_allocator_name(void)
{
#if QUIRE_JEMALLOC
    return "jemalloc";
#else
    return "libc";
#endif
}
