/* SPDX-License-Identifier: MIT */
/* stream_plan - of each layer q k v o, then gate up down; with experts the router, then gate, up
 * and down of each expert in turn; last the output matrix. forward.c and forward_moe.c multiply in
 * this order, and every consumer visits the extents in it: an order that differs would stop the
 * step for ever. Embedding rows are few and read from the mapping. */
#include "kernels/stream_plan.h"

#include "core/mem.h"
#include "core/must.h"

struct list {
    struct stream_matrix *items; /* NULL: only count */
    uint32_t count;
    const struct gguf *g;
};

static void add(struct list *l, const struct weight *w, enum stream_use use, uint32_t choice)
{
    if (l->items != NULL) {
        uint32_t file;
        uint64_t offset;
        must(gguf_locate(l->g, w->data, &file, &offset));
        l->items[l->count] = (struct stream_matrix){ .data = w->data,
                                                     .rows = w->rows,
                                                     .row_bytes = w->row_bytes,
                                                     .fd = gguf_file_fd(l->g, file),
                                                     .offset = offset,
                                                     .use = use,
                                                     .choice = choice };
    }
    l->count++;
}

static void add_experts(struct list *l, const struct model *m, const struct weight *w,
                        uint32_t choice)
{
    for (uint32_t e = 0; e < m->expert_count; e++) {
        struct weight slice = weight_slice(w, e);
        add(l, &slice, STREAM_CHOSEN, choice);
    }
}

static void add_model(struct list *l, const struct model *m)
{
    uint32_t choices = 0;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const struct model_layer *layer = &m->layers[i];
        const struct weight *attention[] = { &layer->q, &layer->k, &layer->v, &layer->o };
        const struct weight *feed[] = { &layer->gate, &layer->up, &layer->down };
        bool mixture = layer->router.data != NULL;
        for (uint32_t k = 0; k < 4; k++)
            add(l, attention[k], STREAM_ALWAYS, 0);
        if (mixture)
            add(l, &layer->router, STREAM_ALWAYS, 0);
        for (uint32_t k = 0; k < 3; k++) {
            if (mixture)
                add_experts(l, m, feed[k], choices);
            else
                add(l, feed[k], STREAM_ALWAYS, 0);
        }
        choices += mixture;
    }
    add(l, &m->output, STREAM_OUTPUT, 0);
}

enum rc stream_plan_make(struct stream_matrix **out, uint32_t *count, const struct model *m,
                         const struct gguf *g)
{
    struct list l = { .g = g };
    add_model(&l, m);
    l.items = mem_alloc_array(l.count, sizeof *l.items);
    if (l.items == NULL)
        return RC_NO_MEMORY;
    l.count = 0;
    add_model(&l, m);
    *out = l.items;
    *count = l.count;
    return RC_OK;
}
