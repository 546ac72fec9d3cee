/* SPDX-License-Identifier: MIT */
/* store - slots of a block file, found by content:
 *
 *   memory   [b0]-[b1]-[b2]-[b3]        a preempted sequence's blocks are owed: evict.c passes them
 *            over
 *                        |    | write    store_save, from the tail
 *   file      .    .   [s7] [s2]        found by chain and tokens, whoever asks
 *                        |    | read     table_acquire, when memory has no such block
 *
 * A slot that is filled may be overwritten when it is needed for another block (second chance:
 * slots that were read stay longer). What is in memory and in a slot is linked both ways, so that a
 * block knows whether it may be evicted at once and a slot tells its block when it goes. A slot
 * keeps a checksum of its bytes: what comes back different is computed again, like what cannot be
 * read or written at all. A block is read when the one before it is whole: the trie knows no whole
 * block under one that is not.
 *   I7  a transfer names block and generation; its block cannot be freed or written before it
 *       has ended */
#include "kvpool/store.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/must.h"
#include "kvpool/internal.h"

#define DAY_US 86400000000u
#define ENDS_AT_ONCE 16u
#define TIDY_LOOKS 64u /* blocks that store_tidy looks at in a call */

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_FILLED };

struct slot {
    struct chain chain;
    uint64_t sum; /* of its bytes */
    uint32_t hash_next;
    uint32_t block; /* in memory with the same tokens, or BLOCK_NONE */
    uint32_t readers;
    uint8_t state;
    bool wanted; /* was read since the hand passed */
};

struct transfer {
    uint32_t block, gen, slot;
    uint32_t under_way; /* transfers when it began, itself included */
    uint32_t poll;               /* the last one before it */
    uint64_t begin_us, start_us; /* when; how long starting it took: all of it, with plain calls */
    bool busy;
    bool write;
};

struct store {
    struct store_config config;
    struct slot *slots;
    int32_t (*tokens)[KV_BLOCK_TOKENS]; /* [slot_count] */
    uint32_t *buckets;
    uint32_t bucket_mask;
    uint32_t hand;              /* next slot to look at for a new block */
    struct transfer *transfers; /* [io.depth] */
    uint32_t busy, busy_writes;
    uint32_t first_waiting, last_waiting; /* blocks to be read, linked by lru_next */
    uint64_t day_begin_us, day_now_us, day_bytes; /* written since the day began */
    uint64_t ends; /* counted for chaos */
    uint32_t token_us;
    uint32_t polls;
    uint32_t tidy_at; /* block that store_tidy looks at next */
    struct store_stats stats;
};

static void slot_fill(struct store *s, uint32_t at)
{
    struct slot *slot = &s->slots[at];
    uint32_t *bucket = &s->buckets[(uint32_t)slot->chain.b & s->bucket_mask];
    slot->state = SLOT_FILLED;
    slot->hash_next = *bucket;
    *bucket = at;
}

/* What the file has from an earlier process: its chains begin with the file's own seed. */
static void recall_slots(struct kvpool *p)
{
    struct store *s = p->store;
    p->hash_seed = s->config.io.seed;
    for (uint32_t at = 0; at < s->config.slot_count; at++) {
        struct block_record r;
        struct slot *slot = &s->slots[at];
        if (!s->config.io.recall(s->config.io.ctx, at, &r))
            continue;
        struct chain chain = { r.chain_a, r.chain_b };
        if (store_find(p, chain, r.tokens) != SLOT_NONE)
            continue;
        slot->chain = chain;
        slot->sum = r.sum;
        memcpy(s->tokens[at], r.tokens, sizeof s->tokens[at]);
        slot_fill(s, at);
        s->stats.slots_used++;
        s->stats.recalled++;
    }
}

