/* SPDX-License-Identifier: MIT */
/* generation - request -> detok -> stop -> text.
 *   1. A stop id is the last token of a request and is no text.
 *   2. After a stop text the request is cancelled, and its later tokens are not read: what comes
 *      out does not depend on how far the scheduler had got.
 *   3. At any other end, what detok and stop hold back comes out. */
#include "frontend/api/generation.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"

const char *finish_text(enum finish finish)
{
    switch (finish) {
    case FINISH_STOP:
        return "stop";
    case FINISH_LENGTH:
        return "length";
    case FINISH_CANCELLED:
        return "cancelled";
    case FINISH_ERROR:
        return "error";
    case FINISH_EXPIRED:
        return "expired";
    case FINISH_NONE:
        break;
    }
    return "none";
}

enum rc generation_open(struct generation *g, const struct tokenizer *t,
                        const struct completion_params *p, const struct request_params *r,
                        struct fault *fault)
{
    *g = (struct generation){ .include_stop_text = p->include_stop_text,
                              .min_tokens = r->min_tokens };
    detok_open(&g->detok, t, true, false);
    detok_show(&g->detok, p->shown_ids, p->shown_id_count);
    memcpy(g->stop_ids, r->stop_ids, sizeof g->stop_ids);
    g->stop_id_count = r->stop_id_count;
    for (uint32_t i = 0; i < p->stop_count; i++) {
        enum rc rc = stop_add(&g->stop, p->stops[i].text, p->stops[i].len, fault);
        if (rc != RC_OK) {
            stop_close(&g->stop);
            return rc;
        }
    }
    return RC_OK;
}

void generation_begin(struct generation *g, struct sched *s, struct request *r)
{
    must(g->request == NULL);
    g->sched = s;
    g->request = r;
}

static uint32_t count_chars(const char *text, size_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static enum rc note_token(struct generation *g)
{
    size_t needed = (g->token_count + 1) * sizeof *g->offsets;
    if (needed > g->offset_bytes) {
        size_t bytes = g->offset_bytes == 0 ? 256 : g->offset_bytes * 2;
        uint32_t *grown = mem_grow(g->offsets, g->offset_bytes, bytes);
        if (grown == NULL)
            return RC_NO_MEMORY;
        g->offsets = grown;
        g->offset_bytes = bytes;
    }
    g->offsets[g->token_count++] = g->chars;
    return RC_OK;
}

/* What the detokenizer has completed goes through the stop texts. */
static enum rc pass_piece(struct generation *g)
{
    bool was_hit = g->stop.hit;
    g->chars += count_chars(g->piece.data, g->piece.len);
    enum rc rc = stop_push(&g->stop, g->piece.data, g->piece.len, &g->text);
    g->piece.len = 0;
    if (rc == RC_OK && g->include_stop_text && g->stop.hit && !was_hit)
        rc = text_append(&g->text, g->stop.hit_text, g->stop.hit_len);
    return rc;
}

static enum rc take_token(struct generation *g, int32_t token)
{
    enum rc rc = note_token(g);
    for (uint32_t i = 0; i < g->stop_id_count; i++)
        if (g->stop_ids[i] == token)
            return rc;
    g->stop.deaf = g->token_count <= g->min_tokens;
    if (rc == RC_OK)
        rc = detok_push(&g->detok, token, &g->piece);
    return rc == RC_OK ? pass_piece(g) : rc;
}

static enum rc flush(struct generation *g)
{
    enum rc rc = detok_flush(&g->detok, &g->piece);
    if (rc == RC_OK)
        rc = pass_piece(g);
    return rc == RC_OK ? stop_flush(&g->stop, &g->text) : rc;
}

/* The last step: what came before is taken. */
static void end(struct generation *g, enum finish finish)
{
    if (g->error == RC_OK && finish == FINISH_ERROR)
        g->error = request_error(g->request);
    if (g->error == RC_OK)
        g->error = flush(g);
    g->ended = true;
    bool stopped = g->stop.hit || g->closed;
    g->finish = g->error != RC_OK ? FINISH_ERROR : stopped ? FINISH_STOP : finish;
}

bool generation_step(struct generation *g)
{
    if (g->ended || g->request == NULL)
        return false;
    enum finish finish = request_finish(g->request); /* first: then the count below is final */
    uint32_t count = request_output_count(g->request);
    bool open = g->error == RC_OK && !g->stop.hit && !g->closed;
    if (open && g->token_count < count) {
        g->error = take_token(g, request_token(g->request, g->token_count));
        if (g->stop.hit || g->error != RC_OK)
            request_cancel(g->request);
        return true;
    }
    if (finish != FINISH_NONE)
        end(g, finish);
    return g->ended;
}

void generation_take(struct generation *g)
{
    while (generation_step(g))
        continue;
}

void generation_cancel(struct generation *g)
{
    if (g->request != NULL && !g->ended)
        request_cancel(g->request);
}

void generation_finish(struct generation *g)
{
    g->closed = true;
    generation_cancel(g);
}

void generation_close(struct generation *g)
{
    if (g->request != NULL && g->ended)
        sched_release(g->sched, g->request);
    stop_close(&g->stop);
    text_close(&g->text);
    text_close(&g->piece);
    mem_free(g->offsets);
    *g = (struct generation){ 0 };
}
