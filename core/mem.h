/* SPDX-License-Identifier: MIT */
/* mem - the only caller of the allocator (jemalloc; libc when sanitized or built without it).
 *   owner    every block belongs to its taker, who gives it back with mem_free
 *   errors   NULL when memory, or the budget, is spent: the caller turns it into RC_NO_MEMORY
 *   thread   any
 * Every block is 64-byte aligned and zeroed, unless mem_alloc_raw says otherwise; in debug builds
 * raw and freed memory is filled with junk so that a stale read shows. */
#ifndef QUIRE_CORE_MEM_H
#define QUIRE_CORE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"

/* mem_alloc - zeroed bytes. mem_alloc_raw - the same, not zeroed. bytes may be 0: a valid block. */
void *mem_alloc(size_t bytes) ATTR_MUST_USE;
void *mem_alloc_raw(size_t bytes) ATTR_MUST_USE;

/* mem_alloc_array - count x size zeroed bytes; NULL when the product does not fit. */
void *mem_alloc_array(size_t count, size_t size) ATTR_MUST_USE;

/* mem_grow - block with at least bytes, the first old_bytes kept, the rest zeroed; NULL: p is as it
 * was. */
void *mem_grow(void *p, size_t old_bytes, size_t bytes) ATTR_MUST_USE;

/* mem_free - gives a block back; NULL is allowed. */
void mem_free(void *p);

/* mem_copy_text - zero-terminated copy of len bytes. */
char *mem_copy_text(const char *text, size_t len) ATTR_MUST_USE;

/* mem_foreign_alloc, mem_foreign_free - for libraries that take an allocator: no alignment beyond
 * the allocator's own, and a budget of their own, MEM_FOREIGN_BYTES_MAX, because what they allocate
 * is often many times what came in. */
void *mem_foreign_alloc(size_t bytes);
void mem_foreign_free(void *p);

/* mem_failures - allocations of this thread that have failed: what a library may keep to itself. */
uint64_t mem_failures(void);

/* mem_set_budget - allocation beyond this many live bytes fails; 0 = no budget. */
void mem_set_budget(size_t bytes);

/* mem_live_bytes - bytes given out and not yet given back. */
size_t mem_live_bytes(void);

/* mem_fail_after - test hook: the n-th allocation from now fails, once; 0 = off. */
void mem_fail_after(uint64_t n);

/* mem_allocator_name - "jemalloc" or "libc", for --version. */
const char *mem_allocator_name(void);

#endif