/* Tells the file what a slot holds now. */
static void note_slot(const struct store *s, uint32_t at, bool filled)
{
    const struct slot *slot = &s->slots[at];
    if (s->config.io.note == NULL)
        return;
    struct block_record r = { slot->chain.a, slot->chain.b, slot->sum, { 0 } };
    memcpy(r.tokens, s->tokens[at], sizeof r.tokens);
    s->config.io.note(s->config.io.ctx, at, filled ? &r : NULL);
}

enum rc kvpool_open_store(struct kvpool *p, const struct store_config *config, struct fault *fault)
{
    must(p->store == NULL && p->fresh == 0 && config->io.depth > 0);
    if (config->slot_count == 0 || config->slot_count > KVPOOL_BLOCKS_MAX)
        return fault_set(fault, RC_INVALID, "block file of %u blocks: 1..%u are possible",
                         config->slot_count, KVPOOL_BLOCKS_MAX);
    uint32_t buckets = 64;
    while (buckets < 2 * config->slot_count)
        buckets *= 2;
    struct store *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return fault_set(fault, RC_NO_MEMORY, "block store: out of memory");
    s->config = *config;
    s->slots = mem_alloc_array(config->slot_count, sizeof *s->slots);
    s->tokens = mem_alloc_raw(config->slot_count * sizeof *s->tokens);
    s->buckets = mem_alloc_raw(buckets * sizeof *s->buckets);
    s->transfers = mem_alloc_array(config->io.depth, sizeof *s->transfers);
    s->first_waiting = s->last_waiting = BLOCK_NONE;
    s->bucket_mask = buckets - 1;
    s->stats.slots_total = config->slot_count;
    if (!s->slots || !s->tokens || !s->buckets || !s->transfers) {
        store_close(s, p);
        return fault_set(fault, RC_NO_MEMORY, "block store: out of memory for %u slots",
                         config->slot_count);
    }
    for (uint32_t i = 0; i < buckets; i++)
        s->buckets[i] = SLOT_NONE;
    for (uint32_t i = 0; i < config->slot_count; i++)
        s->slots[i].block = BLOCK_NONE;
    p->store = s;
    s->day_begin_us = clock_now_us(&s->config.clock) - config->io.day_age_us; /* may wrap */
    s->day_bytes = config->io.day_bytes;
    if (config->io.recall != NULL)
        recall_slots(p);
    return RC_OK;
}

static uint64_t sum_bytes(const struct kvpool *p, uint32_t block)
{
    if (p->base == NULL)
        return 0;
    const char *at = p->base + (size_t)block * p->block_bytes;
    return hash_bytes((struct hash){ 0 }, at, p->block_bytes).a;
}

uint32_t store_find(const struct kvpool *p, struct chain chain, const int32_t *tokens)
{
    const struct store *s = p->store;
    if (s == NULL)
        return SLOT_NONE;
    uint32_t at = s->buckets[(uint32_t)chain.b & s->bucket_mask];
    for (; at != SLOT_NONE; at = s->slots[at].hash_next)
        if (s->slots[at].chain.a == chain.a && s->slots[at].chain.b == chain.b &&
            memcmp(s->tokens[at], tokens, sizeof s->tokens[at]) == 0)
            return at;
    return SLOT_NONE;
}

/* Empties a filled slot: nobody reads it. */
static void slot_clear(struct kvpool *p, uint32_t at)
{
    struct store *s = p->store;
    struct slot *slot = &s->slots[at];
    must(slot->state == SLOT_FILLED && slot->readers == 0);
    uint32_t *link = &s->buckets[(uint32_t)slot->chain.b & s->bucket_mask];
    while (*link != at)
        link = &s->slots[*link].hash_next;
    *link = slot->hash_next;
    if (slot->block != BLOCK_NONE)
        evict_owe(p, slot->block, p->blocks[slot->block].owed, SLOT_NONE);
    *slot = (struct slot){ .block = BLOCK_NONE };
    s->stats.slots_used--;
}

/* Whether a block in memory may be evicted only because this slot has it. Giving the slot to
 * another block would save one and expose one, and so on for ever. */
static bool keeps_clean(const struct kvpool *p, const struct slot *slot)
{
    return slot->block != BLOCK_NONE && p->blocks[slot->block].owed;
}

