/* SPDX-License-Identifier: MIT */
/* tok_merge - a doubly linked list in an array, and a binary heap of rank << 32 | left symbol. An
 * entry is not taken out of the heap when its pair vanishes: it is stale when the rank in it is no
 * longer the rank of the pair that begins at that symbol, and skipped when popped. A stale entry
 * whose rank is equal again means the same as a fresh one, so it does no harm. Entries: count - 1
 * at first, and a join pops one and pushes at most two; so never over 2 count. */
#include "core/tok_merge.h"

#include "core/mem.h"
#include "core/must.h"

void merge_open(struct merge *m)
{
    m->symbols = m->symbols_inline;
    m->heap = m->heap_inline;
    m->capacity = MERGE_INLINE;
    m->heap_count = 0;
    m->work = 0;
}

void merge_close(struct merge *m)
{
    if (m->symbols != m->symbols_inline)
        mem_free(m->symbols);
    if (m->heap != m->heap_inline)
        mem_free(m->heap);
    merge_open(m);
}

enum rc merge_reserve(struct merge *m, size_t count)
{
    if (count <= m->capacity)
        return RC_OK;
    if (count >= MERGE_END)
        return RC_LIMIT;
    uint64_t work = m->work;
    merge_close(m);
    m->work = work;
    size_t capacity = count + count / 4;
    struct merge_symbol *symbols = mem_alloc_raw(capacity * sizeof *symbols);
    uint64_t *heap = mem_alloc_raw(2 * capacity * sizeof *heap);
    if (symbols == NULL || heap == NULL) {
        mem_free(symbols);
        mem_free(heap);
        return RC_NO_MEMORY;
    }
    m->symbols = symbols;
    m->heap = heap;
    m->capacity = capacity;
    return RC_OK;
}

static void sift_down(struct merge *m, size_t i)
{
    uint64_t key = m->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->heap_count)
            break;
        if (child + 1 < m->heap_count && m->heap[child + 1] < m->heap[child])
            child++;
        if (m->heap[child] >= key)
            break;
        m->heap[i] = m->heap[child];
        i = child;
        m->work++;
    }
    m->heap[i] = key;
}

static void push(struct merge *m, uint64_t key)
{
    size_t i = m->heap_count++;
    must(i < 2 * m->capacity);
    while (i > 0 && m->heap[(i - 1) / 2] > key) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
        m->work++;
    }
    m->heap[i] = key;
}

static uint64_t pop(struct merge *m)
{
    uint64_t key = m->heap[0];
    m->heap[0] = m->heap[--m->heap_count];
    if (m->heap_count > 0)
        sift_down(m, 0);
    return key;
}

/* Looks up the pair that begins at symbol i; true when it joins. */
static bool look_up(struct merge *m, uint32_t i, merge_pair_fn *pair, const void *ctx)
{
    struct merge_symbol *s = &m->symbols[i];
    m->work++;
    if (s->next != MERGE_END && pair(ctx, s, &m->symbols[s->next], &s->rank, &s->pair_id))
        return true;
    s->rank = MERGE_NO_RANK;
    return false;
}

static uint64_t key_of(const struct merge *m, uint32_t i)
{
    return (uint64_t)m->symbols[i].rank << 32 | i;
}

static void join(struct merge *m, uint32_t left)
{
    struct merge_symbol *a = &m->symbols[left], *b = &m->symbols[a->next];
    a->id = a->pair_id;
    a->hash = a->hash * b->power + b->hash;
    a->power *= b->power;
    a->end = b->end;
    a->next = b->next;
    b->rank = MERGE_NO_RANK;
    if (a->next != MERGE_END)
        m->symbols[a->next].prev = left;
}

void merge_run(struct merge *m, uint32_t count, merge_pair_fn *pair, const void *ctx)
{
    must(count > 0);
    must(count <= m->capacity);
    m->heap_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        m->symbols[i].prev = i == 0 ? MERGE_END : i - 1;
        m->symbols[i].next = i + 1 == count ? MERGE_END : i + 1;
    }
    for (uint32_t i = 0; i < count; i++)
        if (look_up(m, i, pair, ctx))
            m->heap[m->heap_count++] = key_of(m, i);
    for (size_t i = m->heap_count / 2; i > 0; i--)
        sift_down(m, i - 1);
    while (m->heap_count > 0) {
        uint64_t key = pop(m);
        uint32_t left = (uint32_t)key;
        if (m->symbols[left].rank != (uint32_t)(key >> 32))
            continue;
        join(m, left);
        if (look_up(m, left, pair, ctx))
            push(m, key_of(m, left));
        uint32_t prev = m->symbols[left].prev;
        if (prev != MERGE_END && look_up(m, prev, pair, ctx))
            push(m, key_of(m, prev));
    }
}
