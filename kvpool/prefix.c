/* SPDX-License-Identifier: MIT */
/* prefix - one block's life as tokens come:
 *
 *   acquired    tokens of a whole block known: in the index at once, so that a sequence admitted in
 *               this very step finds it. Otherwise open: found by its first tokens only
 *   claimed     one plan's rows go into it; valid grows when they are committed
 *   full        valid = 32: never written again. An open one is merged with an equal one, if there
 *               is one, or enters the index
 *   dropped     see evict.c
 *
 * Who fills a shared block is not fixed: whoever is planned first and stands at its first missing
 * token claims it for that step, everybody else who needs it waits for that step. So nothing has to
 * be handed over when a sequence is cancelled or preempted in the middle of a block, no order of
 * service is turned around by sharing, and nobody waits for somebody who is not being computed.
 *
 * Only the last known token of a sequence has to be computed by itself, for its logits:
 * reuse_max leaves it out, and so does publishing, because a block that holds it may get its
 * keys from another sequence. */
#include "kvpool/prefix.h"

#include <string.h>

#include "core/must.h"
#include "kvpool/internal.h"

#define SIBLINGS_MAX 64u /* children looked at for a fork: the latest */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What is there of a view: blocks in memory, then slots of the store. */
struct match {
    uint32_t blocks;
    uint32_t revived; /* of blocks: how many are cached and could be evicted now */
    uint32_t slots;
};

/* Fills table entries with block ids, then slot numbers. */
static struct match match_view(const struct kvpool *p, const struct prefix_view *view,
                               uint32_t *out)
{
    struct match m = { 0 };
    struct chain chain = { 0 };
    uint32_t whole = view->reuse_max / KV_BLOCK_TOKENS, parent = BLOCK_NONE;
    for (; m.blocks + m.slots < whole; out++) {
        const int32_t *tokens = &view->tokens[(m.blocks + m.slots) * KV_BLOCK_TOKENS];
        uint32_t found = BLOCK_NONE;
        if (m.slots == 0) {
            chain = trie_chain(p, parent, view->salt, tokens);
            found = trie_find(p, parent, view->salt, tokens, chain);
        } else {
            chain = trie_extend_chain(chain, tokens);
        }
        if (found != BLOCK_NONE) {
            const struct block *b = &p->blocks[found];
            m.revived += b->state == BLOCK_CACHED && !block_dirty(b);
            m.blocks++;
            *out = parent = found;
            continue;
        }
        *out = store_find(p, chain, tokens);
        if (*out == SLOT_NONE)
            break;
        m.slots++;
    }
    return m;
}

static void take_over(struct kvpool *p, uint32_t index)
{
    struct block *b = &p->blocks[index];
    if (b->state == BLOCK_CACHED)
        evict_revive(p, index);
    b->segment = SEGMENT_PROTECTED;
    b->ref++;
}

static void publish(struct kvpool *p, uint32_t index, const int32_t *tokens)
{
    const struct block *b = &p->blocks[index];
    memcpy(p->tokens[index], tokens, sizeof p->tokens[index]);
    trie_index(p, index, trie_chain(p, b->parent, b->salt, tokens));
}

/* A block at the end of the table: read from a slot, or fresh; in the index at once when all its
 * tokens are known and may be shared. */
static void append_block(struct block_table *t, struct kvpool *p, const struct prefix_view *view,
                         uint32_t slot)
{
    uint32_t begin = t->count * KV_BLOCK_TOKENS;
    uint32_t index = table_append(t, p);
    if (slot != SLOT_NONE || (view->publish && begin + KV_BLOCK_TOKENS < view->known))
        publish(p, index, &view->tokens[begin]);
    if (slot != SLOT_NONE)
        store_load(p, index, slot);
}

/* Of the blocks that are available, how many taking the match and the rest would use. */
static uint64_t need_of(const struct match *m, const struct prefix_view *view)
{
    return (uint64_t)kv_blocks_for(view->known) - m->blocks + m->revived;
}

uint64_t table_need(struct block_table *t, const struct kvpool *p, const struct prefix_view *view)
{
    must(t->count == 0);
    struct match m = match_view(p, view, t->blocks);
    return need_of(&m, view);
}

enum rc table_acquire(struct block_table *t, struct kvpool *p, const struct prefix_view *view)
{
    must(t->count == 0 && view->reuse_max < view->known);
    uint32_t total = kv_blocks_for(view->known);
    must(total <= t->capacity);
    struct match m = match_view(p, view, t->blocks);
    if (need_of(&m, view) > kvpool_available_count(p))
        return RC_FULL;
    for (uint32_t i = 0; i < m.blocks; i++)
        take_over(p, t->blocks[i]);
    t->count = m.blocks;
    t->salt = view->salt;
    t->own = 0;
    if (!evict_ensure(p, total - m.blocks)) {
        table_truncate(t, p, 0);
        return RC_FULL;
    }
    p->stats.hit_blocks += m.blocks;
    while (t->count < total)
        append_block(t, p, view, t->count < m.blocks + m.slots ? t->blocks[t->count] : SLOT_NONE);
    return RC_OK;
}

uint32_t prefix_advance(const struct block_table *t, const struct kvpool *p,
                        const struct prefix_view *view, uint32_t computed)
{
    while (computed < view->reuse_max) {
        uint32_t i = computed / KV_BLOCK_TOKENS;
        uint32_t reach = i * KV_BLOCK_TOKENS + p->blocks[t->blocks[i]].valid;
        if (reach <= computed)
            break;
        computed = min_u32(reach, view->reuse_max);
    }
    return computed;
}