/* A slot to write to, or SLOT_NONE when all are in use. */
static uint32_t slot_take(struct kvpool *p)
{
    struct store *s = p->store;
    for (uint32_t looked = 0; looked < 2 * s->config.slot_count; looked++) {
        uint32_t at = s->hand;
        struct slot *slot = &s->slots[at];
        s->hand = at + 1 < s->config.slot_count ? at + 1 : 0;
        bool others = s->stats.slots_used < s->config.slot_count; /* that are free */
        if (slot->state == SLOT_FILLING || slot->readers > 0 || keeps_clean(p, slot) ||
            (slot->state == SLOT_FILLED && others))
            continue;
        if (slot->state == SLOT_FILLED && slot->wanted) {
            slot->wanted = false;
            continue;
        }
        if (slot->state == SLOT_FILLED)
            slot_clear(p, at);
        slot->state = SLOT_FILLING;
        s->stats.slots_used++;
        return at;
    }
    return SLOT_NONE;
}

static uint64_t block_cost_bytes(const struct kvpool *p)
{
    uint64_t told = p->store->config.block_bytes;
    return p->block_bytes > 0 ? p->block_bytes : told > 0 ? told : 1;
}

/* Whether writing is allowed today and cheaper than computing again. */
static bool write_allowed(struct kvpool *p)
{
    struct store *s = p->store;
    s->day_now_us = clock_now_us(&s->config.clock);
    if (s->day_now_us - s->day_begin_us >= DAY_US) {
        s->day_begin_us = s->day_now_us;
        s->day_bytes = 0;
    }
    if (s->config.write_bytes_day > 0 &&
        s->day_bytes + block_cost_bytes(p) > s->config.write_bytes_day)
        return false;
    return s->token_us == 0 ||
           (uint64_t)s->stats.write_us + s->stats.read_us < (uint64_t)s->token_us * KV_BLOCK_TOKENS;
}

static bool transfer_start(struct kvpool *p, bool write, uint32_t block, uint32_t slot)
{
    struct store *s = p->store;
    if (s->busy == s->config.io.depth)
        return false;
    uint32_t tag = 0;
    while (s->transfers[tag].busy)
        tag++;
    uint64_t begin_us = clock_now_us(&s->config.clock);
    if (s->config.io.start(s->config.io.ctx, write, slot, block, tag) != RC_OK)
        return false;
    s->transfers[tag] = (struct transfer){
        .block = block,
        .gen = p->blocks[block].gen,
        .slot = slot,
        .under_way = s->busy + 1,
        .begin_us = begin_us,
        .start_us = clock_now_us(&s->config.clock) - begin_us,
        .poll = s->polls,
        .busy = true,
        .write = write,
    };
    s->busy++;
    s->busy_writes += write;
    return true;
}

static bool write_block(struct kvpool *p, uint32_t index)
{
    struct store *s = p->store;
    struct block *b = &p->blocks[index];
    must(b->valid == KV_BLOCK_TOKENS && b->io == IO_NONE);
    if (s->busy == s->config.io.depth || !write_allowed(p))
        return false;
    uint32_t at = slot_take(p);
    if (at == SLOT_NONE)
        return false;
    struct slot *slot = &s->slots[at];
    slot->chain = b->chain;
    slot->sum = sum_bytes(p, index);
    memcpy(s->tokens[at], p->tokens[index], sizeof s->tokens[at]);
    if (!transfer_start(p, true, index, at)) {
        *slot = (struct slot){ .block = BLOCK_NONE };
        s->stats.slots_used--;
        return false;
    }
    b->io = IO_WRITES;
    s->day_bytes += block_cost_bytes(p);
    if (s->config.io.spent != NULL)
        s->config.io.spent(s->config.io.ctx, s->day_bytes, s->day_now_us - s->day_begin_us);
    return true;
}

/* The next cached block from this one on, towards newer and on into PROTECTED, that would be
 * lost. */
