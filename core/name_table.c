/* SPDX-License-Identifier: MIT */
/* name_table - open addressing, linear probing, at most half full. The hash is SipHash-1-3
 * (Aumasson and Bernstein 2012): a plain multiplicative hash lets a file with 65,536 chosen names
 * cost 2^31 compares. */
#include "core/name_table.h"

#include <string.h>
#include <sys/random.h>

#include "core/load.h"
#include "core/mem.h"
#include "core/must.h"

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static uint64_t hash_text(const uint64_t key[2], const char *text, size_t len)
{
    uint64_t v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                      key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u };
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t word = load_u64((const uint8_t *)text + i);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)len << 56;
    for (unsigned shift = 0; i < len; i++, shift += 8)
        last |= (uint64_t)(uint8_t)text[i] << shift;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

enum rc name_table_open(struct name_table *t, uint32_t count)
{
    must(count < 1u << 31);
    *t = (struct name_table){ 0 };
    size_t slots = 8;
    while (slots < (size_t)count * 2)
        slots *= 2;
    t->slots = mem_alloc_array(slots, sizeof *t->slots);
    if (t->slots == NULL)
        return RC_NO_MEMORY;
    t->slot_count = (uint32_t)slots;
    for (size_t i = 0; i < slots; i++)
        t->slots[i].index = NAME_NONE;
    if (getrandom(t->key, sizeof t->key, GRND_NONBLOCK) != (ssize_t)sizeof t->key) {
        /* No entropy yet (early boot): the addresses still differ from run to run. */
        t->key[0] = (uintptr_t)t->slots;
        t->key[1] = (uintptr_t)&slots;
    }
    return RC_OK;
}

void name_table_close(struct name_table *t)
{
    mem_free(t->slots);
    *t = (struct name_table){ 0 };
}

/* The slot of this text, or the free one where it belongs. */
static struct name_slot *find_slot(const struct name_table *t, const char *text, size_t len,
                                   uint32_t *tag)
{
    uint64_t hash = hash_text(t->key, text, len);
    uint32_t mask = t->slot_count - 1;
    *tag = (uint32_t)(hash >> 32);
    for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
        struct name_slot *s = &t->slots[i];
        if (s->index == NAME_NONE)
            return s;
        if (s->tag == *tag && s->len == len && (len == 0 || memcmp(s->text, text, len) == 0))
            return s;
    }
}

uint32_t name_table_add(struct name_table *t, const char *text, size_t len, uint32_t index)
{
    must(index != NAME_NONE);
    must(t->used < t->slot_count / 2);
    uint32_t tag;
    struct name_slot *s = find_slot(t, text, len, &tag);
    if (s->index != NAME_NONE)
        return s->index;
    *s = (struct name_slot){ .text = text, .len = len, .index = index, .tag = tag };
    t->used++;
    return NAME_NONE;
}

uint32_t name_table_find(const struct name_table *t, const char *text, size_t len)
{
    if (t->slot_count == 0)
        return NAME_NONE;
    uint32_t tag;
    return find_slot(t, text, len, &tag)->index;
}