/* Tokens that both begin with. */
static uint32_t common_run(const int32_t *a, const int32_t *b, uint32_t max)
{
    uint32_t n = 0;
    while (n < max && a[n] == b[n])
        n++;
    return n;
}

struct prefix_turn prefix_turn_of(const struct block_table *t, struct kvpool *p,
                                  const struct prefix_view *view, uint32_t computed, uint64_t step)
{
    struct prefix_turn turn = { .copy_from = BLOCK_NONE };
    uint32_t i = computed / KV_BLOCK_TOKENS;
    uint32_t self = t->blocks[i];
    turn.reads = p->blocks[self].io != IO_NONE;
    turn.wait = turn.reads || p->blocks[self].claim_step == step;
    if (turn.wait || computed % KV_BLOCK_TOKENS != 0 || computed >= view->reuse_max)
        return turn;
    uint32_t max = min_u32(view->reuse_max - computed, KV_BLOCK_TOKENS);
    /* The row after the copy goes into the next block, unless that is being read. */
    if (max == KV_BLOCK_TOKENS && p->blocks[t->blocks[i + 1]].io != IO_NONE)
        max--;
    uint32_t coming = 0, looked = 0;
    uint32_t at = trie_first_child(p, p->blocks[self].parent, view->salt);
    for (; at != BLOCK_NONE && looked < SIBLINGS_MAX; at = p->blocks[at].sib_next, looked++) {
        const struct block *b = &p->blocks[at];
        bool claimed = b->claim_step == step;
        uint32_t known = claimed ? b->claim_valid : b->valid;
        if (at == self || b->salt != view->salt || known < FORK_TOKENS)
            continue;
        uint32_t run = common_run(p->tokens[at], &view->tokens[computed], min_u32(max, known));
        coming = run > coming ? run : coming;
        if (min_u32(run, b->valid) > turn.copy_tokens) {
            turn.copy_tokens = min_u32(run, b->valid);
            turn.copy_from = at;
        }
    }
    if (turn.copy_tokens < FORK_TOKENS)
        turn.copy_tokens = 0;
    turn.wait = coming >= turn.copy_tokens + FORK_TOKENS;
    if (turn.wait)
        turn.copy_tokens = 0;
    if (turn.copy_tokens > 0) {
        take_over(p, turn.copy_from);
        p->blocks[turn.copy_from].pins++;
        p->stats.fork_tokens += turn.copy_tokens;
    }
    return turn;
}

uint32_t prefix_writable(const struct block_table *t, const struct kvpool *p, uint32_t begin,
                         uint32_t count)
{
    for (uint32_t i = begin / KV_BLOCK_TOKENS; i * KV_BLOCK_TOKENS < begin + count; i++)
        if (p->blocks[t->blocks[i]].io != IO_NONE)
            return i * KV_BLOCK_TOKENS - begin;
    return count;
}

void prefix_claim(const struct block_table *t, struct kvpool *p, const int32_t *tokens,
                  uint32_t begin, uint32_t end, uint64_t step)
{
    for (uint32_t first = begin / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS; first < end;
         first += KV_BLOCK_TOKENS) {
        uint32_t index = t->blocks[first / KV_BLOCK_TOKENS];
        uint32_t upto = min_u32(end - first, KV_BLOCK_TOKENS);
        struct block *b = &p->blocks[index];
        must(b->claim_step != step && b->io == IO_NONE); /* I3 */
        must(b->indexed || b->ref - b->pins == 1);
        must(b->valid < KV_BLOCK_TOKENS);
        b->claim_step = step;
        b->claim_valid = (uint8_t)upto;
        for (uint32_t at = b->indexed ? upto : b->valid; at < upto; at++)
            p->tokens[index][at] = tokens[first + at];
    }
}

void prefix_copied(struct kvpool *p, uint32_t block)
{
    pool_unpin(p, block);
}

/* An open block is full: one of two equal blocks goes, or this one can be found from now on. */
static void seal(struct block_table *t, struct kvpool *p, uint32_t i)
{
    uint32_t index = t->blocks[i];
    struct block *b = &p->blocks[index];
    struct chain chain = trie_chain(p, b->parent, b->salt, p->tokens[index]);
    uint32_t twin = trie_find(p, b->parent, b->salt, p->tokens[index], chain);
    b->chain = chain;
    if (twin == BLOCK_NONE) {
        trie_index(p, index, chain);
        return;
    }
    if (p->blocks[twin].valid < KV_BLOCK_TOKENS)
        return; /* being filled by others: both stay, this one is not offered */
    take_over(p, twin);
    trie_adopt_children(p, twin, index);
    t->blocks[i] = twin;
    p->stats.merged_blocks++;
    must(b->ref == 1);
    b->valid = 0; /* not worth keeping */
    kvpool_drop_block(p, (struct block_id){ index });
}

void prefix_commit(struct block_table *t, struct kvpool *p, uint32_t begin, uint32_t computed)
{
    uint32_t whole = computed / KV_BLOCK_TOKENS;
    if (computed % KV_BLOCK_TOKENS != 0)
        p->blocks[t->blocks[whole]].valid = (uint8_t)(computed % KV_BLOCK_TOKENS);
    for (uint32_t i = begin / KV_BLOCK_TOKENS; i < whole; i++) {
        struct block *b = &p->blocks[t->blocks[i]];
        b->valid = KV_BLOCK_TOKENS;
        if (!b->indexed)
            seal(t, p, i);
    }
}