static uint32_t next_dirty(const struct kvpool *p, uint32_t segment, uint32_t index)
{
    for (;; index = p->lru[++segment].oldest) {
        for (; index != BLOCK_NONE; index = p->blocks[index].lru_prev)
            if (block_dirty(&p->blocks[index]) && p->blocks[index].io == IO_NONE)
                return index;
        if (segment + 1 == SEGMENTS)
            return BLOCK_NONE;
    }
}

static uint32_t first_dirty(const struct kvpool *p)
{
    return next_dirty(p, SEGMENT_PROBATION, p->lru[SEGMENT_PROBATION].oldest);
}

uint32_t store_save(struct kvpool *p, uint32_t want)
{
    struct store *s = p->store;
    if (s == NULL)
        return 0;
    uint32_t index = first_dirty(p);
    while (s->busy_writes < want && index != BLOCK_NONE && write_block(p, index))
        index = next_dirty(p, p->blocks[index].segment, p->blocks[index].lru_prev);
    return s->busy_writes;
}

/* Whether a block should be written for the next process. */
static bool untidy(const struct block *b)
{
    return (b->state == BLOCK_USED || b->state == BLOCK_CACHED) && b->linked && !b->tidied &&
           b->valid == KV_BLOCK_TOKENS && b->io == IO_NONE && b->slot == SLOT_NONE;
}

/* Looks at so many blocks, on from where the last call stopped. */
static void tidy_some(struct kvpool *p, uint32_t looks, uint32_t want)
{
    struct store *s = p->store;
    for (; looks > 0 && s->busy_writes < want; looks--) {
        uint32_t index = s->tidy_at < p->fresh ? s->tidy_at : 0;
        struct block *b = &p->blocks[index];
        s->tidy_at = index + 1;
        if (index >= p->fresh || !untidy(b))
            continue;
        b->tidied = store_find(p, b->chain, p->tokens[index]) != SLOT_NONE || !write_allowed(p) ||
                    write_block(p, index);
    }
}

uint32_t store_tidy(struct kvpool *p, uint32_t want)
{
    struct store *s = p->store;
    if (s == NULL)
        return 0;
    if (s->config.keep && p->keep)
        tidy_some(p, TIDY_LOOKS, want);
    return s->busy_writes;
}

bool store_give_up(struct kvpool *p)
{
    uint32_t index = p->store != NULL ? first_dirty(p) : BLOCK_NONE;
    if (index == BLOCK_NONE)
        return false;
    evict_owe(p, index, false, SLOT_NONE);
    return true;
}

void store_owe(struct kvpool *p, uint32_t index)
{
    struct store *s = p->store;
    struct block *b = &p->blocks[index];
    uint32_t slot = b->slot;
    if (slot == SLOT_NONE && b->io == IO_NONE)
        slot = store_find(p, b->chain, p->tokens[index]);
    bool linked = slot != SLOT_NONE && (slot == b->slot || s->slots[slot].block == BLOCK_NONE);
    if (linked)
        s->slots[slot].block = index;
    else if (slot != SLOT_NONE)
        return; /* a twin's: nothing would be lost with this block */
    evict_owe(p, index, true, slot);
}

void store_forget(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    if (b->slot == SLOT_NONE)
        return;
    p->store->slots[b->slot].block = BLOCK_NONE;
    b->slot = SLOT_NONE;
}

static void pin(struct kvpool *p, uint32_t index)
{
    p->blocks[index].ref++;
    p->blocks[index].pins++;
}

/* A block that waits to be read, and the block before it, stay whatever their sequences do. */
void store_load(struct kvpool *p, uint32_t index, uint32_t slot)
{
    struct store *s = p->store;
    struct block *b = &p->blocks[index];
    must(b->valid == 0 && b->io == IO_NONE && s->slots[slot].state == SLOT_FILLED);
    s->slots[slot].readers++;
    s->slots[slot].wanted = true;
    pin(p, index);
    b->holds_parent = b->parent != BLOCK_NONE;
    if (b->holds_parent)
        pin(p, b->parent);
    b->io = IO_WAITS;
    b->lru_prev = slot; /* of no use otherwise while the block is used */
    b->lru_next = BLOCK_NONE;
    *(s->last_waiting != BLOCK_NONE ? &p->blocks[s->last_waiting].lru_next : &s->first_waiting) =
        index;
    s->last_waiting = index;
}

