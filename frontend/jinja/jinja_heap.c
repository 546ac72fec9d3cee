/* SPDX-License-Identifier: MIT */
/* jinja_heap - chunks in a list, newest first; a bump pointer in the newest.
 *   [chunk | pieces ... | free]  <-  [chunk | piece]  <-  ...
 * Chunks start small and double, so that a short template costs one allocation and a long one few.
 * In builds with slow checks every piece is a chunk of its own, so that the address sanitizer sees
 * the end of each. */
#include "frontend/jinja/jinja_heap.h"

#include <string.h>

#include "core/mem.h"

#define ALIGN_BYTES 16u
#define CHUNK_MIN (16u << 10)
#define CHUNK_MAX (1u << 20)

struct jinja_chunk {
    struct jinja_chunk *before;
    size_t bytes; /* with this head */
};

void jinja_heap_open(struct jinja_heap *h, size_t used_max)
{
    *h = (struct jinja_heap){ .used_max = used_max };
}

void jinja_heap_close(struct jinja_heap *h)
{
    for (struct jinja_chunk *c = h->last, *before; c != NULL; c = before) {
        before = c->before;
        mem_free(c);
    }
    *h = (struct jinja_heap){ 0 };
}

/* A chunk with room for bytes, more where the budget allows. */
static bool add_chunk(struct jinja_heap *h, size_t bytes)
{
    size_t left = h->used_max - h->used, head = sizeof(struct jinja_chunk);
    if (left < head || bytes > left - head)
        return false;
    size_t wanted = bytes + head;
    if (!QUIRE_SLOW_CHECKS) {
        size_t usual = h->last == NULL ? CHUNK_MIN : h->used;
        if (usual > CHUNK_MAX)
            usual = CHUNK_MAX;
        if (usual > left)
            usual = left;
        if (wanted < usual)
            wanted = usual;
    }
    struct jinja_chunk *c = mem_alloc_raw(wanted);
    if (c == NULL) {
        h->starved = true;
        return false;
    }
    *c = (struct jinja_chunk){ h->last, wanted };
    h->last = c;
    h->used += wanted;
    h->at = (char *)(c + 1);
    h->left = wanted - head;
    return true;
}

void *jinja_heap_take(struct jinja_heap *h, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t room = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (QUIRE_SLOW_CHECKS)
        room = bytes;
    if ((QUIRE_SLOW_CHECKS || room > h->left) && !add_chunk(h, room))
        return NULL;
    void *p = h->at;
    h->at += room;
    h->left -= room;
    return p;
}

void *jinja_heap_grow(struct jinja_heap *h, void *p, size_t old_bytes, size_t new_bytes)
{
    if (p != NULL && !QUIRE_SLOW_CHECKS && new_bytes <= SIZE_MAX / 2) {
        size_t old_room = (old_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
        size_t new_room = (new_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
        if ((char *)p + old_room == h->at && new_room - old_room <= h->left) {
            h->at += new_room - old_room;
            h->left -= new_room - old_room;
            return p;
        }
    }
    void *q = jinja_heap_take(h, new_bytes);
    if (q != NULL && old_bytes > 0)
        memcpy(q, p, old_bytes);
    return q;
}
