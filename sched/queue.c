/* SPDX-License-Identifier: MIT */
/* queue - requests that wait, oldest first. A new request is the youngest and goes to the tail;
 * a preempted one is older than everything that never ran and is found near the head: both ends
 * are short walks. */
#include "core/must.h"
#include "sched/record.h"

void queue_insert(struct queue *q, struct request *r)
{
    struct sequence *seq = &r->seq;
    must(seq->prev == NULL && seq->next == NULL && q->head != r);
    if (q->tail == NULL || q->tail->seq.order < seq->order) {
        seq->prev = q->tail;
        *(q->tail != NULL ? &q->tail->seq.next : &q->head) = r;
        q->tail = r;
    } else {
        struct request *after = q->head;
        while (after->seq.order < seq->order)
            after = after->seq.next;
        seq->next = after;
        seq->prev = after->seq.prev;
        *(seq->prev != NULL ? &seq->prev->seq.next : &q->head) = r;
        after->seq.prev = r;
    }
    q->count++;
}

void queue_remove(struct queue *q, struct request *r)
{
    struct sequence *seq = &r->seq;
    must(q->count > 0);
    must(seq->prev != NULL || q->head == r);
    if (q->cursor == r)
        q->cursor = seq->next;
    *(seq->prev != NULL ? &seq->prev->seq.next : &q->head) = seq->next;
    *(seq->next != NULL ? &seq->next->seq.prev : &q->tail) = seq->prev;
    seq->prev = seq->next = NULL;
    q->count--;
}