/* The reading of a block is over. */
static void end_load(struct kvpool *p, uint32_t index, uint32_t slot, bool good)
{
    struct block *b = &p->blocks[index];
    b->io = IO_NONE;
    must(p->store->slots[slot].readers > 0);
    p->store->slots[slot].readers--;
    b->valid = good ? KV_BLOCK_TOKENS : 0;
    pool_unpin(p, index);
}

/* Starts what may be read now: blocks whose parent is whole. A block whose parent could not be
 * read, so that it is being computed again, is computed as well; one that nobody wants any more
 * is let go. */
static void start_waiting(struct kvpool *p)
{
    struct store *s = p->store;
    uint32_t before = BLOCK_NONE, next;
    for (uint32_t index = s->first_waiting; index != BLOCK_NONE; index = next) {
        struct block *b = &p->blocks[index];
        const struct block *parent = b->parent != BLOCK_NONE ? &p->blocks[b->parent] : NULL;
        bool held = b->ref > b->pins; /* else its sequences are gone */
        bool whole = parent == NULL || parent->valid == KV_BLOCK_TOKENS;
        uint32_t slot = b->lru_prev;
        next = b->lru_next;
        if (held && whole ? !transfer_start(p, false, index, slot)
                          : held && parent->io != IO_NONE) {
            before = index;
            continue;
        }
        *(before != BLOCK_NONE ? &p->blocks[before].lru_next : &s->first_waiting) = next;
        if (s->last_waiting == index)
            s->last_waiting = before;
        b->io = IO_READS;
        if (!held || !whole)
            end_load(p, index, slot, false);
    }
}

static void end_write(struct kvpool *p, const struct transfer *t, bool good)
{
    struct store *s = p->store;
    struct slot *slot = &s->slots[t->slot];
    struct block *b = &p->blocks[t->block];
    b->io = IO_NONE;
    bool twin = store_find(p, slot->chain, s->tokens[t->slot]) != SLOT_NONE;
    if (!good || twin) {
        *slot = (struct slot){ .block = BLOCK_NONE };
        s->stats.slots_used--;
        evict_owe(p, t->block, false, SLOT_NONE);
        return;
    }
    slot->block = t->block;
    slot_fill(s, t->slot);
    note_slot(s, t->slot, true);
    evict_owe(p, t->block, b->owed, t->slot);
    s->stats.writes++;
}

static void end_read(struct kvpool *p, const struct transfer *t, bool good)
{
    struct slot *slot = &p->store->slots[t->slot];
    struct block *b = &p->blocks[t->block];
    good = good && sum_bytes(p, t->block) == slot->sum;
    if (good && slot->block == BLOCK_NONE) {
        slot->block = t->block;
        b->slot = t->slot;
    }
    p->store->stats.reads += good;
    end_load(p, t->block, t->slot, good);
    if (!good && slot->readers == 0) {
        slot_clear(p, t->slot);
        note_slot(p->store, t->slot, false);
    }
}

