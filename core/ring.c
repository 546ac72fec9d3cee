/* SPDX-License-Identifier: MIT */
/* ring - cells [turn | item], one for each slot:
 *
 *   turn == position             free for the producer that draws `position` from tail
 *   turn == position + 1         holds the item of `position`, for the consumer
 *   turn == position + capacity  free again, one lap later
 *
 * Rules
 *   R1  a producer owns a cell from its successful draw until it stores turn = position + 1
 *   R2  the consumer owns a cell from seeing that turn until it stores turn = position + capacity
 *   R3  sleep: the consumer sets SLEEPING, then looks for an item; a producer stores its turn, then
 *       looks for SLEEPING. All four are sequentially consistent, so at least one of the two sees
 *       the other
 *   R4  WAKE is sticky: a wake that comes before the wait ends that wait
 * A producer that stalls between draw and store hides the items behind its own until it goes on; it
 * then wakes the consumer itself. Refused: an eventfd, one system call for every push. */
#include "core/ring.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/futex.h"
#include "core/mem.h"
#include "core/must.h"

#define RING_MAGIC 0x72696e67u
#define SLEEPING 1u
#define WAKE 2u

struct cell {
    _Atomic uint64_t turn;
    void *item; /* synchronised by turn */
};

struct ring {
    uint32_t magic;
    uint32_t mask;
    struct cell *cells;
    ATTR_CACHE_LINE _Atomic uint64_t tail;  /* next position to draw; producers */
    ATTR_CACHE_LINE uint64_t head;          /* next position to take; consumer alone */
    ATTR_CACHE_LINE _Atomic uint32_t state; /* SLEEPING | WAKE; also the futex word */
};

enum rc ring_open(struct ring **out, uint32_t capacity)
{
    must(capacity >= 2);
    must((capacity & (capacity - 1)) == 0);
    *out = NULL;
    struct ring *r = mem_alloc(sizeof *r);
    if (r == NULL)
        return RC_NO_MEMORY;
    r->magic = RING_MAGIC;
    r->mask = capacity - 1;
    r->cells = mem_alloc_array(capacity, sizeof *r->cells);
    if (r->cells == NULL) {
        ring_close(r);
        return RC_NO_MEMORY;
    }
    for (uint64_t i = 0; i < capacity; i++)
        atomic_init(&r->cells[i].turn, i);
    *out = r;
    return RC_OK;
}

void ring_close(struct ring *r)
{
    if (r == NULL)
        return;
    must(r->magic == RING_MAGIC);
    r->magic = 0;
    mem_free(r->cells);
    mem_free(r);
}

enum rc ring_push(struct ring *r, void *item)
{
    must(r->magic == RING_MAGIC);
    must(item != NULL);
    uint64_t position = atomic_load_explicit(&r->tail, memory_order_relaxed);
    struct cell *c;
    for (;;) {
        c = &r->cells[position & r->mask];
        uint64_t turn = atomic_load_explicit(&c->turn, memory_order_acquire);
        if (turn == position) {
            if (atomic_compare_exchange_weak_explicit(&r->tail, &position, position + 1,
                                                      memory_order_relaxed, memory_order_relaxed))
                break;
        } else if ((int64_t)(turn - position) < 0) {
            return RC_FULL; /* still the item of a lap ago */
        } else {
            position = atomic_load_explicit(&r->tail, memory_order_relaxed);
        }
    }
    c->item = item;
    atomic_store(&c->turn, position + 1);
    if ((atomic_load(&r->state) & SLEEPING) != 0 &&
        (atomic_fetch_and(&r->state, ~SLEEPING) & SLEEPING) != 0)
        futex_wake(&r->state, 1);
    return RC_OK;
}

void *ring_pop(struct ring *r)
{
    must(r->magic == RING_MAGIC);
    struct cell *c = &r->cells[r->head & r->mask];
    if (atomic_load_explicit(&c->turn, memory_order_acquire) != r->head + 1)
        return NULL;
    void *item = c->item;
    atomic_store_explicit(&c->turn, r->head + r->mask + 1, memory_order_release);
    r->head++;
    return item;
}

static bool has_item(struct ring *r)
{
    return atomic_load(&r->cells[r->head & r->mask].turn) == r->head + 1;
}

void ring_wait(struct ring *r, uint64_t timeout_us)
{
    must(r->magic == RING_MAGIC);
    uint64_t deadline_us = futex_deadline_us(timeout_us);
    for (bool late = timeout_us == 0;;) {
        uint32_t before = atomic_fetch_or(&r->state, SLEEPING);
        if ((before & WAKE) != 0 || late) {
            atomic_fetch_and(&r->state, ~(SLEEPING | WAKE));
            return;
        }
        if (has_item(r)) {
            atomic_fetch_and(&r->state, ~SLEEPING);
            return;
        }
        late = !futex_wait(&r->state, SLEEPING, deadline_us);
    }
}

void ring_wake(struct ring *r)
{
    if ((atomic_fetch_or(&r->state, WAKE) & SLEEPING) != 0)
        futex_wake(&r->state, 1);
}
