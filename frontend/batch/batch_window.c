/* SPDX-License-Identifier: MIT */
/* batch_window - which of the lines that wait goes next: the one whose prompt has most in common
 * with the one taken last, among equals the one with the longest answer, among these the first. A
 * line that was passed over often enough goes before all: nobody waits for more than PATIENCE
 * windows. */
#include "core/mem.h"
#include "frontend/batch/batch_job.h"

enum { HEAD_TOKENS = 1024, PATIENCE = 4 };

static uint32_t common_head(const struct token_list *a, const struct token_list *b)
{
    size_t most = a->count < b->count ? a->count : b->count;
    uint32_t n = 0;
    while (n < most && n < HEAD_TOKENS && a->ids[n] == b->ids[n])
        n++;
    return n;
}

/* Longest answer that a line may get; -1 (to the end of the context) is longer than any. */
static uint64_t answer_tokens(const struct batch_line *line)
{
    return (uint64_t)line->run->params.max_tokens;
}

/* Keeps the beginning of the prompt, which goes away with its line. Without memory the next choice
 * is only a worse one. */
static void remember(struct batch_job *b, const struct token_list *prompt)
{
    b->last.count = 0;
    for (size_t i = 0; i < prompt->count && i < HEAD_TOKENS; i++)
        if (token_list_push(&b->last, prompt->ids[i]) != RC_OK)
            return;
}

struct batch_line *batch_window_next(struct batch_job *b)
{
    struct batch_line *best = NULL;
    uint32_t best_common = 0;
    for (uint32_t i = 0; i < b->line_max; i++) {
        struct batch_line *line = &b->lines[i];
        if (line->state != LINE_WAITING)
            continue;
        bool overdue = line->waited >= PATIENCE * b->line_max;
        uint32_t common = overdue ? UINT32_MAX : common_head(&b->last, &line->run->prompts[0]);
        bool better = best == NULL || common > best_common;
        if (!better && common == best_common && answer_tokens(line) != answer_tokens(best))
            better = !overdue && answer_tokens(line) > answer_tokens(best);
        else if (!better && common == best_common)
            better = line->order < best->order;
        if (better) {
            best = line;
            best_common = common;
        }
    }
    for (uint32_t i = 0; best != NULL && i < b->line_max; i++)
        if (b->lines[i].state == LINE_WAITING && &b->lines[i] != best)
            b->lines[i].waited++;
    if (best != NULL)
        remember(b, &best->run->prompts[0]);
    return best;
}