static uint32_t running_mean(uint32_t mean, uint64_t value)
{
    uint64_t sum = mean == 0 ? value : (7 * (uint64_t)mean + value + 7) / 8;
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* How long a transfer has taken, for the mean. An end that nobody slept for was maybe there long
 * ago: it says only that it took no longer than that, and no less than starting it. */
static void time_transfer(struct store *s, const struct transfer *t, bool slept)
{
    uint64_t us = (clock_now_us(&s->config.clock) - t->begin_us) / t->under_way;
    uint32_t *mean_us = t->write ? &s->stats.write_us : &s->stats.read_us;
    bool fresh = slept && s->polls - t->poll <= 1;
    if (fresh || us < *mean_us)
        *mean_us = running_mean(*mean_us, us);
    else if (t->start_us > *mean_us)
        *mean_us = running_mean(*mean_us, t->start_us);
}

static void end_transfer(struct kvpool *p, const struct blockio_end *end, bool slept)
{
    struct store *s = p->store;
    must(end->tag < s->config.io.depth && s->transfers[end->tag].busy);
    struct transfer *t = &s->transfers[end->tag];
    must(p->blocks[t->block].gen == t->gen); /* I7 */
    bool good = end->rc == RC_OK;
    if (s->config.chaos_io > 0 && ++s->ends % s->config.chaos_io == 0)
        good = false;
    s->stats.failures += !good;
    time_transfer(s, t, slept);
    t->busy = false;
    s->busy--;
    s->busy_writes -= t->write;
    if (t->write)
        end_write(p, t, good);
    else
        end_read(p, t, good);
}

bool store_busy(const struct kvpool *p)
{
    const struct store *s = p->store;
    return s != NULL && (s->busy > 0 || s->first_waiting != BLOCK_NONE);
}

bool store_poll(struct kvpool *p, bool wait)
{
    struct store *s = p->store;
    if (s == NULL)
        return false;
    s->polls++;
    start_waiting(p);
    struct blockio_end ends[ENDS_AT_ONCE];
    uint32_t count;
    do {
        count = s->busy > 0 ? s->config.io.collect(s->config.io.ctx, ends, ENDS_AT_ONCE, wait) : 0;
        for (uint32_t i = 0; i < count; i++)
            end_transfer(p, &ends[i], wait);
        wait = false;
    } while (count == ENDS_AT_ONCE);
    start_waiting(p);
    return store_busy(p);
}

void store_set_token_us(struct kvpool *p, uint32_t token_us)
{
    if (p->store != NULL)
        p->store->token_us = token_us;
}

struct store_stats store_stats_get(const struct kvpool *p)
{
    return p->store != NULL ? p->store->stats : (struct store_stats){ 0 };
}

uint32_t store_audit(const struct kvpool *p)
{
    const struct store *s = p->store;
    uint32_t used = 0;
    if (s == NULL)
        return SLOT_NONE;
    for (uint32_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].state != BLOCK_FREE && p->blocks[i].slot != SLOT_NONE &&
            s->slots[p->blocks[i].slot].block != i)
            return p->blocks[i].slot;
    for (uint32_t at = 0; at < s->config.slot_count; at++) {
        const struct slot *slot = &s->slots[at];
        used += slot->state != SLOT_FREE;
        if (slot->state == SLOT_FILLED && store_find(p, slot->chain, s->tokens[at]) != at)
            return at;
        if (slot->block == BLOCK_NONE)
            continue;
        const struct block *b = &p->blocks[slot->block];
        if (slot->state != SLOT_FILLED || b->slot != at || b->state == BLOCK_FREE ||
            memcmp(p->tokens[slot->block], s->tokens[at], sizeof s->tokens[at]) != 0)
            return at;
    }
    return used == s->stats.slots_used ? SLOT_NONE : 0;
}

/* All that is still to be written for the next process; false: nothing is under way any more. */
static bool tidy_all(struct kvpool *p)
{
    struct store *s = p->store;
    if (s->config.keep && p->keep)
        tidy_some(p, p->fresh, s->config.io.depth);
    return s->busy > 0;
}

void store_flush(struct kvpool *p)
{
    while (p->store != NULL && tidy_all(p))
        store_poll(p, true);
}

void store_close(struct store *s, struct kvpool *p)
{
    if (s == NULL)
        return;
    if (p->store == s)
        store_flush(p);
    p->store = NULL;
    mem_free(s->transfers);
    mem_free(s->buckets);
    mem_free(s->tokens);
    mem_free(s->slots);
    mem_free(s);
}
