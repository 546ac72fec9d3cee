/* SPDX-License-Identifier: MIT */
/* table - extending is all or nothing, so that a plan never holds half of what a sequence needs;
 * dropping goes from the tail, because a block is worth nothing without the ones before it. */
#include "kvpool/table.h"

#include "core/must.h"
#include "kvpool/internal.h"

static uint32_t blocks_lacking(const struct block_table *t, uint32_t token_count)
{
    uint32_t need = kv_blocks_for(token_count);
    return need > t->count ? need - t->count : 0;
}

uint32_t table_append(struct block_table *t, struct kvpool *p)
{
    struct block_id id;
    enum rc rc = kvpool_take_block(&id, p);
    must(rc == RC_OK); /* counted before */
    must(t->count < t->capacity);
    trie_link(p, id.index, t->count > 0 ? t->blocks[t->count - 1] : BLOCK_NONE, t->salt);
    t->blocks[t->count++] = id.index;
    t->own++;
    return id.index;
}

enum rc table_extend(struct block_table *t, struct kvpool *p, uint32_t token_count)
{
    must(kv_blocks_for(token_count) <= t->capacity);
    if (!evict_ensure(p, blocks_lacking(t, token_count)))
        return RC_FULL;
    for (uint32_t n = blocks_lacking(t, token_count); n > 0; n--)
        table_append(t, p);
    return RC_OK;
}

void table_truncate(struct block_table *t, struct kvpool *p, uint32_t block_count)
{
    while (t->count > block_count)
        kvpool_drop_block(p, (struct block_id){ t->blocks[--t->count] });
}

uint32_t table_sole(const struct block_table *t, const struct kvpool *p, uint32_t *lost)
{
    uint32_t blocks = 0;
    *lost = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct block *b = &p->blocks[t->blocks[i]];
        if (b->ref - b->pins != 1)
            continue;
        blocks++;
        *lost += b->slot == SLOT_NONE ? b->valid : 0;
    }
    return blocks;
}

void table_park(struct block_table *t, struct kvpool *p)
{
    for (uint32_t i = 0; p->store != NULL && i < t->count; i++) {
        const struct block *b = &p->blocks[t->blocks[i]];
        if (b->valid == KV_BLOCK_TOKENS && !b->owed)
            store_owe(p, t->blocks[i]);
    }
    table_truncate(t, p, 0);
}
