/* SPDX-License-Identifier: MIT */
/* tok_table - open addressing with linear probing, at most half full. Added tokens: the candidates
 * for a match are a range of the sorted list; each further byte of the text narrows it by two
 * binary searches. The range's first entry is the only one that can end there, because a text
 * sorts before its own continuations. */
#include "core/tok_table.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"

void tok_hash(const char *text, size_t len, uint64_t *hash, uint64_t *power)
{
    uint64_t h = 0, p = 1;
    for (size_t i = 0; i < len; i++) {
        h = h * TOK_HASH_FACTOR + (unsigned char)text[i] + 1;
        p *= TOK_HASH_FACTOR;
    }
    *hash = h;
    *power = p;
}

static uint64_t scramble(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 29;
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

enum rc tok_table_open(struct tok_table *t, size_t count)
{
    *t = (struct tok_table){ 0 };
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    must(slots <= UINT32_MAX);
    t->slots = mem_alloc_raw(slots * sizeof *t->slots);
    if (t->slots == NULL)
        return RC_NO_MEMORY;
    for (size_t i = 0; i < slots; i++)
        t->slots[i] = (struct tok_slot){ 0, -1 };
    t->mask = (uint32_t)(slots - 1);
    return RC_OK;
}

void tok_table_close(struct tok_table *t)
{
    mem_free(t->slots);
    *t = (struct tok_table){ 0 };
}

/* Slot of the text, or the empty one where it would be. */
static uint32_t find_slot(const struct tok_table *t, const struct tok_text *texts, uint64_t mixed,
                          struct tok_text a, struct tok_text b)
{
    uint32_t tag = (uint32_t)(mixed >> 32);
    for (uint32_t i = (uint32_t)mixed & t->mask;; i = (i + 1) & t->mask) {
        const struct tok_slot *slot = &t->slots[i];
        if (slot->id < 0)
            return i;
        if (slot->tag != tag)
            continue;
        const struct tok_text *s = &texts[slot->id];
        if (s->len == a.len + b.len && memcmp(s->text, a.text, a.len) == 0 &&
            memcmp(s->text + a.len, b.text, b.len) == 0)
            return i;
    }
}

bool tok_table_put(struct tok_table *t, const struct tok_text *texts, int32_t id)
{
    uint64_t hash, power;
    const struct tok_text *s = &texts[id];
    tok_hash(s->text, s->len, &hash, &power);
    hash = scramble(hash);
    uint32_t i = find_slot(t, texts, hash, *s, (struct tok_text){ "", 0 });
    if (((i - (uint32_t)hash) & t->mask) > TOK_PROBES_MAX)
        return false;
    t->slots[i] = (struct tok_slot){ (uint32_t)(hash >> 32), id };
    if (s->len > t->len_max)
        t->len_max = s->len;
    return true;
}

int32_t tok_table_find(const struct tok_table *t, const struct tok_text *texts, uint64_t hash,
                       struct tok_text a, struct tok_text b)
{
    if ((size_t)a.len + b.len > t->len_max)
        return -1;
    return t->slots[find_slot(t, texts, scramble(hash), a, b)].id;
}

/* Order of two texts bytewise, a beginning before its continuation. */
static int compare_texts(const struct tok_text *a, const struct tok_text *b)
{
    uint32_t shared = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->text, b->text, shared);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static bool sorts_before(const struct tok_text *texts, int32_t x, int32_t y)
{
    int order = compare_texts(&texts[x], &texts[y]);
    return order != 0 ? order < 0 : x > y; /* of equal texts the last one is found first */
}

static void sift_down(int32_t *ids, uint32_t count, uint32_t i, const struct tok_text *texts)
{
    int32_t id = ids[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= count)
            break;
        if (child + 1 < count && sorts_before(texts, ids[child], ids[child + 1]))
            child++;
        if (!sorts_before(texts, id, ids[child]))
            break;
        ids[i] = ids[child];
        i = child;
    }
    ids[i] = id;
}

void tok_added_open(struct tok_added *a, const struct tok_text *texts, int32_t *ids, uint32_t count)
{
    *a = (struct tok_added){ .ids = ids, .count = count };
    for (uint32_t i = count / 2; i > 0; i--)
        sift_down(ids, count, i - 1, texts);
    for (uint32_t n = count; n > 1; n--) {
        int32_t last = ids[n - 1];
        ids[n - 1] = ids[0];
        ids[0] = last;
        sift_down(ids, n - 1, 0, texts);
    }
    for (uint32_t i = 0; i < count; i++)
        a->bytes[(unsigned char)texts[ids[i]].text[0] + 1]++;
    for (unsigned c = 1; c <= 256; c++)
        a->bytes[c] += a->bytes[c - 1];
}

void tok_added_close(struct tok_added *a)
{
    mem_free(a->ids);
    *a = (struct tok_added){ 0 };
}

/* First index in [low, high) whose byte at depth is at least byte; texts that end at depth sort
 * first. */
static uint32_t first_from(const struct tok_added *a, const struct tok_text *texts, uint32_t low,
                           uint32_t high, uint32_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct tok_text *s = &texts[a->ids[mid]];
        if (s->len <= depth || (unsigned char)s->text[depth] < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int32_t tok_added_match(const struct tok_added *a, const struct tok_text *texts, const char *text,
                        size_t len, uint64_t *work)
{
    unsigned byte = (unsigned char)text[0];
    uint32_t low = a->bytes[byte], high = a->bytes[byte + 1];
    int32_t found = -1;
    for (uint32_t depth = 1; low < high; depth++) {
        ++*work;
        if (texts[a->ids[low]].len == depth)
            found = a->ids[low];
        if (depth >= len)
            break;
        byte = (unsigned char)text[depth];
        low = first_from(a, texts, low, high, depth, byte);
        high = first_from(a, texts, low, high, depth, byte + 1);
    }
    return found;
}
