/* SPDX-License-Identifier: MIT */
/* batch_window - which of the lines that wait goes next: the one whose prompt has most in common
 * with the one taken last, among equals the one with the longest answer, among these the first. A
 * line that was passed over often enough goes before all: nobody waits for more than PATIENCE
 * windows. */
#include "frontend/batch/batch_job.h"

enum { HEAD_BYTES = 4096, PATIENCE = 4 };

static size_t common_head(const struct text *last, const struct batch_line *line)
{
    const char *head = line->head;
    size_t most = last->len < line->head_bytes ? last->len : line->head_bytes, n = 0;
    while (n < most && last->data[n] == head[n])
        n++;
    return n;
}

/* Keeps the beginning of the prompt, which goes away with its line. Without memory the next choice
 * is only a worse one. */
static void remember(struct batch_job *b, const struct batch_line *line)
{
    b->last.len = 0;
    size_t len = line->head_bytes < HEAD_BYTES ? line->head_bytes : HEAD_BYTES;
    if (len > 0 && text_append(&b->last, line->head, len) != RC_OK)
        b->last.len = 0;
}

struct batch_line *batch_window_next(struct batch_job *b)
{
    struct batch_line *best = NULL;
    size_t best_common = 0;
    for (uint32_t i = 0; i < b->line_max; i++) {
        struct batch_line *line = &b->lines[i];
        if (line->state != LINE_WAITING)
            continue;
        bool overdue = line->waited >= PATIENCE * b->line_max;
        size_t common = overdue ? SIZE_MAX : common_head(&b->last, line);
        bool better = best == NULL || common > best_common;
        if (!better && common == best_common && line->answer_max != best->answer_max)
            better = !overdue && line->answer_max > best->answer_max;
        else if (!better && common == best_common)
            better = line->order < best->order;
        if (better) {
            best = line;
            best_common = common;
        }
    }
    for (uint32_t i = 0; best != NULL && i < b->line_max; i++)
        if (b->lines[i].state == LINE_WAITING && &b->lines[i] != best &&
            b->lines[i].waited < BATCH_WAITED_MAX)
            b->lines[i].waited++;
    if (best != NULL)
        remember(b, best);
    return best;
}
